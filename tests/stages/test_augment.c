/* The stages that change pictures at random: each against a plain oracle that draws the same
   numbers, in both layouts; and what they refuse. */
#include <math.h>

#include "base/random.h"
#include "pipeline/stage_map.h"
#include "stages/pil_ops.h"
#include "tests/random.h"
#include "tests/stage.h"

extern const mr_stage_def_t mr_stage_color_jitter, mr_stage_gaussian_blur, mr_stage_grayscale,
    mr_stage_pad_crop, mr_stage_random_erasing;

static mr_spec_t pictures_of(int C, int H, int W, bool hwc, mr_dtype_t dtype) {
  mr_field_t f = {.name = "image",
                  .dtype = dtype,
                  .layout = hwc ? MR_LAYOUT_HWC : MR_LAYOUT_CHW,
                  .ndim = 3,
                  .dim = {hwc ? H : C, hwc ? W : H, hwc ? C : W}};
  return (mr_spec_t){.flow = MR_FLOW_RECORDS,
                     .n_fields = 2,
                     .field = {f, mr_field_of_label(0)},
                     .n_records = 10,
                     .n_epochs = 1,
                     .seeded = true};
}

static uint8_t *noise(round_t *r, size_t n) {
  uint8_t *p = malloc(n);
  assert_non_null(p);
  for (size_t k = 0; k < n; k++) p[k] = (uint8_t)draw(r, 256);
  return p;
}

/* Runs the stage on a picture in HWC, given to it in either layout; the result is HWC too.  items
   are `item` bytes.  The hash of the draws is returned. */
static uint64_t run_stage(const mr_stage_def_t *def, const char *const *settings, int C, int H,
                          int W, bool hwc, mr_dtype_t dtype, const void *src, uint64_t key,
                          void *dst, int out_h, int out_w) {
  size_t item = mr_dtype_size(dtype), n = (size_t)(C * H * W) * item;
  size_t n_out = (size_t)(C * out_h * out_w) * item;
  uint8_t *in = malloc(n), *room = malloc(n_out);
  mr_spec_t spec = pictures_of(C, H, W, hwc, dtype);
  mr_philox_t g;
  hand_t h;
  mr_philox_init(&g, key, 0);
  for (int c = 0; c < C; c++)
    for (int k = 0; k < H * W; k++)
      memcpy(in + (size_t)(hwc ? k * C + c : c * H * W + k) * item,
             (const uint8_t *)src + (size_t)(k * C + c) * item, item);
  if (hand_open(&h, def, &spec, settings) != MR_OK) fail_msg("%s", h.diag.text);
  h.s.scratch = calloc(1, h.s.scratch_bytes + 1);
  mr_rec_t a = HAND_REC(in, .rng = &g), b = HAND_REC(room, .rng = &g);
  if (def->map->run(&h.s, &a, &b) != MR_OK) fail_msg("%s", h.diag.text);
  const uint8_t *out = b.field->data;
  for (int c = 0; c < C; c++)
    for (int k = 0; k < out_h * out_w; k++)
      memcpy((uint8_t *)dst + (size_t)(k * C + c) * item,
             out + (size_t)(hwc ? k * C + c : c * out_h * out_w + k) * item, item);
  if (def->map->leave) def->map->leave(&h.s);
  free(h.s.scratch);
  hand_close(&h);
  free(in), free(room);
  return b.draw;
}

