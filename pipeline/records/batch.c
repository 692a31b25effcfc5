/* batch: runs the chain before it and gives batches of its records.

   By default no batch crosses an epoch: an epoch has n = floor or ceil(n_records / size) batches,
   and batch number b holds the records from position (b / n) * n_records + (b % n) * size on.
   Worker w of N makes the batches w, w + N, ..., so a batch's content depends on its number
   alone.

   After a resume that changed what is before this stage, or its size, the setting resume says with
   which record which step begins; that epoch's batches follow from there, and numbers inside this
   file run on as if the rest of the epoch were the end of one with this size.

   If a stream has holes or no positions, the number does not say where a batch begins, and a walk
   finds the batches in order (batch_walk.c). */
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>

#include "pipeline/records/batch_layout.h"
#include "pipeline/records/batch_walk.h"
#include "pipeline/records/chain.h"
#include "pipeline/stage_step.h"

typedef struct cursor {
  _Alignas(64) int64_t next; /* this worker's next batch */
} cursor_t;

typedef struct batch {
  int64_t size, loader_workers;
  bool drop, across;
  int order;
  const char *skip_steps;
  mr_ranges_t skip;
  const char *host_text;
  int64_t parts;
  mr_host_t host;
  const char *resume_text;
  mr_batch_resume_t resume;
  int64_t shifted, shift; /* the epoch that a resume has cut, and by how many records its batches
                             lie behind their usual places */
  int64_t ahead;          /* number of a buffer outside, less the one in here */
  cursor_t *cursor;       /* [workers] */
  int64_t first;          /* the first batch given, */
  int cut;                /* and how many of its records it omits */
  mr_batch_walk_t *walk;
  pthread_mutex_t lock; /* guards foreseen, and announcing */
  int64_t foreseen;     /* the first batch that has not been announced to the sources */
} batch_t;

enum { ORDER_STREAM, ORDER_GRAIN_WORKERS };
enum { FORESEEN_MAX = 1 << 16 /* records announced at a time: some milliseconds */ };

static const mr_opt_t batch_opts[] = {
    {.name = "size",
     .hint = "batchsize bs batch trainbatchsize perdevicetrainbatchsize",
     .type = MR_OPT_INT,
     .offset = offsetof(batch_t, size),
     .unit = "records",
     .lo = 1,
     .hi = 65536,
     .positional = 1,
     .help = "Number of records in a batch."},
    {.name = "drop-remainder",
     .hint = "droplast dropremainder dataloaderdroplast",
     .type = MR_OPT_BOOL,
     .offset = offsetof(batch_t, drop),
     .unit = "",
     .def = "false",
     .help = "Drops the last batch of an epoch if it is not full."},
    {.name = "across-epochs",
     .type = MR_OPT_BOOL,
     .offset = offsetof(batch_t, across),
     .unit = "",
     .def = "false",
     .help = "Lets a batch cross the end of an epoch, as grain's DataLoader does."},
    {.name = "order",
     .type = MR_OPT_ENUM,
     .offset = offsetof(batch_t, order),
     .unit = "",
     .def = "stream",
     .choices = "stream|grain-workers",
     .help = "grain-workers: batches as grain's worker processes make them, each of every "
             "loader-workers-th record, across epochs."},
    {.name = "loader-workers",
     .type = MR_OPT_INT,
     .offset = offsetof(batch_t, loader_workers),
     .unit = "processes",
     .def = "0",
     .lo = 0,
     .hi = 256,
     .help = "Number of grain's worker processes that order=grain-workers reproduces; workers= "
             "sets the threads of this stage."},
    {.name = "host",
     .type = MR_OPT_STR,
     .offset = offsetof(batch_t, host_text),
     .unit = "I/N",
     .help = "Produces only slice I of N, from 0, of each batch, for N processes that share it."},
    {.name = "parts",
     .type = MR_OPT_INT,
     .offset = offsetof(batch_t, parts),
     .unit = "parts",
     .def = "0",
     .hi = 65536,
     .help = "With host=: slices are whole parts of a batch that is cut into this many, as ranks "
             "share those of ordered= (docs/distributed.md); 0: slices of equal records."},
    {.name = "skip-steps",
     .type = MR_OPT_STR,
     .offset = offsetof(batch_t, skip_steps),
     .unit = "steps",
     .help = "Steps to skip, from 1, 3,10-20 or @FILE: their batches come empty and change no "
             "parameter."},
    {.name = "resume",
     .type = MR_OPT_STR,
     .offset = offsetof(batch_t, resume_text),
     .unit = "POSITION:STEPS",
     .help = "Written by a resume that changed the stream: the position at which the batch behind "
             "this many steps begins, and the state of the stream there."},
    {0},
};

