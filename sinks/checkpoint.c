/* Checkpoints: each state becomes DIR/step-000351.safetensors, written whole or not at all, and the
   link DIR/latest points to the newest.

   A file gets its name only after the metrics up to its step are on the disk
   (pipeline/run/durable.h): a killed run resumes from its newest checkpoint and does not repeat the
   steps before it. Training does not wait for that, because its parameters are in the file by then.
 */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/xio.h"
#include "pipeline/run/commit.h"
#include "pipeline/run/durable.h"
#include "pipeline/stage_step.h"
#include "pipeline/state.h"
#include "sinks/sinks.h"

/* The wait is bounded: a sink whose disk is full or hangs must not keep checkpoints from being
   written. */
enum { KEEP_MAX = 64, METRICS_MS = 10000 };

typedef struct checkpoint {
  const char *dir;
  int64_t keep;
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
    {0}};

static void checkpoint_path_of(const checkpoint_t *c, int64_t step, char *path, size_t n) {
  snprintf(path, n, "%s/step-%06" PRId64 ".safetensors", c->dir, step);
}

static mr_err_t checkpoint_plan(mr_stage_t *s) {
  checkpoint_t *c = s->state;
  c->last = -1;
  if (!c->dir || !c->dir[0] || strlen(c->dir) > MR_PATH_MAX - 64)
    return mr_stage_fail(s, MR_ERR_CONFIG, "dir: expected the name of a folder");
  return MR_OK;
}

/* Calls fn with the step of each checkpoint in the folder, in any order. */
static void each_checkpoint(checkpoint_t *c, void (*fn)(checkpoint_t *c, int64_t step)) {
  DIR *d = opendir(c->dir);
  char again[MR_PATH_MAX];
  for (struct dirent *e; d && (e = readdir(d));) {
    int64_t step;
    if (sscanf(e->d_name, "step-%" SCNd64, &step) != 1) continue;
    snprintf(again, sizeof again, "step-%06" PRId64 ".safetensors", step);
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

static void remove_file(const checkpoint_t *c, int64_t step) {
  char path[MR_PATH_MAX];
  checkpoint_path_of(c, step, path, sizeof path);
  unlink(path);
}

/* Removes an earlier file beyond `keep`, which a kill or a larger `keep` before has left.  Only a
   run that was resumed does this: the files of another run in the folder are not its own. */
static void remove_surplus(checkpoint_t *c, int64_t step) {
  if (step < c->last && c->n_written == c->keep && step < c->written[0]) remove_file(c, step);
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

/* Replaces the link by a rename: a reader finds the old file or the new one. */
static mr_err_t point_latest(const checkpoint_t *c, int64_t step, mr_diag_t *diag) {
  char name[64], link[MR_PATH_MAX], tmp[MR_PATH_MAX];
  snprintf(name, sizeof name, "step-%06" PRId64 ".safetensors", step);
  snprintf(link, sizeof link, "%s/latest", c->dir);
  snprintf(tmp, sizeof tmp, "%s/.latest-%ld", c->dir, (long)getpid());
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
  if (c->keep == 0) return;
  if (first && resumed) each_checkpoint(c, remove_surplus);
  for (int i = 0; i < c->n_written; i++)
    if (c->written[i] == step) checkpoint_forget(c, i--);
  if (c->n_written == c->keep) remove_file(c, c->written[0]), checkpoint_forget(c, 0);
  c->written[c->n_written++] = step;
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

/* Gives the written file its name, then commits the streams up to its state. */
static mr_err_t checkpoint_publish(mr_stage_t *s, const mr_state_t *st, mr_newfile_t *f) {
  checkpoint_t *c = s->state;
  mr_diag_t diag = {0};
  await_metrics(s, st);
  mr_err_t e = mr_newfile_commit(f, &diag);
  if (e >= 0) e = point_latest(c, st->step, &diag);
  if (e < 0) return mr_stage_relay(s, e, &diag);
  checkpoint_remember(c, st->step, st->resumed);
  for (int i = 0; st->of && i < MR_STATE_STREAMS; i++) mr_commit(s, st->of, i, st->taken[i]);
  return MR_OK;
}

/* Each stage that writes holds it for reading; mr_checkpoints_finish takes it for writing. */
static pthread_rwlock_t writing = PTHREAD_RWLOCK_INITIALIZER;

void mr_checkpoints_finish(void) { pthread_rwlock_wrlock(&writing); }

static mr_err_t checkpoint_write_state(mr_stage_t *s, mr_buf_t *b) {
  char path[MR_PATH_MAX];
  mr_newfile_t f;
  mr_diag_t diag = {0};
  mr_state_t st = *(const mr_state_t *)b->data;
  checkpoint_path_of(s->state, st.step, path, sizeof path);
  mr_err_t e = mr_safetensors_begin(&f, path, st.tensor, st.n_tensors, st.meta, st.n_meta, &diag);
  mr_buf_unref(
      b); /* training may reuse the buffer: tensors, text and names of st are invalid now */
  return e < 0 ? mr_stage_relay(s, e, &diag) : checkpoint_publish(s, &st, &f);
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
  snprintf(text, n, "%s", path);
}

static const mr_hint_t checkpoint_words[] = {
    {"modelcheckpoint saver save", "train.state ! checkpoint", NULL}, {0}};

static const mr_hint_t checkpoint_setting_words[] = {
    {"monitor savebestonly savetopk", NULL, "it keeps the newest states, keep= says how many"},
    {0}};

const mr_stage_def_t mr_stage_checkpoint = {
    .name = "checkpoint",
    .role = MR_ROLE_CHECKPOINT,
    .hint = checkpoint_words,
    .setting_hint = checkpoint_setting_words,
    .help = "Writes training states as safetensors files.",
    .in = {{.name = "state", .flow = MR_FLOW_STATE}},
    .opts = checkpoint_opts,
    .state_sz = sizeof(checkpoint_t),
    .plan = checkpoint_plan,
    .open = checkpoint_checkpoint_open,
    .step = &(const mr_step_def_t){.run = checkpoint_step},
    .report = checkpoint_report,
};
