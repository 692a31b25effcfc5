/* vmap of scan: the step is mapped; a carry that becomes mapped in some step is from the start. */
#include "model/control/mapped.h"
#include "model/control/scan.h"
#include "model/ops/rules.h"

/* Maps the step again until no more carries become mapped. */
static mr_fn_t *mapped_step(mr_fn_t *f, const mr_scan_parts_t *p, int64_t size, bool *in,
                            bool *out) {
  for (;;) {
    mr_fn_t *step;
    bool more = false;
    for (int k = 0; k < p->s.n_carry; k++) out[k] = in[p->s.n_consts + k];
    if (mr__call_mapped(f, p->body, size, in, out, &step) < 0) return NULL;
    for (int k = 0; k < p->s.n_carry; k++) {
      more |= out[k] && !in[p->s.n_consts + k];
      in[p->s.n_consts + k] = out[k];
    }
    if (!more) return step;
    mr_fn_destroy(step);
  }
}

mr_err_t mr__scan_batch(mr_fn_t *f, const mr_eqn_t *e, const mr_batched_t *in, mr_batched_t *out) {
  mr_scan_parts_t p = mr__scan_parts(e);
  int64_t size = mr__call_size(f, e, in);
  int rows = p.s.n_consts + p.s.n_carry;
  bool *mapped = mr_mem_take(&f->mem, (size_t)(e->n_in + e->n_out) + 1);
  bool *gives = mapped + e->n_in;
  mr_var_t **v = mr_mem_take(&f->mem, (size_t)(e->n_in + 1) * sizeof(mr_var_t *));
  for (int i = 0; i < e->n_in; i++) mapped[i] = in[i].axis >= 0;
  mr_fn_t *step = mapped_step(f, &p, size, mapped, gives);
  if (!step) return f->diag.code;
  for (int i = 0; i < e->n_in; i++) {
    v[i] = in[i].var; /* the rows of x stay in front */
    if (mapped[i]) v[i] = i < rows ? mr_batch_front(f, &in[i], size) : mr_batch_move(f, &in[i], 1);
  }
  mr_eqn_t *c;
  mr_err_t err = mr__scan_emit(f, step, &p.s, v, &c);
  mr_fn_destroy(step);
  for (int k = 0; k < e->n_out && err >= 0; k++)
    out[k] = (mr_batched_t){c->out[k], !gives[k] ? -1 : k < p.s.n_carry ? 0 : 1};
  return err;
}