static bool is_walked(const mr_stage_t *s) {
  const batch_t *b = s->state;
  const mr_spec_t *in = &s->in_spec[0];
  return in->sequential || in->holes || (b->order == ORDER_GRAIN_WORKERS && b->loader_workers > 1);
}

/* True if batches cross epochs. */
static bool batch_crosses(const batch_t *b) { return b->across || b->order == ORDER_GRAIN_WORKERS; }

static const int64_t POSITION_MAX = INT64_C(1) << 62;

/* Finds where the cut epoch's batches lie; n_batches is settled. */
static void plan_resume(mr_stage_t *s) {
  batch_t *b = s->state;
  mr_spec_t *out = &s->out_spec[0];
  int64_t i = b->resume.position % out->n_records, left = out->n_records - i;
  int64_t rest = left / b->size + (!b->drop && left % b->size);
  b->shifted = b->resume.position / out->n_records;
  b->shift = i - (out->n_batches - rest) * b->size;
  b->ahead = b->resume.number - ((b->shifted + 1) * out->n_batches - rest);
  out->ahead = b->ahead;
}

/* Joins all epochs to one; endless ones to an epoch that batches divide evenly. */
static mr_err_t join_epochs(mr_stage_t *s, int64_t size, mr_spec_t *out) {
  int64_t n = out->n_records;
  if (__builtin_mul_overflow(n, out->n_epochs ? out->n_epochs : size, &out->n_records) ||
      out->n_records > POSITION_MAX)
    return mr_stage_fail(s, MR_ERR_CONFIG,
                         "setting size = %lld: batches across epochs of %lld records would repeat "
                         "after more than 2^62; remove across-epochs or take a smaller size",
                         (long long)size, (long long)n);
  if (out->n_epochs) out->n_epochs = 1;
  return MR_OK;
}

static mr_err_t plan_lengths(mr_stage_t *s) {
  const batch_t *b = s->state;
  mr_spec_t *out = &s->out_spec[0];
  if (is_walked(s)) { /* the number of batches is known at the end */
    int words = mr_batch_walk_words(&s->in_spec[0], (int)b->loader_workers);
    if (words > MR_STREAM_WORDS_MAX)
      return mr_stage_fail(
          s, MR_ERR_CONFIG,
          "setting loader-workers = %lld: the state has %d numbers, want at most %d",
          (long long)b->loader_workers, words, MR_STREAM_WORDS_MAX);
    out->n_words = words > 1 ? words : 0; /* a single number is the position */
    out->n_batches = 0;
    return MR_OK;
  }
  out->n_words = 0, out->ahead = 0;
  if (batch_crosses(b)) MR_TRY(join_epochs(s, b->size, out));
  out->n_batches = (out->n_records + (b->drop ? 0 : b->size - 1)) / b->size;
  if (out->n_batches < 1)
    return mr_stage_fail(s, MR_ERR_CONFIG, "setting size = %lld: an epoch has only %lld records",
                         (long long)b->size, (long long)out->n_records);
  if (b->resume.given) plan_resume(s);
  return MR_OK;
}

/* Checks that a batch of each field can be an array, and that all fields fit a buffer. */
static mr_err_t check_fields(mr_stage_t *s) {
  const mr_spec_t *out = &s->out_spec[0];
  size_t bytes = 0;
  for (int f = 0; f < out->n_fields; f++) {
    const mr_field_t *field = &out->field[f];
    size_t here;
    if (field->ndim + 1 > MR_MAX_NDIM)
      return mr_stage_fail(s, MR_ERR_SHAPE, "field %s has %d dimensions, want at most %d",
                           field->name, field->ndim, MR_MAX_NDIM - 1);
    if (__builtin_mul_overflow(mr_field_bytes(field), (size_t)out->batch, &here) ||
        __builtin_add_overflow(bytes, here, &bytes) || bytes > PTRDIFF_MAX / 64)
      return mr_stage_fail(s, MR_ERR_SHAPE,
                           "setting size = %" PRId64
                           ": a batch would have more than %td bytes in "
                           "fields up to %s; take a smaller size",
                           ((const batch_t *)s->state)->size, PTRDIFF_MAX / 64, field->name);
  }
  return MR_OK;
}

