/* Elementwise ops on the CPU: a vector kernel (lanes.h) if the op's rule names one, else a
   function call for each element. */
#include <string.h>

#include "model/backends/cpu/program.h"
#include "model/backends/cpu/rows.h"
#include "model/backends/cpu/rules.h"
#include "model/ir/element.h"
#include "model/ops/rules.h"

static uint64_t get_u64(mr_dtype_t t, const void *p, int64_t i) {
  return (uint64_t)mr_get_i64(t, p, i);
}

static void set_u64(mr_dtype_t t, void *p, int64_t i, uint64_t v) {
  mr_set_i64(t, p, i, (int64_t)v);
}

/* f32, bf16 and f16 compute in f32, f64 in f64, other dtypes in integers. */
#define UNARY(name, type, member, get, set)                                               \
  static void name(const mr_cpu_unit_t *u, const void *const *in, void *out, int64_t n) { \
    type (*at)(type) = u->eqn->op->cpu.member;                                            \
    mr_dtype_t xt = u->eqn->in[0]->aval.dtype, yt = u->eqn->out[0]->aval.dtype;           \
    for (int64_t i = 0; i < n; i++) set(yt, out, i, at(get(xt, in[0], i * u->step[0])));  \
  }

UNARY(unary_f32, float, f1, mr_get_f32, mr_set_f32)
UNARY(unary_f64, double, d1, mr_get_f64, mr_set_f64)
UNARY(unary_i64, int64_t, i1, mr_get_i64, mr_set_i64)
UNARY(unary_u64, uint64_t, u1, get_u64, set_u64)

#define BINARY(name, type, member, get, set)                                                   \
  static void name(const mr_cpu_unit_t *u, const void *const *in, void *out, int64_t n) {      \
    type (*at)(type, type) = u->eqn->op->cpu.member;                                           \
    mr_dtype_t at_a = u->eqn->in[0]->aval.dtype, at_b = u->eqn->in[1]->aval.dtype;             \
    mr_dtype_t yt = u->eqn->out[0]->aval.dtype;                                                \
    for (int64_t i = 0; i < n; i++)                                                            \
      set(yt, out, i, at(get(at_a, in[0], i * u->step[0]), get(at_b, in[1], i * u->step[1]))); \
  }

BINARY(binary_f32, float, f2, mr_get_f32, mr_set_f32)
BINARY(binary_f64, double, d2, mr_get_f64, mr_set_f64)
BINARY(binary_i64, int64_t, i2, mr_get_i64, mr_set_i64)
BINARY(binary_u64, uint64_t, u2, get_u64, set_u64)

static void lane_run(const mr_cpu_unit_t *u, const void *const *in, void *out, int64_t n) {
  u->kernel(u->eqn->in[0]->aval.dtype, in[0], u->step[0], in[1], u->step[1], out, n);
}

static void elementwise_whole_run(const mr_cpu_unit_t *u, const void *const *in, void *out,
                                  int64_t n) {
  u->kernel(MR_I32, in[0], u->step[0], in[1], u->step[1], out, n);
}

/* bf16 or f16 with f32: widens the narrow operands, a few elements at a time. */
static void mixed_run(const mr_cpu_unit_t *u, const void *const *in, void *out, int64_t n) {
  enum { RUN = 256 };
  _Alignas(64) float wide[2][RUN];
  mr_lane_fn *kernel = u->kernel;
  for (int64_t from = 0; from < n; from += RUN) {
    int64_t m = n - from < RUN ? n - from : RUN;
    const void *x[2];
    for (int k = 0; k < 2; k++) {
      int64_t at = from * u->step[k];
      mr_dtype_t t = u->eqn->in[k]->aval.dtype;
      x[k] = t == MR_F32 ? (const void *)((const float *)in[k] + at) : wide[k];
      if (t != MR_F32)
        mr__rows()->convert(t, (const mr_bf16_t *)in[k] + at, MR_F32, wide[k], 0,
                            u->step[k] ? m : 1);
    }
    kernel(MR_F32, x[0], u->step[0], x[1], u->step[1], (float *)out + from, m);
  }
}

static mr_lane_t lane_of(const mr_op_def_t *op) {
  const mr_cpu_rule_t *r = mr__cpu_rule(op);
  return r ? r->lane : MR_LANE_NONE;
}

