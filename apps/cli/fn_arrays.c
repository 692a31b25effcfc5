/* Inputs are zeros: neither the memory nor, but for branches and loops, the time of a run depends
   on values. */
#include "apps/cli/fn_arrays.h"

#include <stdlib.h>

#include "model/exec/backend.h"

static size_t fn_arrays_bytes(const mr_aval_t *a) { return (mr_aval_bytes(a) + 127) & ~(size_t)63; }

static void *fn_arrays_zeros(const mr_device_t *d, const mr_aval_t *a) {
  size_t n = fn_arrays_bytes(a);
  void *x = mr_device_take(d, n), *zeros = x ? calloc(1, n) : NULL;
  if (zeros) mr_device_copy(d, x, zeros, n, MR_COPY_IN);
  if (x && !zeros) mr_device_give(d, x, n), x = NULL;
  free(zeros);
  return x;
}

mr_err_t mr_fn_arrays_init(mr_fn_arrays_t *a, const mr_exec_t *x, mr_diag_t *diag) {
  const mr_fn_t *f = mr_exec_fn(x);
  const mr_device_t *d = mr_exec_device(x);
  *a = (mr_fn_arrays_t){x, calloc((size_t)f->n_in + 1, sizeof *a->in),
                        calloc((size_t)f->n_out + 1, sizeof *a->out)};
  bool ok = a->in && a->out;
  for (int i = 0; ok && i < f->n_in; i++) ok = (a->in[i] = fn_arrays_zeros(d, &f->in[i]->aval));
  for (int i = 0; ok && i < f->n_out; i++) {
    int k = mr_exec_output_in(x, i);
    ok = (a->out[i] = k >= 0 ? a->in[k] : fn_arrays_zeros(d, &f->out[i]->aval));
  }
  return ok ? MR_OK : mr_no_memory(diag, "inputs and outputs");
}

void mr_fn_arrays_fini(mr_fn_arrays_t *a) {
  if (!a->x) return;
  const mr_fn_t *f = mr_exec_fn(a->x);
  const mr_device_t *d = mr_exec_device(a->x);
  for (int i = 0; a->out && i < f->n_out; i++)
    if (mr_exec_output_in(a->x, i) < 0)
      mr_device_give(d, a->out[i], fn_arrays_bytes(&f->out[i]->aval));
  for (int i = 0; a->in && i < f->n_in; i++)
    mr_device_give(d, a->in[i], fn_arrays_bytes(&f->in[i]->aval));
  free(a->in);
  free(a->out);
  *a = (mr_fn_arrays_t){0};
}
