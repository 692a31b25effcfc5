/* Checkpoints: each state becomes DIR/step-000351.safetensors, written whole or not at all, and the
   link DIR/latest points to the newest.

   A file gets its name only after the metrics up to its step are on the disk
   (pipeline/run/durable.h): a killed run resumes from its newest checkpoint and does not repeat the
   steps before it. Training does not wait for that, because its parameters are in the file by then.

   A state of ranks that write slices of their own has their names; they are on the disk already,
   and those that no file names any more are removed.

   With best= the files that a number of their validation calls the best stay too, and DIR/best
   points to the best one.  The number is in each file (metrics/judged.h), so that a resumed run
   compares with those before. */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/pace.h"
#include "base/text.h"
#include "base/xio.h"
#include "metrics/judged.h"
#include "pipeline/run/commit.h"
#include "pipeline/run/durable.h"
#include "pipeline/stage_step.h"
#include "pipeline/state.h"
#include "sinks/sinks.h"

/* The wait is bounded: a sink whose disk is full or hangs must not keep checkpoints from being
   written. */
enum { KEEP_MAX = 64, METRICS_MS = 8000 /* less than makes other ranks call this one late */ };

/* A file that is among the best. */
typedef struct best {
  int64_t step;
  double value;
} best_t;

typedef struct checkpoint {
  const char *dir, *best_by;
  int64_t keep, n_kept_best;
  mr_judged_t by;
  best_t best[KEEP_MAX + 1]; /* the best first */
  int n_best;
  int64_t pointed;           /* step that DIR/best points to; -1: unknown */
  bool by_missing;           /* a state did not have the number, and a notice has said so */
  int64_t written[KEEP_MAX]; /* steps of this run's files that are still there, oldest first */
  int n_written;
  int64_t last; /* step of the newest; -1 before the first */
  bool ahead;   /* the last file was written before its metrics; that has been reported */
} checkpoint_t;

static const mr_opt_t checkpoint_opts[] = {
    {.name = "dir",
     .hint = "path dirpath directory folder savedir outputdir checkpointdir ckptdir savepath",
     .type = MR_OPT_STR,
     .offset = offsetof(checkpoint_t, dir),
     .unit = "",
     .def = "checkpoints",
     .help = "Folder to write to; it is created if it is missing.",
     .positional = 1},
    {.name = "keep",
     .hint = "savetotallimit maxtokeep keepcheckpointmax keeplast",
     .type = MR_OPT_INT,
     .offset = offsetof(checkpoint_t, keep),
     .unit = "files",
     .def = "2",
     .lo = 0,
     .hi = KEEP_MAX,
     .help = "Number of checkpoints to keep; older ones of the run are removed; 0: keeps all."},
    {.name = "best",
     .hint = "savetopk savebestonly keepbest loadbestmodelatend",
     .type = MR_OPT_INT,
     .offset = offsetof(checkpoint_t, n_kept_best),
     .unit = "files",
     .def = "0",
     .hi = KEEP_MAX,
     .help = "Also keeps this many of the best by best-by, and DIR/best points to the best one."},
    {.name = "best-by",
     .hint = "monitor metricforbestmodel bestmetric",
     .type = MR_OPT_STR,
     .offset = offsetof(checkpoint_t, best_by),
     .def = "loss",
     .help = "The metric of held-back records that says which is best, with an input before it if "
             "that is not valid: accuracy, valid.dogs/loss."},
    {0}};

static void checkpoint_path_of(const checkpoint_t *c, int64_t step, char *path, size_t n) {
  snprintf(path, n, "%s/" MR_STATE_STEM ".safetensors", c->dir, step);
}

static mr_err_t checkpoint_plan(mr_stage_t *s) {
  checkpoint_t *c = s->state;
  c->last = c->pointed = -1;
  if (!c->dir || !c->dir[0] || strlen(c->dir) > MR_PATH_MAX - 64)
    return mr_stage_fail(s, MR_ERR_CONFIG, "dir: expected the name of a folder");
  if (c->n_kept_best) MR_TRY(mr_judged_by(s, "best-by", c->best_by, s->in_spec[0].metrics, &c->by));
  return MR_OK;
}

/* Calls fn with the step of each checkpoint in the folder, in any order. */
static void each_checkpoint(checkpoint_t *c, void (*fn)(checkpoint_t *c, int64_t step)) {
  DIR *d = opendir(c->dir);
  char again[MR_PATH_MAX];
  for (struct dirent *e; d && (e = readdir(d));) {
    int64_t step;
    if (sscanf(e->d_name, "step-%" SCNd64, &step) != 1) continue;
    snprintf(again, sizeof again, MR_STATE_STEM ".safetensors", step);
    if (!strcmp(again, e->d_name)) fn(c, step);
  }
  if (d) closedir(d);
}

