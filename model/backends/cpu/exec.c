#include <assert.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/isa.h"
#include "base/machine.h"
#include "model/backends/cpu/exec_private.h"
#include "model/backends/cpu/team.h"
#include "model/ops/rules.h"
#include "model/pages.h"
#include "model/transforms/passes.h"
#include "model/transforms/transforms.h"

static void bind(mr_exec_t *x, void **slot, int block) {
  const mr_block_t *b = &x->plan.block[block];
  if (b->place == MR_PLACE_ARENA)
    *slot = x->arena + b->offset;
  else
    x->patch[x->n_patch++] = (mr_exec_patch_t){slot, b->place, b->index};
}

static void write_literal(mr_exec_t *x, const mr_var_t *v) {
  char *at = x->arena + x->plan.block[x->plan.of_var[v->id]].offset;
  if (v->aval.dtype == MR_U64 || v->aval.dtype == MR_I64) {
    *(int64_t *)at = v->whole;
  } else {
    mr_cpu_set_f64(v->aval.dtype, at, 0, v->value);
  }
}

/* For an equation that runs nothing, since its result is where its operand is. */
static void write_literals(mr_exec_t *x, const mr_eqn_t *e) {
  for (int k = 0; k < e->n_in; k++)
    if (e->in[k]->literal) write_literal(x, e->in[k]);
}

static void bind_var(mr_exec_t *x, void **slot, const mr_var_t *v) {
  bind(x, slot, x->plan.of_var[v->id]);
  if (v->literal) write_literal(x, v);
}

static bool writes_input(const mr_exec_t *x, const mr_eqn_t *e) {
  for (int k = 0; k < e->n_out; k++) {
    int b = x->plan.of_var[e->out[k]->id];
    if (b >= 0 && x->plan.block[b].place == MR_PLACE_IN) return true;
  }
  return false;
}

static int first_write(const mr_exec_t *x) {
  int i = 0;
  while (i < x->fn->n_eqn && !(x->call[i].run && writes_input(x, x->fn->eqn[i]))) i++;
  return i;
}

void mr__exec_bind(mr_exec_t *x) {
  const mr_fn_t *f = x->fn;
  x->n_patch = 0;
  for (int i = 0; i < f->n_eqn; i++) {
    mr_cpu_call_t *c = &x->call[i];
    if (!c->run) {
      write_literals(x, c->eqn);
      continue;
    }
    for (int k = 0; k < c->eqn->n_in; k++) bind_var(x, &c->in[k], c->eqn->in[k]);
    for (int k = 0; k < c->eqn->n_out; k++) bind_var(x, &c->out[k], c->eqn->out[k]);
    if (x->plan.of_scratch[i] >= 0) bind(x, &c->scratch, x->plan.of_scratch[i]);
  }
  for (int i = 0; i < f->n_out; i++) bind_var(x, &x->result[i], f->out[i]);
}

static mr_err_t take_arena(mr_exec_t *x, const mr_exec_t *lender, mr_diag_t *diag) {
  x->lent = lender && lender->plan.bytes >= x->plan.bytes;
  /* The system would promise more than there is, and end the program in the middle of a run. */
  bool small = x->plan.bytes < (size_t)64 << 20; /* not worth asking */
  size_t machine = x->lent || small ? SIZE_MAX : mr_machine_memory();
  bool fits = x->plan.bytes < machine;
  if (fits) x->arena = x->lent ? lender->arena : mr_pages_alloc(x->plan.bytes);
  if (x->arena) return MR_OK;
  return mr_fail(diag, MR_ERR_NOMEM,
                 "out of memory: the planned peak is %zu bytes, this process may have %zu; take a "
                 "smaller batch, or let fit= choose to work through it in parts",
                 x->plan.bytes, machine == SIZE_MAX ? mr_machine_memory() : machine);
}

mr_err_t mr__exec_plan(mr_exec_t *x, const mr_fn_t *f, const mr_jit_options_t *o, mr_diag_t *diag) {
  MR_TRY(mr_open_calls(f, &x->fn, diag));
  MR_TRY(mr_passes_run(x->fn, o->skip, diag));
  x->call = calloc((size_t)x->fn->n_eqn + 1, sizeof *x->call);
  x->ns = calloc(3 * ((size_t)x->fn->n_eqn + 1), sizeof *x->ns);
  if (!x->call || !x->ns) return mr_fail(diag, MR_ERR_NOMEM, "no memory to compile a graph");
  x->at = x->ns + x->fn->n_eqn, x->last = x->at + x->fn->n_eqn;
  MR_TRY(mr__lower(x, o, diag));
  MR_TRY(mr_plan_init(&x->plan, x->fn, o->donate, o->in_place, x->call, diag));
  return mr_plan_check(&x->plan, x->fn, diag);
}

