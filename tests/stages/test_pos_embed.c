/* Positions for pictures of another size against torch's (tests/golden/pos_embed.py). */
#include "tests/vectors.h"

#include <math.h>

#include "stages/train/pos_embed.h"

enum { WIDTH = 3, MAX = (1 + 16 * 16) * WIDTH };

static void a_grid_becomes_another_as_torch_interpolates_it(void **state) {
  FILE *f = vectors_open("pos_embed.txt");
  char line[200];
  int from, to, cases = 0;
  assert_non_null(fgets(line, sizeof line, f));
  while (fscanf(f, "%d %d", &from, &to) == 2) {
    static float in[MAX], out[MAX];
    for (int i = 0; i < WIDTH; i++) in[i] = (float)(100 + i);
    for (int i = 0; i < from * from * WIDTH; i++) in[WIDTH + i] = (float)sin(0.7 * i);
    assert_int_equal(mr__pos_embed_resize(in, from, out, to, WIDTH, NULL), MR_OK);
    assert_memory_equal(out, in, WIDTH * sizeof *in); /* the class token's stays */
    for (int i = 0; i < to * to * WIDTH; i++) {
      double want;
      assert_int_equal(fscanf(f, "%lf", &want), 1);
      if (fabs((double)out[WIDTH + i] - want) > 1e-6)
        fail_msg("%d to %d, %d: %.9g, want %.9g", from, to, i, (double)out[WIDTH + i], want);
    }
    cases++;
  }
  assert_int_equal(cases, 7);
  fclose(f);
}

static void only_squares_of_one_width_are_grids(void **state) {
  int from, to;
  const mr_aval_t a = mr_aval_of(MR_F32, 1, 65, 8), b = mr_aval_of(MR_F32, 1, 17, 8);
  const mr_aval_t wide = mr_aval_of(MR_F32, 1, 17, 9), odd = mr_aval_of(MR_F32, 1, 19, 8);
  assert_true(mr__pos_embed_grids(&a, &b, &from, &to));
  assert_int_equal(from, 8);
  assert_int_equal(to, 4);
  assert_false(mr__pos_embed_grids(&a, &a, &from, &to));
  assert_false(mr__pos_embed_grids(&a, &wide, &from, &to));
  assert_false(mr__pos_embed_grids(&a, &odd, &from, &to));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_grid_becomes_another_as_torch_interpolates_it),
      cmocka_unit_test(only_squares_of_one_width_are_grids),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