static void checkpoint_forget(checkpoint_t *c, int at) {
  memmove(c->written + at, c->written + at + 1,
          sizeof c->written[0] * (size_t)(--c->n_written - at));
}

/* Keeps the newest `keep` steps, in order: checkpoints of the same run from before a resume count
   as its own. */
static void note_earlier(checkpoint_t *c, int64_t step) {
  int at = c->n_written;
  while (at > 0 && c->written[at - 1] > step) at--;
  if (c->n_written == c->keep && at == 0) return;
  if (c->n_written == c->keep) checkpoint_forget(c, 0), at--;
  memmove(c->written + at + 1, c->written + at,
          sizeof c->written[0] * (size_t)(c->n_written++ - at));
  c->written[at] = step;
}

/* ---- the best ---- */

static bool is_best(const checkpoint_t *c, int64_t step) {
  for (int i = 0; i < c->n_best; i++)
    if (c->best[i].step == step) return true;
  return false;
}

static void best_forget(checkpoint_t *c, int64_t step) {
  int n = 0;
  for (int i = 0; i < c->n_best; i++)
    if (c->best[i].step != step) c->best[n++] = c->best[i];
  c->n_best = n;
}

/* Whether a file is better than another; of equal ones that of the smaller step is. */
static bool best_before(const checkpoint_t *c, const best_t *a, const best_t *b) {
  if (mr_judged_better(&c->by, a->value, b->value, 0)) return true;
  return a->step < b->step && !mr_judged_better(&c->by, b->value, a->value, 0);
}

/* Enters a file.  Returns the step that is no longer among the
   best, -1: none. */
static int64_t best_enter(checkpoint_t *c, int64_t step, double value) {
  const best_t file = {step, value};
  int at = c->n_best;
  while (at > 0 && best_before(c, &file, &c->best[at - 1])) at--;
  memmove(c->best + at + 1, c->best + at, (size_t)(c->n_best - at) * sizeof *c->best);
  c->best[at] = file;
  return ++c->n_best > c->n_kept_best ? c->best[--c->n_best].step : -1;
}

/* Enters a file of the run from before it was resumed. */
static void best_enter_earlier(checkpoint_t *c, int64_t step) {
  char path[MR_PATH_MAX];
  mr_safetensors_t *f = NULL;
  double value;
  if (step >= c->last) return;
  checkpoint_path_of(c, step, path, sizeof path);
  if (mr_safetensors_open(path, &f, NULL) < 0) return;
  const char *text = mr_safetensors_meta(f, MR_STATE_JUDGED);
  if (text && mr_judged_find(&c->by, text, &value)) best_enter(c, step, value);
  mr_safetensors_close(f);
}

/* ---- files ---- */

static void remove_file(const checkpoint_t *c, int64_t step) {
  char path[MR_PATH_MAX];
  checkpoint_path_of(c, step, path, sizeof path);
  unlink(path);
}

/* Whether index has a line that is name. */
static bool index_names(const char *index, const char *name) {
  size_t n = strlen(name);
  for (const char *at = index; (at = strstr(at, name)); at++)
    if ((at == index || at[-1] == '\n') && (at[n] == '\n' || !at[n])) return true;
  return false;
}

/* Removes the slices of ranks, of the step and those before, that no file names: those of files
   that are gone, and of ranks that were killed before rank 0 wrote its file.  Those of later steps
   are being written.  index: what the file of the step names; NULL: nothing. */
static void remove_stray_slices(const checkpoint_t *c, int64_t step, const char *index) {
  DIR *d = opendir(c->dir);
  for (struct dirent *e; d && (e = readdir(d));) {
    char stem[64], path[MR_PATH_MAX];
    int64_t of;
    if (sscanf(e->d_name, "step-%" SCNd64, &of) != 1 || of > step) continue;
    snprintf(stem, sizeof stem, MR_STATE_STEM, of);
    if (!mr_safetensors_is_slice(e->d_name, stem)) continue;
    checkpoint_path_of(c, of, path, sizeof path);
    bool stays = of == step ? index_names(index ? index : "", e->d_name) : access(path, F_OK) == 0;
    if (!stays) unlinkat(dirfd(d), e->d_name, 0);
  }
  if (d) closedir(d);
}

/* Removes an earlier file beyond `keep`, which a kill or a larger `keep` before has left.  Only a
   run that was resumed does this: the files of another run in the folder are not its own. */
static void remove_surplus(checkpoint_t *c, int64_t step) {
  bool surplus = step < c->last && c->n_written == c->keep && step < c->written[0];
  if (surplus && !is_best(c, step)) remove_file(c, step);
}

/* Checks the folder now, so that an unwritable one fails before the first step and not hours
   later. */
