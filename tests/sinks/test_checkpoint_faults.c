/* Every call of the checkpoint writer fails once, or from then on, in every way: each checkpoint is
   whole or not there, the link points to a whole one, nothing else is left, and the failure names
   its file. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/safetensors.h"
#include "pipeline/graph/graph.h"
#include "pipeline/stage_step.h"
#include "pipeline/state.h"
#include "sinks/sinks.h"
#include "tests/fault.h"
#include "tests/sinks/states.h"

static char folder[] = "/dev/shm/millrace-ckpt-XXXXXX"; /* a disk would be waited for 1500 times */

/* ---- the calls; those of other files go through ---- */

int __real_open(const char *file, int flags, ...);
int __wrap_open(const char *file, int flags, ...);
int __wrap_open(const char *file, int flags, ...) {
  if (strncmp(file, folder, strlen(folder))) return __real_open(file, flags, 0666);
  FAULT_OR(__real_open(file, flags, 0666));
}

ssize_t __real_write(int fd, const void *data, size_t n);
ssize_t __wrap_write(int fd, const void *data, size_t n);
ssize_t __wrap_write(int fd, const void *data, size_t n) {
  int e = fault_now(n > 1);
  if (e > 0) return errno = e, -1;
  return __real_write(fd, data, e < 0 ? n / 2 : n);
}

int __real_fsync(int fd);
int __wrap_fsync(int fd);
int __wrap_fsync(int fd) { FAULT_OR(__real_fsync(fd)); }

int __real_rename(const char *from, const char *to);
int __wrap_rename(const char *from, const char *to);
int __wrap_rename(const char *from, const char *to) { FAULT_OR(__real_rename(from, to)); }

int __real_symlink(const char *to, const char *name);
int __wrap_symlink(const char *to, const char *name);
int __wrap_symlink(const char *to, const char *name) { FAULT_OR(__real_symlink(to, name)); }

int __real_mkdir(const char *name, mode_t mode);
int __wrap_mkdir(const char *name, mode_t mode);
int __wrap_mkdir(const char *name, mode_t mode) { FAULT_OR(__real_mkdir(name, mode)); }

/* ---- a source of two states ---- */

enum { FLOATS = 5000 };

static float weight[2][FLOATS];
static mr_st_tensor_t tensor[2] = {
    {.name = "a", .dtype = MR_F32, .ndim = 1, .dim = {FLOATS}, .data = weight[0]},
    {.name = "b", .dtype = MR_F32, .ndim = 2, .dim = {50, 100}, .data = weight[1]}};

typedef struct save {
  int64_t next;
} save_t;

static mr_err_t save_step(mr_stage_t *s) {
  save_t *t = s->state;
  mr_buf_t *b;
  if (t->next == 2) return MR_END;
  mr_err_t e = mr_fresh(s, 0, &b);
  if (e != MR_OK) return e;
  *(mr_state_t *)b->data = (mr_state_t){.step = 10 * ++t->next, .n_tensors = 2, .tensor = tensor};
  return mr_push(s, 0, b);
}

static const mr_stage_def_t save_def = {
    .name = "save",
    .help = "Gives states.",
    .out = {{.name = "state", .flow = MR_FLOW_STATE}},
    .state_sz = sizeof(save_t),
    .plan = states_plan,
    .step = &(const mr_step_def_t){.run = save_step},
};
static const mr_stage_def_t *const own[] = {&save_def, NULL};
static mr_registry_t reg;

static mr_err_t run(mr_diag_t *diag) {
  char text[128];
  snprintf(text, sizeof text, "save ! checkpoint dir=%s/c keep=2", folder);
  mr_graph_t *g = mr_graph_create(&reg);
  mr_err_t e = mr_graph_parse(g, text, NULL, 0, diag);
  if (e >= 0) e = mr_graph_run(g, diag);
  mr_graph_destroy(g);
  return e;
}

static void check_whole(const char *path) {
  mr_safetensors_t *f;
  mr_diag_t d = {0};
  if (mr_safetensors_open(path, &f, &d) < 0) fail_msg("not whole: %s", d.text);
  assert_memory_equal(mr_safetensors_find(f, "a")->data, weight[0], sizeof weight[0]);
  assert_memory_equal(mr_safetensors_find(f, "b")->data, weight[1], sizeof weight[1]);
  mr_safetensors_close(f);
}

/* Checks what lies in the folder, or removes it.  Returns the number of checkpoints. */
static int look(bool clear) {
  char path[512];
  int n = 0;
  snprintf(path, sizeof path, "%s/c", folder);
  DIR *d = opendir(path);
  for (struct dirent *e; d && (e = readdir(d));) {
    if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..")) continue;
    snprintf(path, sizeof path, "%s/c/%s", folder, e->d_name);
    if (clear && unlink(path) == 0) continue;
    if (strncmp(e->d_name, "step-", 5) && strcmp(e->d_name, "latest"))
      fail_msg("left behind: %s", path);
    if (strstr(e->d_name, ".part")) fail_msg("half written: %s", path);
    check_whole(path);
    n += !strncmp(e->d_name, "step-", 5);
  }
  if (d) closedir(d);
  return n;
}

/* old: a checkpoint of an earlier run lies there. */
static void round_with(long at, fault_kind_t kind, bool forever, bool old) {
  mr_diag_t d = {0};
  fault_set(0, kind, false);
  if (old) assert_int_equal(run(&d), MR_OK);
  d = (mr_diag_t){0};
  fault_set(at, kind, forever);
  mr_err_t e = run(&d);
  fault.at = 0;
  if (e < 0 && !strstr(d.text, folder) && !strstr(d.text, "/dev: ") && !strstr(d.text, "/shm: "))
    fail_msg("names no file: %s", d.text);
  if (e < 0 && strstr(d.text, "cannot write") && !strstr(d.text, "in this folder") &&
      !strstr(d.text, "at byte") && !strstr(d.text, "sync"))
    fail_msg("names no place: %s", d.text);
  int n = look(false);
  look(true);
  if (e >= 0 || old) assert_int_equal(n, 2);
}

static void checkpoints_are_whole_or_not_there_whatever_call_fails(void **state) {
  for (fault_kind_t k = 0; k < FAULT_KINDS; k++)
    for (int way = 0; way < 4; way++) {
      if (k < FAULT_EIO && way & 1) continue; /* no end of interruptions is no end */
      long n = 1;
      do round_with(n++, k, way & 1, way & 2);
      while (fault.times || fault.calls >= n - 1);
      print_message("%s%s%s: %ld calls\n", fault_name[k], way & 1 ? " from there on" : "",
                    way & 2 ? ", over an earlier run" : "", n - 2);
      assert_true(n > 10);
    }
}

static int setup(void **state) {
  for (int i = 0; i < 2 * FLOATS; i++) weight[i / FLOATS][i % FLOATS] = (float)i;
  mr_registry_add(&reg, mr_sinks_stages);
  mr_registry_add(&reg, own);
  if (access("/dev/shm", W_OK)) memcpy(folder, "/tmp/////", 9);
  return mkdtemp(folder) ? 0 : -1;
}

static int teardown(void **state) {
  char path[64];
  snprintf(path, sizeof path, "%s/c", folder);
  rmdir(path);
  return rmdir(folder);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(checkpoints_are_whole_or_not_there_whatever_call_fails)};
  return cmocka_run_group_tests(tests, setup, teardown);
}
