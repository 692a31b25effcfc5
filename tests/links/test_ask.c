/* Where peers want to resume, asked by a process before it starts its streams anew
   (mr_link_out_ask): a peer that has all it wants never answers, and must not keep the process from
   one that waits for another stream. */
/* clang-format off */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

#include "links/link_stage.h"
#include "links/links.h"
#include "pipeline/graph/graph.h"
#include "pipeline/graph/link_end.h"
#include "pipeline/stage_step.h"
#include "tests/links/ends.h"

enum { WATCH_S = 120, WIDTH = 16, ASKED = 700, UNCHANGED = 99 };

/* ---- a source of batches without end ---- */

static mr_err_t numbers_plan(mr_stage_t *s) {
  s->out_spec[0] = ends_spec(WIDTH);
  return MR_OK;
}

static mr_err_t numbers_step(mr_stage_t *s) {
  int64_t *next = s->state;
  mr_buf_t *b;
  if (mr_stopping(s)) return MR_END;
  mr_err_t e = mr_fresh(s, 0, &b);
  if (e != MR_OK) return e;
  ends_fill(b, &s->out_spec[0], (*next)++);
  return mr_push(s, 0, b);
}

static const mr_stage_def_t numbers = {.name = "numbers",
                                       .state_sz = sizeof(int64_t),
                                       .out = {{.name = "out", .flow = MR_FLOW_BATCHES}},
                                       .plan = numbers_plan,
                                       .step = &(const mr_step_def_t){.run = numbers_step}};
static const mr_stage_def_t *const own[] = {&numbers, NULL};
static mr_registry_t reg;

/* ---- the process with two streams, at addresses of this program's own ---- */

static char address[2][64];

static mr_graph_t *two_streams(void) {
  char text[512];
  mr_diag_t why = {0};
  mr_graph_t *g = mr_graph_create(&reg);
  snprintf(text, sizeof text,
           "numbers ! link-out name=first link=first address=%s bind linger=50\n"
           "numbers ! link-out name=second link=second address=%s bind linger=50",
           address[0], address[1]);
  if (mr_graph_parse(g, text, NULL, 0, &why) < 0 || mr_graph_settle(g, &why) < 0)
    fail_msg("%s", why.text);
  return g;
}

/* Where the peer of this stream wants to resume; UNCHANGED if none answers. */
static int64_t asked_of(const mr_graph_t *g, const char *stage) {
  mr_stream_at_t at = {.number = UNCHANGED};
  mr_diag_t why = {0};
  if (mr_link_out_ask(mr_graph_stage(g, stage), &at, &why) < 0) fail_msg("%s", why.text);
  assert_true(at.number == UNCHANGED || at.position == at.number * ENDS_BATCH);
  return at.number;
}

/* The same of a peer that is there: it may take more than the seconds of one question. */
static int64_t answer_of(const mr_graph_t *g, const char *stage) {
  int64_t number = UNCHANGED;
  while (number == UNCHANGED) number = asked_of(g, stage);
  return number;
}

/* ---- a peer on a thread of its own ---- */

typedef struct peer {
  int stream;
  int64_t from, takes; /* takes this many from there on, then leaves; -1: takes nothing and stays */
  int64_t got;
  atomic_bool stop; /* relaxed: it hands nothing over */
  pthread_t thread;
} peer_t;

static bool peer_has_all(const peer_t *p) { return p->got == p->takes; }

static void *peer_life(void *arg) {
  peer_t *p = arg;
  mr_spec_t spec = ends_spec(WIDTH);
  mr_link_point_t point = {.number = p->from, .position = p->from * ENDS_BATCH};
  mr_link_cfg_t cfg = {.name = p->stream ? "second" : "first",
                       .address = address[p->stream],
                       .linger_ms = WATCH_S * 1000}; /* one that leaves is sure to be heard */
  mr_diag_t why = {0};
  mr_buf_t *b;
  mr_link_t *l = mr_link_open_in(&cfg, &spec, &point, &why);
  bool good = l;
  while (good && !atomic_load_explicit(&p->stop, memory_order_relaxed) && !peer_has_all(p)) {
    good = mr_link_pump(l, &why) >= 0;
    for (; p->got < p->takes && mr_link_take(l, &b, 1); mr_buf_unref(b))
      good = ends_is(b, &spec, p->from + p->got++) && good;
    mr_link_wait(l, 20);
  }
  if (good && peer_has_all(p)) mr_link_leave(l);
  mr_link_close(l);
  return good ? NULL : "the peer got another stream";
}

