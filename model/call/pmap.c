/* pmap is a mesh of one axis, along whose ranks the arrays' values lie one after the other: each
   rank runs the function where its values are, without a copy. */
#include "model/call/pmap.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/call/rank_threads.h"
#include "model/exec/collect.h"

struct mr_pmapped {
  mr__rank_threads_t *ranks;
  int n, n_in, n_out;
  size_t *step_in, *step_out;  /* bytes from one device's value to the next; 0: shared */
  const void **in;             /* [n][n_in] of a run, each rank's own */
  void **out;                  /* [n][n_out] */
  const void *const *given_in; /* of the run in progress */
  void *const *given_out;
};

static void pmap_rank(void *arg, int rank, mr_exec_t *x) {
  mr_pmapped_t *p = arg;
  const void **in = p->in + (size_t)rank * (size_t)p->n_in;
  void **out = p->out + (size_t)rank * (size_t)p->n_out;
  for (int i = 0; i < p->n_in; i++)
    in[i] = (const char *)p->given_in[i] + (size_t)rank * p->step_in[i];
  for (int k = 0; k < p->n_out; k++)
    out[k] = (char *)p->given_out[k] + (size_t)rank * p->step_out[k];
  mr_exec_run(x, in, out);
}

void mr_pmap_run(mr_pmapped_t *p, const void *const *in, void *const *out) {
  p->given_in = in, p->given_out = out;
  if (mr__rank_threads_run(p->ranks, pmap_rank, p)) return;
  for (int k = 0; k < p->n_out; k++) memset(out[k], 0xFF, (size_t)p->n * p->step_out[k]);
}

mr_err_t mr_pmap(const mr_fn_t *f, const char *axis_name, int devices,
                 const mr_pmap_options_t *options, mr_pmapped_t **out, mr_diag_t *diag) {
  mr_mesh_t mesh = {.n = 1, .name = {"i"}, .size = {devices}};
  if (devices < 1 || devices > MR_COLLECT_RANKS)
    return mr_fail(diag, MR_ERR_CONFIG, "pmap: %d devices, want 1 to %d", devices,
                   MR_COLLECT_RANKS);
  mr_pmapped_t *p = calloc(1, sizeof *p);
  if (!p) return mr_no_memory(diag, "pmap");
  size_t n_in = (size_t)f->n_in, n_out = (size_t)f->n_out, n = (size_t)devices;
  p->n = devices, p->n_in = f->n_in, p->n_out = f->n_out;
  p->step_in = calloc(n_in + n_out + 1, sizeof *p->step_in);
  p->in = calloc(n * n_in + 1, sizeof *p->in);
  p->out = calloc(n * n_out + 1, sizeof *p->out);
  if (!p->step_in || !p->in || !p->out)
    return mr_pmap_destroy(p), mr_no_memory(diag, "pmap on %d devices", devices);
  p->step_out = p->step_in + n_in;
  for (int i = 0; i < f->n_in; i++)
    if (!options || !options->shared || !options->shared[i])
      p->step_in[i] = mr_aval_bytes(&f->in[i]->aval);
  for (int k = 0; k < f->n_out; k++) p->step_out[k] = mr_aval_bytes(&f->out[k]->aval);
  mr_err_t e = mr__rank_threads_create("pmap", f, &mesh, axis_name ? axis_name : "", options,
                                       &p->ranks, diag);
  if (e < 0) return mr_pmap_destroy(p), e;
  return *out = p, MR_OK;
}

mr_err_t mr_pmap_failed(const mr_pmapped_t *p, int *rank, mr_diag_t *diag) {
  return mr__rank_threads_failed(p->ranks, rank, diag);
}

void mr_pmap_destroy(mr_pmapped_t *p) {
  if (!p) return;
  mr__rank_threads_destroy(p->ranks);
  free(p->step_in), free(p->in), free(p->out);
  free(p);
}
