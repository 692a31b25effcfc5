/* Ops that compute element i of the result from elements i of the operands: elementwise ops by one
   formula each, choices, conversions, powers, dropout, random rounding, and counters.

   Narrow floats compute in f32, f64 in f64, integers in 64 bits and are wrapped when they are
   stored. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "model/backends/kernels/text.h"
#include "model/ir/element.h"
#include "model/ir/op.h"
#include "model/ops/operands.h"

typedef struct formula {
  const char *name;
  const char *real;  /* for floats, of a and b; NULL: not for floats */
  const char *whole; /* for integers; NULL: not for them */
} formula_t;

/* NaN stays where it is the first operand of max and min, as in the ops' own functions. */
static const formula_t formulas[] = {
    {"add", "a + b", "a + b"},
    {"add_any", "a + b", "a + b"},
    {"sub", "a - b", "a - b"},
    {"mul", "a * b", "a * b"},
    {"div", "a / b", "b == 0 ? (T)-1 : (T)-1 < 0 && b == (T)-1 ? (T)0 - a : a / b"},
    {"max", "a > b || a != a ? a : b", "a > b ? a : b"},
    {"min", "a < b || a != a ? a : b", "a < b ? a : b"},
    {"eq", "a == b", "a == b"},
    {"ne", "a != b", "a != b"},
    {"lt", "a < b", "a < b"},
    {"le", "a <= b", "a <= b"},
    {"gt", "a > b", "a > b"},
    {"ge", "a >= b", "a >= b"},
    {"pow", "pow(a, b)", NULL},
    {"neg", "-a", "(T)0 - a"},
    {"abs", "fabs(a)", "a < 0 ? (T)0 - a : a"},
    {"sign", "a > 0 ? (T)1 : a < 0 ? (T)-1 : a", "(T)(a > 0) - (T)(a < 0)"},
    {"floor", "floor(a)", NULL},
    {"sqrt", "sqrt(a)", NULL},
    {"rsqrt", "(T)1 / sqrt(a)", NULL},
    {"exp", "exp(a)", NULL},
    {"expm1", "expm1(a)", NULL},
    {"log", "log(a)", NULL},
    {"log1p", "log1p(a)", NULL},
    {"sin", "sin(a)", NULL},
    {"cos", "cos(a)", NULL},
    {"tanh", "tanh(a)", NULL},
    {"logistic", "(T)1 / ((T)1 + exp(-a))", NULL},
};

/* The formula for operands that compute in `type`, or NULL. */
static const char *formula_of(const mr_op_def_t *op, const char *type) {
  bool real = !strcmp(type, "float") || !strcmp(type, "double");
  if (!strcmp(op->name, "erf"))
    return !strcmp(type, "float") ? "erf_of(a)" : real ? "erf(a)" : NULL;
  for (size_t i = 0; i < sizeof formulas / sizeof *formulas; i++)
    if (!strcmp(formulas[i].name, op->name)) return real ? formulas[i].real : formulas[i].whole;
  return NULL;
}

/* Declares `name` as element i of operand k, or as its only element. */
static void load_operand(mr_kernel_text_t *t, const char *name, int k) {
  const mr_aval_t *a = &t->e->in[k]->aval;
  char pointer[16];
  bool one = mr_aval_elems(a) == 1;
  snprintf(pointer, sizeof pointer, "x%d", k);
  fprintf(t->f, "  %s %s = ", mr__kernel_type(a->dtype), name);
  mr__kernel_load(t->f, a->dtype, pointer, one ? "0" : "i");
  fputs(";\n", t->f);
}

/* The type that two operands compute in: that of the wider one. */
static const char *common_type(const mr_eqn_t *e) {
  const char *type = mr__kernel_type(e->in[0]->aval.dtype);
  if (e->n_in > 1 && !strcmp(mr__kernel_type(e->in[1]->aval.dtype), "double")) return "double";
  return type;
}

mr_err_t mr__kernel_pointwise(mr_kernel_text_t *t, mr_diag_t *diag) {
  const mr_eqn_t *e = t->e;
  const mr_aval_t *y = &e->out[0]->aval;
  const char *type = common_type(e), *formula = formula_of(e->op, type);
  if (!formula) return mr__kernel_refuse(e, e->in[0]->aval.dtype, diag);
  MR_TRY(mr__kernel_begin(t, mr_aval_elems(y), diag));
  fprintf(t->f, "  typedef %s T;\n", type);
  load_operand(t, "p", 0);
  if (e->n_in > 1) load_operand(t, "q", 1);
  fprintf(t->f, "  T a = p;\n%s", e->n_in > 1 ? "  T b = q;\n" : "");
  mr__kernel_store(t->f, y->dtype, "y0", "i", formula);
  return mr__kernel_end(t, diag);
}

/* Chooses bytes, so any dtype passes. */
mr_err_t mr__kernel_select_n(mr_kernel_text_t *t, mr_diag_t *diag) {
  const mr_eqn_t *e = t->e;
  bool one = mr_aval_elems(&e->in[0]->aval) == 1;
  MR_TRY(mr__kernel_begin(t, mr_aval_elems(&e->out[0]->aval), diag));
  fprintf(t->f, "  y0[i] = x0[%s] ? x2[i] : x1[i];\n", one ? "0" : "i");
  return mr__kernel_end(t, diag);
}