/* The most records of a slice. */
static mr_err_t plan_slices(mr_stage_t *s) {
  batch_t *b = s->state;
  mr_host_t first = {.n = b->host.n, .parts = b->parts};
  int from = 0, n = (int)b->size;
  b->host.parts = b->parts;
  if (b->parts && (b->parts < b->host.n || b->parts > b->size))
    return mr_stage_fail(s, MR_ERR_CONFIG,
                         "setting parts = %" PRId64 ": want 0, or a part for each of the %" PRId64
                         " slices and at most one for each of the %" PRId64 " records",
                         b->parts, b->host.n, b->size);
  mr_host_slice(&first, &from, &n);
  s->out_spec[0].batch = b->parts ? n : (b->size + b->host.n - 1) / b->host.n;
  return MR_OK;
}

/* A file of steps is in the process that makes the batches. */
static mr_err_t plan_skip(mr_stage_t *s) {
  batch_t *b = s->state;
  mr_diag_t why = {0};
  if (s->elsewhere || mr_ranges_parse(&b->skip, b->skip_steps, &why) >= 0) return MR_OK;
  return mr_diag_prefix(s->diag, why.code, &why, "%s: setting skip-steps", s->name);
}

static void batch_forget(mr_stage_t *s) {
  batch_t *b = s->state;
  mr_ranges_fini(&b->skip);
}

static mr_err_t batch_plan(mr_stage_t *s) {
  batch_t *b = s->state;
  const mr_spec_t *in = &s->in_spec[0];
  mr_spec_t *out = &s->out_spec[0];
  *out = *in;
  out->flow = MR_FLOW_BATCHES;
  MR_TRY(mr_host_parse(s, b->host_text, b->size, &b->host));
  MR_TRY(mr_batch_resume_parse(s, b->resume_text, &b->resume));
  MR_TRY(plan_slices(s));
  MR_TRY(check_fields(s));
  MR_TRY(plan_skip(s));
  out->part = b->host.n > 1, out->whole = out->part ? b->size : 0;
  bool all = !(b->skip_steps && *b->skip_steps);
  out->even = !out->part && all && !is_walked(s),
  out->by_record = !out->part && !out->even && !b->resume.given;
  return plan_lengths(s);
}

/* Checks that an endless stream may begin with batch b->first: later positions of any run must fit
   in 64 bits.  In a stream with an end, batches beyond it are never made (is_over). */
static mr_err_t check_first(mr_stage_t *s) {
  const batch_t *b = s->state;
  const mr_spec_t *spec = &s->out_spec[0];
  int64_t at;
  if (spec->n_epochs ||
      (!__builtin_mul_overflow(b->first / spec->n_batches + 1, spec->n_records, &at) &&
       at <= POSITION_MAX))
    return MR_OK;
  return mr_stage_fail(s, MR_ERR_CONFIG, "batch %lld lies beyond position 2^62",
                       (long long)b->first);
}

/* Sets the first batch to the one that holds s->start_record, counted without skipped steps. */
static mr_err_t go_to_record(mr_stage_t *s) {
  batch_t *b = s->state;
  const mr_spec_t *spec = &s->out_spec[0];
  int64_t left_over = b->drop ? spec->n_records % b->size : 0;
  mr_left_out_t t = {&b->skip, b->size, spec->n_batches, spec->n_records - left_over};
  int64_t most = (INT64_C(1) << 62) / spec->n_records * spec->n_batches;
  if (spec->n_epochs) most = spec->n_epochs * spec->n_batches;
  b->first = mr_left_out_batch(&t, s->start_record, most);
  b->cut = (int)(b->first < most ? s->start_record - mr_left_out_before(&t, b->first) : 0);
  return check_first(s);
}

/* Sets the first batch to the one at the resumed position. */
static mr_err_t first_batch(mr_stage_t *s) {
  batch_t *b = s->state;
  const mr_spec_t *spec = &s->out_spec[0];
  int64_t epoch = s->start_position / spec->n_records, i = s->start_position % spec->n_records;
  b->cut = 0;
  if (s->start_record) return go_to_record(s);
  if (!s->start_position && s->start_number < b->resume.number)
    return mr_stage_fail(s, MR_ERR_CONFIG,
                         "setting resume = %.60s: with these settings the stream begins with step "
                         "%lld, and step %lld was asked for",
                         b->resume_text, (long long)b->resume.number + 1,
                         (long long)s->start_number + 1);
  if (!s->start_position && s->start_number)
    return b->first = s->start_number - b->ahead, check_first(s);
  if (b->resume.given && epoch == b->shifted) i -= b->shift;
  bool over = batch_crosses(b) && i / b->size == spec->n_batches; /* at what is dropped */
  if (s->start_position < 0 || i < 0 || i % b->size || (i / b->size >= spec->n_batches && !over))
    return mr_stage_fail(s, MR_ERR_CONFIG, "no batch of %lld starts at position %lld",
                         (long long)b->size, (long long)s->start_position);
  b->first = epoch * spec->n_batches + i / b->size;
  return check_first(s);
}

