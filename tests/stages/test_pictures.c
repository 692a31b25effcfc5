/* Pictures of one, three and four channels in both layouts, and of any size, against Pillow. */
#include <unistd.h>

#include "base/npy.h"
#include "loaders/loaders.h"
#include "pipeline/graph/graph.h"
#include "pipeline/stage_step.h"
#include "sinks/sinks.h"
#include "stages/norm.h"
#include "stages/pil_picture.h"
#include "stages/stages.h"
#include "tests/vectors.h"

static uint32_t crc32_of(const uint8_t *p, size_t n) {
  uint32_t crc = ~0u;
  for (size_t i = 0; i < n; i++) {
    crc ^= p[i];
    for (int k = 0; k < 8; k++) crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320u : 0);
  }
  return ~crc;
}

/* The formula of the vectors, in HWC or CHW. */
static uint8_t *source(int H, int W, int C, bool hwc) {
  uint8_t *p = malloc((size_t)H * (size_t)W * (size_t)C);
  assert_non_null(p);
  for (int y = 0; y < H; y++)
    for (int x = 0; x < W; x++)
      for (int c = 0; c < C; c++)
        p[hwc ? (y * W + x) * C + c : (c * H + y) * W + x] =
            (uint8_t)(y * 37 + x * 61 + c * 101 + y * x % 251);
  return p;
}

static FILE *vectors(const char *name) { return vectors_open(name); }

typedef struct row {
  int C, H, W, out;
  mr_box_t box;
  uint32_t crc;
} row_t;

static void check_row(const row_t *r, bool hwc, bool simd) {
  mr_pil_picture_t p = {.in = {r->C, r->H, r->W, hwc && r->C > 1, hwc ? 0 : 1}, .alpha = true};
  int n = r->out * r->out;
  uint8_t *src = source(r->H, r->W, r->C, hwc), *dst = malloc((size_t)(n * r->C));
  uint8_t *joined = malloc((size_t)(n * r->C));
  void *scratch = aligned_alloc(64, (mr_pil_picture_scratch(&p.in, r->out) + 63) / 64 * 64);
  assert_true(dst && joined && scratch &&
              mr_pil_init(&p.pil, r->H > r->W ? r->H : r->W, r->out, simd));
  mr_pil_picture(&p, src, r->box, dst, scratch);
  if (!hwc) mr_pixels_join(dst, r->out, r->out, r->C, joined);
  uint32_t crc = crc32_of(hwc ? dst : joined, (size_t)(n * r->C));
  if (crc != r->crc)
    fail_msg("%d x %d x %d, box %d %d %d %d to %d, %s, simd %d: %08x, want %08x", r->C, r->H, r->W,
             r->box.i, r->box.j, r->box.h, r->box.w, r->out, hwc ? "hwc" : "chw", simd, crc,
             r->crc);
  mr_pil_fini(&p.pil);
  free(src), free(dst), free(joined), free(scratch);
}

static void boxes_of_all_channels_and_sizes_are_pillows(void **state) {
  FILE *f = vectors("pil_channels.txt");
  char line[256];
  int n = 0;
  while (fgets(line, sizeof line, f)) {
    row_t r;
    if (*line == '#') continue;
    assert_int_equal(sscanf(line, "%d %d %d %d %d %d %d %d %x", &r.C, &r.H, &r.W, &r.box.i,
                            &r.box.j, &r.box.h, &r.box.w, &r.out, &r.crc),
                     9);
    for (int k = 0; k < 4; k++) check_row(&r, k & 1, k & 2);
    n++;
  }
  fclose(f);
  vectors_met(n, 201);
}

