/* Programs made from a seed for the passes that make few kernels of many: the same formulas over
   several tensors, whose operands are permuted, shared and overlap; products that share an operand;
   gradients; results that are written over operands, which other loops read.

   GROUP neighbouring seeds are put into one graph, and have formulas, shapes and dtypes in common:
   a device's compiler takes a tenth of a second for a kernel, and these have many in common.  Each
   graph is compiled without the passes under test, with all of them, and every second one with some
   drawn at random; the results have the same bits, and are near what the CPU computes.
   MILLRACE_PROGRAMS=N takes N programs, MILLRACE_SEED=S begins at seed S; what fails names its
   seed.

   Every value is of [-1,1] but for gradients, and no operation jumps, so that roundings that differ
   move results by little. */
#ifndef MR_TESTS_MODEL_RANDOM_JOINED_H
#define MR_TESTS_MODEL_RANDOM_JOINED_H

#include "tests/model/device_run.h"

enum {
  GROUP = 64,
  SLOTS = 4,   /* operands of a formula at most */
  STEPS = 7,   /* operations of a formula at most */
  PER = 3,     /* tensors of each shape and dtype at first */
  POOL = 24,   /* and at most */
  LOOPS = 6,   /* of a program */
  UPDATES = 4, /* of a program: inputs that results are written over */
  RESULTS = 2, /* of a formula at most */
  ENDS = 64    /* inputs, and outputs, of a program at most */
};

/* An operation of a formula, of the slots and of the values before it. */
typedef struct formula_step {
  int how, a, b;
} formula_step_t;

typedef struct random_formula {
  int slots, steps, results;
  int dtype[SLOTS];   /* of each slot, 0 or 1: the program's first or second */
  bool single[SLOTS]; /* one number, spread to the tensor's shape */
  formula_step_t step[STEPS];
  int to[RESULTS]; /* dtype of each result */
} random_formula_t;

/* Tensors of one shape and dtype. */
typedef struct pool {
  mr_aval_t aval;
  int n;
  mr_var_t *v[POOL];
} pool_t;

/* What the programs of a group have in common. */
typedef struct joined_family {
  mr_aval_t shape[2];
  mr_dtype_t dtype[2];
  random_formula_t loop[2], update;
} joined_family_t;

typedef struct joined_program {
  mr_fn_t *f;
  const joined_family_t *of;
  bool smooth; /* it is differentiated: gradients have few kernels in common, so it has few loops */
  mr_dtype_t dtype[2];
  pool_t pool[2][2]; /* by shape and dtype */
  pool_t single[2];  /* single numbers, by dtype */
  int n_out;
  mr_var_t *out[4 * PER + LOOPS * (RESULTS + 3) + UPDATES + 1];
} joined_program_t;

static inline uint32_t below(uint32_t n) { return (uint32_t)((uint64_t)grid_random() * n >> 24); }

static inline unsigned number_from(const char *name, unsigned usual) {
  const char *text = getenv(name);
  return text ? (unsigned)strtoul(text, NULL, 10) : usual;
}

/* ---- formulas ---- */

static inline random_formula_t random_formula(void) {
  random_formula_t r = {.slots = 2 + (int)below(SLOTS - 1)};
  r.steps = r.slots + (int)below((uint32_t)(STEPS - r.slots + 1));
  r.results = 1 + (int)below(RESULTS);
  for (int k = 0; k < r.slots; k++) {
    r.dtype[k] = (int)below(2);
    r.single[k] = k && below(5) == 0;
  }
  for (int i = 0; i < r.steps; i++) { /* the last value is one of all slots */
    int before = r.slots + i - 1;
    r.step[i] = (formula_step_t){(int)below(9), i < r.slots ? i : (int)below((uint32_t)before),
                                 i ? before : r.slots - 1};
  }
  for (int k = 0; k < r.results; k++) r.to[k] = (int)below(2);
  return r;
}

static inline mr_var_t *half_of(mr_fn_t *f, mr_var_t *x) { return mr_lax_scale(f, 0.5, x); }

