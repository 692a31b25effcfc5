/* Writes the contents of every batch, one line per record, and the state of the stream for a
   resume.

   A line is "STEP SLOT KEY DRAWS BYTES": the slot in the whole batch, of which this process may
   make a part (host=I/N), and hashes of the draws and of the record's bytes.  A batch without
   records here is the line "STEP - - - -".  Sorted together, the lines of all hosts are the ledger
   of the whole run, whatever hosts, workers and queues produced it.

   The state file holds where the stream resumes after a step: at most a few hundred numbers.  It is
   replaced as a whole, after the lines up to its step have reached their file. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/ledger.h"
#include "base/lines.h"
#include "base/xio.h"
#include "pipeline/run/commit.h"
#include "pipeline/stage_step.h"
#include "sinks/resume.h"

enum { LINE_MAX_BYTES = 128 };

typedef struct ledger {
  const char *path, *state, *resume_hash;
  int64_t every, steps, resume_step;
  int64_t step;  /* done */
  uint64_t hash; /* chained over the steps done here */
  int64_t records;
  int64_t saved;    /* step of the state file */
  int64_t position; /* where the stream resumes after step */
  int64_t *word;    /* [n_words] heap */
  int n_words;
  FILE *out;
  int unwritten; /* errno of the first write, sync or close of out that failed; 0: none */
} ledger_t;

#define AT(field) offsetof(ledger_t, field)

static const mr_opt_t ledger_opts[] = {
    {.name = "path",
     .hint = "file filename location",
     .type = MR_OPT_STR,
     .offset = AT(path),
     .help = "File of the lines; default: none.",
     .positional = 1},
    {.name = "state",
     .type = MR_OPT_STR,
     .offset = AT(state),
     .help = "File of the stream's state, from which `millrace run --from FILE` resumes."},
    {.name = "every",
     .type = MR_OPT_INT,
     .offset = AT(every),
     .unit = "steps",
     .def = "1",
     .lo = 1,
     .hi = 1e12,
     .help = "Steps between writes of the state; it is also written at the end."},
    {.name = "steps",
     .type = MR_OPT_INT,
     .offset = AT(steps),
     .unit = "steps",
     .def = "0",
     .hi = 1e15,
     .help = "Ends after this step of the stream, counted from its beginning; 0: never."},
    {.name = "resume-step",
     .type = MR_OPT_INT,
     .offset = AT(resume_step),
     .unit = "steps",
     .def = "-1",
     .lo = -1,
     .hi = 1e15,
     .help =
         "Keeps the lines of an earlier run up to this step, and appends; -1: starts a new file."},
    {.name = "resume-ledger",
     .type = MR_OPT_STR,
     .offset = AT(resume_hash),
     .unit = "hex",
     .def = "0",
     .help = "Ledger at resume-step, from which the final one continues."},
    {0}};

static mr_err_t ledger_plan(mr_stage_t *s) {
  ledger_t *t = s->state;
  if (t->path && !*t->path) t->path = NULL;
  if (t->state && !*t->state) t->state = NULL;
  s->out_spec[0] = s->in_spec[0];
  return MR_OK;
}

/* ---- resuming ---- */

static int64_t step_of_record(const void *unused, const char *line, size_t n) {
  return *line >= '0' && *line <= '9' ? strtoll(line, NULL, 10) : -1;
}

/* Lines are in the order of steps. */
static mr_err_t cut_back(const ledger_t *t, mr_diag_t *diag) {
  if (t->resume_step < 0 || !mr_resume_is_file(t->path)) return MR_OK;
  FILE *f = mr_open_regular(t->path);
  int64_t kept = f ? mr_lines_above(f, t->resume_step, step_of_record, NULL) : -1;
  int reason = errno;
  if (f) fclose(f);
  if (kept >= 0 && truncate(t->path, (off_t)kept) == 0) return MR_OK;
  return mr_fail(diag, MR_ERR_IO, "%s: cannot be cut: %s", t->path,
                 kept < 0 ? mr_open_reason(reason) : strerror(errno));
}

static mr_err_t ledger_open(mr_stage_t *s) {
  ledger_t *t = s->state;
  mr_diag_t why = {0};
  t->step = t->resume_step > 0 ? t->resume_step : 0;
  t->hash = strtoull(t->resume_hash, NULL, 16), t->records = 0;
  t->saved = t->step;
  t->n_words = t->state ? s->in_spec[0].n_words : 0;
  t->word = calloc((size_t)t->n_words + 1, sizeof *t->word);
  if (!t->word) return mr_stage_no_memory(s, "the state");
  if (t->state) mr_commits(s);
  if (!t->path) return MR_OK;
  if (cut_back(t, &why) < 0) return mr_stage_relay(s, why.code, &why);
  t->out = fopen(t->path, t->resume_step < 0 ? "we" : "ae");
  if (!t->out)
    return mr_stage_fail(s, MR_ERR_IO, "%s: cannot be written: %s", t->path, strerror(errno));
  if (mr_sync_parent(t->path, &why) < 0) return mr_stage_relay(s, why.code, &why);
  return MR_OK;
}

/* ---- writing ---- */

/* Hashes all values of the record in slot i.  A label in field 1 enters as its number, so that
   lines of a picture and its label stay equal to those of versions without other fields. */
static uint64_t ledger_hash_of(const mr_spec_t *spec, const mr_buf_t *b, int i) {
  uint64_t hash = 0;
  for (int f = 0; f < spec->n_fields; f++) {
    const mr_field_t *field = &spec->field[f];
    const mr_buf_field_t *v = &b->field[f];
    const char *at = v->data;
    size_t row = mr_field_row(field), each = mr_field_bytes(field);
    if (v->offset)
      hash ^= XXH3_64bits_withSeed(at + (size_t)v->offset[i] * row,
                                   (size_t)(v->offset[i + 1] - v->offset[i]) * row, (uint64_t)f);
    else if (field->label && f == 1)
      hash ^= ((const uint32_t *)v->data)[i];
    else
      hash ^= XXH3_64bits_withSeed(at + (size_t)i * each, each, (uint64_t)f);
  }
  return hash;
}

