/* Heads, loads and stores of kernels' texts.  What depends on a dtype alone is here, so that a rule
   reads as the formula that it computes. */
#include "model/backends/kernels/text.h"

#include <inttypes.h>
#include <stdlib.h>

#include "model/ir/element.h"
#include "model/ir/op.h"

void mr__kernel_strides(const mr_aval_t *a, int64_t *stride) {
  int64_t dense = 1;
  for (int i = a->ndim - 1; i >= 0; i--) {
    stride[i] = dense;
    dense *= a->dim[i];
  }
}

const char *mr__kernel_held(mr_dtype_t t) {
  switch (t) {
    case MR_I32: return "i32";
    case MR_U32: return "u32";
    case MR_I64: return "i64";
    case MR_U64: return "u64";
    case MR_BF16:
    case MR_F16: return "u16";
    case MR_F32: return "float";
    case MR_F64: return "double";
    default: return "u8"; /* bool, u8, and f8, which is only moved */
  }
}

const char *mr__kernel_type(mr_dtype_t t) {
  if (t == MR_F64) return "double";
  if (mr_is_float(t)) return "float";
  return t == MR_U64 ? "u64" : "i64";
}

void mr__kernel_load(FILE *f, mr_dtype_t t, const char *name, const char *at) {
  if (t == MR_BF16)
    fprintf(f, "bf16_to(%s[%s])", name, at);
  else if (t == MR_F16)
    fprintf(f, "F16_TO_F32(%s[%s])", name, at);
  else if (mr_is_float(t))
    fprintf(f, "%s[%s]", name, at);
  else
    fprintf(f, "((%s)%s[%s])", mr__kernel_type(t), name, at);
}

void mr__kernel_store(FILE *f, mr_dtype_t t, const char *name, const char *at, const char *value) {
  const char *how = t == MR_BF16     ? "  %s[%s] = bf16_of(%s);\n"
                    : t == MR_F16    ? "  %s[%s] = F32_TO_F16(%s);\n"
                    : mr_is_float(t) ? "  %s[%s] = %s;\n"
                    : t == MR_BOOL   ? "  %s[%s] = (%s) != 0;\n"
                                     : NULL;
  if (how)
    fprintf(f, how, name, at, value);
  else
    fprintf(f, "  %s[%s] = (%s)(%s);\n", name, at, mr__kernel_held(t), value);
}

void mr__kernel_round(FILE *f, mr_dtype_t t, const char *value) {
  switch (t) {
    case MR_BF16: fprintf(f, "bf16_to(bf16_of(%s))", value); break;
    case MR_F16: fprintf(f, "F16_TO_F32(F32_TO_F16(%s))", value); break;
    case MR_BOOL: fprintf(f, "((%s) != 0)", value); break;
    default:
      if (mr_is_float(t))
        fprintf(f, "(%s)", value);
      else
        fprintf(f, "(%s)(%s)(%s)", mr__kernel_type(t), mr__kernel_held(t), value);
  }
}

void mr__kernel_place(FILE *f, const char *place, const char *index, int n, const int64_t *dim,
                      const int64_t *stride, int64_t first) {
  int outer = 0; /* its coordinate is what is left of the index */
  while (outer < n && dim[outer] == 1) outer++;
  fprintf(f, "  i64 %s = %" PRId64 "; { u64 r = %s;", place, first, index);
  for (int d = n - 1; d >= outer; d--) {
    if (dim[d] == 1) continue;
    if (d == outer) {
      fprintf(f, " %s += (i64)r * %" PRId64 ";", place, stride[d]);
      break;
    }
    if (stride[d])
      fprintf(f, " %s += (i64)(r %% %" PRId64 ") * %" PRId64 ";", place, dim[d], stride[d]);
    fprintf(f, " r /= %" PRId64 ";", dim[d]);
  }
  fputs(" }\n", f);
}

static void write_parameters(const mr_kernel_text_t *t) {
  const mr_eqn_t *e = t->e;
  int n = e->n_in + e->n_out + (t->out->scratch_bytes > 0);
  for (int i = 0; i < n; i++) fprintf(t->f, "%sARG(%d)", i ? ", " : "", i);
  fputs(") {\n", t->f);
  for (int i = 0; i < e->n_in; i++)
    fprintf(t->f, "  PTR(%s, x%d, %d);\n", mr__kernel_held(e->in[i]->aval.dtype), i, i);
  for (int i = 0; i < e->n_out; i++)
    fprintf(t->f, "  PTR(%s, y%d, %d);\n", mr__kernel_held(e->out[i]->aval.dtype), i, e->n_in + i);
  if (t->out->scratch_bytes)
    fprintf(t->f, "  PTR(%s, s, %d);\n", mr__kernel_held(t->scratch_t), e->n_in + e->n_out);
}

static mr_err_t kernel_begin(mr_kernel_text_t *t, int64_t items, int group, mr_diag_t *diag) {
  mr_kernel_t *k = &t->out->kernel[t->out->n++];
  k->items = items;
  k->group = group;
  t->f = open_memstream(&k->text, &t->size);
  if (!t->f) return mr_no_memory(diag, "the kernel of %s", t->e->op->name);
  if (group)
    fprintf(t->f, "KERNEL_OF(%d) k(", group);
  else
    fputs("KERNEL k(", t->f);
  write_parameters(t);
  return MR_OK;
}

mr_err_t mr__kernel_begin(mr_kernel_text_t *t, int64_t items, mr_diag_t *diag) {
  if (t->block) return MR_OK;
  MR_TRY(kernel_begin(t, items, 0, diag));
  fprintf(t->f, "  u64 i = ITEM;\n  if (i >= %" PRId64 ") return;\n", items);
  return MR_OK;
}

mr_err_t mr__kernel_begin_groups(mr_kernel_text_t *t, int64_t groups, int width, mr_diag_t *diag) {
  return kernel_begin(t, groups * width, width, diag);
}

void mr__kernel_form(mr_kernel_text_t *t, const char *form) {
  mr_kernel_t *k = &t->out->kernel[t->out->n - 1];
  snprintf(k->form, sizeof k->form, "%s", form);
}

mr_err_t mr__kernel_end(mr_kernel_text_t *t, mr_diag_t *diag) {
  if (t->block) return MR_OK;
  fputs("}\n", t->f);
  if (fclose(t->f)) return mr_no_memory(diag, "the kernel of %s", t->e->op->name);
  return MR_OK;
}

mr_err_t mr__kernel_refuse(const mr_eqn_t *e, mr_dtype_t t, mr_diag_t *diag) {
  return mr_fail(diag, MR_ERR_NORULE, "%s: there is no device kernel for %s", e->op->name,
                 mr_dtype_name(t));
}