static inline mr_var_t *step_of(mr_fn_t *f, int how, bool smooth, mr_var_t *a, mr_var_t *b) {
  switch (how) {
    case 0: return half_of(f, mr_lax_add(f, a, b));
    case 1: return half_of(f, mr_lax_sub(f, a, b));
    case 2:
    case 3: return mr_lax_mul(f, a, b);
    case 4: return smooth ? mr_lax_mul(f, a, mr_lax_sin(f, b)) : mr_lax_max(f, a, b);
    case 5: return smooth ? mr_lax_mul(f, mr_lax_tanh(f, a), b) : mr_lax_min(f, a, b);
    case 6: return mr_lax_tanh(f, mr_lax_sub(f, a, b));
    case 7: return half_of(f, mr_lax_sub(f, a, mr_lax_mul(f, a, b)));
    default: return mr_lax_mul(f, mr_lax_neg(f, a), b);
  }
}

/* The formula of `in`, tensors of the shape of `like` and single numbers, in f32 or narrower. */
static inline void formula_of_slots(joined_program_t *p, const random_formula_t *r,
                                    const mr_aval_t *like, mr_var_t *const *in, mr_var_t **out) {
  mr_var_t *v[SLOTS + STEPS];
  for (int k = 0; k < r->slots; k++) {
    v[k] = r->single[k] ? mr_lax_broadcast_in_dim(p->f, in[k], like->ndim, like->dim, NULL) : in[k];
    if (v[k]->aval.dtype != p->dtype[0]) v[k] = mr_lax_convert(p->f, v[k], p->dtype[0]);
  }
  for (int i = 0; i < r->steps; i++)
    v[r->slots + i] = step_of(p->f, r->step[i].how, p->smooth, v[r->step[i].a], v[r->step[i].b]);
  for (int k = 0; k < r->results; k++) {
    mr_var_t *y = v[r->slots + r->steps - 1 - (k < r->steps ? k : 0)];
    out[k] = mr_lax_convert(p->f, y, p->dtype[r->to[k]]);
  }
}

/* ---- one program ---- */

static inline void add_to(pool_t *p, mr_var_t *v) {
  if (p->n < POOL) p->v[p->n++] = v;
}

static inline mr_var_t *pick_of(const pool_t *p) { return p->v[below((uint32_t)p->n)]; }

/* Shapes of a program: most are small, some large enough for `recompute` and for kernels of eight
   elements an item. */
static inline void random_shapes(mr_aval_t a[2]) {
  static const int64_t dim[][3] = {{2, 7},   {1, 40},    {3, 17},   {1, 64},
                                   {5, 129}, {3, 4, 16}, {256, 128}};
  for (int s = 0; s < 2; s++) {
    const int64_t *d = dim[below(16) == 0 ? 6 : below(6)];
    a[s] = (mr_aval_t){.dtype = MR_F32, .ndim = d[2] ? 3 : 2, .dim = {d[0], d[1], d[2]}};
  }
}

static inline joined_family_t random_family(uint32_t group) {
  static const mr_dtype_t some[] = {MR_F32, MR_BF16, MR_F16};
  grid_state = (group + 1) * 2246822519u;
  for (int i = 0; i < 4; i++) grid_random();
  joined_family_t r = {.update = random_formula()};
  random_shapes(r.shape);
  for (int i = 0; i < 2; i++) r.loop[i] = random_formula(), r.dtype[i] = some[below(3)];
  r.update.results = 1, r.update.to[0] = 0;
  return r;
}

static inline void begin_pools(joined_program_t *p) {
  for (int t = 0; t < 2; t++) {
    p->dtype[t] = p->of->dtype[t];
    for (int s = 0; s < 2; s++) {
      p->pool[s][t] = (pool_t){.aval = p->of->shape[s]};
      p->pool[s][t].aval.dtype = p->dtype[t];
    }
    p->single[t] = (pool_t){.aval = mr_aval_scalar(p->dtype[t])};
  }
}

/* Tensors that are read alone: PER of each kind, and two single numbers of each dtype. */
static inline void add_inputs(joined_program_t *p) {
  for (int t = 0; t < 2; t++) {
    for (int s = 0; s < 2; s++)
      for (int k = 0; k < PER; k++) add_to(&p->pool[s][t], mr_fn_input(p->f, p->pool[s][t].aval));
    for (int k = 0; k < 2; k++) add_to(&p->single[t], mr_fn_input(p->f, p->single[t].aval));
  }
}

