/* Kernels for patches of another size against timm's (tests/golden/patch_embed.py). */
#include "tests/vectors.h"

#include <math.h>

#include "stages/train/patch_resize.h"

enum { KERNELS = 6, MAX = KERNELS * 16 * 16 };

static void a_kernel_becomes_another_as_timm_resamples_it(void **state) {
  FILE *f = vectors_open("patch_embed.txt");
  char line[200];
  int from, to, cases = 0;
  assert_non_null(fgets(line, sizeof line, f));
  while (fscanf(f, "%d %d", &from, &to) == 2) {
    static float in[MAX], out[MAX];
    for (int i = 0; i < KERNELS * from * from; i++) in[i] = (float)sin(0.7 * i);
    assert_int_equal(mr__patch_resize(in, from, out, to, KERNELS, NULL), MR_OK);
    for (int i = 0; i < KERNELS * to * to; i++) {
      double want;
      assert_int_equal(fscanf(f, "%lf", &want), 1);
      if (fabs((double)out[i] - want) > 1e-5)
        fail_msg("%d to %d, %d: %.9g, want %.9g", from, to, i, (double)out[i], want);
    }
    cases++;
  }
  assert_int_equal(cases, 9);
  fclose(f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_kernel_becomes_another_as_timm_resamples_it),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
