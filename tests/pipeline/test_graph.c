/* Building and settling without running: text, calls, overrides, and every way to be wrong. */
/* clang-format off */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#include <stdlib.h>
#include <string.h>

#include "pipeline/graph/graph.h"
#include "pipeline/stage_source.h"
#include "pipeline/stage_step.h"
#include "tests/pipeline/dump.h"

typedef struct {
  int64_t n;
  bool fast;
  const char *path;
} knobs_t;

static const mr_opt_t knobs[] = {
    {.name = "n",
     .type = MR_OPT_INT,
     .offset = offsetof(knobs_t, n),
     .def = "1",
     .lo = 1,
     .hi = 9,
     .positional = 1},
    {.name = "fast", .type = MR_OPT_BOOL, .offset = offsetof(knobs_t, fast), .def = "false"},
    {.name = "path", .type = MR_OPT_STR, .offset = offsetof(knobs_t, path)},
    {0}};
static const mr_opt_t other_knobs[] = {
    {.name = "n", .type = MR_OPT_INT, .offset = offsetof(knobs_t, n), .lo = 1, .hi = 9}, {0}};

static mr_err_t records_plan(mr_stage_t *s) {
  s->out_spec[0] = (mr_spec_t){.flow = MR_FLOW_RECORDS,
                               .n_fields = 1,
                               .field = {{.name = "bytes", .dtype = MR_U8, .ndim = 1, .dim = {4}}},
                               .n_records = 10};
  return MR_OK;
}
static mr_err_t no_fetch(mr_stage_t *s, int w, const int64_t *i, int n, mr_rec_t *out) {
  return MR_ERR_DATA;
}
static mr_err_t pass_plan(mr_stage_t *s) { return s->out_spec[0] = s->in_spec[0], MR_OK; }
static mr_err_t no_step(mr_stage_t *s) { return MR_END; }
static mr_err_t picky_plan(mr_stage_t *s) {
  return mr_stage_fail(s, MR_ERR_SHAPE, "wants four dimensions");
}

#define IN                                                       \
  {                                                              \
    {"in", MR_FLOW_NONE, false}, { "extra", MR_FLOW_NONE, true } \
  }
#define OUT                                                        \
  {                                                                \
    {"out", MR_FLOW_BYTES, true}, { "log", MR_FLOW_METRICS, true } \
  }
static const mr_stage_def_t source = {.name = "source",
                                      .out = {{"out", MR_FLOW_BYTES, false}},
                                      .opts = knobs,
                                      .state_sz = sizeof(knobs_t),
                                      .step = &(const mr_step_def_t){.run = no_step}};
static const mr_stage_def_t records = {
    .name = "records",
    .out = {{"out", MR_FLOW_RECORDS, false}},
    .opts = other_knobs,
    .state_sz = sizeof(knobs_t),
    .plan = records_plan,
    .source = &(const mr_source_def_t){.fetch = no_fetch},
};
static const mr_stage_def_t pass = {
    .name = "pass",
    .in = IN,
    .out = OUT,
    .opts = knobs,
    .state_sz = sizeof(knobs_t),
    .step = &(const mr_step_def_t){.run = no_step, .parallel = true},
    .plan = pass_plan,
};
static const mr_stage_def_t picky = {
    .name = "picky", .in = IN, .plan = picky_plan, .step = &(const mr_step_def_t){.run = no_step}};
static const mr_stage_def_t sink = {.name = "sink",
                                    .role = MR_ROLE_DISCARD,
                                    .in = IN,
                                    .opts = knobs,
                                    .state_sz = sizeof(knobs_t),
                                    .step = &(const mr_step_def_t){.run = no_step}};
static const mr_stage_def_t meter = {.name = "meter",
                                     .in = {{"in", MR_FLOW_METRICS, false}},
                                     .step = &(const mr_step_def_t){.run = no_step}};
