/* Plain requests: batches for a program of a few lines, from a link and from a publisher that no
   client can block. */
/* clang-format off */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#include <unistd.h>
#include <zmq.h>

#include "links/cast.h"
#include "tests/links/ends.h"

enum { PATIENCE = 100000, PARTS = 5 };

/* A peer that knows no more than ZeroMQ. */
typedef struct peer {
  void *context, *socket;
  char head[1024];
  int n; /* frames that came last */
  size_t bytes[PARTS];
  unsigned char first; /* of the data */
  uint64_t key;        /* the first one */
  int32_t label;
} peer_t;

static peer_t peer(const char *address) {
  peer_t p = {.context = zmq_ctx_new()};
  int zero = 0;
  p.socket = zmq_socket(p.context, ZMQ_DEALER);
  zmq_setsockopt(p.socket, ZMQ_LINGER, &zero, sizeof zero);
  assert_int_equal(zmq_connect(p.socket, address), 0);
  return p;
}

static void gone(peer_t *p) {
  zmq_close(p->socket);
  zmq_ctx_term(p->context);
}

static void ask(peer_t *p, const char *text) {
  assert_true(zmq_send(p->socket, text, strlen(text), 0) >= 0);
}

static void keep(peer_t *p, int part, const void *data, size_t n) {
  p->bytes[part] = n;
  if (part == 0) snprintf(p->head, sizeof p->head, "%.*s", (int)n, (const char *)data);
  if (part == 1 && n) memcpy(&p->key, data, sizeof p->key);
  if (part == 3 && n) p->first = *(const unsigned char *)data;
  if (part == 4 && n) memcpy(&p->label, data, sizeof p->label);
}

/* What came, a batch or a head alone; false: nothing yet. */
static bool has_answer(peer_t *p) {
  bool came = true, more = true;
  for (p->n = 0; came && more; p->n++) {
    zmq_msg_t m;
    zmq_msg_init(&m);
    came = zmq_msg_recv(&m, p->socket, p->n ? 0 : ZMQ_DONTWAIT) >= 0;
    assert_true(p->n < PARTS);
    if (came) keep(p, p->n, zmq_msg_data(&m), zmq_msg_size(&m));
    more = zmq_msg_more(&m);
    zmq_msg_close(&m);
  }
  assert_true(!came || p->n == 1 || p->n == PARTS);
  return came;
}

/* Turns, not seconds: a machine that stands still for a while fails nothing. */
static bool later(int *turns) { return ++*turns > PATIENCE; }

/* ---- a link ---- */

typedef struct end {
  mr_spec_t spec;
  mr_pool_t *pool;
  mr_link_t *out;
  int64_t next, total;
} end_t;

static void open_end(end_t *t, int64_t first, int64_t total) {
  mr_diag_t diag = {0};
  mr_link_cfg_t cfg = {
      .name = "edge", .address = "tcp://127.0.0.1:*", .bind = true, .linger_ms = 1};
  *t = (end_t){.spec = ends_spec(ENDS_WIDTH), .next = first, .total = total};
  t->pool = mr_pool_create(&t->spec, 20);
  t->out = mr_link_open_out(&cfg, &t->spec, first, &diag);
  if (!t->out) fail_msg("%s", diag.text);
}

static void close_end(end_t *t) {
  mr_link_close(t->out);
  mr_pool_destroy(t->pool);
}

static void turn(end_t *t) {
  mr_diag_t diag = {0};
  ends_send(t->out, t->pool, &t->spec, &t->next, t->total);
  if (mr_link_pump(t->out, &diag) < 0) fail_msg("%s", diag.text);
  mr_link_wait(t->out, 1);
  usleep(200); /* so that PATIENCE is some time too */
}

static void answered(end_t *t, peer_t *p, const char *text) {
  int turns = 0;
  ask(p, text);
  while (!has_answer(p)) {
    if (later(&turns)) fail_msg("no answer to %s", text);
    turn(t);
  }
}