static mr_err_t checkpoint_checkpoint_open(mr_stage_t *s) {
  checkpoint_t *c = s->state;
  mr_diag_t diag = {0};
  mr_err_t e = mr_make_folder(c->dir, &diag);
  if (e >= 0) e = mr_folder_writable(c->dir, &diag);
  if (e >= 0 && c->keep) each_checkpoint(c, note_earlier);
  mr_commits(s);
  return mr_stage_relay(s, e, &diag);
}

/* Points DIR/NAME to the file of a step, by a rename: a reader finds the old file or the new one.
 */
static mr_err_t point_link(const checkpoint_t *c, const char *called, int64_t step,
                           mr_diag_t *diag) {
  char name[64], link[MR_PATH_MAX], tmp[MR_PATH_MAX];
  snprintf(name, sizeof name, MR_STATE_STEM ".safetensors", step);
  snprintf(link, sizeof link, "%s/%s", c->dir, called);
  snprintf(tmp, sizeof tmp, "%s/.%s-%ld", c->dir, called, (long)getpid());
  unlink(tmp);
  if (symlink(name, tmp) < 0 || rename(tmp, link) < 0) {
    mr_err_t e = mr_fail(diag, MR_ERR_IO, "%s: cannot make the link: %s", link, strerror(errno));
    unlink(tmp);
    return e;
  }
  return mr_sync_parent(link, diag);
}

/* Adds a step and removes the oldest file beyond `keep`.  A step that is written again, over an
   earlier run's file, becomes the newest. */
static void checkpoint_remember(checkpoint_t *c, int64_t step, bool resumed) {
  bool first = c->last < 0;
  c->last = step;
  if (first && resumed && c->n_kept_best) each_checkpoint(c, best_enter_earlier);
  if (c->keep == 0) return;
  if (first && resumed) each_checkpoint(c, remove_surplus);
  for (int i = 0; i < c->n_written; i++)
    if (c->written[i] == step) checkpoint_forget(c, i--);
  if (c->n_written == c->keep) {
    if (!is_best(c, c->written[0])) remove_file(c, c->written[0]);
    checkpoint_forget(c, 0);
  }
  c->written[c->n_written++] = step;
}

static bool is_kept(const checkpoint_t *c, int64_t step) {
  bool kept = c->keep == 0;
  for (int i = 0; i < c->n_written; i++) kept |= c->written[i] == step;
  return kept;
}

/* Compares the newest file with the best ones; judged: its validation had the number. */
static mr_err_t remember_best(checkpoint_t *c, bool judged, double value, mr_diag_t *diag) {
  best_forget(c, c->last);
  int64_t left = judged ? best_enter(c, c->last, value) : -1;
  mr_err_t e = MR_OK;
  if (c->n_best && c->best[0].step != c->pointed) e = point_link(c, "best", c->best[0].step, diag);
  if (c->n_best && e >= 0) c->pointed = c->best[0].step;
  if (e >= 0 && left >= 0 && !is_kept(c, left)) remove_file(c, left);
  return e;
}

/* Waits for the metrics up to this state; if they are missing, reports it once. */
static void await_metrics(mr_stage_t *s, const mr_state_t *st) {
  checkpoint_t *c = s->state;
  const char *behind = mr_durable_wait(s, st->of, st->mark, METRICS_MS);
  if (behind && !c->ahead)
    mr_notice("%s: the metrics of %s up to step %" PRId64
              " are not on the disk; the checkpoint of this step is written nevertheless, and a "
              "run resumed from it may lack them",
              s->name, behind, st->step);
  c->ahead = behind != NULL;
}

/* Whether the slices that the file will name lie beside it, where its readers look. */
static mr_err_t check_slices_beside(const checkpoint_t *c, int64_t step, const char *index,
                                    mr_diag_t *diag) {
  char path[MR_PATH_MAX + MR_SAFETENSORS_SLICE_NAME];
  for (const char *at = index; *at; at += strcspn(at, "\n"), at += *at == '\n') {
    snprintf(path, sizeof path, "%s/%.*s", c->dir, (int)strcspn(at, "\n"), at);
    if (access(path, F_OK) < 0)
      return mr_fail(diag, MR_ERR_CONFIG,
                     "setting dir: the checkpoint of step %" PRId64
                     " is of several ranks, and %s is not there: want dir = the training step's "
                     "checkpoint-dir, where the ranks write, or its checkpoint-files=one",
                     step, path);
  }
  return MR_OK;
}

