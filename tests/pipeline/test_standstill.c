/* No graph that settles hangs: random ones run to their end, the others are refused with a reason.

   MR_ROUNDS=N in the environment makes N random graphs instead of 10,000, MR_SEED=S starts at
   another one. */
/* clang-format off */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pipeline/graph/graph.h"
#include "pipeline/stage_step.h"

typedef struct {
  int64_t n, done;
  mr_buf_t *held[8];
  int n_held;
} knobs_t;

static const mr_opt_t knobs[] = {{.name = "n",
                                  .type = MR_OPT_INT,
                                  .offset = offsetof(knobs_t, n),
                                  .def = "1",
                                  .lo = 1,
                                  .hi = 100000,
                                  .positional = 1},
                                 {0}};

static mr_err_t bytes_plan(mr_stage_t *s) {
  for (int p = 0; p < s->n_out; p++) s->out_spec[p] = mr_spec_of_bytes(MR_FLOW_BYTES, 8);
  return MR_OK;
}

/* Worker w of N gives w, w + N, ...: as batch does. */
static mr_err_t count_step(mr_stage_t *s) {
  static _Thread_local int64_t next;
  const knobs_t *k = s->state;
  mr_buf_t *b;
  if (!s->rt) return MR_END;
  for (next = s->worker; next < k->n; next += s->n_workers) {
    if (mr_stopping(s)) return MR_END;
    mr_err_t e = mr_fresh(s, 0, &b);
    if (e != MR_OK) return e;
    *(int64_t *)b->data = next;
    b->size = 8;
    e = mr_push(s, 0, b);
    if (e != MR_OK) return e;
  }
  return MR_END;
}

static mr_err_t pass_step(mr_stage_t *s) {
  mr_buf_t *b[MR_BURST];
  size_t k = mr_take(s, 0, b, mr_room(s, 0));
  mr_give(s, 0, b, k);
  return k ? MR_OK : mr_idle(s);
}

/* A new buffer for each that comes. */
static mr_err_t copy_step(mr_stage_t *s) {
  mr_buf_t *a, *b;
  mr_err_t e = mr_pull(s, 0, &a);
  if (e != MR_OK) return e;
  e = mr_fresh(s, 0, &b);
  if (e == MR_OK) memcpy(b->data, a->data, 8), b->size = 8;
  mr_buf_unref(a);
  return e == MR_OK ? mr_push(s, 0, b) : e;
}

static mr_err_t split_step(mr_stage_t *s) {
  mr_buf_t *b;
  mr_err_t e = mr_pull(s, 0, &b);
  if (e != MR_OK) return e;
  for (int p = 1; p < 3; p++) {
    if (!s->out_linked[p]) continue;
    e = mr_push(s, p, mr_buf_ref(b));
    if (e < 0) return mr_buf_unref(b), e;
  }
  return mr_push(s, 0, b);
}

/* Collects n buffers, then gives the last one. */
static mr_err_t gather_plan(mr_stage_t *s) {
  const knobs_t *k = s->state;
  s->holds = k->n < 8 ? k->n : 8;
  return bytes_plan(s);
}

static mr_err_t gather_step(mr_stage_t *s) {
  knobs_t *k = s->state;
  int want = k->n < 8 ? (int)k->n : 8;
  mr_err_t e = MR_OK;
  while (k->n_held < want && (e = mr_pull(s, 0, &k->held[k->n_held])) == MR_OK) k->n_held++;
  if (e != MR_OK) return e;
  for (int i = 0; i + 1 < want; i++) mr_buf_unref(k->held[i]);
  k->n_held = 0;
  return mr_push(s, 0, k->held[want - 1]);
}

static void gather_close(mr_stage_t *s) {
  knobs_t *k = s->state;
  while (k->n_held) mr_buf_unref(k->held[--k->n_held]);
}

