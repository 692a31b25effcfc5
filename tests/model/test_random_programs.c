/* Random programs (random_program.h) and their derivatives, compared three ways: compiled with all
   passes and without some, which must give the same bits; in f32 against f64 without passes; and
   under transforms that change no values, or map, against the program itself.

   MILLRACE_PROGRAMS=N takes N programs instead of 400, MILLRACE_SEED=S begins at seed S; what fails
   names its seed.  MILLRACE_PROGRAMS_TO=FILE writes programs with what they give, for
   random_programs_jax.py, instead of running the tests. */
// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include "model/transforms/amp.h"
#include "model/transforms/build.h"
#include "model/transforms/passes.h"
#include "tests/model/python_text.h"
#include "tests/model/random_program.h"

#define EVERY "fold-constants,sink,merge-products,fold-convert,cse,remat,fuse,dead-code"

static unsigned from_environment(const char *name, unsigned otherwise) {
  const char *text = getenv(name);
  return text ? (unsigned)strtoul(text, NULL, 10) : otherwise;
}

/* ---- passes ---- */

static void assert_same_bits(const char *what, const mr_fn_t *f, double *const *got,
                             double *const *want) {
  for (int i = 0; i < f->n_out; i++)
    for (int64_t k = 0; k < elems(f->out[i]); k++) {
      double a = got[i][k], b = want[i][k];
      if (memcmp(&a, &b, sizeof a) && !(isnan(a) && isnan(b)))
        fail_msg("%s: output %d element %lld is %.17g, want %.17g\n%s", what, i, (long long)k, a, b,
                 mr_fn_text(f));
    }
}

/* The passes that may round otherwise (passes.h): kernels for products of other sizes may add their
   terms in another order. */
static const char *that_round(const mr_fn_t *f) {
  char *text = mr_fn_text(f);
  bool products =
      strstr(text, "dot_general[") || strstr(text, "linear[") || strstr(text, "attention");
  free(text);
  return products ? "fold-convert,sink,merge-products" : "fold-convert";
}

/* Two other passes, chosen at random, and all. */
static void passes_keep_the_bits(const char *what, const mr_fn_t *f, double *const *in) {
  double *want[GRID_MAX], *got[GRID_MAX];
  const char *round = that_round(f);
  char name[240];
  run_without(what, f, round, in, want);
  for (int turn = 0; turn < 3; turn++) {
    const char *pass = mr_passes[under(8)].name;
    char skip[64];
    snprintf(skip, sizeof skip, "%s,%s", round, pass);
    snprintf(name, sizeof name, "%s: without %s", what, turn < 2 ? pass : "any pass");
    run_without(what, f, turn < 2 ? skip : EVERY, in, got);
    assert_same_bits(name, f, got, want);
    free_all(f->n_out, got);
  }
  free_all(f->n_out, want);
}

/* ---- f32 against f64 ---- */

static mr_fn_t *noisy(const mr_fn_t *f, double by);

/* e, of another graph, on operands of g, with noise in the functions that it calls. */
static mr_eqn_t *noisy_eqn(mr_fn_t *g, const mr_eqn_t *e, mr_var_t **in, double by) {
  mr_attr_t attr[16];
  mr_fn_t *made[16];
  int n = 0;
  for (int i = 0; i < e->n_attr; i++) {
    const mr_fn_t *const *fns;
    attr[i] = e->attr[i];
    int calls = mr_attr_calls(&attr[i], &fns), first = n;
    for (int k = 0; k < calls; k++) made[n++] = noisy(fns[k], by);
    if (!calls) continue;
    attr[i].fn = made[first];
    attr[i].fns = (const mr_fn_t *const *)(uintptr_t)(made + first);
  }
  mr_eqn_t *c = mr_emit(g, e->op, e->n_in, in, e->n_attr, attr, e->n_out);
  for (int i = 0; i < n; i++) mr_fn_destroy(made[i]);
  return c;
}

/* Not what gives an operand's value as it is: tangents of max look whose it was. */
static bool rounds(const mr_eqn_t *e, const mr_var_t *v) {
  const mr_op_def_t *exact[] = {&mr_op_max, &mr_op_min, &mr_op_reduce_max, &mr_op_select_n};
  for (int i = 0; i < 4; i++)
    if (e->op == exact[i]) return false;
  return !e->op->cost.moves && mr_is_float(v->aval.dtype) && elems(v);
}