static const mr_opt_t host_knobs[] = {
    {.name = "host", .type = MR_OPT_STR, .offset = offsetof(knobs_t, path)}, {0}};
static const mr_stage_def_t maker = {.name = "maker",
                                     .in = {{"in", MR_FLOW_RECORDS, false}},
                                     .out = {{"out", MR_FLOW_BATCHES, false}},
                                     .opts = host_knobs,
                                     .state_sz = sizeof(knobs_t),
                                     .step = &(const mr_step_def_t){.run = no_step}};
static const mr_stage_def_t regroup = {.name = "regroup",
                                       .in = IN,
                                       .out = {{"out", MR_FLOW_BATCHES, true}},
                                       .step = &(const mr_step_def_t){.run = no_step}};
static const mr_opt_t place_knobs[] = {
    {.name = "place", .type = MR_OPT_STR, .offset = offsetof(knobs_t, path), .together = true},
    {0}};
static mr_err_t away_plan(mr_stage_t *s) {
  s->out_spec[0] = s->in_spec[0];
  s->out_spec[0].device = "moon";
  return MR_OK;
}
static const mr_stage_def_t away = {.name = "away",
                                    .in = {{"in", MR_FLOW_BATCHES}},
                                    .out = {{"out", MR_FLOW_BATCHES, .device = true}},
                                    .opts = place_knobs,
                                    .state_sz = sizeof(knobs_t),
                                    .plan = away_plan,
                                    .step = &(const mr_step_def_t){.run = no_step}};
static const mr_stage_def_t there = {.name = "there",
                                     .in = {{"in", MR_FLOW_BATCHES, .device = true}},
                                     .opts = place_knobs,
                                     .state_sz = sizeof(knobs_t),
                                     .step = &(const mr_step_def_t){.run = no_step}};
static const mr_stage_def_t *const table[] = {&source, &records, &pass, &picky, &sink, &meter,
                                              &maker,  &regroup, &away, &there, NULL};

static mr_registry_t reg;
static int setup(void **state) { return mr_registry_add(&reg, table), 0; }

static mr_graph_t *parsed(const char *text, const char *const *over, int n) {
  mr_diag_t diag = {0};
  mr_graph_t *g = mr_graph_create(&reg);
  if (mr_graph_parse(g, text, over, n, &diag) < 0) fail_msg("%s: %s", text, diag.text);
  return g;
}

static void text_and_calls_give_the_same_graph(void **state) {
  mr_graph_t *g = parsed(
      "# a comment\nlet two = 2\nlet three=3 # more\nlet dir = 'a b'\n"
      "source $two fast path=\"$dir/${two}x$$\" ! x.extra  # forward\n"
      "source 3\n  ! pass name=x workers=$three n=4\n  ! sink\n"
      "x.out ! pass! sink 'name=odd' fast=false\n"
      "x.log ! meter",
      NULL, 0);
  mr_graph_t *h = mr_graph_create(&reg);
  static const char *const add[][2] = {{"source", NULL}, {"source", NULL}, {"pass", "x"},
                                       {"sink", NULL},   {"pass", NULL},   {"sink", NULL},
                                       {"meter", NULL}};
  for (int i = 0; i < 7; i++)
    assert_int_equal(mr_graph_add(h, add[i][0], add[i][1], NULL, NULL), MR_OK);
  static const char *const set[][3] = {{"source", "n", "2"},          {"source", "fast", "true"},
                                       {"source", "path", "a b/2x$"}, {"source2", "n", "3"},
                                       {"x", "workers", "3"},         {"x", "n", "4"},
                                       {"sink2", "n", "name=odd"},    {"sink2", "fast", "false"}};
  for (int i = 0; i < 8; i++)
    assert_int_equal(mr_graph_set(h, set[i][0], set[i][1], set[i][2], NULL), MR_OK);
  static const char *const link[][4] = {
      {"source", NULL, "x", "extra"}, {"source2", NULL, "x", NULL},  {"x", NULL, "sink", NULL},
      {"x", "out", "pass", "in"},     {"pass", NULL, "sink2", NULL}, {"x", "log", "meter", NULL}};
  for (int i = 0; i < 6; i++)
    assert_int_equal(mr_graph_link(h, link[i][0], link[i][1], link[i][2], link[i][3], NULL), MR_OK);
  char *a = dump(g), *b = dump(h);
  assert_string_equal(a, b);
  free(a), free(b);
  mr_graph_destroy(g), mr_graph_destroy(h);
}