static void is_batch(const peer_t *p, int number) {
  char want[512];
  snprintf(want, sizeof want,
           "{\"number\": %d, \"epoch\": %d, \"position\": %d, \"fields\": [{\"name\": \"image\", "
           "\"dtype\": \"|u1\", \"shape\": [4, %d]}, {\"name\": \"label\", \"dtype\": \"<i4\", "
           "\"shape\": [4]}], \"end\": false}",
           number, number / 1000, (number + 1) * ENDS_BATCH, ENDS_WIDTH);
  assert_string_equal(p->head, want);
  assert_int_equal(p->n, PARTS);
  assert_int_equal(p->bytes[1], ENDS_BATCH * 8);
  assert_int_equal(p->bytes[2], ENDS_BATCH);
  assert_int_equal(p->bytes[3], ENDS_BATCH * ENDS_WIDTH);
  assert_int_equal(p->bytes[4], ENDS_BATCH * 4);
  assert_int_equal(p->key, number * ENDS_BATCH);
  assert_int_equal(p->label, number * ENDS_BATCH % 3);
  assert_int_equal(p->first, number % 251);
}

static void each_batch_is_asked_for_and_comes_once(void **state) {
  end_t t;
  char text[32];
  open_end(&t, 0, 30);
  peer_t p = peer(mr_link_address(t.out));
  for (int i = 0; i < 30; i++) {
    snprintf(text, sizeof text, "edge %d", i);
    answered(&t, &p, text);
    is_batch(&p, i);
  }
  answered(&t, &p, "edge 30");
  assert_string_equal(p.head, "{\"number\": 30, \"end\": true}");
  assert_true(mr_link_left(t.out) && mr_link_done(t.out));
  gone(&p), close_end(&t);
}

static void batches_that_are_not_released_are_given_again(void **state) {
  end_t t;
  open_end(&t, 0, 1 << 20);
  peer_t p = peer(mr_link_address(t.out)), again;
  answered(&t, &p, "edge 0");
  answered(&t, &p, "edge 1");
  answered(&t, &p, "edge 1");
  is_batch(&p, 1);
  gone(&p);
  again = peer(mr_link_address(t.out));
  int turns = 0;
  while (!has_answer(&again)) { /* the one before still has its place for a while */
    if (later(&turns)) fail_msg("nobody answers the one who came back");
    ask(&again, "edge 1");
    for (int i = 0; i < 100 && !later(&turns); i++) turn(&t);
  }
  is_batch(&again, 1);
  gone(&again), close_end(&t);
}

static void a_batch_that_is_gone_makes_the_stream_start_anew(void **state) {
  static const char *const text[] = {"edge 2", "edge 700"};
  mr_link_point_t point;
  for (int i = 0; i < 2; i++) {
    end_t t;
    open_end(&t, 5, 1 << 20);
    peer_t p = peer(mr_link_address(t.out));
    int turns = 0;
    for (ask(&p, text[i]); mr_link_asked(t.out, &point) == MR_AGAIN && !later(&turns);) turn(&t);
    assert_int_equal(mr_link_asked(t.out, &point), MR_END);
    assert_int_equal(point.number, i ? 700 : 2);
    gone(&p), close_end(&t);
  }
}

static void a_message_that_is_no_request_has_no_effect(void **state) {
  static const char *const bad[] = {"edge",
                                    "edge ",
                                    "edge x",
                                    "edge -1",
                                    "edge 1 ",
                                    "edg 1",
                                    " edge 1",
                                    "other 0",
                                    "edge 1\n",
                                    "",
                                    "edge 1234567890123456789",
                                    "edge 999999999999999999"};
  enum { N = sizeof bad / sizeof *bad };
  mr_link_stats_t stats = {0};
  mr_link_point_t point;
  end_t t;
  open_end(&t, 0, 1 << 20);
  peer_t p = peer(mr_link_address(t.out));
  for (int i = 0; i < N; i++) ask(&p, bad[i]);
  for (int turns = 0; stats.malformed < N && !later(&turns);) {
    turn(&t);
    mr_link_stats(t.out, &stats);
  }
  assert_int_equal(stats.malformed, N);
  assert_int_equal(mr_link_asked(t.out, &point), MR_AGAIN);
  assert_false(has_answer(&p));
  answered(&t, &p, "edge 0");
  is_batch(&p, 0);
  gone(&p), close_end(&t);
}

