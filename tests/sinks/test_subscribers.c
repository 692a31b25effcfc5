/* Subscribers of a publisher: what each is sent, and what one that does not read costs whom. */
// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include <zmq.h>

#include "base/clock.h"
#include "sinks/subscribers.h"
#include "sinks/subscribers_private.h"

enum {
  MANY = 6000, /* more than all buffers on the way hold, at LONG bytes each */
  LONG = 4096,
  MARK = 1000000, /* numbers above it end what was sent before them */
  PATIENCE_MS = 600000,
  STRANGERS = MR__LISTENER_BURST - 1, /* who are let in at once, and one more */
  LAST = 400,                         /* messages just before a publisher is closed */
};

static void *context;

static void *subscriber(const mr_subscribers_t *g, const char *topic, int room) {
  void *s = zmq_socket(context, ZMQ_SUB);
  int none = 0;
  zmq_setsockopt(s, ZMQ_RCVHWM, &room, sizeof room);
  zmq_setsockopt(s, ZMQ_LINGER, &none, sizeof none);
  zmq_setsockopt(s, ZMQ_SUBSCRIBE, topic, strlen(topic));
  assert_int_equal(zmq_connect(s, mr_subscribers_address(g)), 0);
  return s;
}

/* How much later than it is connections come, for the rate at which they are accepted. */
static int64_t later_ns;

static bool pump(mr_subscribers_t *g) { return mr__subscribers_pump_at(g, mr_now_ns() + later_ns); }

/* The next message's text: -1 without one within ms, of "number" the number, else 0. */
static long next(void *s, int ms, char *topic) {
  char text[LONG];
  zmq_setsockopt(s, ZMQ_RCVTIMEO, &ms, sizeof ms);
  int k = zmq_recv(s, topic, 31, 0);
  if (k < 0) return -1;
  topic[k] = 0;
  k = zmq_recv(s, text, sizeof text - 1, 0);
  assert_true(k >= 0);
  text[k] = 0;
  return strcmp(topic, "number") ? 0 : strtol(text, NULL, 10);
}

/* Takes what one that hears the numbers has been sent and left, up to a mark that is sent behind
   it: messages come in order, so nothing is on its way then.  A mark may be lost like any message;
   then another one goes out.  Returns how many messages came; *numbers: those with one; *marks:
   sent. */
static long take_all(mr_subscribers_t *g, void *s, long *numbers, long *marks) {
  static long mark = MARK;
  char topic[32], text[32];
  long n = 0, v = -1;
  *numbers = *marks = 0;
  while (!*marks || v != mark) {
    pump(g);
    v = next(s, 10, topic);
    n += v >= 0, *numbers += v > 0 && v < MARK;
    if (v >= 0) continue;
    snprintf(text, sizeof text, "%ld", ++mark);
    mr_subscribers_send(g, "number", text);
    ++*marks;
  }
  return n;
}

/* Sends until the subscriber has heard of it, then until nothing is on its way any more. */
static void meet(mr_subscribers_t *g, void *s) {
  char topic[32];
  long numbers, marks;
  do {
    pump(g);
    mr_subscribers_send(g, "hello", "");
    pump(g);
  } while (next(s, 1, topic) < 0);
  take_all(g, s, &numbers, &marks);
}

static mr_subscribers_t *open_at(const char *address) {
  mr_diag_t diag = {0};
  mr_subscribers_t *g = mr_subscribers_open(address, &diag);
  if (!g) fail_msg("%s", diag.text);
  return g;
}

