/* What is on the disk when a checkpoint gets its name.  The calls that write and sync are watched:
   at each rename the bytes of the metrics that were synced must hold every step up to it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/safetensors.h"
#include "pipeline/state.h"
#include "tests/sinks/states.h"
#include "tests/sinks/talk.h"

enum { STEPS = 3, PATH_SIZE = 512 };

/* How writes to the metrics go. */
typedef enum how {
  PROMPT,
  LATE,   /* those of a step wait until the checkpoint of this step has been written and synced */
  FULL,   /* there is no space */
  STUCK,  /* they wait until the checkpoint has its name */
  NO_SYNC /* fdatasync fails */
} how_t;

static struct {
  pthread_mutex_t lock;
  pthread_cond_t news;
  how_t how;
  int parts;               /* checkpoints that are synced under their temporary names */
  int renamed;             /* and those that have their names */
  off_t synced[3];         /* bytes of the metrics files that are on the disk */
  char file[3][PATH_SIZE]; /* their names as they are met */
  int n_made;              /* folders made, and how many of their parents were synced since */
  char made[16][PATH_SIZE];
  bool parent_synced[16];
  bool bad; /* a checkpoint was named before its metrics were on the disk */
} seen = {.lock = PTHREAD_MUTEX_INITIALIZER, .news = PTHREAD_COND_INITIALIZER};

static void path_of_fd(int fd, char *path) {
  char link[64];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t n = readlink(link, path, PATH_SIZE - 1);
  path[n > 0 ? n : 0] = 0;
}

/* Which of the metrics files this is, -1: none. */
static int metrics_file(const char *path) {
  static const char *const has[] = {"m.jsonl", "m.csv", "tfevents"};
  for (int i = 0; i < 3 && !strncmp(path, dir, strlen(dir)); i++)
    if (strstr(path, has[i]) && !strstr(path, ".part")) return i;
  return -1;
}

static void wait_for(const int *count, int64_t n) {
  while (*count < n) pthread_cond_wait(&seen.news, &seen.lock);
}

ssize_t __real_write(int fd, const void *data, size_t n);
ssize_t __wrap_write(int fd, const void *data, size_t n);
ssize_t __wrap_write(int fd, const void *data, size_t n) {
  char path[PATH_SIZE];
  int64_t step;
  path_of_fd(fd, path);
  bool jsonl = metrics_file(path) == 0;
  if (jsonl && seen.how == FULL) return errno = ENOSPC, -1;
  if (jsonl && sscanf(data, "{\"kind\":\"step\",\"step\":%" SCNd64, &step) == 1) {
    pthread_mutex_lock(&seen.lock);
    if (seen.how == LATE) wait_for(&seen.parts, step);
    if (seen.how == STUCK) wait_for(&seen.renamed, 1);
    pthread_mutex_unlock(&seen.lock);
  }
  return __real_write(fd, data, n);
}

int __real_fdatasync(int fd);
int __wrap_fdatasync(int fd);
int __wrap_fdatasync(int fd) {
  char path[PATH_SIZE];
  struct stat st;
  path_of_fd(fd, path);
  int i = metrics_file(path);
  if (i >= 0 && seen.how == NO_SYNC) return errno = EIO, -1;
  if (fstat(fd, &st) < 0 || __real_fdatasync(fd) < 0) return -1;
  pthread_mutex_lock(&seen.lock);
  if (i >= 0) seen.synced[i] = st.st_size, strcpy(seen.file[i], path);
  pthread_mutex_unlock(&seen.lock);
  return 0;
}

int __real_fsync(int fd);
int __wrap_fsync(int fd);
int __wrap_fsync(int fd) {
  char path[PATH_SIZE];
  path_of_fd(fd, path);
  int e = __real_fsync(fd);
  pthread_mutex_lock(&seen.lock);
  seen.parts += strstr(path, ".safetensors.part") != NULL;
  for (int i = 0; i < seen.n_made; i++) {
    size_t n = strlen(path);
    seen.parent_synced[i] |= !strncmp(seen.made[i], path, n) && seen.made[i][n] == '/' &&
                             !strchr(seen.made[i] + n + 1, '/');
  }
  pthread_cond_broadcast(&seen.news);
  pthread_mutex_unlock(&seen.lock);
  return e;
}

