/* Time to the first batch: runs this program as a process that makes one batch and ends. */
#include <fcntl.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>

#include "apps/bench.h"
#include "base/clock.h"

enum { TRIES = 9 };

extern char **environ;

/* Starts the process with its standard streams on /dev/null. */
static int spawn_run(const char *graph, pid_t *pid) {
  char text[2048];
  posix_spawn_file_actions_t silent;
  strncat(strcpy(text, ""), graph, sizeof text - 1);
  char *argv[] = {"millrace", "run", text, NULL};
  posix_spawn_file_actions_init(&silent);
  for (int fd = 0; fd < 3; fd++)
    posix_spawn_file_actions_addopen(&silent, fd, "/dev/null", O_RDWR, 0);
  int e = posix_spawn(pid, "/proc/self/exe", &silent, NULL, argv, environ);
  posix_spawn_file_actions_destroy(&silent);
  return e;
}

mr_err_t mr_bench_first(const char *graph, double *ms, mr_diag_t *diag) {
  double took[TRIES];
  for (int i = 0; i < TRIES; i++) {
    pid_t pid;
    int status = -1;
    int64_t begin = mr_now_ns();
    int e = spawn_run(graph, &pid);
    if (e) return mr_fail(diag, MR_ERR_IO, "bench: a process cannot be started (%s)", strerror(e));
    if (waitpid(pid, &status, 0) != pid || status != 0)
      return mr_fail(diag, MR_ERR_DATA, "bench: the graph of one batch has failed: %s", graph);
    took[i] = 1e-6 * (double)(mr_now_ns() - begin);
  }
  *ms = mr_bench_median(took, TRIES);
  return MR_OK;
}
