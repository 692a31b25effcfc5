/* while on CPU: both functions are compiled once; carries go back and forth between the result's
   memory and a second place. */
#include <stdlib.h>
#include <string.h>

#include "model/backends/cpu/sub.h"
#include "model/control/while.h"

typedef struct loop {
  mr_exec_t *cond, *body;
  mr_cpu_inner_t inner[2];
  const void **to_cond, **to_body; /* their operands, constants first */
  void **out;
} loop_t;

static void loop_fini(void *state) {
  loop_t *l = state;
  mr_exec_destroy(l->cond);
  mr_exec_destroy(l->body);
  free(l->to_cond);
  free(l->to_body);
  free(l->out);
  free(l);
}

static size_t carry_bytes(const mr_eqn_t *e, int k) {
  return (mr_aval_bytes(&e->out[k]->aval) + 63) & ~(size_t)63;
}

static bool goes_on(loop_t *l) {
  _Alignas(64) uint8_t yes = 0;
  mr__sub_run(l->cond, l->to_cond, (void *[]){&yes});
  return yes;
}

static void while_run(const mr_cpu_call_t *c) {
  loop_t *l = c->state;
  mr_while_parts_t p = mr__while_parts(c->eqn);
  char *second = (char *)c->scratch + mr__sub_bytes(l->cond) + mr__sub_bytes(l->body);
  const void **now_cond = l->to_cond + p.n_cond, **now = l->to_body + p.n_body;
  for (int i = 0; i < p.n_cond; i++) l->to_cond[i] = c->in[i];
  for (int i = 0; i < p.n_body; i++) l->to_body[i] = c->in[p.n_cond + i];
  for (int k = 0; k < p.n_carry; k++) now[k] = now_cond[k] = c->in[p.n_cond + p.n_body + k];
  mr__sub_begin(l->cond, c->scratch);
  mr__sub_begin(l->body, (char *)c->scratch + mr__sub_bytes(l->cond));
  while (goes_on(l)) {
    char *at = second;
    for (int k = 0; k < p.n_carry; k++) {
      l->out[k] = now[k] == c->out[k] ? at : c->out[k];
      at += carry_bytes(c->eqn, k);
    }
    mr__sub_run(l->body, l->to_body, l->out);
    for (int k = 0; k < p.n_carry; k++) now[k] = now_cond[k] = l->out[k];
  }
  for (int k = 0; k < p.n_carry; k++)
    if (now[k] != c->out[k]) memcpy(c->out[k], now[k], mr_aval_bytes(&c->eqn->out[k]->aval));
}

mr_err_t mr__while_cpu(mr_cpu_call_t *c, mr_diag_t *diag) {
  mr_while_parts_t p = mr__while_parts(c->eqn);
  loop_t *l = calloc(1, sizeof *l);
  if (!l) return mr_fail(diag, MR_ERR_NOMEM, "no memory to lower while");
  c->state = l;
  c->fini = loop_fini;
  l->to_cond = calloc((size_t)p.cond->n_in + 1, sizeof *l->to_cond);
  l->to_body = calloc((size_t)p.body->n_in + 1, sizeof *l->to_body);
  l->out = calloc((size_t)p.n_carry + 1, sizeof *l->out);
  if (!l->to_cond || !l->to_body || !l->out)
    return mr_fail(diag, MR_ERR_NOMEM, "no memory to lower while");
  MR_TRY(mr__sub_create(c, p.cond, &l->cond, diag));
  MR_TRY(mr__sub_create(c, p.body, &l->body, diag));
  c->scratch_bytes = mr__sub_bytes(l->cond) + mr__sub_bytes(l->body);
  for (int k = 0; k < p.n_carry; k++) c->scratch_bytes += carry_bytes(c->eqn, k);
  l->inner[0] = (mr_cpu_inner_t){l->cond, 1, "each test of while", -1};
  l->inner[1] = (mr_cpu_inner_t){l->body, 1, "each step of while", -1};
  c->inner = l->inner;
  c->n_inner = 2;
  c->serial = false;
  c->run = while_run;
  return MR_OK;
}
