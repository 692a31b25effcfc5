/* Peers that do not belong to a link: malformed messages, strangers, wrong keys.  All fail closed
   while the stream of the right peer continues. */
/* clang-format off */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#include <arpa/inet.h>
#include <errno.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zmq.h>

#include "links/curve_key.h"
#include "links/link_private.h"
#include "links/listen.h"
#include "links/wire.h"
#include "tests/links/ends.h"

typedef struct both {
  mr_spec_t spec;
  mr_pool_t *pool;
  mr_link_t *out, *in;
  int64_t next, got;
  char address[64];
} both_t;

static char folder[64];

static const char *in_folder(const char *name) {
  static char path[6][128];
  static int turn;
  char *p = path[turn++ % 6];
  snprintf(p, sizeof path[0], "%s/%s", folder, name);
  return p;
}

static void open_both(both_t *t, const char *out_key, const char *in_key) {
  mr_diag_t diag = {0};
  *t = (both_t){.spec = ends_spec(ENDS_WIDTH)};
  t->pool = mr_pool_create(&t->spec, 20);
  mr_link_cfg_t out = {
      .name = "edge", .address = "tcp://127.0.0.1:*", .bind = true, .key = out_key, .copy = true};
  if (out_key) out.peers = in_folder("reader.pub");
  t->out = mr_link_open_out(&out, &t->spec, 0, &diag);
  if (!t->out) fail_msg("%s", diag.text);
  snprintf(t->address, sizeof t->address, "%s", mr_link_address(t->out));
  mr_link_cfg_t in = {.name = "edge", .address = t->address, .key = in_key, .copy = true};
  if (in_key) in.peers = in_folder("sender.pub");
  t->in = mr_link_open_in(&in, &t->spec, NULL, &diag);
  if (!t->in) fail_msg("%s", diag.text);
}

static void close_both(both_t *t) {
  mr_link_close(t->in);
  mr_link_close(t->out);
  mr_pool_destroy(t->pool);
}

/* A turn of both ends; every buffer that comes is looked at. */
static void turn(both_t *t) {
  mr_diag_t diag = {0};
  mr_buf_t *b;
  if (t->next < 1 << 30) ends_send(t->out, t->pool, &t->spec, &t->next, 1 << 30);
  if (mr_link_pump(t->out, &diag) < 0 || mr_link_pump(t->in, &diag) < 0) fail_msg("%s", diag.text);
  while (mr_link_take(t->in, &b, 1)) {
    assert_true(ends_is(b, &t->spec, t->got++));
    mr_buf_unref(b);
  }
}

static void carry(both_t *t, int64_t more) {
  for (int64_t until = t->got + more; t->got < until;) {
    turn(t);
    mr_link_wait(t->in, 1);
  }
}

static int64_t malformed(const both_t *t) {
  mr_link_stats_t st;
  mr_link_stats(t->out, &st);
  return st.malformed;
}

/* ---- malformed messages ---- */

static void *stranger(void *context, const both_t *t) {
  int zero = 0;
  void *s = zmq_socket(context, ZMQ_DEALER);
  zmq_setsockopt(s, ZMQ_LINGER, &zero, sizeof zero);
  assert_int_equal(zmq_connect(s, t->address), 0);
  return s;
}

/* One message of every kind with lengths, versions and numbers that cannot be. */
static size_t bad_message(unsigned *seed, char *at, size_t cap) {
  mr__link_head_t head;
  size_t body = (size_t)rand_r(seed) % 300;
  mr__link_head(&head, 1 + rand_r(seed) % (MR__LINK_KIND_N + 1), (uint64_t)rand_r(seed), 5, body,
                0);
  switch (rand_r(seed) % 6) {
    case 0: head.magic[rand_r(seed) % 4] ^= 1; break;
    case 1: head.version++; break;
    case 2: head.body += 1 + (uint32_t)rand_r(seed); break;
    case 3: head.number = -1; break;
    case 4: head.frames = 7; break;
    default: head.zero = 1;
  }
  memcpy(at, &head, sizeof head);
  for (size_t i = 0; i < body; i++) at[sizeof head + i] = (char)rand_r(seed);
  size_t n = sizeof head + body;
  if (rand_r(seed) % 4 == 0) n = (size_t)rand_r(seed) % n;
  return n < cap ? n : cap;
}

