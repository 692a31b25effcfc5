/* Ops that run within fused loops, beside the elementwise ones (elementwise.c): conversions,
   selection, powers, GELU and dropout. */
#include <string.h>

#include "model/backends/cpu/program.h"
#include "model/backends/cpu/rows.h"
#include "model/backends/cpu/rules.h"
#include "model/ir/element.h"
#include "model/ops/lax.h"
#include "model/ops/rules.h"

static mr_dtype_t from_of(const mr_cpu_unit_t *u) { return u->eqn->in[0]->aval.dtype; }
static mr_dtype_t to_of(const mr_cpu_unit_t *u) { return u->eqn->out[0]->aval.dtype; }

/* ---- conversions ---- */
static bool is_short_float(mr_dtype_t t) { return mr_is_narrow(t) || mr_is_storage(t); }

static void narrow_run(const mr_cpu_unit_t *u, const void *const *in, void *out, int64_t n) {
  mr__rows()->convert(from_of(u), in[0], to_of(u), out, 0, u->step[0] ? n : 1);
  for (int64_t i = 1; !u->step[0] && i < n; i++)
    mr_set_f32(to_of(u), out, i, mr_get_f32(to_of(u), out, 0));
}

/* f8 to and from narrow floats and one another, by way of f32. */
static void f8_run(const mr_cpu_unit_t *u, const void *const *in, void *out, int64_t n) {
  enum { RUN = 256 };
  _Alignas(64) float wide[RUN];
  mr_dtype_t from = from_of(u), to = to_of(u);
  for (int64_t i = 0; i < n; i += RUN) {
    int64_t m = n - i < RUN ? n - i : RUN, read = u->step[0] ? m : 1;
    const char *x = (const char *)in[0] + (size_t)(i * u->step[0]) * mr_dtype_size(from);
    void *y = (char *)out + (size_t)i * mr_dtype_size(to);
    mr__rows()->convert(from, x, MR_F32, wide, 0, read);
    for (int64_t k = read; k < m; k++) wide[k] = wide[0];
    mr__rows()->convert(MR_F32, wide, to, y, 0, m);
  }
}

static void integer_run(const mr_cpu_unit_t *u, const void *const *in, void *out, int64_t n) {
  for (int64_t i = 0; i < n; i++)
    mr_set_i64(to_of(u), out, i, mr_get_i64(from_of(u), in[0], i * u->step[0]));
}

static void general_run(const mr_cpu_unit_t *u, const void *const *in, void *out, int64_t n) {
  for (int64_t i = 0; i < n; i++)
    mr_set_f64(to_of(u), out, i, mr_get_f64(from_of(u), in[0], i * u->step[0]));
}

/* bool and i32 to f32, as gradients of comparisons need. */
static void bool_run(const mr_cpu_unit_t *u, const void *const *in, void *out, int64_t n) {
  static const float zero = 0, one = 1;
  mr__lanes()->select(in[0], u->step[0], &zero, 0, &one, 0, out, sizeof one, n);
}

static void i32_run(const mr_cpu_unit_t *u, const void *const *in, void *out, int64_t n) {
  const int32_t *x = in[0];
  float *y = out;
  for (int64_t i = 0; i < n; i++) y[i] = (float)x[i * u->step[0]];
}

bool mr__cpu_unit_convert_element_type(mr_cpu_unit_t *u) {
  mr_dtype_t from = from_of(u), to = to_of(u);
  u->run = mr_is_narrow(from) && mr_is_narrow(to)       ? narrow_run
           : is_short_float(from) && is_short_float(to) ? f8_run
           : from == MR_BOOL && to == MR_F32            ? bool_run
           : from == MR_I32 && to == MR_F32             ? i32_run
           : !mr_is_float(from) && !mr_is_float(to)     ? integer_run
                                                        : general_run;
  return true;
}

/* ---- choices ---- */
static void select_run(const mr_cpu_unit_t *u, const void *const *in, void *out, int64_t n) {
  mr__lanes()->select(in[0], u->step[0], in[1], u->step[1], in[2], u->step[2], out,
                      (int)mr_dtype_size(u->eqn->out[0]->aval.dtype), n);
}

