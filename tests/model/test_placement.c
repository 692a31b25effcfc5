/* How arrays lie on a mesh: the notations, what is refused, and the parts of the ranks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/mesh/placement.h"
#include "model/mesh/placement_rules.h"

static mr_mesh_t mesh_of(const char *text) {
  mr_mesh_t m;
  mr_diag_t diag = {0};
  if (mr_mesh_parse(text, 0, &m, &diag)) fail_msg("%s", diag.text);
  return m;
}

/* Reads text on the mesh as an array of ndim dimensions lies, and expects it as it is written. */
static void reads(const char *mesh, const char *text, int ndim, const char *want) {
  mr_mesh_t m = mesh_of(mesh);
  mr_placement_t p;
  mr_diag_t diag = {0};
  char out[MR_PLACEMENT_TEXT];
  if (mr_placement_parse("x", text, &m, ndim, &p, &diag) || *diag.text) fail_msg("%s", diag.text);
  assert_string_equal(mr_placement_text(&p, &m, ndim, out), want);
}

static void refused(const char *mesh, const char *text, int ndim, const char *sentence) {
  mr_mesh_t m = mesh_of(mesh);
  mr_placement_t p;
  mr_diag_t diag = {0};
  assert_int_equal(mr_placement_parse("w", text, &m, ndim, &p, &diag), MR_ERR_CONFIG);
  if (!strstr(diag.text, sentence)) fail_msg("\"%s\" is not in: %s", sentence, diag.text);
  assert_non_null(strstr(diag.text, "w: \"")); /* what is wrong, and where */
}

#define MESH "data=4,model=2"

static void a_text_that_is_no_placement_is_refused(void **state) {
  refused(MESH, "", 2, "expected (None,AXIS)");
  refused(MESH, "model", 2, "expected (None,AXIS)");
  refused(MESH, "(None,model", 2, "expected , or ) after dimension 1");
  refused(MESH, "(None model)", 2, "expected , or ) after dimension 0");
  refused(MESH, "(None,model]", 2, "expected , or )");
  refused(MESH, "(None,model) x", 2, "expected nothing more before \"x\"");
  refused(MESH, "(None,'model)", 2, "expected None, the name of an axis");
  refused(MESH, "(,model)", 2, "expected None, the name of an axis");
  refused(MESH, "(0*model,None)", 2, "dimension 0: expected N*AXIS with N from 1");
  refused(MESH, "(9999999999*model,None)", 2, "dimension 0: expected N*AXIS");
  refused(MESH, "(3*,None)", 2, "expected None, the name of an axis");
  refused(MESH, "((data,(model)),None)", 2, "expected None, the name of an axis");
  refused(MESH, "(None,modle)", 2,
          "the mesh data=4,model=2 has no axis \"modle\"; did you mean \"model\"?");
  refused(MESH, "(model,model)", 2, "axis model cuts dimension 0 already");
  refused(MESH, "((data,data),None)", 2, "axis data cuts dimension 0 already");
  refused(MESH, "(None)", 2, "1 entry for an array of 2 dimensions: expected 2");
  refused(MESH, "()", 1, "0 entries for an array of 1 dimensions");
  refused(MESH, "(None,None,model)", 2, "more entries than the 2 dimensions");
  refused(MESH, "P(None,None,model)", 2, "more entries than the 2 dimensions");
}

static void a_text_that_is_not_sbp_is_refused(void **state) {
  refused(MESH, "S(0)", 2, "fewer words than the 2 axes of the mesh data=4,model=2");
  refused(MESH, "[S(0),B,B]", 2, "more words than the 2 axes");
  refused(MESH, "[S(0) B]", 2, "expected , after the word for axis data");
  refused(MESH, "[S(2),B]", 2, "axis data: expected S(DIMENSION) with a dimension below 2");
  refused(MESH, "[S(),B]", 2, "axis data: expected S(DIMENSION)");
  refused(MESH, "[S(99999999999),B]", 2, "axis data: expected S(DIMENSION)");
  refused(MESH, "[S,B]", 2, "axis data: expected S(DIMENSION)");
  refused(MESH, "[B,P(max)]", 2, "axis model: expected P(sum)");
  refused(MESH, "[B,Q]", 2, "axis model: expected S(DIMENSION), B or P(sum)");
  refused(MESH, "[S(0),B", 2, "expected , after the word for axis model");
  refused(MESH, "[S(0),B] B", 2, "expected nothing more before \"B\"");
}

