/* What a compiled graph moves and how it multiplies. */
// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on
#include <string.h>

#include "model/exec/exec_private.h"
#include "model/exec/explain.h"
#include "model/transforms/amp.h"
#include "tests/model/random_program.h"

enum { STEPS = 5 };

static mr_explained_t explained(mr_fn_t *f, mr_exec_t **x) {
  mr_explained_t r;
  mr_diag_t diag = {0};
  if (mr_compile(f, NULL, x, &diag) < 0) fail_msg("%s", diag.text);
  if (mr_explained_init(&r, *x, &diag) < 0) fail_msg("%s", diag.text);
  return r;
}

static void done(mr_fn_t *f, mr_exec_t *x, mr_explained_t *r) {
  mr_explained_fini(r);
  mr_exec_destroy(x);
  mr_fn_destroy(f);
}

static const mr_move_row_t *find(const mr_explained_t *r, mr_move_kind_t kind) {
  for (int i = 0; i < r->n_move; i++)
    if (r->move[i].kind == kind) return &r->move[i];
  return NULL;
}

/* x' of bf16 as an output, and the same value given out twice. */
static void moves_are_listed_with_their_readers(void **state) {
  mr_fn_t *f = mr_fn_create();
  mr_exec_t *x;
  mr_var_t *a = mr_fn_input(f, mr_aval_of(MR_F32, 8, 4));
  mr_var_t *b = mr_lax_convert(f, a, MR_BF16);
  mr_var_t *t = mr_lax_transpose(f, b, (int[]){1, 0});
  assert_int_equal(mr_fn_return(f, 2, (mr_var_t *[]){t, t}), MR_OK);
  mr_explained_t r = explained(f, &x);
  const mr_move_row_t *cast = find(&r, MR_MOVE_CAST), *turn = find(&r, MR_MOVE_TRANSPOSE);
  const mr_move_row_t *copy = find(&r, MR_MOVE_COPY);
  assert_true(cast && turn && copy);
  assert_int_equal(cast->bytes, 32 * 6);
  assert_true(cast->user && cast->user->op == &mr_op_transpose && cast->n_user == 1);
  assert_int_equal(turn->bytes, 32 * 4);
  assert_null(turn->user);
  assert_true(copy->eqn == NULL && copy->bytes == 32 * 4);
  assert_true(r.bytes == 32 * 14);
  done(f, x, &r);
}

/* c <- c w, five times, w of f32 by HIGH. */
static void equations_in_a_loop_count_once_for_each_step(void **state) {
  mr_fn_t *f = mr_fn_create(), *body = mr_fn_create();
  mr_exec_t *x;
  mr_aval_t a = mr_aval_of(MR_F32, 16, 16);
  mr_var_t *w = mr_fn_input(body, a), *c = mr_fn_input(body, a);
  mr_precision_enter(body, MR_PRECISION_HIGH);
  c = mr_lax_dot(body, c, w);
  assert_int_equal(mr_fn_return(body, 1, &c), MR_OK);
  mr_var_t *in[] = {mr_fn_input(f, a), mr_fn_input(f, a)}, *out;
  mr_scan_t s = {.length = STEPS, .n_consts = 1, .n_carry = 1};
  assert_int_equal(mr_lax_scan(f, body, &s, in, &out), MR_OK);
  assert_int_equal(mr_fn_return(f, 1, &out), MR_OK);
  mr_explained_t r = explained(f, &x);
  assert_int_equal(r.n_product, 1);
  assert_int_equal(r.product[0].times, STEPS);
  assert_int_equal(r.product[0].asked, MR_PRECISION_HIGH);
  assert_non_null(strstr(r.product[0].how, "3 bf16 products"));
  assert_true(r.product[0].flop == STEPS * 2.0 * 16 * 16 * 16);
  const mr_move_row_t *m = find(&r, MR_MOVE_OPERAND);
  assert_true(m && m->times == STEPS && m->bytes % STEPS == 0 && strstr(m->note, "converted"));
  mr_fn_destroy(body);
  done(f, x, &r);
}

/* x' or x from its last column to its first. */
static mr_fn_t *turned(bool round) {
  mr_fn_t *b = mr_fn_create();
  mr_var_t *x = mr_fn_input(b, mr_aval_of(MR_F32, 8, 8));
  x = round ? mr_lax_transpose(b, x, (int[]){1, 0}) : mr_lax_rev(b, x, 1, (int[]){1});
  assert_int_equal(mr_fn_return(b, 1, &x), MR_OK);
  return b;
}

