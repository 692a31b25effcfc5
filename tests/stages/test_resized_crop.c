#include <inttypes.h>
#include <math.h>

#include "pipeline/stage_map.h"
#include "stages/pil_picture.h"
#include "tests/stage.h"

extern const mr_stage_def_t mr_stage_resized_crop;

enum { IMAGE = 3072 };

static void to_chw(const uint8_t *hwc, int side, uint8_t *chw) {
  for (int k = 0; k < side * side; k++)
    for (int c = 0; c < 3; c++) chw[c * side * side + k] = hwc[3 * k + c];
}

static void flip_picture(uint8_t *chw) {
  for (int y = 0; y < 96; y++)
    for (int x = 0; x < 16; x++) {
      uint8_t *a = &chw[32 * y + x], *b = &chw[32 * y + 31 - x], t = *a;
      *a = *b, *b = t;
    }
}

/* Every golden crop through one path, from memory of exactly the picture's size. */
static void golden_crops(bool simd) {
  size_t sources, cases;
  uint8_t *src = vectors_npy_rows("pil_src.npy", IMAGE, &sources), *in = malloc(IMAGE);
  uint8_t *want = vectors_npy_rows("pil_out.npy", IMAGE, &cases), expect[IMAGE], got[IMAGE],
          scratch[1024];
  mr_pil_t p;
  assert_true(mr_pil_init(&p, 32, 32, simd));
  FILE *f = vectors_open("pil_cases.txt");
  char line[128];
  int id, row, flip, rows = 0;
  mr_box_t b;
  while (vectors_line(f, line, sizeof line)) {
    assert_int_equal(sscanf(line, "%d %d %d %d %d %d %d", &id, &row, &b.i, &b.j, &b.h, &b.w, &flip),
                     7);
    assert_true(row >= 0 && (size_t)row < sources && id >= 0 && (size_t)id < cases);
    to_chw(src + row * IMAGE, 32, in);
    to_chw(want + id * IMAGE, 32, expect);
    if (flip) flip_picture(in);
    mr_pil_crop(&p, in, 3, 32, 32, b, got, scratch);
    if (memcmp(got, expect, IMAGE)) fail_msg("case %s", line);
    rows++;
  }
  fclose(f);
  assert_int_equal(rows, cases);
  mr_pil_fini(&p);
  free(src), free(in), free(want);
}

static void crops_match_pillow_byte_for_byte(void **state) { golden_crops(false); }
static void fast_crops_match_pillow_byte_for_byte(void **state) { golden_crops(true); }

static void other_sizes_match_pillow_up_and_down(void **state) {
  size_t sources;
  uint8_t *src = vectors_npy_rows("pil_src.npy", IMAGE, &sources), in[IMAGE], scratch[32 * 64];
  static uint8_t got[3 * 64 * 64];
  to_chw(src, 32, in);
  FILE *f = vectors_open("pil_resize.txt");
  static char line[1 << 16];
  int rows = 0, h, w, out, at;
  while (vectors_line(f, line, sizeof line)) {
    assert_int_equal(sscanf(line, "%d %d %d | %n", &h, &w, &out, &at), 3);
    assert_true(out <= 64);
    mr_pil_t p;
    assert_true(mr_pil_init(&p, 32, out, true));
    mr_pil_crop(&p, in, 3, 32, 32, (mr_box_t){.h = h, .w = w}, got, scratch);
    char *text = line + at;
    for (int k = 0; k < out * out; k++)
      for (int c = 0; c < 3; c++)
        if (strtol(text, &text, 10) != got[c * out * out + k])
          fail_msg("%d x %d to %d, pixel %d", h, w, out, k);
    mr_pil_fini(&p);
    rows++;
  }
  fclose(f);
  free(src);
  vectors_met(rows, 4);
}

static uint32_t lcg(uint32_t *s) { return *s = *s * 1664525u + 1013904223u; }

static void every_box_gives_the_same_bytes_fast_and_plain(void **state) {
  mr_pil_t plain, fast;
  assert_true(mr_pil_init(&plain, 32, 32, false) && mr_pil_init(&fast, 32, 32, true));
  uint8_t *src = malloc(IMAGE), a[IMAGE], b[IMAGE], scratch[1024]; /* exact size: no over-read */
  uint32_t seed = 12;
  for (int h = 1; h <= 32; h++)
    for (int w = 1; w <= 32; w++)
      for (int corner = 0; corner < 4; corner++) {
        for (int k = 0; k < IMAGE; k++) src[k] = corner == 3 ? 255 : (uint8_t)(lcg(&seed) >> 24);
        mr_box_t box = {.i = corner & 1 ? 32 - h : 0, .j = corner & 2 ? 32 - w : 0, .h = h, .w = w};
        mr_pil_crop(&plain, src, 3, 32, 32, box, a, scratch);
        mr_pil_crop(&fast, src, 3, 32, 32, box, b, scratch);
        if (memcmp(a, b, IMAGE)) fail_msg("box %d x %d at %d, %d", h, w, box.i, box.j);
      }
  free(src);
  mr_pil_fini(&plain), mr_pil_fini(&fast);
}