/* n of the first input, then one of each other: as vit-step reads its evaluation batches. */
static mr_err_t turns_step(mr_stage_t *s) {
  const knobs_t *k = s->state;
  mr_buf_t *b;
  for (int64_t i = 0; i < k->n; i++) {
    mr_err_t e = mr_pull(s, 0, &b);
    if (e != MR_OK) return e;
    mr_buf_unref(b);
  }
  for (int p = 1; p < 3; p++)
    if (s->in_linked[p] && mr_pull(s, p, &b) == MR_OK) mr_buf_unref(b);
  return MR_OK;
}

static mr_err_t sink_step(mr_stage_t *s) {
  mr_buf_t *b[MR_BURST];
  knobs_t *k = s->state;
  size_t n = mr_take(s, 0, b, MR_BURST);
  for (size_t i = 0; i < n; i++) mr_buf_unref(b[i]);
  k->done += (int64_t)n;
  return n ? MR_OK : mr_idle(s);
}

/* Gives nothing and ends when it is unwanted, as the end of a link whose peer has gone. */
static mr_err_t mute_step(mr_stage_t *s) { return mr_idle(s); }

/* All of the first input; then it ends, whatever the others have. */
static mr_err_t first_step(mr_stage_t *s) {
  mr_buf_t *b;
  mr_err_t e = mr_pull(s, 0, &b);
  if (e == MR_OK) mr_buf_unref(b);
  return e;
}

#define STAGE(NAME) .name = #NAME, .opts = knobs, .state_sz = sizeof(knobs_t)
#define ANY(NAME, OPTIONAL) \
  { .name = NAME, .flow = MR_FLOW_NONE, .optional = OPTIONAL }
static const mr_stage_def_t count = {
    STAGE(count), .out = {ANY("out", false)}, .plan = bytes_plan,
    .step = &(const mr_step_def_t){.run = count_step, .parallel = true}};
static const mr_stage_def_t pass = {
    STAGE(pass), .in = {ANY("in", false)}, .out = {ANY("out", false)}, .plan = bytes_plan,
    .step = &(const mr_step_def_t){.run = pass_step, .parallel = true}};
static const mr_stage_def_t copy = {
    STAGE(copy), .in = {ANY("in", false)}, .out = {ANY("out", false)}, .plan = bytes_plan,
    .step = &(const mr_step_def_t){.run = copy_step, .parallel = true}};
static const mr_stage_def_t split = {STAGE(split), .in = {ANY("in", false)},
                                     .out = {ANY("a", false), ANY("b", true), ANY("c", true)},
                                     .plan = bytes_plan,
                                     .step = &(const mr_step_def_t){.run = split_step}};
static const mr_stage_def_t gather = {
    STAGE(gather),
    .in = {ANY("in", false)},
    .out = {ANY("out", false)},
    .plan = gather_plan,
    .step = &(const mr_step_def_t){.run = gather_step},
    .close = gather_close,
};
static const mr_stage_def_t turns = {STAGE(turns),
                                     .in = {ANY("in", false), ANY("more", true), ANY("rest", true)},
                                     .step = &(const mr_step_def_t){.run = turns_step}};
static const mr_stage_def_t mute = {STAGE(mute), .out = {ANY("out", false)}, .plan = bytes_plan,
                                    .step = &(const mr_step_def_t){.run = mute_step}};
static const mr_stage_def_t first = {STAGE(first), .in = {ANY("in", false), ANY("more", true)},
                                     .step = &(const mr_step_def_t){.run = first_step}};
static const mr_stage_def_t sink = {STAGE(sink), .in = {ANY("in", false)},
                                    .step = &(const mr_step_def_t){.run = sink_step}};
static const mr_stage_def_t look = {STAGE(look),
                                    .in = {{.name = "in", .flow = MR_FLOW_NONE, .lossy = true}},
                                    .step = &(const mr_step_def_t){.run = sink_step}};
