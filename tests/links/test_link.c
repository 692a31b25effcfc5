/* Links within one process, where every turn of both ends can be chosen. */
// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include <sys/wait.h>
#include <unistd.h>

#include "links/link_private.h"
#include "tests/links/ends.h"

typedef struct pair {
  mr_spec_t spec;
  mr_pool_t *pool;
  mr_link_t *out, *in;
  int64_t next;
} pair_t;

static char address[64];

/* The sending end binds, the receiving end comes. */
static void open_pair(pair_t *p, int64_t width, int window, bool copy, bool shared) {
  mr_diag_t diag = {0};
  *p = (pair_t){.spec = ends_spec(width)};
  p->pool = shared ? mr_pool_create_shared(&p->spec, 40) : mr_pool_create(&p->spec, 40);
  mr_link_cfg_t out = {
      .name = "edge", .address = "tcp://127.0.0.1:*", .bind = true, .window = window, .copy = copy};
  p->out = mr_link_open_out(&out, &p->spec, 0, &diag);
  if (!p->out) fail_msg("%s", diag.text);
  snprintf(address, sizeof address, "%s", mr_link_address(p->out));
  mr_link_cfg_t in = {.name = "edge", .address = address, .window = window, .copy = copy};
  p->in = mr_link_open_in(&in, &p->spec, NULL, &diag);
  if (!p->in) fail_msg("%s", diag.text);
}

static void close_pair(pair_t *p) {
  mr_link_close(p->in);
  mr_link_close(p->out);
  mr_pool_destroy(p->pool);
}

static void turn(mr_link_t *l) {
  mr_diag_t diag = {0};
  if (mr_link_pump(l, &diag) < 0) fail_msg("%s", diag.text);
}

/* Everything arrives; each buffer is looked at while it is held.  The last acknowledgement may
   overtake the sender's word that this was all, as each goes its own way through two threads. */
static void carry(pair_t *p, int64_t total) {
  mr_buf_t *b[3];
  int64_t got = 0;
  while (!mr_link_done(p->out) || !mr_link_over(p->in)) {
    ends_send(p->out, p->pool, &p->spec, &p->next, total);
    turn(p->out);
    turn(p->in);
    size_t k = mr_link_take(p->in, b, 3);
    for (size_t i = 0; i < k; i++) {
      assert_true(ends_is(b[i], &p->spec, got++));
      mr_buf_unref(b[i]);
    }
    if (!k) mr_link_wait(p->in, 1);
  }
  assert_int_equal(got, total);
}

static void every_buffer_arrives_once_and_in_order(void **state) {
  static const struct {
    int64_t width;
    int window;
    bool copy, shared;
  } cases[] = {{16, 8, true, false},         {ENDS_WIDTH, 8, true, false},
               {ENDS_WIDTH, 1, true, false}, {16, 3, false, true},
               {ENDS_WIDTH, 8, false, true}, {ENDS_WIDTH, 1, false, true},
               {ENDS_WIDTH, 8, false, false}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    pair_t p;
    mr_link_stats_t in, out;
    open_pair(&p, cases[i].width, cases[i].window, cases[i].copy, cases[i].shared);
    carry(&p, 1500);
    mr_link_stats(p.in, &in);
    mr_link_stats(p.out, &out);
    assert_int_equal(in.received, 1500);
    assert_int_equal(in.repeated + in.malformed + out.malformed, 0);
    assert_int_equal(out.released, 1500);
    assert_int_equal(in.by_reference, out.by_reference);
    if (!cases[i].copy && cases[i].shared) assert_true(in.by_reference > 1400);
    if (!cases[i].shared) assert_int_equal(in.by_reference, 0);
    close_pair(&p);
  }
}