bool mr__cpu_unit_select_n(mr_cpu_unit_t *u) {
  u->run = select_run;
  return true;
}

/* ---- powers ---- */
static double integer_power(double x, int64_t y) {
  double r = 1;
  for (uint64_t n = y < 0 ? 0 - (uint64_t)y : (uint64_t)y; n; n >>= 1, x *= x)
    if (n & 1) r *= x;
  return y < 0 ? 1 / r : r;
}

static void power_run(const mr_cpu_unit_t *u, const void *const *in, void *out, int64_t n) {
  mr_dtype_t t = to_of(u);
  for (int64_t i = 0; i < n; i++)
    mr_set_f64(t, out, i, integer_power(mr_get_f64(t, in[0], i * u->step[0]), u->whole));
}

/* Integers wrap: 64-bit products, then truncated. */
static void rule_units_whole_run(const mr_cpu_unit_t *u, const void *const *in, void *out,
                                 int64_t n) {
  mr_dtype_t t = to_of(u);
  for (int64_t i = 0; i < n; i++) {
    uint64_t x = (uint64_t)mr_get_i64(t, in[0], i * u->step[0]), r = 1;
    for (int64_t y = u->whole; y; y >>= 1, x *= x)
      if (y & 1) r *= x;
    mr_set_i64(t, out, i, (int64_t)r);
  }
}

static void square_run(const mr_cpu_unit_t *u, const void *const *in, void *out, int64_t n) {
  u->kernel(to_of(u), in[0], u->step[0], in[0], u->step[0], out, n);
}

/* x^3 and x^4 in f32; larger powers, and those of other floats, in f64. */
static void small_run(const mr_cpu_unit_t *u, const void *const *in, void *out, int64_t n) {
  const float *x = in[0];
  float *y = out;
  int64_t step = u->step[0];
  if (u->whole == 3)
    for (int64_t i = 0; i < n; i++) y[i] = x[i * step] * x[i * step] * x[i * step];
  else
    for (int64_t i = 0; i < n; i++) {
      float square = x[i * step] * x[i * step];
      y[i] = square * square;
    }
}

bool mr__cpu_unit_integer_pow(mr_cpu_unit_t *u) {
  int64_t y = u->whole = mr_attr_get(u->eqn, "y")->i[0];
  mr_dtype_t t = to_of(u);
  u->kernel = mr__lanes()->at[MR_LANE_MUL];
  u->run = y == 2 && mr_is_narrow(t)           ? square_run
           : (y == 3 || y == 4) && t == MR_F32 ? small_run
           : !mr_is_float(t)                   ? rule_units_whole_run
                                               : power_run;
  return true;
}

/* ---- GELU ---- */
static void gelu_run(const mr_call_t *c) {
  const mr_aval_t *x = &c->eqn->in[0]->aval;
  const mr_gelu_t *kind = c->state;
  mr_gelu_fwd(*kind, x->dtype, c->in[0], c->out[0], mr_aval_elems(x));
}

static void gelu_vjp_run(const mr_call_t *c) {
  const mr_aval_t *x = &c->eqn->in[0]->aval;
  const mr_gelu_t *kind = c->state;
  mr_gelu_bwd(*kind, x->dtype, c->in[0], c->in[1], c->out[0], mr_aval_elems(x));
}

static mr_err_t lower_gelu(mr_call_t *c, void (*run)(const mr_call_t *c), mr_diag_t *diag) {
  mr_gelu_t kind = mr__gelu_kind(c->eqn);
  c->run = run;
  return mr__call_state(c, &kind, sizeof kind, diag);
}

mr_err_t mr__cpu_gelu(mr_call_t *c, mr_diag_t *diag) { return lower_gelu(c, gelu_run, diag); }

mr_err_t mr__cpu_gelu_vjp(mr_call_t *c, mr_diag_t *diag) {
  return lower_gelu(c, gelu_vjp_run, diag);
}

static void gelu_piece(const mr_cpu_unit_t *u, const void *const *in, void *out, int64_t n) {
  mr__rows()->gelu_fwd((mr_gelu_t)u->whole, from_of(u), in[0], out, 0, n);
}