static void a_url_with_a_query_is_a_value(void **state) {
  mr_graph_t *g = parsed("source http://h/x?k=1&l=2 ! sink n=s3://b/k=1", NULL, 0);
  assert_string_equal(mr_graph_setting(g, "source", "n"), "http://h/x?k=1&l=2");
  assert_string_equal(mr_graph_setting(g, "sink", "n"), "s3://b/k=1");
  mr_graph_destroy(g);
}

static void wrong_text_is_reported_with_line_and_column(void **state) {
  static const char *const bad[][2] = {
      {"", "the graph has no stages"},
      {"sourse ! sink", "1:1: unknown stage \"sourse\"; did you mean \"source\"?"},
      {"source !\n  sunk", "2:3: unknown stage \"sunk\"; did you mean \"sink\"?"},
      {"source ! sink m=1 ",
       "1:15: sink: unknown setting \"m\"; `millrace inspect sink` lists its settings"},
      {"source ! pass workrs=1",
       "1:15: pass: unknown setting \"workrs\"; did you mean \"workers\"?"},
      {"source ! ! sink", "1:10: want a stage before \"!\""},
      {"source !", "1:9: want a stage before the end of the text: \"!\" joins two stages"},
      {"! sink", "1:1: want a stage before \"!\""},
      {"source 1 2 ! sink",
       "1:10: unexpected \"2\" after source: neither a stage nor a yes-or-no "
       "setting of it; its settings are NAME=VALUE, `millrace inspect source` lists them"},
      {"source 1 fst ! sink",
       "1:10: unexpected \"fst\" after source: neither a stage nor a "
       "yes-or-no setting of it; did you mean \"fast\"?"},
      {"source n=1 n=2 ! sink", "1:12: source: setting \"n\" is given twice"},
      {"source path=\"a ! sink", "1:13: the quote \" is not closed"},
      {"source path=$x ! sink", "1:8: unknown variable $x"},
      {"let runs = 1\nsource n=$run ! sink", "2:8: unknown variable $run; did you mean \"runs\"?"},
      {"let = 1", "1:5: want let NAME = VALUE"},
      {"let a =\nsource", "1:8: want a value after \"let a =\""},
      {"let a = 1 2\nsource", "1:11: \"2\" after the value of a variable: quote it"},
      {"let a = 1\nlet a = 2", "2:5: the variable \"a\" is defined twice"},
      {"source name=a ! sink name=a", "1:22: sink: the name \"a\" is taken"},
      {"source name=a.b ! sink", "1:8: source: name = \"a.b\": want letters, digits, - and _"},
      {"source ! sink.inn sink", "1:10: sink has no input \"inn\"; did you mean \"in\"?"},
      {"source ! snk. sink", "1:10: no stage is called \"snk\"; did you mean \"sink\"?"},
      {"source. sink", "1:1: \"source.\" is alone: want \"!\" after it"},
      {"sink ! sink", "1:1: sink has no output"},
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    mr_diag_t diag = {0};
    mr_graph_t *g = mr_graph_create(&reg);
    mr_graph_parse(g, bad[i][0], NULL, 0, &diag);
    assert_string_equal(diag.text, bad[i][1]);
    mr_graph_destroy(g);
  }
}

