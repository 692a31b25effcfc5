/* Compiling and running.  Compiling opens calls, runs the passes, lowers each equation to a call,
   plans the memory and takes the arena; binding then points each call at its operands.  A run
   patches the pointers to the caller's arrays and makes the calls in order. */
#include <assert.h>
#include <stdlib.h>

#include "base/clock.h"
#include "model/exec/device.h"
#include "model/exec/exec_private.h"
#include "model/ir/element.h"
#include "model/ir/op.h"
#include "model/transforms/passes.h"
#include "model/transforms/transforms.h"

static void exec_bind(mr_exec_t *x, void **slot, int block) {
  const mr_block_t *b = &x->plan.block[block];
  assert(block >= 0 && block < x->plan.n_block);
  assert(b->place != MR_BLOCK_ARENA || b->offset + b->bytes <= x->plan.bytes);
  switch (b->place) {
    case MR_BLOCK_ARENA: *slot = x->arena + b->offset; break;
    case MR_BLOCK_CONST: *slot = x->constants + b->offset; break;
    case MR_BLOCK_IN:
    case MR_BLOCK_OUT: x->patch[x->n_patch++] = (mr_exec_patch_t){slot, b->place, b->index}; break;
  }
}

static void write_literal(mr_exec_t *x, const mr_var_t *v) {
  const mr_block_t *b = &x->plan.block[x->plan.of_var[v->id]];
  int64_t value = 0; /* an element of any dtype fits */
  if (v->aval.dtype == MR_U64 || v->aval.dtype == MR_I64)
    value = v->whole;
  else
    mr_set_f64(v->aval.dtype, &value, 0, v->value);
  mr_device_copy(x->device, (b->place == MR_BLOCK_CONST ? x->constants : x->arena) + b->offset,
                 &value, b->bytes, MR_COPY_IN);
}

/* Writes the literals of an equation that needs no call, since its result is its operand. */
static void write_literals(mr_exec_t *x, const mr_eqn_t *e) {
  for (int k = 0; k < e->n_in; k++)
    if (e->in[k]->literal) write_literal(x, e->in[k]);
}

static void bind_var(mr_exec_t *x, void **slot, const mr_var_t *v) {
  exec_bind(x, slot, x->plan.of_var[v->id]);
  if (v->literal) write_literal(x, v);
}

static bool writes_input(const mr_exec_t *x, const mr_eqn_t *e) {
  for (int k = 0; k < e->n_out; k++) {
    int b = x->plan.of_var[e->out[k]->id];
    if (b >= 0 && x->plan.block[b].place == MR_BLOCK_IN) return true;
  }
  return false;
}

static int first_write(const mr_exec_t *x, bool before_collective) {
  int i = 0, last = x->fn->n_eqn;
  for (int k = 0; before_collective && k < x->fn->n_eqn; k++)
    if (x->fn->eqn[k]->op->collective) last = k;
  while (i < last && !(x->call[i].run && writes_input(x, x->fn->eqn[i]))) i++;
  return i;
}

/* Binds the graphs inside a call to its scratch, which is always in the arena and so has the same
   address in every run.  A graph of empty values has no arena, but kernels may pass addresses to
   memcpy: they get the address of `nothing`. */
static void bind_inner(const mr_call_t *c) {
  static _Alignas(256) char nothing[1];
  for (int k = 0; k < c->n_inner; k++) {
    mr_exec_t *inner = c->inner[k].exec;
    assert(c->scratch || !inner->plan.bytes);
    inner->arena = c->scratch ? (char *)c->scratch + c->inner[k].at : nothing;
    mr__exec_bind(inner);
  }
}

void mr__exec_bind(mr_exec_t *x) {
  const mr_fn_t *f = x->fn;
  x->n_patch = 0;
  for (int i = 0; i < f->n_eqn; i++) {
    mr_call_t *c = &x->call[i];
    if (!c->run) {
      write_literals(x, c->eqn);
      continue;
    }
    for (int k = 0; k < c->eqn->n_in; k++) bind_var(x, &c->in[k], c->eqn->in[k]);
    for (int k = 0; k < c->eqn->n_out; k++) bind_var(x, &c->out[k], c->eqn->out[k]);
    if (x->plan.of_scratch[i] >= 0) exec_bind(x, &c->scratch, x->plan.of_scratch[i]);
    if (x->plan.of_kept[i] >= 0) exec_bind(x, &c->kept.at, x->plan.of_kept[i]);
    bind_inner(c);
  }
  for (int i = 0; i < f->n_out; i++) bind_var(x, &x->result[i], f->out[i]);
}