/* "i32", "u32", "u8", "i64" or "u64". */
static const char *whole_name(mr_dtype_t t) { return mr__kernel_held(t); }

mr_err_t mr__kernel_convert_element_type(mr_kernel_text_t *t, mr_diag_t *diag) {
  mr_dtype_t from = t->e->in[0]->aval.dtype, to = t->e->out[0]->aval.dtype;
  char value[64] = "v";
  if (mr_is_storage(from) != mr_is_storage(to) || (mr_is_storage(from) && from != to))
    return mr__kernel_refuse(t->e, mr_is_storage(from) ? from : to, diag);
  MR_TRY(mr__kernel_begin(t, mr_aval_elems(&t->e->out[0]->aval), diag));
  if (from == to) {
    fputs("  y0[i] = x0[i];\n", t->f);
    return mr__kernel_end(t, diag);
  }
  fprintf(t->f, "  %s v = ", mr__kernel_type(from));
  mr__kernel_load(t->f, from, "x0", "i");
  fputs(";\n", t->f);
  if (mr_is_float(from) && !mr_is_float(to) && to != MR_BOOL)
    snprintf(value, sizeof value, "%s_of_%s(v)", whole_name(to), mr__kernel_type(from));
  else if (mr_is_float(to))
    snprintf(value, sizeof value, "(%s)v", mr__kernel_type(to));
  mr__kernel_store(t->f, to, "y0", "i", value);
  return mr__kernel_end(t, diag);
}

mr_err_t mr__kernel_integer_pow(mr_kernel_text_t *t, mr_diag_t *diag) {
  mr_dtype_t type = t->e->out[0]->aval.dtype;
  int64_t y = mr_attr_get(t->e, "y")->i[0];
  const char *power = type == MR_F64 ? "power_f64" : mr_is_float(type) ? "power_f32" : "power_u64";
  char value[64];
  if (mr_is_storage(type)) return mr__kernel_refuse(t->e, type, diag);
  MR_TRY(mr__kernel_begin(t, mr_aval_elems(&t->e->out[0]->aval), diag));
  load_operand(t, "v", 0);
  snprintf(value, sizeof value, "%s%s(v, %" PRIu64 ")", y < 0 ? "1 / " : "", power,
           y < 0 ? 0 - (uint64_t)y : (uint64_t)y);
  mr__kernel_store(t->f, type, "y0", "i", value);
  return mr__kernel_end(t, diag);
}

mr_err_t mr__kernel_dropout(mr_kernel_text_t *t, mr_diag_t *diag) {
  const mr_eqn_t *e = t->e;
  const mr_aval_t *x = &e->in[0]->aval;
  int64_t draws = mr_aval_elems(&e->in[1]->aval), each = mr_aval_elems(x) / draws;
  float rate = (float)mr_attr_get(e, "rate")->f;
  char value[96];
  MR_TRY(mr__kernel_begin(t, mr_aval_elems(x), diag));
  load_operand(t, "v", 0);
  fprintf(t->f, "  u64 d = i / %" PRId64 ";\n", each);
  fprintf(t->f, "  int keep = dropout_of(i %% %" PRId64 ", x1[d], %uu, x2[d]) >= %ldu;\n", each,
          (unsigned)mr_attr_get(e, "site")->i[0], lrintf(rate * 65536));
  if (x->dtype == MR_F64)
    snprintf(value, sizeof value, "keep ? v / %a : 0", 1 - (double)rate);
  else
    snprintf(value, sizeof value, "keep ? v * %af : 0.0f", (double)(1 / (1 - rate)));
  mr__kernel_store(t->f, x->dtype, "y0", "i", value);
  return mr__kernel_end(t, diag);
}

mr_err_t mr__kernel_stochastic_round(mr_kernel_text_t *t, mr_diag_t *diag) {
  const mr_eqn_t *e = t->e;
  const mr_aval_t *x = &e->in[0]->aval;
  int64_t each = mr_aval_elems(x) / mr_aval_elems(&e->in[1]->aval);
  MR_TRY(mr__kernel_begin(t, mr_aval_elems(x), diag));
  fprintf(t->f, "  u64 d = i / %" PRId64 ";\n", each);
  fprintf(t->f, "  u32 draw = dropout_of(i %% %" PRId64 ", ~x1[d], %uu, x2[d]);\n", each,
          (unsigned)mr_attr_get(e, "site")->i[0]);
  fprintf(t->f, "  y0[i] = %s_drawn((float)x0[i], draw);\n", mr_dtype_name(e->out[0]->aval.dtype));
  return mr__kernel_end(t, diag);
}

mr_err_t mr__kernel_iota(mr_kernel_text_t *t, mr_diag_t *diag) {
  const mr_aval_t *y = &t->e->out[0]->aval;
  int64_t d = mr_attr_get(t->e, "dimension")->i[0], stride[MR_MAX_NDIM];
  char value[96];
  mr__kernel_strides(y, stride);
  MR_TRY(mr__kernel_begin(t, mr_aval_elems(y), diag));
  snprintf(value, sizeof value, "(%s)(i / %" PRId64 " %% %" PRId64 ")", mr__kernel_type(y->dtype),
           stride[d], y->dim[d]);
  mr__kernel_store(t->f, y->dtype, "y0", "i", value);
  return mr__kernel_end(t, diag);
}