static void losses_of_a_slow_subscriber_are_counted_and_cost_no_other_anything(void **state) {
  mr_subscribers_t *g = open_at(*state);
  void *deaf = subscriber(g, "", 10), *well = subscriber(g, "number", 2000);
  mr_subscribers_stats_t st, before;
  char topic[32], text[32], ballast[LONG];
  long heard = 0, numbers, marks;
  memset(ballast, '.', sizeof ballast - 1);
  ballast[sizeof ballast - 1] = 0;
  meet(g, deaf);
  mr_subscribers_send(g, "number", "0");
  while (next(well, 1, topic) < 0) pump(g), mr_subscribers_send(g, "number", "0");
  take_all(g, well, &numbers, &marks), take_all(g, deaf, &numbers, &marks);
  mr_subscribers_stats(g, &before);
  for (long i = 1; i <= MANY; i++) {
    snprintf(text, sizeof text, "%ld", i);
    mr_subscribers_send(g, "number", text);
    mr_subscribers_send(g, "other",
                        ballast); /* only the subscriber that does not read has asked for it */
    while (heard < i) {           /* in step with the one that reads */
      zmq_pollitem_t either[] = {{.socket = well, .events = ZMQ_POLLIN},
                                 {.fd = mr_subscribers_fd(g), .events = ZMQ_POLLIN}};
      if (!pump(g)) zmq_poll(either, 2, -1);
      long v = next(well, 0, topic);
      if (v > 0 && v < MARK) assert_int_equal(v, ++heard);
    }
  }
  mr_subscribers_stats(g, &st);
  assert_int_equal(heard, MANY);
  assert_int_equal(st.present, 2);
  assert_true(st.dropped > MANY / 2);
  /* Each message either waits for it or is counted; every second one has no number. */
  long got = take_all(g, deaf, &numbers, &marks);
  mr_subscribers_stats(g, &st);
  assert_true(numbers > 0);
  assert_int_equal(got + st.dropped - before.dropped, 2 * MANY + marks);
  mr_subscribers_send(g, "number", "1"); /* it gets what comes now */
  take_all(g, deaf, &numbers, &marks);
  assert_int_equal(numbers, 1);
  zmq_close(deaf), zmq_close(well);
  mr_subscribers_close(g, 0);
}

static void the_last_message_arrives_before_the_publisher_closes(void **state) {
  mr_subscribers_t *g = open_at(*state);
  void *s = subscriber(g, "", 5000);
  char topic[32], text[16];
  mr_subscribers_stats_t st;
  meet(g, s);
  /* ZeroMQ gives back room for 500 messages at once: 500 of the 1000 may still be taken. */
  for (int i = 1; i <= LAST; i++) {
    snprintf(text, sizeof text, "%d", i);
    mr_subscribers_send(g, "number", text);
  }
  mr_subscribers_stats(g, &st);
  assert_int_equal(st.dropped, 0);
  mr_subscribers_close(g, PATIENCE_MS);
  for (int i = 1; i <= LAST; i++) assert_int_equal(next(s, PATIENCE_MS, topic), i);
  zmq_close(s);
}

static void subscribers_come_and_go(void **state) {
  mr_subscribers_t *g = open_at(*state);
  mr_subscribers_stats_t st;
  for (int i = 0; i < 10; i++) {
    void *s = subscriber(g, "", 100);
    meet(g, s);
    zmq_close(s);
    do pump(g), mr_subscribers_stats(g, &st);
    while (st.present);
  }
  assert_int_equal(st.dropped, 0);
  mr_subscribers_close(g, 0);
}

static void a_text_without_subscribers_is_not_built(void **state) {
  mr_subscribers_t *g = open_at(*state);
  mr_subscribers_stats_t st;
  static char text[LONG];
  memset(text, 'x', sizeof text - 1);
  assert_false(mr_subscribers_topic(g, "nobody is there"));
  void *s = subscriber(g, "", 1);
  meet(g, s);
  mr_subscribers_stats(g, &st);
  int64_t before = st.dropped;
  long made = 0;
  for (; mr_subscribers_topic(g, "it does not read"); made++) {
    mr_subscribers_text(g, text);
    pump(g);
  }
  mr_subscribers_stats(g, &st);
  assert_true(made > 0);
  assert_int_equal(st.dropped, before + 1); /* the one whose text was not made */
  zmq_close(s);
  do pump(g), mr_subscribers_stats(g, &st);
  while (st.present);
  assert_false(mr_subscribers_topic(g, "nobody is there any more"));
  mr_subscribers_close(g, 0);
}

/* Connects until no connection is accepted any more; how many were. */
static int let_in_at(mr__listener_t *d, int64_t now_ns) {
  struct sockaddr_un at;
  socklen_t n;
  assert_int_equal(mr__listener_local(d->address + 6, &at, &n, NULL), MR_OK);
  for (int k = 0;; k++) {
    int knocks = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(knocks, (void *)&at, n), 0);
    int fd = mr__listener_accept(d, now_ns);
    close(knocks);
    if (fd < 0) return k;
    close(fd);
  }
}

