/* A job of several processes over ZeroMQ, started as a launcher does, beside the small run that it
   is compared with. */
#ifndef MR_TESTS_APPS_JOB_H
#define MR_TESTS_APPS_JOB_H

#include "tests/apps/small_run.h"
#include "tests/port.h"

enum { RANKS_MOST = 4, WORDS_MOST = 16 };

static inline void keep_ledger(const char *out, char *to, size_t n) {
  const char *at = strstr(out, "\nledger "), *end = at ? strchr(at + 1, '\n') : NULL;
  if (!end || (size_t)(end - at) > n) {
    fail_msg("no ledger: %s%s", p.out, p.err);
    return;
  }
  memcpy(to, at + 1, (size_t)(end - at - 1));
  to[end - at - 1] = 0;
}

typedef struct job {
  int size;
  pid_t pid[RANKS_MOST];
  FILE *out[RANKS_MOST], *err[RANKS_MOST];
  int status[RANKS_MOST];
  char said[RANKS_MOST][1 << 14], complained[RANKS_MOST][1 << 14];
} job_t;

static job_t job;

static inline void set_number(const char *name, int value) {
  char text[16];
  snprintf(text, sizeof text, "%d", value);
  setenv(name, text, 1);
}

/* Starts the ranks by the variables that torchrun sets; words end with NULL.  odd, unless NULL, is
   what rank 1 gets more. */
static inline void start_job(int size, const char *const *words, const char *odd) {
  const char *all[WORDS_MOST + 2];
  int n = 0, port = port_free();
  for (; words[n] && n < WORDS_MOST; n++) all[n] = words[n];
  job = (job_t){.size = size};
  setenv("MASTER_ADDR", "127.0.0.1", 1);
  set_number("MASTER_PORT", port);
  set_number("WORLD_SIZE", size), set_number("LOCAL_WORLD_SIZE", size);
  for (int r = 0; r < size; r++) {
    set_number("RANK", r), set_number("LOCAL_RANK", r);
    all[n] = r == 1 ? odd : NULL, all[n + 1] = NULL;
    job.out[r] = tmpfile(), job.err[r] = tmpfile();
    job.pid[r] = program_start(all, job.out[r], job.err[r]);
  }
  static const char *const names[] = {"MASTER_ADDR",      "MASTER_PORT", "WORLD_SIZE",
                                      "LOCAL_WORLD_SIZE", "RANK",        "LOCAL_RANK"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) unsetenv(names[i]);
}

static inline void end_job(void) {
  for (int r = 0; r < job.size; r++) {
    job.status[r] = program_wait(job.pid[r]);
    program_read(job.out[r], job.said[r], sizeof job.said[r]);
    program_read(job.err[r], job.complained[r], sizeof job.complained[r]);
  }
}

#define START(size, odd, ...) start_job(size, (const char *const[]){__VA_ARGS__, NULL}, odd)

static inline void assert_all_end_well(void) {
  for (int r = 0; r < job.size; r++)
    if (job.status[r])
      fail_msg("rank %d of %d: status %d: %s%s", r, job.size, job.status[r], job.said[r],
               job.complained[r]);
}

/* Until the run has kept the state after a step, or a rank has ended. */
static inline void wait_for_step(const char *run, int step) {
  char path[192];
  siginfo_t ended = {0};
  snprintf(path, sizeof path, "%s/checkpoints/step-%06d.safetensors", run, step);
  while (access(path, F_OK) < 0 &&
         waitid(P_PID, (id_t)job.pid[0], &ended, WEXITED | WNOHANG | WNOWAIT) == 0 && !ended.si_pid)
    usleep(2000);
}

static inline void assert_same_checkpoint(const char *a, const char *b, int step) {
  const char *run[] = {a, b};
  void *bytes[2];
  size_t n[2];
  for (int i = 0; i < 2; i++) {
    char path[192];
    snprintf(path, sizeof path, "%s/checkpoints/step-%06d.safetensors", run[i], step);
    if (mr_read_file(path, 1 << 24, &bytes[i], &n[i], NULL) < 0) fail_msg("no %s", path);
  }
  if (n[0] != n[1] || memcmp(bytes[0], bytes[1], n[0]) != 0) fail_msg("%s differs from %s", b, a);
  free(bytes[0]), free(bytes[1]);
}

/* The step of a run's newest checkpoint. */
static inline int newest_step(const char *run) {
  char path[192], name[192] = "";
  int step = -1;
  snprintf(path, sizeof path, "%s/checkpoints/latest", run);
  ssize_t n = readlink(path, name, sizeof name - 1);
  if (n > 0) sscanf(name, "step-%d.safetensors", &step);
  return step;
}

#endif