/* What v of another graph is in g: a literal is made when it is first read. */
static mr_var_t *mapped_var(mr_fn_t *g, mr_var_t **map, const mr_var_t *v) {
  if (!map[v->id] && v->literal) map[v->id] = mr_literal_like(g, v->aval.dtype, v);
  return map[v->id];
}

/* f with each float moved by at most `by` of its size, as it may be by rounding; bf16 by what it
   rounds itself. */
static mr_fn_t *noisy(const mr_fn_t *f, double by) {
  mr_fn_t *g = begin(f);
  mr_var_t **map = calloc((size_t)f->n_var + 1, sizeof *map), *in[GRID_MAX], *out[GRID_MAX];
  for (int i = 0; i < f->n_in; i++) map[f->in[i]->id] = g->in[i];
  for (int i = 0; i < f->n_eqn; i++) {
    const mr_eqn_t *e = f->eqn[i];
    for (int k = 0; k < e->n_in; k++) in[k] = mapped_var(g, map, e->in[k]);
    mr_eqn_t *c = noisy_eqn(g, e, in, by);
    if (!c) fail_msg("noise: %s", g->diag.text);
    for (int k = 0; k < e->n_out; k++) {
      double size = c->out[k]->aval.dtype == MR_BF16 ? 1.0 / 128 : by;
      map[e->out[k]->id] = rounds(e, c->out[k])
                               ? mr_lax_scale(g, 1 + size * random_in(-1, 1), c->out[k])
                               : c->out[k];
    }
  }
  for (int k = 0; k < f->n_out; k++) out[k] = mapped_var(g, map, f->out[k]);
  if (mr_fn_return(g, f->n_out, out) < 0) fail_msg("noise: %s", g->diag.text);
  free(map);
  return g;
}

enum { NOISES = 3 };

/* Whether f32 is as near to f64 as f64 with noise is, in every element. */
static bool is_near(const char *what, const mr_fn_t *f, const mr_fn_t *wide, mr_fn_t *const *noise,
                    double *const *in, double small, bool last) {
  double *got[GRID_MAX], *want[GRID_MAX], *moved[NOISES][GRID_MAX];
  bool near = true;
  run_without(what, f, "", in, got);
  run_without(what, wide, EVERY, in, want);
  for (int n = 0; n < NOISES; n++) run_without(what, noise[n], EVERY, in, moved[n]);
  for (int i = 0; i < f->n_out && near; i++)
    for (int64_t k = 0; k < elems(f->out[i]) && near; k++) {
      double a = got[i][k], b = want[i][k], spread = 0;
      for (int n = 0; n < NOISES; n++) {
        double by = fabs(moved[n][i][k] - b);
        if (!(by <= spread)) spread = isnan(by) ? INFINITY : by;
      }
      near =
          a == b || (isnan(a) && isnan(b)) || fabs(a - b) <= 10 * spread + small * (1e-2 + fabs(b));
      if (!near && last) mr_fn_print(f, stderr); /* fail_msg would cut it off */
      if (!near && last)
        fail_msg("%s: output %d element %lld is %.9g, in f64 %.17g, with noise within %g", what, i,
                 (long long)k, a, b, spread);
    }
  free_all(f->n_out, got);
  free_all(f->n_out, want);
  for (int n = 0; n < NOISES; n++) free_all(f->n_out, moved[n]);
  return near;
}

/* f, of q's inputs and others in [-1,1], is as near to `wide`, in f64, as that is with noise. Where
   values come near to a step of the program (floor, a comparison), f may fall on its other side: it
   must be near for one of three draws of the inputs. */
static void is_near_for_a_draw(const func_t *q, const mr_fn_t *f, const mr_fn_t *wide, double by,
                               double small) {
  mr_fn_t *noise[NOISES];
  for (int n = 0; n < NOISES; n++) noise[n] = noisy(wide, by);
  for (int turn = 0; turn < 3; turn++) {
    double *in[GRID_MAX];
    for (int i = 0; i < f->n_in; i++) {
      bool own = i < q->f->n_in;
      in[i] = values(f->in[i], own ? q->lo[i] : -1, own ? q->hi[i] : 1);
      for (int64_t k = 0; k < elems(f->in[i]); k++) in[i][k] = (float)in[i][k];
    }
    bool near = is_near(q->name, f, wide, noise, in, small, turn == 2);
    free_all(f->n_in, in);
    if (near) break;
  }
  for (int n = 0; n < NOISES; n++) mr_fn_destroy(noise[n]);
}

static void f32_is_near_f64(const func_t *q, bool narrow) {
  mr_fn_t *wide = NULL;
  DO(q, mr_in_f64(q->f, &wide, &diag));
  is_near_for_a_draw(q, q->f, wide, 1.0 / 4194304, narrow ? 1.0 / 64 : 1e-6);
  mr_fn_destroy(wide);
}