static const mr_stage_def_t meter = {STAGE(meter), .in = {{.name = "in", .flow = MR_FLOW_METRICS}},
                                     .step = &(const mr_step_def_t){.run = sink_step}};
static const mr_stage_def_t *const table[] = {&count, &pass,  &copy, &split, &gather, &turns,
                                              &mute,  &first, &sink, &look,  &meter,  NULL};

static mr_registry_t reg;
static int setup(void **state) { return mr_registry_add(&reg, table), 0; }

/* ---- the watchdog ---- */

enum { WATCH_S = 60 };
static atomic_int beats;
static _Atomic(const char *) at_hand;

/* Speaks up only when nothing has ended for a minute: a graph hangs. */
static void *watch(void *arg) {
  for (int quiet = 0, last = -1;; sleep(1)) {
    int now = atomic_load(&beats);
    quiet = now == last ? quiet + 1 : 0, last = now;
    const char *text = atomic_load(&at_hand);
    if (quiet < WATCH_S || !text) continue;
    fprintf(stderr, "this graph hangs:\n%s\n", text);
    abort();
  }
  return arg;
}

/* ---- random graphs ---- */

static uint64_t rng;
static int upto(int n) { /* [0,n) */
  rng = rng * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (int)((rng >> 33) % (uint64_t)n);
}

/* Outputs that are still open, as "NAME.PORT". */
typedef struct {
  char out[64][24];
  int n;
  FILE *text;
  int n_stages, back; /* back: a stage whose input is still open, -1: none */
} draw_t;

static void open_end(draw_t *d, int stage, const char *port) {
  if (d->n < 64) snprintf(d->out[d->n++], sizeof d->out[0], "s%d.%s", stage, port);
}

static void link_to(draw_t *d, int stage, const char *port) {
  if (!d->n) return;
  int i = upto(d->n);
  fprintf(d->text, "%s ! s%d.%s\n", d->out[i], stage, port);
  if (upto(8)) memmove(d->out[i], d->out[--d->n], sizeof d->out[0]); /* else it is linked again */
}

static void add_stage(draw_t *d) {
  int i = d->n_stages++, kind = upto(9);
  if (!d->n) kind = 0;
  switch (kind) {
    case 0: fprintf(d->text, "count %d name=s%d workers=%d\n", 1 + upto(60), i, 1 + upto(3)); break;
    case 1:
    case 2:
      fprintf(d->text, "%s name=s%d workers=%d\n", kind == 1 ? "pass" : "copy", i, 1 + upto(3));
      break;
    case 3: fprintf(d->text, "gather %d name=s%d\n", 1 + upto(8), i); break;
    case 4: fprintf(d->text, "split name=s%d\n", i); break;
    case 5:
    case 6: fprintf(d->text, "turns %d name=s%d\n", 1 + upto(20), i); break;
    case 7: fprintf(d->text, "sink name=s%d\n", i); break;
    default: fprintf(d->text, "%s name=s%d\n", upto(20) ? "look" : "meter", i); break;
  }
  if (kind && kind < 4 && !upto(12)) d->back = i;
  if (kind && d->back != i && upto(60)) link_to(d, i, "in");
  if (kind == 5 || kind == 6) {
    if (upto(3)) link_to(d, i, "more");
    if (!upto(3)) link_to(d, i, "rest");
  }
  if (kind <= 3) open_end(d, i, "out");
  if (kind == 4) {
    open_end(d, i, "a");
    if (upto(2)) open_end(d, i, "b");
    if (!upto(3)) open_end(d, i, "c");
  }
}

/* Most open ends are led somewhere, few stay open or are led back, perhaps into a circle. */
static char *random_graph(void) {
  char *text = NULL;
  size_t bytes;
  draw_t d = {.text = open_memstream(&text, &bytes), .back = -1};
  for (int n = 2 + upto(7); n > 0; n--) add_stage(&d);
  while (d.n && upto(100)) {
    const char *out = d.out[--d.n];
    if (d.back >= 0 || !upto(60))
      fprintf(d.text, "%s ! s%d.in\n", out, d.back >= 0 ? d.back : upto(d.n_stages));
    else
      fprintf(d.text, "%s ! sink name=s%d\n", out, d.n_stages++);
    d.back = -1;
  }
  fclose(d.text);
  return text;
}