static void malformed_messages_are_counted_and_the_stream_resumes(void **state) {
  both_t t;
  char message[512];
  unsigned seed = 5;
  open_both(&t, NULL, NULL);
  carry(&t, 20);
  void *context = zmq_ctx_new(), *s = stranger(context, &t);
  int64_t sent = 0, before = malformed(&t);
  for (int i = 0; i < 3000; i++) {
    size_t n = bad_message(&seed, message, sizeof message);
    int more = i % 50 == 0 ? ZMQ_SNDMORE : 0;
    if (zmq_send(s, message, n, more) >= 0 && more) zmq_send(s, message, n, 0);
    sent++;
    if (i % 20 == 0) turn(&t);
  }
  while (malformed(&t) - before < sent) carry(&t, 1);
  carry(&t, 100);
  zmq_close(s);
  zmq_ctx_term(context);
  close_both(&t);
}

/* More messages than a socket has room for, by one that is gone before anybody looks at them.
   libzmq 4.3 with heartbeats of its own ends the process two of them later (its issue 4364). */
static void a_stranger_that_fills_the_queue_and_goes_does_not_end_the_process(void **state) {
  both_t t;
  char message[512];
  unsigned seed = 7;
  open_both(&t, NULL, NULL);
  carry(&t, 20);
  int most = 4 * 2 * MR_LINK_WINDOW_MAX;
  void *context = zmq_ctx_new(), *s = stranger(context, &t);
  zmq_setsockopt(s, ZMQ_SNDHWM, &most, sizeof most);
  for (int i = 0; i < most; i++) {
    size_t n = bad_message(&seed, message, sizeof message);
    assert_true(zmq_send(s, message, n, 0) >= 0);
  }
  zmq_close(s);
  zmq_ctx_term(context);
  usleep(3500000);
  carry(&t, 100);
  close_both(&t);
}

/* ---- well-formed messages that cannot be ---- */

static void put_head(char *at, mr__link_kind_t kind, uint64_t session, int64_t number, size_t body,
                     int frames) {
  mr__link_head_t head;
  mr__link_head(&head, kind, session, number, body, frames);
  memcpy(at, &head, sizeof head);
}

typedef struct hello {
  mr__link_hello_t h;
  int64_t word[MR_LINK_WORDS];
} hello_t;

static void say_hello(void *socket, int64_t number, hello_t hello) {
  char at[sizeof(mr__link_head_t) + sizeof hello];
  size_t n = sizeof hello.h + hello.h.n_words * sizeof *hello.word;
  strcpy(hello.h.name, "edge");
  put_head(at, MR__LINK_HELLO, 77, number, n, 0);
  memcpy(at + sizeof(mr__link_head_t), &hello, n);
  assert_true(zmq_send(socket, at, sizeof(mr__link_head_t) + n, 0) >= 0);
}

/* The next message's kind; text gets its body. */
static int hear_kind(void *socket, both_t *t, char *text, size_t cap) {
  mr__link_head_t head;
  char at[1024];
  int n;
  while ((n = zmq_recv(socket, at, sizeof at, ZMQ_DONTWAIT)) < 0) carry(t, 1);
  assert_true((size_t)n >= sizeof head && (size_t)n <= sizeof at);
  memcpy(&head, at, sizeof head);
  snprintf(text, cap, "%.*s", (int)((size_t)n - sizeof head), at + sizeof head);
  return head.kind;
}

static void a_peer_that_asks_for_a_point_that_cannot_be_is_refused(void **state) {
  both_t t;
  char text[256];
  mr_link_point_t point = {.number = 7, .position = 5000};
  open_both(&t, NULL, NULL);
  mr_link_refuse(t.out, &point, "no batch starts there");
  carry(&t, 20);
  void *context = zmq_ctx_new(), *s = stranger(context, &t);
  say_hello(s, 5, (hello_t){{.limit = 8, .n_words = 5}, {0}});
  assert_int_equal(hear_kind(s, &t, text, sizeof text), MR__LINK_REFUSE);
  assert_non_null(strstr(text, "a state of 5 numbers"));
  say_hello(s, 7, (hello_t){{.limit = 8, .position = 5000}, {0}});
  assert_int_equal(hear_kind(s, &t, text, sizeof text), MR__LINK_REFUSE);
  assert_string_equal(text, "no batch starts there");
  carry(&t, 100);
  zmq_close(s);
  zmq_ctx_term(context);
  close_both(&t);
}

/* It asks again and again and reads none of the answers: what waits for it is bounded, and is there
   when it reads.  It comes by a second address, whose connections have small buffers in the kernel:
   those of the first are as large as the machine is set. */
