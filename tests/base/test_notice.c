/* Notices and announcements reach the program's receiver, whole, as one printable line and in the C
   locale; else standard error. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"

static char heard[2048];
static int n_heard;

static void hear(void *arg, const char *text) {
  assert_ptr_equal(arg, heard);
  snprintf(heard, sizeof heard, "%s", text);
  n_heard++;
}

static void a_receiver_gets_the_sentence(void **state) {
  mr_notice_to(hear, heard);
  n_heard = 0;
  mr_notice("%s: %d of %g", "disk", 3, 0.5);
  assert_int_equal(n_heard, 1);
  assert_string_equal(heard, "disk: 3 of 0.5");
  mr_notice_to(NULL, NULL);
}

static void a_long_one_is_cut_and_control_characters_are_shown(void **state) {
  char name[4000];
  memset(name, 'x', sizeof name);
  name[sizeof name - 1] = 0;
  mr_notice_to(hear, heard);
  mr_notice("%s", name);
  assert_int_equal(strlen(heard), 1023);
  mr_notice("peer \033[2J");
  assert_null(strchr(heard, '\033'));
  mr_notice_to(NULL, NULL);
}

static void without_a_receiver_it_is_a_line_on_standard_error(void **state) {
  int pipe_fd[2], before = dup(STDERR_FILENO);
  assert_int_equal(pipe(pipe_fd), 0);
  fflush(stderr);
  dup2(pipe_fd[1], STDERR_FILENO);
  mr_notice("%d steps", 7);
  fflush(stderr);
  dup2(before, STDERR_FILENO);
  close(before), close(pipe_fd[1]);
  char line[128];
  ssize_t n = read(pipe_fd[0], line, sizeof line - 1);
  close(pipe_fd[0]);
  assert_true(n > 0);
  line[n] = 0;
  assert_string_equal(line, "millrace: 7 steps\n");
}

static char announced[2048];

static void hear_announcement(void *arg, const char *text) {
  assert_ptr_equal(arg, announced);
  snprintf(announced, sizeof announced, "%s", text);
}

static void announcements_have_a_receiver_of_their_own_or_are_notices(void **state) {
  mr_notice_to(hear, heard);
  n_heard = 0;
  mr_announce("%s: %g", "page", 0.5);
  assert_int_equal(n_heard, 1);
  assert_string_equal(heard, "page: 0.5");
  mr_announce_to(hear_announcement, announced);
  mr_announce("page: tcp://[::1]:%d\npage", 7);
  assert_int_equal(n_heard, 1);
  assert_string_equal(announced, "page: tcp://[::1]:7\\x0apage");
  mr_notice("disk");
  assert_int_equal(n_heard, 2);
  assert_string_equal(announced, "page: tcp://[::1]:7\\x0apage");
  mr_announce_to(NULL, NULL);
  mr_announce("again");
  assert_string_equal(heard, "again");
  mr_notice_to(NULL, NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_receiver_gets_the_sentence),
      cmocka_unit_test(a_long_one_is_cut_and_control_characters_are_shown),
      cmocka_unit_test(announcements_have_a_receiver_of_their_own_or_are_notices),
      cmocka_unit_test(without_a_receiver_it_is_a_line_on_standard_error),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