/* Sets the vector kernel for f32, bf16 and f16; an op may also mix them.  false: none
   fits. */
static bool lane_unit(mr_cpu_unit_t *u, mr_lane_t lane) {
  const mr_eqn_t *e = u->eqn;
  mr_dtype_t t = e->in[0]->aval.dtype, y = e->out[0]->aval.dtype;
  bool mixed = y != MR_BOOL && y != t;
  if (!lane || !mr_is_narrow(t)) return false;
  for (int k = 1; k < e->n_in; k++) {
    if (!mr_is_narrow(e->in[k]->aval.dtype)) return false;
    mixed |= e->in[k]->aval.dtype != t;
  }
  if (mixed && (e->n_in != 2 || y != MR_F32)) return false;
  u->kernel = mr__lanes()->at[lane];
  u->run = mixed ? mixed_run : lane_run;
  return true;
}

bool mr__cpu_unit_pointwise(mr_cpu_unit_t *u) {
  const mr_pointwise_t *at = &u->eqn->op->cpu;
  mr_dtype_t t = u->eqn->in[0]->aval.dtype;
  mr_lane_t lane = lane_of(u->eqn->op);
  bool one = u->eqn->n_in == 1;
  u->is.kind = MR_UNIT_EACH;
  if (lane_unit(u, lane)) return true;
  if (t == MR_I32 && u->eqn->n_in == 2 && lane && mr__lanes()->i32[lane]) {
    u->kernel = mr__lanes()->i32[lane];
    u->run = elementwise_whole_run;
    return true;
  }
  if (mr_is_narrow(t))
    u->run = one ? (at->f1 ? unary_f32 : NULL) : (at->f2 ? binary_f32 : NULL);
  else if (t == MR_F64)
    u->run = one ? (at->d1 ? unary_f64 : NULL) : (at->d2 ? binary_f64 : NULL);
  else if (mr_is_storage(t))
    u->run = NULL;
  else if (t == MR_U64 && (one ? at->u1 != NULL : at->u2 != NULL))
    u->run = one ? unary_u64 : binary_u64;
  else
    u->run = one ? (at->i1 ? unary_i64 : NULL) : (at->i2 ? binary_i64 : NULL);
  return u->run;
}

mr_err_t mr__cpu_pointwise(mr_call_t *c, mr_diag_t *diag) {
  mr_cpu_unit_t u = {.eqn = c->eqn};
  if (mr__cpu_unit_pointwise(&u)) return mr__program_one(c, diag);
  return mr_fail(diag, MR_ERR_NORULE, "%s%s%s: the CPU has no kernel for %s", c->eqn->scope,
                 *c->eqn->scope ? ": " : "", c->eqn->op->name,
                 mr_dtype_name(c->eqn->in[0]->aval.dtype));
}

enum { PIECE = 256 };

void mr__unit_written_out(const mr_cpu_unit_t *u, mr_unit_kernel *kernel, const void *const *in,
                          void *out, int64_t n) {
  _Alignas(64) char room[MR_UNIT_IN][PIECE * sizeof(double)];
  size_t size = mr_dtype_size(u->eqn->out[0]->aval.dtype);
  const void *x[MR_UNIT_IN] = {0};
  bool ones = false;
  for (int k = 0; k < u->eqn->n_in; k++) {
    ones |= !u->step[k];
    x[k] = u->step[k] ? in[k] : room[k];
    for (size_t i = 0; !u->step[k] && i < PIECE; i++) memcpy(room[k] + i * size, in[k], size);
  }
  int64_t each = ones ? PIECE : n;
  for (int64_t i = 0; i < n; i += each) {
    kernel(u, x, (char *)out + size * (size_t)i, n - i < each ? n - i : each);
    for (int k = 0; k < u->eqn->n_in; k++)
      if (u->step[k]) x[k] = (const char *)x[k] + size * (size_t)each;
  }
}

float mr__cpu_element(const mr_op_def_t *op, float a, float b) {
  float y;
  mr_lane_t lane = lane_of(op);
  if (!lane) return op->cpu.f1 ? op->cpu.f1(a) : op->cpu.f2(a, b);
  mr__lanes()->at[lane](MR_F32, &a, 1, &b, 1, &y, 1);
  return y;
}