static mr_err_t take_arena(mr_exec_t *x, const mr_compile_options_t *o, mr_diag_t *diag) {
  const mr_device_t *d = x->device;
  const mr_exec_t *lender = o->lender;
  x->lent = lender && lender->device == d && lender->plan.bytes >= x->plan.bytes;
  /* The system would promise more memory than it has, and kill the program during a run. */
  bool small = x->plan.bytes < (size_t)64 << 20; /* not worth asking */
  size_t room = x->lent || small ? SIZE_MAX : mr_device_room(d);
  bool fits = x->plan.bytes < room;
  if (fits) x->arena = x->lent ? lender->arena : mr_device_take(d, x->plan.bytes);
  if (x->arena) return MR_OK;
  bool host = d->backend->host;
  return mr_fail(diag, MR_ERR_NOMEM,
                 "out of memory: %s%sthe planned peak is %zu bytes, this process may have %zu%s%s; "
                 "take %s",
                 host ? "" : d->backend->name, host ? "" : ": ", x->plan.bytes,
                 room == SIZE_MAX ? mr_device_room(d) : room, host ? "" : " on ",
                 host ? "" : d->name, o->smaller ? o->smaller : "a smaller batch");
}

/* Calls that find what they would keep made already do not move its bytes. */
static void settle_kept(mr_exec_t *x) {
  for (int i = 0; i < x->fn->n_eqn; i++) {
    mr_call_t *c = &x->call[i];
    int b = x->plan.of_kept[i];
    c->kept.make = b < 0 || x->plan.block[b].first == i;
    for (int k = 0; !c->kept.make && k < MR_CALL_NOTES; k++)
      if (c->note[k].what == c->kept.what)
        c->note[k] = (mr_call_note_t){"operand packed before", 0};
  }
}

mr_err_t mr__exec_plan(mr_exec_t *x, const mr_fn_t *f, const mr_compile_options_t *o, bool apart,
                       mr_diag_t *diag) {
  const mr_device_t *d = x->device;
  MR_TRY(mr_open_calls(f, d->backend->compile->target(d), &x->fn, diag));
  MR_TRY(mr_passes_run(x->fn, d->backend->compile->target(d), o->skip, diag));
  x->call = calloc((size_t)x->fn->n_eqn + 1, sizeof *x->call);
  x->ns = calloc(3 * ((size_t)x->fn->n_eqn + 1), sizeof *x->ns);
  if (!x->call || !x->ns) return mr_no_memory(diag, "a compiled graph");
  x->at = x->ns + x->fn->n_eqn, x->last = x->at + x->fn->n_eqn;
  MR_TRY(mr__lower(x, o, diag));
  MR_TRY(mr_memory_plan_init(&x->plan, x->fn, o->donate, o->in_place, x->call, d->backend->align,
                             apart, diag));
  MR_TRY(mr_memory_plan_check(&x->plan, x->fn, diag));
  settle_kept(x);
  if (o->plan_only) return MR_OK;
  const mr_compile_ops_t *compile = d->backend->compile;
  if (compile->build) MR_TRY(compile->build(d, x->call, x->fn->n_eqn, diag));
  if (!x->plan.constants) return MR_OK;
  x->constants = mr_device_take(d, x->plan.constants);
  return x->constants ? MR_OK : mr_no_memory(diag, "a graph's literals");
}

/* Everything about x that does not change from run to run: the plan, the arena it needs (its own or
   the lender's), and the addresses in the calls.  plan_only stops before any memory is taken. */
static mr_err_t exec_compile(mr_exec_t *x, const mr_fn_t *f, const mr_compile_options_t *o,
                             mr_diag_t *diag) {
  MR_TRY(mr__exec_plan(x, f, o, o->lender != NULL, diag));
  if (o->plan_only) return MR_OK;
  MR_TRY(take_arena(x, o, diag));
  mr__exec_bind(x);
  x->first_write = first_write(x, o->gate_before_collective);
  if (!x->device->backend->record || !mr__exec_repeats(x)) return MR_OK;
  x->key = calloc((size_t)(x->fn->n_in + x->fn->n_out) + 1, sizeof *x->key);
  return x->key ? MR_OK : mr_no_memory(diag, "a compiled graph");
}

/* The host's threads of x for what follows, up to exec_end. */
static int exec_begin(const mr_exec_t *x, bool pin) {
  const mr_team_ops_t *team = x->device->backend->team;
  return team ? team->begin(x->device, x->threads, pin) : 0;
}

static void exec_end(const mr_exec_t *x, int before) {
  const mr_team_ops_t *team = x->device->backend->team;
  if (team) team->end(x->device, before);
}