/* while (sum(x) > 0) x = cond(sum(x) > 9, x', rev(x)). */
static mr_fn_t *above(double limit) {
  mr_fn_t *b = mr_fn_create();
  mr_var_t *x = mr_fn_input(b, mr_aval_of(MR_F32, 8, 8));
  x = mr_lax_gt(b, mr_lax_reduce_sum(b, x, 2, (int[]){0, 1}), mr_literal(b, MR_F32, limit));
  assert_int_equal(mr_fn_return(b, 1, &x), MR_OK);
  return b;
}

static mr_fn_t *one_of_two(void) {
  mr_fn_t *b = mr_fn_create(), *yes = turned(true), *no = turned(false);
  mr_var_t *x = mr_fn_input(b, mr_aval_of(MR_F32, 8, 8)), *y;
  mr_var_t *sum = mr_lax_reduce_sum(b, x, 2, (int[]){0, 1});
  mr_lax_cond(b, mr_lax_gt(b, sum, mr_literal(b, MR_F32, 9)), yes, no, &x, &y);
  assert_int_equal(mr_fn_return(b, 1, &y), MR_OK);
  mr_fn_destroy(yes), mr_fn_destroy(no);
  return b;
}

static void loops_whose_length_depends_on_values_count_one_iteration(void **state) {
  mr_fn_t *f = mr_fn_create(), *cond = above(0), *body = one_of_two();
  mr_exec_t *x;
  mr_var_t *in = mr_fn_input(f, mr_aval_of(MR_F32, 8, 8)), *out;
  assert_int_equal(mr_lax_while(f, cond, 0, body, 0, &in, &out), MR_OK);
  assert_int_equal(mr_fn_return(f, 1, &out), MR_OK);
  mr_explained_t r = explained(f, &x);
  const mr_move_row_t *turn = find(&r, MR_MOVE_TRANSPOSE), *copy = find(&r, MR_MOVE_COPY);
  assert_true(turn && copy);
  assert_int_equal(turn->times, 1);
  assert_int_equal(turn->bytes, 2 * 64 * 4);
  assert_string_equal(turn->when, "each step of while, if branch 1 of cond is taken");
  assert_string_equal(copy->when, "each step of while, if branch 0 of cond is taken");
  mr_fn_destroy(cond), mr_fn_destroy(body);
  done(f, x, &r);
}

static int composites(const mr_explained_t *r, const mr_op_def_t *op, const mr_op_def_t *opened,
                      int64_t times, const char *when) {
  int n = 0;
  for (int i = 0; i < r->n_composite; i++) {
    const mr_composite_row_t *c = &r->composite[i];
    bool alike = (!op || c->eqn->op == op) && c->opened == opened && c->times == times;
    n += alike && (when ? c->when && !strcmp(c->when, when) : !c->when);
  }
  return n;
}

/* c <- sin(softmax(c) sin(c)), five times; then softmax in f64, which is opened, if the sum is
   above 9. */
static void explain_lists_composites_in_loops_and_branches(void **state) {
  mr_fn_t *f = mr_fn_create(), *body = mr_fn_create(), *branch[2] = {mr_fn_create(), turned(true)};
  mr_exec_t *x;
  mr_var_t *c = mr_fn_input(body, mr_aval_of(MR_F32, 8, 8)), *out;
  c = mr_lax_sin(body, mr_lax_mul(body, mr_lax_softmax(body, c), mr_lax_sin(body, c)));
  assert_int_equal(mr_fn_return(body, 1, &c), MR_OK);
  c = mr_fn_input(branch[0], mr_aval_of(MR_F32, 8, 8));
  c = mr_lax_softmax(branch[0], mr_lax_convert(branch[0], c, MR_F64));
  c = mr_lax_convert(branch[0], c, MR_F32);
  assert_int_equal(mr_fn_return(branch[0], 1, &c), MR_OK);
  mr_var_t *in = mr_fn_input(f, mr_aval_of(MR_F32, 8, 8));
  mr_scan_t s = {.length = STEPS, .n_carry = 1};
  assert_int_equal(mr_lax_scan(f, body, &s, &in, &out), MR_OK);
  mr_var_t *sum = mr_lax_reduce_sum(f, out, 2, (int[]){0, 1});
  mr_var_t *pred = mr_lax_gt(f, sum, mr_literal(f, MR_F32, 9));
  assert_int_equal(mr_lax_cond(f, pred, branch[0], branch[1], &out, &out), MR_OK);
  assert_int_equal(mr_fn_return(f, 1, &out), MR_OK);
  mr_explained_t r = explained(f, &x);
  assert_int_equal(composites(&r, &mr_op_softmax, NULL, STEPS, NULL), 1);
  assert_int_equal(composites(&r, &mr_op_fused, NULL, STEPS, NULL), 1);
  assert_true(composites(&r, NULL, &mr_op_softmax, 1, "if branch 1 of cond is taken") +
                  composites(&r, &mr_op_fused, NULL, 1, "if branch 1 of cond is taken") >
              0);
  mr_fn_destroy(body), mr_fn_destroy(branch[0]), mr_fn_destroy(branch[1]);
  done(f, x, &r);
}

