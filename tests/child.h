/* Runs a function in a child of the test, where a failed assertion of cmocka would continue with
   the parent's tests: the child says by its status whether all was well.  Include it after
   cmocka.h. */
#ifndef MR_TESTS_CHILD_H
#define MR_TESTS_CHILD_H

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

#endif
