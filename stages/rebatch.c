/* rebatch: makes batches of another size: grain's RebatchIterDataset.

   An output batch may end within an input batch; its state is then the state before that input
   batch, how many of its records are used, and its number.

   Hosts that share a run each make whole batches here and give their slice: regrouping slices would
   give other batches under another number of hosts. */
#include <stdlib.h>
#include <string.h>

#include "pipeline/records/batch_layout.h"
#include "pipeline/stage_step.h"

enum { USED, NUMBER, OWN_WORDS };

typedef struct rebatch {
  int64_t size;
  bool drop;
  const char *host_text;
  mr_host_t host;
  mr_pool_t *pool;                       /* for the whole batch that a slice is taken from */
  mr_buf_t *in;                          /* partly used, or NULL */
  int used;                              /* records used of it */
  int64_t before_position, *before_word; /* the state before it */
  int64_t number;                        /* number of `in`, or of the next one */
  bool given;                            /* a batch has been given */
  int64_t skip; /* records of the first batch that a resumed stream skips */
} rebatch_t;

static const mr_opt_t rebatch_opts[] = {
    {.name = "size",
     .type = MR_OPT_INT,
     .offset = offsetof(rebatch_t, size),
     .unit = "records",
     .lo = 1,
     .hi = 65536,
     .help = "Number of records in an output batch.",
     .positional = 1},
    {.name = "drop-remainder",
     .type = MR_OPT_BOOL,
     .offset = offsetof(rebatch_t, drop),
     .def = "false",
     .help = "Drops the last batch of the stream if it is not full."},
    {.name = "host",
     .type = MR_OPT_STR,
     .offset = offsetof(rebatch_t, host_text),
     .unit = "I/N",
     .help = "Produces only slice I of N, from 0, of each batch, for N processes that share it."},
    {0}};

static mr_err_t rebatch_plan(mr_stage_t *s) {
  rebatch_t *t = s->state;
  mr_spec_t *out = &s->out_spec[0];
  MR_TRY(mr_host_parse(s, t->host_text, t->size, &t->host));
  if (s->in_spec[0].part)
    return mr_stage_fail(
        s, MR_ERR_CONFIG,
        "setting size = %lld: the input is one host's slices, whose records are not those of the "
        "whole stream in order; set host= of this stage instead of the one before",
        (long long)t->size);
  *out = s->in_spec[0];
  out->batch = (t->size + t->host.n - 1) / t->host.n;
  out->n_batches = 0, out->ahead = 0; /* known at the end */
  out->part = t->host.n > 1, out->even = !out->part, out->by_record = false;
  out->n_words = OWN_WORDS + s->in_spec[0].n_words;
  if (out->n_words <= MR_STREAM_WORDS_MAX) return MR_OK;
  return mr_stage_fail(s, MR_ERR_CONFIG, "the state of this stream has %d numbers, want at most %d",
                       out->n_words, MR_STREAM_WORDS_MAX);
}

static mr_err_t rebatch_open(mr_stage_t *s) {
  rebatch_t *t = s->state;
  size_t n = (size_t)s->in_spec[0].n_words;
  t->before_word = calloc(n + 1, sizeof *t->before_word);
  mr_spec_t whole = s->out_spec[0];
  whole.batch = t->size;
  if (t->host.n > 1) t->pool = mr_pool_create(&whole, 1);
  if (!t->before_word || (t->host.n > 1 && !t->pool)) return mr_stage_no_memory(s, "a batch");
  t->before_position = s->start_position;
  if (s->n_start_words) {
    bool fits = s->n_start_words == OWN_WORDS + (int)n || s->n_start_words == OWN_WORDS; /* seek */
    if (fits) t->skip = s->start_word[USED], t->number = s->start_word[NUMBER];
    if (!fits || t->skip < 0 || t->skip > s->in_spec[0].batch || t->number < 0 ||
        t->number > INT64_C(1) << 62)
      return mr_stage_fail(s, MR_ERR_CONFIG, "cannot resume from the state of another graph");
    n = (size_t)s->n_start_words - OWN_WORDS;
    memcpy(t->before_word, s->start_word + OWN_WORDS, n * sizeof *t->before_word);
  }
  return MR_OK;
}

static void rebatch_close(mr_stage_t *s) {
  rebatch_t *t = s->state;
  mr_buf_unref(t->in);
  mr_pool_destroy(t->pool);
  free(t->before_word);
  t->in = NULL, t->before_word = NULL, t->pool = NULL;
}

/* The next batch starts after the used-up input batch. */
static void release_input(mr_stage_t *s, mr_buf_t *out) {
  rebatch_t *t = s->state;
  t->before_position = t->in->position, t->number++;
  if (t->in->word)
    memcpy(t->before_word, t->in->word, (size_t)s->in_spec[0].n_words * sizeof *t->before_word);
  out->flags = t->in->flags;
  mr_buf_unref(t->in);
  t->in = NULL, t->used = 0;
}

