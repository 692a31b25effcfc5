/* What is refused of a stage's constant, each by a sentence that names the stage and the member. */
/* clang-format off */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#include <string.h>

#include "base/feature.h"
#include "pipeline/care.h"
#include "pipeline/registry.h"
#include "pipeline/stage_filter.h"
#include "pipeline/stage_join.h"
#include "pipeline/stage_map.h"
#include "pipeline/stage_order.h"
#include "pipeline/stage_source.h"
#include "pipeline/stage_step.h"
#include "pipeline/stage_walk.h"

#define RECORDS \
  { .name = "x", .flow = MR_FLOW_RECORDS }

static mr_err_t fetch(mr_stage_t *s, int worker, const int64_t *index, int n, mr_rec_t *out) {
  return MR_OK;
}
static mr_err_t at(mr_stage_t *s, int64_t position, mr_at_t *out) { return MR_OK; }
static mr_err_t map(mr_stage_t *s, const mr_rec_t *in, mr_rec_t *out) { return MR_OK; }
static mr_err_t keep(mr_stage_t *s, const mr_rec_t *rec, bool *kept) { return MR_OK; }
static mr_err_t join(mr_stage_t *s, const mr_rec_t *in, int n, mr_rec_t *out) { return MR_OK; }
static mr_err_t next(mr_stage_t *s, mr_walk_t *w) { return MR_END; }
static mr_err_t run(mr_stage_t *s) { return MR_END; }

static const mr_source_def_t a_source = {.fetch = fetch};
static const mr_order_def_t an_order = {.at = at};
static const mr_map_def_t a_map = {.run = map};
static const mr_filter_def_t a_filter = {.keep = keep};
static const mr_join_def_t a_join = {.run = join};
static const mr_walk_def_t a_walk = {.next = next};
static const mr_step_def_t a_step = {.run = run};

/* A definition of all kinds whose bit is set, with the ports that most of them have. */
enum { SOURCE = 1, ORDER = 2, MAP = 4, FILTER = 8, JOIN = 16, WALK = 32, STEP = 64, ALL = 127 };

static mr_stage_def_t of_kinds(int kinds) {
  mr_stage_def_t d = {.name = "odd", .in = {RECORDS}, .out = {RECORDS}};
  if (kinds & SOURCE) d.source = &a_source;
  if (kinds & ORDER) d.order = &an_order;
  if (kinds & MAP) d.map = &a_map;
  if (kinds & FILTER) d.filter = &a_filter;
  if (kinds & JOIN) d.join = &a_join;
  if (kinds & WALK) d.walk = &a_walk;
  if (kinds & STEP) d.step = &a_step;
  if (kinds == SOURCE) memset(d.in, 0, sizeof d.in);
  if (kinds == STEP) d.out[0].flow = MR_FLOW_BATCHES;
  return d;
}

static void refused(const mr_stage_def_t *d, const char *part) {
  mr_diag_t diag = {0};
  assert_int_equal(mr_stage_def_check(d, &diag), MR_ERR_CONFIG);
  if (!strstr(diag.text, part)) fail_msg("\"%s\" does not say \"%s\"", diag.text, part);
  if (d->name && *d->name && !strstr(diag.text, "\"odd\"")) fail_msg("no name: %s", diag.text);
  assert_int_equal(mr_stage_def_check(d, NULL), MR_ERR_CONFIG);
}

static void only_one_kind_or_order_and_walk_pass(void **state) {
  for (int kinds = 0; kinds <= ALL; kinds++) {
    mr_stage_def_t d = of_kinds(kinds);
    bool single = kinds && !(kinds & (kinds - 1));
    if (single || kinds == (ORDER | WALK))
      assert_int_equal(mr_stage_def_check(&d, NULL), MR_OK);
    else
      refused(&d, kinds ? "want one kind" : "of no kind");
  }
  mr_stage_def_t d = of_kinds(MAP | STEP);
  refused(&d, "sets .map and .step");
}

static void a_kind_without_its_function_is_refused(void **state) {
  mr_stage_def_t d = of_kinds(SOURCE);
  d.source = &(const mr_source_def_t){.care = 8}, refused(&d, ".source needs .fetch");
  d = of_kinds(ORDER), d.order = &(const mr_order_def_t){.sparse = true};
  refused(&d, ".order needs .at");
  d = of_kinds(MAP), d.map = &(const mr_map_def_t){0}, refused(&d, ".map needs .run");
  d = of_kinds(FILTER), d.filter = &(const mr_filter_def_t){.of_record = true};
  refused(&d, ".filter needs .keep");
  d = of_kinds(JOIN), d.join = &(const mr_join_def_t){0}, refused(&d, ".join needs .run");
  d = of_kinds(ORDER | WALK), d.walk = &(const mr_walk_def_t){.n_words = 2};
  refused(&d, ".walk needs .next");
  d = of_kinds(STEP), d.step = &(const mr_step_def_t){.parallel = true};
  refused(&d, ".step needs .run");
}