typedef struct {
  int ran, circles, unconnected, rings, pools, other;
} tally_t;

static void sort_out(tally_t *t, const mr_diag_t *why, const char *text) {
  if (strstr(why->text, "has a cycle"))
    t->circles++;
  else if (strstr(why->text, "not connected"))
    t->unconnected++;
  else if (strstr(why->text, "parts of a ring"))
    t->rings++;
  else if (strstr(why->text, "too small"))
    t->pools++;
  else if (strstr(why->text, "two connections") || strstr(why->text, "has no input") ||
           strstr(why->text, "takes metrics"))
    t->other++;
  else
    fail_msg("refused without a reason: %s\n%s", why->text, text);
}

static void try_one(tally_t *t) {
  char *text = random_graph();
  int depth = 2 << upto(3), pool = upto(5) ? 0 : 1 + upto(12);
  mr_diag_t why = {0};
  mr_graph_t *g = mr_graph_create(&reg);
  atomic_store(&at_hand, text);
  mr_err_t e = mr_graph_parse(g, text, NULL, 0, &why);
  if (e >= 0) e = mr_graph_set_depth(g, depth, &why);
  if (e >= 0 && pool) e = mr_graph_set_pool(g, pool, &why);
  if (e >= 0) e = mr_graph_settle(g, &why);
  if (e < 0) {
    sort_out(t, &why, text);
  } else if (mr_graph_run(g, &why) < 0) {
    fail_msg("%s\n%s", why.text, text);
  } else {
    t->ran++;
  }
  mr_graph_destroy(g);
  atomic_fetch_add(&beats, 1);
  atomic_store(&at_hand, NULL);
  free(text);
}

/* Sanitizers take five times as long over each, and look at how graphs run, not at which. */
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
enum { GRAPHS = 2000 };
#else
enum { GRAPHS = 10000 };
#endif

static void of_ten_thousand_random_graphs_none_hangs(void **state) {
  const char *rounds = getenv("MR_ROUNDS"), *seed = getenv("MR_SEED");
  int n = rounds ? atoi(rounds) : GRAPHS;
  pthread_t dog;
  tally_t t = {0};
  rng = seed ? strtoull(seed, NULL, 10) : 1;
  pthread_create(&dog, NULL, watch, NULL);
  for (int i = 0; i < n; i++) try_one(&t);
  pthread_cancel(dog);
  pthread_join(dog, NULL);
  print_message(
      "%d ran; refused: %d circles, %d unconnected, %d rings, %d pools, "
      "%d others\n",
      t.ran, t.circles, t.unconnected, t.rings, t.pools, t.other);
  assert_true(t.ran > n / 5);
  assert_true(t.circles > n / 200 && t.unconnected > n / 200 && t.rings > n / 200 &&
              t.pools > n / 200);
}

/* ---- the reasons, one by one ---- */

static mr_err_t settle(const char *text, int depth, int pool, mr_diag_t *why) {
  mr_graph_t *g = mr_graph_create(&reg);
  mr_err_t e = mr_graph_parse(g, text, NULL, 0, why);
  if (e >= 0 && depth) e = mr_graph_set_depth(g, depth, why);
  if (e >= 0 && pool) e = mr_graph_set_pool(g, pool, why);
  if (e >= 0) e = mr_graph_settle(g, why);
  mr_graph_destroy(g);
  return e;
}

static void refused(const char *text, int depth, int pool, const char *reason) {
  mr_diag_t why = {0};
  if (settle(text, depth, pool, &why) >= 0) fail_msg("not refused: %s", text);
  if (!strstr(why.text, reason)) fail_msg("%s: \"%s\" is not in \"%s\"", text, reason, why.text);
}