/* Gives the written file its name, then commits the streams up to its state. */
static mr_err_t checkpoint_publish(mr_stage_t *s, const mr_state_t *st, bool judged, double value,
                                   const char *index, mr_newfile_t *f) {
  checkpoint_t *c = s->state;
  mr_diag_t diag = {0};
  mr_pace_beat(MR_PACE_TENSORS, 0, 0);
  await_metrics(s, st);
  mr_pace_beat(MR_PACE_TENSORS, 0, 0);
  mr_err_t e = index ? check_slices_beside(c, st->step, index, &diag) : MR_OK;
  if (e < 0)
    mr_newfile_drop(f);
  else
    e = mr_newfile_commit(f, &diag);
  if (e >= 0) e = point_link(c, "latest", st->step, &diag);
  if (e < 0) return mr_stage_relay(s, e, &diag);
  checkpoint_remember(c, st->step, st->resumed);
  e = c->n_kept_best ? remember_best(c, judged, value, &diag) : MR_OK;
  if (e < 0) return mr_stage_relay(s, e, &diag);
  remove_stray_slices(c, st->step, index);
  for (int i = 0; st->of && i < MR_STATE_STREAMS; i++) mr_commit(s, st->of, i, st->taken[i]);
  return MR_OK;
}

/* Each stage that writes holds it for reading; mr_checkpoints_finish takes it for writing. */
static pthread_rwlock_t writing = PTHREAD_RWLOCK_INITIALIZER;

void mr_checkpoints_finish(void) { pthread_rwlock_wrlock(&writing); }

/* Finds the number by which a state is compared; once says that a validation did not have it. */
static bool find_value(mr_stage_t *s, const mr_state_t *st, double *value) {
  checkpoint_t *c = s->state;
  const char *text = NULL;
  for (int i = 0; i < st->n_meta; i++)
    if (!strcmp(st->meta[i].name, MR_STATE_JUDGED)) text = st->meta[i].value;
  if (!c->n_kept_best || !text) return false;
  if (mr_judged_find(&c->by, text, value)) return true;
  if (!c->by_missing)
    mr_notice("%s: best-by=%s: the validation of step %" PRId64
              " has no such finite number, and its checkpoint is none of the best; it has %s",
              s->name, c->by.name, st->step, text);
  c->by_missing = true;
  return false;
}

/* Copies the names of a state's slices; heap, NULL: it has none. */
static mr_err_t copy_index(const mr_state_t *st, char **index, mr_diag_t *diag) {
  for (int i = 0; i < st->n_meta; i++)
    if (!strcmp(st->meta[i].name, MR_SAFETENSORS_SLICES))
      if (!(*index = strdup(st->meta[i].value))) return mr_no_memory(diag, "the names of slices");
  return MR_OK;
}

static mr_err_t checkpoint_write_state(mr_stage_t *s, mr_buf_t *b) {
  char path[MR_PATH_MAX];
  mr_newfile_t f;
  mr_diag_t diag = {0};
  mr_state_t st = *(const mr_state_t *)b->data;
  double value = 0;
  bool judged = find_value(s, &st, &value);
  checkpoint_path_of(s->state, st.step, path, sizeof path);
  char *index = NULL;
  mr_err_t e = copy_index(&st, &index, &diag);
  if (e >= 0)
    e = mr_safetensors_begin(&f, path, st.tensor, st.n_tensors, st.meta, st.n_meta, &diag);
  mr_buf_unref(
      b); /* training may reuse the buffer: tensors, text and names of st are invalid now */
  e = e < 0 ? mr_stage_relay(s, e, &diag) : checkpoint_publish(s, &st, judged, value, index, &f);
  free(index);
  return e;
}

static mr_err_t checkpoint_step(mr_stage_t *s) {
  mr_buf_t *b;
  if (mr_take(s, 0, &b, 1) == 0) return mr_idle(s);
  pthread_rwlock_rdlock(&writing);
  mr_err_t e = checkpoint_write_state(s, b);
  pthread_rwlock_unlock(&writing);
  return e;
}

static void checkpoint_report(mr_stage_t *s, char *text, size_t n) {
  const checkpoint_t *c = s->state;
  char path[MR_PATH_MAX];
  if (c->last < 0) return;
  checkpoint_path_of(c, c->last, path, sizeof path);
  size_t at = (size_t)snprintf(text, n, "%s", path);
  if (!c->n_best || at >= n) return;
  checkpoint_path_of(c, c->best[0].step, path, sizeof path);
  mr_snprintf(text + at, n - at, ", best %s (%s %.6g)", path, c->by.name, c->best[0].value);
}

static const mr_hint_t checkpoint_words[] = {
    {"modelcheckpoint saver save", "train.state ! checkpoint", NULL}, {0}};

const mr_stage_def_t mr_stage_checkpoint = {
    .name = "checkpoint",
    .role = MR_ROLE_CHECKPOINT,
    .hint = checkpoint_words,
    .help = "Writes training states as safetensors files.",
    .in = {{.name = "state", .flow = MR_FLOW_STATE}},
    .opts = checkpoint_opts,
    .state_sz = sizeof(checkpoint_t),
    .plan = checkpoint_plan,
    .open = checkpoint_checkpoint_open,
    .step = &(const mr_step_def_t){.run = checkpoint_step},
    .report = checkpoint_report,
};