static void newcomers_are_let_in_at_a_limited_rate(void **state) {
  const int64_t start = 5000000000, each = MR__LISTENER_EACH_MS * INT64_C(1000000);
  mr__listener_t d;
  char address[64];
  snprintf(address, sizeof address, "ipc://@mr-newcomers-%ld", (long)getpid());
  assert_int_equal(mr__listener_open(&d, address, NULL), MR_OK);
  assert_int_equal(mr__listener_wait_ms(&d), -1);
  assert_int_equal(let_in_at(&d, start), MR__LISTENER_BURST);
  assert_int_equal(mr__listener_wait_ms(&d), MR__LISTENER_EACH_MS + 1);
  assert_int_equal(mr__listener_accept(&d, start + each - 1), -1); /* the one that stands outside */
  int fd = mr__listener_accept(&d, start + each);
  assert_true(fd >= 0);
  close(fd);
  assert_int_equal(let_in_at(&d, start + 4 * each), 3);
  assert_int_equal(let_in_at(&d, start + 1000 * each),
                   MR__LISTENER_BURST); /* rest is not saved up */
  mr__listener_close(&d);
}

/* What libzmq itself would end the process for (a peer of long ago that is gone at once) and what
   is no peer at all. */
static void strangers_get_nothing_and_do_no_harm(void **state) {
  static const unsigned char old[] = {0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f, 1, 2, 0, 0};
  static const unsigned char web[] = "GET / HTTP/1.1\r\n\r\n";
  char address[64], *name = address + strlen("ipc://@");
  snprintf(address, sizeof address, "ipc://@mr-strangers-%ld", (long)getpid());
  mr_subscribers_t *g = open_at(address);
  mr_subscribers_stats_t st;
  struct sockaddr_un at = {.sun_family = AF_UNIX};
  memcpy(at.sun_path + 1, name, strlen(name));
  for (int i = 0; i < STRANGERS; i++) {
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    socklen_t n = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name));
    assert_int_equal(connect(fd, (void *)&at, n), 0);
    if (i % 3 == 0) assert_true(send(fd, old, sizeof old, MSG_NOSIGNAL) > 0);
    if (i % 3 == 1) assert_true(send(fd, web, sizeof web, MSG_NOSIGNAL) > 0);
    pump(g);
    close(fd);
    pump(g);
  }
  do pump(g), mr_subscribers_stats(g, &st);
  while (st.present);
  void *s = subscriber(g, "", 100);
  meet(g, s);
  zmq_close(s);
  mr_subscribers_close(g, 0);
}

static void a_subscription_names_whole_parts_of_a_path(void **state) {
  static const struct {
    const char *sub, *topic;
    bool gets;
  } cases[] = {{"a", "ab", false},
               {"a", "a", true},
               {"a", "a/b", true},
               {"a/", "a/b", true},
               {"a/", "ab", false},
               {"a/b", "a/bc", false},
               {"a/b", "a/b/c", true},
               {"", "anything", true},
               {"train/loss", "train/loss", true},
               {"train/loss", "train/loss_scale", false},
               {"rec", "record", false}};
  char topic[32];
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    mr_subscribers_t *g = open_at(*state);
    void *s = subscriber(g, cases[i].sub, 100);
    zmq_setsockopt(s, ZMQ_SUBSCRIBE, "hello", 5);
    zmq_setsockopt(s, ZMQ_SUBSCRIBE, "number", 6);
    meet(g, s);
    mr_subscribers_send(g, cases[i].topic, "text");
    mr_subscribers_send(g, "number", "1");
    long first;
    do pump(g);
    while ((first = next(s, 10, topic)) < 0);
    if ((first == 0) != cases[i].gets || (!first && strcmp(topic, cases[i].topic)))
      fail_msg("a subscriber to \"%s\" is sent \"%s\" on \"%s\"", cases[i].sub, topic,
               cases[i].topic);
    zmq_close(s);
    mr_subscribers_close(g, 0);
  }
}

