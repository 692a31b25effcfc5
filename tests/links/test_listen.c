/* A subscriber of a cast within one process, where every turn of both can be chosen. */
// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include <poll.h>
#include <unistd.h>
#include <zmq.h>

#include "links/cast.h"
#include "links/listen.h"
#include "links/wire.h"
#include "tests/links/ends.h"

enum { WINDOW = 4, PATIENCE = 60000 };

typedef struct both {
  mr_spec_t spec;
  mr_pool_t *pool;
  mr_cast_t *cast;
  mr_listen_t *in;
  int64_t next;
  char address[64];
} both_t;

static void open_cast(both_t *t, const char *address) {
  mr_diag_t diag = {0};
  mr_link_cfg_t cfg = {.name = "edge", .address = address, .window = WINDOW, .linger_ms = 1};
  for (int i = 0; !(t->cast = mr_cast_open(&cfg, &t->spec, &diag)); i++, usleep(10000))
    if (i == 500) fail_msg("%s", diag.text); /* the address may still be the one before's */
  snprintf(t->address, sizeof t->address, "%s", mr_cast_address(t->cast));
}

static void open_listen(both_t *t, const mr_spec_t *want) {
  mr_diag_t diag = {0};
  mr_link_cfg_t cfg = {.name = "edge", .address = t->address, .window = WINDOW};
  t->in = mr_listen_open(&cfg, want, 0, &diag);
  if (!t->in) fail_msg("%s", diag.text);
}

static void open_both(both_t *t, int64_t width) {
  *t = (both_t){.spec = ends_spec(width)};
  t->pool = mr_pool_create(&t->spec, 1);
  open_cast(t, "tcp://127.0.0.1:*");
  open_listen(t, &t->spec);
}

static void close_both(both_t *t) {
  mr_listen_close(t->in);
  mr_cast_close(t->cast);
  mr_pool_destroy(t->pool);
}

static void turn(both_t *t) {
  mr_diag_t diag = {0};
  if (t->cast) mr_cast_pump(t->cast);
  if (mr_listen_pump(t->in, &diag) < 0) fail_msg("%s", diag.text);
  usleep(100);
}

static void publish(both_t *t, int n) {
  while (n--) {
    mr_buf_t *b = ends_make(t->pool, &t->spec, t->next);
    b->seq = t->next++;
    assert_true(mr_cast_give(t->cast, b));
    mr_buf_unref(b);
  }
}

/* Until it waits for a buffer there. */
static void meet(both_t *t, int64_t n) {
  mr_cast_stats_t st = {0};
  for (int i = 0; st.subscribers < n; i++) {
    if (i == PATIENCE) fail_msg("nobody came");
    turn(t);
    mr_cast_stats(t->cast, &st);
  }
}

static mr_buf_t *take(both_t *t) {
  mr_buf_t *b;
  for (int i = 0; !mr_listen_take(t->in, &b, 1); i++) {
    if (i == PATIENCE) fail_msg("nothing came");
    turn(t);
  }
  return b;
}

static void is(both_t *t, int64_t number) {
  mr_buf_t *b = take(t);
  if (!ends_is(b, &t->spec, number)) fail_msg("%ld, want %ld", (long)b->seq, (long)number);
  mr_buf_unref(b);
}

static void buffers_come_whole_in_order_and_to_the_end(void **state) {
  for (int64_t width = 16; width <= ENDS_WIDTH; width += ENDS_WIDTH - 16) {
    both_t t;
    mr_listen_stats_t st;
    open_both(&t, width);
    meet(&t, 1);
    for (int i = 0; i < 200; i++) {
      publish(&t, 1);
      is(&t, i);
    }
    mr_cast_end(t.cast, t.next);
    while (!mr_listen_over(t.in)) turn(&t);
    mr_listen_stats(t.in, &st);
    assert_int_equal(st.received, 200);
    assert_int_equal(st.missed + st.gaps + st.malformed, 0);
    close_both(&t);
  }
}

