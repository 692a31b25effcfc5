/* Ops that compute element i of the result from elements i of the operands: elementwise ops by one
   formula each, choices, conversions, powers, dropout, random rounding, and counters.

   Narrow floats compute in f32, f64 in f64, integers in 64 bits and are wrapped when they are
   stored. */
#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "model/backends/kernels/text.h"
#include "model/ir/element.h"
#include "model/ir/op.h"
#include "model/ops/lax.h"
#include "model/ops/operands.h"

/* The formula for operands that compute in `type`, or NULL. */
static const char *formula_of(const mr_op_device_t *d, const char *type) {
  if (!strcmp(type, "double") && d->f64) return d->f64;
  return !strcmp(type, "float") || !strcmp(type, "double") ? d->real : d->whole;
}

/* The type that two operands compute in: that of the wider one. */
static const char *common_type(const mr_eqn_t *e) {
  const char *type = mr__kernel_type(e->in[0]->aval.dtype);
  if (e->n_in > 1 && !strcmp(mr__kernel_type(e->in[1]->aval.dtype), "double")) return "double";
  return type;
}

/* ---- values, from variables that hold the operands ---- */

static mr_err_t value_of_formula(FILE *f, const mr_eqn_t *e, char (*in)[MR_KERNEL_NAME],
                                 const char *out, mr_diag_t *diag) {
  const char *type = common_type(e), *formula = formula_of(&e->op->device, type);
  if (!formula) return mr__kernel_refuse(e, e->in[0]->aval.dtype, diag);
  fprintf(f, "  { typedef %s T; T a = %s; ", type, in[0]);
  if (e->n_in > 1) fprintf(f, "T b = %s; ", in[1]);
  fprintf(f, "%s = ", out);
  mr__kernel_round(f, e->out[0]->aval.dtype, formula);
  fputs("; }\n", f);
  return MR_OK;
}

static mr_err_t value_of_convert(FILE *f, const mr_eqn_t *e, char (*in)[MR_KERNEL_NAME],
                                 const char *out, const char *number, mr_diag_t *diag) {
  mr_dtype_t from = e->in[0]->aval.dtype, to = e->out[0]->aval.dtype;
  char value[2 * MR_KERNEL_NAME + 32];
  if (mr_is_storage(from) != mr_is_storage(to) || (mr_is_storage(from) && from != to))
    return mr__kernel_refuse(e, mr_is_storage(from) ? from : to, diag);
  if (mr_is_float(from) && !mr_is_float(to) && to != MR_BOOL)
    snprintf(value, sizeof value, "%s_of_%s(%s)", mr__kernel_held(to), mr__kernel_type(from),
             in[0]);
  else if (mr_is_float(to))
    snprintf(value, sizeof value, "(%s)%s", mr__kernel_type(to), in[0]);
  else
    snprintf(value, sizeof value, "%s", in[0]);
  fprintf(f, "  %s = ", out);
  mr__kernel_round(f, to, value);
  fputs(";\n", f);
  return MR_OK;
}

static mr_err_t value_of_power(FILE *f, const mr_eqn_t *e, char (*in)[MR_KERNEL_NAME],
                               const char *out, const char *number, mr_diag_t *diag) {
  mr_dtype_t type = e->out[0]->aval.dtype;
  int64_t y = mr_attr_get(e, "y")->i[0];
  const char *power = type == MR_F64 ? "power_f64" : mr_is_float(type) ? "power_f32" : "power_u64";
  char value[MR_KERNEL_NAME + 64];
  if (mr_is_storage(type)) return mr__kernel_refuse(e, type, diag);
  snprintf(value, sizeof value, "%s%s(%s, %" PRIu64 ")", y < 0 ? "1 / " : "", power, in[0],
           y < 0 ? 0 - (uint64_t)y : (uint64_t)y);
  fprintf(f, "  %s = ", out);
  mr__kernel_round(f, type, value);
  fputs(";\n", f);
  return MR_OK;
}

void mr__kernel_dropped(FILE *f, const mr_eqn_t *e, const char *in, const char *out,
                        const char *draw) {
  float rate = (float)mr_attr_get(e, "rate")->f;
  mr_dtype_t t = e->out[0]->aval.dtype;
  char value[MR_KERNEL_NAME + 96];
  fprintf(f, "  { int keep = %s >= %ldu; %s = ", draw, lrintf(rate * 65536), out);
  if (t == MR_F64)
    snprintf(value, sizeof value, "keep ? %s / %a : 0", in, 1 - (double)rate);
  else
    snprintf(value, sizeof value, "keep ? %s * %af : 0.0f", in, (double)(1 / (1 - rate)));
  mr__kernel_round(f, t, value);
  fputs("; }\n", f);
}

