/* What the memory of a step is for: sums to the byte, against lifetimes found in the graph itself.
 */
// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include "model/exec/exec_private.h"
#include "model/exec/mem_causes.h"
#include "model/exec/mem_report.h"
#include "model/transforms/amp.h"
#include "tests/model/random_program.h"
#include "tests/model/vit_step.h"

static size_t sum_of(const mr_mem_causes_t *c) {
  size_t sum = 0;
  for (int k = 0; k < MR_MEM_CAUSES; k++) sum += c->bytes[k];
  return sum;
}

/* ---- an oracle: which values are alive at an equation, by the graph's own readers ---- */

/* The last equation that reads v, through reshapes and the like; n_eqn for an output. */
static int last_read(const mr_fn_t *f, const mr_var_t *v) {
  int last = -1;
  for (int i = 0; i < f->n_out; i++)
    if (f->out[i] == v) last = f->n_eqn;
  for (int i = 0; i < f->n_eqn && last < f->n_eqn; i++)
    for (int k = 0; k < f->eqn[i]->n_in; k++) {
      if (f->eqn[i]->in[k] != v) continue;
      int there = f->eqn[i]->op->kind == MR_OP_ALIAS ? last_read(f, f->eqn[i]->out[0]) : i;
      if (there > last) last = there;
      if (i > last) last = i;
    }
  return last;
}

/* Whether v, of a fused loop's body, is `from` or what conversions and reshapes make of it; any of
   them if it is NULL. */
static bool only_converts(const mr_fn_t *body, const mr_var_t *v, const mr_var_t *from) {
  if (v == from) return true;
  if (!v->def) return false;
  bool convert = !strcmp(v->def->op->name, "convert_element_type");
  return (convert || v->def->op->kind == MR_OP_ALIAS) && only_converts(body, v->def->in[0], from);
}

/* Whether v has, in another dtype, the elements of an operand of its loop or of another result. */
static bool is_a_cast(const mr_var_t *v) {
  const mr_eqn_t *e = v->def;
  if (!strcmp(e->op->name, "convert_element_type")) return true;
  if (strcmp(e->op->name, "fused") != 0) return false;
  const mr_fn_t *body = mr_attr_called(e, "jaxpr");
  for (int k = 0; k < e->n_out; k++) {
    if (e->out[k] != v) continue;
    const mr_var_t *to = body->out[k];
    for (int i = 0; i < body->n_in; i++)
      if (body->in[i]->aval.dtype != to->aval.dtype && only_converts(body, to, body->in[i]))
        return true;
    for (int i = 0; i < body->n_out; i++)
      if (body->out[i]->aval.dtype != to->aval.dtype && only_converts(body, to, body->out[i]))
        return true;
  }
  return false;
}

/* Adds up what is alive at equation `at`; a value written over its operand counts instead of it. */
static void expect(const mr_exec_t *x, int at, size_t *values, size_t *casts, size_t *scratch) {
  const mr_fn_t *f = x->fn;
  size_t n = (size_t)x->plan.n_block + 1;
  const mr_var_t **in = calloc(n, sizeof(mr_var_t *));
  *values = *casts = 0;
  *scratch = at >= 0 ? x->call[at].scratch_bytes : 0;
  for (int i = 0; i <= at; i++)
    for (int k = 0; k < f->eqn[i]->n_out; k++) {
      const mr_var_t *v = f->eqn[i]->out[k];
      int b = x->plan.of_var[v->id];
      if (b < 0 || f->eqn[i]->op->kind == MR_OP_ALIAS) continue;
      if (x->plan.block[b].place == MR_BLOCK_ARENA && (last_read(f, v) >= at || i == at)) in[b] = v;
    }
  for (size_t b = 0; b + 1 < n; b++) {
    if (!in[b]) continue;
    *(is_a_cast(in[b]) ? casts : values) += mr_aval_bytes(&in[b]->aval);
  }
  free(in);
}