static void peer_start(peer_t *p) {
  assert_int_equal(pthread_create(&p->thread, NULL, peer_life, p), 0);
}

static void peer_stop(peer_t *p) {
  void *why;
  atomic_store_explicit(&p->stop, true, memory_order_relaxed);
  pthread_join(p->thread, &why);
  if (why) fail_msg("%s", (char *)why);
}

/* ---- tests ---- */

static void a_peer_says_where_it_resumes(void **state) {
  peer_t p = {.stream = 0, .from = ASKED, .takes = -1};
  mr_graph_t *g = two_streams();
  peer_start(&p);
  assert_int_equal(answer_of(g, "first"), ASKED);
  peer_stop(&p);
  mr_graph_destroy(g);
}

/* The peer of the first stream has finished, and the process that knew it has died. */
static void a_peer_that_never_comes_keeps_no_other_waiting(void **state) {
  peer_t p = {.stream = 1, .from = ASKED, .takes = -1};
  mr_graph_t *g = two_streams();
  peer_start(&p);
  assert_int_equal(asked_of(g, "first"), UNCHANGED);
  assert_int_equal(answer_of(g, "second"), ASKED);
  peer_stop(&p);
  mr_graph_destroy(g);
}

/* The peer of the first stream finishes; that of the second asks for what this graph is not to
   send, which ends it. */
static mr_graph_t *run_until_one_has_left(void) {
  peer_t leaves = {.stream = 0, .takes = 3}, moves = {.stream = 1, .from = ASKED, .takes = -1};
  mr_graph_t *g = two_streams();
  mr_diag_t why = {0};
  mr_stream_at_t at;
  if (mr_graph_start(g, &why) < 0) fail_msg("%s", why.text);
  peer_start(&leaves);
  pthread_join(leaves.thread, NULL);
  assert_int_equal(leaves.got, 3);
  peer_start(&moves);
  assert_int_equal(mr_graph_join(g, &why), MR_ERR_CANCEL);
  assert_true(mr_link_out_moved(mr_graph_stage(g, "second"), &at));
  assert_int_equal(at.number, ASKED);
  assert_false(mr_link_out_moved(mr_graph_stage(g, "first"), &at));
  peer_stop(&moves);
  return g;
}

/* Not even if another one comes to the same address: the first stream has ended. */
static void a_peer_that_has_left_is_not_asked_again(void **state) {
  peer_t first = {.stream = 0, .from = ASKED, .takes = -1};
  peer_t second = {.stream = 1, .from = ASKED + 1, .takes = -1};
  mr_graph_t *g = run_until_one_has_left();
  peer_start(&first), peer_start(&second);
  assert_int_equal(asked_of(g, "first"), UNCHANGED);
  assert_int_equal(answer_of(g, "second"), ASKED + 1);
  peer_stop(&first), peer_stop(&second);
  mr_graph_destroy(g);
}

/* A peer that was too late for the question moves the stream once it runs. */
static void a_late_peer_moves_the_stream(void **state) {
  peer_t p = {.stream = 0, .from = ASKED, .takes = -1};
  mr_graph_t *g = two_streams();
  mr_diag_t why = {0};
  mr_stream_at_t at;
  assert_int_equal(asked_of(g, "first"), UNCHANGED);
  if (mr_graph_start(g, &why) < 0) fail_msg("%s", why.text);
  peer_start(&p);
  assert_int_equal(mr_graph_join(g, &why), MR_ERR_CANCEL);
  assert_true(mr_link_out_moved(mr_graph_stage(g, "first"), &at));
  assert_int_equal(at.number, ASKED);
  peer_stop(&p);
  mr_graph_destroy(g);
}

