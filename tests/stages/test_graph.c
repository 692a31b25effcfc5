/* Whole graphs of real stages: order, tees, workers, ends of all kinds. */
/* clang-format off */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "loaders/loaders.h"
#include "pipeline/graph/graph.h"
#include "pipeline/stage_map.h"
#include "pipeline/stage_order.h"
#include "pipeline/stage_source.h"
#include "pipeline/stage_step.h"
#include "sinks/sinks.h"
#include "stages/stages.h"

/* ---- stages of this test ---- */

/* picks: a source of n records of one int64; label and key say which. */
typedef struct picks {
  int64_t n, epochs;
} picks_t;

static const mr_opt_t picks_opts[] = {
    {.name = "n", .type = MR_OPT_INT, .offset = offsetof(picks_t, n), .def = "100"},
    {.name = "epochs", .type = MR_OPT_INT, .offset = offsetof(picks_t, epochs), .def = "3"},
    {0}};

static mr_err_t picks_plan(mr_stage_t *s) {
  picks_t *p = s->state;
  s->out_spec[0] = (mr_spec_t){
      .flow = MR_FLOW_RECORDS,
      .n_fields = 2,
      .field = {{.name = "number", .dtype = MR_I64, .ndim = 1, .dim = {1}}, mr_field_of_label(0)},
      .n_records = p->n,
      .n_epochs = p->epochs};
  s->writes = 3;
  return MR_OK;
}

static mr_err_t picks_fetch(mr_stage_t *s, int worker, const int64_t *index, int n, mr_rec_t *out) {
  for (int i = 0; i < n; i++) {
    *(int64_t *)out[i].field[0].data = index[i];
    *(int32_t *)out[i].field[1].data = (int32_t)index[i];
    out[i].key = (uint64_t)index[i];
  }
  return MR_OK;
}

static const mr_stage_def_t mr_stage_picks = {
    .name = "picks",
    .help = "Test source.",
    .out = {{"out", MR_FLOW_RECORDS, false}},
    .opts = picks_opts,
    .state_sz = sizeof(picks_t),
    .plan = picks_plan,
    .source = &(const mr_source_def_t){.fetch = picks_fetch},
};

/* backwards: an order that turns each epoch round and seeds by position. */
static mr_err_t pass_plan(mr_stage_t *s) { return s->out_spec[0] = s->in_spec[0], MR_OK; }
static mr_err_t backwards_plan(mr_stage_t *s) {
  s->out_spec[0] = s->in_spec[0];
  s->out_spec[0].seeded = true;
  return MR_OK;
}
static mr_err_t backwards_order(mr_stage_t *s, int64_t position, mr_at_t *at) {
  int64_t n = s->in_spec[0].n_records;
  at->index = n - 1 - position % n;
  at->key[0] = (uint64_t)position, at->seeded = true;
  return MR_OK;
}
static const mr_stage_def_t mr_stage_backwards = {
    .name = "backwards",
    .help = "Test order.",
    .in = {{"in", MR_FLOW_RECORDS, false}},
    .out = {{"out", MR_FLOW_RECORDS, false}},
    .plan = backwards_plan,
    .order = &(const mr_order_def_t){.at = backwards_order},
};

/* addrandom: a map that adds a draw of the record's generator, and may fail at one key. */
typedef struct addrandom {
  int64_t fail_at, add;
} addrandom_t;
static const mr_opt_t addrandom_opts[] = {
    {.name = "fail-at", .type = MR_OPT_INT, .offset = offsetof(addrandom_t, fail_at), .def = "-1"},
    {.name = "add", .type = MR_OPT_INT, .offset = offsetof(addrandom_t, add), .def = "1"},
    {0}};
static mr_err_t addrandom_map(mr_stage_t *s, const mr_rec_t *in, mr_rec_t *out) {
  addrandom_t *a = s->state;
  if ((int64_t)in->key == a->fail_at)
    return mr_stage_fail(s, MR_ERR_DATA, "record %lld is bad", (long long)in->key);
  int64_t draw = in->rng ? (int64_t)(mr_philox_next64(in->rng) >> 40) * 1000 : 0;
  *(int64_t *)out->field->data = *(int64_t *)in->field->data + draw + a->add;
  mr_draw_note(out, (uint64_t)draw);
  return MR_OK;
}
static const mr_stage_def_t mr_stage_addrandom = {
    .name = "addrandom",
    .help = "Test map.",
    .in = {{"in", MR_FLOW_RECORDS, false}},
    .out = {{"out", MR_FLOW_RECORDS, false}},
    .opts = addrandom_opts,
    .state_sz = sizeof(addrandom_t),
    .plan = pass_plan,
    .map = &(const mr_map_def_t){.run = addrandom_map},
};