static void assert_divided(const char *name, mr_fn_t *f, mr_exec_t *x,
                           const mr_mem_parts_t *parts) {
  mr_diag_t diag = {0};
  mr_mem_causes_t c;
  size_t values, casts, scratch, literals = 0;
  if (mr_mem_causes_find(&c, x, parts, &diag) < 0) fail_msg("%s: %s", name, diag.text);
  for (int b = 0; b < x->plan.n_block; b++)
    if (x->plan.block[b].pinned && x->plan.block[b].place == MR_BLOCK_ARENA)
      literals += x->plan.block[b].bytes;
  expect(x, c.peak, &values, &casts, &scratch);
  size_t others = c.bytes[MR_MEM_ACTIVATIONS] + c.bytes[MR_MEM_FORWARD] + c.bytes[MR_MEM_UPDATE] +
                  c.bytes[MR_MEM_GRADIENTS] + c.bytes[MR_MEM_BACKWARD] + c.bytes[MR_MEM_EXCHANGE];
  if (sum_of(&c) != mr_exec_peak_bytes(x) || c.bytes[MR_MEM_CASTS] != casts || others != values ||
      c.bytes[MR_MEM_WORKSPACE] != scratch || c.bytes[MR_MEM_CONSTANTS] != literals)
    fail_msg(
        "%s: %zu of %zu bytes; %zu of casts, want %zu; %zu of values, want %zu; %zu of "
        "scratch, want %zu; %zu of literals, want %zu",
        name, sum_of(&c), mr_exec_peak_bytes(x), c.bytes[MR_MEM_CASTS], casts, others, values,
        c.bytes[MR_MEM_WORKSPACE], scratch, c.bytes[MR_MEM_CONSTANTS], literals);
}

static mr_exec_t *compiled(const char *name, mr_fn_t *f, int in_place) {
  mr_exec_t *x = NULL;
  mr_diag_t diag = {0};
  mr_compile_options_t o = {.in_place = in_place};
  if (mr_compile(f, &o, &x, &diag) < 0) fail_msg("%s: %s", name, diag.text);
  return x;
}

static void random_programs_and_their_gradients_add_up(void **state) {
  const char *text = getenv("MILLRACE_SEED");
  unsigned first = text ? (unsigned)strtoul(text, NULL, 10) : 0;
  print_message("150 programs from seed %u on\n", first);
  for (unsigned seed = first; seed < first + 150; seed++) {
    bool narrow;
    func_t q = random_program(seed, false, &narrow);
    mr_fn_t *d = q.forward_only ? make_jvp(&q) : make_vjp(&q), *g = NULL;
    mr_amp_policy_t p = mr_amp_usual(one_in(2) ? MR_BF16 : MR_F16);
    DO(&q, mr_amp(d, &p, &g, &diag));
    mr_exec_t *x = compiled(q.name, g, 0);
    const mr_fn_t *f = mr_exec_fn(x);
    mr_mem_parts_t parts = {.loss = f->out[under(f->n_out)]};
    assert_divided(q.name, g, x, one_in(4) ? NULL : &parts);
    mr_exec_destroy(x);
    mr_fn_destroy(g), mr_fn_destroy(d);
    func_fini(&q);
  }
}

static vit_t small_vit(mr_dtype_t dtype) {
  vit_t v = vit_default();
  v.model.layers = 2, v.model.embed = 32, v.model.mlp = 64, v.model.heads = 2;
  v.how.dtype = dtype;
  return v;
}

/* Steps of every dtype and way to keep the parameters. */
static void steps_of_every_dtype_add_up(void **state) {
  const mr_dtype_t dtype[] = {MR_F32, MR_BF16, MR_F16};
  for (int i = 0; i < 36; i++) {
    vit_t v = small_vit(dtype[i % 3]);
    mr_dtype_t kept = dtype[i / 3 % 3];
    mr_train_config_t t = mr_train_default(4);
    mr_params_t list = {0};
    mr_fn_t *f = NULL;
    char name[96];
    if (kept != MR_F32) *(i < 18 ? &v.how.values : &v.how.reads) = kept;
    if (i / 9 % 2) v.how.slots = MR_BF16, t.accumulate = 2;
    snprintf(name, sizeof name, "case %d", i);
    t.compute = v.how;
    mr_loss_t l = mr_vit_loss(&v.model);
    mr_diag_t diag = {0};
    if (mr_train_step_fn(&l, &t, &list, &f, &diag) < 0) fail_msg("%s: %s", name, diag.text);
    mr_exec_t *x = compiled(name, f, mr_train_step_in_place(&t, &list));
    mr_mem_parts_t parts = {.loss = mr_train_loss_of(mr_exec_fn(x)), .update = t.optim.def->name};
    assert_divided(name, f, x, &parts);
    mr_exec_destroy(x);
    mr_fn_destroy(f);
    mr_params_fini(&list);
  }
}

/* The gradients of all parts of a batch, whose sums the optimizer reads, are most of the memory of
   a step of small records. */