/* c <- c', until the sum is not above 0: two steps end in the second place of the carry. */
static void a_while_copies_its_carries_at_the_end(void **state) {
  mr_fn_t *f = mr_fn_create(), *cond = above(0), *body = turned(true);
  mr_exec_t *x;
  mr_var_t *in = mr_fn_input(f, mr_aval_of(MR_F32, 8, 8)), *out;
  assert_int_equal(mr_lax_while(f, cond, 0, body, 0, &in, &out), MR_OK);
  assert_int_equal(mr_fn_return(f, 1, &out), MR_OK);
  mr_explained_t r = explained(f, &x);
  const mr_move_row_t *copy = find(&r, MR_MOVE_COPY);
  assert_true(copy && copy->note && copy->bytes == 2 * 64 * 4);
  mr_fn_destroy(cond), mr_fn_destroy(body);
  done(f, x, &r);
}

static const mr_move_row_t *cast_by(const mr_explained_t *r, const char *by, const char *row) {
  for (int i = 0; i < r->n_move; i++) {
    const mr_eqn_t *e = r->move[i].eqn;
    bool cast = r->move[i].kind == MR_MOVE_CAST && !strcmp(e->by, by);
    if (cast && e->row && !strcmp(e->row, row)) return &r->move[i];
  }
  return NULL;
}

/* sum(x w) in scope "head", its gradient by w, with what the user asked for. */
static void a_cast_names_the_row_as_the_user_wrote_it_backward_too(void **state) {
  mr_fn_t *f = mr_fn_create(), *g = NULL, *d = NULL;
  mr_exec_t *x;
  mr_diag_t diag = {0};
  mr_amp_policy_t p = mr_amp_usual(MR_BF16);
  assert_int_equal(mr_amp_add_text(&p, "head = compute", &diag), MR_OK);
  mr_var_t *a = mr_fn_input(f, mr_aval_of(MR_F32, 8, 8)), *w = mr_fn_input(f, a->aval);
  const char *outer = mr_scope_enter(f, "head");
  a = mr_lax_dot(f, mr_lax_sin(f, a), w);
  mr_scope_leave(f, outer);
  a = mr_lax_reduce_sum(f, a, 2, (int[]){0, 1});
  assert_int_equal(mr_fn_return(f, 1, &a), MR_OK);
  assert_int_equal(mr_amp(f, &p, &g, &diag), MR_OK);
  assert_int_equal(mr_value_and_grad(g, 2, (int[]){0, 1}, &d, &diag), MR_OK);
  mr_explained_t r = explained(d, &x);
  const mr_move_row_t *cast = cast_by(&r, "amp compute", "amp-rule head=compute");
  const mr_move_row_t *back = cast_by(&r, "grad", "amp-rule head=compute");
  assert_true(cast && back);
  assert_ptr_equal(back->eqn->of, &mr_op_convert_element_type);
  mr_fn_destroy(f), mr_fn_destroy(g);
  done(d, x, &r);
}

static void each_way_to_decide_has_a_row(void **state) {
  char text[160];
  mr_fn_t *f = mr_fn_create();
  mr_var_t *a = mr_fn_input(f, mr_aval_of(MR_F32, 8));
  mr_var_t *y = mr_lax_mul(f, a, mr_lax_sin(f, a));
  const mr_eqn_t *sin = f->eqn[0], *mul = y->def;
  mr_amp_policy_t usual = mr_amp_usual(MR_BF16), jaxamp = mr_amp_jaxamp(MR_BF16), own = usual;
  own.name = NULL;
  assert_string_equal(mr_amp_row_text(&usual, sin, sin->scope, text, sizeof text),
                      "amp=usual, others=class");
  assert_string_equal(mr_amp_row_text(&jaxamp, sin, sin->scope, text, sizeof text),
                      "amp=jaxamp, others=original");
  assert_string_equal(mr_amp_row_text(&jaxamp, mul, mul->scope, text, sizeof text),
                      "amp=jaxamp, mul=f32");
  assert_string_equal(mr_amp_row_text(&own, mul, mul->scope, text, sizeof text),
                      "amp=own, others=class");
  assert_string_equal(mr_amp_row_text(&usual, mul, mul->scope, text, 6), "amp=u");
  mr_fn_destroy(f);
}

/* What a graph moves, counted from its equations and calls. */
typedef struct tally {
  int casts, fused, others, notes;
  double cast_bytes;
} tally_t;