static void both_ends_report_what_a_late_subscriber_missed(void **state) {
  both_t t;
  mr_listen_stats_t st;
  mr_cast_stats_t cast;
  open_both(&t, 16);
  publish(&t, 10); /* without a subscriber: neither counts them */
  meet(&t, 1);
  publish(&t, 1);
  is(&t, 10);
  publish(&t, 20); /* the last four are kept */
  for (int64_t i = 27; i < 31; i++) is(&t, i);
  publish(&t, 1);
  is(&t, 31);
  mr_listen_stats(t.in, &st);
  mr_cast_stats(t.cast, &cast);
  assert_int_equal(st.gaps, 1);
  assert_in_range(st.missed, 15, 16); /* 11 may have been answered before the others came */
  assert_int_equal(st.missed, cast.dropped);
  close_both(&t);
}

static void one_that_is_busy_asks_for_no_more_than_its_window(void **state) {
  both_t t;
  mr_buf_t *b[WINDOW], *more;
  mr_cast_stats_t st;
  open_both(&t, 16);
  meet(&t, 1);
  for (int i = 0; i < WINDOW; i++) {
    publish(&t, 1);
    b[i] = take(&t);
  }
  publish(&t, 1);
  for (int i = 0; i < 50; i++) turn(&t);
  assert_false(mr_listen_credit(t.in));
  assert_int_equal(mr_listen_take(t.in, &more, 1), 0);
  mr_cast_stats(t.cast, &st);
  assert_int_equal(st.sent, WINDOW);
  for (int i = 0; i < WINDOW; i++) {
    assert_true(ends_is(b[i], &t.spec, i)); /* untouched meanwhile */
    mr_buf_unref(b[i]);
  }
  is(&t, WINDOW);
  close_both(&t);
}

static void a_publisher_that_was_started_again_is_gone_on_with(void **state) {
  both_t t;
  mr_listen_stats_t st;
  open_both(&t, 16);
  meet(&t, 1);
  publish(&t, 1);
  is(&t, 0);
  char address[64];
  snprintf(address, sizeof address, "%s", t.address);
  mr_cast_close(t.cast);
  t.cast = NULL;
  for (int i = 0; i < 20; i++) turn(&t);
  open_cast(&t, address);
  t.next = 40;
  meet(&t, 1);
  publish(&t, 1);
  is(&t, 40);
  mr_listen_stats(t.in, &st);
  assert_int_equal(st.missed, 39);
  assert_int_equal(st.gaps, 1);
  close_both(&t);
}

static void one_without_a_spec_learns_it_and_asks_for_nothing_else(void **state) {
  both_t t;
  mr_cast_stats_t st;
  char why[200];
  open_both(&t, 16);
  mr_listen_close(t.in);
  open_listen(&t, NULL);
  for (int i = 0; !mr_listen_spec(t.in) && i < PATIENCE; i++) turn(&t);
  assert_true(mr__link_spec_same(mr_listen_spec(t.in), &t.spec, why, sizeof why));
  assert_string_equal(mr_listen_spec(t.in)->dataset->class_name[2], "ship");
  for (int i = 0; i < 50; i++) turn(&t);
  mr_cast_stats(t.cast, &st);
  assert_int_equal(st.subscribers, 0);
  close_both(&t);
}

static void other_buffers_than_expected_are_refused(void **state) {
  both_t t;
  mr_diag_t diag = {0};
  mr_spec_t other = ends_spec(17);
  open_both(&t, 16);
  mr_listen_close(t.in);
  open_listen(&t, &other);
  for (int i = 0; mr_listen_pump(t.in, &diag) >= 0 && i < PATIENCE; i++)
    mr_cast_pump(t.cast), usleep(100);
  assert_int_equal(diag.code, MR_ERR_SHAPE);
  close_both(&t);
}

static void a_client_of_a_server_learns_that_this_is_a_broadcast(void **state) {
  both_t t;
  mr_diag_t diag = {0};
  open_both(&t, 16);
  mr_link_cfg_t cfg = {.name = "serve", .address = t.address};
  mr_link_t *l = mr_link_open_in(&cfg, &t.spec, NULL, &diag);
  for (int i = 0; i < PATIENCE && mr_link_pump(l, &diag) >= 0; i++) turn(&t);
  assert_string_equal(diag.text, "link serve: a broadcast answers there; say subscribe=edge");
  mr_link_close(l);
  close_both(&t);
}