static void a_peer_that_never_reads_has_few_answers_waiting(void **state) {
  enum { ASKED = 2000, PATIENCE = 6000, QUEUED = 2 * MR__LINK_WINDOW + 16 };
  enum { KERNEL = 8192 /* which it doubles */, BATCH = 8192 /* bytes that libzmq takes at once */ };
  both_t t = {.spec = ends_spec(ENDS_WIDTH)};
  mr_diag_t diag = {0};
  char at[4096];
  int one = 1, small = KERNEL, heard = 0, least = sizeof at;
  size_t n_address = sizeof t.address;
  mr_link_cfg_t cfg = {.name = "edge", .address = "tcp://127.0.0.1:*", .bind = true, .copy = true};
  if (!(t.out = mr_link_open_out(&cfg, &t.spec, 0, &diag))) fail_msg("%s", diag.text);
  zmq_setsockopt(t.out->k.socket, ZMQ_SNDBUF, &small, sizeof small);
  assert_int_equal(zmq_bind(t.out->k.socket, "tcp://127.0.0.1:*"), 0);
  zmq_getsockopt(t.out->k.socket, ZMQ_LAST_ENDPOINT, t.address, &n_address);
  void *context = zmq_ctx_new(), *s = zmq_socket(context, ZMQ_DEALER);
  zmq_setsockopt(s, ZMQ_RCVHWM, &one, sizeof one);
  zmq_setsockopt(s, ZMQ_RCVBUF, &small, sizeof small);
  zmq_setsockopt(s, ZMQ_LINGER, &(int){0}, sizeof(int));
  assert_int_equal(zmq_connect(s, t.address), 0);
  char hello[sizeof(mr__link_head_t) + sizeof(mr__link_hello_t)];
  mr__link_hello_t body = {.limit = 8};
  strcpy(body.name, "edge");
  put_head(hello, MR__LINK_HELLO, 77, 0, sizeof body, 0);
  memcpy(hello + sizeof(mr__link_head_t), &body, sizeof body);
  for (int asked = 0; asked < ASKED;) {
    bool said = zmq_send(s, hello, sizeof hello, ZMQ_DONTWAIT) >= 0;
    asked += said;
    if (said && asked % 8) continue;
    if (mr_link_pump(t.out, &diag) < 0) fail_msg("%s", diag.text);
    if (!said) mr_link_wait(t.out, 1);
  }
  /* Its last message is malformed: the refusal of it shows that every question has arrived. */
  for (bool said = false; !malformed(&t); mr_link_wait(t.out, 1)) {
    said = said || zmq_send(s, "none", 4, ZMQ_DONTWAIT) >= 0;
    if (mr_link_pump(t.out, &diag) < 0) fail_msg("%s", diag.text);
  }
  for (int silent = 0; silent < (heard ? 20 : PATIENCE);) {
    int n = zmq_recv(s, at, sizeof at, ZMQ_DONTWAIT);
    heard += n >= 0;
    if (n >= 0 && n < least) least = n;
    silent = n >= 0 ? 0 : silent + 1;
    if (mr_link_pump(t.out, &diag) < 0) fail_msg("%s", diag.text);
    if (n < 0) mr_link_wait(t.out, 10);
  }
  int most = QUEUED + 2 * (2 * KERNEL + BATCH) / least;
  zmq_close(s);
  zmq_ctx_term(context);
  mr_link_close(t.out);
  if (!heard) fail_msg("no answer of %d", ASKED);
  if (heard > most) fail_msg("%d of %d answers, want at most %d", heard, ASKED, most);
}

static void numbers_that_would_overflow_are_not_believed(void **state) {
  static const struct {
    int64_t number, position, limit, word;
  } bad[] = {{INT64_MAX, 0, INT64_MAX, 0},
             {MR_LINK_NUMBER_MAX + 1, 0, MR_LINK_NUMBER_MAX + 2, 0},
             {5, INT64_C(1) << 62, 8, 0},
             {5, -1, 8, 0},
             {5, 0, 4, 0},
             {5, 0, INT64_MAX, 0},
             {5, 0, 8, -1}};
  both_t t;
  mr_link_point_t point;
  open_both(&t, NULL, NULL);
  carry(&t, 20);
  void *context = zmq_ctx_new(), *s = stranger(context, &t);
  int64_t before = malformed(&t), n = sizeof bad / sizeof *bad;
  for (int i = 0; i < n; i++)
    say_hello(s, bad[i].number,
              (hello_t){{.limit = bad[i].limit, .position = bad[i].position, .n_words = 1},
                        {bad[i].word}});
  while (malformed(&t) - before < n) carry(&t, 1);
  assert_int_equal(mr_link_asked(t.out, &point), MR_OK);
  zmq_close(s);
  zmq_ctx_term(context);
  close_both(&t);
}

