/* Calls of jitted functions.  A call finds or compiles the graph for its avals, takes memory for
   the outputs and puts a run into the queue.  A run holds references to all arrays and bytes it
   uses, so callers may drop theirs at once. */
#include "model/call/jit.h"
#include "model/exec/device.h"

#include <stdlib.h>
#include <string.h>

#include "model/call/jit_private.h"
#include "model/ir/op.h"

mr_err_t mr_jitted_create(mr_queue_t *q, const char *name, mr_emit_fn *trace, void *arg,
                          const mr_jitted_options_t *options, mr_jitted_t **out, mr_diag_t *diag) {
  if (options && options->static_bytes && !arg)
    return mr_fail(diag, MR_ERR_CONFIG, "jit of %s: static_bytes is %zu and arg is NULL, want 0",
                   name, options->static_bytes);
  mr_jitted_t *j = calloc(1, sizeof *j);
  if (j) j->name = strdup(name);
  if (!j || !j->name) {
    free(j);
    return mr_no_memory(diag, "jit of %s", name);
  }
  j->queue = q;
  j->trace = trace;
  j->arg = arg;
  if (options) j->options = *options;
  *out = j;
  return MR_OK;
}

void mr_jitted_destroy(mr_jitted_t *j) {
  if (!j) return;
  mr_queue_drain(j->queue);
  for (mr__jit_entry_t *e = j->first, *next; e; e = next) {
    next = e->next;
    mr__jit_entry_destroy(e);
  }
  free(j->name);
  free(j);
}

mr_jitted_stats_t mr_jitted_stats(const mr_jitted_t *j) { return j->stats; }

/* ---- one run in the queue ---- */
typedef struct run {
  mr__task_t task;
  mr__jit_entry_t *entry;
  const char *name;
  mr_array_t **in, **out;              /* references, dropped when the run has ended */
  mr__bytes_t **in_bytes, **out_bytes; /* of the arrays at the call, before donation */
  void **at;                           /* room for the pointers of mr_exec_run */
} run_t;

static void run_free(run_t *r) {
  for (int i = 0; i < r->entry->n_in; i++) {
    mr_array_drop(r->in[i]);
    mr__bytes_drop(r->in_bytes[i]);
  }
  for (int i = 0; i < r->entry->n_out; i++) {
    mr_array_drop(r->out[i]);
    mr__bytes_drop(r->out_bytes[i]);
  }
  free(r);
}

/* Waits for the inputs. false if one failed: *why is its failure, which the outputs take over. */
static bool inputs_stand(const run_t *r, mr_diag_t *why) {
  for (int i = 0; i < r->entry->n_in; i++)
    if (mr_block_until_ready(r->in[i], why) < 0) return false;
  return true;
}

static void execute_run(const run_t *r, mr_diag_t *why) {
  const mr__jit_entry_t *e = r->entry;
  for (int i = 0; i < e->n_in; i++) r->at[i] = r->in_bytes[i]->data;
  for (int i = 0; i < e->n_out; i++) r->at[e->n_in + i] = r->out_bytes[i]->data;
  mr_exec_run(e->exec, (const void *const *)r->at, r->at + e->n_in);
  const mr_eqn_t *bad = mr_exec_nan(e->exec);
  mr_diag_t device = {0};
  if (!mr_exec_device(e->exec)->backend->host &&
      mr_device_usable(mr_exec_device(e->exec), &device) < 0)
    mr_diag_prefix(why, device.code, &device, "run of %s", r->name);
  else if (bad)
    mr_fail(why, MR_ERR_DATA, "run of %s: %s%s%s gives NaN", r->name, bad->op->name,
            *bad->scope ? " in " : "", bad->scope);
}

static void run_task(mr__task_t *t) {
  run_t *r = (run_t *)t;
  mr_diag_t why = {0};
  if (inputs_stand(r, &why)) execute_run(r, &why);
  for (int i = 0; i < r->entry->n_out; i++) {
    if (why.code < 0)
      mr__array_fail(r->out[i], &why);
    else
      mr__array_done(r->out[i]);
  }
  run_free(r);
}

static run_t *run_create(mr_jitted_t *j, mr__jit_entry_t *e) {
  size_t n = (size_t)(e->n_in + e->n_out);
  run_t *r = calloc(1, sizeof *r + 3 * n * sizeof(void *));
  if (!r) return NULL;
  void **room = (void **)(r + 1);
  r->task.run = run_task;
  r->entry = e;
  r->name = j->name;
  r->in = (mr_array_t **)room;
  r->out = r->in + e->n_in;
  r->in_bytes = (mr__bytes_t **)(room + n);
  r->out_bytes = r->in_bytes + e->n_in;
  r->at = room + 2 * n;
  return r;
}

static bool take_outputs(mr_jitted_t *j, run_t *r, mr_array_t *const *in) {
  const mr__jit_entry_t *e = r->entry;
  for (int i = 0; i < e->n_out; i++) {
    mr__bytes_t *b = e->from[i] >= 0
                         ? mr__bytes_keep(in[e->from[i]]->bytes)
                         : mr__bytes_create(mr_exec_device(e->exec), mr_aval_bytes(&e->out[i]));
    if (!b) return false;
    r->out[i] = mr__array_create(e->out[i], b, j->queue);
    if (!r->out[i]) return false;
    r->out_bytes[i] = mr__bytes_keep(b);
    mr__note_say(b->note, NULL, j->name);
  }
  return true;
}

