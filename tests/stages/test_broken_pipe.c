/* A program that has a graph in it, and SIGPIPE as it is by default, outlives a reader that goes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "loaders/loaders.h"
#include "pipeline/graph/graph.h"
#include "sinks/sinks.h"
#include "stages/stages.h"

/* The metrics go to a pipe, whose reader goes once the graph runs. */
static int run_and_lose_the_reader(const char *path) {
  static mr_registry_t all;
  char text[512];
  mr_diag_t diag = {0};
  signal(SIGPIPE, SIG_DFL);
  mr_registry_add(&all, mr_loaders_stages);
  mr_registry_add(&all, mr_stages_stages);
  mr_registry_add(&all, mr_sinks_stages);
  snprintf(text, sizeof text,
           "synthetic n=640 ! shuffle seed=1 epochs=1 ! normalize ! batch 16 ! vit-step name=train "
           "layers=1 embed=16 mlp=16 heads=2 patch=8 threads=1 train.metrics ! jsonl path=%s",
           path);
  int reader = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  mr_graph_t *g = mr_graph_create(&all);
  mr_err_t e = reader < 0 ? MR_ERR_IO : mr_graph_parse(g, text, NULL, 0, &diag);
  if (e >= 0) e = mr_graph_start(g, &diag);
  close(reader);
  if (e >= 0) e = mr_graph_join(g, &diag);
  if (e < 0) fprintf(stderr, "%s\n", diag.text);
  mr_graph_destroy(g);
  sigset_t left, masked;
  sigpending(&left);
  pthread_sigmask(SIG_BLOCK, NULL, &masked);
  return e < 0 || sigismember(&left, SIGPIPE) || sigismember(&masked, SIGPIPE);
}

static void a_graph_does_not_end_its_process(void **state) {
  char dir[] = "/tmp/mr-pipe-XXXXXX", path[64];
  int status = -1;
  assert_non_null(mkdtemp(dir));
  snprintf(path, sizeof path, "%s/metrics", dir);
  assert_int_equal(mkfifo(path, 0600), 0);
  fflush(NULL);
  pid_t pid = fork();
  if (pid == 0) _exit(run_and_lose_the_reader(path));
  assert_int_equal(waitpid(pid, &status, 0), pid);
  unlink(path), rmdir(dir);
  if (!WIFEXITED(status) || WEXITSTATUS(status)) fail_msg("wait status %x", (unsigned)status);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(a_graph_does_not_end_its_process)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