/* ---- a sender that lies ---- */

enum { LIE_WIDTH = 2000, LIES = 10 };

/* DATA of a whole batch, but for the lie. */
static void send_lie(void *socket, uint64_t session, int lie, int frames) {
  char at[1024], payload[ENDS_BATCH * LIE_WIDTH] = {0};
  enum { LABELS = ENDS_BATCH * 4 };
  mr__link_data_t d = {
      .size = sizeof payload + LABELS, .n = ENDS_BATCH, .position = ENDS_BATCH, .apart = 1};
  size_t arrays = ENDS_BATCH * 17 + LABELS, n = sizeof(mr__link_head_t) + sizeof d + arrays;
  size_t bytes = sizeof payload;
  memset(at, 0, sizeof at);
  switch (lie) {
    case 0: d.size = 1000, bytes = 1000 - LABELS; break; /* fewer bytes than its records */
    case 1: bytes--; break;
    case 2: d.n = 2, n -= 2 * 21; break; /* more bytes than its records */
    case 3: d.flags = 2; break;
    case 4: d.first = INT32_MAX; break;
    case 5: d.position = INT64_MAX; break;
    case 6: d.apart = 2; break;        /* the labels, too short by far */
    case 7: d.apart = 3; break;        /* a frame that does not come */
    case 8: d.apart |= 4; break;       /* of a field that is none */
    case 9: at[n - LABELS] = 3; break; /* a class that is none */
  }
  put_head(at, MR__LINK_DATA, session, 0, n - sizeof(mr__link_head_t), frames);
  memcpy(at + sizeof(mr__link_head_t), &d, sizeof d);
  zmq_send(socket, at, n, ZMQ_SNDMORE | ZMQ_DONTWAIT);
  zmq_send(socket, payload, bytes, ZMQ_DONTWAIT);
}

/* A DEALER that knocks, welcomes and lies; true once the receiving end has refused it. */
static bool lie_to(void *socket, const mr_spec_t *spec, int lie) {
  char at[4096];
  mr__link_head_t head;
  int n = zmq_recv(socket, at, sizeof at, ZMQ_DONTWAIT);
  if (n < (int)sizeof head) return false;
  memcpy(&head, at, sizeof head);
  if (head.kind == MR__LINK_REFUSE) return true;
  if (head.kind != MR__LINK_HELLO) return false;
  size_t body = MR__LINK_TOKEN;
  memset(at, 0, sizeof at);
  body += mr__link_spec_write(spec, at + sizeof head + body, sizeof at - sizeof head - body);
  put_head(at, MR__LINK_WELCOME, head.session, head.number, body, 0);
  zmq_send(socket, at, sizeof head + body, ZMQ_DONTWAIT);
  send_lie(socket, head.session, lie, 1);
  return false;
}

static void knock(void *socket) {
  char at[sizeof(mr__link_head_t) + sizeof(mr__link_knock_t)] = {0};
  put_head(at, MR__LINK_KNOCK, 0, 0, sizeof(mr__link_knock_t), 0);
  strcpy(at + sizeof(mr__link_head_t), "edge");
  assert_true(zmq_send(socket, at, sizeof at, 0) >= 0);
}

static void a_sender_that_lies_is_refused_and_an_honest_one_is_served(void **state) {
  mr_diag_t diag = {0};
  mr_link_cfg_t cfg = {.name = "edge", .address = "tcp://127.0.0.1:*", .bind = true, .copy = true};
  for (int lie = 0; lie < LIES; lie++) {
    both_t t = {.spec = ends_spec(LIE_WIDTH)};
    mr_buf_t *b;
    t.in = mr_link_open_in(&cfg, &t.spec, NULL, &diag);
    assert_non_null(t.in);
    snprintf(t.address, sizeof t.address, "%s", mr_link_address(t.in));
    void *context = zmq_ctx_new(), *s = stranger(context, &t);
    for (knock(s); !lie_to(s, &t.spec, lie); mr_link_wait(t.in, 1)) {
      if (mr_link_pump(t.in, &diag) < 0) fail_msg("lie %d: %s", lie, diag.text);
      if (mr_link_take(t.in, &b, 1)) fail_msg("lie %d is believed", lie);
    }
    zmq_close(s), zmq_ctx_term(context);
    mr_link_cfg_t comes = {.name = "edge", .address = t.address, .copy = true};
    t.pool = mr_pool_create(&t.spec, 20);
    t.out = mr_link_open_out(&comes, &t.spec, 0, &diag);
    carry(&t, 20);
    close_both(&t);
  }
}

