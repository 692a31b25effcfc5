/* Batches of another size from batches: grain's RebatchIterDataset.

   A batch that comes out may end in the middle of one that came in; its state is then that before
   the latter, how many of its records are used, and its number. */
#include <stdlib.h>
#include <string.h>

#include "pipeline/stage.h"

enum { USED, NUMBER, OWN_WORDS };

typedef struct rebatch {
  int64_t size;
  bool drop;
  mr_buf_t *in;                          /* partly used, or NULL */
  int used;                              /* records of it */
  int64_t before_position, *before_word; /* the state before it */
  int64_t number;                        /* of it, or of the next one */
  int64_t skip; /* records of the first batch that a resumed stream leaves out */
} rebatch_t;

static const mr_opt_t rebatch_opts[] = {
    {"size", MR_OPT_INT, offsetof(rebatch_t, size), "records", NULL, 1, 65536, NULL,
     "How many records a batch holds that comes out.", 1},
    {"drop-remainder", MR_OPT_BOOL, offsetof(rebatch_t, drop), "", "false", 0, 0, NULL,
     "Leaves out the stream's last batch if it is not full.", 0},
    {0}};

static mr_err_t rebatch_plan(mr_stage_t *s) {
  const rebatch_t *t = s->state;
  mr_spec_t *out = &s->out_spec[0];
  *out = s->in_spec[0];
  out->dim[0] = t->size;
  out->n_batches = 0; /* known at the end */
  out->n_words = OWN_WORDS + s->in_spec[0].n_words;
  if (out->n_words <= MR_STREAM_WORDS_MAX) return MR_OK;
  return mr_stage_fail(s, MR_ERR_CONFIG, "the state of this stream has %d numbers, want at most %d",
                       out->n_words, MR_STREAM_WORDS_MAX);
}

static mr_err_t rebatch_open(mr_stage_t *s) {
  rebatch_t *t = s->state;
  size_t n = (size_t)s->in_spec[0].n_words;
  t->before_word = calloc(n + 1, sizeof *t->before_word);
  if (!t->before_word) return mr_stage_fail(s, MR_ERR_NOMEM, "out of memory");
  t->before_position = s->start_position;
  if (s->n_start_words) {
    bool fits = s->n_start_words == OWN_WORDS + (int)n;
    if (fits) t->skip = s->start_word[USED], t->number = s->start_word[NUMBER];
    if (!fits || t->skip < 0 || t->number < 0)
      return mr_stage_fail(s, MR_ERR_CONFIG, "goes on from a state of another graph");
    memcpy(t->before_word, s->start_word + OWN_WORDS, n * sizeof *t->before_word);
  }
  return MR_OK;
}

static void rebatch_close(mr_stage_t *s) {
  rebatch_t *t = s->state;
  mr_buf_unref(t->in);
  free(t->before_word);
  t->in = NULL, t->before_word = NULL;
}

static void copy_records(const mr_spec_t *in, const mr_buf_t *from, int at, mr_buf_t *to, int n) {
  size_t bytes = mr_spec_bytes(in) / (size_t)in->dim[0];
  memcpy((char *)to->data + (size_t)to->n * bytes, (char *)from->data + (size_t)at * bytes,
         (size_t)n * bytes);
  memcpy(to->label + to->n, from->label + at, (size_t)n * sizeof *to->label);
  memcpy(to->key + to->n, from->key + at, (size_t)n * sizeof *to->key);
  memcpy(to->draw + to->n, from->draw + at, (size_t)n * sizeof *to->draw);
  to->n += n;
  to->size += (size_t)n * bytes;
}

/* The used-up batch is what the next one stands after. */
static void release(mr_stage_t *s, mr_buf_t *out) {
  rebatch_t *t = s->state;
  t->before_position = t->in->position, t->number++;
  if (t->in->word)
    memcpy(t->before_word, t->in->word, (size_t)s->in_spec[0].n_words * sizeof *t->before_word);
  out->flags = t->in->flags;
  mr_buf_unref(t->in);
  t->in = NULL, t->used = 0;
}

static mr_err_t fill(mr_stage_t *s, mr_buf_t *out) {
  rebatch_t *t = s->state;
  while (out->n < t->size) {
    if (!t->in) {
      mr_err_t e = mr_pull(s, 0, &t->in);
      if (e != MR_OK) return e;
      t->used = (int)(t->skip < t->in->n ? t->skip : t->in->n), t->skip = 0;
    }
    int64_t left = t->in->n - t->used, room = t->size - out->n;
    int n = (int)(left < room ? left : room);
    copy_records(&s->in_spec[0], t->in, t->used, out, n);
    t->used += n;
    out->epoch = t->in->epoch, out->flags = 0;
    if (t->used == t->in->n) release(s, out);
  }
  return MR_OK;
}

static mr_err_t rebatch_step(mr_stage_t *s) {
  rebatch_t *t = s->state;
  mr_buf_t *out;
  mr_err_t e = mr_fresh(s, 0, &out);
  if (e != MR_OK) return e;
  e = fill(s, out);
  if (e < 0 || (e == MR_END && (t->drop || !out->n))) return mr_buf_unref(out), e;
  out->position = t->before_position;
  out->word[USED] = t->in ? t->used : 0, out->word[NUMBER] = t->number;
  memcpy(out->word + OWN_WORDS, t->before_word, (size_t)s->in_spec[0].n_words * sizeof *out->word);
  return mr_push(s, 0, out);
}

const mr_stage_def_t mr_stage_rebatch = {
    .name = "rebatch",
    .help = "Makes batches of another size from batches (grain's RebatchIterDataset).",
    .in = {{"in", MR_FLOW_BATCHES, false}},
    .out = {{"out", MR_FLOW_BATCHES, false}},
    .opts = rebatch_opts,
    .state_sz = sizeof(rebatch_t),
    .plan = rebatch_plan,
    .open = rebatch_open,
    .close = rebatch_close,
    .step = rebatch_step,
    .n_words = OWN_WORDS,
};
