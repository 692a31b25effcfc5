/* to-device: copies batches to the memory of a device, on a thread of its own, while the step
   computes with those before.

   A batch is given on when its copy is done, which this thread waits for: the step then needs no
   wait on the device, the time of a slow copy counts as this stage's own, and the host's batch is
   released at once.  The copy behind it has begun by then, so that waiting costs no time between
   copies.  A slot is free again when the last stage has released its buffer; a step does that when
   its results have been read.

   What the host needs of a batch stays with the buffer: keys, draws, exclusion marks, labels. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "model/exec/device.h"
#include "model/train/slots.h"
#include "model/train/train.h"
#include "pipeline/pool.h"
#include "pipeline/stage_step.h"
#include "stages/train/train_stage.h"

enum { AHEAD = 2 /* copies that are under way at a time */ };

typedef struct copying {
  mr_buf_t *host, *there;
  void *mark;
} copying_t;

typedef struct to_device {
  const char *device; /* NULL: not given */
  int64_t n_slots;
  bool passes;           /* device=cpu: batches lie there already */
  const mr_device_t *to; /* that device, from open to close */
  mr_slots_t *slots;     /* the pool's, once there is one */
  mr_pool_t *pool;
  int from[MR_FIELDS_MAX]; /* [n_fields of the output] fields of the input */
  size_t bytes;            /* of all slots */
  mr_buf_t *next;          /* taken from the input, for which there was no slot */
  copying_t copying[AHEAD];
  int64_t begun, done;
  mr_err_t failed; /* of the first copy that failed, with its reason; MR_OK: none */
  mr_diag_t why;
} to_device_t;

static const mr_opt_t to_device_opts[] = {
    {.name = "device",
     .type = MR_OPT_STR,
     .offset = offsetof(to_device_t, device),
     .positional = 1,
     .together = true,
     .help = "Device of the step behind it: cuda[:N] or opencl[:N] (docs/devices.md); cpu: batches "
             "pass unchanged.  By default the device= of the train-step directly behind it."},
    {.name = "slots",
     .type = MR_OPT_INT,
     .offset = offsetof(to_device_t, n_slots),
     .unit = "batches",
     .def = "5",
     .lo = MR_TRAIN_RING,
     .hi = MR_SLOTS_MAX,
     .help = "Batches in the device's memory at a time; the step uses up to 4 of them."},
    {0}};

/* Fields of one length; no step takes ragged ones. */
static mr_err_t plan_fields(mr_stage_t *s) {
  to_device_t *t = s->state;
  const mr_spec_t *in = &s->in_spec[0];
  mr_spec_t *out = &s->out_spec[0];
  out->n_fields = 0;
  for (int f = 0; f < in->n_fields; f++) {
    if (in->field[f].ragged) continue;
    t->from[out->n_fields] = f;
    out->field[out->n_fields++] = in->field[f];
  }
  if (out->n_fields) return MR_OK;
  return mr_stage_fail(s, MR_ERR_SHAPE,
                       "every field is ragged: want one of a fixed length, which "
                       "a step can take");
}

static mr_err_t to_device_plan(mr_stage_t *s) {
  to_device_t *t = s->state;
  mr_diag_t why = {0};
  s->out_spec[0] = s->in_spec[0];
  if (!t->device) t->device = "cpu";
  if (mr_device_check(t->device, &why) < 0) return mr_stage_relay(s, why.code, &why);
  t->passes = mr_device_on_host(t->device);
  if (t->passes) return MR_OK;
  s->out_spec[0].device = t->device;
  s->holds = AHEAD + 1;
  return plan_fields(s);
}

static void give_back_slots(void *slots) { mr_slots_destroy(slots); }

/* Points every buffer of the pool at the slot of its index. */
static void place_slots(to_device_t *t, int n_fields) {
  mr_buf_t *b[MR_SLOTS_MAX];
  for (int i = 0; i < t->n_slots; i++) {
    b[i] = mr_pool_get(t->pool);
    for (int f = 0; f < n_fields; f++)
      b[i]->field[f].data = mr_slots_at(t->slots, (int)mr__pool_index(b[i]), f);
    b[i]->data = b[i]->field[0].data;
  }
  for (int i = 0; i < t->n_slots; i++) mr_buf_unref(b[i]);
}