static mr_err_t compile(mr_exec_t *x, const mr_fn_t *f, const mr_jit_options_t *o,
                        mr_diag_t *diag) {
  MR_TRY(mr__exec_plan(x, f, o, diag));
  if (o->plan_only) return MR_OK;
  MR_TRY(take_arena(x, o->lender, diag));
  mr__exec_bind(x);
  x->first_write = first_write(x);
  return MR_OK;
}

mr_err_t mr_jit(const mr_fn_t *f, const mr_jit_options_t *options, mr_exec_t **out,
                mr_diag_t *diag) {
  if (f->diag.code < 0) return mr_fail(diag, f->diag.code, "%s", f->diag.text);
  MR_TRY(mr_isa_check(diag));
  MR_TRY(mr_matmul_precision_check(diag));
  MR_TRY(mr_key_layout_check(diag));
  mr_exec_t *x = calloc(1, sizeof *x);
  if (!x) return mr_fail(diag, MR_ERR_NOMEM, "no memory to compile a graph");
  static const mr_jit_options_t plain;
  const mr_jit_options_t *o = options ? options : &plain;
  x->threads = o->threads ? o->threads : omp_get_max_threads();
  x->pin = o->pin;
  int before = mr__team_set(x->threads);
  mr_err_t err = compile(x, f, o, diag);
  mr__team_set(before);
  if (err < 0) {
    mr_exec_destroy(x);
    return err;
  }
  *out = x;
  return MR_OK;
}

void mr_exec_destroy(mr_exec_t *x) {
  if (!x) return;
  for (int i = 0; x->call && i < x->fn->n_eqn; i++)
    if (x->call[i].fini) x->call[i].fini(x->call[i].state);
  free(x->call);
  free(x->ns);
  free(x->slots);
  free(x->patch);
  if (!x->lent) free(x->arena);
  mr_plan_fini(&x->plan);
  mr_fn_destroy(x->fn);
  free(x);
}

/* Kernels run on the OpenMP team of this thread, small ones on this thread alone.  false: the gate
   stayed shut, or a NaN came. */
static bool run_calls(mr_exec_t *x) {
  bool serial = false;
  bool open = true;
  for (int i = 0; i < x->fn->n_eqn; i++) {
    const mr_cpu_call_t *c = &x->call[i];
    if (i == x->first_write && x->may_write && !(open = x->may_write(x->gate_arg))) break;
    if (!c->run) continue;
    int64_t before = x->profile ? mr_now_ns() : 0;
    if (c->serial != serial) mr__team_set(c->serial ? 1 : x->threads);
    serial = c->serial;
    c->run(c);
    if (x->check_nans && mr__gives_nan(c)) {
      x->nan = c->eqn;
      open = false;
      break;
    }
    if (!x->profile) continue;
    x->at[i] = before;
    x->last[i] = mr_now_ns() - before;
    x->ns[i] += x->last[i];
  }
  x->runs += open;
  return open;
}

static void run(mr_exec_t *x, const void *const *in, void *const *out) {
  assert(x->arena || !x->plan.bytes); /* not one of plan_only */
  for (int i = 0; i < x->n_patch; i++) {
    const mr_exec_patch_t *p = &x->patch[i];
    /* A donated input is written to: the caller has said that it may be. */
    *p->slot = p->place == MR_PLACE_IN ? (void *)(uintptr_t)in[p->index] : out[p->index];
  }
  x->nan = NULL;
  int before = mr__team_set(x->threads);
  if (x->pin) mr__team_pin();
  bool done = run_calls(x);
  mr__team_set(before);
  if (done && x->may_write && x->first_write == x->fn->n_eqn) done = x->may_write(x->gate_arg);
  if (!done) return;
  for (int i = 0; i < x->fn->n_out; i++) {
    size_t bytes = mr_aval_bytes(&x->fn->out[i]->aval); /* of none there is no place */
    if (bytes && out[i] != x->result[i]) memcpy(out[i], x->result[i], bytes);
  }
}

void mr_exec_run(mr_exec_t *x, const void *const *in, void *const *out) {
  int64_t from = x->profile ? mr_now_ns() : 0;
  run(x, in, out);
  if (x->profile) x->wall_ns += mr_now_ns() - from;
}

void mr_exec_gate(mr_exec_t *x, bool (*may_write)(void *arg), void *arg) {
  x->may_write = may_write;
  x->gate_arg = arg;
}

const mr_fn_t *mr_exec_fn(const mr_exec_t *x) { return x->fn; }

int mr_exec_output_in(const mr_exec_t *x, int i) {
  const mr_block_t *b = &x->plan.block[x->plan.of_var[x->fn->out[i]->id]];
  return b->place == MR_PLACE_IN ? b->index : -1;
}

size_t mr_exec_peak_bytes(const mr_exec_t *x) { return x->plan.bytes; }