/* One loop of formula r over shape s. */
static inline void apply_formula(joined_program_t *p, const random_formula_t *r, int s,
                                 mr_var_t **out) {
  mr_var_t *in[SLOTS];
  bool apart =
      below(8) != 0; /* each operand once: bodies of loops that read one twice are others */
  for (int k = 0; k < r->slots; k++) {
    const pool_t *of = r->single[k] ? &p->single[r->dtype[k]] : &p->pool[s][r->dtype[k]];
    bool again = true;
    for (int turn = 0; turn < POOL && again; turn++) {
      in[k] = pick_of(of), again = false;
      for (int j = 0; j < k && apart; j++) again |= in[j] == in[k];
    }
  }
  formula_of_slots(p, r, &p->pool[s][0].aval, in, out);
}

/* Products of one tensor with two, or what a row's sum leaves, as values that loops read. */
static inline mr_var_t *between(joined_program_t *p, int s, int t) {
  mr_fn_t *f = p->f;
  mr_var_t *x = pick_of(&p->pool[s][t]), *y = pick_of(&p->pool[s][t]), *z[2];
  mr_aval_t a = x->aval;
  int last = a.ndim - 1;
  if (below(2)) { /* x by the mean of its row, as a normalization's backward pass has it */
    mr_var_t *sum = mr_lax_reduce_sum(f, mr_lax_convert(f, x, MR_F32), 1, (int[]){last});
    sum = mr_lax_scale(f, 1.0 / (double)a.dim[last], sum);
    sum = mr_lax_broadcast_in_dim(f, sum, a.ndim, a.dim, (int[]){0, 1});
    return mr_lax_convert(f, mr_lax_mul(f, mr_lax_convert(f, x, MR_F32), sum), x->aval.dtype);
  }
  /* x (y^T x) and x (y^T y), rows of a matrix, scaled to [-1,1]: both read x. */
  int64_t rows = mr_aval_elems(&a) / a.dim[last], cols = a.dim[last];
  mr_var_t *m = mr_lax_reshape(f, x, 2, (int64_t[]){rows, cols});
  mr_var_t *w[] = {mr_lax_reshape(f, y, 2, (int64_t[]){rows, cols}), m};
  const mr_dot_dims_t turned = {.n_contract = 1, .lhs_contract = {1}, .rhs_contract = {1}};
  const mr_dot_dims_t plain = {.n_contract = 1, .lhs_contract = {1}, .rhs_contract = {0}};
  for (int k = 0; k < 2; k++) {
    z[k] = mr_lax_dot_general(f, m, w[k], &turned, MR_F32);
    z[k] = mr_lax_convert(f, mr_lax_scale(f, 1.0 / (double)cols, z[k]), x->aval.dtype);
    z[k] = mr_lax_dot_general(f, z[k], w[0], &plain, MR_F32);
    z[k] = mr_lax_scale(f, 1.0 / (double)rows, z[k]);
  }
  z[0] = mr_lax_mul(f, z[0], z[1]);
  return mr_lax_reshape(f, mr_lax_convert(f, z[0], x->aval.dtype), a.ndim, a.dim);
}

/* Two tensors side by side, converted, and cut apart again. */
static inline void add_moves(joined_program_t *p) {
  int s = (int)below(2), t = (int)below(2);
  mr_var_t *x = pick_of(&p->pool[s][t]), *all;
  int64_t start[MR_MAX_NDIM] = {0}, limit[MR_MAX_NDIM];
  int last = x->aval.ndim - 1;
  all = mr_lax_concatenate(p->f, 2, (mr_var_t *[]){x, pick_of(&p->pool[s][t])}, last);
  p->out[p->n_out++] = mr_lax_convert(p->f, all, p->dtype[!t]);
  for (int d = 0; d <= last; d++) limit[d] = all->aval.dim[d];
  for (int k = 0; k < 2; k++) {
    start[last] = k * x->aval.dim[last], limit[last] = start[last] + x->aval.dim[last];
    mr_var_t *part = mr_lax_slice(p->f, all, start, limit);
    p->out[p->n_out++] = part;
    if (below(2)) add_to(&p->pool[s][t], part);
  }
}