/* Hands out the futures, takes the donated bytes and queues the run.  Cannot fail. */
static void jit_commit(mr_jitted_t *j, run_t *r, mr_array_t *const *in, mr_array_t **out) {
  const mr__jit_entry_t *e = r->entry;
  for (int i = 0; i < e->n_in; i++) {
    r->in[i] = mr_array_keep(in[i]);
    r->in_bytes[i] = mr__bytes_keep(in[i]->bytes);
  }
  for (int i = 0; i < e->n_out; i++) out[i] = mr_array_keep(r->out[i]);
  for (int i = 0; i < e->n_in && i < 64; i++) {
    if (!(j->options.donate >> i & 1)) continue;
    mr__bytes_drop(in[i]->bytes);
    in[i]->bytes = NULL;
  }
  mr__queue_put(j->queue, &r->task, e->small);
}

static mr_err_t launch_run(mr_jitted_t *j, mr__jit_entry_t *e, mr_array_t *const *in,
                           mr_array_t **out, mr_diag_t *diag) {
  run_t *r = run_create(j, e);
  if (r && take_outputs(j, r, in)) {
    jit_commit(j, r, in, out);
    return MR_OK;
  }
  size_t bytes = 0;
  for (int i = 0; i < e->n_out; i++) bytes += mr_aval_bytes(&e->out[i]);
  if (r) {
    for (int i = 0; i < e->n_out; i++) mr_array_drop(r->out[i]), mr__bytes_drop(r->out_bytes[i]);
    free(r);
  }
  return mr_fail(diag, MR_ERR_NOMEM,
                 "jit of %s: out of memory: its outputs need %zu bytes beside the planned peak of "
                 "%zu",
                 j->name, bytes, mr_exec_peak_bytes(e->exec));
}

/* ---- a call ---- */
static bool donated_twice(const mr_jitted_t *j, int n_in, mr_array_t *const *in, int i) {
  if (i >= 64 || !(j->options.donate >> i & 1)) return false;
  for (int k = 0; k < n_in; k++)
    if (k != i && in[k] == in[i]) return true;
  return false;
}

static mr_err_t jit_check(const mr_jitted_t *j, int n_in, mr_array_t *const *in, mr_diag_t *diag) {
  if (j->tracing)
    return mr_fail(diag, MR_ERR_USAGE, "jit of %s: it is called from its own trace; no end to that",
                   j->name);
  const mr_device_t *device = j->options.device ? j->options.device : mr_device_default();
  for (int i = 0; i < n_in; i++) {
    char text[MR_AVAL_TEXT];
    if (!in[i]->bytes)
      return mr_fail(diag, MR_ERR_CONFIG,
                     "jit of %s: argument %d, %s, was donated to an earlier call and is gone",
                     j->name, i, mr_aval_text(&in[i]->aval, text));
    if (in[i]->device != device)
      return mr_fail(diag, MR_ERR_CONFIG,
                     "jit of %s: argument %d, %s, lies on device %s, and it runs on %s; "
                     "mr_array_to copies",
                     j->name, i, mr_aval_text(&in[i]->aval, text), in[i]->device->name,
                     device->name);
    if (donated_twice(j, n_in, in, i))
      return mr_fail(diag, MR_ERR_CONFIG,
                     "jit of %s: argument %d, %s, is donated and given a second time", j->name, i,
                     mr_aval_text(&in[i]->aval, text));
  }
  return MR_OK;
}

static mr__jit_entry_t *jit_find(const mr_jitted_t *j, int n_in, mr_array_t *const *in) {
  mr_precision_t precision = mr_matmul_precision();
  mr_key_layout_t keys = mr_key_layout();
  size_t fixed = j->options.static_bytes;
  for (mr__jit_entry_t *e = j->first; e; e = e->next) {
    int i = 0;
    if (e->n_in != n_in || e->precision != precision || e->keys != keys) continue;
    if (fixed && memcmp(e->fixed, j->arg, fixed) != 0) continue;
    while (i < n_in && mr_aval_equal(&e->in[i], &in[i]->aval)) i++;
    if (i == n_in) return e;
  }
  return NULL;
}

mr_err_t mr_jitted_call(mr_jitted_t *j, int n_in, mr_array_t *const *in, int n_out,
                        mr_array_t **out, mr_diag_t *diag) {
  MR_TRY(jit_check(j, n_in, in, diag));
  mr__jit_entry_t *e = jit_find(j, n_in, in);
  if (e) {
    j->stats.hits++;
  } else {
    MR_TRY(mr__jit_compile(j, n_in, in, &e, diag));
    e->next = j->first;
    j->first = e;
    j->stats.misses++;
  }
  if (e->n_out != n_out)
    return mr_fail(diag, MR_ERR_SHAPE, "jit of %s: it gives %d outputs, room was given for %d",
                   j->name, e->n_out, n_out);
  return launch_run(j, e, in, out, diag);
}
