/* Equations that lie side by side in one (transforms/beside.c) as one kernel: each has work-items
   of its own, whose text is that of its op's kernel, in a block where the names of operands and
   results are the equation's. */
#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

#include "model/backends/kernels/fused.h"
#include "model/ir/op.h"
#include "model/ops/lax.h"

static int64_t beside_items(const mr_eqn_t *e) { return mr_aval_elems(&e->out[0]->aval); }

static mr_kernel_rule_fn *beside_rule(const mr_eqn_t *e) {
  return e->op == &mr_op_slice         ? mr__kernel_slice
         : e->op == &mr_op_concatenate ? mr__kernel_concatenate
                                       : mr__kernel_pointwise;
}

/* Pointers to all operands and results, which blocks name anew. */
static void name_ends(FILE *f, const mr_fn_t *body) {
  for (int k = 0; k < body->n_in; k++)
    fprintf(f, "  SPACE %s *p%d = x%d;", mr__kernel_held(body->in[k]->aval.dtype), k, k);
  for (int k = 0; k < body->n_out; k++)
    fprintf(f, "  SPACE %s *q%d = y%d;", mr__kernel_held(body->out[k]->aval.dtype), k, k);
  fputc('\n', f);
}

/* The block of equation j, whose first item is `first`. */
static mr_err_t write_beside(mr_kernel_text_t *t, const mr_fn_t *body, int j, int64_t first,
                             mr_diag_t *diag) {
  const mr_eqn_t *e = body->eqn[j];
  mr_kernel_text_t part = {.e = e, .align = t->align, .out = t->out, .f = t->f, .block = true};
  fprintf(t->f, "  { u64 whole = i; u64 i = whole - %" PRId64 ";", first);
  for (int k = 0; k < e->n_in; k++)
    fprintf(t->f, " SPACE %s *x%d = p%d;", mr__kernel_held(e->in[k]->aval.dtype), k,
            mr__fused_input(body, e->in[k]));
  fprintf(t->f, " SPACE %s *y0 = q%d;\n", mr__kernel_held(e->out[0]->aval.dtype), j);
  MR_TRY(beside_rule(e)(&part, diag));
  fputs("  }\n", t->f);
  return MR_OK;
}

/* Finds the equation of item i among [from,to), by halves.  first: the first item of `from`. */
static mr_err_t choose_beside(mr_kernel_text_t *t, const mr_fn_t *body, int from, int to,
                              int64_t first, mr_diag_t *diag) {
  int half = from + (to - from) / 2;
  int64_t middle = first;
  if (to - from == 1) return write_beside(t, body, from, first, diag);
  for (int j = from; j < half; j++) middle += beside_items(body->eqn[j]);
  fprintf(t->f, "  if (i < %" PRId64 ") {\n", middle);
  MR_TRY(choose_beside(t, body, from, half, first, diag));
  fputs("  } else {\n", t->f);
  MR_TRY(choose_beside(t, body, half, to, middle, diag));
  fputs("  }\n", t->f);
  return MR_OK;
}

mr_err_t mr__fused_beside(mr_kernel_text_t *t, mr_diag_t *diag) {
  const mr_fn_t *body = mr_attr_called(t->e, "jaxpr");
  char form[MR_KERNEL_FORM];
  int64_t items = 0;
  for (int j = 0; j < body->n_eqn; j++) {
    assert(body->out[j] == body->eqn[j]->out[0]);
    items += beside_items(body->eqn[j]);
  }
  MR_TRY(mr__kernel_begin(t, items, diag));
  snprintf(form, sizeof form, "%d equations side by side", body->n_eqn);
  mr__kernel_form(t, form);
  name_ends(t->f, body);
  mr_err_t err = choose_beside(t, body, 0, body->n_eqn, 0, diag), end = mr__kernel_end(t, diag);
  return err < 0 ? err : end;
}