static void gradients_of_parts_are_gradients_of_parameters(void **state) {
  for (int ordered = 0; ordered < 2; ordered++) {
    vit_t v = small_vit(MR_F32);
    mr_train_config_t t = mr_train_default(4);
    mr_params_t list = {0};
    mr_fn_t *f = NULL;
    mr_diag_t diag = {0};
    mr_mem_causes_t c;
    v.model.image = 8, v.model.embed = 128, v.model.mlp = 512;
    *(ordered ? &t.ordered : &t.accumulate) = 4;
    t.compute = v.how;
    mr_loss_t l = mr_vit_loss(&v.model);
    if (mr_train_step_fn(&l, &t, &list, &f, &diag) < 0) fail_msg("%s", diag.text);
    mr_exec_t *x = compiled("parts", f, mr_train_step_in_place(&t, &list));
    mr_mem_parts_t parts = {.loss = mr_train_loss_of(mr_exec_fn(x)), .update = t.optim.def->name};
    assert_int_equal(mr_mem_causes_find(&c, x, &parts, &diag), MR_OK);
    if (c.bytes[MR_MEM_GRADIENTS] < sum_of(&c) / 4 * 3)
      fail_msg("%zu of %zu bytes", c.bytes[MR_MEM_GRADIENTS], sum_of(&c));
    assert_int_equal(c.bytes[MR_MEM_EXCHANGE], 0);
    mr_exec_destroy(x);
    mr_fn_destroy(f);
    mr_params_fini(&list);
  }
}

/* y = sin(x), loss = sum(y y): y is kept, the gradient is not an activation. */
static void values_that_the_backward_pass_reads_again_are_activations(void **state) {
  mr_fn_t *f = mr_fn_create(), *g = NULL;
  mr_diag_t diag = {0};
  mr_mem_causes_t c;
  mr_aval_t a = mr_aval_of(MR_F32, 64, 64);
  mr_var_t *w = mr_fn_input(f, a), *y = mr_lax_dot(f, w, w);
  y = mr_lax_dot(f, y, y);
  y = mr_lax_reduce_sum(f, y, 2, (int[]){0, 1});
  assert_int_equal(mr_fn_return(f, 1, &y), MR_OK);
  assert_int_equal(mr_value_and_grad(f, 1, (int[]){0}, &g, &diag), MR_OK);
  mr_exec_t *x = compiled("dots", g, 0);
  mr_mem_parts_t parts = {.loss = mr_exec_fn(x)->out[0]};
  assert_int_equal(mr_mem_causes_find(&c, x, &parts, &diag), MR_OK);
  assert_int_equal(c.bytes[MR_MEM_ACTIVATIONS], 64 * 64 * 4);
  assert_int_equal(sum_of(&c), mr_exec_peak_bytes(x));
  assert_int_equal(c.outputs, 64 * 64 * 4 + 4);
  assert_int_equal(mr_mem_causes_find(&c, x, NULL, &diag), MR_OK);
  assert_int_equal(c.bytes[MR_MEM_ACTIVATIONS], 0);
  mr_exec_destroy(x);
  mr_fn_destroy(f), mr_fn_destroy(g);
}

/* A loop gives s = sin(x) and s in bf16; the products read one each, and both are alive there. */
static void a_fused_conversion_of_what_stays_is_a_cast(void **state) {
  enum { N = 64 };
  for (int keep = 0; keep < 2; keep++) {
    mr_fn_t *f = mr_fn_create();
    mr_diag_t diag = {0};
    mr_mem_causes_t c;
    mr_var_t *x = mr_fn_input(f, mr_aval_of(MR_F32, N, N));
    mr_var_t *s = mr_lax_sin(f, x), *b = mr_lax_convert(f, s, MR_BF16);
    mr_var_t *y = mr_lax_convert(f, mr_lax_dot(f, b, b), MR_F32);
    if (keep) y = mr_lax_dot(f, y, s);
    assert_int_equal(mr_fn_return(f, 1, &y), MR_OK);
    mr_exec_t *e = compiled("sin", f, 0);
    const mr_eqn_t *loop = mr_exec_fn(e)->eqn[0];
    assert_string_equal(loop->op->name, "fused");
    assert_int_equal(loop->n_out, 1 + keep);
    assert_int_equal(mr_mem_causes_find(&c, e, NULL, &diag), MR_OK);
    if (keep) assert_true(c.bytes[MR_MEM_CASTS] >= N * N * 2);
    if (!keep) assert_true(c.bytes[MR_MEM_FORWARD] >= N * N * 2);
    assert_int_equal(sum_of(&c), mr_exec_peak_bytes(e));
    mr_exec_destroy(e);
    mr_fn_destroy(f);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(random_programs_and_their_gradients_add_up),
      cmocka_unit_test(steps_of_every_dtype_add_up),
      cmocka_unit_test(a_fused_conversion_of_what_stays_is_a_cast),
      cmocka_unit_test(gradients_of_parts_are_gradients_of_parameters),
      cmocka_unit_test(values_that_the_backward_pass_reads_again_are_activations),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
