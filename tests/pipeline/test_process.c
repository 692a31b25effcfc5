/* process blocks: parsed, dumped, cut, and reported when wrong. */
/* clang-format off */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#include <stdlib.h>
#include <string.h>

#include "pipeline/graph/process.h"
#include "pipeline/stage_source.h"
#include "pipeline/stage_step.h"
#include "tests/pipeline/dump.h"

/* Ends of links by their names and settings only: what they do is tested with the real ones. */
typedef struct {
  const char *link, *address, *key, *peers, *peer;
  bool bind;
  int64_t window;
} end_t;

#define TEXT(NAME) \
  { .name = #NAME, .type = MR_OPT_STR, .offset = offsetof(end_t, NAME) }
static const mr_opt_t end_opts[] = {
    TEXT(link),
    TEXT(address),
    TEXT(key),
    TEXT(peers),
    TEXT(peer),
    {.name = "bind", .type = MR_OPT_BOOL, .offset = offsetof(end_t, bind), .def = "false"},
    {.name = "window",
     .type = MR_OPT_INT,
     .offset = offsetof(end_t, window),
     .def = "8",
     .lo = 1,
     .hi = 99},
    {0}};

static bool planned_elsewhere; /* count, the last time */
static mr_err_t bytes_plan(mr_stage_t *s) {
  planned_elsewhere = s->elsewhere;
  s->out_spec[0] = mr_spec_of_bytes(MR_FLOW_BYTES, 5);
  return MR_OK;
}
static mr_err_t pass_plan(mr_stage_t *s) { return s->out_spec[0] = s->in_spec[0], MR_OK; }
static mr_err_t over(mr_stage_t *s) { return MR_END; }
static mr_err_t no_fetch(mr_stage_t *s, int w, const int64_t *i, int n, mr_rec_t *out) {
  return MR_ERR_DATA;
}

static const mr_stage_def_t count = {.name = "count",
                                     .out = {{"out", MR_FLOW_BYTES, true}},
                                     .plan = bytes_plan,
                                     .step = &(const mr_step_def_t){.run = over}};
static const mr_stage_def_t records = {.name = "records",
                                       .out = {{"out", MR_FLOW_RECORDS}},
                                       .source = &(const mr_source_def_t){.fetch = no_fetch}};
static const mr_stage_def_t sink = {.name = "sink",
                                    .in = {{"in", MR_FLOW_NONE}, {"more", MR_FLOW_NONE, true}},
                                    .out = {{"log", MR_FLOW_METRICS, true}},
                                    .step = &(const mr_step_def_t){.run = over}};
static const mr_stage_def_t out = {
    .name = "sends",
    .role = MR_ROLE_LINK_OUT,
    .in = {{"in", MR_FLOW_NONE}},
    .out = {{"link", MR_FLOW_NONE, true}},
    .opts = end_opts,
    .state_sz = sizeof(end_t),
    .plan = pass_plan,
    .step = &(const mr_step_def_t){.run = over, .outside = true},
};
static const mr_stage_def_t in = {
    .name = "receives",
    .role = MR_ROLE_LINK_IN,
    .in = {{"link", MR_FLOW_NONE, true}},
    .out = {{"out", MR_FLOW_NONE}},
    .opts = end_opts,
    .state_sz = sizeof(end_t),
    .plan = pass_plan,
    .step = &(const mr_step_def_t){.run = over, .outside = true},
};
static const mr_stage_def_t *const table[] = {&count, &records, &sink, &out, &in, NULL};

static mr_registry_t reg;
static int setup(void **state) { return mr_registry_add(&reg, table), 0; }

static mr_graph_t *parsed(const char *text) {
  mr_diag_t diag = {0};
  mr_graph_t *g = mr_graph_create(&reg);
  if (mr_graph_parse(g, text, NULL, 0, &diag) < 0) fail_msg("%s: %s", text, diag.text);
  return g;
}

static const char two[] =
    "let port = 7000\n"
    "process reader {\n  count name=a\n}\n"
    "process trainer restart=5 address=tcp://0.0.0.0:$port window=4 { sink name=b }\n"
    "a. ! b.   count name=c ! b.more\n";

static void blocks_and_their_settings_are_read(void **state) {
  mr_graph_t *g = parsed(two);
  mr_process_t p;
  assert_int_equal(mr_graph_n_processes(g), 2);
  assert_int_equal(mr_graph_process(g, 0, &p, NULL), MR_OK);
  assert_string_equal(p.name, "reader");
  assert_int_equal(p.restart, 3);
  assert_null(p.address);
  assert_int_equal(mr_graph_override(g, "trainer.restart=7", NULL), MR_OK);
  assert_int_equal(mr_graph_process(g, 1, &p, NULL), MR_OK);
  assert_int_equal(p.restart, 7);
  assert_int_equal(p.window, 4);
  assert_string_equal(p.address, "tcp://0.0.0.0:7000");
  mr_graph_destroy(g);
}

static void a_dump_keeps_the_blocks(void **state) {
  mr_graph_t *g = parsed(two);
  char *a = dump(g);
  mr_graph_t *h = parsed(a);
  char *b = dump(h);
  assert_string_equal(a, b);
  assert_non_null(strstr(a, "process reader {\ncount name=a\n}\n"));
  free(a), free(b);
  mr_graph_destroy(g), mr_graph_destroy(h);
}

static void uncut_it_is_a_graph_like_any_other(void **state) {
  mr_graph_t *g = parsed(two);
  mr_diag_t diag = {0};
  assert_int_equal(mr_graph_run(g, &diag), MR_OK);
  mr_graph_destroy(g);
}

static void edges_that_cross_become_links(void **state) {
  mr_graph_t *g = parsed(
      "process reader address=tcp://10.0.0.1:70 key=r.key { count name=a   count name=c }\n"
      "process trainer window=3 peers=r.pub { sink name=b }\n"
      "process other address=ipc://@x { sink name=d }\n"
      "a. ! b.\nc. ! b.more\na. ! d.\n");
  mr_diag_t diag = {0};
  if (mr_graph_cut(g, "r1", &diag) < 0 || mr_graph_settle(g, &diag) < 0) fail_msg("%s", diag.text);
  static const char *const want[][4] = {{"to-b", "address", "tcp://10.0.0.1:70"},
                                        {"from-a", "address", "tcp://10.0.0.1:70"},
                                        {"to-b-more", "address", "tcp://10.0.0.1:71"},
                                        {"to-b", "bind", "true"},
                                        {"from-a", "bind", "false"},
                                        {"from-a2", "bind", "true"},
                                        {"from-a2", "address", "ipc://@x"},
                                        {"to-d", "link", "link-2"},
                                        {"from-a2", "link", "link-2"},
                                        {"from-a", "window", "3"},
                                        {"from-a", "peers", "r.pub"},
                                        {"to-b", "peer", "trainer"},
                                        {"from-a", "peer", "reader"},
                                        {"to-b", "key", "r.key"}};
  for (size_t i = 0; i < sizeof want / sizeof *want; i++)
    assert_string_equal(mr_graph_setting(g, want[i][0], want[i][1]), want[i][2]);
  assert_string_equal(mr_graph_before(g, "b", 1), "from-c");
  assert_string_equal(mr_graph_before(g, "from-c", 0), "to-b-more");
  mr_graph_destroy(g);
}

static void of_a_cut_graph_one_process_is_kept_with_its_specs(void **state) {
  mr_graph_t *g = parsed("process r { count name=a }\nprocess t { sink name=b }\na. ! b.");
  mr_diag_t diag = {0};
  assert_int_equal(mr_graph_cut(g, "r1", &diag), MR_OK);
  assert_true(mr_graph_keep_process(g, "q", &diag) < 0);
  assert_string_equal(diag.text, "no process of the graph is called \"q\"");
  assert_int_equal(mr_graph_keep_process(g, "t", &diag), MR_OK);
  assert_int_equal(mr_graph_settle(g, &diag), MR_OK);
  char want[256];
  assert_int_equal(mr_process_address("r1", 0, want, sizeof want, NULL), MR_OK);
  assert_string_equal(mr_graph_setting(g, "from-a", "address"), want);
  assert_true(planned_elsewhere);
  assert_int_equal(mr_graph_keep_process(g, "r", &diag), MR_ERR_USAGE);
  assert_int_equal(mr_graph_n_stages(g), 2);
  assert_int_equal(mr_graph_stage(g, "from-a")->out_spec[0].field->dim[0], 5);
  assert_int_equal(mr_graph_run(g, &diag), MR_OK);
  mr_graph_destroy(g);
}

static void the_stages_of_the_kept_process_are_planned_as_its_own(void **state) {
  mr_graph_t *g = parsed("process r { count name=a }\nprocess t { sink name=b }\na. ! b.");
  mr_diag_t diag = {0};
  assert_int_equal(mr_graph_cut(g, "r1", &diag), MR_OK);
  assert_int_equal(mr_graph_keep_process(g, "r", &diag), MR_OK);
  assert_int_equal(mr_graph_settle(g, &diag), MR_OK);
  assert_false(planned_elsewhere);
  assert_int_equal(mr_graph_n_stages(g), 2);
  assert_non_null(mr_graph_stage(g, "to-b"));
  mr_graph_destroy(g);
}

static void wrong_process_blocks_are_reported_with_line_and_column(void **state) {
  static const char *const bad[][2] = {
      {"process { count }", "1:1: want process NAME { ... }"},
      {"process a count", "1:11: want \"{\" or NAME=VALUE after process a"},
      {"process a { count", "process a is not closed"},
      {"count }", "1:7: \"}\" without a process { before it"},
      {"process a {\nprocess b { }", "2:1: process a is not closed yet"},
      {"process a { }\nprocess a { }", "the name \"a\" is taken"},
      {"process count { count name=count }", "the name \"count\" is taken"},
      {"process a restarts=2 { count }", "unknown setting \"restarts\"; did you mean \"restart\"?"},
      {"process a name=b { count }", "name is given twice"},
      {"process a { }", "the graph has no stages"}};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    mr_diag_t diag = {0};
    mr_graph_t *g = mr_graph_create(&reg);
    if (mr_graph_parse(g, bad[i][0], NULL, 0, &diag) >= 0) fail_msg("taken: %s", bad[i][0]);
    if (!strstr(diag.text, bad[i][1])) fail_msg("%s: %s", bad[i][0], diag.text);
    mr_graph_destroy(g);
  }
}