/* Loops of one or two formulas; some read others' results. */
static inline void random_loops(joined_program_t *p) {
  const random_formula_t *r = p->of->loop;
  int loops = p->smooth ? 2 : 3 + (int)below(LOOPS - 2), formulas = 1 + (int)below(2);
  for (int i = 0; i < loops; i++) {
    int s = (int)below(2), which = (int)below((uint32_t)formulas);
    if (below(6) == 0) add_moves(p);
    mr_var_t *out[RESULTS];
    apply_formula(p, &r[which], s, out);
    bool more = below(4) == 0;
    for (int k = 0; k < r[which].results; k++) {
      p->out[p->n_out++] = out[k];
      if (more) add_to(&p->pool[s][r[which].to[k]], out[k]);
    }
    if (below(24)) continue;
    int t = (int)below(2);
    mr_var_t *v = between(p, s, t);
    for (int k = 0; k < 2; k++) add_to(&p->pool[s][t], v);
  }
}

/* inputs -> a number and its gradient by each input: of the loops' results, weighted. */
static inline mr_fn_t *gradient_of_loops(joined_program_t *p) {
  mr_var_t *sum = NULL;
  int wrt[GRID_MAX];
  mr_fn_t *g = NULL;
  mr_diag_t diag = {0};
  for (int k = 0; k < p->n_out; k++) {
    mr_var_t *y = mr_lax_convert(p->f, p->out[k], MR_F32);
    int axes[] = {0, 1, 2};
    y = mr_lax_reduce_sum(p->f, mr_lax_mul(p->f, y, y), y->aval.ndim, axes);
    y = mr_lax_scale(p->f, 1.0 / (double)elems(p->out[k]), y);
    sum = sum ? mr_lax_add(p->f, sum, y) : y;
  }
  mr_fn_return(p->f, 1, &sum);
  for (int i = 0; i < p->f->n_in; i++) wrt[i] = i;
  if (mr_value_and_grad(p->f, p->f->n_in, wrt, &g, &diag) < 0) fail_msg("%s", diag.text);
  mr_fn_destroy(p->f);
  return g;
}

/* The updates of a program: *n tensors, the last inputs, are read by loops of one formula, whose
   results become the last outputs and have the same avals.  A loop may read what another one's
   result is written over. */
static inline void add_updates(joined_program_t *p, int *n) {
  mr_var_t *out[RESULTS], *made[UPDATES];
  int s[UPDATES];
  *n = 2 + (int)below(UPDATES - 1);
  for (int k = 0; k < *n; k++) {
    s[k] = (int)below(2);
    add_to(&p->pool[s[k]][0], mr_fn_input(p->f, p->pool[s[k]][0].aval));
  }
  /* Mostly of the tensors that are updated, as momentum and parameters are. */
  for (int i = 0; i < 2; i++) {
    pool_t *of = &p->pool[i][0];
    if (below(2) && of->n > PER)
      memmove(of->v, of->v + PER, (size_t)(of->n -= PER) * sizeof *of->v);
  }
  for (int k = 0; k < *n; k++) apply_formula(p, &p->of->update, s[k], out), made[k] = out[0];
  for (int k = 0; k < *n; k++) p->out[p->n_out++] = made[k];
}

/* inputs -> results; the last *in_place inputs may become the last outputs. */
static inline mr_fn_t *random_joined(uint32_t seed, int *in_place) {
  joined_family_t family = random_family(seed / GROUP);
  joined_program_t p = {.f = mr_fn_create(), .of = &family};
  grid_state = (seed + 1) * 2654435761u;
  for (int i = 0; i < 4; i++) grid_random();
  p.smooth = below(24) == 0;
  begin_pools(&p);
  add_inputs(&p);
  mr_fn_t *g = NULL;
  if (p.smooth) { /* gradients, and updates by them */
    random_loops(&p);
    g = gradient_of_loops(&p);
    mr_var_t *y[GRID_MAX];
    p.f = mr_fn_create(), p.n_out = 0;
    for (int s = 0; s < 2; s++)
      for (int t = 0; t < 2; t++) p.pool[s][t].n = 0;
    for (int t = 0; t < 2; t++) p.single[t].n = 0;
    add_inputs(&p);
    if (mr_inline(p.f, g, p.f->in, y) < 0) fail_msg("%s", p.f->diag.text);
    p.out[p.n_out++] = y[0];
    for (int t = 0, k = 1; t < 2; t++, k += 2) /* two single numbers come behind the tensors */
      for (int s = 0; s < 2; s++)
        for (int i = 0; i < PER; i++, k++) {
          add_to(&p.pool[s][t], y[k]);
          if (below(2)) p.out[p.n_out++] = y[k];
        }
    mr_fn_destroy(g);
  } else {
    random_loops(&p);
  }
  add_updates(&p, in_place);
  if (mr_fn_return(p.f, p.n_out, p.out) < 0) fail_msg("seed %u: %s", seed, p.f->diag.text);
  return p.f;
}