static void settles(const char *text, int depth, int pool) {
  mr_diag_t why = {0};
  if (settle(text, depth, pool, &why) < 0) fail_msg("%s: %s", text, why.text);
}

static void queues_that_form_a_ring_are_refused(void **state) {
  refused(
      "count 9 name=a ! turns name=t\na. ! t.more", 8, 0,
      "1:18: t: the queues to its inputs \"more\" and \"in\" are parts of a ring (a to t, a to t): "
      "while it waits for one input, the queue of the other (8 buffers) fills up");
  refused("count 9 ! split name=s\ns.a ! pass ! turns name=t\ns.b ! copy ! t.rest", 0, 0,
          "parts of a ring");
  refused("count 9 name=a ! turns name=t\ncount 9 name=b ! t.more\nb. ! turns name=u\na. ! u.more",
          0, 0, "(a to u, b to u, b to t, a to t)");
  settles("count 9 ! turns name=t\ncount 9 ! t.more", 0, 0);
  settles("count 9 name=a ! turns name=t\na. ! look\ncount 9 ! t.more", 0, 0);
}

static void a_pool_too_small_is_refused_with_the_size_it_needs(void **state) {
  refused("count 9 ! gather 5 ! sink", 0, 5,
          "count: a pool of 5 buffers is too small: the stages behind it may hold 6 while they "
          "wait for one more; want at least 7");
  settles("count 9 ! gather 5 ! sink", 0, 7);
  refused("count 9 workers=2 ! sink", 4, 13, "want at least 16, or a smaller depth");
  settles("count 9 workers=2 ! sink", 4, 16);
  settles("count 9 workers=2 ! sink", 4, 0);
  refused("count 9 ! sink", 0, 65537, "want a number of buffers in [1,65536]");
}

static void a_small_pool_gives_the_same_stream(void **state) {
  for (int pool = 2; pool < 6; pool++) {
    mr_graph_t *g = mr_graph_create(&reg);
    mr_diag_t why = {0};
    assert_int_equal(mr_graph_parse(g, "count 500 ! sink", NULL, 0, &why), MR_OK);
    assert_int_equal(mr_graph_set_pool(g, pool, &why), MR_OK);
    assert_int_equal(mr_graph_run(g, &why), MR_OK);
    assert_int_equal(((knobs_t *)mr_graph_stage(g, "sink")->state)->done, 500);
    mr_graph_destroy(g);
  }
}

/* A stage that waits for input ends when what it would give has no consumer any more. */
static void stages_before_one_that_has_ended_end_though_nothing_comes(void **state) {
  static const char *const text[] = {
      "count 9 ! first name=f\nmute ! copy ! f.more",
      "count 9 ! first name=f\nmute ! pass ! copy workers=3 ! gather 2 ! f.more"};
  alarm(WATCH_S); /* ends the program if one hangs */
  for (size_t i = 0; i < sizeof text / sizeof *text; i++) {
    mr_graph_t *g = mr_graph_create(&reg);
    mr_diag_t why = {0};
    if (mr_graph_parse(g, text[i], NULL, 0, &why) < 0 || mr_graph_run(g, &why) < 0)
      fail_msg("%s: %s", text[i], why.text);
    mr_graph_destroy(g);
  }
  alarm(0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(stages_before_one_that_has_ended_end_though_nothing_comes),
      cmocka_unit_test(queues_that_form_a_ring_are_refused),
      cmocka_unit_test(a_pool_too_small_is_refused_with_the_size_it_needs),
      cmocka_unit_test(a_small_pool_gives_the_same_stream),
      cmocka_unit_test(of_ten_thousand_random_graphs_none_hangs),
  };
  return cmocka_run_group_tests(tests, setup, NULL);
}