static void gelu_unit_run(const mr_cpu_unit_t *u, const void *const *in, void *out, int64_t n) {
  mr__unit_written_out(u, gelu_piece, in, out, n);
}

bool mr__cpu_unit_gelu(mr_cpu_unit_t *u) {
  u->whole = mr__gelu_kind(u->eqn);
  u->run = gelu_unit_run;
  return true;
}

static void gelu_vjp_piece(const mr_cpu_unit_t *u, const void *const *in, void *out, int64_t n) {
  mr__rows()->gelu_bwd((mr_gelu_t)u->whole, from_of(u), in[0], in[1], out, 0, n);
}

static void gelu_vjp_unit_run(const mr_cpu_unit_t *u, const void *const *in, void *out, int64_t n) {
  mr__unit_written_out(u, gelu_vjp_piece, in, out, n);
}

bool mr__cpu_unit_gelu_vjp(mr_cpu_unit_t *u) {
  u->whole = mr__gelu_kind(u->eqn);
  u->run = gelu_vjp_unit_run;
  return true;
}

/* ---- dropout ---- */
typedef struct dropped {
  float rate;
  uint32_t site;
  int64_t first;
} dropped_t;

static dropped_t dropped_of(const mr_eqn_t *e) {
  return (dropped_t){(float)mr_attr_get(e, "rate")->f, (uint32_t)mr_attr_get(e, "site")->i[0],
                     mr_dropout_first(e)};
}

/* f64 has no kernel of its own: it draws the mask by dropping ones in f32. */
static void draw_f64(const mr_call_t *c, int64_t at, int64_t n, uint64_t seed, uint32_t step) {
  const dropped_t *s = c->state;
  const double *x = (const double *)c->in[0] + at;
  double *y = (double *)c->out[0] + at;
  float *mask = c->scratch;
  for (int64_t i = 0; i < n; i++) mask[i] = 1;
  mr_dropout(MR_F32, mask, mask, n, s->rate, seed, s->site, step, s->first);
  for (int64_t i = 0; i < n; i++) y[i] = mask[i] != 0 ? x[i] / (1 - (double)s->rate) : 0;
}

static void dropout_run(const mr_call_t *c) {
  const mr_aval_t *x = &c->eqn->in[0]->aval;
  const dropped_t *s = c->state;
  int64_t draws = mr_aval_elems(&c->eqn->in[1]->aval), n = draws ? mr_aval_elems(x) / draws : 0;
  for (int64_t d = 0; d < draws; d++) {
    uint64_t seed = ((const uint64_t *)c->in[1])[d];
    uint32_t step = ((const uint32_t *)c->in[2])[d];
    int64_t at = d * n * (int64_t)mr_dtype_size(x->dtype);
    if (x->dtype == MR_F64)
      draw_f64(c, d * n, n, seed, step);
    else
      mr_dropout(x->dtype, (char *)c->in[0] + at, (char *)c->out[0] + at, n, s->rate, seed, s->site,
                 step, s->first);
  }
}

mr_err_t mr__cpu_dropout(mr_call_t *c, mr_diag_t *diag) {
  const mr_aval_t *x = &c->eqn->in[0]->aval;
  dropped_t s = dropped_of(c->eqn);
  if (x->dtype == MR_F64) c->scratch_bytes = (size_t)mr_aval_elems(x) * sizeof(float);
  c->run = dropout_run;
  return mr__call_state(c, &s, sizeof s, diag);
}

static void dropout_unit_run(const mr_cpu_unit_t *u, const void *const *in, void *out, int64_t from,
                             int64_t n) {
  mr_dtype_t t = from_of(u);
  size_t size = mr_dtype_size(t);
  for (int64_t i = 0; !u->step[0] && i < n; i++) /* one element for all */
    memcpy((char *)out + (size_t)i * size, in[0], size);
  mr__rows()->dropout(t, u->step[0] ? in[0] : out, out, u->first + from, n, u->rate,
                      *(const uint64_t *)in[1], (uint32_t)u->whole, *(const uint32_t *)in[2]);
}