/* ---- several programs as one graph ---- */

typedef struct joined_group {
  mr_fn_t *f;
  unsigned first; /* seed */
  int n, in_place;
  int seed_of[GRID_MAX]; /* by output */
} joined_group_t;

/* Programs of seeds [first,first+n).  Their inputs that may be written over come last, and so do
   the outputs that are written there. */
static inline joined_group_t joined_group(unsigned first, int n) {
  joined_group_t g = {.f = mr_fn_create(), .first = first, .n = n};
  mr_fn_t *part[GROUP];
  mr_var_t *in[GROUP][ENDS], *out[GROUP][ENDS], *all[GRID_MAX];
  int over[GROUP], n_out = 0;
  assert_true(n <= GROUP);
  for (int i = 0; i < n; i++) {
    part[i] = random_joined(first + (unsigned)i, &over[i]);
    assert_true(part[i]->n_in <= ENDS && part[i]->n_out <= ENDS);
  }
  for (int late = 0; late < 2; late++)
    for (int i = 0; i < n; i++)
      for (int k = 0; k < part[i]->n_in; k++)
        if ((k >= part[i]->n_in - over[i]) == late)
          in[i][k] = mr_fn_input(g.f, part[i]->in[k]->aval);
  for (int i = 0; i < n; i++)
    if (mr_inline(g.f, part[i], in[i], out[i]) < 0) fail_msg("%s", g.f->diag.text);
  for (int late = 0; late < 2; late++)
    for (int i = 0; i < n; i++)
      for (int k = 0; k < part[i]->n_out; k++)
        if ((k >= part[i]->n_out - over[i]) == late)
          g.seed_of[n_out] = (int)first + i, all[n_out++] = out[i][k];
  for (int i = 0; i < n; i++) g.in_place += over[i];
  if (mr_fn_return(g.f, n_out, all) < 0) fail_msg("%s", g.f->diag.text);
  for (int i = 0; i < n; i++) mr_fn_destroy(part[i]);
  return g;
}

/* As run_there_with, where inputs may be written over: a run has the arrays of the inputs in place
   as its last outputs. */
static inline void run_in_place(const char *what, const joined_group_t *g, const char *skip,
                                void *const *in, void **out) {
  const mr_fn_t *f = g->f;
  mr_compile_options_t o = {.device = device, .skip = skip, .in_place = g->in_place};
  mr_diag_t diag = {0};
  mr_exec_t *x = NULL;
  void *a[GRID_MAX], *y[GRID_MAX];
  if (mr_compile(f, &o, &x, &diag) < 0) fail_msg("%s: %s", what, diag.text);
  for (int i = 0; i < f->n_in; i++) a[i] = there(in[i], mr_aval_bytes(&f->in[i]->aval));
  for (int i = 0; i < f->n_out; i++) {
    size_t bytes = mr_aval_bytes(&f->out[i]->aval);
    int own = i - (f->n_out - g->in_place);
    out[i] = grid_bytes(bytes);
    memset(out[i], 0xFF, bytes);
    y[i] = own < 0 ? there(out[i], bytes) : a[f->n_in - g->in_place + own];
  }
  mr_exec_run(x, (const void *const *)a, y);
  for (int i = 0; i < f->n_out; i++) {
    size_t bytes = mr_aval_bytes(&f->out[i]->aval);
    mr_device_copy(device, out[i], y[i], bytes, MR_COPY_OUT);
    if (i < f->n_out - g->in_place) mr_device_give(device, y[i], bytes);
  }
  for (int i = 0; i < f->n_in; i++) mr_device_give(device, a[i], mr_aval_bytes(&f->in[i]->aval));
  mr_exec_destroy(x);
}