/* check: a sink that demands numbers in order and records what it saw. */
typedef struct check {
  int64_t got, ends, last_position, fail_at, sum, first_key;
  bool quit;
} check_t;
static const mr_opt_t check_opts[] = {
    {.name = "fail-at", .type = MR_OPT_INT, .offset = offsetof(check_t, fail_at), .def = "-1"},
    {.name = "quit", .type = MR_OPT_BOOL, .offset = offsetof(check_t, quit), .def = "false"},
    {0}};
static mr_err_t check_step(mr_stage_t *s) {
  check_t *c = s->state;
  mr_buf_t *b = NULL;
  mr_err_t e = mr_pull(s, 0, &b);
  if (e != MR_OK) return e;
  int64_t number;
  memcpy(&number, b->data, sizeof number);
  bool batches = s->in_spec[0].flow == MR_FLOW_BATCHES, right = batches || number == c->got;
  if (batches && !c->got) c->first_key = (int64_t)b->key[0];
  if (batches)
    for (int i = 0; i < b->n; i++) c->sum += ((int64_t *)b->data)[i] * (i + 1 + c->got);
  c->got++, c->ends += b->flags & MR_BUF_EPOCH_END, c->last_position = b->position;
  mr_buf_unref(b);
  if (!right) return mr_stage_fail(s, MR_ERR_DATA, "out of order at %lld", (long long)number);
  if (c->got == c->fail_at) return mr_stage_fail(s, MR_ERR_DATA, "asked to fail");
  return c->quit ? MR_END : MR_OK;
}
static const mr_stage_def_t mr_stage_check = {
    .name = "check",
    .help = "Test sink.",
    .in = {{"in", MR_FLOW_NONE, false}},
    .opts = check_opts,
    .state_sz = sizeof(check_t),
    .step = &(const mr_step_def_t){.run = check_step},
};

/* nap: passes one buffer on after a while that depends on its number. */
static mr_err_t nap_step(mr_stage_t *s) {
  mr_buf_t *b = NULL;
  mr_err_t e = mr_pull(s, 0, &b);
  if (e != MR_OK) return e;
  usleep((useconds_t)(b->position * 7919 % 5) * 20);
  return mr_push(s, 0, b);
}
static const mr_stage_def_t mr_stage_nap = {
    .name = "nap",
    .help = "Test stage.",
    .in = {{"in", MR_FLOW_NONE, false}},
    .out = {{"out", MR_FLOW_NONE, false}},
    .step = &(const mr_step_def_t){.run = nap_step, .parallel = true},
    .plan = pass_plan,
};

static const mr_stage_def_t *const own[] = {&mr_stage_picks,     &mr_stage_backwards,
                                            &mr_stage_addrandom, &mr_stage_check,
                                            &mr_stage_nap,       NULL};

static mr_registry_t registry;

static int setup(void **state) {
  mr_registry_add(&registry, mr_loaders_stages);
  mr_registry_add(&registry, mr_stages_stages);
  mr_registry_add(&registry, mr_sinks_stages);
  mr_registry_add(&registry, own);
  return 0;
}

static mr_graph_t *parsed(const char *text) {
  mr_diag_t diag = {0};
  mr_graph_t *g = mr_graph_create(&registry);
  if (mr_graph_parse(g, text, NULL, 0, &diag) < 0) fail_msg("%s", diag.text);
  return g;
}

static mr_graph_t *ran(const char *text) {
  mr_diag_t diag = {0};
  mr_graph_t *g = parsed(text);
  if (mr_graph_run(g, &diag) < 0) fail_msg("%s: %s", text, diag.text);
  return g;
}

static const check_t *checked(mr_graph_t *g, const char *name) {
  return mr_graph_stage(g, name)->state;
}

static char *report(mr_graph_t *g) {
  char *text = NULL;
  size_t n;
  FILE *f = open_memstream(&text, &n);
  mr_graph_report(g, f);
  fclose(f);
  return text;
}

/* ---- tests ---- */

static void counted_buffers_reach_the_null_sink(void **state) {
  mr_graph_t *g = ran("count 5000 ! identity ! identity ! null");
  char *text = report(g);
  assert_string_equal(text, "null: 5000 buffers\n");
  free(text);
  mr_stats_t st;
  mr_graph_stats(g, 1, &st);
  assert_int_equal(st.items, 5000);
  assert_int_equal(st.workers, 1);
  mr_graph_destroy(g);
}

static void order_is_restored_for_any_number_of_workers(void **state) {
  for (int n = 1; n <= 8; n++)
    for (int m = 1; m <= 8; m += 3) {
      char text[200];
      snprintf(text, sizeof text, "count 403 ! nap workers=%d ! nap workers=%d ! check", n, m);
      mr_graph_t *g = ran(text);
      assert_int_equal(checked(g, "check")->got, 403);
      mr_graph_destroy(g);
    }
}