int __real_mkdir(const char *path, mode_t mode);
int __wrap_mkdir(const char *path, mode_t mode);
int __wrap_mkdir(const char *path, mode_t mode) {
  int e = __real_mkdir(path, mode), reason = errno;
  pthread_mutex_lock(&seen.lock);
  if (e == 0 && seen.n_made < 16) strcpy(seen.made[seen.n_made++], path);
  pthread_mutex_unlock(&seen.lock);
  errno = reason;
  return e;
}

/* Whether the synced bytes of a table or of JSON lines hold a record of every step up to this. */
static bool holds_steps(int file, int64_t step) {
  char *text = calloc(1, (size_t)seen.synced[file] + 1), word[64];
  FILE *f = fopen(seen.file[file], "r");
  bool all = text && f && fread(text, 1, (size_t)seen.synced[file], f) == (size_t)seen.synced[file];
  for (int64_t k = 1; all && k <= step; k++) {
    snprintf(word, sizeof word, file ? "\nstep,%" PRId64 "," : "\"step\",\"step\":%" PRId64 ",", k);
    all = strstr(text, word) != NULL;
  }
  if (f) fclose(f);
  free(text);
  return all;
}

int __real_rename(const char *from, const char *to);
int __wrap_rename(const char *from, const char *to);
int __wrap_rename(const char *from, const char *to) {
  int64_t step;
  const char *name = strrchr(to, '/');
  pthread_mutex_lock(&seen.lock);
  bool checkpoint = name && sscanf(name, "/step-%" SCNd64 ".safetensors", &step) == 1;
  if (checkpoint && (!holds_steps(0, step) || !holds_steps(1, step) || !seen.synced[2]))
    seen.bad = true;
  seen.renamed += checkpoint;
  pthread_cond_broadcast(&seen.news);
  pthread_mutex_unlock(&seen.lock);
  return __real_rename(from, to);
}

/* ---- a stage that trains: for each step a record, a mark and a state ---- */

typedef struct trainer {
  int64_t step;
} trainer_t;

static float weight[4];
static mr_st_tensor_t tensor = {
    .name = "w", .dtype = MR_F32, .ndim = 1, .dim = {4}, .data = weight};

static mr_err_t trainer_plan(mr_stage_t *s) {
  s->out_spec[0] = mr_report_spec(NULL, NULL);
  s->out_spec[1] = mr_spec_of_bytes(MR_FLOW_STATE, sizeof(mr_state_t));
  return MR_OK;
}

static mr_err_t tell(mr_stage_t *s, mr_report_kind_t kind, int64_t step) {
  mr_buf_t *b;
  mr_err_t e = mr_fresh(s, 0, &b);
  if (e != MR_OK) return e;
  mr_report_t *r = b->data;
  mr_report_begin(r, kind);
  r->step = step, r->dataset = &synthetic;
  if (kind == MR_REPORT_MARK)
    r->mark = step;
  else
    mr_report_add(r, MR_METRIC_OWN(LOSS), 1);
  b->size = sizeof *r;
  return mr_push(s, 0, b);
}

static mr_err_t trainer_step(mr_stage_t *s) {
  trainer_t *t = s->state;
  mr_buf_t *b;
  if (t->step == STEPS) return MR_END;
  t->step++;
  MR_TRY(tell(s, MR_REPORT_STEP, t->step));
  MR_TRY(tell(s, MR_REPORT_MARK, t->step));
  mr_err_t e = mr_fresh(s, 1, &b);
  if (e != MR_OK) return e;
  *(mr_state_t *)b->data = (mr_state_t){
      .step = t->step, .n_tensors = 1, .tensor = &tensor, .of = s->name, .mark = t->step};
  return mr_push(s, 1, b);
}

