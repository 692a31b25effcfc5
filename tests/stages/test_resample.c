/* Resizing against Pillow's results (tests/golden/resample.py), by the plain and the fast passes,
   and boxes of a result against the whole. */
#include "stages/resample.h"
#include "tests/vectors.h"
/* after vectors.h */
#include "tests/crc.h"
#include "tests/random.h"

static const char *const names[] = {"bilinear", "bicubic", "lanczos", "hamming", "box", "nearest"};

/* Byte c of pixel (y, x) as resample.py has it, with slack of another value behind the last row. */
static uint8_t *made(int h, int w, int C) {
  size_t bytes = (size_t)h * (size_t)w * (size_t)C;
  uint8_t *p = malloc(bytes + MR_PART_SLACK), *at = p;
  for (int y = 0; y < h; y++)
    for (int x = 0; x < w; x++)
      for (int c = 0; c < C; c++)
        *at++ = (uint8_t)(((uint32_t)y * 7919u + (uint32_t)x * 104729u + (uint32_t)c * 31337u +
                           12345u) *
                              2654435761u >>
                          24);
  memset(at, 0xA5, MR_PART_SLACK);
  return p;
}

/* Resizes src whole to the box `out` of the result; the caller frees what is returned, which has
   exactly the box's size, so that writes beyond it are found. */
static uint8_t *resized(mr_resampler_t *r, const mr_resize_t *how, const uint8_t *src,
                        mr_box_t out) {
  mr_box_t need;
  size_t row = (size_t)how->in_w * (size_t)how->C;
  uint8_t *dst = malloc((size_t)out.h * (size_t)out.w * (size_t)how->C);
  assert_int_equal(mr_resample_begin(r, how, out, &need, NULL), MR_OK);
  assert_true(need.i >= 0 && need.j >= 0 && need.h >= 1 && need.w >= 1);
  assert_true(need.i + need.h <= how->in_h && need.j + need.w <= how->in_w);
  mr_part_t part = {src + (size_t)need.i * row + (size_t)(need.j * how->C), row};
  assert_int_equal(mr_resample(r, how, need, part, dst, NULL), MR_OK);
  return dst;
}

static void golden(bool plain, bool avx2) {
  char line[128], name[16];
  FILE *f = vectors_open("resample.txt");
  mr_resampler_t r = {.plain = plain, .avx2 = avx2};
  int rows = 0;
  assert_non_null(f);
  while (vectors_line(f, line, sizeof line)) {
    mr_resize_t how = {0};
    unsigned want;
    assert_int_equal(sscanf(line, "%15s %d %d %d %d %d %x", name, &how.in_h, &how.in_w, &how.C,
                            &how.out_h, &how.out_w, &want),
                     7);
    while (strcmp(name, names[how.filter])) how.filter++;
    uint8_t *src = made(how.in_h, how.in_w, how.C);
    uint8_t *got = resized(&r, &how, src, (mr_box_t){.h = how.out_h, .w = how.out_w});
    size_t bytes = (size_t)how.out_h * (size_t)how.out_w * (size_t)how.C;
    if (crc32_of(0, got, bytes) != want)
      fail_msg("%s: %s", plain ? "plain" : avx2 ? "avx2" : "best", line);
    free(src), free(got), rows++;
  }
  fclose(f);
  mr_resampler_free(&r);
  vectors_met(rows, 360);
}

static void plain_passes_match_pillow(void **state) { golden(true, false); }
static void avx2_passes_match_pillow(void **state) { golden(false, true); }
static void fast_passes_match_pillow(void **state) { golden(false, false); }

static int any_side(round_t *r) { return 1 + draw(r, one_in(r, 4) ? 400 : 70); }

static void boxes_of_a_result_equal_the_whole(void **state) {
  round_t r = round_first(300);
  mr_resampler_t one = {0}, part = {0}, plain = {.plain = true};
  while (round_next(&r)) {
    mr_resize_t how = {.filter = (mr_filter_t)draw(&r, 6),
                       .in_h = any_side(&r),
                       .in_w = any_side(&r),
                       .out_h = any_side(&r),
                       .out_w = any_side(&r),
                       .C = one_in(&r, 3) ? 1 : 3,
                       .across_first = one_in(&r, 3)};
    if (one_in(&r, 8)) how.out_h = how.in_h;
    if (one_in(&r, 8)) how.out_w = how.in_w;
    uint8_t *src = made(how.in_h, how.in_w, how.C);
    mr_box_t all = {.h = how.out_h, .w = how.out_w};
    uint8_t *whole = resized(&one, &how, src, all), *slow = resized(&plain, &how, src, all);
    size_t C = (size_t)how.C, row = (size_t)how.out_w * C;
    round_check(&r, !memcmp(whole, slow, row * (size_t)how.out_h), "fast and plain differ");
    for (int k = 0; k < 3; k++) {
      mr_box_t b = {.h = 1 + draw(&r, how.out_h), .w = 1 + draw(&r, how.out_w)};
      b.i = draw(&r, how.out_h - b.h + 1), b.j = draw(&r, how.out_w - b.w + 1);
      uint8_t *got = resized(&part, &how, src, b);
      for (int y = 0; y < b.h; y++)
        round_check(&r,
                    !memcmp(got + (size_t)y * (size_t)b.w * C,
                            whole + (size_t)(b.i + y) * row + (size_t)b.j * C, (size_t)b.w * C),
                    "row %d of %d x %d at %d, %d of %d x %d", y, b.h, b.w, b.i, b.j, how.out_h,
                    how.out_w);
      free(got);
    }
    free(src), free(whole), free(slow);
  }
  mr_resampler_free(&one), mr_resampler_free(&part), mr_resampler_free(&plain);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(plain_passes_match_pillow),
      cmocka_unit_test(avx2_passes_match_pillow),
      cmocka_unit_test(fast_passes_match_pillow),
      cmocka_unit_test(boxes_of_a_result_equal_the_whole),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
