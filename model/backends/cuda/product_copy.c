/* The kernels that copy a product's operands to the scratch, with the
   contracted dimension innermost: into order, and where f32 is multiplied as
   bf16, as one or three parts. */
#include <inttypes.h>

#include "model/backends/cuda/blas.h"
#include "model/backends/kernels/text.h"

/* The value of part p of v, whose upper half is h: f32 expressions of the
 * kernel. */
static const char *part_text(mr_cuda_part_t part) {
  switch (part) {
    case MR_CUDA_PART_FINITE: return "h - h == 0 ? h : 0";
    case MR_CUDA_PART_LOWER: return "h - h == 0 ? v - h : 0";
    default: return "v";
  }
}

static mr_err_t write_copy(mr_kernel_text_t *t, const mr_cuda_operand_t *o, mr_diag_t *diag) {
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
  snprintf(at, sizeof at, "%zu + i", o->at / mr_dtype_size(o->dtype));
  mr__kernel_store(t->f, o->dtype, "s", at, "v");
  return mr__kernel_end(t, diag);
}

mr_err_t mr__cuda_copies(const mr_eqn_t *e, const mr_cuda_product_t *p, mr_kernels_t *k,
                         mr_diag_t *diag) {
  mr_kernel_text_t t = {.e = e, .out = k, .scratch_t = p->a.dtype};
  *k = (mr_kernels_t){.scratch_bytes = p->copies};
  mr_err_t err = MR_OK;
  if (p->a.n_parts) err = write_copy(&t, &p->a, diag);
  if (p->b.n_parts && err == MR_OK) err = write_copy(&t, &p->b, diag);
  if (err < 0) mr_kernels_fini(k);
  return err;
}