static void topics_without_a_subscription_are_not_sent(void **state) {
  mr_subscribers_t *g = open_at(*state);
  mr_subscribers_stats_t st;
  char topic[32];
  void *s = subscriber(g, "", 100);
  zmq_setsockopt(s, ZMQ_SUBSCRIBE, "hello", 5);
  meet(g, s);
  zmq_setsockopt(s, ZMQ_UNSUBSCRIBE, "", 0);
  while (mr_subscribers_topic(g, "other")) {
    mr_subscribers_text(g, "");
    pump(g);
    next(s, 1, topic); /* one that does not read would be sent nothing either */
  }
  assert_true(mr_subscribers_topic(g, "hello"));
  mr_subscribers_text(g, "");
  mr_subscribers_stats(g, &st);
  assert_int_equal(st.dropped, 0);
  zmq_close(s);
  mr_subscribers_close(g, 0);
}

/* ---- strangers ---- */

static int connect_to(const char *name) {
  struct sockaddr_un at = {.sun_family = AF_UNIX};
  socklen_t n = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name));
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  memcpy(at.sun_path + 1, name, strlen(name));
  assert_int_equal(connect(fd, (void *)&at, n), 0);
  return fd;
}

/* Raises the limit of descriptors; false if the machine does not allow as many. */
static bool may_open(rlim_t n) {
  struct rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_max < n) return false;
  if (limit.rlim_cur < n) limit.rlim_cur = n;
  return setrlimit(RLIMIT_NOFILE, &limit) == 0;
}

static void silent_connections_do_not_keep_a_subscriber_out(void **state) {
  enum { PLACES = MR_SUBSCRIBERS_MAX };
  char address[64], *name = address + strlen("ipc://@");
  static int fd[PLACES];
  if (!may_open(12 * PLACES)) skip();
  snprintf(address, sizeof address, "ipc://@mr-silent-%ld", (long)getpid());
  mr_subscribers_t *g = open_at(address);
  mr_subscribers_stats_t st = {0};
  for (int i = 0; i < PLACES; i++) {
    fd[i] = connect_to(name);
    later_ns += MR__LISTENER_EACH_MS * INT64_C(1000000);
    pump(g);
  }
  later_ns += MR__LISTENER_EACH_MS * INT64_C(1000000);
  void *s = subscriber(g, "", 100);
  meet(g, s);
  mr_subscribers_stats(g, &st);
  assert_true(st.present > 0 && st.present <= PLACES);
  assert_int_equal(st.refused, 0);
  for (int i = 0; i < PLACES; i++) close(fd[i]);
  zmq_close(s);
  mr_subscribers_close(g, 0);
}

/* The most that a publisher serves hear what it sends; the next one is refused and counted. */
static void as_many_subscribers_as_there_are_places_are_served_and_one_more_is_counted(
    void **state) {
  enum { PLACES = MR_SUBSCRIBERS_MAX };
  static void *s[PLACES];
  char address[64], topic[32];
  if (!may_open(12 * PLACES)) skip();
  snprintf(address, sizeof address, "ipc://@mr-many-%ld", (long)getpid());
  mr_subscribers_t *g = open_at(address);
  mr_subscribers_stats_t st = {0};
  for (int i = 0; i < PLACES; i++) {
    char own[32];
    snprintf(own, sizeof own, "number-%d", i);
    later_ns += MR__LISTENER_EACH_MS * INT64_C(1000000);
    s[i] = subscriber(g, own, 100);
    do pump(g), mr_subscribers_send(g, own, ""), pump(g);
    while (next(s[i], 1, topic) < 0);
  }
  mr_subscribers_stats(g, &st);
  assert_int_equal(st.present, PLACES);
  assert_int_equal(st.refused, 0);
  later_ns += MR__LISTENER_EACH_MS * INT64_C(1000000);
  int fd = connect_to(address + strlen("ipc://@"));
  do pump(g), mr_subscribers_stats(g, &st);
  while (!st.refused);
  assert_int_equal(st.full, 1);
  assert_int_equal(st.present, PLACES);
  close(fd);
  for (int i = 0; i < PLACES; i++) zmq_close(s[i]);
  mr_subscribers_close(g, 0);
}