static void color_jitter_applies_its_draws_in_their_order(void **state) {
  round_t r = round_first(200);
  int orders[24] = {0}, seen = 0;
  while (round_next(&r)) {
    int C = one_in(&r, 3) ? 1 : 3, H = 1 + draw(&r, 20), W = 1 + draw(&r, 20);
    size_t n = (size_t)(C * H * W);
    uint64_t key = round_bits(&r);
    uint8_t *src = noise(&r, n), *got = malloc(n), *want = malloc(n), *spare = malloc(n);
    uint64_t drawn = run_stage(
        &mr_stage_color_jitter,
        HAND_SETTINGS("brightness=0.4", "contrast=0.5:2", "saturation=1.5", "hue=-0.1:0.3"), C, H,
        W, one_in(&r, 2), MR_U8, src, key, got, H, W);
    int order[4] = {0, 1, 2, 3};
    float factor[4];
    static const double range[4][2] = {{0.6, 1.4}, {0.5, 2}, {0, 2.5}, {-0.1, 0.3}};
    mr_philox_t g;
    mr_philox_init(&g, key, 0);
    for (int k = 3; k > 0; k--) {
      int j = (int)mr_philox_integers(&g, 0, k + 1), t = order[k];
      order[k] = order[j], order[j] = t;
    }
    for (int k = 0; k < 4; k++) factor[k] = (float)mr_philox_uniform(&g, range[k][0], range[k][1]);
    memcpy(want, src, n);
    mr_canvas_t c = {.h = H, .w = W, .C = C, .at = want, .spare = spare};
    mr_rec_t note = {0};
    for (int k = 0; k < 4; k++) {
      static void (*const change[4])(mr_canvas_t *, double) = {mr_pil_brightness, mr_pil_contrast,
                                                               mr_pil_saturation, mr_pil_hue};
      uint32_t bits;
      change[order[k]](&c, factor[order[k]]);
      memcpy(&bits, &factor[order[k]], 4);
      mr_draw_note(&note, (uint64_t)order[k] << 32 | bits);
    }
    round_check(&r, !memcmp(got, c.at, n), "%d x %d x %d", C, H, W);
    round_check(&r, drawn == note.draw, "the hash of the draws");
    int number = order[0] * 6 + (order[1] - (order[1] > order[0])) * 2 + (order[2] > order[3]);
    seen += !orders[number]++;
    free(src), free(got), free(want), free(spare);
  }
  if (r.end > 200) assert_int_equal(seen, 24);
}

/* The pixel of a padded side, by walking there from the picture a step at a time. */
static int padded_source(int k, int n, const char *mode) {
  if (k >= 0 && k < n) return k;
  if (!strcmp(mode, "constant")) return -1;
  if (!strcmp(mode, "edge") || n == 1) return k < 0 ? 0 : n - 1;
  int at = k < 0 ? 0 : n - 1, step = k < 0 ? 1 : -1, left = k < 0 ? -k : k - n + 1;
  bool twice = !strcmp(mode, "symmetric"); /* the outermost pixel is met again */
  for (bool turned = twice; left > 0; left--) {
    if (turned) {
      turned = false;
      continue;
    }
    at += step;
    if ((at == 0 || at == n - 1) && left > 1) step = -step, turned = twice;
  }
  return at;
}

static void pad_crop_is_padding_and_cutting(void **state) {
  static const char *const modes[] = {"constant", "edge", "reflect", "symmetric"};
  round_t r = round_first(400);
  while (round_next(&r)) {
    int C = 1 + draw(&r, 4), H = 1 + draw(&r, 12), W = 1 + draw(&r, 12), pad = draw(&r, 30);
    int h = 1 + draw(&r, H + 2 * pad), w = 1 + draw(&r, W + 2 * pad), fill = draw(&r, 256);
    const char *mode = modes[draw(&r, 4)];
    char size[32], padding[32], how[32], level[32];
    size_t n = (size_t)(C * H * W), n_out = (size_t)(C * h * w);
    snprintf(size, sizeof size, "size=%dx%d", h, w), snprintf(padding, 32, "padding=%d", pad);
    snprintf(how, sizeof how, "mode=%s", mode), snprintf(level, 32, "fill=%d", fill);
    uint64_t key = round_bits(&r);
    uint8_t *src = noise(&r, n), *got = malloc(n_out);
    run_stage(&mr_stage_pad_crop, HAND_SETTINGS(size, padding, how, level), C, H, W, one_in(&r, 2),
              MR_U8, src, key, got, h, w);
    mr_philox_t g;
    mr_philox_init(&g, key, 0);
    int i = H + 2 * pad > h ? (int)mr_philox_integers(&g, 0, H + 2 * pad - h + 1) : 0;
    int j = W + 2 * pad > w ? (int)mr_philox_integers(&g, 0, W + 2 * pad - w + 1) : 0;
    for (int k = 0; k < h * w * C; k++) {
      int y = padded_source(i - pad + k / C / w, H, mode);
      int x = padded_source(j - pad + k / C % w, W, mode);
      int want = y < 0 || x < 0 ? fill : src[(y * W + x) * C + k % C];
      round_check(&r, got[k] == want, "%s, pad %d, %dx%d to %dx%d, byte %d", mode, pad, H, W, h, w,
                  k);
    }
    free(src), free(got);
  }
}

