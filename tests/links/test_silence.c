/* Ends of a link that hear nothing for long, by a clock that the test turns. */
// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include <time.h>

#include "links/link_private.h"
#include "tests/links/ends.h"

static time_t ahead_s;

int __real_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *now) {
  int e = __real_clock_gettime(clock, now);
  now->tv_sec += ahead_s;
  return e;
}

static void turn(mr_link_t *l) {
  mr_diag_t diag = {0};
  if (mr_link_pump(l, &diag) < 0) fail_msg("%s", diag.text);
}

/* A program may hold the last buffers for as long as it likes after its stream is over, as one does
   whose own peer still works on them: then it does not serve the link. */
static void a_sender_that_has_sent_all_keeps_to_a_receiver_that_is_silent(void **state) {
  enum { BUFFERS = 3, MINUTE_S = 60 };
  mr_diag_t diag = {0};
  mr_spec_t spec = ends_spec(100);
  mr_pool_t *pool = mr_pool_create(&spec, BUFFERS);
  mr_link_cfg_t cfg = {
      .name = "edge", .address = "tcp://127.0.0.1:*", .bind = true, .window = 8, .copy = true};
  mr_link_t *out = mr_link_open_out(&cfg, &spec, 0, &diag);
  if (!out) fail_msg("%s", diag.text);
  char address[64];
  snprintf(address, sizeof address, "%s", mr_link_address(out));
  cfg.address = address, cfg.bind = false;
  mr_link_t *in = mr_link_open_in(&cfg, &spec, NULL, &diag);
  if (!in) fail_msg("%s", diag.text);
  for (int64_t i = 0; i < BUFFERS; i++) mr_link_send(out, ends_make(pool, &spec, i));
  mr_link_end(out);
  mr_buf_t *held[BUFFERS];
  size_t n = 0;
  while (!mr_link_over(in)) {
    turn(out), turn(in);
    n += mr_link_take(in, held + n, BUFFERS - n);
    if (!mr_link_over(in)) mr_link_wait(in, 1);
  }
  assert_int_equal(n, BUFFERS);
  while (!out->end_said) turn(out);
  ahead_s += MINUTE_S;
  turn(out);
  assert_int_equal(out->state, MR__LINK_MET);
  for (size_t i = 0; i < n; i++) mr_buf_unref(held[i]);
  while (!mr_link_done(out)) turn(in), turn(out);
  mr_link_stats_t now;
  mr_link_stats(out, &now);
  assert_true(now.connections == 1 && now.resent == 0 && now.released == BUFFERS);
  mr_link_close(in);
  mr_link_close(out);
  mr_pool_destroy(pool);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_sender_that_has_sent_all_keeps_to_a_receiver_that_is_silent),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