/* ---- mixed precision ---- */

static void assert_same_avals(const char *what, const mr_fn_t *f, const mr_fn_t *g) {
  assert_int_equal(f->n_in, g->n_in);
  assert_int_equal(f->n_out, g->n_out);
  for (int i = 0; i < f->n_in; i++)
    if (!mr_aval_equal(&f->in[i]->aval, &g->in[i]->aval)) fail_msg("%s: input %d changed", what, i);
  for (int i = 0; i < f->n_out; i++)
    if (!mr_aval_equal(&f->out[i]->aval, &g->out[i]->aval))
      fail_msg("%s: output %d changed", what, i);
}

static mr_fn_t *amped(const func_t *q, const mr_fn_t *f, const mr_amp_policy_t *policy) {
  mr_fn_t *g = NULL;
  DO(q, mr_amp(f, policy, &g, &diag));
  assert_same_avals(q->name, f, g);
  return g;
}

/* One of those there are, or rows at random. */
static mr_amp_policy_t random_policy(void) {
  static const char *const some[] = {"mul",         "add",         "tanh",
                                     "dot_general", "concatenate", "select_n"};
  mr_diag_t diag;
  uint32_t kind = under(4);
  if (kind < 2) return kind ? mr_amp_usual(MR_BF16) : mr_amp_jaxamp(MR_BF16);
  mr_amp_policy_t p = kind == 2 ? mr_amp_usual(MR_BF16) : mr_amp_empty(MR_BF16);
  p.others = (mr_amp_rule_t)under(MR_AMP_OWN);
  p.enters = one_in(2), p.reuses = one_in(2);
  for (int i = 0; i < 6; i++)
    if (one_in(2)) mr_amp_add(&p, some[i], (mr_amp_rule_t)under(MR_AMP_RULES), &diag);
  return p;
}

/* A policy that asks for what is there already changes nothing; where it enters functions, dead
   code in them is gone. */
static void amp_of_original_is_the_program(const func_t *q, bool narrow) {
  mr_amp_policy_t p = mr_amp_empty(MR_BF16);
  p.reuses = one_in(2);
  p.others = narrow ? MR_AMP_ORIGINAL : (mr_amp_rule_t)(MR_AMP_F32 + under(4));
  mr_dce(q->f);
  mr_fn_t *g = amped(q, q->f, &p);
  p.enters = true;
  mr_fn_t *entered = amped(q, g, &p), *again = amped(q, entered, &p);
  const mr_fn_t *same_as[][2] = {{q->f, g}, {entered, again}};
  for (int i = 0; i < 2; i++) {
    char *want = mr_fn_text(same_as[i][0]), *got = mr_fn_text(same_as[i][1]);
    if (strcmp(want, got)) mr_fn_print(same_as[i][1], stderr);
    if (strcmp(want, got)) fail_msg("%s, %s:\n%s", q->name, mr_amp_rule_name(p.others), want);
    free(want);
    free(got);
  }
  mr_fn_destroy(g);
  mr_fn_destroy(entered);
  mr_fn_destroy(again);
}

/* ---- transforms ---- */

typedef mr_fn_t *make_fn(const func_t *p);

static make_fn *const same[] = {make_jit,   make_checkpoint, make_cond,
                                make_while, make_custom_jvp, make_custom_vjp};
static const char *const names_of_same[] = {"jit",   "checkpoint", "cond",
                                            "while", "custom_jvp", "custom_vjp"};
enum { JIT, CHECKPOINT, COND, WHILE, CUSTOM_JVP, CUSTOM_VJP, N_SAME };

static make_fn *const derived[] = {make_vjp, make_jvp, make_linearize};
static const char *const names_of_derived[] = {"vjp", "jvp", "linearize"};
enum { VJP, JVP, LINEARIZE, N_DERIVED };

/* What can be derived so, of a program that itself cannot in every way. */
static bool allowed(const func_t *q, int wrap, int how) {
  bool back = how == VJP;
  if ((q->forward_only || wrap == WHILE) && (back || wrap == CUSTOM_VJP)) return false;
  return !(q->reverse_only || wrap == CUSTOM_VJP) || (back && wrap != CUSTOM_JVP);
}