static void a_text_that_misuses_the_words_of_megatron_is_refused(void **state) {
  refused("data=4", "column", 2, "the mesh data=4 has no axis \"model\"");
  refused("data=4,tp=2", "row(tensor)", 2, "has no axis \"tensor\"");
  refused(MESH, "column", 3, "an array of 3 dimensions: expected a matrix");
  refused(MESH, "row", 0, "an array of 0 dimensions");
  refused(MESH, "column(model", 2, "expected column(AXIS)");
  refused(MESH, "row x", 2, "expected nothing more");
}

static void tuples_have_an_entry_for_each_dimension(void **state) {
  reads(MESH, "(None,model)", 2, "(None,model)");
  reads(MESH, "(data, None)", 2, "(data,None)");
  reads(MESH, "[ 'data' , \"model\" ]", 2, "(data,model)");
  reads(MESH, "(null,(data,model))", 2, "(None,(data,model))");
  reads(MESH, "((data,),None,)", 2, "(data,None)");
  reads(MESH, "((),None)", 2, "(None,None)");
  reads(MESH, "()", 0, "()");
  reads(MESH, "(3*model,None)", 2, "(3*model,None)");
  reads(MESH, "( 3 * (data,'model'), None )", 2, "(3*(data,model),None)");
  reads(MESH, "(1*model)", 1, "(model)");
  reads("B=2,P=2,S=2", "(B,P,S)", 3, "(B,P,S)"); /* axes take precedence over SBP's words */
}

static void partition_specs_may_be_shorter(void **state) {
  reads(MESH, "PartitionSpec(None,'model')", 2, "(None,model)");
  reads(MESH, "P('data')", 3, "(data,None,None)");
  reads(MESH, "P()", 2, "(None,None)");
  reads(MESH, "jax.sharding.PartitionSpec(('data','model'))", 1, "((data,model))");
  reads("sum=2", "P('sum')", 1, "(sum)");
}

static void sbp_has_a_word_for_each_axis(void **state) {
  reads("data=4", "S(1)", 2, "(None,data)");
  reads("data=4", "B", 2, "(None,None)");
  reads("data=4", "P", 2, "[P(sum)]");
  reads("data=4", "P(sum)", 2, "[P(sum)]");
  reads(MESH, "[S(0),B]", 2, "(data,None)");
  reads(MESH, "(B, S(1))", 2, "(None,model)");
  reads(MESH, "S(0),S(0)", 1, "((data,model))"); /* the first axis is the outer one */
  reads(MESH, "[flow.sbp.broadcast, flow.sbp.split(dim=0)]", 1, "(model)");
  reads(MESH, "[split(0),partial_sum]", 2, "[S(0),P(sum)]");
  reads(MESH, "[B,P(sum)]", 2, "[B,P(sum)]");
}

static void megatrons_words_cut_outputs_or_inputs(void **state) {
  reads(MESH, "column", 2, "(None,model)");
  reads(MESH, "column", 1, "(model)");
  reads(MESH, "row", 2, "(model,None)");
  reads(MESH, "row", 1, "(None)"); /* each rank has the whole bias */
  reads("data=4,tp=2", "ColumnParallelLinear(tp)", 2, "(None,tp)");
  reads("data=4,tp=2", "RowParallelLinear( tp )", 2, "(tp,None)");
}