static const mr_stage_def_t trainer_def = {
    .name = "trainer",
    .help = "Gives metrics and states.",
    .out = {{.name = "metrics", .flow = MR_FLOW_METRICS}, {.name = "state", .flow = MR_FLOW_STATE}},
    .state_sz = sizeof(trainer_t),
    .plan = trainer_plan,
    .step = &(const mr_step_def_t){.run = trainer_step},
};

static const mr_stage_def_t *const own[] = {&trainer_def, NULL};

static int setup(void **state) {
  pthread_mutex_lock(&seen.lock);
  seen.how = PROMPT, seen.parts = seen.renamed = seen.n_made = 0, seen.bad = false;
  memset(seen.synced, 0, sizeof seen.synced);
  memset(seen.parent_synced, 0, sizeof seen.parent_synced);
  pthread_mutex_unlock(&seen.lock);
  return talk_setup(own);
}
static int teardown(void **state) { return talk_teardown(); }

/* Through telemetry, which holds a record that is in no queue. */
static mr_err_t train(how_t how, mr_diag_t *diag) {
  char text[512];
  snprintf(text, sizeof text,
           "trainer  trainer.metrics ! telemetry every=0 name=t  t. ! jsonl path=%s/m/m.jsonl  "
           "t. ! csv path=%s/m/m.csv  t. ! tensorboard dir=%s/deep/er/tb  "
           "trainer.state ! checkpoint dir=%s/c keep=0",
           dir, dir, dir, dir);
  seen.how = how;
  talk_depth = 16;
  return run(text, diag);
}

static void metrics_come_before_checkpoints(how_t how) {
  mr_diag_t diag;
  if (train(how, &diag) < 0) fail_msg("%s", diag.text);
  assert_int_equal(seen.renamed, STEPS);
  assert_false(seen.bad);
}

static void metrics_are_on_the_disk_before_a_checkpoint_gets_its_name(void **state) {
  metrics_come_before_checkpoints(PROMPT);
}

static void a_checkpoint_waits_for_metrics_that_are_late(void **state) {
  metrics_come_before_checkpoints(LATE);
}

static void folders_that_are_made_are_synced_into_theirs(void **state) {
  mr_diag_t diag;
  if (train(PROMPT, &diag) < 0) fail_msg("%s", diag.text);
  assert_int_equal(seen.n_made, 5); /* m, deep, deep/er, deep/er/tb, c */
  for (int i = 0; i < seen.n_made; i++)
    if (!seen.parent_synced[i]) fail_msg("%s was made, and its folder not synced", seen.made[i]);
}

static void a_full_disk_of_metrics_holds_no_checkpoint_up(void **state) {
  mr_diag_t diag;
  assert_int_equal(train(FULL, &diag), MR_ERR_IO); /* at its end */
  assert_non_null(strstr(diag.text, "m.jsonl: 3 records could not be written"));
  assert_int_equal(seen.renamed, STEPS);
}

static void metrics_that_cannot_be_synced_fail_the_run_at_its_end(void **state) {
  mr_diag_t diag;
  assert_int_equal(train(NO_SYNC, &diag), MR_ERR_IO);
  assert_non_null(strstr(diag.text, "cannot sync: Input/output error"));
  assert_int_equal(seen.renamed, STEPS);
}

static void a_disk_that_hangs_holds_a_checkpoint_up_for_a_while_only(void **state) {
  mr_diag_t diag;
  if (train(STUCK, &diag) < 0) fail_msg("%s", diag.text);
  assert_int_equal(seen.renamed, STEPS);
}

int main(void) {
#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
  const struct CMUnitTest tests[] = {
      CASE(metrics_are_on_the_disk_before_a_checkpoint_gets_its_name),
      CASE(a_checkpoint_waits_for_metrics_that_are_late),
      CASE(folders_that_are_made_are_synced_into_theirs),
      CASE(a_full_disk_of_metrics_holds_no_checkpoint_up),
      CASE(metrics_that_cannot_be_synced_fail_the_run_at_its_end),
      CASE(a_disk_that_hangs_holds_a_checkpoint_up_for_a_while_only),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