static void a_graph_that_does_not_fit_is_refused_when_it_settles(void **state) {
  static const char *const bad[][2] = {
      {"source",
       "1:1: source: the output \"out\" is not connected; join it by \"!\" to the stage that takes "
       "it, such as \"sink\""},
      {"sink", "1:1: sink: the input \"in\" is not connected"},
      {"source ! sink name=s\nsource ! s.",
       "2:10: s.in has two connections, from source and source2"},
      {"pass name=a ! pass name=b ! a.", "1:1: the graph has a cycle through a, b"},
      {"source ! meter", "1:10: source gives bytes host, but meter takes metrics"},
      {"source name=s ! pass ! sink\n pass.log ! meter",
       "2:13: pass: its plan leaves the records of output \"log\" without a size; set out_spec[1] "
       "with "
       "mr_report_spec"},
      {"records n=1 ! sink",
       "1:15: records gives records bytes u8[4], host, but sink takes buffers (a "
       "stage for it makes batches of records)"},
      {"source ! picky", "1:10: picky: wants four dimensions; source gives bytes host"},
      {"source\n n=10 ! sink", "2:2: source: setting n = \"10\": want a whole number in [1,9]"},
      {"source ! pass workers=65 ! sink",
       "1:15: pass: setting workers = \"65\": want a whole number in [1,64] of threads"},
      {"records ! sink", "1:1: records: setting n must be given"},
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    mr_diag_t diag = {0};
    mr_graph_t *g = parsed(bad[i][0], NULL, 0);
    assert_true(mr_graph_settle(g, &diag) < 0);
    assert_string_equal(diag.text, bad[i][1]);
    mr_graph_destroy(g);
  }
}

static void overrides_reach_variables_and_settings(void **state) {
  const char *over[] = {"dir=/x", "fast=yes", "pass.n=7", "b=$a"};
  mr_graph_t *g = parsed(
      "let a = 1\nlet dir = d$a\nlet b = 2\n"
      "source path=$dir/$b ! pass n=2 ! meter name=m",
      over, 1);
  assert_string_equal(mr_graph_setting(g, "source", "path"), "/x/2");
  for (int i = 2; i < 4; i++) assert_int_equal(mr_graph_override(g, over[i], NULL), MR_OK);
  assert_string_equal(mr_graph_setting(g, "source", "path"), "/x/$a"); /* taken as it is */
  assert_string_equal(mr_graph_setting(g, "pass", "n"), "7");
  assert_string_equal(mr_graph_setting(g, "source", "n"), "1");
  static const char *const bad[][2] = {
      {"n=3", "n=: several stages have it; use one of source.n, pass.n"},
      {"fsat=1",
       "fsat=: neither a variable of the graph nor a setting of a stage; did you mean "
       "\"fast\"?"},
      {"pas.n=3", "no stage of the graph is called \"pas\"; did you mean \"pass\"?"},
      {"meter.n=3", "no stage of the graph is called \"meter\"; the meter is \"m\""},
      {"pass.m=3", "pass: unknown setting \"m\"; `millrace inspect pass` lists its settings"},
      {"n", "\"n\": want NAME=VALUE"}};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    mr_diag_t diag = {0};
    assert_true(mr_graph_override(g, bad[i][0], &diag) < 0);
    assert_string_equal(diag.text, bad[i][1]);
  }
  mr_graph_destroy(g);
}

