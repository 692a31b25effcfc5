/* What is refused of a stage's constant, each by a sentence that names the stage and the member. */
/* clang-format off */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#include <stdlib.h>
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
  d.step = &(const mr_step_def_t){.pulled = true}, refused(&d, ".step is .pulled");
  memset(d.out, 0, sizeof d.out);
  assert_int_equal(mr_stage_def_check(&d, NULL), MR_OK);
  d.step = &(const mr_step_def_t){.pulled = true, .parallel = true};
  refused(&d, ".step is .pulled");
  d.step = &(const mr_step_def_t){.pulled = true, .run = run}, refused(&d, ".step is .pulled");
}

/* Behind the described inputs a graph may link thousands. */
static void only_kinds_of_many_inputs_take_more(void **state) {
  static const int one[] = {MAP, FILTER}, many[] = {ORDER, JOIN, WALK, STEP};
  for (size_t i = 0; i < sizeof one / sizeof *one; i++) {
    mr_stage_def_t d = of_kinds(one[i]);
    d.in[0].more = d.in[0].alike = d.in[0].optional = true;
    refused(&d, "has .more, and .");
  }
  for (size_t i = 0; i < sizeof many / sizeof *many; i++) {
    mr_stage_def_t d = of_kinds(many[i]);
    d.in[0].more = d.in[0].alike = d.in[0].optional = true;
    assert_int_equal(mr_stage_def_check(&d, NULL), MR_OK);
    d.in[0].alike = false, refused(&d, "has .more, which only the last input can");
    d.in[0].alike = true, d.in[1] = (mr_port_def_t)RECORDS;
    refused(&d, "has .more, which only the last input can");
  }
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
  mr_opt_t many[MR_SETTINGS_MAX + 2] = {{0}};
  for (int i = 0; i <= MR_SETTINGS_MAX; i++) many[i] = one[0];
  d.state_sz = sizeof(state_t);
  d.opts = one, assert_int_equal(mr_stage_def_check(&d, NULL), MR_OK);
  d.opts = unnamed, refused(&d, "setting 0 has no name");
  d.opts = no_choice, refused(&d, "\"n\" has no choices");
  d.opts = many, refused(&d, "more than 128 settings");
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

/* ---- tables of plug-ins ---- */

static mr_stage_def_t named(const char *name, const char *alias) {
  mr_stage_def_t d = of_kinds(MAP);
  d.name = name, d.help = "Is odd.", d.alias = alias;
  return d;
}

/* What is said of a table of two stages; "" if it passes. */
static const char *said_of(const mr_stage_def_t *a, const mr_stage_def_t *b) {
  static mr_stage_def_t ours;
  static mr_diag_t diag;
  mr_registry_t *reg = calloc(1, sizeof *reg);
  const mr_stage_def_t *const table[] = {a, b, NULL};
  ours = named("ours", "former older"), diag = (mr_diag_t){0};
  mr_registry_add(reg, (const mr_stage_def_t *const[]){&ours, NULL});
  mr_err_t e = mr_registry_check(reg, table, "plug-in x", &diag);
  free(reg);
  assert_true(e == MR_OK || e == MR_ERR_CONFIG);
  return e < 0 ? diag.text : "";
}

#define LETTERS63 "abcdefghijklmnopqrstuvwxyz-ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"

static void a_name_or_alias_of_a_plug_in_belongs_to_one_stage(void **state) {
  static const struct {
    const char *name[2], *alias[2], *part; /* part: "", it passes */
  } row[] = {
      {{"a", "b"}, {NULL, NULL}, ""},
      {{"a", "b"}, {"c  d", " e "}, ""},
      {{"a", "b"}, {LETTERS63, NULL}, ""},
      {{LETTERS63, "b"}, {NULL, NULL}, ""},
      {{"a", "b"}, {"", " "}, ""},
      {{"ab", "b"}, {"bc", "c"}, ""},
      {{"a", "a"},
       {NULL, NULL},
       "\"a\": its name \"a\" is a name of stage \"a\" of the same table"},
      {{"a", "b"}, {NULL, "a"}, "\"b\": its alias \"a\" is a name of stage \"a\" of the same"},
      {{"a", "b"}, {"b", NULL}, "\"b\": its name \"b\" is a name of stage \"a\" of the same"},
      {{"a", "b"}, {"c", "d c"}, "\"b\": its alias \"c\" is a name of stage \"a\" of the same"},
      {{"a", "b"}, {"a", NULL}, "\"a\": it has the name \"a\" twice"},
      {{"a", "b"}, {"c d c", NULL}, "\"a\": it has the name \"c\" twice"},
      {{"ours", "b"}, {NULL, NULL}, "\"ours\": the program has a stage of that name"},
      {{"older", "b"}, {NULL, NULL}, "\"older\": the program has a stage of that name"},
      {{"a", "b"}, {NULL, "c ours"}, "\"b\": its alias \"ours\" is a name of stage \"ours\""},
      {{"a", "b"}, {"former", NULL}, "\"a\": its alias \"former\" is a name of stage \"ours\""},
      {{"let", "b"}, {NULL, NULL}, "the name \"let\" is a word of graph text"},
      {{"a", "b"}, {NULL, "c let"}, "\"b\": the alias \"let\" is a word of graph text"},
      {{"a", "b"}, {"process c", NULL}, "the alias \"process\" is a word of graph text"},
      {{"a", "b"}, {"plugin", NULL}, "the alias \"plugin\" is a word of graph text"},
      {{"a!", "b"}, {NULL, NULL}, "the name \"a!\": expected letters"},
      {{"a", "b"}, {"c=d", NULL}, "the alias \"c=d\": expected letters, digits, - and _"},
      {{"a", "b"}, {"c\td", NULL}, "expected letters, digits, - and _"},
      {{"a", "b"}, {NULL, "x."}, "the alias \"x.\": expected letters"},
      {{"a", "b"}, {"_" LETTERS63, NULL}, "has 64 characters, want at most 63"},
      {{"_" LETTERS63, "b"}, {NULL, NULL}, "has 64 characters, want at most 63"},
  };
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    mr_stage_def_t a = named(row[i].name[0], row[i].alias[0]);
    mr_stage_def_t b = named(row[i].name[1], row[i].alias[1]);
    const char *says = said_of(&a, &b);
    if (*row[i].part ? !strstr(says, row[i].part) : *says)
      fail_msg("row %zu: \"%s\", want \"%s\"", i, says, row[i].part);
  }
}