static void a_tee_gives_every_consumer_everything(void **state) {
  mr_graph_t *g =
      ran("count 1000 name=c ! check name=x  c. ! identity workers=3 ! check name=y\n"
          "c. ! nap workers=2 ! tee name=t ! check name=z  t.b ! check name=u  t.d ! null");
  const char *names[] = {"x", "y", "z", "u"};
  for (int i = 0; i < 4; i++) assert_int_equal(checked(g, names[i])->got, 1000);
  mr_graph_destroy(g);
}

static void a_consumer_that_leaves_does_not_stop_the_others(void **state) {
  mr_graph_t *g = ran("count 3000 name=c ! check quit name=x  c. ! identity ! check name=y");
  assert_int_equal(checked(g, "x")->got, 1);
  assert_int_equal(checked(g, "y")->got, 3000);
  mr_graph_destroy(g);
}

static void a_source_ends_when_every_consumer_has_left(void **state) {
  mr_graph_t *g = ran("count 0 ! identity workers=2 ! identity ! null limit=700");
  char *text = report(g);
  assert_string_equal(text, "null: 700 buffers\n");
  free(text);
  mr_graph_destroy(g);
}

static void the_first_error_wins_and_names_its_stage(void **state) {
  mr_diag_t diag = {0};
  mr_graph_t *g = parsed("count 0 name=c ! nap workers=3 ! check fail-at=50 c. ! identity ! null");
  assert_int_equal(mr_graph_run(g, &diag), MR_ERR_DATA);
  assert_string_equal(diag.text, "check: asked to fail");
  mr_graph_destroy(g);
}

static void a_map_reports_a_bad_record(void **state) {
  mr_diag_t diag = {0};
  mr_graph_t *g = parsed("picks ! addrandom fail-at=77 name=m ! batch 8 workers=4 ! null");
  assert_int_equal(mr_graph_run(g, &diag), MR_ERR_DATA);
  assert_string_equal(diag.text, "m: record 77 is bad");
  mr_graph_destroy(g);
}

static void an_endless_graph_can_be_stopped_and_cancelled(void **state) {
  mr_diag_t diag = {0};
  mr_graph_t *g = parsed("count 0 ! identity workers=3 ! check");
  assert_int_equal(mr_graph_start(g, &diag), MR_OK);
  mr_stats_t st = {0};
  while (!st.items) usleep(1000), mr_graph_stats(g, 2, &st); /* until check has had some */
  mr_graph_stop(g);
  assert_int_equal(mr_graph_join(g, &diag), MR_OK);
  assert_true(checked(g, "check")->got > 0);
  mr_graph_destroy(g);

  g = parsed("count 0 ! nap ! check");
  assert_int_equal(mr_graph_start(g, &diag), MR_OK);
  mr_graph_cancel(g);
  assert_int_equal(mr_graph_join(g, &diag), MR_ERR_CANCEL);
  mr_graph_destroy(g);
  g = parsed("count 0 ! nap ! check");
  assert_int_equal(mr_graph_start(g, NULL), MR_OK);
  mr_graph_destroy(g); /* joins */
}

static void batches_do_not_depend_on_workers(void **state) {
  int64_t sum = 0;
  char first[200] = "";
  for (int n = 1; n <= 8; n++) {
    char text[256];
    snprintf(text, sizeof text,
             "picks name=p ! backwards ! addrandom ! addrandom add=5 ! batch 7 workers=%d name=b ! "
             "check  b. ! identity workers=%d ! null",
             n, 9 - n);
    mr_graph_t *g = ran(text);
    const check_t *c = checked(g, "check");
    assert_int_equal(c->got, 45); /* ceil(100/7) * 3 */
    assert_int_equal(c->ends, 3);
    assert_int_equal(c->last_position, 300);
    assert_int_equal(c->first_key, 99);
    char *said = report(g);
    if (n == 1) sum = c->sum, snprintf(first, sizeof first, "%s", said);
    assert_int_equal(c->sum, sum);
    assert_string_equal(said, first); /* with the ledger */
    free(said);
    mr_graph_destroy(g);
  }
  assert_non_null(strstr(first, "null: 45 batches, 300 records, ledger "));
}

static void the_remainder_is_dropped_when_asked(void **state) {
  mr_graph_t *g = ran("picks ! batch 7 drop-remainder ! check");
  assert_int_equal(checked(g, "check")->got, 42);
  assert_int_equal(checked(g, "check")->ends, 3);
  assert_int_equal(checked(g, "check")->last_position, 300);
  mr_graph_destroy(g);
}

