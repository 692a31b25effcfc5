/* What stays on this machine, and what only looks so. */
/* clang-format off */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#include "base/loopback.h"

static void loopback_is_known_by_its_numbers(void **state) {
  static const char *const here[] = {"127.0.0.1", "127.255.0.9", "::1", "[::1]", "localhost"};
  static const char *const there[] = {"",
                                      "127.0.0.1.example.org",
                                      "127.example.org",
                                      "0.0.0.0",
                                      "128.0.0.1",
                                      "127.0.0",
                                      "::",
                                      "localhost.example.org",
                                      "*"};
  for (size_t i = 0; i < sizeof here / sizeof *here; i++) assert_true(mr_host_is_loopback(here[i]));
  for (size_t i = 0; i < sizeof there / sizeof *there; i++)
    assert_false(mr_host_is_loopback(there[i]));
}

static void an_address_is_looked_at_whole(void **state) {
  static const char *const here[] = {"ipc://@name",       "ipc:///tmp/x",  "tcp://127.0.0.1:5560",
                                     "tcp://127.0.0.1:*", "tcp://[::1]:1", "tcp://localhost:80"};
  static const char *const there[] = {
      "tcp://0.0.0.0:1", "tcp://*:5560",      "tcp://127.0.0.1",   "tcp://127.evil.org:1",
      "tcp://[::]:1",    "udp://127.0.0.1:1", "pgm://127.0.0.1:1", "",
      "tcp://",          "tcp://eth0:5560"};
  for (size_t i = 0; i < sizeof here / sizeof *here; i++)
    assert_true(mr_address_stays_here(here[i]));
  for (size_t i = 0; i < sizeof there / sizeof *there; i++)
    assert_false(mr_address_stays_here(there[i]));
}

static void an_address_has_a_protocol_and_a_port(void **state) {
  static const char *const good[] = {"ipc://@name",  "ipc:///tmp/x",      "tcp://127.0.0.1:1",
                                     "tcp://*:5560", "tcp://[::1]:65535", "tcp://h:*"};
  static const char *const bad[] = {"",
                                    "foo",
                                    "ipc://",
                                    "udp://h:1",
                                    "tcp://",
                                    "tcp://h",
                                    "tcp://h:",
                                    "tcp://:80",
                                    "tcp://h:65536",
                                    "tcp://h:0",
                                    "tcp://h:-1",
                                    "tcp://h:+1",
                                    "tcp://h:1x",
                                    "tcp://h:99999999999999999999"};
  for (size_t i = 0; i < sizeof good / sizeof *good; i++) assert_true(mr_address_is_one(good[i]));
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) assert_false(mr_address_is_one(bad[i]));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(loopback_is_known_by_its_numbers),
      cmocka_unit_test(an_address_is_looked_at_whole),
      cmocka_unit_test(an_address_has_a_protocol_and_a_port),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
