/* Pictures of arrays on meshes, character by character. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "model/mesh/placement_draw.h"

static char *picture_of(const char *mesh, const char *text, int ndim, const int64_t *dim,
                        int columns) {
  mr_mesh_t m;
  mr_placement_t p;
  mr_diag_t diag = {0};
  mr_text_out_t t;
  if (mr_mesh_parse(mesh, 0, &m, &diag) || mr_placement_parse("x", text, &m, ndim, &p, &diag) ||
      mr_placement_fits("x", &p, &m, ndim, dim, &diag))
    fail_msg("%s", diag.text);
  FILE *to = mr_text_out_open(&t);
  assert_int_equal(mr_placement_draw(&p, &m, ndim, dim, columns, to, &diag), MR_OK);
  return mr_text_out_close(&t, to, NULL);
}

static void draws(const char *mesh, const char *text, int ndim, const int64_t *dim, int columns,
                  const char *want) {
  char *got = picture_of(mesh, text, ndim, dim, columns);
  assert_string_equal(got, want);
  free(got);
}

#define MESH "data=4,model=2"

static void an_array_cut_twice_is_a_grid(void **state) {
  draws("data=2,model=2", "(data,model)", 2, (int64_t[]){8, 200}, 80,
        "      0:100     100:200\n"
        "    ┌─────────┬─────────┐\n"
        "0:4 │ 0       │ 1       │\n"
        "    ├─────────┼─────────┤\n"
        "4:8 │ 2       │ 3       │\n"
        "    └─────────┴─────────┘\n");
}

static void an_array_cut_once_is_a_row_or_a_column(void **state) {
  draws(MESH, "(None,model)", 2, (int64_t[]){8, 8}, 80,
        "   0:4       4:8\n"
        " ┌─────────┬─────────┐\n"
        " │ 0,2,4,6 │ 1,3,5,7 │\n"
        " └─────────┴─────────┘\n");
  draws(MESH, "(model,None)", 2, (int64_t[]){8, 8}, 80,
        "    ┌─────────┐\n"
        "0:4 │ 0,2,4,6 │\n"
        "    ├─────────┤\n"
        "4:8 │ 1,3,5,7 │\n"
        "    └─────────┘\n");
  draws("model=2,data=4", "(model)", 1, (int64_t[]){2}, 80,
        "   0:1   1:2\n"
        " ┌─────┬─────┐\n"
        " │ 0-3 │ 4-7 │\n"
        " └─────┴─────┘\n");
}

static void an_array_that_is_whole_is_one_box(void **state) {
  draws(MESH, "()", 0, NULL, 80,
        " ┌─────┐\n"
        " │ 0-7 │\n"
        " └─────┘\n");
}

static void arrays_that_fit_no_grid_are_a_line_for_each_rank(void **state) {
  static const char lines[] =
      "rank 0: [0:1, 0:1, 0:4]\nrank 1: [0:1, 0:1, 4:8]\n"
      "rank 2: [0:1, 1:2, 0:4]\nrank 3: [0:1, 1:2, 4:8]\n";
  char *three = picture_of("a=2,b=2,c=2", "(a,b,c)", 3, (int64_t[]){2, 2, 8}, 80);
  assert_memory_equal(three, lines, sizeof lines - 1);
  free(three);
  draws("a=2", "(None,a)", 2, (int64_t[]){2, 4}, 13, "rank 0: [0:2, 0:2]\nrank 1: [0:2, 2:4]\n");
  char *fits = picture_of("a=2", "(None,a)", 2, (int64_t[]){2, 4}, 14);
  assert_non_null(strstr(fits, "┌"));
  free(fits);
  char *many = picture_of("a=100", "(a,None)", 2, (int64_t[]){100, 1}, 80);
  assert_non_null(strstr(many, "rank 63: [63:64, 0:1]\nand 36 ranks more\n"));
  free(many);
}

static void a_box_with_many_ranks_ends_in_dots(void **state) {
  char *text = picture_of("a=64,b=2", "(None,b)", 2, (int64_t[]){2, 2}, 0);
  assert_non_null(strstr(text, "│ 0,2,4,6,8,10,"));
  assert_non_null(strstr(text, ",.. │"));
  free(text);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(an_array_cut_twice_is_a_grid),
      cmocka_unit_test(an_array_cut_once_is_a_row_or_a_column),
      cmocka_unit_test(an_array_that_is_whole_is_one_box),
      cmocka_unit_test(arrays_that_fit_no_grid_are_a_line_for_each_rank),
      cmocka_unit_test(a_box_with_many_ranks_ends_in_dots),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