static int64_t batch_seek(const mr_stage_t *s, int64_t number, int64_t *own, int64_t *record) {
  const batch_t *b = s->state;
  const mr_spec_t *spec = &s->out_spec[0];
  int64_t at;
  if (is_walked(s)) return 0;               /* batch_walk.c seeks by the number */
  if (number < b->resume.number) return -1; /* of other settings */
  number -= b->ahead;
  if (__builtin_mul_overflow(number / spec->n_batches, spec->n_records, &at)) return -1;
  int64_t within = number % spec->n_batches * b->size;
  if (b->resume.given && number / spec->n_batches == b->shifted) within += b->shift;
  return __builtin_add_overflow(at, within, &at) ? -1 : at;
}

static mr_err_t batch_open(mr_stage_t *s) {
  batch_t *b = s->state;
  pthread_mutex_init(&b->lock, NULL);
  if (is_walked(s)) {
    int parts = b->order == ORDER_GRAIN_WORKERS && b->loader_workers ? (int)b->loader_workers : 1;
    return mr_batch_walk_open(s,
                              (mr_batch_conf_t){b->size, b->drop, batch_crosses(b), parts, b->host,
                                                &b->skip, b->resume.given ? &b->resume : NULL},
                              &b->walk);
  }
  MR_TRY(first_batch(s));
  b->foreseen = b->first;
  b->cursor = aligned_alloc(64, (size_t)s->n_workers * sizeof *b->cursor);
  if (!b->cursor) return mr_stage_no_memory(s, "the positions of its workers");
  for (int w = 0; w < s->n_workers; w++) b->cursor[w] = (cursor_t){.next = b->first + w};
  return MR_OK;
}

static void batch_close(mr_stage_t *s) {
  batch_t *b = s->state;
  free(b->cursor);
  mr_batch_walk_close(b->walk);
  pthread_mutex_destroy(&b->lock);
  b->cursor = NULL, b->walk = NULL;
}

/* The positions of batch `number` in its epoch. */
typedef struct span {
  int64_t pos, end; /* first position of this host's slice; end of the whole batch in its epoch */
  int first, n;     /* the slice: slots [first,first+n) of the batch */
  bool last;        /* of its epoch */
} span_t;

static span_t span_of(const mr_stage_t *s, int64_t number) {
  const batch_t *b = s->state;
  const mr_spec_t *spec = &s->out_spec[0];
  int64_t epoch = number / spec->n_batches, i = number % spec->n_batches;
  int64_t start = i * b->size + (b->resume.given && epoch == b->shifted ? b->shift : 0);
  int64_t left = spec->n_records - start;
  span_t at = {.n = (int)(left < b->size ? left : b->size), .last = i + 1 == spec->n_batches};
  at.end = start + at.n;
  mr_host_slice(&b->host, &at.first, &at.n);
  if (mr_ranges_has(&b->skip, (uint64_t)(number + b->ahead) + 1)) at.n = 0;
  if (number == b->first) at.first += b->cut, at.n -= b->cut;
  at.pos = epoch * spec->n_records + start + at.first;
  return at;
}

static mr_err_t batch_holds(mr_stage_t *s, int64_t position, mr_batch_place_t *out) {
  const batch_t *b = s->state;
  const mr_spec_t *spec = &s->out_spec[0];
  if (is_walked(s)) return out->number = -1, MR_OK;
  int64_t epoch = position / spec->n_records, i = position % spec->n_records;
  if (b->resume.given && epoch == b->shifted) i -= b->shift;
  if (i < 0 || i / b->size >= spec->n_batches) return MR_END; /* of other settings; dropped */
  int64_t number = epoch * spec->n_batches + i / b->size;
  span_t at = span_of(s, number);
  *out = (mr_batch_place_t){number + b->ahead, epoch, (int)(i % b->size) - at.first};
  bool other = b->resume.given && out->number < b->resume.number;
  return other || out->slot < 0 || out->slot >= at.n ? MR_END : MR_OK;
}

static bool is_over(const mr_stage_t *s, int64_t number) {
  const mr_spec_t *spec = &s->out_spec[0];
  return spec->n_epochs && number >= spec->n_epochs * spec->n_batches;
}