/* Without this a server that waits for its first trainer would keep a processor busy. */
static void an_end_without_a_peer_sleeps(void **state) {
  mr_diag_t diag = {0};
  mr_spec_t spec = ends_spec(1);
  mr_link_cfg_t bind = {.name = "edge", .address = "tcp://127.0.0.1:*", .bind = true, .window = 4};
  for (int receives = 0; receives < 2; receives++) {
    mr_link_t *l = receives ? mr_link_open_in(&bind, &spec, NULL, &diag)
                            : mr_link_open_out(&bind, &spec, 0, &diag);
    struct pollfd fd[MR_LINK_FDS];
    int ms;
    if (!l) fail_msg("%s", diag.text);
    for (int i = 0; i < 3; i++) turn(l);
    mr_link_fds(l, fd, &ms);
    assert_true(ms > 0);
    mr_link_close(l);
  }
}

/* What it has to acknowledge cannot be said to a peer that is gone: it waits between two tries. */
static void a_receiver_with_an_acknowledgement_due_sleeps_when_its_peer_is_gone(void **state) {
  enum { TURNS = 1000 };
  pair_t p;
  mr_buf_t *b[4];
  size_t k = 0;
  int sleeps = 0;
  open_pair(&p, 16, 4, true, false);
  while (k < 4) {
    ends_send(p.out, p.pool, &p.spec, &p.next, 100);
    turn(p.out);
    turn(p.in);
    k += mr_link_take(p.in, b + k, 4 - k);
    mr_link_wait(p.in, 1);
  }
  mr_link_close(p.out);
  while (mr__link_say(p.in, MR__LINK_BEAT, 0, NULL, 0)) usleep(1000);
  while (k) mr_buf_unref(b[--k]);
  turn(p.in);
  usleep(2 * 1000 * MR__LINK_ACK_MS); /* now it is due */
  for (int i = 0; i < TURNS; i++) {
    struct pollfd fd[MR_LINK_FDS];
    int ms;
    turn(p.in);
    mr_link_fds(p.in, fd, &ms);
    sleeps += ms > 0;
  }
  if (sleeps < TURNS / 2) fail_msg("it would sleep after %d of %d turns", sleeps, TURNS);
  mr_link_close(p.in);
  mr_pool_destroy(p.pool);
}

static void a_receiver_that_takes_nothing_stops_the_sender_at_the_window(void **state) {
  pair_t p;
  open_pair(&p, ENDS_WIDTH, 5, true, false);
  mr_link_stats_t in = {0};
  for (int more = 0; more < 100; more += in.received >= 5) {
    ends_send(p.out, p.pool, &p.spec, &p.next, 2000);
    turn(p.out);
    turn(p.in);
    mr_link_wait(p.in, 1);
    mr_link_stats(p.in, &in);
  }
  assert_int_equal(in.received, 5);
  assert_int_equal(p.next, 5);
  carry(&p, 2000);
  close_pair(&p);
}

/* Until the sending end has heard that this many are released and committed, or of more. */
static void hear(pair_t *p, int64_t released, int64_t committed, mr_link_stats_t *out) {
  do {
    turn(p->in), mr_link_wait(p->in, 1), turn(p->out);
    mr_link_stats(p->out, out);
  } while (out->released < released || out->committed < committed);
}

static void buffers_that_are_held_are_not_acknowledged(void **state) {
  pair_t p;
  mr_buf_t *b[2];
  mr_link_stats_t out;
  open_pair(&p, 16, 8, true, false);
  size_t k = 0;
  while (k < 2) {
    ends_send(p.out, p.pool, &p.spec, &p.next, 8);
    turn(p.out);
    turn(p.in);
    k += mr_link_take(p.in, b + k, 2 - k);
  }
  mr_buf_unref(b[1]); /* the second is released, the first is not */
  for (int i = 0; i < 20; i++) turn(p.in), mr_link_wait(p.in, 1), turn(p.out);
  mr_link_stats(p.out, &out);
  assert_int_equal(out.released, 0);
  mr_buf_unref(b[0]);
  hear(&p, 2, 2, &out);
  assert_int_equal(out.released, 2);
  mr_pool_t *pool = p.pool;
  p.pool = NULL;
  mr_link_close(p.in);
  mr_link_close(p.out);
  mr_pool_destroy(pool);
}

