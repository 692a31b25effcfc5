/* The table of ops that have device kernels, and the entry: an equation's kernels are written by
   its op's rule; elementwise ops share one. */
#include <stdlib.h>
#include <string.h>

#include "model/backends/kernels/text.h"
#include "model/ir/op.h"
#include "model/ops/lax.h"
#include "model/ops/operands.h"
#include "model/ops/rules.h"

typedef struct row {
  const mr_op_def_t *op;
  mr_kernel_rule_fn *write;
} row_t;

static const row_t kernel_rows[] = {
#define MR_KERNEL(name) {&mr_op_##name, mr__kernel_##name},
#define MR_KERNEL_AS(name, other) {&mr_op_##name, mr__kernel_##other},
#define MR_KERNEL_VALUE(name) {&mr_op_##name, mr__kernel_pointwise},
#include "model/backends/kernels/rules.def"
};

static mr_kernel_rule_fn *kernel_rule(const mr_op_def_t *op) {
  if (op->kind == MR_OP_ELEMENTWISE)
    return op->device.real || op->device.whole ? mr__kernel_pointwise : NULL;
  for (size_t i = 0; i < sizeof kernel_rows / sizeof *kernel_rows; i++)
    if (kernel_rows[i].op == op) return kernel_rows[i].write;
  return NULL;
}

bool mr_kernels_take(const mr_eqn_t *e, int ends) {
  bool wide = e->op == &mr_op_sum_squares && e->out[0]->aval.dtype == MR_F64;
  return !mr__is_attention(e) && !wide && kernel_rule(e->op) && e->n_in + e->n_out <= ends;
}

const char *mr_kernels_how(const mr_eqn_t *e) {
  if (mr__is_attention(e)) return "attention: a kernel of one group a head";
  return e->op->cost.product ? "a kernel of one loop for each element" : NULL;
}

static bool gives_elements(const mr_eqn_t *e) {
  for (int i = 0; i < e->n_out; i++)
    if (mr_aval_elems(&e->out[i]->aval)) return true;
  return false;
}

void mr_kernels_fini(mr_kernels_t *k) {
  for (int i = 0; i < k->n; i++) free(k->kernel[i].text);
  *k = (mr_kernels_t){0};
}

mr_err_t mr_kernels_write(const mr_eqn_t *e, size_t align, mr_kernels_t *out, mr_diag_t *diag) {
  mr_kernel_rule_fn *write = kernel_rule(e->op);
  mr_kernel_text_t t = {.e = e, .align = align, .out = out};
  if (!write)
    return mr_fail(diag, MR_ERR_NORULE, "%s: there is no device kernel for it", e->op->name);
  if (!gives_elements(e)) return MR_OK;
  mr_err_t err = write(&t, diag);
  if (err < 0) mr_kernels_fini(out);
  return err;
}