static int below(uint32_t *seed, int n) { return (int)(lcg(seed) >> 8) % n; }

/* Boxes and sizes at random, and each corner of the picture: loads must not leave it. */
static void sides_of_any_size_give_the_same_bytes_fast_and_plain(void **state) {
  static const int sides[] = {16, 31, 32, 33, 48, 64, 100, 128, 224, 256};
  static uint8_t a[3 * 256 * 256], b[3 * 256 * 256], scratch[256 * 256];
  uint32_t seed = 21;
  for (int round = 0; round < 60; round++) {
    int H = sides[below(&seed, 10)], W = sides[below(&seed, 10)], out = sides[below(&seed, 10)];
    mr_pil_t plain, fast;
    uint8_t *src = malloc((size_t)(3 * H * W)); /* exact size: no over-read */
    assert_true(src && mr_pil_init(&plain, H > W ? H : W, out, false));
    assert_true(mr_pil_init(&fast, H > W ? H : W, out, true));
    if (round % 2) fast.avx512 = fast.any512 = false;
    for (int k = 0; k < 3 * H * W; k++) src[k] = round % 8 ? (uint8_t)(lcg(&seed) >> 24) : 255;
    for (int n = 0; n < 12; n++) {
      mr_box_t box = {.h = n == 4 && out <= H ? out : 1 + below(&seed, H),
                      .w = n == 5 && out <= W ? out : 1 + below(&seed, W)};
      box.i = n & 1 ? H - box.h : below(&seed, H - box.h + 1);
      box.j = n & 2 ? W - box.w : below(&seed, W - box.w + 1);
      mr_pil_crop(&plain, src, 3, H, W, box, a, scratch);
      mr_pil_crop(&fast, src, 3, H, W, box, b, scratch);
      if (memcmp(a, b, (size_t)(3 * out * out)))
        fail_msg("%d x %d at %d, %d of %d x %d to %d", box.h, box.w, box.i, box.j, H, W, out);
    }
    free(src);
    mr_pil_fini(&plain), mr_pil_fini(&fast);
  }
}

/* ---- torch's generator, to replay torchvision's get_params ---- */

typedef struct mt19937 {
  uint32_t s[624];
  int i;
} mt19937_t;

static void mt_seed(mt19937_t *g, uint32_t seed) {
  g->s[0] = seed, g->i = 624;
  for (uint32_t j = 1; j < 624; j++) g->s[j] = 1812433253u * (g->s[j - 1] ^ g->s[j - 1] >> 30) + j;
}

static uint32_t mt_next(mt19937_t *g) {
  if (g->i == 624) {
    for (int k = 0; k < 624; k++) {
      uint32_t y = (g->s[k] & 0x80000000u) | (g->s[(k + 1) % 624] & 0x7FFFFFFFu);
      g->s[k] = g->s[(k + 397) % 624] ^ y >> 1 ^ (y & 1 ? 0x9908B0DFu : 0);
    }
    g->i = 0;
  }
  uint32_t y = g->s[g->i++];
  y ^= y >> 11, y ^= y << 7 & 0x9D2C5680u, y ^= y << 15 & 0xEFC60000u;
  return y ^ y >> 18;
}

static float mt_uniform(mt19937_t *g, double lo, double hi) {
  float x = (float)(mt_next(g) & 0xFFFFFF) * (1.0f / 16777216.0f);
  float wide = x * ((float)hi - (float)lo);
  return wide + (float)lo;
}

static mr_box_t torch_params(mt19937_t *g, int H, int W, const double *scale, const double *ratio) {
  mr_box_t b;
  for (int k = 0; k < 10; k++) {
    double area = H * W * (double)mt_uniform(g, scale[0], scale[1]);
    double aspect = expf(mt_uniform(g, logf((float)ratio[0]), logf((float)ratio[1])));
    if (!mr_crop_size(H, W, area, aspect, &b)) continue;
    b.i = (int)(mt_next(g) % (uint32_t)(H - b.h + 1));
    b.j = (int)(mt_next(g) % (uint32_t)(W - b.w + 1));
    return b;
  }
  return mr_crop_fallback(H, W, ratio[0], ratio[1]);
}

static void check_box(const mr_box_t *b, const char *line) {
  mr_box_t w;
  assert_int_equal(sscanf(line, "%d %d %d %d", &w.i, &w.j, &w.h, &w.w), 4);
  if (memcmp(b, &w, sizeof w)) fail_msg("want %s, got %d %d %d %d", line, b->i, b->j, b->h, b->w);
}