static mr_err_t to_device_open(mr_stage_t *s) {
  to_device_t *t = s->state;
  const mr_spec_t *out = &s->out_spec[0];
  size_t bytes[MR_FIELDS_MAX];
  mr_diag_t why = {0};
  if (t->passes) return MR_OK;
  mr_err_t e = mr_device_open(t->device, &t->to, &why);
  for (int f = 0; f < out->n_fields; f++)
    bytes[f] = mr_field_bytes(&out->field[f]) * (size_t)out->batch;
  if (e >= 0) e = mr_slots_create(t->to, (int)t->n_slots, out->n_fields, bytes, &t->slots, &why);
  if (e < 0) return mr_stage_relay(s, e, &why);
  t->bytes = mr_slots_bytes(t->to, (int)t->n_slots, out->n_fields, bytes);
  t->pool = mr_pool_create(out, (size_t)t->n_slots);
  if (!t->pool) {
    mr_slots_destroy(t->slots);
    return mr_stage_no_memory(s, "the buffers of %d slots", (int)t->n_slots);
  }
  /* The slots live as long as their buffers, which other stages release after this one is closed.
   */
  mr__pool_hook(t->pool, &(mr__pool_hooks_t){.destroyed = give_back_slots, .arg = t->slots});
  place_slots(t, out->n_fields);
  mr_use_pool(s, 0, t->pool);
  return MR_OK;
}

static void to_device_close(mr_stage_t *s) {
  to_device_t *t = s->state;
  for (; t->done < t->begun; t->done++) {
    copying_t *c = &t->copying[t->done % AHEAD];
    (void)mr_slots_filled(t->slots, c->mark, true, NULL); /* it reads the host's bytes */
    mr_buf_unref(c->host);
    mr_buf_unref(c->there);
  }
  mr_buf_unref(t->next);
  mr_device_close(t->to); /* the slots, which live longer, keep it open */
  t->next = NULL, t->to = NULL;
}

/* What the host keeps of a batch. */
static void keep_records(const to_device_t *t, const mr_spec_t *out, const mr_buf_t *host,
                         mr_buf_t *there) {
  size_t n = (size_t)host->n;
  there->n = host->n, there->first = host->first, there->size = mr_buf_bytes(out, there, host->n);
  there->epoch = host->epoch, there->position = host->position, there->flags = host->flags;
  memcpy(there->key, host->key, n * sizeof *host->key);
  memcpy(there->draw, host->draw, n * sizeof *host->draw);
  memcpy(there->excluded, host->excluded, n * sizeof *host->excluded);
  if (there->word) memcpy(there->word, host->word, (size_t)out->n_words * sizeof *host->word);
  for (int f = 0; f < out->n_fields; f++)
    if (there->field[f].label)
      memcpy(there->field[f].label, host->field[t->from[f]].data, n * sizeof(int32_t));
}

/* Begins to copy a batch, which it takes over, into the slot of a buffer. */
static void begin_copy(mr_stage_t *s, mr_buf_t *host, mr_buf_t *there) {
  to_device_t *t = s->state;
  const mr_spec_t *out = &s->out_spec[0];
  const void *from[MR_FIELDS_MAX];
  size_t bytes[MR_FIELDS_MAX];
  for (int f = 0; f < out->n_fields; f++) {
    from[f] = host->field[t->from[f]].data;
    bytes[f] = mr_field_bytes(&out->field[f]) * (size_t)host->n;
  }
  keep_records(t, out, host, there);
  copying_t *c = &t->copying[t->begun++ % AHEAD];
  *c = (copying_t){.host = host, .there = there};
  c->mark = mr_slots_fill(t->slots, (int)mr__pool_index(there), from, bytes);
}

/* Waits for the oldest copy and gives its batch on.  After a failure too: the device has failed as
   a whole, and the stage behind, which meets it as well, names the step. */
static mr_err_t end_copy(mr_stage_t *s) {
  to_device_t *t = s->state;
  copying_t *c = &t->copying[t->done % AHEAD];
  mr_diag_t why = {0};
  mr_err_t e = mr_slots_filled(t->slots, c->mark, true, &why);
  t->done++;
  mr_buf_unref(c->host);
  if (e < 0 && t->failed == MR_OK) t->failed = e, t->why = why;
  return mr_push(s, 0, c->there);
}

/* The end of the stream, or a failure of which the stage behind has said nothing. */
static mr_err_t end_or_failure(mr_stage_t *s, mr_err_t e) {
  const to_device_t *t = s->state;
  return e == MR_END && t->failed < 0 ? mr_stage_relay(s, t->failed, &t->why) : e;
}

static mr_err_t pass_on(mr_stage_t *s) {
  mr_buf_t *b;
  mr_err_t e = mr_pull(s, 0, &b);
  return e == MR_OK ? mr_push(s, 0, b) : e;
}

/* Begins a copy if there are a batch and a slot, and ends the oldest if there are not, or enough
   copies are under way.  It blocks for a batch or a slot only while none is. */
