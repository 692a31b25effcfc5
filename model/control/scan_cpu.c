/* scan on CPU: the step's function is compiled once and run once a row.  Carries go back and forth
   between the result's memory and a second place, so that none is copied; rows are read and
   written where they lie. */
#include <stdlib.h>
#include <string.h>

#include "model/backends/cpu/sub.h"
#include "model/control/scan.h"

typedef struct loop {
  mr_exec_t *body;
  mr_cpu_inner_t inner;
  size_t *size; /* [n_in + n_out] bytes of a carry, or of a row of x or y; 0 for constants */
  const void **in;
  void **out;
} loop_t;

static void loop_fini(void *state) {
  loop_t *l = state;
  mr_exec_destroy(l->body);
  free(l->size);
  free(l->in);
  free(l->out);
  free(l);
}

static size_t round64(size_t n) { return (n + 63) & ~(size_t)63; }

/* Where carry k is after `done` steps of n: the last time in the result. */
static void *carry_at(const mr_cpu_call_t *c, char *second, int k, int64_t done, int64_t n) {
  return (n - done) % 2 ? second : c->out[k];
}

/* Points the step at its values. */
static void aim(const mr_cpu_call_t *c, const mr_scan_parts_t *p, int64_t step) {
  loop_t *l = c->state;
  int64_t n = p->s.length, row = p->s.reverse ? n - 1 - step : step;
  int first = p->s.n_consts, n_in = c->eqn->n_in;
  char *second = (char *)c->scratch + mr__sub_bytes(l->body);
  for (int k = 0; k < p->s.n_carry; k++) {
    l->in[first + k] = step ? carry_at(c, second, k, step, n) : c->in[first + k];
    l->out[k] = carry_at(c, second, k, step + 1, n);
    second += round64(l->size[n_in + k]);
  }
  for (int i = first + p->s.n_carry; i < n_in; i++)
    l->in[i] = (char *)c->in[i] + (size_t)row * l->size[i];
  for (int k = p->s.n_carry; k < c->eqn->n_out; k++)
    l->out[k] = (char *)c->out[k] + (size_t)row * l->size[n_in + k];
}

static void scan_run(const mr_cpu_call_t *c) {
  loop_t *l = c->state;
  mr_scan_parts_t p = mr__scan_parts(c->eqn);
  for (int i = 0; i < p.s.n_consts; i++) l->in[i] = c->in[i];
  if (p.s.length == 0) {
    for (int k = 0; k < p.s.n_carry; k++)
      memcpy(c->out[k], c->in[p.s.n_consts + k], l->size[c->eqn->n_in + k]);
    return;
  }
  mr__sub_begin(l->body, c->scratch);
  for (int64_t step = 0; step < p.s.length; step++) {
    aim(c, &p, step);
    mr__sub_run(l->body, l->in, l->out);
  }
}

mr_err_t mr__scan_cpu(mr_cpu_call_t *c, mr_diag_t *diag) {
  const mr_eqn_t *e = c->eqn;
  mr_scan_parts_t p = mr__scan_parts(e);
  loop_t *l = calloc(1, sizeof *l);
  if (!l) return mr_fail(diag, MR_ERR_NOMEM, "no memory to lower scan");
  c->state = l;
  c->fini = loop_fini;
  l->size = calloc((size_t)(e->n_in + e->n_out) + 1, sizeof *l->size);
  l->in = calloc((size_t)e->n_in + 1, sizeof *l->in);
  l->out = calloc((size_t)e->n_out + 1, sizeof *l->out);
  if (!l->size || !l->in || !l->out) return mr_fail(diag, MR_ERR_NOMEM, "no memory to lower scan");
  MR_TRY(mr__sub_create(c, p.body, &l->body, diag));
  for (int i = 0; i < e->n_in; i++) l->size[i] = mr_aval_bytes(&p.body->in[i]->aval);
  for (int k = 0; k < e->n_out; k++) l->size[e->n_in + k] = mr_aval_bytes(&p.body->out[k]->aval);
  c->scratch_bytes = mr__sub_bytes(l->body);
  for (int k = 0; k < p.s.n_carry; k++) c->scratch_bytes += round64(l->size[e->n_in + k]);
  l->inner = (mr_cpu_inner_t){l->body, p.s.length, NULL, -1};
  c->inner = &l->inner;
  c->n_inner = 1;
  c->serial = false; /* the equations of the body know best */
  c->run = scan_run;
  return MR_OK;
}