static void boxes_match_torchvision_under_its_generator(void **state) {
  FILE *f = vectors_open("rrc_params.txt");
  char line[256];
  static mt19937_t g;
  int H = 0, W = 0, n, checked = 0;
  uint32_t seed;
  double scale[2], ratio[2];
  while (vectors_line(f, line, sizeof line)) {
    if (sscanf(line, "set %" SCNu32 " %d %d %lf %lf %lf %lf %d", &seed, &H, &W, scale, scale + 1,
               ratio, ratio + 1, &n) == 8) {
      mt_seed(&g, seed);
      continue;
    }
    mr_box_t b = torch_params(&g, H, W, scale, ratio);
    check_box(&b, line);
    checked++;
  }
  fclose(f);
  vectors_met(checked, 2001);
}

static void flips_and_boxes_match_torchs_pipeline(void **state) {
  FILE *f = vectors_open("torch_pipeline.txt");
  char line[256];
  static mt19937_t g;
  int n, flip, at, checked = 0;
  uint32_t seed;
  while (vectors_line(f, line, sizeof line)) {
    assert_int_equal(sscanf(line, "%" SCNu32 " %d %d %n", &seed, &n, &flip, &at), 3);
    if (n == 0) mt_seed(&g, seed);
    assert_int_equal(mt_uniform(&g, 0, 1) < 0.5f, flip);
    mr_box_t b = torch_params(&g, 32, 32, (double[]){0.9, 1.0}, (double[]){0.9, 1.1});
    check_box(&b, line + at);
    checked++;
  }
  fclose(f);
  vectors_met(checked, 101);
}

/* Expected boxes: the same arithmetic over numpy's Philox(key) in Python, after one random() that a
   flip before the crop has taken. */
static void the_stage_draws_its_box_from_the_records_generator(void **state) {
  static const struct {
    uint64_t key;
    int flip;
    mr_box_t box;
  } row[] = {
      {0u, 1, {0, 0, 32, 30}},          {1u, 1, {1, 0, 29, 32}},
      {12u, 0, {0, 0, 32, 30}},         {13u, 0, {0, 1, 31, 30}},
      {4294967295u, 0, {1, 1, 31, 31}}, {4294967303u, 0, {1, 0, 30, 32}},
      {123456789u, 0, {0, 1, 32, 31}},
  };
  uint8_t src[IMAGE], want[IMAGE], got[IMAGE], scratch[1024];
  uint32_t seed = 4;
  for (int k = 0; k < IMAGE; k++) src[k] = (uint8_t)(lcg(&seed) >> 24);
  mr_spec_t in = {.flow = MR_FLOW_RECORDS,
                  .n_fields = 2,
                  .field = {{.name = "image",
                             .dtype = MR_U8,
                             .layout = MR_LAYOUT_CHW,
                             .ndim = 3,
                             .dim = {3, 32, 32}},
                            mr_field_of_label(0)},
                  .seeded = true};
  hand_t h;
  mr_pil_t p;
  assert_true(mr_pil_init(&p, 32, 32, false));
  assert_int_equal(
      hand_open(&h, &mr_stage_resized_crop, &in, HAND_SETTINGS("scale=0.9:1.0", "ratio=0.9:1.1")),
      MR_OK);
  for (size_t k = 0; k < sizeof row / sizeof *row; k++) {
    mr_philox_t g;
    mr_philox_init(&g, row[k].key, 0);
    assert_int_equal(mr_philox_random(&g) < 0.5, row[k].flip);
    mr_rec_t a = HAND_REC(src, .rng = &g), b = HAND_REC(got, .rng = &g);
    assert_int_equal(mr_stage_resized_crop.map->run(&h.s, &a, &b), MR_OK);
    mr_pil_crop(&p, src, 3, 32, 32, row[k].box, want, scratch);
    assert_memory_equal(b.field->data, want, IMAGE);
    mr_rec_t note = {0};
    mr_box_t x = row[k].box;
    mr_draw_note(&note,
                 (uint64_t)x.i | (uint64_t)x.j << 16 | (uint64_t)x.h << 32 | (uint64_t)x.w << 48);
    assert_true(b.draw == note.draw);
  }
  hand_close(&h);
  mr_pil_fini(&p);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(crops_match_pillow_byte_for_byte),
      cmocka_unit_test(fast_crops_match_pillow_byte_for_byte),
      cmocka_unit_test(other_sizes_match_pillow_up_and_down),
      cmocka_unit_test(every_box_gives_the_same_bytes_fast_and_plain),
      cmocka_unit_test(sides_of_any_size_give_the_same_bytes_fast_and_plain),
      cmocka_unit_test(boxes_match_torchvision_under_its_generator),
      cmocka_unit_test(flips_and_boxes_match_torchs_pipeline),
      cmocka_unit_test(the_stage_draws_its_box_from_the_records_generator),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
