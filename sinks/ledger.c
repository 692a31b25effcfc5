/* ledger: what every batch held, a line a record, and where the stream stands, for a resume.

   A line is "STEP SLOT KEY DRAWS BYTES": the slot in the whole batch, of which this process may
   make a part (host=I/N), and hashes of the draws and of the record's bytes.  A batch without
   records here is the line "STEP - - - -".  So the lines of all hosts, sorted, are the ledger of
   the whole run whatever hosts, workers and queues made it.

   The state file says where the stream goes on after a step: at most some hundred numbers.  It is
   replaced as a whole, after the lines it counts on have reached their file. */
#include <cjson/cJSON.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/ledger.h"
#include "base/xio.h"
#include "pipeline/stage.h"

enum { LINE_MAX_BYTES = 128 };

typedef struct ledger {
  const char *path, *state, *resume_hash;
  int64_t every, steps, resume_step;
  int64_t step;  /* done */
  uint64_t hash; /* chained over the steps done here */
  int64_t records;
  FILE *out;
} ledger_t;

#define AT(field) offsetof(ledger_t, field)

static const mr_opt_t ledger_opts[] = {
    {"path", MR_OPT_STR, AT(path), "", NULL, 0, 0, NULL,
     "File of the lines; none are written without it.", 1},
    {"state", MR_OPT_STR, AT(state), "", NULL, 0, 0, NULL,
     "File that says where the stream goes on; `millrace run --from FILE` reads it.", 0},
    {"every", MR_OPT_INT, AT(every), "steps", "1", 1, 1e12, NULL,
     "Steps from one writing of the state to the next; the end writes it too.", 0},
    {"steps", MR_OPT_INT, AT(steps), "steps", "0", 0, 1e15, NULL,
     "Ends after this step of the stream, counted from its beginning; 0 never does.", 0},
    {"resume-step", MR_OPT_INT, AT(resume_step), "steps", "-1", -1, 1e15, NULL,
     "Keeps the lines up to this step of an earlier run and goes on after them; -1 starts a new "
     "file.",
     0},
    {"resume-ledger", MR_OPT_STR, AT(resume_hash), "hex", "0", 0, 0, NULL,
     "The ledger at resume-step, which the one told at the end goes on from.", 0},
    {0}};

static mr_err_t ledger_plan(mr_stage_t *s) {
  s->out_spec[0] = s->in_spec[0];
  return MR_OK;
}

/* ---- going on ---- */

/* Bytes of the whole lines of steps up to step; lines are in the order of steps. */
static size_t bytes_up_to(const char *text, size_t n, int64_t step) {
  size_t kept = 0;
  for (size_t at = 0; at < n;) {
    const char *end = memchr(text + at, '\n', n - at);
    if (!end || strtoll(text + at, NULL, 10) > step) break;
    kept = at = (size_t)(end - text) + 1;
  }
  return kept;
}

static mr_err_t cut_back(const ledger_t *t, mr_diag_t *diag) {
  void *text;
  size_t n;
  if (t->resume_step < 0 || access(t->path, F_OK) < 0) return MR_OK;
  MR_TRY(mr_read_file(t->path, (size_t)1 << 34, &text, &n, diag));
  size_t kept = bytes_up_to(text, n, t->resume_step);
  free(text);
  if (kept == n || truncate(t->path, (off_t)kept) == 0) return MR_OK;
  return mr_fail(diag, MR_ERR_IO, "%s: cannot be cut: %s", t->path, strerror(errno));
}

static mr_err_t ledger_open(mr_stage_t *s) {
  ledger_t *t = s->state;
  mr_diag_t why = {0};
  t->step = t->resume_step > 0 ? t->resume_step : 0;
  t->hash = strtoull(t->resume_hash, NULL, 16), t->records = 0;
  if (t->state) mr_commits(s);
  if (!t->path) return MR_OK;
  if (cut_back(t, &why) < 0) return mr_stage_fail(s, why.code, "%s", why.text);
  t->out = fopen(t->path, t->resume_step < 0 ? "we" : "ae");
  if (!t->out)
    return mr_stage_fail(s, MR_ERR_IO, "%s: cannot be written: %s", t->path, strerror(errno));
  return MR_OK;
}

/* ---- writing ---- */

