/* What stays on this machine, and what only looks so. */
/* clang-format off */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

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

static void beyond_this_machine_a_connection_needs_a_proof(void **state) {
  static const char *const without[] = {"ipc://@name",   "ipc:///tmp/x", "tcp://127.0.0.1:5560",
                                        "tcp://[::1]:1", "127.0.0.1",    "::1",
                                        "localhost"};
  static const char *const with[] = {
      "tcp://0.0.0.0:1",   "tcp://*:5560",    "0.0.0.0", "::", "192.0.2.1", "*", "",
      "udp://127.0.0.1:1", "host.example.org"};
  for (size_t i = 0; i < sizeof without / sizeof *without; i++)
    assert_false(mr_needs_proof(without[i]));
  for (size_t i = 0; i < sizeof with / sizeof *with; i++) assert_true(mr_needs_proof(with[i]));
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

static void a_binding_replaces_no_file_but_the_socket_of_a_dead_process(void **state) {
  char dir[] = "/tmp/mr-loopback-XXXXXX", file[64], address[80];
  struct sockaddr_un at = {.sun_family = AF_UNIX};
  mr_diag_t diag = {0};
  assert_non_null(mkdtemp(dir));
  snprintf(file, sizeof file, "%s/notes.txt", dir);
  snprintf(address, sizeof address, "ipc://%s", file);
  assert_int_equal(mr_address_make_free(address, &diag), MR_OK); /* nothing is there */
  FILE *f = fopen(file, "w");
  assert_non_null(f);
  fclose(f);
  assert_int_equal(mr_address_make_free(address, &diag), MR_ERR_IO);
  assert_non_null(strstr(diag.text, "not a socket"));
  assert_int_equal(access(file, F_OK), 0);
  unlink(file);
  int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  strcpy(at.sun_path, file);
  assert_int_equal(bind(fd, (void *)&at, sizeof at), 0);
  assert_int_equal(listen(fd, 1), 0);
  diag = (mr_diag_t){0};
  assert_int_equal(mr_address_make_free(address, &diag), MR_ERR_IO);
  assert_non_null(strstr(diag.text, "another process listens"));
  assert_int_equal(access(file, F_OK), 0);
  close(fd); /* as kill -9 does */
  assert_int_equal(mr_address_make_free(address, NULL), MR_OK);
  assert_true(access(file, F_OK) < 0);
  assert_int_equal(rmdir(dir), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(loopback_is_known_by_its_numbers),
      cmocka_unit_test(an_address_is_looked_at_whole),
      cmocka_unit_test(beyond_this_machine_a_connection_needs_a_proof),
      cmocka_unit_test(an_address_has_a_protocol_and_a_port),
      cmocka_unit_test(a_binding_replaces_no_file_but_the_socket_of_a_dead_process),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
