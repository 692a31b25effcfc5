/* Ranks of a job as processes that a test forks, on this host's loopback. */
#ifndef MR_TESTS_RANKS_PROCESSES_H
#define MR_TESTS_RANKS_PROCESSES_H

#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ranks/job.h"
#include "tests/port.h"

enum { RANKS_MOST = 16 };

/* What a rank says to the test, by a pipe. */
typedef struct said {
  int missing;
  mr_err_t code;
  uint64_t hash;
  char text[400];
} said_t;

typedef struct ranks {
  int size, pipe[RANKS_MOST][2];
  pid_t pid[RANKS_MOST];
  mr_launch_t launch;
  mr_job_cfg_t cfg;
} ranks_t;

typedef void rank_fn(const ranks_t *t, int rank, mr_job_t *job, said_t *said);

/* Starts a rank: the child opens the job and calls fn, which may be NULL. */
static inline void start_rank(ranks_t *t, int rank, rank_fn *fn) {
  if (pipe(t->pipe[rank]) < 0) abort();
  if ((t->pid[rank] = fork())) {
    close(t->pipe[rank][1]);
    return;
  }
  prctl(PR_SET_PDEATHSIG, SIGKILL); /* a test that fails leaves none behind */
  said_t said = {.missing = -2};
  mr_diag_t diag = {0};
  mr_job_t *job = NULL;
  t->launch.rank = rank;
  said.code = mr_job_open(&t->launch, &t->cfg, &job, &diag);
  snprintf(said.text, sizeof said.text, "%.300s", diag.text);
  if (job && fn) fn(t, rank, job, &said);
  mr_job_close(job);
  _exit(write(t->pipe[rank][1], &said, sizeof said) != sizeof said);
}

static inline ranks_t ranks_of(int size, double limit_s) {
  return (ranks_t){.size = size,
                   .launch = {.launcher = MR_LAUNCHER_TORCHRUN,
                              .size = size,
                              .local_size = size,
                              .n_nodes = 1,
                              .host = "127.0.0.1",
                              .port = port_free()},
                   .cfg = {.communicator = "zmq", .limit_s = limit_s}};
}

/* Waits for the rank's end; if it has said nothing, code is MR_ERR_CANCEL and text how it ended. */
static inline said_t end_rank(ranks_t *t, int rank) {
  said_t said = {.code = MR_ERR_CANCEL};
  size_t n = 0;
  ssize_t k;
  while (n < sizeof said && (k = read(t->pipe[rank][0], (char *)&said + n, sizeof said - n)) > 0)
    n += (size_t)k;
  close(t->pipe[rank][0]);
  int status = 0;
  waitpid(t->pid[rank], &status, 0);
  if (n < sizeof said)
    snprintf(said.text, sizeof said.text, "it said nothing and ended by %s %d",
             WIFSIGNALED(status) ? "signal" : "status",
             WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
  return said;
}

#endif