static void two_overrides_of_one_setting_are_refused(void **state) {
  static const char *const text = "let a = 1\nsource n=1 ! meter name=m";
  static const char *const twice[][2] = {{"fast=yes", "source.fast=no"},
                                         {"source.fast=no", "fast=yes"},
                                         {"source.n=3", "source.n=3"},
                                         {"a=1", "a=2"}};
  static const char *const once[][2] = {{"source.n=1", "source.fast=yes"}, {"a=1", "fast=yes"}};
  for (size_t i = 0; i < sizeof twice / sizeof *twice; i++) {
    mr_diag_t diag = {0};
    mr_graph_t *g = mr_graph_create(&reg);
    char want[160];
    snprintf(want, sizeof want, "%s and %s set the same %s: it is given twice, want one of them",
             twice[i][0], twice[i][1], i == 3 ? "variable" : "setting");
    if (mr_graph_parse(g, text, twice[i], 2, &diag) < 0) fail_msg("%s", diag.text);
    assert_int_equal(mr_graph_overrides_once(g, twice[i], 2, &diag), MR_ERR_USAGE);
    assert_string_equal(diag.text, want);
    mr_graph_destroy(g);
  }
  for (size_t i = 0; i < sizeof once / sizeof *once; i++) {
    mr_graph_t *g = parsed(text, once[i], 2);
    assert_int_equal(mr_graph_overrides_once(g, once[i], 2, NULL), MR_OK);
    mr_graph_destroy(g);
  }
}

static void a_swap_keeps_what_both_stages_know(void **state) {
  mr_graph_t *g = parsed("source 4 fast ! sink\nsource name=own ! sink", NULL, 0);
  assert_int_equal(mr_graph_swap(g, "source", "records", NULL), MR_OK);
  assert_int_equal(mr_graph_swap(g, "nobody", "records", NULL), MR_OK);
  assert_true(mr_graph_swap(g, "sink", "nobody", NULL) < 0);
  char *text = dump(g);
  assert_string_equal(text,
                      "records name=records n=\"4\"\nsink name=sink\nrecords name=own\n"
                      "sink name=sink2\nrecords.out ! sink.in\nown.out ! sink2.in\n");
  free(text);
  mr_graph_destroy(g);
}

/* Quotes, backslashes and dollars of a value, and a stage that is called like a setting of the one
   before it. */
static void a_dump_reads_back_as_the_same_graph(void **state) {
  mr_graph_t *g = parsed("source 4 path='a\"b\\c' fast ! sink\nsource path=$$x", NULL, 0);
  char *text = dump(g);
  mr_graph_t *h = parsed(text, NULL, 0);
  char *again = dump(h);
  assert_string_equal(again, text);
  assert_string_equal(mr_graph_setting(h, "source", "path"), "a\"b\\c");
  assert_string_equal(mr_graph_setting(h, "source2", "path"), "$x");
  free(text), free(again);
  mr_graph_destroy(g), mr_graph_destroy(h);
}

/* n variables, each twice the one before it. */
static void doubled(char *text, size_t size, const char *first, int n) {
  size_t at = (size_t)snprintf(text, size, "let v0 = %s\n", first);
  for (int i = 1; i < n; i++)
    at += (size_t)snprintf(text + at, size - at, "let v%d = $v%d$v%d\n", i, i - 1, i - 1);
  snprintf(text + at, size - at, "source path=$v%d ! sink", n - 1);
}

static void variables_that_grow_without_bound_are_refused(void **state) {
  char text[8192];
  mr_diag_t diag = {0};
  mr_graph_t *g = mr_graph_create(&reg);
  doubled(text, sizeof text, "xxxxxxxx", 30);
  assert_int_equal(mr_graph_parse(g, text, NULL, 0, &diag), MR_ERR_USAGE);
  assert_string_equal(diag.text,
                      "15:5: v14: its value is longer than 65536 bytes once variables "
                      "are replaced");
  mr_graph_destroy(g);

  doubled(text, sizeof text, "''", 200); /* nothing, 2^199 times */
  g = parsed(text, NULL, 0);
  assert_string_equal(mr_graph_setting(g, "source", "path"), "");
  mr_graph_destroy(g);

  doubled(text, sizeof text, "1234", 14); /* 32 KiB fit, and an override reaches what uses it */
  g = parsed(text, (const char *const[]){"v12=ab"}, 1);
  assert_string_equal(mr_graph_setting(g, "source", "path"), "abab");
  assert_int_equal(mr_graph_override(g, "v11=cd", NULL), MR_OK);
  assert_int_equal(mr_graph_override(g, "v13=$$", NULL), MR_OK);
  assert_string_equal(mr_graph_setting(g, "source", "path"), "$$");
  mr_graph_destroy(g);
}