static void a_plug_in_s_hints_come_before_those_of_the_program(void **state) {
  static const mr_hint_t words[] = {{"other", NULL, NULL}, {0}};
  static const mr_hint_t first[] = {{"thing", NULL, "the first"}, {0}};
  static const mr_hint_t second[] = {{"thing", NULL, "the second"}, {0}};
  mr_registry_t *reg = calloc(1, sizeof *reg);
  mr_stage_def_t one = named("one", NULL), two = named("two", NULL), plug = named("plug", NULL),
                 last = named("last", NULL), asked = named("asked", NULL);
  char text[MR_HINT_MAX];
  one.hint = two.hint = plug.hint = last.hint = words;
  one.setting_hint = first, plug.setting_hint = second;
  mr_registry_add(reg, (const mr_stage_def_t *const[]){&one, &two, &asked, NULL});
  mr_registry_stage_hint(reg, "other", text, sizeof text);
  assert_non_null(strstr(text, "\"one\""));
  mr_registry_setting_hint(reg, &asked, "thing", false, text, sizeof text);
  assert_non_null(strstr(text, "the first"));
  mr_registry_add_from(reg, (const mr_stage_def_t *const[]){&plug, &last, NULL}, "plug-in x");
  mr_registry_stage_hint(reg, "other", text, sizeof text);
  assert_non_null(strstr(text, "\"last\""));
  mr_registry_setting_hint(reg, &asked, "thing", false, text, sizeof text);
  assert_non_null(strstr(text, "the second"));
  free(reg);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(only_one_kind_or_order_and_walk_pass),
      cmocka_unit_test(a_kind_without_its_function_is_refused),
      cmocka_unit_test(only_kinds_of_many_inputs_take_more),
      cmocka_unit_test(ports_fit_the_kind),
      cmocka_unit_test(a_stage_that_is_not_built_in_is_only_named),
      cmocka_unit_test(settings_lie_inside_the_state),
      cmocka_unit_test(a_stage_without_a_name_is_refused),
      cmocka_unit_test(a_name_or_alias_of_a_plug_in_belongs_to_one_stage),
      cmocka_unit_test(a_plug_in_s_hints_come_before_those_of_the_program),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