/* Sends up to total, takes and lets go of them; then both ends know of each other. */
static void pass(pair_t *p, int64_t *got, int64_t total) {
  mr_buf_t *b;
  while (*got < total) {
    ends_send(p->out, p->pool, &p->spec, &p->next, total + 1000);
    turn(p->out);
    turn(p->in);
    if (!mr_link_take(p->in, &b, 1)) continue;
    assert_true(ends_is(b, &p->spec, (*got)++));
    mr_buf_unref(b);
  }
}

/* A receiver that names what is committed, from that number on. */
static void open_by_hand(pair_t *p, int64_t number) {
  mr_diag_t diag = {0};
  mr_link_cfg_t cfg = {
      .name = "edge", .address = address, .window = 4, .copy = true, .by_hand = true};
  mr_link_point_t at = {.number = number, .position = number * ENDS_BATCH};
  p->in = mr_link_open_in(&cfg, &p->spec, &at, &diag);
  if (!p->in) fail_msg("%s", diag.text);
}

static void a_release_gives_credit_and_carries_the_commit_beside_it(void **state) {
  pair_t p;
  int64_t got = 0;
  mr_link_stats_t in, out;
  open_pair(&p, 16, 4, true, false);
  mr_link_close(p.in);
  open_by_hand(&p, 0);
  pass(&p, &got, 50); /* far more than the window: credit does not wait for it */
  hear(&p, 50, 0, &out);
  assert_int_equal(out.released, 50);
  assert_int_equal(out.committed, 0);
  mr_link_commit(p.in, 20);
  hear(&p, 50, 20, &out);
  mr_link_stats(p.in, &in);
  assert_int_equal(out.committed, 20);
  assert_int_equal(in.committed, 20);
  mr_link_commit(p.in, 1000); /* never more than what is released */
  hear(&p, 50, 50, &out);
  assert_int_equal(out.committed, 50);
  close_pair(&p);
}

/* The receiver dies with 20 committed and 30 done: its successor continues from 20. */
static void die_after_twenty(pair_t *p, int64_t *got) {
  open_pair(p, 16, 4, true, false);
  mr_link_close(p->in);
  open_by_hand(p, 0);
  mr_link_stats_t out;
  pass(p, got, 30);
  mr_link_commit(p->in, 20);
  hear(p, 30, 20, &out);
  mr_link_close(p->in);
  open_by_hand(p, *got = 20);
}

static void released_buffers_that_are_not_committed_are_requested_again(void **state) {
  pair_t p;
  int64_t got = 0;
  mr_link_point_t asked = {0};
  die_after_twenty(&p, &got);
  while (mr_link_asked(p.out, &asked) != MR_END) turn(p.in), turn(p.out);
  assert_int_equal(asked.number, 20);
  assert_int_equal(asked.position, 20 * ENDS_BATCH);
  close_pair(&p);
}

static void a_receiver_that_starts_anew_gets_the_rest(void **state) {
  pair_t p;
  mr_buf_t *b;
  mr_diag_t diag = {0};
  open_pair(&p, ENDS_WIDTH, 8, true, false);
  mr_link_cfg_t again = {.name = "edge", .address = address, .window = 8, .copy = true};
  int64_t got = 0;
  for (int life = 0; life < 6; life++) {
    for (int n = 0; n < 7;) {
      ends_send(p.out, p.pool, &p.spec, &p.next, 1000);
      turn(p.out);
      turn(p.in);
      if (mr_link_take(p.in, &b, 1)) {
        assert_true(ends_is(b, &p.spec, got++));
        mr_buf_unref(b);
        n++;
      }
    }
    mr_link_point_t point = {.number = got, .epoch = 0, .position = got * ENDS_BATCH};
    mr_link_close(p.in);
    p.in = mr_link_open_in(&again, &p.spec, &point, &diag);
  }
  while (got < 1000) {
    ends_send(p.out, p.pool, &p.spec, &p.next, 1000);
    turn(p.out);
    turn(p.in);
    if (!mr_link_take(p.in, &b, 1)) continue;
    assert_true(ends_is(b, &p.spec, got++));
    mr_buf_unref(b);
  }
  close_pair(&p);
}