static void a_server_that_lies_is_reported_in_a_sentence(void **state) {
  for (int lie = 0; lie < LIES; lie++) {
    mr_spec_t spec = ends_spec(LIE_WIDTH);
    mr_diag_t diag = {0};
    char at[64];
    size_t n = sizeof at;
    mr_buf_t *b;
    void *context = zmq_ctx_new(), *s = zmq_socket(context, ZMQ_DEALER);
    zmq_setsockopt(s, ZMQ_LINGER, &(int){0}, sizeof(int));
    assert_int_equal(zmq_bind(s, "tcp://127.0.0.1:*"), 0);
    zmq_getsockopt(s, ZMQ_LAST_ENDPOINT, at, &n);
    mr_link_cfg_t cfg = {.name = "edge", .address = at, .copy = true};
    mr_link_t *in = mr_link_open_in(&cfg, &spec, NULL, &diag);
    assert_non_null(in);
    while (mr_link_pump(in, &diag) >= 0) {
      lie_to(s, &spec, lie);
      if (mr_link_take(in, &b, 1)) fail_msg("lie %d is believed", lie);
      mr_link_wait(in, 1);
    }
    assert_int_equal(diag.code, MR_ERR_DATA);
    assert_non_null(strstr(diag.text, "buffer 0 came with sizes"));
    mr_link_close(in);
    zmq_close(s), zmq_ctx_term(context);
  }
}

static void a_stranger_with_good_manners_does_not_take_the_stream_over(void **state) {
  both_t t;
  mr_diag_t diag = {0};
  mr_buf_t *b;
  open_both(&t, NULL, NULL);
  carry(&t, 20);
  mr_link_cfg_t cfg = {.name = "edge", .address = t.address};
  mr_link_t *other = mr_link_open_in(&cfg, &t.spec, NULL, &diag);
  for (int i = 0; i < 300; i++) {
    carry(&t, 1);
    mr_link_pump(other, &diag);
    assert_int_equal(mr_link_take(other, &b, 1), 0);
  }
  mr_link_close(other);
  close_both(&t);
}

static void another_links_peer_is_sent_away(void **state) {
  both_t t;
  mr_diag_t diag = {0};
  open_both(&t, NULL, NULL);
  mr_link_cfg_t cfg = {.name = "other", .address = t.address};
  mr_link_t *other = mr_link_open_in(&cfg, &t.spec, NULL, &diag);
  while (mr_link_pump(other, &diag) >= 0) carry(&t, 1);
  assert_non_null(strstr(diag.text, "another link answers"));
  mr_link_close(other);
  close_both(&t);
}

static void a_server_of_batches_that_are_too_large_is_reported(void **state) {
  mr_spec_t spec = ends_spec(16);
  mr_diag_t diag = {0};
  char at[64];
  size_t n = sizeof at;
  spec.field[0].dim[0] = INT64_C(1) << 40;
  void *context = zmq_ctx_new(), *s = zmq_socket(context, ZMQ_DEALER);
  zmq_setsockopt(s, ZMQ_LINGER, &(int){0}, sizeof(int));
  assert_int_equal(zmq_bind(s, "tcp://127.0.0.1:*"), 0);
  zmq_getsockopt(s, ZMQ_LAST_ENDPOINT, at, &n);
  mr_link_cfg_t cfg = {.name = "edge", .address = at, .copy = true};
  mr_link_t *in = mr_link_open_in(&cfg, NULL, NULL, &diag);
  for (; mr_link_pump(in, &diag) >= 0; mr_link_wait(in, 1)) lie_to(s, &spec, 0);
  assert_int_equal(diag.code, MR_ERR_DATA);
  assert_non_null(strstr(diag.text, "larger than 8 GiB"));
  mr_link_close(in);
  zmq_close(s), zmq_ctx_term(context);
}

/* ---- another version ---- */

static void say_foreign(void *socket, mr__link_kind_t kind) {
  mr__link_head_t head;
  mr__link_head(&head, kind, 77, 0, 0, 0);
  head.version++;
  zmq_send(socket, &head, sizeof head, ZMQ_DONTWAIT);
}