static void the_parts_of_all_ranks_cover_an_array_as_often_as_it_is_whole(void **state) {
  static const struct {
    const char *placement;
    int copies;
  } cases[] = {{"(data,model)", 1}, {"(model,data)", 1},        {"(None,model)", 4},
               {"(data,None)", 2},  {"((data,model),None)", 1}, {"(None,(data,model))", 1},
               {"P()", 8}};
  const int64_t dim[2] = {8, 16};
  mr_mesh_t m = mesh_of(MESH);
  for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
    int held[8][16] = {{0}};
    mr_placement_t p;
    assert_int_equal(mr_placement_parse("x", cases[c].placement, &m, 2, &p, NULL), MR_OK);
    assert_int_equal(mr_placement_fits("x", &p, &m, 2, dim, NULL), MR_OK);
    for (int rank = 0; rank < mr_mesh_ranks(&m); rank++) {
      int64_t from[2], n[2];
      mr_placement_part(&p, &m, 2, dim, rank, from, n);
      assert_int_equal(n[0] * mr_placement_parts(&p, &m, 0), 8);
      for (int64_t i = from[0]; i < from[0] + n[0]; i++)
        for (int64_t k = from[1]; k < from[1] + n[1]; k++) held[i][k]++;
    }
    for (int i = 0; i < 8 * 16; i++) assert_int_equal(held[i / 16][i % 16], cases[c].copies);
  }
}

static void the_first_of_several_axes_cuts_the_largest_parts(void **state) {
  const int64_t dim[1] = {8};
  int64_t from, n;
  mr_mesh_t m = mesh_of(MESH);
  mr_placement_t p;
  assert_int_equal(mr_placement_parse("x", "((data,model))", &m, 1, &p, NULL), MR_OK);
  mr_placement_part(&p, &m, 1, dim, 5, &from, &n);
  assert_int_equal(from, 5); /* data=2, model=1 */
  assert_int_equal(n, 1);
  refused(MESH, "((model,data))", 1, "axis data after a later one of the mesh");
}

static void does_not_divide(const char *text, int64_t a, int64_t b, const char *sentence) {
  mr_mesh_t m = mesh_of(MESH);
  mr_placement_t p;
  mr_diag_t diag = {0};
  assert_int_equal(mr_placement_parse("x", text, &m, 2, &p, NULL), MR_OK);
  assert_int_equal(mr_placement_fits("w", &p, &m, 2, (int64_t[]){a, b}, &diag), MR_ERR_SHAPE);
  if (!strstr(diag.text, sentence)) fail_msg("\"%s\" is not in: %s", sentence, diag.text);
}

static void blocks_must_each_divide(void **state) {
  mr_mesh_t m = mesh_of(MESH);
  mr_placement_t p = {.axes = {2}, .outer = {3}}; /* model */
  mr_diag_t diag = {0};
  assert_int_equal(mr_placement_fits("qkv", &p, &m, 1, (int64_t[]){12}, NULL), MR_OK);
  assert_int_equal(mr_placement_fits("qkv", &p, &m, 1, (int64_t[]){14}, &diag), MR_ERR_SHAPE);
  assert_non_null(strstr(diag.text, "among the 2 ranks of model, in 3 blocks: 2 are left over"));
}

static void a_dimension_that_does_not_divide_says_which_and_by_how_much(void **state) {
  does_not_divide(
      "(None,model)", 8, 197,
      "w: dimension 1 of 197 does not divide among the 2 ranks of model: 1 is left over, "
      "expected a multiple such as 196 or 198");
  does_not_divide(
      "((data,model),None)", 7, 1,
      "w: dimension 0 of 7 does not divide among the 8 ranks of data and model: 7 are left "
      "over, expected a multiple such as 8");
}

#define RULES "*.linear1.kernel=(None,model), *.linear2.kernel = (model,None),head.*=column"

static void place(const char *name, int ndim, const char *want) {
  mr_placement_rules_t r;
  mr_mesh_t m = mesh_of(MESH);
  mr_placement_t p;
  mr_diag_t diag = {0};
  char out[MR_PLACEMENT_TEXT];
  const int64_t dim[3] = {8, 8, 8};
  assert_int_equal(mr_placement_rules_parse(RULES, &r, NULL), MR_OK);
  if (mr_placement_rules_place(&r, &m, name, ndim, dim, &p, &diag)) fail_msg("%s", diag.text);
  assert_string_equal(mr_placement_text(&p, &m, ndim, out), want);
  mr_placement_rules_fini(&r);
}

static void the_first_rule_of_a_name_places_it(void **state) {
  place("blocks.0.linear1.kernel", 2, "(None,model)");
  place("blocks.11.linear2.kernel", 2, "(model,None)");
  place("head.kernel", 2, "(None,model)");
  place("head.bias", 1, "(model)");
  place("blocks.0.linear1.bias", 1, "(None)"); /* no rule: whole */
  place("linear1.kernel", 2, "(None,None)");   /* the pattern has a dot */
}