static mr_err_t value_of_dropout(FILE *f, const mr_eqn_t *e, char (*in)[MR_KERNEL_NAME],
                                 const char *out, const char *number, mr_diag_t *diag) {
  char draw[4 * MR_KERNEL_NAME];
  char from[2 * MR_KERNEL_NAME] = "";
  if (mr_dropout_first(e)) snprintf(from, sizeof from, "(u64)%" PRId64 " + ", mr_dropout_first(e));
  snprintf(draw, sizeof draw, "dropout_of(%s%s, %s, %uu, %s)", from, number, in[1],
           (unsigned)mr_attr_get(e, "site")->i[0], in[2]);
  mr__kernel_dropped(f, e, in[0], out, draw);
  return MR_OK;
}

static mr_err_t value_of_choice(FILE *f, const mr_eqn_t *e, char (*in)[MR_KERNEL_NAME],
                                const char *out, const char *number, mr_diag_t *diag) {
  return fprintf(f, "  %s = %s ? %s : %s;\n", out, in[0], in[2], in[1]), MR_OK;
}

/* Ops whose value is no formula of the operands alone: their attributes or dtypes are in it. */
static const struct {
  const mr_op_def_t *op;
  mr_err_t (*write)(FILE *f, const mr_eqn_t *e, char (*in)[MR_KERNEL_NAME], const char *out,
                    const char *number, mr_diag_t *diag);
} values[] = {
    {&mr_op_select_n, value_of_choice},
    {&mr_op_convert_element_type, value_of_convert},
    {&mr_op_integer_pow, value_of_power},
    {&mr_op_dropout, value_of_dropout},
};

mr_err_t mr__kernel_value(FILE *f, const mr_eqn_t *e, char (*in)[MR_KERNEL_NAME], const char *out,
                          const char *number, mr_diag_t *diag) {
  for (size_t i = 0; i < sizeof values / sizeof *values; i++)
    if (values[i].op == e->op) return values[i].write(f, e, in, out, number, diag);
  return value_of_formula(f, e, in, out, diag);
}

/* ---- one op as a kernel ---- */

/* A kernel of one op for n elements.  An operand of fewer elements serves several: element `low`.
 */
static mr_err_t write_each(mr_kernel_text_t *t, const char *low, const char *number,
                           mr_diag_t *diag) {
  const mr_eqn_t *e = t->e;
  const mr_aval_t *y = &e->out[0]->aval;
  int64_t n = mr_aval_elems(y);
  char in[3][MR_KERNEL_NAME], pointer[MR_KERNEL_NAME];
  assert(e->n_in <= 3);
  MR_TRY(mr__kernel_begin(t, n, diag));
  for (int k = 0; k < e->n_in; k++) {
    const mr_aval_t *a = &e->in[k]->aval;
    snprintf(in[k], sizeof in[k], "v%d", k);
    snprintf(pointer, sizeof pointer, "x%d", k);
    fprintf(t->f, "  %s %s = ", mr__kernel_type(a->dtype), in[k]);
    mr__kernel_load(t->f, a->dtype, pointer, mr_aval_elems(a) == n ? "i" : low);
    fputs(";\n", t->f);
  }
  fprintf(t->f, "  %s r;\n", mr__kernel_type(y->dtype));
  mr_err_t err = mr__kernel_value(t->f, e, in, "r", number, diag);
  mr__kernel_store(t->f, y->dtype, "y0", "i", "r");
  mr_err_t end = mr__kernel_end(t, diag);
  return err < 0 ? err : end;
}

mr_err_t mr__kernel_pointwise(mr_kernel_text_t *t, mr_diag_t *diag) {
  return write_each(t, "0", "i", diag);
}

/* A draw serves the elements of its first dimensions. */
mr_err_t mr__kernel_dropout(mr_kernel_text_t *t, mr_diag_t *diag) {
  const mr_eqn_t *e = t->e;
  int64_t each = mr_aval_elems(&e->in[0]->aval) / mr_aval_elems(&e->in[1]->aval);
  char low[48], number[48];
  snprintf(low, sizeof low, "i / %" PRId64, each);
  snprintf(number, sizeof number, "i %% %" PRId64, each);
  return write_each(t, low, number, diag);
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