static void a_newcomer_of_another_version_gets_a_reason(void **state) {
  both_t t;
  mr_link_stats_t st;
  char text[256];
  open_both(&t, NULL, NULL);
  carry(&t, 20);
  void *context = zmq_ctx_new(), *s = stranger(context, &t);
  say_foreign(s, MR__LINK_REFUSE); /* no end answers a refusal: two would do so for ever */
  say_foreign(s, MR__LINK_HELLO);
  assert_int_equal(hear_kind(s, &t, text, sizeof text), MR__LINK_REFUSE);
  mr_link_stats(t.out, &st);
  assert_int_equal(st.refused, 1);
  assert_non_null(strstr(mr_link_refusal(t.out), "the peer speaks version 4"));
  carry(&t, 100);
  zmq_close(s);
  zmq_ctx_term(context);
  close_both(&t);
}

static void a_server_of_another_version_is_reported(void **state) {
  mr_spec_t spec = ends_spec(16);
  mr_diag_t diag = {0};
  char at[64];
  size_t n = sizeof at;
  void *context = zmq_ctx_new(), *s = zmq_socket(context, ZMQ_DEALER);
  zmq_setsockopt(s, ZMQ_LINGER, &(int){0}, sizeof(int));
  assert_int_equal(zmq_bind(s, "tcp://127.0.0.1:*"), 0);
  zmq_getsockopt(s, ZMQ_LAST_ENDPOINT, at, &n);
  mr_link_cfg_t cfg = {.name = "edge", .address = at};
  mr_link_t *in = mr_link_open_in(&cfg, &spec, NULL, &diag);
  for (say_foreign(s, MR__LINK_REFUSE); mr_link_pump(in, &diag) >= 0; mr_link_wait(in, 1))
    say_foreign(s, MR__LINK_REFUSE);
  assert_int_equal(diag.code, MR_ERR_DATA);
  assert_non_null(strstr(diag.text,
                         "the peer speaks version 4 of the links' protocol, this "
                         "program version 3"));
  mr_link_close(in);
  diag = (mr_diag_t){0};
  mr_listen_t *listen = mr_listen_open(&cfg, NULL, 0, &diag);
  while (mr_listen_pump(listen, &diag) >= 0) say_foreign(s, MR__LINK_WELCOME), usleep(1000);
  assert_non_null(strstr(diag.text, "the peer speaks version 4"));
  mr_listen_close(listen);
  zmq_close(s), zmq_ctx_term(context);
}

/* Bytes that are no ZeroMQ at all, and a frame that claims to be enormous. */
static void raw_bytes_close_their_own_connection(void **state) {
  static const char *const greeting[] = {"GET / HTTP/1.1\r\n\r\n",
                                         "\xff\xff\xff\xff\xff\xff\xff\xff", ""};
  both_t t;
  open_both(&t, NULL, NULL);
  carry(&t, 20);
  struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  a.sin_port = htons((uint16_t)atoi(strrchr(t.address, ':') + 1));
  int fd[30];
  for (int i = 0; i < 30; i++) {
    fd[i] = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(connect(fd[i], (struct sockaddr *)&a, sizeof a), 0);
    const char *text = greeting[i % 3];
    assert_true(send(fd[i], text, strlen(text), MSG_NOSIGNAL) >= 0);
    carry(&t, 3);
  }
  carry(&t, 100);
  for (int i = 0; i < 30; i++) close(fd[i]);
  close_both(&t);
}

static int connect_raw(const both_t *t) {
  struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  a.sin_port = htons((uint16_t)atoi(strrchr(t->address, ':') + 1));
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof a), 0);
  return fd;
}

/* Whether the other side has closed it, after whatever it said. */
static bool is_closed(int fd) {
  char said[256];
  ssize_t n;
  while ((n = recv(fd, said, sizeof said, MSG_DONTWAIT)) > 0) continue;
  return n == 0 || (errno != EAGAIN && errno != EINTR);
}

/* They stay open and say nothing: most of them are closed again, whatever their address. */
static void connections_are_limited_in_number(void **state) {
  enum { MANY = 200, MOST = 40 };
  both_t t;
  int fd[MANY], open = MANY;
  open_both(&t, NULL, NULL);
  carry(&t, 20);
  for (int i = 0; i < MANY; i++) fd[i] = connect_raw(&t), carry(&t, 1);
  while (open > MOST) {
    carry(&t, 1);
    open = 0;
    for (int i = 0; i < MANY; i++) open += !is_closed(fd[i]);
  }
  carry(&t, 100);
  for (int i = 0; i < MANY; i++) close(fd[i]);
  close_both(&t);
}