/* Announces the records of this batch and of later ones, in order, to sources that fetch far
   ahead. */
static void foresee_batches(mr_stage_t *s, mr_chain_t *c, int64_t number) {
  batch_t *b = s->state;
  if (!mr_chain_foresees(c)) return;
  pthread_mutex_lock(&b->lock);
  for (int64_t left = FORESEEN_MAX; !is_over(s, b->foreseen); b->foreseen++) {
    span_t at = span_of(s, b->foreseen);
    if (b->foreseen > number && (left <= 0 || mr_chain_wants(c) <= 0)) break;
    mr_chain_foresee(c, at.pos, at.n);
    left -= at.n + 1;
  }
  pthread_mutex_unlock(&b->lock);
}

static mr_err_t batch_fill(mr_stage_t *s, int64_t number, mr_buf_t *buf) {
  const mr_spec_t *spec = &s->out_spec[0];
  mr_chain_t *c = mr_in_chain(s, 0);
  int64_t epoch = number / spec->n_batches, next = number + s->n_workers;
  span_t at = span_of(s, number), then = {0};
  buf->epoch = epoch;
  buf->flags = at.last ? MR_BUF_EPOCH_END : 0;
  /* The records that an epoch drops count as passed at its end; grain's DataLoader, which has no
     epochs, does not pass them. */
  bool passed = at.last && !batch_crosses(s->state);
  buf->position = passed ? (epoch + 1) * spec->n_records : epoch * spec->n_records + at.end;
  buf->n = at.n, buf->first = at.first;
  if (!at.n) return MR_OK;
  foresee_batches(s, c, number);
  if (!is_over(s, next)) then = span_of(s, next);
  mr_chain_then(c, then.pos, then.n);
  MR_TRY(mr_chain_fill(s, c, at.pos, at.n, buf));
  buf->size = mr_buf_bytes(spec, buf, at.n);
  return MR_OK;
}

static mr_err_t batch_step(mr_stage_t *s) {
  batch_t *b = s->state;
  if (b->walk) return mr_batch_walk_step(s, b->walk);
  cursor_t *c = &b->cursor[s->worker];
  mr_buf_t *buf = NULL;
  if (is_over(s, c->next)) return MR_END;
  if (mr_stopping(s)) return MR_END;
  mr_err_t e = mr_fresh(s, 0, &buf);
  if (e != MR_OK) return e;
  e = batch_fill(s, c->next, buf);
  if (e < 0) return mr_buf_unref(buf), e;
  c->next += s->n_workers;
  return mr_push(s, 0, buf);
}

static const mr_hint_t batch_words[] = {
    {"prefetch queue queue2 multiqueue buffer prefetchtodevice prefetchiterdataset",
     "batch workers=2",
     "no stage is needed: every stage that takes batches has its own thread and queues; batch "
     "workers=2 reads with two threads, --depth 8 sets the length of the queues"},
    {"collate batchdataset densetoraggedbatch", "batch 128",
     "stage \"batch\" gathers records into batches of one size"},
    {0}};

static const mr_hint_t batch_setting_words[] = {
    {"pinmemory pinmemorydevice persistentworkers workerinitfn prefetchfactor prefetch "
     "multiprocessingcontext "
     "autotune dataloaderpinmemory dataloaderprefetchfactor dataloaderpersistentworkers "
     "prefetchqueuedepth",
     NULL,
     "nothing has to be set: workers are threads, and batches lie in queues of a fixed length "
     "(--depth)"},
    {"numthreads nthreads njobs jobs", "workers=2", NULL},
    {"deterministic", NULL, "every run is: the same seed gives the same bytes"},
    {"transform transforms collatefn", NULL, "each transform is a stage, joined by \"!\""},
    {0}};

const mr_stage_def_t mr_stage_batch = {
    .name = "batch",
    .role = MR_ROLE_BATCH,
    .hint = batch_words,
    .setting_hint = batch_setting_words,
    .help = "Collects records into batches.",
    .in = {{"in", MR_FLOW_RECORDS, false}},
    .out = {{"out", MR_FLOW_BATCHES, false}},
    .opts = batch_opts,
    .state_sz = sizeof(batch_t),
    .step =
        &(const mr_step_def_t){
            .run = batch_step, .parallel = true, .seek = batch_seek, .holds = batch_holds},
    .plan = batch_plan,
    .forget = batch_forget,
    .open = batch_open,
    .close = batch_close,
};