static inline void assert_group_bits(const char *what, const joined_group_t *g, void *const *got,
                                     void *const *want) {
  for (int i = 0; i < g->f->n_out; i++) {
    const mr_aval_t *a = &g->f->out[i]->aval;
    size_t one = mr_dtype_size(a->dtype);
    for (int64_t k = 0; k < mr_aval_elems(a); k++)
      if (memcmp((char *)got[i] + (size_t)k * one, (char *)want[i] + (size_t)k * one, one))
        fail_msg(
            "seed %d, in a graph of %d programs from %u on, %s: output %d element %lld is "
            "%.12g, and %.12g without passes",
            g->seed_of[i], g->n, g->first, what, i, (long long)k, mr_get_f64(a->dtype, got[i], k),
            mr_get_f64(a->dtype, want[i], k));
  }
}

/* The CPU rounds where the device does, but tanh and sums may round otherwise: after a dozen
   roundings to bf16, each of values of at most 1, results are within a few of its steps. */
static inline void assert_group_near_here(const joined_group_t *g, void *const *in,
                                          void *const *there) {
  mr_compile_options_t o = {.skip = ""};
  mr_diag_t diag = {0};
  mr_exec_t *x = NULL;
  void *here[GRID_MAX];
  if (mr_compile(g->f, &o, &x, &diag) < 0) fail_msg("%s", diag.text);
  for (int i = 0; i < g->f->n_out; i++) here[i] = grid_bytes(mr_aval_bytes(&g->f->out[i]->aval));
  mr_exec_run(x, (const void *const *)in, here);
  for (int i = 0; i < g->f->n_out; i++) {
    const mr_aval_t *a = &g->f->out[i]->aval;
    for (int64_t k = 0; k < mr_aval_elems(a); k++) {
      double got = mr_get_f64(a->dtype, there[i], k), want = mr_get_f64(a->dtype, here[i], k);
      if (!(fabs(got - want) <= (1 + fabs(want)) / 16))
        fail_msg(
            "seed %d, in a graph of %d programs from %u on: output %d element %lld is %.12g "
            "on the device, %.12g on the CPU",
            g->seed_of[i], g->n, g->first, i, (long long)k, got, want);
    }
    free(here[i]);
  }
  mr_exec_destroy(x);
}

/* Some of the passes under test. */
static inline const char *random_skip(char text[64]) {
  static const char *const pass[] = {"join", "fuse", "recompute", "merge-products", "beside"};
  uint32_t some = 1 + below(30);
  text[0] = 0;
  for (int i = 0; i < 5; i++)
    if (some >> i & 1) sprintf(text + strlen(text), "%s%s", *text ? "," : "", pass[i]);
  return text;
}

static inline void joined_programs_are_right_with_and_without_passes(void **state) {
  unsigned first = number_from("MILLRACE_SEED", GROUP), n = number_from("MILLRACE_PROGRAMS", GROUP);
  print_message("%u programs from seed %u on\n", n, first);
  for (unsigned seed = first; seed < first + n; seed += GROUP) {
    int size = first + n - seed < GROUP ? (int)(first + n - seed) : GROUP;
    joined_group_t g = joined_group(seed, size);
    void *in[GRID_MAX], *want[GRID_MAX], *got[GRID_MAX];
    char some[64];
    grid_state = (seed + 1) * 747796405u;
    for (int i = 0; i < g.f->n_in; i++) {
      double *x = doubles(elems(g.f->in[i]));
      for (int64_t k = 0; k < elems(g.f->in[i]); k++) x[k] = random_in(-1, 1);
      in[i] = bytes_of(&g.f->in[i]->aval, x);
      free(x);
    }
    const char *skip[] = {"", random_skip(some)};
    run_in_place("without passes", &g, "join,fuse,recompute,merge-products,beside", in, want);
    assert_group_near_here(&g, in, want);
    for (int k = 0; k < 1 + (int)(seed / GROUP % 2); k++) {
      char what[96];
      snprintf(what, sizeof what, k ? "all passes but %s" : "all passes%s", skip[k]);
      run_in_place(what, &g, skip[k], in, got);
      assert_group_bits(what, &g, got, want);
      for (int i = 0; i < g.f->n_out; i++) free(got[i]);
    }
    for (int i = 0; i < g.f->n_out; i++) free(want[i]);
    for (int i = 0; i < g.f->n_in; i++) free(in[i]);
    mr_fn_destroy(g.f);
  }
}

#endif