static void count_moves(const mr_exec_t *x, double times, tally_t *t) {
  for (int i = 0; i < x->fn->n_eqn; i++) {
    const mr_eqn_t *e = x->fn->eqn[i];
    const mr_call_t *c = &x->call[i];
    const mr_fn_t *loop = e->op == &mr_op_fused ? mr_attr_called(e, "jaxpr") : NULL;
    for (int k = 0; loop && k < loop->n_eqn; k++)
      t->fused += !strcmp(loop->eqn[k]->op->name, "convert_element_type");
    for (int k = 0; k < MR_CALL_NOTES && c->note[k].what; k++) t->notes++;
    for (int k = 0; k < c->n_inner; k++)
      count_moves(c->inner[k].exec, times * (double)c->inner[k].runs, t);
    if (!c->run || !e->op->cost.moves || !e->n_in || c->n_inner) continue;
    if (!strcmp(e->op->name, "convert_element_type")) {
      t->casts++;
      t->cast_bytes +=
          times * (double)(mr_aval_bytes(&e->in[0]->aval) + mr_aval_bytes(&e->out[0]->aval));
    } else {
      t->others++;
    }
  }
}

static void assert_all_are_listed(const func_t *q, mr_fn_t *f, bool whole) {
  mr_exec_t *x;
  mr_explained_t r = explained(f, &x);
  tally_t want = {0}, got = {0};
  double sum = 0;
  count_moves(x, 1, &want);
  for (int i = 0; i < r.n_move; i++) {
    const mr_move_row_t *m = &r.move[i];
    bool cast = m->eqn && !m->note && !strcmp(m->eqn->op->name, "convert_element_type");
    got.casts += cast && !m->loop, got.fused += cast && m->loop, got.notes += m->note != NULL;
    got.others += m->eqn && !m->note && !cast;
    got.cast_bytes += cast ? (double)m->bytes : 0;
    sum += (double)m->bytes;
    if (m->eqn && !strncmp(m->eqn->by, "amp", 3) && strcmp(m->eqn->by, "amp output"))
      assert_non_null(m->eqn->row);
  }
  if (got.casts != want.casts || got.fused != want.fused || got.others != want.others ||
      got.notes != want.notes || got.cast_bytes != want.cast_bytes)
    fail_msg("%s: %d casts, %d fused, %d others, %d notes, %g bytes; want %d, %d, %d, %d, %g",
             q->name, got.casts, got.fused, got.others, got.notes, got.cast_bytes, want.casts,
             want.fused, want.others, want.notes, want.cast_bytes);
  assert_true(sum <= r.bytes);
  if (whole) { /* its text says as many */
    char *text = mr_fn_text(x->fn);
    int n = 0;
    for (const char *at = text; (at = strstr(at, "convert_element_type[")); at++) n++;
    assert_int_equal(n, got.casts + got.fused);
    free(text);
  }
  mr_explained_fini(&r);
  mr_exec_destroy(x);
}

static bool calls_none(const mr_fn_t *f) {
  for (int i = 0; i < f->n_eqn; i++)
    for (int k = 0; k < f->eqn[i]->n_attr; k++) {
      const mr_fn_t *const *fns;
      if (mr_attr_calls(&f->eqn[i]->attr[k], &fns)) return false;
    }
  return true;
}

static void random_programs_tell_every_cast_and_move_once(void **state) {
  const char *text = getenv("MILLRACE_SEED");
  unsigned first = text ? (unsigned)strtoul(text, NULL, 10) : 0;
  print_message("150 programs from seed %u on\n", first);
  for (unsigned seed = first; seed < first + 150; seed++) {
    bool narrow;
    func_t q = random_program(seed, false, &narrow);
    mr_amp_policy_t p = one_in(3) ? mr_amp_jaxamp(MR_F16) : mr_amp_usual(MR_BF16);
    mr_fn_t *g = NULL;
    DO(&q, mr_amp(q.f, &p, &g, &diag));
    assert_all_are_listed(&q, g, calls_none(q.f));
    mr_fn_destroy(g);
    func_fini(&q);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(moves_are_listed_with_their_readers),
      cmocka_unit_test(equations_in_a_loop_count_once_for_each_step),
      cmocka_unit_test(explain_lists_composites_in_loops_and_branches),
      cmocka_unit_test(a_while_copies_its_carries_at_the_end),
      cmocka_unit_test(a_cast_names_the_row_as_the_user_wrote_it_backward_too),
      cmocka_unit_test(each_way_to_decide_has_a_row),
      cmocka_unit_test(random_programs_tell_every_cast_and_move_once),
      cmocka_unit_test(loops_whose_length_depends_on_values_count_one_iteration),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