static mr_err_t to_device_step(mr_stage_t *s) {
  to_device_t *t = s->state;
  bool idle = t->begun == t->done;
  mr_buf_t *there = NULL;
  mr_err_t e = MR_OK;
  if (t->passes) return pass_on(s);
  if (!t->next && idle)
    e = mr_pull(s, 0, &t->next);
  else if (!t->next)
    mr_take(s, 0, &t->next, 1);
  if (e != MR_OK) return end_or_failure(s, e);
  if (t->next && idle)
    e = mr_fresh(s, 0, &there);
  else if (t->next)
    there = mr_pool_get(t->pool);
  if (e != MR_OK) return e;
  if (there) begin_copy(s, t->next, there), t->next = NULL;
  if (there && t->begun - t->done < AHEAD) return MR_OK;
  return end_copy(s);
}

/* The memory plan of a step does not count what its batches take. */
static void to_device_report(mr_stage_t *s, char *text, size_t n) {
  const to_device_t *t = s->state;
  if (t->bytes)
    snprintf(text, n, "%" PRId64 " slots of %zu bytes on device %s", t->n_slots,
             t->bytes / (size_t)t->n_slots, t->device);
}

const mr_stage_def_t mr_stage_to_device = {
    .name = "to-device",
    .help = "Copies batches to a device's memory while the step before them computes.",
    .in = {{"in", MR_FLOW_BATCHES}},
    .out = {{"out", MR_FLOW_BATCHES, .device = true}},
    .opts = to_device_opts,
    .state_sz = sizeof(to_device_t),
    .plan = to_device_plan,
    .open = to_device_open,
    .close = to_device_close,
    .report = to_device_report,
    .step = &(const mr_step_def_t){.run = to_device_step},
};

/* The name of the stage before the input `in` of a training stage on a device; NULL for any other
   stage, and without one. */
static const char *before_step(const mr_graph_t *g, const mr_stage_t *step, const char **device) {
  *device = mr_graph_setting(g, step->name, "device");
  if (!mr_is_train_stage(step) || !*device || mr_device_on_host(*device)) return NULL;
  return mr_graph_before(g, step->name, 0);
}

static bool comes_from_device(const mr_graph_t *g, const char *before) {
  return mr_graph_stage(g, before)->def->out[0].device;
}

extern const mr_stage_def_t mr_stage_shard_to_device; /* shard_to_device.c */

/* The stage of those that a program inserts which has the setting SETTING or STAGE.SETTING; NULL:
   none has it. */
static const mr_stage_def_t *inserted_with(const char *name) {
  static const mr_stage_def_t *const inserted[] = {&mr_stage_to_device, &mr_stage_shard_to_device};
  const char *dot = strchr(name, '.');
  for (size_t i = 0; i < sizeof inserted / sizeof *inserted; i++) {
    const char *of = inserted[i]->name;
    size_t n = strlen(of);
    if (dot ? (size_t)(dot - name) == n && !strncmp(name, of, n)
            : mr_stage_def_opt(inserted[i], name) != NULL)
      return inserted[i];
  }
  return NULL;
}

mr_err_t mr_train_stage_missing(mr_graph_t *g, const char *name, mr_diag_t *diag) {
  const mr_stage_def_t *def = inserted_with(name);
  const char *given;
  if (!def) return MR_OK;
  for (int i = 0, n = mr_graph_n_stages(g); i < n; i++) {
    const mr_stage_t *step = mr_graph_stage_at(g, i);
    const char *before = mr_is_train_stage(step) ? mr_graph_before(g, step->name, 0) : NULL;
    if (before && !comes_from_device(g, before))
      MR_TRY(mr_graph_insert(g, def->name, step->name, 0, &given, diag));
    else if (before && mr_graph_stage(g, before)->def == &mr_stage_to_device &&
             def == &mr_stage_shard_to_device)
      return mr_fail(diag, MR_ERR_CONFIG,
                     "%s: the batches of %s lie on a device already, and ranks share them before "
                     "that: want the graph without %s, as the step of a rank copies its own",
                     before, step->name, before);
  }
  return MR_OK;
}

mr_err_t mr_train_stage_devices(mr_graph_t *g, mr_diag_t *diag) {
  for (int i = 0, n = mr_graph_n_stages(g); i < n; i++) {
    const char *device, *before = before_step(g, mr_graph_stage_at(g, i), &device);
    if (!before || mr_graph_stage(g, before)->def != &mr_stage_to_device) continue;
    if (!mr_graph_setting(g, before, "device"))
      MR_TRY(mr_graph_set(g, before, "device", device, diag));
  }
  return MR_OK;
}

mr_err_t mr_train_stage_copies(mr_graph_t *g, mr_diag_t *diag) {
  for (int i = 0, n = mr_graph_n_stages(g); i < n; i++) {
    const mr_stage_t *step = mr_graph_stage_at(g, i);
    const char *device, *before = before_step(g, step, &device), *given;
    if (!before || comes_from_device(g, before)) continue;
    MR_TRY(mr_graph_insert(g, mr_stage_to_device.name, step->name, 0, &given, diag));
    MR_TRY(mr_graph_set(g, given, "device", device, diag));
  }
  return mr_train_stage_devices(g, diag);
}
