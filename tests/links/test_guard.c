/* The guard of a bound socket: a peer that has spoken is not shown out for one that came later. */
// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <zmq.h>

#include "links/guard.h"

typedef struct guarded {
  void *context, *in;
  mr_guard_t *guard;
  int port;
} guarded_t;

static guarded_t guarded_socket(int most) {
  guarded_t s = {.context = zmq_ctx_new()};
  char at[64];
  size_t n = sizeof at;
  s.in = zmq_socket(s.context, ZMQ_PULL);
  s.guard = mr_guard_open(s.context, s.in, most, MR_GUARD_ANY_BYTES);
  assert_non_null(s.guard);
  assert_int_equal(zmq_bind(s.in, "tcp://127.0.0.1:*"), 0);
  assert_int_equal(zmq_getsockopt(s.in, ZMQ_LAST_ENDPOINT, at, &n), 0);
  s.port = atoi(strrchr(at, ':') + 1);
  return s;
}

static void close_guarded(guarded_t *s) {
  mr_guard_close(s->guard);
  zmq_close(s->in);
  zmq_ctx_term(s->context);
}

static void say(int fd, int n) { /* a message of n letters */
  char message[64] = {0, (char)n};
  memset(message + 2, 'a', (size_t)n);
  assert_int_equal(send(fd, message, (size_t)n + 2, MSG_NOSIGNAL), n + 2);
}

/* A sender of the protocol of libzmq (ZMTP 3.0) that has sent one message of n letters, or none;
   before one it must have heard the other side's READY. */
static int sender(int port, int n) {
  static const char ready[] = "\4\x1a\5READY\xbSocket-Type\0\0\0\4PUSH";
  struct sockaddr_in a = {.sin_family = AF_INET,
                          .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                          .sin_port = htons((uint16_t)port)};
  char hello[64] = {(char)0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f, 3};
  char heard[sizeof hello + sizeof ready - 1];
  memcpy(hello + 12, "NULL", 4);
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  assert_int_equal(connect(fd, (void *)&a, sizeof a), 0);
  assert_int_equal(send(fd, hello, sizeof hello, MSG_NOSIGNAL), sizeof hello);
  assert_int_equal(send(fd, ready, sizeof ready - 1, MSG_NOSIGNAL), sizeof ready - 1);
  if (!n) return fd;
  assert_int_equal(recv(fd, heard, sizeof heard, MSG_WAITALL), sizeof heard);
  return say(fd, n), fd;
}

/* Whether the other side has ended the connection; takes what it says. */
static bool has_ended(int fd) {
  char text[256];
  ssize_t k;
  while ((k = recv(fd, text, sizeof text, MSG_DONTWAIT)) > 0) continue;
  return k == 0 || errno != EAGAIN;
}

static void take_a_message(guarded_t *s) {
  zmq_msg_t m;
  zmq_msg_init(&m);
  assert_true(zmq_msg_recv(&m, s->in, 0) > 0);
  mr_guard_heard(s->guard, &m, true, false);
  zmq_msg_close(&m);
}

/* One who spoke speaks on, so that it is not the one that has been silent for longest, and is never
   shown out while of all others only `stay` are let stay. */
static void show_out_others(guarded_t *s, int spoke, int n, const int others[], int stay) {
  for (int ended = 0; ended < n - stay;) {
    struct pollfd p = {mr_guard_fd(s->guard), POLLIN, 0};
    say(spoke, 1), take_a_message(s);
    poll(&p, 1, 10);
    mr_guard_tend(s->guard);
    assert_false(has_ended(spoke));
    ended = 0;
    for (int i = 0; i < n; i++) ended += has_ended(others[i]);
  }
  assert_false(has_ended(spoke));
}

/* The message is taken first, as a busy owner does, and only then the events are heard. */
static void one_who_spoke_is_not_shown_out_for_a_newcomer(void **state) {
  guarded_t s = guarded_socket(1);
  int spoke = sender(s.port, 5), newcomer;
  take_a_message(&s);
  newcomer = sender(s.port, 0);
  show_out_others(&s, spoke, 1, &newcomer, 0);
  close(spoke), close(newcomer);
  close_guarded(&s);
}

/* Who was there before has gone, which no look around has noticed yet, and the next connection has
   its descriptor. */
static void one_who_spoke_by_a_descriptor_of_another_is_known(void **state) {
  guarded_t s = guarded_socket(1);
  int before = sender(s.port, 0), spoke, newcomer;
  char heard[256];
  while (mr_guard_wait_ms(s.guard) < 0) mr_guard_tend(s.guard);
  assert_true(recv(before, heard, sizeof heard, 0) > 0);
  close(before);
  spoke = sender(s.port, 5);
  take_a_message(&s);
  newcomer = sender(s.port, 0);
  show_out_others(&s, spoke, 1, &newcomer, 0);
  close(spoke), close(newcomer);
  close_guarded(&s);
}

static void one_who_spoke_is_known_among_many_who_came_with_it(void **state) {
  enum { MOST = 4, MANY = 24 };
  guarded_t s = guarded_socket(MOST);
  int others[MANY], spoke;
  for (int i = 0; i < MANY / 2; i++) others[i] = sender(s.port, 0);
  spoke = sender(s.port, 3);
  for (int i = MANY / 2; i < MANY; i++) others[i] = sender(s.port, 0);
  take_a_message(&s);
  show_out_others(&s, spoke, MANY, others, MOST - 1);
  for (int i = 0; i < MANY; i++) close(others[i]);
  close(spoke);
  close_guarded(&s);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(one_who_spoke_is_not_shown_out_for_a_newcomer),
      cmocka_unit_test(one_who_spoke_by_a_descriptor_of_another_is_known),
      cmocka_unit_test(one_who_spoke_is_known_among_many_who_came_with_it),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