/* f with values for its inputs: those of q, then drawn ones. */
static func_t around(const func_t *q, mr_fn_t *f, const char *name) {
  func_t r = {.f = f, .forward_only = q->forward_only, .reverse_only = q->reverse_only};
  snprintf(r.name, sizeof r.name, "%.70s: %s", q->name, name);
  for (int i = 0; i < f->n_in; i++) {
    bool own = i < q->f->n_in;
    r.lo[i] = own ? q->lo[i] : 0, r.hi[i] = own ? q->hi[i] : 1;
    if (own)
      r.in[i] =
          memcpy(doubles(elems(f->in[i])), q->in[i], (size_t)elems(f->in[i]) * sizeof(double));
    else
      r.in[i] = values(f->in[i], 0, 1);
  }
  r.n_wrt = q->n_wrt;
  memcpy(r.wrt, q->wrt, sizeof r.wrt);
  return r;
}

/* a with passes, b without any, both in f64. */
static void agree(const func_t *q, const mr_fn_t *a, const mr_fn_t *b) {
  mr_diag_t diag = {0};
  double *got[GRID_MAX], *want[GRID_MAX];
  mr_fn_t *wide[2] = {0};
  if (mr_in_f64(a, &wide[0], &diag) < 0 || mr_in_f64(b, &wide[1], &diag) < 0)
    fail_msg("%s: %s", q->name, diag.text);
  run_without(q->name, wide[0], "", q->in, got);
  run_without(q->name, wide[1], EVERY, q->in, want);
  assert_near(q->name, a, got, want, 1e-7);
  free_all(a->n_out, got);
  free_all(b->n_out, want);
  for (int i = 0; i < 2; i++) mr_fn_destroy(wide[i]);
}

/* q's derivative through a transform that changes no value. */
static void derivatives_agree(const func_t *q, const func_t *d, int wrap, int how) {
  mr_fn_t *w = same[wrap](q);
  func_t r = around(q, w, names_of_same[wrap]);
  mr_fn_t *dw = derived[how](&r);
  func_t s = around(d, dw, names_of_same[wrap]);
  agree(&s, dw, d->f);
  func_fini(&s);
  func_fini(&r);
}

/* vmap, or scan, of q against q on each example. */
static void maps_agree(const func_t *q, bool scan) {
  mr_fn_t *m = scan ? make_scan(q) : make_vmap(q);
  double *in[GRID_MAX], *one[GRID_MAX], *got[GRID_MAX], *want[GRID_MAX];
  for (int i = 0; i < m->n_in; i++) in[i] = values(m->in[i], q->lo[i], q->hi[i]);
  run_f64(m, in, got);
  for (int64_t at = 0; at < SIZE; at++) {
    double *part[GRID_MAX];
    for (int i = 0; i < m->n_in; i++) one[i] = in[i] + at * elems(q->f->in[i]);
    for (int i = 0; i < m->n_out; i++) part[i] = got[i] + at * elems(q->f->out[i]);
    run_f64(q->f, one, want);
    assert_near(q->name, q->f, part, want, 1e-7);
    free_all(q->f->n_out, want);
  }
  free_all(m->n_in, in);
  free_all(m->n_out, got);
  mr_fn_destroy(m);
}

/* amp before a derivative or map, and behind it: the same function but for rounding, and where
   passes round nothing, the same bits. */
static void amp_goes_with_every_transform(const func_t *q, const func_t *d) {
  mr_amp_policy_t p = random_policy();
  mr_fn_t *g = amped(q, q->f, &p), *wide = NULL, *behind = amped(q, d->f, &p);
  func_t inner = around(q, g, "amp"), outer = around(d, behind, "amp");
  passes_keep_the_bits(outer.name, behind, outer.in);
  if (p.others == MR_AMP_BY_CLASS && p.enters) {
    DO(q, mr_in_f64(q->f, &wide, &diag));
    is_near_for_a_draw(q, g, wide, 1.0 / 128, 1.0 / 16);
    mr_fn_destroy(wide);
  }
  int how = q->forward_only ? JVP : VJP;
  func_t before = around(q, derived[how](&inner), "derivative of amp");
  passes_keep_the_bits(before.name, before.f, before.in);
  mr_fn_t *mapped = make_vmap(&inner), *m = amped(q, mapped, &p);
  mr_fn_destroy(m);
  mr_fn_destroy(mapped);
  func_fini(&before);
  func_fini(&outer);
  func_fini(&inner);
}

/* ---- the tests ---- */

