/* Ports that tests and checks draw for their peers (tests/port.h, scripts/ports.py): processes that
   draw at the same time, and have not bound them yet, get different ones. */
// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/port.h"

enum { PROCESSES = 20, DRAWN = 5, SCRIPTS = 3 };

/* Draws ports, reports them, and holds them until go is closed. */
static void draw_and_hold(int reports, int go) {
  int port[DRAWN];
  char byte;
  for (int i = 0; i < DRAWN; i++) port[i] = port_free();
  if (write(reports, port, sizeof port) != sizeof port) _exit(1);
  _exit(read(go, &byte, 1) != 0);
}

static void processes_at_the_same_time_draw_different_ports(void **state) {
  static unsigned char drawn[65536];
  int reports[2], go[2], port[DRAWN], status;
  char command[512];
  assert_int_equal(pipe(reports) | pipe(go), 0);
  for (int i = 0; i < PROCESSES; i++) {
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (!pid) close(go[1]), draw_and_hold(reports[1], go[0]);
  }
  for (int i = 0; i < PROCESSES; i++) {
    assert_int_equal(read(reports[0], port, sizeof port),
                     sizeof port); /* whole: fewer than PIPE_BUF */
    for (int k = 0; k < DRAWN; k++) {
      assert_in_range(port[k], 20000, 31999);
      assert_false(drawn[port[k]]++);
    }
  }
  snprintf(command, sizeof command, "exec python3 '%s/scripts/ports.py' 20", MR_SOURCE_DIR);
  FILE *script[SCRIPTS];
  for (int i = 0; i < SCRIPTS; i++) {
    script[i] = popen(command, "r");
    assert_non_null(script[i]);
    for (int k = 0, at; k < 20; k++) {
      assert_int_equal(fscanf(script[i], "%d", &at), 1);
      assert_in_range(at, 20000, 31999);
      assert_false(drawn[at]++);
    }
  }
  close(go[1]);
  for (int i = 0; i < SCRIPTS; i++)
    assert_int_equal(pclose(script[i]), 0); /* it ends with its reader */
  while (wait(&status) > 0) assert_int_equal(status, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(processes_at_the_same_time_draw_different_ports),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