static void a_number_where_the_stream_cannot_start_is_answered_with_the_reason(void **state) {
  end_t t;
  mr_link_point_t point = {.number = 700};
  open_end(&t, 0, 1 << 20);
  mr_link_refuse(t.out, &point, "no \"batch\" starts there");
  peer_t p = peer(mr_link_address(t.out));
  answered(&t, &p, "edge 700");
  assert_string_equal(p.head,
                      "{\"number\": 700, \"end\": false, \"error\": "
                      "\"no \\\"batch\\\" starts there\"}");
  answered(&t, &p, "edge 0");
  is_batch(&p, 0);
  gone(&p), close_end(&t);
}

/* ---- a publisher ---- */

typedef struct publisher {
  mr_spec_t spec;
  mr_pool_t *pool;
  mr_cast_t *cast;
  int64_t next;
} publisher_t;

static void open_publisher(publisher_t *t) {
  mr_diag_t diag = {0};
  mr_link_cfg_t cfg = {.name = "edge", .address = "tcp://127.0.0.1:*", .window = 4, .linger_ms = 1};
  *t = (publisher_t){.spec = ends_spec(ENDS_WIDTH)};
  t->pool = mr_pool_create(&t->spec, 1); /* nothing may hold a buffer back */
  t->cast = mr_cast_open(&cfg, &t->spec, &diag);
  if (!t->cast) fail_msg("%s", diag.text);
}

static void close_publisher(publisher_t *t) {
  mr_cast_close(t->cast);
  mr_pool_destroy(t->pool);
}

static void publish(publisher_t *t, int n) {
  while (n--) {
    mr_buf_t *b = ends_make(t->pool, &t->spec, t->next);
    assert_non_null(b);
    b->seq = t->next++;
    assert_true(mr_cast_give(t->cast, b));
    mr_buf_unref(b);
  }
}

static void pump_until(publisher_t *t, peer_t *p) {
  for (int turns = 0; !has_answer(p); usleep(200)) {
    if (later(&turns)) fail_msg("no answer");
    mr_cast_pump(t->cast);
  }
}

static void hear_all(publisher_t *t, int n) {
  mr_cast_stats_t stats = {0};
  for (int turns = 0; stats.subscribers < n; usleep(200)) {
    if (later(&turns)) fail_msg("%d subscribers, want %d", (int)stats.subscribers, n);
    mr_cast_pump(t->cast);
    mr_cast_stats(t->cast, &stats);
  }
}

static void subscribers_come_and_go_and_miss_what_they_are_late_for(void **state) {
  publisher_t t;
  mr_cast_stats_t stats;
  open_publisher(&t);
  publish(&t, 10); /* without a client */
  peer_t a = peer(mr_cast_address(t.cast)), b = peer(mr_cast_address(t.cast));
  ask(&a, "edge 0"), ask(&b, "edge 0");
  hear_all(&t, 2);
  publish(&t, 1);
  pump_until(&t, &a), pump_until(&t, &b);
  is_batch(&a, 10), is_batch(&b, 10);
  gone(&a);
  publish(&t, 20); /* the last four are kept: 27 to 30 */
  ask(&b, "edge 11");
  pump_until(&t, &b);
  is_batch(&b, 27);
  ask(&b, "edge 28");
  pump_until(&t, &b);
  is_batch(&b, 28);
  mr_cast_stats(t.cast, &stats);
  assert_int_equal(stats.published, 31);
  assert_int_equal(stats.sent, 4);
  assert_int_equal(stats.dropped, 16);
  assert_int_equal(stats.subscribers, 2);
  gone(&b), close_publisher(&t);
}

static void a_client_that_never_reads_blocks_no_other(void **state) {
  publisher_t t;
  mr_cast_stats_t stats = {0};
  open_publisher(&t);
  peer_t deaf = peer(mr_cast_address(t.cast)), well = peer(mr_cast_address(t.cast));
  ask(&deaf, "edge 0");
  hear_all(&t, 1);
  for (int i = 0; i < 4000; i++) {
    char text[32];
    snprintf(text, sizeof text, "edge %d", i);
    ask(&deaf, text);
    publish(&t, 1);
    mr_cast_pump(t.cast);
  }
  ask(&well, "edge 4000");
  hear_all(&t, 2);
  publish(&t, 1);
  pump_until(&t, &well);
  is_batch(&well, 4000);
  mr_cast_stats(t.cast, &stats);
  assert_int_equal(stats.published, 4001);
  assert_true(stats.dropped > 0);
  gone(&deaf), gone(&well), close_publisher(&t);
}