static void tame_programs_are_what_they_are_in_f64_and_under_every_transform(void **state) {
  unsigned first = from_environment("MILLRACE_SEED", 0),
           n = from_environment("MILLRACE_PROGRAMS", 400);
  print_message("%u programs from seed %u on\n", n, first);
  for (unsigned seed = first; seed < first + n; seed++) {
    bool narrow;
    func_t q = random_program(seed, false, &narrow);
    int how = (int)under(N_DERIVED), wrap = (int)under(N_SAME);
    while (!allowed(&q, JIT, how)) how = (int)under(N_DERIVED);
    while (!allowed(&q, wrap, how)) wrap = (int)under(N_SAME);
    func_t d = around(&q, derived[how](&q), names_of_derived[how]);
    passes_keep_the_bits(q.name, q.f, q.in);
    passes_keep_the_bits(d.name, d.f, d.in);
    f32_is_near_f64(one_in(2) ? &q : &d, narrow);
    if (!narrow) derivatives_agree(&q, &d, wrap, how); /* the order of sums may differ */
    maps_agree(one_in(2) ? &q : &d, one_in(3));
    func_fini(&d);
    func_fini(&q);
  }
}

static void amp_changes_dtypes_alone_before_and_behind_every_transform(void **state) {
  unsigned first = from_environment("MILLRACE_SEED", 0),
           n = from_environment("MILLRACE_PROGRAMS", 400);
  for (unsigned seed = first; seed < first + n; seed++) {
    bool narrow;
    func_t q = random_program(seed, false, &narrow);
    amp_of_original_is_the_program(&q, narrow);
    int how = q.forward_only ? JVP : VJP;
    func_t d = around(&q, derived[how](&q), names_of_derived[how]);
    amp_goes_with_every_transform(&q, &d);
    func_fini(&d);
    func_fini(&q);
  }
}

static void wild_programs_have_the_same_bits_with_and_without_passes(void **state) {
  unsigned first = from_environment("MILLRACE_SEED", 0),
           n = from_environment("MILLRACE_PROGRAMS", 400);
  for (unsigned seed = first; seed < first + n; seed += 2) {
    bool narrow;
    func_t q = random_program(seed, true, &narrow);
    int how = q.forward_only ? JVP : VJP;
    func_t d = around(&q, derived[how](&q), names_of_derived[how]);
    passes_keep_the_bits(q.name, q.f, q.in);
    passes_keep_the_bits(d.name, d.f, d.in);
    func_fini(&d);
    func_fini(&q);
  }
}

/* ---- for jax ---- */

/* The program of a seed, and what it, its derivative or a map of that gives in f64. */
static void write_program(FILE *to, unsigned seed, bool wild) {
  bool narrow;
  func_t q = random_program(seed, wild, &narrow), d = q, m = q;
  int how = (int)under(3); /* 2: the values themselves */
  while (how < 2 && !allowed(&q, JIT, how)) how = (int)under(3);
  bool mapped = one_in(3);
  double *got[GRID_MAX];
  if (how < 2) d = around(&q, derived[how](&q), names_of_derived[how]);
  if (mapped) m = around(&q, make_vmap(&d), "vmap");
  if (mapped) free_all(m.f->n_in, m.in), draw_inputs(&m, wild);
  const func_t *last = mapped ? &m : how < 2 ? &d : &q;
  if (!narrow) {
    run_f64(last->f, last->in, got);
    fprintf(to, "# program\nname = '%s'\nhow = '%s'\nmapped = %s\nwrt = (0, 1, 2)\n", q.name,
            how < 2 ? names_of_derived[how] : "value", mapped ? "True" : "False");
    python_fn(to, q.f, "program", 0);
    python_values(to, "inputs", last->f->n_in, last->f->in, last->in);
    python_values(to, "results", last->f->n_out, last->f->out, got);
    free_all(last->f->n_out, got);
  }
  if (how < 2) func_fini(&d);
  if (mapped) func_fini(&m);
  func_fini(&q);
}

static int write_programs(const char *path) {
  unsigned first = from_environment("MILLRACE_SEED", 0),
           n = from_environment("MILLRACE_PROGRAMS", 400);
  FILE *to = fopen(path, "w");
  if (!to) return perror(path), 1;
  for (unsigned seed = first; seed < first + n; seed++) write_program(to, seed, seed % 2);
  return fclose(to) != 0;
}

int main(void) {
  if (getenv("MILLRACE_PROGRAMS_TO")) return write_programs(getenv("MILLRACE_PROGRAMS_TO"));
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(tame_programs_are_what_they_are_in_f64_and_under_every_transform),
      cmocka_unit_test(amp_changes_dtypes_alone_before_and_behind_every_transform),
      cmocka_unit_test(wild_programs_have_the_same_bits_with_and_without_passes),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