/* By hand, as ZeroMQ's sockets send no message that has no end. */
static void a_message_without_end_closes_its_own_connection(void **state) {
  static const unsigned char greeting[64] = {0xff, 0,    0, 0, 0,   0,   0,   0,
                                             0,    0x7f, 3, 0, 'N', 'U', 'L', 'L'};
  static const char ready[] =
      "\x04\x1c\x05READY\x0bSocket-Type\0\0\0\x06"
      "DEALER";
  both_t t;
  char block[10000];
  open_both(&t, NULL, NULL);
  carry(&t, 20);
  int fd = connect_raw(&t);
  assert_int_equal(send(fd, greeting, sizeof greeting, MSG_NOSIGNAL), sizeof greeting);
  assert_int_equal(send(fd, ready, sizeof ready - 1, MSG_NOSIGNAL), sizeof ready - 1);
  memset(block, 0, sizeof block);
  for (size_t at = 0; at < sizeof block; at += 200) block[at] = 1, block[at + 1] = (char)198;
  ssize_t n = 0, got = -1;
  int why = 0;
  /* Where the window is full when the other end closes, send returns EAGAIN as long as the
     kernel keeps the rest of the connection; recv reports its end at once. */
  for (size_t at = 0; got && (n >= 0 || why == EAGAIN);
       at = (at + (size_t)(n > 0 ? n : 0)) % sizeof block) {
    char heard[200];
    n = send(fd, block + at, sizeof block - at, MSG_NOSIGNAL | MSG_DONTWAIT);
    why = errno; /* turn changes it */
    got = recv(fd, heard, sizeof heard, MSG_DONTWAIT);
    turn(&t);
  }
  carry(&t, 100);
  close(fd);
  close_both(&t);
}

/* ---- keys ---- */

static void keys_are_private_and_never_overwritten(void **state) {
  char pub[MR_CURVE_KEY_TEXT], sec[MR_CURVE_KEY_TEXT], again[MR_CURVE_KEY_TEXT];
  struct stat st;
  mr_diag_t diag = {0};
  assert_int_equal(mr_curve_key_make(in_folder("one"), &diag), MR_OK);
  assert_int_equal(stat(in_folder("one.key"), &st), 0);
  assert_int_equal(st.st_mode & 07777, 0600);
  assert_int_equal(mr_curve_key_read_secret(in_folder("one.key"), pub, sec, &diag), MR_OK);
  assert_int_equal(mr_curve_key_read_public(in_folder("one.pub"), again, &diag), MR_OK);
  assert_string_equal(pub, again);
  assert_int_equal(mr_curve_key_make(in_folder("one"), &diag), MR_ERR_IO);
  assert_non_null(strstr(diag.text, "never overwritten"));
  unlink(in_folder("one.pub"));
  assert_int_equal(mr_curve_key_make(in_folder("one"), NULL), MR_ERR_IO);
  assert_int_equal(mr_curve_key_read_secret(in_folder("one.key"), pub, again, NULL), MR_OK);
  assert_string_equal(sec, again);
  chmod(in_folder("one.key"), 0640);
  diag = (mr_diag_t){0};
  assert_int_equal(mr_curve_key_read_secret(in_folder("one.key"), pub, sec, &diag), MR_ERR_CONFIG);
  assert_non_null(strstr(diag.text, "chmod 600"));
  chmod(in_folder("one.key"), 0600);
  FILE *f = fopen(in_folder("one.key"), "w"); /* the public half of another pair */
  assert_int_equal(mr_curve_key_make(in_folder("two"), NULL), MR_OK);
  assert_int_equal(mr_curve_key_read_public(in_folder("two.pub"), again, NULL), MR_OK);
  fprintf(f, "public %s\nsecret %s\n", again, sec);
  fclose(f);
  diag = (mr_diag_t){0};
  assert_int_equal(mr_curve_key_read_secret(in_folder("one.key"), pub, sec, &diag), MR_ERR_DATA);
  assert_non_null(strstr(diag.text, "do not belong together"));
  assert_int_equal(mr_curve_key_read_public(in_folder("absent.pub"), pub, NULL), MR_ERR_IO);
  assert_int_equal(mr_curve_key_read_secret("/dev/null", pub, sec, NULL), MR_ERR_CONFIG);
}

static void with_keys_the_stream_flows(void **state) {
  both_t t;
  open_both(&t, in_folder("sender.key"), in_folder("reader.key"));
  carry(&t, 300);
  assert_int_equal(malformed(&t), 0);
  close_both(&t);
}