static void the_line_of_batches_is_found_and_has_an_end_in_a_circle_too(void **state) {
  const char *last;
  mr_graph_t *g = parsed("records n=2 ! maker ! regroup ! sink", NULL, 0);
  assert_string_equal(mr_graph_batches(g, &last), "maker");
  assert_string_equal(last, "regroup");
  assert_string_equal(mr_graph_shares(g), "maker");
  mr_graph_destroy(g);
  g = parsed("records n=2 ! maker ! r.extra  regroup name=r ! regroup name=q ! r.in", NULL, 0);
  assert_string_equal(mr_graph_batches(g, &last), "maker");
  assert_non_null(last);
  assert_null(mr_graph_shares(g));
  mr_graph_destroy(g);
}

static void batches_on_a_device_go_where_they_can_be_read(void **state) {
  static const char *const text = "records n=1 ! maker ! regroup ! away ! ";
  char graph[128];
  const char *last;
  for (int i = 0; i < 3; i++) {
    mr_diag_t diag = {0};
    snprintf(graph, sizeof graph, "%s%s", text,
             i == 0   ? "there"
             : i == 1 ? "sink"
                      : "away ! there");
    mr_graph_t *g = parsed(graph, NULL, 0);
    assert_string_equal(mr_graph_batches(g, &last), "maker");
    assert_string_equal(last, "regroup"); /* away is not on the host's line */
    assert_string_equal(mr_graph_on_host(g, "away"), "regroup");
    assert_string_equal(mr_graph_on_host(g, "maker"), "maker");
    assert_null(mr_graph_on_host(g, "nowhere"));
    mr_err_t e = mr_graph_settle(g, &diag);
    if (i == 0) assert_int_equal(e, MR_OK);
    if (i) assert_int_equal(e, MR_ERR_SHAPE);
    if (i == 1)
      assert_non_null(strstr(diag.text,
                             "reads batches in the host's memory, and those of away"
                             " lie on device moon"));
    if (i == 2)
      assert_non_null(strstr(diag.text, "away2: the batches of away lie on device moon already"));
    mr_graph_destroy(g);
  }
}

static void a_setting_that_stages_have_together_is_set_in_all(void **state) {
  const char *over[] = {"place=x", "there.place=y"};
  mr_graph_t *g = parsed("records n=1 ! maker ! regroup ! away ! there", over, 2);
  assert_string_equal(mr_graph_setting(g, "away", "place"), "x");
  assert_string_equal(mr_graph_setting(g, "there", "place"), "y");
  mr_graph_destroy(g);
}

static void a_stage_is_put_on_a_link(void **state) {
  mr_diag_t diag = {0};
  const char *name;
  mr_graph_t *g = parsed("records n=1 ! maker ! regroup ! there", NULL, 0);
  assert_int_equal(mr_graph_insert(g, "away", "there", 0, &name, &diag), MR_OK);
  assert_string_equal(name, "away");
  assert_string_equal(mr_graph_before(g, "there", 0), "away");
  assert_string_equal(mr_graph_before(g, "away", 0), "regroup");
  assert_int_equal(mr_graph_settle(g, &diag), MR_OK);
  mr_graph_destroy(g);
  g = parsed("records n=1 ! maker ! regroup ! there", NULL, 0);
  assert_int_equal(mr_graph_insert(g, "away", "records", 0, &name, &diag), MR_ERR_USAGE);
  assert_int_equal(mr_graph_insert(g, "away", "nowhere", 0, &name, &diag), MR_ERR_USAGE);
  assert_int_equal(mr_graph_insert(g, "awya", "there", 0, &name, &diag), MR_ERR_USAGE);
  mr_graph_destroy(g);
}