bool mr__cpu_unit_dropout(mr_cpu_unit_t *u) {
  dropped_t s = dropped_of(u->eqn);
  u->rate = s.rate;
  u->whole = s.site;
  u->first = s.first;
  u->run_at = dropout_unit_run;
  return true;
}

/* ---- dropout of a part of a larger array ---- */

/* A place out of range is the nearest one, as an index of take. */
static int64_t nearest_place(int32_t place, int64_t n) {
  return place < 0 ? 0 : place < n ? place : n - 1;
}

static void dropout_part_run(const mr_call_t *c) {
  const mr_dropout_part_t *p = c->state;
  const mr_aval_t *x = &c->eqn->in[0]->aval;
  const int32_t *place = c->in[3];
  uint64_t seed = *(const uint64_t *)c->in[1];
  uint32_t step = *(const uint32_t *)c->in[2];
  int64_t n = mr_aval_elems(x), rows = n / p->run;
  int64_t first = p->first + nearest_place(place[0], p->rows / rows) * rows * p->row +
                  nearest_place(place[1], p->row / p->run) * p->run;
  if (x->dtype != MR_F64) {
    mr_dropout_rows(x->dtype, c->in[0], c->out[0], rows, p->run, p->row, p->rate, seed, p->site,
                    step, first);
    return;
  }
  const double *from = c->in[0];
  double *y = c->out[0];
  float *mask = c->scratch;
  for (int64_t i = 0; i < n; i++) mask[i] = 1;
  mr_dropout_rows(MR_F32, mask, mask, rows, p->run, p->row, p->rate, seed, p->site, step, first);
  for (int64_t i = 0; i < n; i++) y[i] = mask[i] != 0 ? from[i] / (1 - (double)p->rate) : 0;
}

mr_err_t mr__cpu_dropout_part(mr_call_t *c, mr_diag_t *diag) {
  const mr_aval_t *x = &c->eqn->in[0]->aval;
  mr_dropout_part_t p = mr_dropout_part_of(c->eqn);
  if (x->dtype == MR_F64) c->scratch_bytes = (size_t)mr_aval_elems(x) * sizeof(float);
  c->run = dropout_part_run;
  return mr__call_state(c, &p, sizeof p, diag);
}

/* ---- stochastic rounding ---- */
static void stochastic_round_run(const mr_call_t *c) {
  const mr_aval_t *x = &c->eqn->in[0]->aval;
  uint32_t site = *(const uint32_t *)c->state;
  int64_t draws = mr_aval_elems(&c->eqn->in[1]->aval), n = draws ? mr_aval_elems(x) / draws : 0;
  const float *from = c->in[0];
  if (x->dtype == MR_F64) {
    float *narrow = c->scratch;
    for (int64_t i = 0; i < mr_aval_elems(x); i++) narrow[i] = (float)((const double *)c->in[0])[i];
    from = narrow;
  }
  for (int64_t d = 0; d < draws; d++)
    mr_stochastic_round(c->eqn->out[0]->aval.dtype, from + d * n, (uint16_t *)c->out[0] + d * n, n,
                        ((const uint64_t *)c->in[1])[d], site, ((const uint32_t *)c->in[2])[d]);
}

mr_err_t mr__cpu_stochastic_round(mr_call_t *c, mr_diag_t *diag) {
  const mr_aval_t *x = &c->eqn->in[0]->aval;
  uint32_t site = (uint32_t)mr_attr_get(c->eqn, "site")->i[0];
  if (x->dtype == MR_F64) c->scratch_bytes = (size_t)mr_aval_elems(x) * sizeof(float);
  c->run = stochastic_round_run;
  return mr__call_state(c, &site, sizeof site, diag);
}

/* ---- a fused loop of such ops ---- */
mr_err_t mr__cpu_fused(mr_call_t *c, mr_diag_t *diag) {
  const mr_fn_t *body = mr_attr_called(c->eqn, "jaxpr");
  return mr__program_lower(c, body->n_eqn, body->eqn, body->n_in, body->in, body->n_out, body->out,
                           diag);
}
