/* Children of a test.  A failed assertion of cmocka would continue with the parent's tests there:
   a child says by its status whether all was well.  Include it after cmocka.h. */
#ifndef MR_TESTS_CHILD_H
#define MR_TESTS_CHILD_H

#include <spawn.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { HANGS = 60 /* seconds; a hang's, not a speed's */ };

/* Whether a child of a process with threads may start threads of its own.  POSIX leaves that to the
   C library, and glibc does it, but the address sanitizer of gcc 12 does not: two threads that
   begin in such a child now and then wait for ever for the lock of its allocator, before their
   first line. */
#ifdef __SANITIZE_ADDRESS__
enum { CHILD_HAS_THREADS = 0 };
#else
enum { CHILD_HAS_THREADS = 1 };
#endif

/* Runs fn in a child and wants its status to be 0. */
static inline void in_a_child(int (*fn)(void *arg), void *arg) {
  int status;
  fflush(stdout), fflush(stderr);
  pid_t child = fork();
  assert_true(child >= 0);
  if (!child) {
    alarm(HANGS);
    _exit(fn(arg));
  }
  assert_int_equal(waitpid(child, &status, 0), child);
  if (WIFSIGNALED(status)) fail_msg("the child was ended by signal %d", WTERMSIG(status));
  assert_int_equal(WEXITSTATUS(status), 0);
}

extern char **environ;

/* Starts the test's own program anew with these arguments, the last one NULL.  It has two
   descriptors of this process, their numbers in argv[1] and argv[2], and `arg`
   from argv[3] on; -1 stands for none.  This is how a test whose threads run has children: a fork
   copies locks that those threads hold, as that of the address sanitizer's allocator, for which the
   child then waits for ever. */
static inline pid_t start_anew(int fd1, int fd2, const char *const *arg) {
  enum { MOST = 16 };
  char number[2][12], *argv[MOST] = {(char *)"test", number[0], number[1]};
  const int fd[2] = {fd1, fd2};
  posix_spawn_file_actions_t actions;
  pid_t child = -1;
  int n = 3;
  for (; *arg && n < MOST - 1; n++) argv[n] = (char *)*arg++;
  if (*arg || posix_spawn_file_actions_init(&actions)) return -1;
  for (int i = 0; i < 2; i++) {
    snprintf(number[i], sizeof number[i], "%d", fd[i]);
    /* The same number: it stays open in the child. */
    if (fd[i] >= 0) posix_spawn_file_actions_adddup2(&actions, fd[i], fd[i]);
  }
  fflush(stdout), fflush(stderr);
  if (posix_spawn(&child, "/proc/self/exe", &actions, NULL, argv, environ)) child = -1;
  posix_spawn_file_actions_destroy(&actions);
  return child;
}

#endif