static void a_point_that_is_not_held_is_reported(void **state) {
  pair_t p;
  mr_link_point_t asked, point = {.number = 700, .epoch = 3, .position = 2800};
  mr_diag_t diag = {0};
  open_pair(&p, 16, 8, true, false);
  assert_int_equal(mr_link_asked(p.out, &asked), MR_AGAIN);
  mr_link_close(p.in);
  mr_link_cfg_t far = {.name = "edge", .address = address};
  p.in = mr_link_open_in(&far, &p.spec, &point, &diag);
  while (mr_link_asked(p.out, &asked) == MR_AGAIN || asked.number != 700) turn(p.out), turn(p.in);
  assert_int_equal(mr_link_asked(p.out, &asked), MR_END);
  assert_int_equal(asked.epoch, 3);
  assert_int_equal(asked.position, 2800);
  close_pair(&p);
}

/* The end that comes fails; the one that binds waits for another peer, and serves it. */
static void specs_that_differ_are_refused_and_end_only_the_one_that_came(void **state) {
  pair_t p;
  mr_diag_t in = {0};
  mr_link_stats_t out = {0};
  mr_spec_t other = ends_spec(17);
  open_pair(&p, 16, 8, true, false);
  mr_link_close(p.in);
  mr_link_cfg_t cfg = {.name = "edge", .address = address};
  p.in = mr_link_open_in(&cfg, &other, NULL, &in);
  assert_non_null(p.in);
  while (mr_link_pump(p.in, &in) >= 0) turn(p.out);
  assert_int_equal(in.code, MR_ERR_SHAPE);
  assert_non_null(strstr(in.text, "u8[4,16]"));
  assert_non_null(strstr(in.text, "u8[4,17]"));
  for (; !out.refused; mr_link_stats(p.out, &out)) turn(p.out), mr_link_wait(p.out, 1);
  assert_non_null(strstr(mr_link_refusal(p.out), "u8[4,17]"));
  mr_link_close(p.in);
  p.in = mr_link_open_in(&cfg, &p.spec, NULL, &(mr_diag_t){0});
  carry(&p, 100);
  close_pair(&p);
}

static void a_receiver_without_a_spec_learns_it(void **state) {
  pair_t p;
  mr_diag_t diag = {0};
  open_pair(&p, 16, 8, true, false);
  mr_link_close(p.in);
  mr_link_cfg_t cfg = {.name = "edge", .address = address};
  p.in = mr_link_open_in(&cfg, NULL, NULL, &diag);
  while (!mr_link_spec(p.in)) turn(p.out), turn(p.in);
  const mr_spec_t *got = mr_link_spec(p.in);
  assert_int_equal(got->field->dim[0], 16);
  assert_string_equal(got->dataset->class_name[2], "ship");
  carry(&p, 50);
  close_pair(&p);
}

static void addresses_that_cannot_be_are_refused(void **state) {
  static const char *const bad[] = {"tcp://0.0.0.0:5599",
                                    "tcp://*:5599",
                                    "tcp://[::]:5599",
                                    "tcp://127.evil.example:1",
                                    "udp://127.0.0.1:1",
                                    "here",
                                    ""};
  mr_spec_t spec = ends_spec(16), metrics = {.flow = MR_FLOW_METRICS};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    mr_diag_t diag = {0};
    mr_link_cfg_t cfg = {.name = "edge", .address = bad[i], .bind = true};
    assert_null(mr_link_open_out(&cfg, &spec, 0, &diag));
    assert_int_equal(diag.code, MR_ERR_CONFIG);
  }
  mr_diag_t diag = {0};
  mr_link_cfg_t cfg = {.name = "edge", .address = "tcp://127.0.0.1:*", .bind = true};
  assert_null(mr_link_open_out(&cfg, &metrics, 0, &diag));
  assert_int_equal(diag.code, MR_ERR_SHAPE);
  assert_non_null(strstr(diag.text, "a link carries batches and bytes, not metrics"));
  spec.n_words = MR_LINK_WORDS + 1, diag = (mr_diag_t){0};
  assert_null(mr_link_open_out(&cfg, &spec, 0, &diag));
  assert_int_equal(diag.code, MR_ERR_SHAPE);
  assert_non_null(strstr(diag.text, "a state of at most 64 numbers (here 65)"));
}