static void edges_that_cannot_leave_a_process_are_refused(void **state) {
  static const char *const bad[][2] = {
      {"process a { count ! sink }\ncount ! sink", "2:1: count2 is in no process"},
      {"process a { records name=r }\nprocess b { sink name=s }\nr. ! s.",
       "r.out to s.in: records do not leave a process"},
      {"process a { count ! sink name=t }\nprocess b { sink name=s }\nt.log ! s.",
       "metrics do not leave a process this way"},
      {"process a { count name=c }\nprocess b address=tcp://h:0 { sink name=s }\nc. ! s.",
       "b: address = \"tcp://h:0\": want tcp://HOST:PORT"}};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    mr_diag_t diag = {0};
    mr_graph_t *g = parsed(bad[i][0]);
    if (mr_graph_cut(g, "r", &diag) >= 0) fail_msg("cut: %s", bad[i][0]);
    if (!strstr(diag.text, bad[i][1])) fail_msg("%s: %s", bad[i][0], diag.text);
    mr_graph_destroy(g);
  }
}

static void the_drawing_has_a_cluster_for_each_process(void **state) {
  mr_graph_t *g = parsed(two);
  char *text = NULL;
  size_t n;
  assert_int_equal(mr_graph_settle(g, NULL), MR_OK);
  FILE *f = open_memstream(&text, &n);
  mr_graph_dot(g, f);
  fclose(f);
  assert_non_null(strstr(text, "subgraph cluster_process_0"));
  assert_non_null(strstr(text, "label=\"process trainer\""));
  assert_non_null(strstr(text, "style=bold"));
  free(text);
  mr_graph_destroy(g);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(blocks_and_their_settings_are_read),
      cmocka_unit_test(a_dump_keeps_the_blocks),
      cmocka_unit_test(uncut_it_is_a_graph_like_any_other),
      cmocka_unit_test(edges_that_cross_become_links),
      cmocka_unit_test(of_a_cut_graph_one_process_is_kept_with_its_specs),
      cmocka_unit_test(the_stages_of_the_kept_process_are_planned_as_its_own),
      cmocka_unit_test(wrong_process_blocks_are_reported_with_line_and_column),
      cmocka_unit_test(edges_that_cannot_leave_a_process_are_refused),
      cmocka_unit_test(the_drawing_has_a_cluster_for_each_process),
  };
  return cmocka_run_group_tests(tests, setup, NULL);
}