/* A SUB of ZeroMQ by hand whose messages have no end, or are subscriptions without end. */
static void one_that_says_too_much_is_sent_away(void **state) {
  static const unsigned char greeting[64] = {0xff, 0,    0, 0, 0,   0,   0,   0,
                                             0,    0x7f, 3, 0, 'N', 'U', 'L', 'L'};
  static const char ready[] = "\x04\x19\x05READY\x0bSocket-Type\0\0\0\x03SUB";
  for (int kind = 0; kind < 2; kind++) {
    char address[64], *name = address + strlen("ipc://@");
    unsigned char block[1000];
    snprintf(address, sizeof address, "ipc://@mr-much-%ld-%d", (long)getpid(), kind);
    mr_subscribers_t *g = open_at(address);
    mr_subscribers_stats_t st;
    int fd = connect_to(name);
    assert_int_equal(send(fd, greeting, sizeof greeting, MSG_NOSIGNAL), sizeof greeting);
    assert_int_equal(send(fd, ready, sizeof ready - 1, MSG_NOSIGNAL), sizeof ready - 1);
    do pump(g), mr_subscribers_stats(g, &st);
    while (!st.present);
    for (unsigned turn = 0; st.present; turn++) {
      memset(block, kind ? (int)(turn % 251) : 0, sizeof block);
      for (size_t at = 0; at < sizeof block; at += 200) {
        block[at] = kind ? 0 : 1 /* more follow */, block[at + 1] = 198, block[at + 2] = 1;
        memcpy(block + at + 3, &turn, sizeof turn);
      }
      if (send(fd, block, sizeof block, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 && errno == EPIPE) break;
      pump(g);
      mr_subscribers_stats(g, &st);
      if (turn > 10000000) fail_msg("it may say what it likes");
    }
    do pump(g), mr_subscribers_stats(g, &st);
    while (st.present);
    close(fd);
    mr_subscribers_close(g, 0);
  }
}

static void impossible_addresses_are_refused(void **state) {
  static const char *const bad[] = {"tcp://127.0.0.1", "tcp://127.0.0.1:99999999", "udp://x",
                                    "ipc://", "ipc:///no/such/folder/x"};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    mr_diag_t diag = {0};
    assert_null(mr_subscribers_open(bad[i], &diag));
    assert_true(diag.code < 0 && strlen(diag.text) > 10);
  }
}

int main(void) {
  static char tcp[] = "tcp://127.0.0.1:*", file[64];
  snprintf(file, sizeof file, "ipc:///tmp/mr-subscribers-%ld", (long)getpid());
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_prestate(losses_of_a_slow_subscriber_are_counted_and_cost_no_other_anything,
                                tcp),
      cmocka_unit_test_prestate(the_last_message_arrives_before_the_publisher_closes, tcp),
      cmocka_unit_test_prestate(subscribers_come_and_go, tcp),
      {"the_same_over_a_socket_file", the_last_message_arrives_before_the_publisher_closes, NULL,
       NULL, file},
      cmocka_unit_test_prestate(subscribers_come_and_go, file),
      cmocka_unit_test_prestate(a_text_without_subscribers_is_not_built, tcp),
      cmocka_unit_test(newcomers_are_let_in_at_a_limited_rate),
      cmocka_unit_test(strangers_get_nothing_and_do_no_harm),
      cmocka_unit_test_prestate(a_subscription_names_whole_parts_of_a_path, tcp),
      cmocka_unit_test_prestate(topics_without_a_subscription_are_not_sent, tcp),
      cmocka_unit_test(silent_connections_do_not_keep_a_subscriber_out),
      cmocka_unit_test(as_many_subscribers_as_there_are_places_are_served_and_one_more_is_counted),
      cmocka_unit_test(one_that_says_too_much_is_sent_away),
      cmocka_unit_test(impossible_addresses_are_refused),
  };
  context = zmq_ctx_new();
  zmq_ctx_set(context, ZMQ_MAX_SOCKETS, 2 * MR_SUBSCRIBERS_MAX);
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  zmq_ctx_term(context);
  struct stat st;
  return failed || lstat(file + 6, &st) == 0; /* the file is gone */
}