/* (h,w) to any (out_h,out_w), by the plain path. */
static uint32_t resized(int h, int w, int out_h, int out_w, bool down_first) {
  size_t most = (size_t)(h > out_h ? h : out_h) * (size_t)(w > out_w ? w : out_w);
  mr_pil_pass_t down, across;
  void *memory[2] = {malloc(mr__pil_pass_bytes(h, out_h)), malloc(mr__pil_pass_bytes(w, out_w))};
  uint8_t *src = source(h, w, 3, false), *dst = malloc(3 * (size_t)(out_h * out_w));
  uint8_t *scratch = malloc(most), *joined = malloc(3 * (size_t)(out_h * out_w));
  assert_true(memory[0] && memory[1] && dst && scratch && joined);
  mr__pil_pass_make(&down, h, out_h, memory[0]);
  mr__pil_pass_make(&across, w, out_w, memory[1]);
  for (int c = 0; c < 3; c++)
    mr__pil_plane(&down, &across, src + c * h * w, w, h, w, out_h, out_w, down_first,
                  dst + c * out_h * out_w, scratch);
  mr_pixels_join(dst, out_h, out_w, 3, joined);
  uint32_t crc = crc32_of(joined, 3 * (size_t)(out_h * out_w));
  free(memory[0]), free(memory[1]), free(src), free(dst), free(scratch), free(joined);
  return crc;
}

static void the_first_direction_is_that_of_pillow_13(void **state) {
  FILE *f = vectors("pil_passes.txt");
  char line[256], first;
  int h, w, out_h, out_w, n = 0, differ = 0;
  uint32_t want;
  while (fgets(line, sizeof line, f)) {
    if (*line == '#') continue;
    assert_int_equal(sscanf(line, "%d %d %d %d %c %x", &h, &w, &out_h, &out_w, &first, &want), 6);
    bool down = h > out_h && h - out_h > 2 * (w - out_w);
    if (resized(h, w, out_h, out_w, down) != want) fail_msg("%s", line);
    differ += resized(h, w, out_h, out_w, !down) != want;
    n++;
  }
  fclose(f);
  vectors_met(n, 400);
  assert_true(differ > 100); /* the order shows */
}

/* All boxes of small pictures: the fast ways are the plain one, in both orders. */
static void fast_ways_are_the_plain_one_in_both_orders(void **state) {
  static const int outs[] = {16, 17, 24, 32, 40};
  enum { H = 70, W = 45 };
  static uint8_t a[3 * 40 * 40], b[3 * 40 * 40], scratch[70 * 70];
  uint8_t *src = source(H, W, 3, false);
  for (int k = 0; k < 10; k++) {
    int out = outs[k / 2], down = 0;
    mr_pil_t plain, fast;
    assert_true(mr_pil_init(&plain, H, out, false) && mr_pil_init(&fast, H, out, true));
    plain.across_first = fast.across_first = k % 2;
    for (int h = 1; h <= H; h += 3)
      for (int w = 1; w <= W; w++) {
        mr_box_t box = {H - h, W - w, h, w}; /* at the picture's end */
        mr_pil_crop(&plain, src, 3, H, W, box, a, scratch);
        mr_pil_crop(&fast, src, 3, H, W, box, b, scratch);
        if (memcmp(a, b, 3 * (size_t)(out * out))) fail_msg("%d x %d to %d", h, w, out);
        down += mr__pil_down_first(&fast, box);
      }
    assert_true((down > 0) == (k % 2 == 0));
    mr_pil_fini(&plain), mr_pil_fini(&fast);
  }
  free(src);
}

/* ---- whole graphs from .npy ---- */

enum { N = 8, SIDE_H = 20, SIDE_W = 18, SIZE = 12 };

static char folder[64], images[96], labels[96];
static uint8_t *batch_data;
static mr_spec_t batch_spec;

static mr_err_t keep_step(mr_stage_t *s) {
  mr_buf_t *b;
  mr_err_t e = mr_pull(s, 0, &b);
  if (e != MR_OK) return e;
  batch_spec = s->in_spec[0];
  free(batch_data);
  batch_data = malloc(b->size);
  memcpy(batch_data, b->data, b->size);
  mr_buf_unref(b);
  return MR_OK;
}

static const mr_stage_def_t keep = {.name = "keep",
                                    .help = "Keeps a batch.",
                                    .in = {{"in", MR_FLOW_BATCHES, false}},
                                    .step = &(const mr_step_def_t){.run = keep_step}};

static int setup(void **state) {
  strcpy(folder, "/tmp/mr-pictures-XXXXXX");
  if (!mkdtemp(folder)) return -1;
  snprintf(images, sizeof images, "%s/images.npy", folder);
  snprintf(labels, sizeof labels, "%s/labels.npy", folder);
  return 0;
}