static void ports_fit_the_kind(void **state) {
  mr_stage_def_t d = of_kinds(SOURCE);
  d.in[0] = (mr_port_def_t)RECORDS, refused(&d, "has 1 inputs, want 0 to 0 for .source");
  d = of_kinds(MAP), d.in[1] = (mr_port_def_t)RECORDS, refused(&d, "want 1 to 1 for .map");
  d = of_kinds(FILTER), memset(d.in, 0, sizeof d.in), refused(&d, "want 1 to 1 for .filter");
  d = of_kinds(WALK), memset(d.in, 0, sizeof d.in), refused(&d, "for .walk");
  d = of_kinds(MAP), d.in[0].flow = MR_FLOW_BATCHES, refused(&d, "must take records for .map");
  d = of_kinds(JOIN), d.out[0].flow = MR_FLOW_NONE, refused(&d, "one output, of records");
  d = of_kinds(ORDER), d.out[1] = (mr_port_def_t)RECORDS, refused(&d, "one output, of records");
  d = of_kinds(ORDER), memset(d.out, 0, sizeof d.out), refused(&d, "one output, of records");
  d = of_kinds(STEP), d.out[0].flow = MR_FLOW_RECORDS, refused(&d, "gives records");
}

static void a_stage_that_is_not_built_in_is_only_named(void **state) {
  mr_stage_def_t d = of_kinds(STEP);
  for (const mr_feature_t *f = mr_features; f->name; f++) {
    d.needs = f->name, assert_int_equal(mr_stage_def_check(&d, NULL), MR_OK);
    mr_stage_def_t bare = {.name = "odd", .help = "Is odd.", .needs = f->name};
    if (f->version)
      refused(&bare, "of no kind");
    else
      assert_int_equal(mr_stage_def_check(&bare, NULL), MR_OK);
  }
  d.needs = "NONE", refused(&d, ".needs = \"NONE\", want names of optional libraries");
}

typedef struct state {
  mr_care_t care;
  int64_t n;
} state_t;

static void settings_lie_inside_the_state(void **state) {
  mr_stage_def_t d = of_kinds(SOURCE);
  const mr_opt_t unnamed[] = {{.type = MR_OPT_INT}, {0}};
  const mr_opt_t no_choice[] = {{.name = "n", .type = MR_OPT_ENUM}, {0}};
  mr_opt_t one[] = {{.name = "n", .type = MR_OPT_INT, .offset = offsetof(state_t, n)}, {0}};
  mr_opt_t many[66] = {{0}};
  for (int i = 0; i < 65; i++) many[i] = one[0];
  d.state_sz = sizeof(state_t);
  d.opts = one, assert_int_equal(mr_stage_def_check(&d, NULL), MR_OK);
  d.opts = unnamed, refused(&d, "setting 0 has no name");
  d.opts = no_choice, refused(&d, "\"n\" has no choices");
  d.opts = many, refused(&d, "more than 64 settings");
  d.opts = one, one[0].offset = sizeof(state_t) - 7, refused(&d, "\"n\" lies outside the state");
  one[0].offset = SIZE_MAX - 3, refused(&d, "lies outside the state");
  one[0].offset = 0, one[0].type = (mr_opt_type_t)99, refused(&d, "lies outside the state");
  d.opts = NULL, d.source = &(const mr_source_def_t){.fetch = fetch, .care = 16};
  refused(&d, ".care lies outside the state");
}

static void a_stage_without_a_name_is_refused(void **state) {
  mr_stage_def_t d = of_kinds(MAP);
  d.name = NULL, refused(&d, "no name");
  d.name = "", refused(&d, "no name");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(only_one_kind_or_order_and_walk_pass),
      cmocka_unit_test(a_kind_without_its_function_is_refused),
      cmocka_unit_test(ports_fit_the_kind),
      cmocka_unit_test(a_stage_that_is_not_built_in_is_only_named),
      cmocka_unit_test(settings_lie_inside_the_state),
      cmocka_unit_test(a_stage_without_a_name_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