static void write_lines(const ledger_t *t, const mr_spec_t *spec, const mr_buf_t *b) {
  size_t each = mr_spec_bytes(spec) / (size_t)spec->dim[0];
  if (!b->n) fprintf(t->out, "%" PRId64 " - - - -\n", t->step);
  for (int i = 0; i < b->n; i++)
    fprintf(t->out, "%" PRId64 " %d %" PRIu64 " %016" PRIx64 " %016" PRIx64 "\n", t->step,
            b->first + i, b->key[i], b->draw[i],
            (uint64_t)XXH3_64bits((const char *)b->data + (size_t)i * each, each) ^
                (uint64_t)(uint32_t)b->label[i]);
}

static mr_err_t write_state(mr_stage_t *s, const mr_buf_t *b) {
  const ledger_t *t = s->state;
  mr_diag_t why = {0};
  cJSON *o = cJSON_CreateObject(), *words;
  cJSON_AddNumberToObject(o, "version", 2);
  cJSON_AddNumberToObject(o, "step", (double)t->step);
  cJSON_AddNumberToObject(o, "position", (double)b->position);
  char hash[17];
  snprintf(hash, sizeof hash, "%016" PRIx64, t->hash);
  cJSON_AddStringToObject(o, "ledger", hash);
  words = cJSON_AddArrayToObject(o, "words");
  for (int i = 0; i < s->in_spec[0].n_words; i++) {
    char word[24];
    snprintf(word, sizeof word, "%" PRId64, b->word[i]);
    cJSON_AddItemToArray(words, cJSON_CreateString(word)); /* a JSON number has 53 bits */
  }
  char *text = cJSON_PrintUnformatted(o);
  cJSON_Delete(o);
  if (!text) return mr_stage_fail(s, MR_ERR_NOMEM, "no memory for the state");
  mr_err_t e = mr_write_file(t->state, text, strlen(text), &why);
  cJSON_free(text);
  if (e < 0) return mr_stage_fail(s, e, "%s", why.text);
  mr_commit(s, s->name, 0, t->step);
  return MR_OK;
}

static mr_err_t take_one(mr_stage_t *s, const mr_buf_t *b) {
  ledger_t *t = s->state;
  t->step++;
  t->records += b->n;
  t->hash = mr_ledger_step(t->hash, t->step, b->key, b->draw, b->n, 0);
  if (t->out) write_lines(t, &s->in_spec[0], b);
  bool due = t->step % t->every == 0 || t->step == t->steps;
  if (t->out && due && (fflush(t->out) || ferror(t->out)))
    return mr_stage_fail(s, MR_ERR_IO, "%s: cannot be written: %s", t->path, strerror(errno));
  if (t->out && t->state && due && fdatasync(fileno(t->out)) < 0 && errno != EINVAL)
    return mr_stage_fail(s, MR_ERR_IO, "%s: cannot be flushed: %s", t->path, strerror(errno));
  return t->state && due ? write_state(s, b) : MR_OK;
}

static mr_err_t ledger_step(mr_stage_t *s) {
  const ledger_t *t = s->state;
  mr_buf_t *b = NULL;
  if (t->steps && t->step >= t->steps) return MR_END;
  mr_err_t e = mr_pull(s, 0, &b);
  if (e != MR_OK) return e;
  e = take_one(s, b);
  if (e < 0 || !s->out_linked[0]) return mr_buf_unref(b), e;
  return mr_push(s, 0, b);
}

static void ledger_close(mr_stage_t *s) {
  ledger_t *t = s->state;
  if (t->out) fclose(t->out);
  t->out = NULL;
}

static void ledger_report(mr_stage_t *s, char *text, size_t n) {
  const ledger_t *t = s->state;
  snprintf(text, n, "up to step %" PRId64 ", %" PRId64 " records, ledger %016" PRIx64, t->step,
           t->records, t->hash);
}

const mr_stage_def_t mr_stage_ledger = {
    .name = "ledger",
    .help = "Writes what every batch holds, and where the stream goes on after it.",
    .in = {{"in", MR_FLOW_BATCHES, false}},
    .out = {{"out", MR_FLOW_BATCHES, true}},
    .opts = ledger_opts,
    .state_sz = sizeof(ledger_t),
    .plan = ledger_plan,
    .open = ledger_open,
    .close = ledger_close,
    .step = ledger_step,
    .report = ledger_report,
};