static void gaussian_blur_is_a_convolution(void **state) {
  round_t r = round_first(60);
  int64_t differ = 0, bytes = 0;
  while (round_next(&r)) {
    int C = one_in(&r, 2) ? 1 : 3, H = 4 + draw(&r, 12), W = 4 + draw(&r, 12);
    int kh = 1 + 2 * draw(&r, 4), kw = 1 + 2 * draw(&r, 4);
    double sigma = 0.25 * (1 + draw(&r, 12)), weight[2][7], sum[2] = {0, 0};
    char kernel[32], width[32];
    size_t n = (size_t)(C * H * W);
    snprintf(kernel, sizeof kernel, "kernel=%dx%d", kh, kw);
    snprintf(width, sizeof width, "sigma=%g:%g", sigma, sigma);
    uint8_t *src = noise(&r, n), *got = malloc(n);
    run_stage(&mr_stage_gaussian_blur, HAND_SETTINGS(kernel, width), C, H, W, one_in(&r, 2), MR_U8,
              src, 1, got, H, W);
    for (int d = 0; d < 2; d++) {
      int taps = d ? kw : kh;
      for (int k = 0; k < taps; k++) {
        /* torchvision spreads the places over [-lim, lim], a step of 1 / sqrt(2) */
        double x = (k - taps / 2) / sqrt(2.0) / sigma;
        sum[d] += weight[d][k] = exp(-x * x);
      }
    }
    for (int k = 0; k < (int)n; k++) {
      double v = 0;
      for (int a = 0; a < kh; a++)
        for (int b = 0; b < kw; b++) {
          int y = k / C / W + a - kh / 2, x = k / C % W + b - kw / 2;
          y = y < 0   ? -y
              : y < H ? y
                      : 2 * (H - 1) - y,
          x = x < 0   ? -x
              : x < W ? x
                      : 2 * (W - 1) - x;
          v += weight[0][a] * weight[1][b] * src[(y * W + x) * C + k % C];
        }
      double off = fabs(v / sum[0] / sum[1] - got[k]);
      round_check(&r, off < 0.501, "off by %g at byte %d", off, k);
      differ += off > 0.5, bytes++;
    }
    free(src), free(got);
  }
  assert_true(differ * 1000 < bytes + 1000);
}