/* As in a graph that is restarted: the peer of the first stream left the one before. */
static void a_peer_that_left_before_does_not_keep_the_process(void **state) {
  peer_t p = {.stream = 1, .takes = 3};
  mr_graph_t *g = two_streams();
  mr_diag_t why = {0};
  mr_link_out_set_left(mr_graph_stage(g, "first"));
  peer_start(&p);
  if (mr_graph_run(g, &why) < 0) fail_msg("%s", why.text);
  assert_true(mr_link_out_left(mr_graph_stage(g, "first")));
  assert_true(mr_link_out_left(mr_graph_stage(g, "second")));
  peer_stop(&p);
  mr_graph_destroy(g);
}

/* Another graph of this process that waits for a peer is not this one's affair. */
static void a_graph_does_not_wait_for_the_peers_of_another_graph(void **state) {
  char text[256];
  mr_diag_t why = {0};
  mr_graph_t *other = mr_graph_create(&reg), *g = two_streams();
  snprintf(text, sizeof text, "numbers ! link-out link=other address=%s-other bind linger=50",
           address[0]);
  if (mr_graph_parse(other, text, NULL, 0, &why) < 0 || mr_graph_start(other, &why) < 0)
    fail_msg("%s", why.text);
  mr_link_out_set_left(mr_graph_stage(g, "first"));
  mr_link_out_set_left(mr_graph_stage(g, "second"));
  if (mr_graph_run(g, &why) < 0) fail_msg("%s", why.text);
  mr_graph_destroy(g);
  mr_graph_stop(other);
  if (mr_graph_join(other, &why) < 0) fail_msg("%s", why.text);
  mr_graph_destroy(other);
}

static void a_peer_that_left_before_and_comes_again_is_served(void **state) {
  peer_t first = {.stream = 0, .takes = 5}, second = {.stream = 1, .takes = 3};
  mr_graph_t *g = two_streams();
  mr_diag_t why = {0};
  mr_link_out_set_left(mr_graph_stage(g, "first"));
  if (mr_graph_start(g, &why) < 0) fail_msg("%s", why.text);
  peer_start(&first);
  pthread_join(first.thread, NULL);
  assert_int_equal(first.got, 5);
  peer_start(&second);
  if (mr_graph_join(g, &why) < 0) fail_msg("%s", why.text);
  peer_stop(&second);
  assert_int_equal(second.got, 3);
  mr_graph_destroy(g);
}

static void end_all_in_a_handler(int signo) { mr_link_end_end_all(); }

/* No peer comes, and the source has no end: what ends the graph is the signal.  The last test, as
   what the handler sets is for good. */
static void a_signal_ends_the_streams_that_wait_for_a_peer(void **state) {
  struct sigaction act = {.sa_handler = end_all_in_a_handler};
  mr_diag_t why = {0};
  mr_graph_t *g = two_streams();
  assert_false(mr_link_end_all_ended());
  sigaction(SIGUSR1, &act, NULL);
  raise(SIGUSR1);
  assert_true(mr_link_end_all_ended());
  if (mr_graph_start(g, &why) < 0 || mr_graph_join(g, &why) < 0) fail_msg("%s", why.text);
  assert_int_equal(mr_link_end_sent(mr_graph_stage(g, "first")), 0);
  mr_graph_destroy(g);
  g = two_streams();
  assert_int_equal(asked_of(g, "first"), UNCHANGED);
  mr_graph_destroy(g);
}

static int setup(void **state) {
  for (int i = 0; i < 2; i++)
    snprintf(address[i], sizeof address[i], "ipc://@mr-ask-%d-%d", (int)getpid(), i);
  mr_registry_add(&reg, own);
  mr_registry_add(&reg, mr_links_stages);
  alarm(WATCH_S); /* ends the program if an answer is waited for without end */
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_peer_says_where_it_resumes),
      cmocka_unit_test(a_peer_that_never_comes_keeps_no_other_waiting),
      cmocka_unit_test(a_peer_that_has_left_is_not_asked_again),
      cmocka_unit_test(a_late_peer_moves_the_stream),
      cmocka_unit_test(a_peer_that_left_before_does_not_keep_the_process),
      cmocka_unit_test(a_graph_does_not_wait_for_the_peers_of_another_graph),
      cmocka_unit_test(a_peer_that_left_before_and_comes_again_is_served),
      cmocka_unit_test(a_signal_ends_the_streams_that_wait_for_a_peer),
  };
  return cmocka_run_group_tests(tests, setup, NULL);
}
