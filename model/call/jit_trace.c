/* The slow half of a jitted call: trace the function for new avals, compile the graph, decide which
   donated inputs become outputs, and whether runs are small enough for the caller's thread. */
#include <stdlib.h>
#include <string.h>

#include "model/call/jit_private.h"
#include "model/control/control.h"

/* A run over fewer elements ends before another thread would have woken. */
enum { SMALL_ELEMS = 1 << 15 };

void mr__jit_entry_destroy(mr__jit_entry_t *e) {
  if (!e) return;
  mr_exec_destroy(e->exec);
  free(e->in);
  free(e->out);
  free(e->from);
  free(e->fixed);
  free(e);
}

static int64_t jit_trace_work_of(const mr_fn_t *f);

/* The work of the functions that e calls: a scan's body counts once for each step.  The number of
   steps of a while is unknown, so it counts as large. */
static int64_t work_within(const mr_eqn_t *e) {
  const mr_attr_t *length = mr_attr_find(e, "length");
  const mr_fn_t *const *fns;
  int64_t n = 0, steps = length ? length->i[0] : e->op->cost.unbounded ? SMALL_ELEMS : 1;
  for (int k = 0; k < e->n_attr; k++)
    for (int i = mr_attr_calls(&e->attr[k], &fns) - 1; i >= 0; i--)
      n += 1 + jit_trace_work_of(fns[i]);
  return n && steps > SMALL_ELEMS / n ? SMALL_ELEMS : n * steps;
}

/* Elements that a run reads and writes, at most SMALL_ELEMS. */
static int64_t jit_trace_work_of(const mr_fn_t *f) {
  int64_t n = 0;
  for (int i = 0; i < f->n_eqn && n < SMALL_ELEMS; i++) {
    const mr_eqn_t *e = f->eqn[i];
    int64_t most = work_within(e);
    for (int k = 0; k < e->n_in; k++) most += mr_aval_elems(&e->in[k]->aval);
    for (int k = 0; k < e->n_out; k++) most += mr_aval_elems(&e->out[k]->aval);
    n += e->op->cost.product ? most * 64 : most; /* products do more work on each element */
  }
  return n < SMALL_ELEMS ? n : SMALL_ELEMS;
}

static bool jit_trace_is_small(const mr_fn_t *f) { return jit_trace_work_of(f) < SMALL_ELEMS; }

static mr_err_t jit_trace_trace(mr_jitted_t *j, int n_in, mr_array_t *const *in, mr_fn_t *f,
                                mr_diag_t *diag) {
  for (int i = 0; i < n_in; i++) mr_fn_input(f, in[i]->aval);
  j->tracing = true;
  mr_err_t e = j->trace(f, j->arg);
  j->tracing = false;
  if (f->diag.code < 0) return mr_diag_prefix(diag, f->diag.code, &f->diag, "jit of %s", j->name);
  if (e < 0) return mr_diag_prefix(diag, e, &f->diag, "jit of %s: its trace failed", j->name);
  if (f->n_in != n_in)
    return mr_fail(diag, MR_ERR_SHAPE, "jit of %s: its trace adds inputs: %d where %d were given",
                   j->name, f->n_in, n_in);
  return MR_OK;
}

static mr_err_t keep_avals(mr__jit_entry_t *e, const mr_fn_t *f, mr_diag_t *diag) {
  e->n_in = f->n_in;
  e->n_out = f->n_out;
  e->in = calloc((size_t)f->n_in + 1, sizeof *e->in);
  e->out = calloc((size_t)f->n_out + 1, sizeof *e->out);
  e->from = calloc((size_t)f->n_out + 1, sizeof *e->from);
  if (!e->in || !e->out || !e->from) return mr_no_memory(diag, "jit");
  for (int i = 0; i < f->n_in; i++) e->in[i] = f->in[i]->aval;
  for (int i = 0; i < f->n_out; i++) e->out[i] = f->out[i]->aval;
  return MR_OK;
}

/* Gives the memory of each donated input to the first output that is computed there. */
static void find_reuse(const mr_jitted_t *j, mr__jit_entry_t *e) {
  uint64_t taken = 0;
  for (int i = 0; i < e->n_out; i++) {
    int k = mr_exec_output_in(e->exec, i);
    bool free_to_take = k >= 0 && k < 64 && (j->options.donate >> k & 1) && !(taken >> k & 1);
    e->from[i] = free_to_take ? k : -1;
    if (free_to_take) taken |= (uint64_t)1 << k;
  }
}

static mr_err_t jit_trace_compile(mr_jitted_t *j, mr__jit_entry_t *e, const mr_fn_t *f,
                                  mr_diag_t *diag) {
  MR_TRY(keep_avals(e, f, diag));
  bool *donate = calloc((size_t)f->n_in + 1, sizeof *donate);
  if (!donate) return mr_no_memory(diag, "jit");
  for (int i = 0; i < f->n_in && i < 64; i++) donate[i] = j->options.donate >> i & 1;
  mr_diag_t own = {0};
  mr_compile_options_t o = {
      .device = j->options.device, .donate = donate, .threads = j->options.threads};
  mr_err_t err = mr_compile(f, &o, &e->exec, &own);
  free(donate);
  if (err < 0) return mr_diag_prefix(diag, err, &own, "jit of %s", j->name);
  mr_exec_check_nans(e->exec, j->options.check_nans);
  find_reuse(j, e);
  e->small = jit_trace_is_small(mr_exec_fn(e->exec));
  return MR_OK;
}

mr_err_t mr__jit_compile(mr_jitted_t *j, int n_in, mr_array_t *const *in, mr__jit_entry_t **out,
                         mr_diag_t *diag) {
  mr_fn_t *f = mr_fn_create();
  mr__jit_entry_t *e = calloc(1, sizeof *e);
  if (e) e->fixed = calloc(1, j->options.static_bytes + 1);
  mr_err_t err = f && e && e->fixed ? MR_OK : mr_no_memory(diag, "jit");
  if (err >= 0 && j->options.static_bytes) memcpy(e->fixed, j->arg, j->options.static_bytes);
  if (err >= 0) e->precision = f->precision, e->keys = f->keys;
  if (err >= 0) err = jit_trace_trace(j, n_in, in, f, diag);
  if (err >= 0) err = jit_trace_compile(j, e, f, diag);
  mr_fn_destroy(f);
  if (err < 0)
    mr__jit_entry_destroy(e);
  else
    *out = e;
  return err;
}