static void random_erasing_changes_its_box_alone(void **state) {
  static const mr_dtype_t dtypes[] = {MR_U8, MR_F32, MR_BF16};
  round_t r = round_first(300);
  int erased = 0;
  while (round_next(&r)) {
    int C = 1 + draw(&r, 4), H = 1 + draw(&r, 20), W = 1 + draw(&r, 20);
    mr_dtype_t dtype = dtypes[draw(&r, 3)];
    bool normals = dtype != MR_U8 && one_in(&r, 2);
    size_t item = mr_dtype_size(dtype), n = (size_t)(C * H * W) * item;
    uint64_t key = round_bits(&r);
    uint8_t *src = noise(&r, n), *got = malloc(n);
    run_stage(&mr_stage_random_erasing,
              HAND_SETTINGS("p=0.7", normals ? "value=random" : "value=7"), C, H, W, one_in(&r, 2),
              dtype, src, key, got, H, W);
    mr_philox_t g;
    mr_box_t b = {0};
    mr_philox_init(&g, key, 0);
    bool turn = mr_philox_random(&g) < 0.7;
    for (int k = 0; turn && k < 10; k++) {
      double area = (double)H * W * mr_philox_uniform(&g, 0.02, 0.33);
      double aspect = exp(mr_philox_uniform(&g, log(0.3), log(3.3)));
      b.h = (int)nearbyint(sqrt(area * aspect)), b.w = (int)nearbyint(sqrt(area / aspect));
      if (b.h < H && b.w < W) {
        b.i = (int)mr_philox_integers(&g, 0, H - b.h + 1);
        b.j = (int)mr_philox_integers(&g, 0, W - b.w + 1);
        break;
      }
      b = (mr_box_t){0};
    }
    float *normal = calloc((size_t)(C * b.h * b.w) + 1, sizeof *normal);
    if (normals && b.h && b.w)
      mr_random_normal(mr_prng(mr_philox_next32(&g), MR_KEY_PARTITIONABLE), (size_t)(C * b.h * b.w),
                       normal);
    for (int k = 0; k < C * H * W; k++) {
      int y = k / C / W - b.i, x = k / C % W - b.j;
      bool in = y >= 0 && y < b.h && x >= 0 && x < b.w;
      float v = normals && in ? normal[((k % C) * b.h + y) * b.w + x] : 7;
      mr_bf16_t half = mr_bf16_from_f32(v);
      uint8_t byte = 7;
      const void *want = dtype == MR_U8 ? (void *)&byte : dtype == MR_F32 ? (void *)&v : &half;
      if (!in) want = src + (size_t)k * item;
      round_check(&r, !memcmp(got + (size_t)k * item, want, item), "item %d of %d", k, C * H * W);
    }
    erased += b.h && b.w;
    free(src), free(got), free(normal);
  }
  assert_true(erased > 50 || r.end <= 300);
}

static void grayscale_takes_its_probability(void **state) {
  round_t r = round_first(300);
  int grey = 0;
  while (round_next(&r)) {
    uint8_t *src = noise(&r, 3 * 5 * 4), got[3 * 5 * 4];
    uint64_t key = round_bits(&r);
    run_stage(&mr_stage_grayscale, HAND_SETTINGS("p=0.25"), 3, 5, 4, one_in(&r, 2), MR_U8, src, key,
              got, 5, 4);
    mr_philox_t g;
    mr_philox_init(&g, key, 0);
    bool turn = mr_philox_random(&g) < 0.25;
    for (int k = 0; k < 60; k++) {
      const uint8_t *p = src + k / 3 * 3;
      int level = (int)floor((19595. * p[0] + 38470. * p[1] + 7471. * p[2]) / 65536 + 0.5);
      round_check(&r, got[k] == (turn ? level : src[k]), "byte %d", k);
    }
    grey += turn;
    free(src);
  }
  assert_true((grey > 40 && grey < 120) || r.end <= 300);
}

