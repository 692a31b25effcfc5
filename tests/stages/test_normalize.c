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
    mr_norm(&t, planes, 256, true, MR_F32, got);
    assert_memory_equal(got, want, sizeof got);
    mr_norm(&t, planes, 256, false, MR_F32, got);
    for (int c = 0; c < 3; c++)
      for (int x = 0; x < 256; x++) assert_memory_equal(&got[256 * c + x], &want[3 * x + c], 4);
  }
  free(want);
}

static double draw(uint32_t *seed) {
  *seed = *seed * 1664525u + 1013904223u;
  return *seed / 4294967296.0;
}

/* Every type and layout, from numbers of all kinds: what a machine's best path gives is what the
   tables give, and the tables of bf16 and u8 say what f32 says. */
static void fast_and_plain_agree_in_every_type_and_layout(void **state) {
  static const mr_dtype_t type[] = {MR_F32, MR_BF16, MR_U8};
  uint32_t seed = 7;
  static float a[3 * 1024], b[3 * 1024];
  static uint8_t src[3 * 1024];
  for (int round = 0; round < 600; round++) {
    double mean[3], std[3];
    mr_dtype_t out = type[round % 3];
    bool hwc = round / 3 % 2;
    int n = round % 7 == 0 ? 1000 : round % 5 ? 1024 : 992; /* no multiple of 32; not of 64 */
    for (int c = 0; c < 3; c++) mean[c] = draw(&seed), std[c] = 0.001 + draw(&seed);
    for (int k = 0; k < 3 * 1024; k++) src[k] = (uint8_t)(256 * draw(&seed));
    mr_norm_t plain, fast;
    mr_norm_init(&plain, mean, std, false), mr_norm_init(&fast, mean, std, true);
    if (round % 4 == 3) fast.avx512 = false;
    mr_norm(&plain, src, n, hwc, out, a), mr_norm(&fast, src, n, hwc, out, b);
    if (memcmp(a, b, 3 * (size_t)n * mr_dtype_size(out))) fail_msg("round %d", round);
  }
}

/* Interleaved pixels of any number: each best path that the machine has. */
static void interleaved_pixels_have_the_bits_of_the_tables(void **state) {
  enum { PIXELS = 100, GUARD = 77 };
  static float got[3 * PIXELS + 1];
  uint8_t src[3 * PIXELS];
  uint32_t seed = 11;
  for (int round = 0; round < 600; round++) {
    double mean[3], std[3];
    int n = (int)(PIXELS * draw(&seed));
    for (int c = 0; c < 3; c++) mean[c] = draw(&seed), std[c] = 0.001 + draw(&seed);
    for (int k = 0; k < 3 * PIXELS; k++) src[k] = (uint8_t)(256 * draw(&seed));
    mr_norm_any_t t;
    mr_norm_any_init(&t, 3, mean, std);
    if (round % 3 > 0) t.three.avx512 = false;
    if (round % 3 > 1) t.three.avx2 = false;
    got[3 * n] = GUARD;
    mr_norm_any(&t, src, n, true, true, MR_F32, got);
    for (int k = 0; k < 3 * n; k++)
      if (memcmp(&got[k], &t.table[k % 3][src[k]], sizeof *got)) fail_msg("round %d", round);
    assert_true(got[3 * n] == GUARD);
  }
}

static void bf16_is_f32_rounded_and_u8_is_the_byte(void **state) {
  float f[3 * 256];
  mr_bf16_t h[3 * 256];
  uint8_t src[3 * 256], u[3 * 256];
  mr_norm_t t;
  for (int k = 0; k < 3 * 256; k++) src[k] = (uint8_t)(k * 7);
  mr_norm_init(&t, MEAN, STD, true);
  mr_norm(&t, src, 256, true, MR_F32, f);
  mr_norm(&t, src, 256, true, MR_BF16, h);
  mr_norm(&t, src, 256, true, MR_U8, u);
  for (int k = 0; k < 3 * 256; k++) {
    assert_int_equal(h[k], mr_bf16_from_f32(f[k]));
    assert_int_equal(u[k], src[k % 3 * 256 + k / 3]);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_byte_has_torchs_bits),
      cmocka_unit_test(fast_and_plain_agree_in_every_type_and_layout),
      cmocka_unit_test(interleaved_pixels_have_the_bits_of_the_tables),
      cmocka_unit_test(bf16_is_f32_rounded_and_u8_is_the_byte),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
