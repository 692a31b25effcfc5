/* Where records have generators: what is said of a stream when the graph settles is what its
   records then have. */
#include "tests/loaders/streams.h"

/* Notes what each record has, as numbers: 1 with a generator. */
static mr_err_t has_map(mr_stage_t *s, const mr_rec_t *in, mr_rec_t *out) {
  *(int64_t *)out->field->data = in->rng != NULL;
  return MR_OK;
}

static mr_err_t draws_plan(mr_stage_t *s) {
  s->out_spec[0] = s->in_spec[0];
  return mr_needs_generator(s, "nothing at all");
}

static const mr_stage_def_t mr_stage_has =
    STREAM_STAGE("has", .map = &(const mr_map_def_t){.run = has_map});
static const mr_stage_def_t mr_stage_draws = {
    .name = "draws",
    .help = "Test map that draws.",
    .in = {{"in", MR_FLOW_RECORDS, false}},
    .out = {{"out", MR_FLOW_RECORDS, false}},
    .plan = draws_plan,
    .map = &(const mr_map_def_t){.run = has_map},
};
static const mr_stage_def_t *const own_stages[] = {&mr_stage_has, &mr_stage_draws, NULL};

static const struct {
  const char *text;
  bool each; /* every record has one */
} streams[] = {
    {"range 12", false},
    {"range 12 ! sequential", false},
    {"range 12 ! sequential seed=0", true},
    {"range 12 ! shuffle", true},
    {"range 12 ! shuffle shuffle=false seed=-1", false},
    {"range 12 ! shuffle ! sequential ! slice 2:9", true},
    {"range 12 ! seed 5", false},
    {"range 12 ! seed 5 ! random-map", true},
    {"range 12 ! window-shuffle 4 seed=2", false},
    {"range 12 ! shuffle ! filter modulo=3 remainder=1:2 ! repeat 2 ! to-iter-dataset ! limit 9 "
     "! window-shuffle 4 seed=2 ! mp-prefetch 2",
     true},
    {"range 12 ! to-iter-dataset ! random-map seed=7 ! mp-prefetch 2", true},
    {"range 12 ! shuffle ! mix name=m range 12 ! shuffle seed=3 ! m.b m.", true},
    {"range 12 ! shuffle ! mix name=m range 12 ! m.b m.", false},
    {"range 12 ! mix name=m range 12 ! shuffle ! m.b m.", false},
    {"range 12 ! concatenate name=m range 12 ! m.b m. ! shuffle", true},
    {"range 12 ! shuffle epochs=1 ! concatenate name=m range 12 ! m.b m.", false},
    {"range 12 ! to-iter-dataset ! interleave 2 name=m range 12 ! random-map seed=1 ! m.b m.",
     false},
    {"range 12 ! shuffle ! zip name=m range 12 ! m.b m.", true},
    {"range 12 ! zip name=m range 12 ! shuffle ! m.b m.", false},
};

static bool settles(const char *text) {
  char whole[1024];
  mr_diag_t d = {0};
  snprintf(whole, sizeof whole, "%s ! draws ! batch 4", text);
  mr_graph_t *g = stream_graph(whole);
  mr_err_t e = mr_graph_settle(g, &d);
  mr_graph_destroy(g);
  if (e < 0 && !strstr(d.text, "draws: the records have no generator to draw from"))
    fail_msg("%s: %s", text, d.text);
  return e >= 0;
}

static bool each_has_one(const char *text) {
  char whole[1024];
  snprintf(whole, sizeof whole, "%s ! has ! batch 4", text);
  stream_t t = stream_run(whole);
  int64_t with = 0, all = 0;
  for (int k = 0; k < t.n; k++)
    for (int i = 0; i < t.element[k].n; i++, all++)
      with += t.element[k].value[i * t.element[k].width];
  stream_free(&t);
  assert_true(all > 0);
  return with == all;
}

static void stages_that_draw_are_accepted_exactly_where_records_have_generators(void **state) {
  stream_stages = own_stages;
  for (size_t k = 0; k < sizeof streams / sizeof *streams; k++) {
    bool said = settles(streams[k].text), there = each_has_one(streams[k].text);
    if (said != streams[k].each || there != streams[k].each)
      fail_msg("%s: taken %d, there %d, want %d", streams[k].text, said, there, streams[k].each);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(stages_that_draw_are_accepted_exactly_where_records_have_generators),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