static void write_lines(const ledger_t *t, const mr_spec_t *spec, const mr_buf_t *b) {
  if (!b->n) fprintf(t->out, "%" PRId64 " - - - -\n", t->step);
  for (int i = 0; i < b->n; i++)
    fprintf(t->out, "%" PRId64 " %d %" PRIu64 " %016" PRIx64 " %016" PRIx64 "\n", t->step,
            b->first + i, b->key[i], b->draw[i], ledger_hash_of(spec, b, i));
}

/* Words are printed as strings, because a JSON number has 53 bits. */
static void print_state(const void *what, FILE *to) {
  const ledger_t *t = what;
  fprintf(to,
          "{\"version\":2,\"step\":%" PRId64 ",\"position\":%" PRId64 ",\"ledger\":\"%016" PRIx64
          "\",\"words\":[",
          t->step, t->position, t->hash);
  for (int i = 0; i < t->n_words; i++) fprintf(to, "%s\"%" PRId64 "\"", i ? "," : "", t->word[i]);
  fputs("]}", to);
}

static mr_err_t ledger_write_state(mr_stage_t *s) {
  ledger_t *t = s->state;
  mr_diag_t why = {0};
  mr_err_t e = mr_write_printed(t->state, print_state, t, &why);
  if (e < 0) return mr_stage_relay(s, e, &why);
  t->saved = t->step;
  mr_commit(s, s->name, 0, t->step);
  return MR_OK;
}

/* Writes the lines to the file, and to the disk if sync; false with the errno in t->unwritten. */
static bool flush_lines(ledger_t *t, bool sync) {
  int failed = fflush(t->out) || ferror(t->out);
  if (!failed && sync) failed = fdatasync(fileno(t->out)) < 0 && errno != EINVAL; /* a pipe */
  if (failed && !t->unwritten) t->unwritten = errno ? errno : EIO;
  return !t->unwritten;
}

static mr_err_t lines_fail(mr_stage_t *s) {
  const ledger_t *t = s->state;
  return mr_stage_fail(s, MR_ERR_IO, "%s: cannot write: %s", t->path, strerror(t->unwritten));
}

/* Writes the lines so far, then the state that relies on them. */
static mr_err_t ledger_save(mr_stage_t *s) {
  ledger_t *t = s->state;
  if (t->out && !flush_lines(t, t->state != NULL)) return lines_fail(s);
  return t->state && t->saved != t->step ? ledger_write_state(s) : MR_OK;
}

static mr_err_t ledger_take_one(mr_stage_t *s, const mr_buf_t *b) {
  ledger_t *t = s->state;
  t->step++;
  t->records += b->n;
  t->hash = mr_ledger_step(t->hash, t->step, b->key, b->draw, b->n, 0);
  t->position = b->position;
  if (t->n_words) memcpy(t->word, b->word, (size_t)t->n_words * sizeof *t->word);
  if (t->out) write_lines(t, &s->in_spec[0], b);
  if (t->out && ferror(t->out) && !t->unwritten) t->unwritten = errno;
  return t->step % t->every == 0 || t->step == t->steps ? ledger_save(s) : MR_OK;
}

static mr_err_t ledger_step(mr_stage_t *s) {
  const ledger_t *t = s->state;
  mr_buf_t *b = NULL;
  if (t->steps && t->step >= t->steps) return MR_END;
  mr_err_t e = mr_pull(s, 0, &b);
  if (e == MR_END) MR_TRY(ledger_save(s));
  if (e != MR_OK) return e;
  e = ledger_take_one(s, b);
  if (e < 0 || !s->out_linked[0]) return mr_buf_unref(b), e;
  return mr_push(s, 0, b);
}

static void ledger_close(mr_stage_t *s) {
  ledger_t *t = s->state;
  free(t->word);
  t->word = NULL;
  if (!t->out) return;
  flush_lines(t, true);
  if (fclose(t->out) && !t->unwritten) t->unwritten = errno;
  t->out = NULL;
}

static mr_err_t ledger_verdict(mr_stage_t *s) {
  return ((const ledger_t *)s->state)->unwritten ? lines_fail(s) : MR_OK;
}

static void ledger_report(mr_stage_t *s, char *text, size_t n) {
  const ledger_t *t = s->state;
  snprintf(text, n, "up to step %" PRId64 ", %" PRId64 " records, ledger %016" PRIx64, t->step,
           t->records, t->hash);
}

static const mr_hint_t ledger_words[] = {
    {"filesink print dump log logger csvlogger", "ledger",
     "stage \"ledger\" writes what every batch holds, and \"jsonl\" and \"csv\" write metrics"},
    {"enumerate", "ledger",
     "every record has a number already, its key; stage \"ledger\" writes it"},
    {0}};

const mr_stage_def_t mr_stage_ledger = {
    .name = "ledger",
    .role = MR_ROLE_LEDGER,
    .hint = ledger_words,
    .help = "Writes the contents of each batch, and the state of the stream after it.",
    .in = {{"in", MR_FLOW_BATCHES, false}},
    .out = {{"out", MR_FLOW_BATCHES, true}},
    .opts = ledger_opts,
    .state_sz = sizeof(ledger_t),
    .plan = ledger_plan,
    .open = ledger_open,
    .close = ledger_close,
    .step = &(const mr_step_def_t){.run = ledger_step},
    .verdict = ledger_verdict,
    .report = ledger_report,
};
