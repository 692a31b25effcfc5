/* Meshes from text, and ranks as places on them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "model/mesh/mesh.h"

static void refused(const char *text, int ranks, const char *sentence) {
  mr_mesh_t m;
  mr_diag_t diag = {0};
  assert_int_equal(mr_mesh_parse(text, ranks, &m, &diag), MR_ERR_CONFIG);
  if (!strstr(diag.text, sentence)) fail_msg("\"%s\" is not in: %s", sentence, diag.text);
}

static void a_text_that_is_no_mesh_is_refused(void **state) {
  refused("data", 4, "\"data\": expected NAME=SIZE");
  refused("data=", 4, "\"data=\": expected sizes from 1");
  refused("data=0", 4, "expected sizes from 1");
  refused("data=-4", 4, "expected sizes from 1");
  refused("data=4x", 4, "expected sizes from 1");
  refused("data=4,", 4, "\"\": expected NAME=SIZE");
  refused("=4", 4, "expected a name");
  refused(" =4", 4, "expected a name");
  refused("4=4", 4, "expected a name");
  refused("a b=4", 4, "expected a name");
  refused("None=4", 4, "expected a name");
  refused("abcdefghijklmnopqrstuvwxyzabcdef=4", 4, "at most 31 bytes");
  refused("data=2,data=2", 4, "\"data=2\": expected each axis once");
  refused("a=1,b=1,c=1,d=1,e=1,f=1,g=1,h=1,i=1", 1, "at most 8 axes");
  refused("a=1024,b=1025", 0, "product is at most 1048576");
  refused("a=99999999999999999999", 0, "product is at most 1048576");
  refused(NULL, -1, "a job of -1 ranks");
  refused(NULL, MR_MESH_RANKS + 1, "expected at most 1048576");
}

static void a_mesh_that_does_not_fit_the_ranks_proposes_one_that_does(void **state) {
  refused("data=4,model=2", 6,
          "has 8 places, but the job has 6 ranks: expected sizes whose product "
          "is 6, such as data=3,model=2");
  refused("model=2,data=4", 6, "such as model=2,data=3");
  refused("data=4,model=2", 7, "such as data=7");
  refused("model=2,data=4", 7, "such as data=7");
  refused("data=2", 1,
          "has 2 places, but the job has 1 rank: expected sizes whose product is 1, such "
          "as data=1");
}

static void a_mesh_is_read_with_its_axes_in_order(void **state) {
  mr_mesh_t m;
  char text[MR_MESH_TEXT];
  assert_int_equal(mr_mesh_parse(" batch = 8, model=1 ", 8, &m, NULL), MR_OK);
  assert_string_equal(mr_mesh_text(&m, text), "batch=8,model=1");
  assert_int_equal(m.n, 2);
  assert_int_equal(mr_mesh_ranks(&m), 8);
  assert_int_equal(mr_mesh_batch(&m), 0);
  assert_int_equal(mr_mesh_parse("model=2,batch=2,data=3", 0, &m, NULL), MR_OK);
  assert_int_equal(mr_mesh_batch(&m), 2); /* data before batch */
  assert_int_equal(mr_mesh_parse("model=2,batch=2", 0, &m, NULL), MR_OK);
  assert_int_equal(mr_mesh_batch(&m), 1);
  assert_int_equal(mr_mesh_parse("x=2,y=2", 4, &m, NULL), MR_OK);
  assert_int_equal(mr_mesh_batch(&m), 0);
  assert_int_equal(mr_mesh_axis(&m, "y", 1), 1);
  assert_int_equal(mr_mesh_axis(&m, "yy", 2), -1);
}

static void without_a_text_all_ranks_share_the_batch(void **state) {
  mr_mesh_t m;
  char text[MR_MESH_TEXT];
  assert_int_equal(mr_mesh_parse(NULL, 6, &m, NULL), MR_OK);
  assert_string_equal(mr_mesh_text(&m, text), "data=6");
  assert_int_equal(mr_mesh_parse("", 0, &m, NULL), MR_OK);
  assert_string_equal(mr_mesh_text(&m, text), "data=1");
}

static void ranks_and_places_are_each_others_inverse(void **state) {
  mr_mesh_t m;
  int at[MR_MESH_AXES], seen = 0;
  assert_int_equal(mr_mesh_parse("a=2,b=3,c=4", 24, &m, NULL), MR_OK);
  for (int x = 0; x < 2; x++)
    for (int y = 0; y < 3; y++)
      for (int z = 0; z < 4; z++, seen++) { /* the last axis is the fastest */
        mr_mesh_place(&m, seen, at);
        assert_true(at[0] == x && at[1] == y && at[2] == z);
        assert_int_equal(mr_mesh_rank(&m, at), seen);
      }
}

static void groups_along_an_axis_share_all_other_coordinates(void **state) {
  mr_mesh_t m;
  int group[4], own;
  assert_int_equal(mr_mesh_parse("data=4,model=2", 8, &m, NULL), MR_OK);
  assert_int_equal(mr_mesh_group(&m, 0, 5, group, &own), 4);
  assert_memory_equal(group, ((int[]){1, 3, 5, 7}), sizeof group);
  assert_int_equal(own, 2);
  assert_int_equal(mr_mesh_group(&m, 1, 5, group, NULL), 2);
  assert_memory_equal(group, ((int[]){4, 5}), 2 * sizeof *group);
  for (int axis = 0; axis < 2; axis++) /* each rank is in its own group, at the place it says */
    for (int rank = 0; rank < 8; rank++) {
      int n = mr_mesh_group(&m, axis, rank, group, &own);
      assert_in_range(own, 0, n - 1);
      assert_int_equal(group[own], rank);
    }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_text_that_is_no_mesh_is_refused),
      cmocka_unit_test(a_mesh_that_does_not_fit_the_ranks_proposes_one_that_does),
      cmocka_unit_test(a_mesh_is_read_with_its_axes_in_order),
      cmocka_unit_test(without_a_text_all_ranks_share_the_batch),
      cmocka_unit_test(ranks_and_places_are_each_others_inverse),
      cmocka_unit_test(groups_along_an_axis_share_all_other_coordinates),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