static void rules_refused(const char *text, const char *sentence) {
  mr_placement_rules_t r;
  mr_diag_t diag = {0};
  assert_int_equal(mr_placement_rules_parse(text, &r, &diag), MR_ERR_CONFIG);
  if (!strstr(diag.text, sentence)) fail_msg("\"%s\" is not in: %s", sentence, diag.text);
  mr_placement_rules_fini(&r);
}

static void rules_that_are_none_are_refused(void **state) {
  rules_refused("x", "\"x\": expected PATTERN=PLACEMENT");
  rules_refused("a=B,x", "\"x\": expected PATTERN=PLACEMENT");
  rules_refused("a=B,", "\"\": expected PATTERN=PLACEMENT");
  rules_refused("x,a=B", "\"x\": expected PATTERN=PLACEMENT");
  rules_refused("=B", "none of them empty");
  rules_refused("a= ", "none of them empty");
  rules_refused("a=(B", "expected brackets that close");
  rules_refused("a=B)", "expected brackets that close");
  char many[4 * (MR_PLACEMENT_RULES + 1) + 1] = "";
  for (int i = 0; i <= MR_PLACEMENT_RULES; i++)
    strcpy(many + 4 * i, i < MR_PLACEMENT_RULES ? "a=B," : "a=B");
  rules_refused(many, "at most 256 rules");
}

static void a_pattern_that_no_parameter_has_names_the_nearest(void **state) {
  static const char *const names[] = {"blocks.0.linear1.kernel", "blocks.0.linear1.bias",
                                      "head.kernel"};
  static const struct {
    const char *rules, *sentence;
  } cases[] = {{"*.linaer1.kernel=column",
                "\"*.linaer1.kernel\": no parameter has this name, expected one "
                "of 3; did you mean \"*.linear1.kernel\"?"},
               {"haed.kernel=row", "did you mean \"head.kernel\"?"},
               {"*.linear1.kernel=column,zzz=row",
                "\"zzz\": no parameter has this name, expected one of "
                "3, such as blocks.0.linear1.kernel"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    mr_placement_rules_t r;
    mr_diag_t diag = {0};
    assert_int_equal(mr_placement_rules_parse(cases[i].rules, &r, NULL), MR_OK);
    assert_int_equal(mr_placement_rules_check(&r, names, 3, &diag), MR_ERR_CONFIG);
    if (!strstr(diag.text, cases[i].sentence))
      fail_msg("\"%s\" is not in: %s", cases[i].sentence, diag.text);
    mr_placement_rules_fini(&r);
  }
  mr_placement_rules_t r;
  assert_int_equal(mr_placement_rules_parse("*.linear?.kernel=column,h*d*=B", &r, NULL), MR_OK);
  assert_int_equal(mr_placement_rules_check(&r, names, 3, NULL), MR_OK);
  mr_placement_rules_fini(&r);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_text_that_is_no_placement_is_refused),
      cmocka_unit_test(a_text_that_is_not_sbp_is_refused),
      cmocka_unit_test(a_text_that_misuses_the_words_of_megatron_is_refused),
      cmocka_unit_test(rules_that_are_none_are_refused),
      cmocka_unit_test(a_pattern_that_no_parameter_has_names_the_nearest),
      cmocka_unit_test(a_dimension_that_does_not_divide_says_which_and_by_how_much),
      cmocka_unit_test(blocks_must_each_divide),
      cmocka_unit_test(tuples_have_an_entry_for_each_dimension),
      cmocka_unit_test(partition_specs_may_be_shorter),
      cmocka_unit_test(sbp_has_a_word_for_each_axis),
      cmocka_unit_test(megatrons_words_cut_outputs_or_inputs),
      cmocka_unit_test(the_parts_of_all_ranks_cover_an_array_as_often_as_it_is_whole),
      cmocka_unit_test(the_first_of_several_axes_cuts_the_largest_parts),
      cmocka_unit_test(the_first_rule_of_a_name_places_it),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