static mr_err_t rebatch_fill(mr_stage_t *s, mr_buf_t *out) {
  rebatch_t *t = s->state;
  while (out->n < t->size) {
    if (!t->in) {
      mr_err_t e = mr_pull(s, 0, &t->in);
      if (e != MR_OK) return e;
      t->used = (int)(t->skip < t->in->n ? t->skip : t->in->n), t->skip = 0;
    }
    int64_t left = t->in->n - t->used, room = t->size - out->n;
    int n = (int)(left < room ? left : room);
    mr_buf_append(&s->in_spec[0], t->in, t->used, n, out);
    t->used += n;
    out->epoch = t->in->epoch, out->flags = 0;
    if (t->used == t->in->n) release_input(s, out);
  }
  return MR_OK;
}

/* MR_OK also for the stream's last records.  Records before a stop are kept for the resumed run;
   its batches would otherwise begin elsewhere. */
static mr_err_t rebatch_gather(mr_stage_t *s, mr_buf_t *out) {
  const rebatch_t *t = s->state;
  mr_err_t e = rebatch_fill(s, out);
  return e == MR_END && out->n && !t->drop && !mr_stopping(s) ? MR_OK : e;
}

/* Makes the host's slice of the next whole batch. */
static mr_err_t gather_slice(mr_stage_t *s, mr_buf_t *out) {
  rebatch_t *t = s->state;
  mr_buf_t *whole = mr_pool_get(t->pool);
  mr_err_t e = rebatch_gather(s, whole);
  int from = 0, n = whole->n;
  mr_host_slice(&t->host, &from, &n);
  if (e == MR_OK) mr_buf_append(&s->in_spec[0], whole, from, n, out);
  out->first = from, out->epoch = whole->epoch, out->flags = whole->flags;
  mr_buf_unref(whole);
  return e;
}

/* Reports that a stream, read from its start, has ended without a whole batch. */
static void rebatch_say_nothing(mr_stage_t *s, int n) {
  const rebatch_t *t = s->state;
  if (t->given || !n || mr_stopping(s) || s->start_position || s->start_number) return;
  mr_gave_nothing(s, "%d records are fewer than a batch of %lld, and drop-remainder is set", n,
                  (long long)t->size);
}

static mr_err_t rebatch_step(mr_stage_t *s) {
  rebatch_t *t = s->state;
  mr_buf_t *out;
  mr_err_t e = mr_fresh(s, 0, &out);
  if (e != MR_OK) return e;
  e = t->pool ? gather_slice(s, out) : rebatch_gather(s, out);
  if (e == MR_END) rebatch_say_nothing(s, out->n);
  if (e != MR_OK) return mr_buf_unref(out), e;
  t->given = true;
  out->position = t->before_position;
  out->word[USED] = t->in ? t->used : 0, out->word[NUMBER] = t->number;
  memcpy(out->word + OWN_WORDS, t->before_word, (size_t)s->in_spec[0].n_words * sizeof *out->word);
  return mr_push(s, 0, out);
}

/* Finds record number * size: if batches have known sizes, the batch that holds it. */
static int64_t rebatch_seek(const mr_stage_t *s, int64_t number, int64_t *own, int64_t *record_in) {
  const rebatch_t *t = s->state;
  const mr_spec_t *in = &s->in_spec[0];
  int64_t record, each = in->batch, epoch = 0, batches = 0;
  if (__builtin_mul_overflow(number, t->size, &record)) return -1;
  if (in->by_record) {
    own[USED] = own[NUMBER] = 0;
    *record_in = record;
    return 0;
  }
  if (!in->even) return -1;
  if (in->ahead) return -1;
  if (in->n_batches) { /* an epoch's last batch may be short or dropped */
    int64_t full = in->n_batches * each;
    int64_t records = full < in->n_records ? full : in->n_records;
    epoch = record / records, record %= records;
    if (__builtin_mul_overflow(epoch, in->n_batches, &batches)) return -1;
  }
  own[USED] = record % each;
  return own[NUMBER] = batches + record / each;
}

static const mr_hint_t rebatch_words[] = {
    {"unbatch", "rebatch 128",
     "stage \"rebatch\" takes batches apart and makes others of their records"},
    {0}};

const mr_stage_def_t mr_stage_rebatch = {
    .name = "rebatch",
    .hint = rebatch_words,
    .help = "Changes the size of batches (grain's RebatchIterDataset).",
    .in = {{"in", MR_FLOW_BATCHES, false}},
    .out = {{"out", MR_FLOW_BATCHES, false}},
    .opts = rebatch_opts,
    .state_sz = sizeof(rebatch_t),
    .plan = rebatch_plan,
    .open = rebatch_open,
    .close = rebatch_close,
    .step = &(const mr_step_def_t){.run = rebatch_step, .seek = rebatch_seek, .n_words = OWN_WORDS},
};