static int teardown(void **state) {
  free(batch_data), batch_data = NULL;
  unlink(images), unlink(labels);
  return rmdir(folder);
}

/* N pictures, number k of which is the formula's plus k; ndim 3: (N,H,W). */
static uint8_t *write_pair(int C, bool hwc, int ndim) {
  size_t one = (size_t)(SIDE_H * SIDE_W * C);
  uint8_t *all = malloc(N * one), *first = source(SIDE_H, SIDE_W, C, hwc);
  mr_diag_t d = {0};
  for (size_t k = 0; k < N * one; k++) all[k] = (uint8_t)(first[k % one] + k / one);
  free(first);
  int64_t dim[2][4] = {{N, C, SIDE_H, SIDE_W}, {N, SIDE_H, SIDE_W, C}}, n[1] = {N};
  static const int32_t zeros[N];
  assert_true(mr_npy_save(images, MR_U8, ndim, dim[hwc], all, &d) >= 0);
  assert_true(mr_npy_save(labels, MR_I32, 1, n, zeros, &d) >= 0);
  return all;
}

static void run_graph(const char *stages) {
  static mr_registry_t reg;
  char text[512];
  mr_diag_t d = {0};
  if (!reg.n) {
    static const mr_stage_def_t *const own[] = {&keep, NULL};
    mr_registry_add(&reg, mr_loaders_stages);
    mr_registry_add(&reg, mr_stages_stages);
    mr_registry_add(&reg, own);
  }
  snprintf(text, sizeof text, "npy %s labels=%s ! %s ! batch %d ! keep", images, labels, stages, N);
  mr_graph_t *g = mr_graph_create(&reg);
  if (mr_graph_parse(g, text, NULL, 0, &d) < 0 || mr_graph_run(g, &d) < 0)
    fail_msg("%s: %s", text, d.text);
  mr_graph_destroy(g);
}

/* What the stages flip p=1, resized-crop of the whole picture and normalize make of one picture, by
   the plain parts. */
static void expect_picture(const uint8_t *src, int C, bool hwc, const float *got) {
  enum { OUT = SIZE * SIZE };
  uint8_t turned[4 * SIDE_H * SIDE_W], small[4 * OUT], chw[4 * OUT];
  mr_pil_picture_t p = {.in = {C, SIDE_H, SIDE_W, hwc && C > 1, 0}, .alpha = true};
  void *scratch = aligned_alloc(64, (mr_pil_picture_scratch(&p.in, SIZE) + 63) / 64 * 64);
  assert_true(scratch && mr_pil_init(&p.pil, SIDE_H, SIZE, false));
  for (int y = 0; y < SIDE_H; y++)
    for (int x = 0; x < SIDE_W; x++)
      for (int c = 0; c < C; c++) {
        int to = SIDE_W - 1 - x;
        if (hwc)
          turned[(y * SIDE_W + to) * C + c] = src[(y * SIDE_W + x) * C + c];
        else
          turned[(c * SIDE_H + y) * SIDE_W + to] = src[(c * SIDE_H + y) * SIDE_W + x];
      }
  mr_pil_picture(&p, turned, (mr_box_t){0, 0, SIDE_H, SIDE_W}, small, scratch);
  if (hwc)
    mr_pixels_split(small, SIZE * C, SIZE, SIZE, C, chw);
  else
    memcpy(chw, small, (size_t)(OUT * C));
  for (int k = 0; k < OUT; k++)
    for (int c = 0; c < C; c++) {
      volatile float scaled = (float)chw[c * OUT + k] / 255.0f, centred = scaled - 0.25f;
      float want = centred / 0.3f;
      if (memcmp(&want, &got[k * C + c], 4)) fail_msg("pixel %d of %d channels", k, C);
    }
  mr_pil_fini(&p.pil);
  free(scratch);
}

