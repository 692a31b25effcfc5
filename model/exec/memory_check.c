/* The check of a memory plan.  It replays the graph, and notes for each block the value that was
   written last; a reader must find its own value there. */
#include <stdlib.h>

#include "model/exec/memory.h"
#include "model/ir/op.h"

/* The present value of each block, and the equation that wrote it. */
typedef struct plan_check {
  const mr_memory_plan_t *p;
  const mr_fn_t *f;
  int *value;              /* by var id: the var whose value it has, through reshapes */
  int *holds;              /* by block: the var whose value is there; -1: none yet */
  const mr_eqn_t **writer; /* by block; NULL: an input or a literal */
} plan_check_t;

static void memory_check_put(plan_check_t *w, const mr_var_t *v, const mr_eqn_t *e) {
  int b = w->p->of_var[v->id];
  w->value[v->id] = v->id;
  if (b < 0) return;
  w->holds[b] = v->id;
  w->writer[b] = e;
}

static mr_err_t fail_lost(const plan_check_t *w, const mr_var_t *v, const mr_eqn_t *e,
                          mr_diag_t *diag) {
  const mr_eqn_t *by = w->writer[w->p->of_var[v->id]];
  char text[MR_AVAL_TEXT];
  return mr_fail(diag, MR_ERR_DATA,
                 "memory plan: %s%s%s reads %s, which %s%s%s has written over; this is a defect of "
                 "the compiler",
                 e ? e->op->name : "the caller", e && *e->scope ? " in " : "", e ? e->scope : "",
                 mr_aval_text(&v->aval, text), by ? by->op->name : "nothing",
                 by && *by->scope ? " in " : "", by ? by->scope : "");
}

/* e NULL: the caller reads an output. */
static mr_err_t read_var(plan_check_t *w, const mr_var_t *v, const mr_eqn_t *e, mr_diag_t *diag) {
  int b = w->p->of_var[v->id];
  if (v->literal && b >= 0 && w->holds[b] < 0) memory_check_put(w, v, NULL);
  if (b >= 0 && w->holds[b] == w->value[v->id]) return MR_OK;
  return fail_lost(w, v, e, diag);
}

static mr_err_t check_reads(plan_check_t *w, mr_diag_t *diag) {
  const mr_fn_t *f = w->f;
  for (int i = 0; i < f->n_in; i++) memory_check_put(w, f->in[i], NULL);
  for (int i = 0; i < f->n_eqn; i++) {
    const mr_eqn_t *e = f->eqn[i];
    for (int k = 0; k < e->n_in; k++) MR_TRY(read_var(w, e->in[k], e, diag));
    if (e->op->kind == MR_OP_ALIAS)
      w->value[e->out[0]->id] = w->value[e->in[0]->id];
    else
      for (int k = 0; k < e->n_out; k++) memory_check_put(w, e->out[k], e);
  }
  for (int i = 0; i < f->n_out; i++) MR_TRY(read_var(w, f->out[i], NULL, diag));
  return MR_OK;
}

mr_err_t mr_memory_plan_check(const mr_memory_plan_t *p, const mr_fn_t *f, mr_diag_t *diag) {
  plan_check_t w = {.p = p,
                    .f = f,
                    .value = calloc((size_t)f->n_var + 1, sizeof *w.value),
                    .holds = calloc((size_t)p->n_block + 1, sizeof *w.holds),
                    .writer = calloc((size_t)p->n_block + 1, sizeof *w.writer)};
  mr_err_t e = MR_ERR_NOMEM;
  if (w.value && w.holds && w.writer) {
    for (int i = 0; i < p->n_block; i++) w.holds[i] = -1;
    for (int i = 0; i < f->n_var; i++) w.value[i] = i;
    e = check_reads(&w, diag);
  } else {
    mr_no_memory(diag, "the check of a memory plan");
  }
  free(w.value);
  free(w.holds);
  free(w.writer);
  return e;
}