/* The next request at a router, from id[0,n). */
static int asked_at(both_t *t, void *router, unsigned char *id, char *request) {
  int k = -1;
  for (int i = 0; k < 0 && i < PATIENCE; i++) turn(t), k = zmq_recv(router, id, 255, ZMQ_DONTWAIT);
  assert_true(k > 0);
  int n = zmq_recv(router, request, 99, 0);
  assert_true(n > 0);
  request[n] = 0;
  return k;
}

static void welcome(both_t *t, void *router, const unsigned char *id, int k) {
  mr__link_head_t head;
  char frame[4096] = {0};
  size_t n = MR__LINK_TOKEN + mr__link_spec_write(&t->spec, frame + sizeof head + MR__LINK_TOKEN,
                                                  sizeof frame - sizeof head - MR__LINK_TOKEN);
  mr__link_head(&head, MR__LINK_WELCOME, 0, 0, n, 0);
  memcpy(frame, &head, sizeof head);
  zmq_send(router, id, (size_t)k, ZMQ_SNDMORE);
  zmq_send(router, frame, sizeof head + n, 0);
}

/* A peer that answers requests with what comes to its mind. */
static void a_malformed_publisher_has_no_effect(void **state) {
  both_t t = {.spec = ends_spec(16)};
  void *context = zmq_ctx_new(), *router = zmq_socket(context, ZMQ_ROUTER);
  size_t n = sizeof t.address;
  int linger = 5000; /* ms; without any, libzmq 4.3 may abort in the middle of a message's parts */
  uint64_t x = 88172645463325252u;
  mr_listen_stats_t st = {0};
  mr_buf_t *b;
  zmq_setsockopt(router, ZMQ_LINGER, &linger, sizeof linger);
  assert_int_equal(zmq_bind(router, "tcp://127.0.0.1:*"), 0);
  zmq_getsockopt(router, ZMQ_LAST_ENDPOINT, t.address, &n);
  open_listen(&t, &t.spec);
  unsigned char id[256], bytes[400];
  char request[100];
  int k = asked_at(&t, router, id, request);
  assert_string_equal(request, "edge spec");
  welcome(&t, router, id, k);
  k = asked_at(&t, router, id, request);
  assert_string_equal(request, "edge 0 whole");
  for (int i = 0; i < 3000; i++) {
    mr__link_head_t head;
    size_t body = x % 200;
    for (size_t j = 0; j < sizeof bytes; j++)
      x ^= x << 13, x ^= x >> 7, x ^= x << 17, bytes[j] = (unsigned char)(x & (i % 2 ? 255 : 3));
    mr__link_head(&head, i % 5 ? MR__LINK_DATA : MR__LINK_WELCOME, 0, (int64_t)(x % 9), body,
                  i % 5 ? 1 : 0);
    memcpy(bytes, &head, sizeof head);
    zmq_send(router, id, (size_t)k, ZMQ_SNDMORE);
    zmq_send(router, bytes, sizeof head + body, i % 5 ? ZMQ_SNDMORE : 0);
    if (i % 5) zmq_send(router, bytes, x % 90, 0);
    if (i % 50 == 0) turn(&t);
  }
  for (int i = 0; st.malformed < 500 && i < PATIENCE; i++) turn(&t), mr_listen_stats(t.in, &st);
  assert_true(st.malformed >= 500);
  assert_int_equal(mr_listen_take(t.in, &b, 1), 0);
  mr_listen_close(t.in);
  zmq_close(router);
  zmq_ctx_term(context);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(buffers_come_whole_in_order_and_to_the_end),
      cmocka_unit_test(both_ends_report_what_a_late_subscriber_missed),
      cmocka_unit_test(one_that_is_busy_asks_for_no_more_than_its_window),
      cmocka_unit_test(a_publisher_that_was_started_again_is_gone_on_with),
      cmocka_unit_test(one_without_a_spec_learns_it_and_asks_for_nothing_else),
      cmocka_unit_test(other_buffers_than_expected_are_refused),
      cmocka_unit_test(a_client_of_a_server_learns_that_this_is_a_broadcast),
      cmocka_unit_test(a_malformed_publisher_has_no_effect),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