static void wrong_settings_are_refused_with_the_setting_named(void **state) {
  static const struct {
    const mr_stage_def_t *def;
    const char *setting, *says;
  } row[] = {
      {&mr_stage_color_jitter, "brightness=-0.1", "brightness"},
      {&mr_stage_color_jitter, "brightness=nan", "brightness"},
      {&mr_stage_color_jitter, "contrast=2:1", "contrast"},
      {&mr_stage_color_jitter, "contrast=1e300", "contrast"},
      {&mr_stage_color_jitter, "saturation=", "saturation"},
      {&mr_stage_color_jitter, "saturation=0.1:inf", "saturation"},
      {&mr_stage_color_jitter, "hue=0.6", "hue"},
      {&mr_stage_color_jitter, "hue=-0.6:0", "hue"},
      {&mr_stage_color_jitter, "hue=0", "changes nothing"},
      {&mr_stage_grayscale, "p=1.5", "p"},
      {&mr_stage_grayscale, "p=nan", "p"},
      {&mr_stage_pad_crop, "size=0", "size"},
      {&mr_stage_pad_crop, "size=33", "33x33"},
      {&mr_stage_pad_crop, "size=99999999999", "size"},
      {&mr_stage_pad_crop, "padding=-1", "padding"},
      {&mr_stage_pad_crop, "padding=99999", "padding"},
      {&mr_stage_pad_crop, "fill=1,2", "fill"},
      {&mr_stage_pad_crop, "fill=256", "fill"},
      {&mr_stage_gaussian_blur, "kernel=4", "kernel"},
      {&mr_stage_gaussian_blur, "kernel=-3", "kernel"},
      {&mr_stage_gaussian_blur, "kernel=3x", "kernel"},
      {&mr_stage_gaussian_blur, "kernel=99999", "kernel"},
      {&mr_stage_gaussian_blur, "kernel=513", "kernel"},
      {&mr_stage_gaussian_blur, "kernel=65", "at most 63x63"},
      {&mr_stage_gaussian_blur, "sigma=0:1", "sigma"},
      {&mr_stage_gaussian_blur, "sigma=nan:1", "sigma"},
      {&mr_stage_random_erasing, "p=-1", "p"},
      {&mr_stage_random_erasing, "scale=0.5:1.5", "scale"},
      {&mr_stage_random_erasing, "ratio=0:1", "ratio"},
      {&mr_stage_random_erasing, "ratio=nan:1", "ratio"},
      {&mr_stage_random_erasing, "value=random", "normalize"},
      {&mr_stage_random_erasing, "value=1,2", "value"},
      {&mr_stage_random_erasing, "value=300", "value"},
      {&mr_stage_random_erasing, "value=x", "value"},
  };
  for (size_t k = 0; k < sizeof row / sizeof *row; k++) {
    mr_spec_t in = pictures_of(3, 32, 32, false, MR_U8);
    hand_t h;
    const char *size = row[k].def == &mr_stage_pad_crop ? "size=32" : row[k].setting;
    mr_err_t e = hand_plan(&h, row[k].def, &in, HAND_SETTINGS(size, row[k].setting));
    if (e != MR_ERR_CONFIG && e != MR_ERR_SHAPE) fail_msg("%s is taken", row[k].setting);
    if (!strstr(h.diag.text, row[k].says)) fail_msg("%s: %s", row[k].setting, h.diag.text);
    hand_close(&h);
  }
}

static void varying_pictures_are_refused_with_the_stages_that_even_them(void **state) {
  static const mr_stage_def_t *const def[] = {&mr_stage_color_jitter, &mr_stage_gaussian_blur,
                                              &mr_stage_grayscale, &mr_stage_random_erasing};
  for (int k = 0; k < 4; k++) {
    mr_spec_t in = pictures_of(3, 0, 0, true, MR_U8);
    in.field[0].varies = true;
    hand_t h;
    assert_int_equal(hand_plan(&h, def[k], &in, NULL), MR_ERR_SHAPE);
    assert_non_null(strstr(h.diag.text, "resized-crop SIZE"));
    assert_non_null(strstr(h.diag.text, "pad-crop SIZE"));
    hand_close(&h);
  }
  mr_spec_t in = pictures_of(3, 0, 0, true, MR_U8);
  in.field[0].varies = true;
  hand_t h;
  assert_int_equal(hand_plan(&h, &mr_stage_pad_crop, &in, HAND_SETTINGS("size=24x32")), MR_OK);
  assert_false(h.s.out_spec[0].field[0].varies);
  assert_int_equal(h.s.out_spec[0].field[0].dim[0], 24);
  assert_int_equal(h.s.out_spec[0].field[0].dim[1], 32);
  hand_close(&h);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(color_jitter_applies_its_draws_in_their_order),
      cmocka_unit_test(pad_crop_is_padding_and_cutting),
      cmocka_unit_test(gaussian_blur_is_a_convolution),
      cmocka_unit_test(random_erasing_changes_its_box_alone),
      cmocka_unit_test(grayscale_takes_its_probability),
      cmocka_unit_test(wrong_settings_are_refused_with_the_setting_named),
      cmocka_unit_test(varying_pictures_are_refused_with_the_stages_that_even_them),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
