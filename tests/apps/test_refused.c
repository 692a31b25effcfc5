/* Where io_uring is refused, as in many containers: the same records, said once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/apps/program.h"

enum { RECORDS = 40, RECORD = 3073 };

static char dir[] = "/tmp/mr-refused-XXXXXX";

static void write_file(const char *name) {
  char path[128];
  snprintf(path, sizeof path, "%s/%s", dir, name);
  FILE *f = fopen(path, "wb");
  assert_non_null(f);
  for (int i = 0; i < RECORDS; i++)
    for (int k = 0; k < RECORD; k++) fputc(k ? (i * 31 + k * 7) % 251 : i % 10, f);
  assert_int_equal(fclose(f), 0);
}

/* What is refused: nothing; io_uring_setup, by EPERM; or io_uring_enter, by EAGAIN, for ever. */
enum { NOTHING, SETUP, ENTER };

/* It fails from here on, for this process and its children. */
static int refuse_io_uring(int what) {
  struct sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, what == ENTER ? SYS_io_uring_enter : SYS_io_uring_setup,
               0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (what == ENTER ? EAGAIN : EPERM)),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  struct sock_fprog filter = {sizeof code / sizeof *code, code};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return -1;
  return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter);
}

/* What the program prints on both streams, called with words; 77 as its status if filters cannot
   be set here. */
static int run(int refused, const char *const *words, char *said, size_t n) {
  int out[2], status;
  char *argv[16] = {"millrace"};
  for (int i = 0; words[i]; i++) argv[i + 1] = (char *)words[i];
  assert_int_equal(pipe(out), 0);
  pid_t child = fork();
  if (child == 0) {
    dup2(out[1], 1), dup2(out[1], 2);
    close(out[0]), close(out[1]);
    if (refused && refuse_io_uring(refused) != 0) _exit(77);
    execv(MR_PROGRAM, argv);
    _exit(127);
  }
  close(out[1]);
  size_t at = 0;
  for (ssize_t k; at < n - 1 && (k = read(out[0], said + at, n - 1 - at)) > 0;) at += (size_t)k;
  said[at] = 0;
  close(out[0]);
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* A graph over the files that keeps nothing in memory. */
static const char *graph_text(void) {
  static char graph[256];
  snprintf(graph, sizeof graph,
           "cifar10 path=%s records=%d holdout=20 memory=0 ! shuffle seed=3 ! batch 8 workers=3 ! "
           "null",
           dir, RECORDS);
  return graph;
}

#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})

static const char *ledger_of(const char *said) {
  const char *at = strstr(said, "ledger ");
  if (!at) fail_msg("no ledger in: %s", said);
  return at;
}

static void refusal_is_said_once_and_changes_nothing(void **state) {
  char free_to[4096], refused[4096];
  assert_int_equal(run(0, WORDS("run", graph_text()), free_to, sizeof free_to), 0);
  int status = run(1, WORDS("run", graph_text()), refused, sizeof refused);
  if (status == 77) skip();
  assert_int_equal(status, 0);
  assert_memory_equal(ledger_of(free_to), ledger_of(refused), strlen("ledger 0123456789abcdef"));
  const char *said = strstr(refused, "reading with pread");
  if (!said) fail_msg("nothing is said of pread: %s", refused);
  assert_null(strstr(said + 1, "reading with pread"));
}

static void a_way_asked_for_by_name_is_refused_with_the_reason(void **state) {
  char said[4096];
  int status = run(1, WORDS("run", graph_text(), "cifar10.backend=uring"), said, sizeof said);
  if (status == 77) skip();
  assert_int_equal(status, 1);
  assert_non_null(strstr(said, "backend=uring: io_uring is refused (Operation not permitted)"));
}

static void a_kernel_that_takes_no_read_for_ever_does_not_stop_a_run(void **state) {
  char free_to[4096], refused[4096];
  const char *const *words = WORDS("run", graph_text(), "cifar10.backend=uring");
  assert_int_equal(run(NOTHING, WORDS("run", graph_text()), free_to, sizeof free_to), 0);
  int status = run(ENTER, words, refused, sizeof refused);
  if (status == 77 || strstr(refused, "io_uring is refused")) skip();
  if (status) fail_msg("status %d: %s", status, refused);
  assert_memory_equal(ledger_of(free_to), ledger_of(refused), strlen("ledger 0123456789abcdef"));
}

static void the_doctor_says_it_too(void **state) {
  char said[8192];
  int status = run(1, WORDS("doctor", graph_text()), said, sizeof said);
  if (status == 77) skip();
  assert_int_equal(status, 0);
  assert_non_null(strstr(said, "refused (Operation not permitted)"));
  assert_non_null(strstr(said, "backend pread: io_uring is refused"));
}

int main(void) {
  if (!mkdtemp(dir)) return 1;
  for (int i = 1; i <= 5; i++) {
    char name[32];
    snprintf(name, sizeof name, "data_batch_%d.bin", i);
    write_file(name);
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(refusal_is_said_once_and_changes_nothing),
      cmocka_unit_test(a_way_asked_for_by_name_is_refused_with_the_reason),
      cmocka_unit_test(a_kernel_that_takes_no_read_for_ever_does_not_stop_a_run),
      cmocka_unit_test(the_doctor_says_it_too)};
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  return program_forget(dir) == 0 ? failed : 1;
}