mr_err_t mr_compile(const mr_fn_t *f, const mr_compile_options_t *options, mr_exec_t **out,
                    mr_diag_t *diag) {
  if (f->diag.code < 0) return mr_diag_relay(diag, f->diag.code, &f->diag);
  MR_TRY(mr_matmul_precision_check(diag));
  MR_TRY(mr_key_layout_check(diag));
  static const mr_compile_options_t plain;
  const mr_compile_options_t *o = options ? options : &plain;
  const mr_device_t *d = o->device ? o->device : mr_device_default();
  MR_TRY(mr_device_usable(d, diag));
  mr_exec_t *x = calloc(1, sizeof *x);
  if (!x) return mr_no_memory(diag, "a compiled graph");
  x->device = mr_device_keep(d);
  x->threads = o->threads ? o->threads : mr_device_threads(d);
  x->pin = o->pin;
  int before = exec_begin(x, false);
  mr_err_t err = exec_compile(x, f, o, diag);
  exec_end(x, before);
  if (err < 0) {
    mr_exec_destroy(x);
    return err;
  }
  *out = x;
  return MR_OK;
}

void mr_exec_destroy(mr_exec_t *x) {
  if (!x) return;
  if (x->kept) x->device->backend->record->forget(x->device, x->kept);
  free(x->key);
  for (int i = 0; x->call && i < x->fn->n_eqn; i++)
    if (x->call[i].fini) x->call[i].fini(x->call[i].state);
  free(x->call);
  mr__profile_fini(x);
  free(x->ns);
  free(x->slots);
  free(x->patch);
  if (!x->lent) mr_device_give(x->device, x->arena, x->plan.bytes);
  mr_device_give(x->device, x->constants, x->plan.constants);
  mr_memory_plan_fini(&x->plan);
  mr_fn_destroy(x->fn);
  mr_device_close(x->device);
  free(x);
}

/* Waits for a device that computes after a call has returned.  A failure stays with the device,
   which refuses the next compilation or tells it at a mark. */
static void exec_settle(const mr_exec_t *x) {
  if (x->device->backend->queue) (void)mr_device_reached(x->device, NULL, true, NULL);
}

/* Before the first write over a donated input. false: the gate forbids it. */
static bool exec_may_write(const mr_exec_t *x) {
  if (x->may_write && !x->may_write(x->gate_arg)) return false;
  if (x->waits_beside) x->device->backend->queue->wait_beside(x->device, MR_COPY_OUT);
  return true;
}

/* Makes a call whose time is taken: between two stamps of the device, or until it is done. */
static void run_timed(mr_exec_t *x, int i) {
  const mr_clock_ops_t *clock = x->stamp ? x->device->backend->queue->clock : NULL;
  int64_t before = mr_now_ns();
  if (clock) clock->record(x->device, x->stamp[2 * i]);
  x->call[i].run(&x->call[i]);
  if (clock) {
    clock->record(x->device, x->stamp[2 * i + 1]);
    return;
  }
  exec_settle(x);
  x->at[i] = before;
  x->last[i] = mr_now_ns() - before;
  x->ns[i] += x->last[i];
}

/* Makes the calls in order. false: the gate forbade the first write, or a call gave a NaN. */
static bool run_calls(mr_exec_t *x) {
  const mr_team_ops_t *team = x->device->backend->team;
  bool serial = false;
  bool open = true;
  int i = 0;
  int64_t from = x->profile ? mr_now_ns() : 0;
  for (; i < x->fn->n_eqn; i++) {
    const mr_call_t *c = &x->call[i];
    if (i == x->first_write && !(open = exec_may_write(x))) break;
    if (!c->run) {
      if (x->finite) mr__finite_call(x->finite, i);
      continue;
    }
    if (team && c->serial != serial) team->spread(x->device, c->serial ? 1 : x->threads);
    serial = c->serial;
    if (x->profile)
      run_timed(x, i);
    else
      c->run(c);
    if (x->finite) mr__finite_call(x->finite, i);
    if (x->check_nans && mr__gives_nan(c)) {
      x->nan = c->eqn;
      open = false;
      break;
    }
  }
  if (x->profile && x->stamp) mr__profile_read(x, i, from);
  x->runs += open;
  return open;
}

/* The arrays of a run, whose addresses are in the calls. */
typedef struct given {
  mr_exec_t *x;
  const void *const *in;
  void *const *out;
} given_t;