/* Two hundred small buffers, closed at once: nothing of what was accepted is lost. */
static void closing_waits_for_what_is_on_its_way(void **state) {
  mr_spec_t spec = ends_spec(16);
  char at[64];
  mr_buf_t *b;
  int64_t got = 0;
  snprintf(at, sizeof at, "ipc://@mr-linger-%d", (int)getpid());
  pid_t child = fork();
  if (child == 0) { /* a sender of its own, which closes as soon as it has given away its last */
    mr_link_cfg_t cfg = {.name = "back", .address = at, .window = 250};
    mr_pool_t *pool = mr_pool_create(&spec, 210);
    mr_link_t *l = mr_link_open_out(&cfg, &spec, 0, NULL);
    int64_t next = 0;
    if (!l) _exit(1);
    ends_send(l, pool, &spec, &next, 200);
    mr_link_close(l);
    _exit(next == 200 ? 0 : 2);
  }
  mr_link_cfg_t cfg = {.name = "back", .address = at, .bind = true, .window = 250};
  mr_link_t *in = mr_link_open_in(&cfg, &spec, NULL, NULL);
  assert_non_null(in);
  while (!mr_link_over(in)) {
    turn(in);
    while (mr_link_take(in, &b, 1)) {
      assert_true(ends_is(b, &spec, got++));
      mr_buf_unref(b);
    }
    mr_link_wait(in, 50);
  }
  mr_link_close(in);
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_int_equal(status, 0);
  assert_int_equal(got, 200);
}

/* No peer ever comes: closing ends all the same. */
static void closing_without_a_peer_ends(void **state) {
  mr_spec_t spec = ends_spec(16);
  mr_pool_t *pool = mr_pool_create(&spec, 10);
  mr_link_cfg_t cfg = {
      .name = "edge", .address = "tcp://127.0.0.1:*", .bind = true, .linger_ms = 50};
  mr_link_t *l = mr_link_open_out(&cfg, &spec, 0, NULL);
  int64_t next = 0;
  assert_non_null(l);
  ends_send(l, pool, &spec, &next, 5);
  mr_link_close(l);
  for (int i = 0; i < 10; i++) assert_non_null(mr_pool_get(pool)); /* all are back */
  mr_pool_destroy(pool);
}

/* The answer to an acknowledgement does not answer the LEAVE that follows it: a receiver that
   closed its connection then could lose its LEAVE. */
static void a_receiver_that_leaves_waits_until_that_is_heard(void **state) {
  pair_t p;
  open_pair(&p, 100, 4, true, false);
  carry(&p, 10);
  while (!p.in->left_heard) turn(p.in), turn(p.out);
  assert_false(mr_link_left(p.out));
  mr_link_leave(p.in);
  do turn(p.in), turn(p.out);
  while (!p.in->left_heard);
  assert_true(mr_link_left(p.out));
  close_pair(&p);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_buffer_arrives_once_and_in_order),
      cmocka_unit_test(an_end_without_a_peer_sleeps),
      cmocka_unit_test(a_receiver_with_an_acknowledgement_due_sleeps_when_its_peer_is_gone),
      cmocka_unit_test(a_receiver_that_takes_nothing_stops_the_sender_at_the_window),
      cmocka_unit_test(buffers_that_are_held_are_not_acknowledged),
      cmocka_unit_test(a_release_gives_credit_and_carries_the_commit_beside_it),
      cmocka_unit_test(released_buffers_that_are_not_committed_are_requested_again),
      cmocka_unit_test(a_receiver_that_starts_anew_gets_the_rest),
      cmocka_unit_test(a_receiver_that_leaves_waits_until_that_is_heard),
      cmocka_unit_test(a_point_that_is_not_held_is_reported),
      cmocka_unit_test(specs_that_differ_are_refused_and_end_only_the_one_that_came),
      cmocka_unit_test(a_receiver_without_a_spec_learns_it),
      cmocka_unit_test(closing_waits_for_what_is_on_its_way),
      cmocka_unit_test(closing_without_a_peer_ends),
      cmocka_unit_test(addresses_that_cannot_be_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