static void connected_clients_learn_of_the_end(void **state) {
  publisher_t t;
  open_publisher(&t);
  peer_t p = peer(mr_cast_address(t.cast));
  ask(&p, "edge 0");
  hear_all(&t, 1);
  assert_false(mr_cast_done(t.cast));
  mr_cast_end(t.cast, 0);
  pump_until(&t, &p);
  assert_string_equal(p.head, "{\"number\": 0, \"end\": true}");
  assert_true(mr_cast_done(t.cast));
  gone(&p), close_publisher(&t);
}

static void beyond_this_machine_only_with_keys(void **state) {
  mr_diag_t diag = {0};
  mr_spec_t spec = ends_spec(ENDS_WIDTH);
  mr_link_cfg_t cfg = {.name = "edge", .address = "tcp://0.0.0.0:*"};
  assert_null(mr_cast_open(&cfg, &spec, &diag));
  assert_non_null(strstr(diag.text, "needs CURVE"));
  spec.flow = MR_FLOW_METRICS, diag = (mr_diag_t){0};
  cfg.address = "tcp://127.0.0.1:*";
  assert_null(mr_cast_open(&cfg, &spec, &diag));
  assert_int_equal(diag.code, MR_ERR_SHAPE);
}

/* A subscriber learns the spec with all names of classes in one message. */
static void names_that_no_subscriber_could_learn_are_refused(void **state) {
  static char name[5 << 20];
  const char *const class_name[] = {name};
  const mr_dataset_t dataset = {"long", 1, class_name};
  mr_diag_t diag = {0};
  mr_spec_t spec = ends_spec(ENDS_WIDTH);
  mr_link_cfg_t cfg = {.name = "edge", .address = "tcp://127.0.0.1:*"};
  memset(name, 'x', sizeof name - 1);
  spec.dataset = &dataset;
  assert_null(mr_cast_open(&cfg, &spec, &diag));
  assert_int_equal(diag.code, MR_ERR_SHAPE);
}

/* Nor could it read more names than a spec may have, however short they are. */
static void more_names_than_a_subscriber_reads_are_refused(void **state) {
  enum { MANY = 100001 };
  static const char *class_name[MANY];
  const mr_dataset_t most = {"most", MANY - 1, class_name}, many = {"many", MANY, class_name};
  const mr_classes_t own = {MANY, class_name};
  mr_diag_t diag = {0};
  mr_spec_t spec = ends_spec(ENDS_WIDTH);
  mr_link_cfg_t cfg = {.name = "edge", .address = "tcp://127.0.0.1:*"};
  for (int i = 0; i < MANY; i++) class_name[i] = "x";
  spec.dataset = &most;
  mr_cast_t *c = mr_cast_open(&cfg, &spec, &diag);
  if (!c) fail_msg("%s", diag.text);
  mr_cast_close(c);
  for (int of_field = 0; of_field < 2; of_field++) {
    spec.dataset = of_field ? NULL : &many, spec.field[0].classes = of_field ? &own : NULL;
    diag = (mr_diag_t){0};
    assert_null(mr_cast_open(&cfg, &spec, &diag));
    assert_int_equal(diag.code, MR_ERR_SHAPE);
    assert_non_null(strstr(diag.text, "at most 100000 names of classes (here 100001)"));
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(each_batch_is_asked_for_and_comes_once),
      cmocka_unit_test(batches_that_are_not_released_are_given_again),
      cmocka_unit_test(a_batch_that_is_gone_makes_the_stream_start_anew),
      cmocka_unit_test(a_message_that_is_no_request_has_no_effect),
      cmocka_unit_test(a_number_where_the_stream_cannot_start_is_answered_with_the_reason),
      cmocka_unit_test(subscribers_come_and_go_and_miss_what_they_are_late_for),
      cmocka_unit_test(a_client_that_never_reads_blocks_no_other),
      cmocka_unit_test(connected_clients_learn_of_the_end),
      cmocka_unit_test(beyond_this_machine_only_with_keys),
      cmocka_unit_test(names_that_no_subscriber_could_learn_are_refused),
      cmocka_unit_test(more_names_than_a_subscriber_reads_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