static void npy_pictures_of_any_layout_pass_all_stages(void **state) {
  static const int channels[] = {1, 3, 4};
  for (int k = 0; k < 7; k++) {
    int C = k == 6 ? 1 : channels[k / 2];
    bool hwc = k % 2 || k == 6;
    uint8_t *all = write_pair(C, hwc, k == 6 ? 3 : 4);
    run_graph(
        "shuffle shuffle=false seed=-1 ! flip p=1 ! resized-crop size=12 scale=1:1 "
        "ratio=0.01:100 ! normalize mean=0.25 std=0.3");
    assert_int_equal(batch_spec.field->ndim, 3);
    assert_int_equal(batch_spec.field->layout, MR_LAYOUT_HWC);
    assert_int_equal(batch_spec.field->dim[0], SIZE);
    assert_int_equal(batch_spec.field->dim[1], SIZE);
    assert_int_equal(batch_spec.field->dim[2], C);
    for (int i = 0; i < N; i++)
      expect_picture(all + i * SIDE_H * SIDE_W * C, C, hwc,
                     (const float *)batch_data + i * SIZE * SIZE * C);
    free(all);
  }
}

static void normalize_gives_both_layouts_and_all_types(void **state) {
  static const char *const type[] = {"f32", "bf16", "u8"};
  for (int k = 0; k < 24; k++) {
    int C = (k / 2) % 4 + 1;
    bool in_hwc = k & 1;
    for (int out = 0; out < 2 && C != 2; out++) { /* auto knows no layout of two channels */
      char stages[200];
      uint8_t *all = write_pair(C, in_hwc, 4);
      snprintf(stages, sizeof stages, "normalize std=0.5 layout=%s dtype=%s", out ? "chw" : "hwc",
               type[k / 8]);
      run_graph(stages);
      for (int c = 0; c < C; c++)
        for (int i = 0; i < SIDE_H * SIDE_W; i++) {
          int n = SIDE_H * SIDE_W, at = out ? c * n + i : i * C + c;
          uint8_t x = all[in_hwc ? i * C + c : c * n + i];
          volatile float scaled = (float)x / 255.0f;
          float want = scaled / 0.5f;
          bool same = k / 8 == 0   ? ((const float *)batch_data)[at] == want
                      : k / 8 == 1 ? ((const mr_bf16_t *)batch_data)[at] == mr_bf16_from_f32(want)
                                   : batch_data[at] == x;
          if (!same) fail_msg("%s of %d channels", stages, C);
        }
      free(all);
    }
  }
}

static void settings_that_do_not_fit_the_channels_are_refused(void **state) {
  static const char *const text[][2] = {
      {"normalize preset=cifar10", "preset = cifar10: has 3 channels, and the pictures have 1"},
      {"normalize mean=0.1,0.2,0.3",
       "mean: 3 numbers for pictures of 1 channel, want one for each"},
      {"normalize std=0", "std of channel 0 is 0"}};
  free(write_pair(1, true, 3));
  for (int k = 0; k < 3; k++) {
    mr_registry_t reg = {0};
    char graph[512];
    mr_diag_t d = {0};
    mr_registry_add(&reg, mr_loaders_stages);
    mr_registry_add(&reg, mr_stages_stages);
    mr_registry_add(&reg, mr_sinks_stages);
    mr_graph_t *g = mr_graph_create(&reg);
    snprintf(graph, sizeof graph, "npy %s labels=%s ! %s ! batch 4 ! null", images, labels,
             text[k][0]);
    if (mr_graph_parse(g, graph, NULL, 0, &d) >= 0) mr_graph_settle(g, &d);
    if (!strstr(d.text, text[k][1])) fail_msg("%s: \"%s\"", graph, d.text);
    mr_graph_destroy(g);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(boxes_of_all_channels_and_sizes_are_pillows),
      cmocka_unit_test(the_first_direction_is_that_of_pillow_13),
      cmocka_unit_test(fast_ways_are_the_plain_one_in_both_orders),
      cmocka_unit_test_setup_teardown(npy_pictures_of_any_layout_pass_all_stages, setup, teardown),
      cmocka_unit_test_setup_teardown(normalize_gives_both_layouts_and_all_types, setup, teardown),
      cmocka_unit_test_setup_teardown(settings_that_do_not_fit_the_channels_are_refused, setup,
                                      teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