static void a_stream_resumes_from_a_batch_boundary(void **state) {
  mr_diag_t diag = {0};
  mr_graph_t *g = parsed("picks ! batch 7 drop-remainder workers=3 ! check");
  assert_int_equal(mr_graph_start_at(g, "batch", 121, &diag), MR_OK); /* third of epoch 1 */
  assert_int_equal(mr_graph_run(g, &diag), MR_OK);
  assert_int_equal(checked(g, "check")->got, 11 + 14);
  assert_int_equal(checked(g, "check")->first_key, 21);
  mr_graph_destroy(g);

  g = parsed("picks ! batch 7 ! check");
  mr_graph_start_at(g, "batch", 120, &diag);
  assert_int_equal(mr_graph_run(g, &diag), MR_ERR_CONFIG);
  assert_string_equal(diag.text, "batch: no batch of 7 starts at position 120");
  mr_graph_destroy(g);
}

static void a_graph_draws_itself(void **state) {
  mr_diag_t diag = {0};
  mr_graph_t *g = parsed("picks ! backwards ! batch 7 workers=2 ! null");
  assert_int_equal(mr_graph_settle(g, &diag), MR_OK);
  char *text = NULL;
  size_t n;
  FILE *f = open_memstream(&text, &n);
  mr_graph_dot(g, f);
  fclose(f);
  assert_non_null(strstr(text, "subgraph cluster_2"));
  assert_non_null(strstr(text, "batches number i64[7,1], label i32[7], host"));
  assert_non_null(strstr(text, "size = 7"));
  free(text);
  mr_graph_destroy(g);
}

/* Whether the text builds the chain cifar100 ! filter ! batch ! null, whose filter has this label.
 */
static void builds_chain(const char *text, const char *label) {
  mr_graph_t *g = parsed(text);
  const char *got = mr_graph_setting(g, "f", "label");
  mr_diag_t diag = {0};
  if (!got || strcmp(got, label)) fail_msg("%s: label is %s", text, got ? got : "not set");
  if (mr_graph_settle(g, &diag) < 0) fail_msg("%s: %s", text, diag.text);
  mr_graph_destroy(g);
}

/* A bare word with a dot is a value where a value may stand, and otherwise names a stage. */
static void a_reference_may_follow_a_value_on_its_line(void **state) {
  static const char head[] = "synthetic n=8 name=s ! filter name=f ";
  static const struct {
    const char *tail, *label;
  } row[] = {{"3 ! batch 4 ! null", "3"},        {"3 f. ! batch 4 ! null", "3"},
             {"3 f.out ! batch 4 ! null", "3"},  {"label=3 f.out ! batch 4 ! null", "3"},
             {"3\nf.out ! batch 4 ! null", "3"}, {"f. ! batch 4 ! null", NULL},
             {"\nf.out ! batch 4 ! null", NULL}};
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    char text[200];
    snprintf(text, sizeof text, "%s%s", head, row[i].tail);
    if (row[i].label) {
      builds_chain(text, row[i].label);
    } else { /* the filter has no label, and the reference is one all the same */
      mr_graph_t *g = parsed(text);
      assert_null(mr_graph_setting(g, "f", "label"));
      mr_graph_destroy(g);
    }
  }
  mr_graph_t *g = parsed("npy name=n a.b labels=c.d ! batch 4 name=b b.out ! null");
  assert_string_equal(mr_graph_setting(g, "n", "images"), "a.b"); /* its value was open */
  assert_string_equal(mr_graph_setting(g, "b", "size"), "4");
  mr_graph_destroy(g);
  g = parsed("synthetic n=8 ! flip 0.25 name=f f.out ! batch 4 ! null");
  assert_string_equal(mr_graph_setting(g, "f", "p"), "0.25"); /* a number, not a port of stage 0 */
  mr_graph_destroy(g);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(counted_buffers_reach_the_null_sink),
      cmocka_unit_test(order_is_restored_for_any_number_of_workers),
      cmocka_unit_test(a_tee_gives_every_consumer_everything),
      cmocka_unit_test(a_consumer_that_leaves_does_not_stop_the_others),
      cmocka_unit_test(a_source_ends_when_every_consumer_has_left),
      cmocka_unit_test(the_first_error_wins_and_names_its_stage),
      cmocka_unit_test(a_map_reports_a_bad_record),
      cmocka_unit_test(an_endless_graph_can_be_stopped_and_cancelled),
      cmocka_unit_test(batches_do_not_depend_on_workers),
      cmocka_unit_test(the_remainder_is_dropped_when_asked),
      cmocka_unit_test(a_stream_resumes_from_a_batch_boundary),
      cmocka_unit_test(a_graph_draws_itself),
      cmocka_unit_test(a_reference_may_follow_a_value_on_its_line),
  };
  return cmocka_run_group_tests(tests, setup, NULL);
}
