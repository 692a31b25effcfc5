/* A child of a process that has a link: its copy gets a sentence, at once, and the parent's goes
 * on. */
/* clang-format off */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "links/link.h"
#include "links/listen.h"
#include "tests/child.h"

static int link_is_refused(void *arg) {
  mr_link_t *l = arg;
  mr_diag_t diag = {0};
  mr_link_wait(l, -1);
  if (!mr_link_pending(l)) return 1;
  if (mr_link_pump(l, &diag) != MR_ERR_USAGE) return 2;
  if (!strstr(diag.text, "link train was opened by the process that this one was forked from"))
    return 3;
  mr_link_close(l);
  return 0;
}

static void a_link_of_the_parent_is_refused_in_a_child(void **state) {
  mr_diag_t diag = {0};
  char address[80];
  snprintf(address, sizeof address, "ipc://@millrace-forks-%d", (int)getpid());
  mr_link_cfg_t cfg = {.name = "train", .address = address, .bind = true, .linger_ms = 1};
  mr_link_t *l = mr_link_open_in(&cfg, NULL, NULL, &diag);
  if (!l) fail_msg("%s", diag.text);
  in_a_child(link_is_refused, l);
  assert_int_equal(mr_link_pump(l, &diag), MR_OK); /* the parent's is as it was */
  mr_link_close(l);
}

static int subscriber_is_refused(void *arg) {
  mr_diag_t diag = {0};
  if (mr_listen_pump(arg, &diag) != MR_ERR_USAGE || !strstr(diag.text, "forked from")) return 1;
  mr_listen_close(arg);
  return 0;
}

static void a_subscriber_of_the_parent_is_refused_in_a_child(void **state) {
  mr_diag_t diag = {0};
  char address[80];
  snprintf(address, sizeof address, "ipc://@millrace-forks-cast-%d", (int)getpid());
  mr_link_cfg_t cfg = {.name = "train", .address = address};
  mr_listen_t *l = mr_listen_open(&cfg, NULL, 0, &diag);
  if (!l) fail_msg("%s", diag.text);
  in_a_child(subscriber_is_refused, l);
  assert_int_equal(mr_listen_pump(l, &diag), MR_OK);
  mr_listen_close(l);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_link_of_the_parent_is_refused_in_a_child),
      cmocka_unit_test(a_subscriber_of_the_parent_is_refused_in_a_child)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
