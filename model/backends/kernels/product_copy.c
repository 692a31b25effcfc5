/* The kernels around a product of a library: those that copy its operands to the scratch, with the
   contracted dimension innermost: into order or another dtype, and where f32 is multiplied as bf16,
   as one or three parts; and the one that rounds its result. */
#include <inttypes.h>

#include "model/backends/kernels/product.h"
#include "model/backends/kernels/text.h"

/* The value of a part of v, whose upper half is h: f32 expressions of the kernel. */
static const char *part_text(mr_product_part_t part) {
  switch (part) {
    case MR_PRODUCT_PART_FINITE: return "h - h == 0 ? h : 0";
    case MR_PRODUCT_PART_LOWER: return "h - h == 0 ? v - h : 0";
    default: return "v";
  }
}

static mr_err_t write_copy(mr_kernel_text_t *t, const mr_product_operand_t *o, mr_diag_t *diag) {
  char name[24], at[48];
  int64_t k = 1;
  for (int i = o->ndim - o->n_k; i < o->ndim; i++) k *= o->dim[i];
  MR_TRY(mr__kernel_begin(t, o->copied, diag));
  fprintf(t->f,
          "  u64 row = i / %" PRId64 ", part = i / %" PRId64 " %% %d, at = row * %" PRId64
          " + i %% %" PRId64 ";\n",
          k * o->n_parts, k, o->n_parts, k, k);
  mr__kernel_place(t->f, "p", "at", o->ndim, o->dim, o->stride, 0);
  snprintf(name, sizeof name, "x%d", o->in);
  fprintf(t->f, "  %s v = ", mr__kernel_type(o->from));
  mr__kernel_load(t->f, o->from, name, "p");
  fputs(";\n", t->f);
  if (o->n_parts == 3)
    fprintf(t->f,
            "  float h = bf16_to(bf16_of(v));\n  v = part == 0 ? %s : part == "
            "1 ? (%s) : (%s);\n",
            part_text(o->part[0]), part_text(o->part[1]), part_text(o->part[2]));
  if (o->rounds && o->dtype == MR_F32) fputs("  v = bf16_to(bf16_of(v));\n", t->f);
  snprintf(at, sizeof at, "%zu + i", o->at / mr_dtype_size(o->dtype));
  mr__kernel_store(t->f, o->dtype, "s", at, "v");
  return mr__kernel_end(t, diag);
}

mr_err_t mr__product_copies(const mr_eqn_t *e, const mr_product_t *p, mr_kernels_t *k,
                            mr_diag_t *diag) {
  mr_kernel_text_t t = {.e = e, .out = k, .scratch_t = p->a.dtype};
  *k = (mr_kernels_t){.scratch_bytes = p->copies};
  mr_err_t err = MR_OK;
  if (p->a.n_parts) err = write_copy(&t, &p->a, diag);
  if (p->b.n_parts && err == MR_OK) err = write_copy(&t, &p->b, diag);
  if (err < 0) mr_kernels_fini(k);
  return err;
}

bool mr__product_is_narrow(const mr_product_t *p) { return p->d != p->a.dtype; }

mr_err_t mr__product_narrow(const mr_eqn_t *e, const mr_product_t *p, mr_kernels_t *k,
                            mr_diag_t *diag) {
  mr_kernel_text_t t = {.e = e, .out = k, .scratch_t = p->a.dtype};
  size_t each = mr_dtype_size(p->a.dtype);
  char at[48];
  k->scratch_bytes += (size_t)mr_aval_elems(&e->out[0]->aval) * each;
  MR_TRY(mr__kernel_begin(&t, mr_aval_elems(&e->out[0]->aval), diag));
  snprintf(at, sizeof at, "%zu + i", p->copies / each);
  fprintf(t.f, "  %s v = ", mr__kernel_type(p->a.dtype));
  mr__kernel_load(t.f, p->a.dtype, "s", at);
  fputs(";\n", t.f);
  mr__kernel_store(t.f, p->d, "y0", "i", "v");
  return mr__kernel_end(&t, diag);
}

void mr__product_notes(const mr_eqn_t *e, const mr_product_t *p, mr_call_note_t *note) {
  static const char *const copied[] = {"operand 1 copied into order", "operand 0 copied into order",
                                       "operand 1 converted", "operand 0 converted"};
  const mr_product_operand_t *side[] = {&p->a, &p->b};
  for (int i = 0, n = 0; i < 2; i++) {
    if (!side[i]->n_parts) continue;
    size_t from = mr_aval_bytes(&e->in[side[i]->in]->aval);
    size_t to = (size_t)side[i]->copied * mr_dtype_size(side[i]->dtype);
    bool converts = side[i]->rounds || side[i]->dtype != side[i]->from;
    note[n++] = (mr_call_note_t){copied[i + 2 * converts], from + to};
  }
}