static mr_err_t add_away(mr_graph_t *g, const char *name, mr_diag_t *diag) {
  const char *given;
  return strcmp(name, "away.place") ? MR_OK : mr_graph_insert(g, "away", "there", 0, &given, diag);
}

static void an_override_reaches_a_stage_that_is_inserted_for_it(void **state) {
  static const char text[] = "records n=1 ! maker ! regroup ! there";
  const char *over[] = {"away.place=x", "there.place=y"}, *other[] = {"abroad.place=x"};
  mr_diag_t diag = {0};
  mr_graph_t *g = mr_graph_create(&reg);
  mr_graph_on_missing(g, add_away);
  if (mr_graph_parse(g, text, over, 2, &diag) < 0) fail_msg("%s", diag.text);
  assert_string_equal(mr_graph_before(g, "there", 0), "away");
  assert_string_equal(mr_graph_setting(g, "away", "place"), "x");
  assert_string_equal(mr_graph_setting(g, "there", "place"), "y");
  mr_graph_destroy(g);
  g = mr_graph_create(&reg);
  mr_graph_on_missing(g, add_away);
  assert_int_equal(mr_graph_parse(g, text, other, 1, &diag), MR_ERR_USAGE);
  assert_non_null(strstr(diag.text, "no stage of the graph is called \"abroad\""));
  mr_graph_destroy(g);
}

static void a_settled_graph_takes_no_override(void **state) {
  mr_diag_t diag = {0};
  mr_graph_t *g = parsed("let two = 2\nsource $two ! sink", NULL, 0);
  assert_int_equal(mr_graph_settle(g, NULL), MR_OK);
  assert_int_equal(mr_graph_override(g, "two=3", &diag), MR_ERR_USAGE);
  assert_string_equal(diag.text, "the graph is settled: it cannot change");
  mr_graph_destroy(g);
}

static void settings_reach_the_state(void **state) {
  mr_graph_t *g = parsed("source 4 fast path='x y' ! sink", NULL, 0);
  assert_int_equal(mr_graph_settle(g, NULL), MR_OK);
  const knobs_t *k = mr_graph_stage(g, "source")->state;
  assert_true(k->n == 4 && k->fast);
  assert_string_equal(k->path, "x y");
  assert_true(mr_graph_set(g, "source", "n", "5", NULL) < 0); /* too late */
  assert_ptr_equal(mr_graph_stage_of(g, "sink"), mr_graph_stage_at(g, 1));
  mr_graph_destroy(g);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(text_and_calls_give_the_same_graph),
      cmocka_unit_test(a_url_with_a_query_is_a_value),
      cmocka_unit_test(wrong_text_is_reported_with_line_and_column),
      cmocka_unit_test(a_graph_that_does_not_fit_is_refused_when_it_settles),
      cmocka_unit_test(overrides_reach_variables_and_settings),
      cmocka_unit_test(two_overrides_of_one_setting_are_refused),
      cmocka_unit_test(a_swap_keeps_what_both_stages_know),
      cmocka_unit_test(a_dump_reads_back_as_the_same_graph),
      cmocka_unit_test(variables_that_grow_without_bound_are_refused),
      cmocka_unit_test(the_line_of_batches_is_found_and_has_an_end_in_a_circle_too),
      cmocka_unit_test(batches_on_a_device_go_where_they_can_be_read),
      cmocka_unit_test(a_setting_that_stages_have_together_is_set_in_all),
      cmocka_unit_test(a_stage_is_put_on_a_link),
      cmocka_unit_test(an_override_reaches_a_stage_that_is_inserted_for_it),
      cmocka_unit_test(a_settled_graph_takes_no_override),
      cmocka_unit_test(settings_reach_the_state),
  };
  return cmocka_run_group_tests(tests, setup, NULL);
}
