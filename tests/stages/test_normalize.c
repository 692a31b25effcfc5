#include "stages/norm.h"

#include "tests/vectors.h"

static const double MEAN[3] = {0.4914, 0.4822, 0.4465}, STD[3] = {0.2023, 0.1994, 0.2010};

static void every_byte_has_torchs_bits(void **state) {
  float *want = vectors_npy("normalize_torch.npy", 256 * 3 * sizeof(float)), got[256 * 3];
  uint8_t planes[3 * 256];
  for (int k = 0; k < 3 * 256; k++) planes[k] = (uint8_t)k;
  for (int simd = 0; simd < 2; simd++) {
    mr_norm_t t;
    mr_norm_init(&t, MEAN, STD, simd);
    memset(got, 0, sizeof got);
    mr_norm_hwc(&t, planes, 256, got);
    assert_memory_equal(got, want, sizeof got);
    mr_norm_chw(&t, planes, 256, got);
    for (int c = 0; c < 3; c++)
      for (int x = 0; x < 256; x++) assert_memory_equal(&got[256 * c + x], &want[3 * x + c], 4);
  }
  free(want);
}

static double draw(uint32_t *seed) {
  *seed = *seed * 1664525u + 1013904223u;
  return *seed / 4294967296.0;
}

static void other_numbers_give_the_same_bits_fast_and_plain(void **state) {
  uint32_t seed = 7;
  static float a[3 * 1024], b[3 * 1024];
  static uint8_t src[3 * 1024];
  for (int round = 0; round < 200; round++) {
    double mean[3], std[3];
    for (int c = 0; c < 3; c++) mean[c] = draw(&seed), std[c] = 0.001 + draw(&seed);
    for (int k = 0; k < 3 * 1024; k++) src[k] = (uint8_t)(256 * draw(&seed));
    mr_norm_t plain, fast;
    mr_norm_init(&plain, mean, std, false), mr_norm_init(&fast, mean, std, true);
    mr_norm_hwc(&plain, src, 1024, a), mr_norm_hwc(&fast, src, 1024, b);
    if (memcmp(a, b, sizeof a)) fail_msg("round %d", round);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_byte_has_torchs_bits),
      cmocka_unit_test(other_numbers_give_the_same_bits_fast_and_plain),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