/* Opens a receiving end that must never get anything, while the right one does. */
static void keep_out(both_t *t, const char *key, const char *peers) {
  mr_diag_t diag = {0};
  mr_link_stats_t st;
  mr_link_cfg_t cfg = {.name = "edge", .address = t->address, .key = key, .peers = peers};
  mr_link_t *other = mr_link_open_in(&cfg, &t->spec, NULL, &diag);
  if (!other) fail_msg("%s", diag.text);
  for (int i = 0; i < 150; i++) {
    carry(t, 1);
    mr_link_pump(other, NULL);
  }
  mr_link_stats(other, &st);
  assert_int_equal(st.connections + st.received, 0);
  mr_link_close(other);
}

static void a_peer_that_is_not_on_the_list_gets_nothing(void **state) {
  both_t t;
  open_both(&t, in_folder("sender.key"), in_folder("reader.key"));
  carry(&t, 20);
  keep_out(&t, in_folder("stranger.key"), in_folder("sender.pub"));
  keep_out(&t, in_folder("reader.key"), in_folder("stranger.pub")); /* of another server */
  keep_out(&t, NULL, NULL);
  carry(&t, 100);
  assert_int_equal(malformed(&t), 0);
  close_both(&t);
}

static void beyond_this_machine_only_with_keys(void **state) {
  mr_spec_t spec = ends_spec(16);
  mr_diag_t diag = {0};
  mr_link_cfg_t cfg = {.name = "edge", .address = "tcp://0.0.0.0:*", .bind = true};
  assert_null(mr_link_open_out(&cfg, &spec, 0, &diag));
  assert_non_null(strstr(diag.text, "millrace keys"));
  diag = (mr_diag_t){0};
  cfg.key = in_folder("sender.key");
  assert_null(mr_link_open_out(&cfg, &spec, 0, &diag));
  assert_non_null(strstr(diag.text, "without peers"));
  cfg.peers = in_folder("reader.pub");
  diag = (mr_diag_t){0};
  mr_link_t *l = mr_link_open_out(&cfg, &spec, 0, &diag);
  if (!l) fail_msg("%s", diag.text);
  mr_link_close(l);
}

/* ---- the group ---- */

static int make_keys(void **state) {
  static const char *const name[] = {"sender", "reader", "stranger"};
  snprintf(folder, sizeof folder, "/tmp/mr-keys-XXXXXX");
  if (!mkdtemp(folder)) return -1;
  for (int i = 0; i < 3; i++)
    if (mr_curve_key_make(in_folder(name[i]), NULL) < 0) return -1;
  return 0;
}

static int drop_keys(void **state) {
  static const char *const name[] = {"sender", "reader", "stranger", "one", "two"};
  char file[32];
  for (int i = 0; i < 10; i++) {
    snprintf(file, sizeof file, "%s.%s", name[i / 2], i % 2 ? "pub" : "key");
    unlink(in_folder(file));
  }
  return rmdir(folder);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(malformed_messages_are_counted_and_the_stream_resumes),
      cmocka_unit_test(a_stranger_that_fills_the_queue_and_goes_does_not_end_the_process),
      cmocka_unit_test(a_peer_that_asks_for_a_point_that_cannot_be_is_refused),
      cmocka_unit_test(a_peer_that_never_reads_has_few_answers_waiting),
      cmocka_unit_test(numbers_that_would_overflow_are_not_believed),
      cmocka_unit_test(a_sender_that_lies_is_refused_and_an_honest_one_is_served),
      cmocka_unit_test(a_server_that_lies_is_reported_in_a_sentence),
      cmocka_unit_test(a_stranger_with_good_manners_does_not_take_the_stream_over),
      cmocka_unit_test(another_links_peer_is_sent_away),
      cmocka_unit_test(a_server_of_batches_that_are_too_large_is_reported),
      cmocka_unit_test(a_newcomer_of_another_version_gets_a_reason),
      cmocka_unit_test(a_server_of_another_version_is_reported),
      cmocka_unit_test(raw_bytes_close_their_own_connection),
      cmocka_unit_test(connections_are_limited_in_number),
      cmocka_unit_test(a_message_without_end_closes_its_own_connection),
      cmocka_unit_test(keys_are_private_and_never_overwritten),
      cmocka_unit_test(with_keys_the_stream_flows),
      cmocka_unit_test(a_peer_that_is_not_on_the_list_gets_nothing),
      cmocka_unit_test(beyond_this_machine_only_with_keys),
  };
  return cmocka_run_group_tests(tests, make_keys, drop_keys);
}