static void exec_give(void *arg) {
  const given_t *g = arg;
  mr_exec_t *x = g->x;
  const void *const *in = g->in;
  void *const *out = g->out;
  if (x->finite) mr__finite_begin(x->finite, in, out);
  int before = exec_begin(x, x->pin);
  bool done = run_calls(x);
  exec_end(x, before);
  if (x->finite) mr__finite_end(x->finite);
  if (done && x->first_write == x->fn->n_eqn) done = exec_may_write(x);
  if (!done) return;
  for (int i = 0; i < x->fn->n_out; i++) {
    size_t bytes = mr_aval_bytes(&x->fn->out[i]->aval); /* an empty value has no place */
    if (bytes && out[i] != x->result[i])
      mr_device_copy(x->device, out[i], x->result[i], bytes, MR_COPY_WITHIN);
  }
}

/* What reads values or times during a run needs its calls one by one. */
static bool is_watched(const mr_exec_t *x) {
  return x->profile || x->finite || x->check_nans || x->may_write;
}

static void exec_run(mr_exec_t *x, const void *const *in, void *const *out) {
  given_t g = {x, in, out};
  size_t n_in = (size_t)x->fn->n_in, n_out = (size_t)x->fn->n_out;
  assert(x->arena || !x->plan.bytes); /* not one of plan_only */
  for (int i = 0; i < x->n_patch; i++) {
    const mr_exec_patch_t *p = &x->patch[i];
    /* The cast drops const: only donated inputs are written to. */
    *p->slot = p->place == MR_BLOCK_IN ? (void *)(uintptr_t)in[p->index] : out[p->index];
  }
  x->nan = NULL;
  if (!x->key || is_watched(x)) {
    exec_give(&g);
    return;
  }
  for (size_t i = 0; i < n_in; i++) x->key[i] = in[i];
  for (size_t i = 0; i < n_out; i++) x->key[n_in + i] = out[i];
  x->device->backend->record->repeat(x->device, &x->kept, x->key, (int)(n_in + n_out), exec_give,
                                     &g);
}

void mr_exec_start(mr_exec_t *x, const void *const *in, void *const *out) {
  int64_t from = x->profile ? mr_now_ns() : 0;
  exec_run(x, in, out);
  if (x->profile) x->wall_ns += mr_now_ns() - from;
}

void mr_exec_run(mr_exec_t *x, const void *const *in, void *const *out) {
  mr_exec_start(x, in, out);
  exec_settle(x);
}

void mr_exec_gate(mr_exec_t *x, bool (*may_write)(void *arg), void *arg) {
  x->may_write = may_write;
  x->gate_arg = arg;
}

void mr_exec_wait_beside(mr_exec_t *x) {
  const mr_queue_ops_t *queue = x->device->backend->queue;
  x->waits_beside = queue && queue->wait_beside;
}

const mr_device_t *mr_exec_device(const mr_exec_t *x) { return x->device; }

const mr_fn_t *mr_exec_fn(const mr_exec_t *x) { return x->fn; }

int mr_exec_output_in(const mr_exec_t *x, int i) {
  const mr_block_t *b = &x->plan.block[x->plan.of_var[x->fn->out[i]->id]];
  return b->place == MR_BLOCK_IN ? b->index : -1;
}

size_t mr_exec_peak_bytes(const mr_exec_t *x) { return x->plan.bytes; }

static void add_borrowed(const mr_exec_t *x, size_t most[2]) {
  for (int i = 0; i < x->fn->n_eqn; i++) {
    const mr_call_t *c = &x->call[i];
    size_t bytes = c->borrowed * (size_t)c->borrowers, *of = &most[c->borrowers > 1];
    if (bytes > *of) *of = bytes;
    for (int k = 0; k < c->n_inner; k++) add_borrowed(c->inner[k].exec, most);
  }
}

size_t mr_exec_borrowed_bytes(const mr_exec_t *x) {
  size_t most[2] = {0};
  add_borrowed(x, most);
  return most[0] + most[1];
}

int mr_exec_unplanned(const mr_exec_t *x) {
  int n = 0;
  for (int i = 0; i < x->fn->n_eqn; i++) {
    n += x->call[i].scratch_unknown;
    for (int k = 0; k < x->call[i].n_inner; k++) n += mr_exec_unplanned(x->call[i].inner[k].exec);
  }
  return n;
}

mr_err_t mr_exec_inspect(const mr_exec_t *x,
                         void (*say)(void *arg, const mr_call_t *c, const mr_backend_kernel_t *k),
                         void *arg, mr_diag_t *diag) {
  const mr_compile_ops_t *compile = x->device->backend->compile;
  if (!compile->inspect) return MR_OK;
  MR_TRY(compile->inspect(x->device, x->call, x->fn->n_eqn, say, arg, diag));
  for (int i = 0; i < x->fn->n_eqn; i++)
    for (int k = 0; k < x->call[i].n_inner; k++)
      MR_TRY(mr_exec_inspect(x->call[i].inner[k].exec, say, arg, diag));
  return MR_OK;
}
