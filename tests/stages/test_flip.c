#include "pipeline/stage_map.h"
#include "tests/stage.h"

extern const mr_stage_def_t mr_stage_flip, mr_stage_resized_crop, mr_stage_normalize;

static mr_spec_t pictures(int64_t H, int64_t W) {
  return (mr_spec_t){
      .flow = MR_FLOW_RECORDS,
      .n_fields = 2,
      .field =
          {{.name = "image", .dtype = MR_U8, .layout = MR_LAYOUT_CHW, .ndim = 3, .dim = {3, H, W}},
           mr_field_of_label(0)},
      .n_records = 10,
      .n_epochs = 1,
      .seeded = true};
}

static void fill(uint8_t *data, int n) {
  uint32_t seed = 5;
  for (int k = 0; k < n; k++) seed = seed * 1664525u + 1013904223u, data[k] = (uint8_t)(seed >> 24);
}

/* Pictures of CIFAR's width and of others, mirrored in about half of the draws. */
static void a_flip_mirrors_every_row_or_keeps_the_picture(void **state) {
  static const int width[] = {32, 7, 100};
  for (int k = 0; k < 3; k++) {
    int W = width[k], n = 3 * 32 * W, turned = 0;
    uint8_t *src = malloc((size_t)n), *dst = malloc((size_t)n);
    fill(src, n);
    hand_t h;
    mr_spec_t in = pictures(32, W);
    assert_int_equal(hand_open(&h, &mr_stage_flip, &in, HAND_SETTINGS("p=0.5")), MR_OK);
    for (uint64_t key = 0; key < 1000; key++) {
      mr_philox_t g, same;
      mr_philox_init(&g, key, 0), mr_philox_init(&same, key, 0);
      mr_rec_t a = HAND_REC(src, .rng = &g), b = HAND_REC(dst, .rng = &g);
      assert_int_equal(mr_stage_flip.map->run(&h.s, &a, &b), MR_OK);
      bool turn = mr_philox_random(&same) < 0.5;
      assert_int_equal(g.at, same.at); /* one draw, taken whatever comes of it */
      assert_int_equal(b.field->data == src, !turn);
      mr_rec_t note = {0};
      mr_draw_note(&note, turn);
      assert_true(b.draw == note.draw);
      for (int i = 0; turn && i < n; i++) assert_int_equal(dst[i], src[i / W * W + W - 1 - i % W]);
      turned += turn;
    }
    assert_true(turned > 440 && turned < 560);
    hand_close(&h);
    free(src), free(dst);
  }
}

/* Of every small width; the bytes behind the picture stay as they are. */
static void interleaved_pixels_are_mirrored_whole(void **state) {
  enum { H = 3, WIDTHS = 70, GUARD = 16 };
  uint8_t src[3 * H * WIDTHS + GUARD], dst[sizeof src];
  fill(src, sizeof src);
  for (int C = 1; C <= 4; C++)
    for (int W = 1; W < WIDTHS * 3 / 4; W++) {
      hand_t h;
      int n = H * W * C;
      mr_spec_t in = pictures(H, W);
      in.field[0].layout = MR_LAYOUT_HWC;
      in.field[0].dim[0] = H, in.field[0].dim[1] = W, in.field[0].dim[2] = C;
      assert_int_equal(hand_open(&h, &mr_stage_flip, &in, HAND_SETTINGS("p=1")), MR_OK);
      memset(dst, 99, sizeof dst);
      mr_rec_t a = HAND_REC(src), b = HAND_REC(dst);
      assert_int_equal(mr_stage_flip.map->run(&h.s, &a, &b), MR_OK);
      for (int i = 0; i < n; i++) {
        int y = i / C / W, x = i / C % W;
        assert_int_equal(dst[i], src[((y + 1) * W - 1 - x) * C + i % C]);
      }
      for (int i = n; i < n + GUARD; i++) assert_int_equal(dst[i], 99);
      hand_close(&h);
    }
}

static void stages_that_draw_are_refused_for_records_without_a_generator(void **state) {
  static const mr_stage_def_t *const def[] = {&mr_stage_flip, &mr_stage_resized_crop};
  static const char *const advice[] = {"set p=0 or p=1", "set scale=1:1"};
  for (int k = 0; k < 2; k++) {
    hand_t h;
    mr_spec_t in = pictures(32, 32);
    in.seeded = false;
    assert_int_equal(hand_plan(&h, def[k], &in, NULL), MR_ERR_CONFIG);
    assert_non_null(strstr(h.diag.text, "no generator"));
    assert_non_null(strstr(h.diag.text, "put a stage that gives them one before this stage"));
    assert_non_null(strstr(h.diag.text, advice[k]));
    hand_close(&h);
  }
}

/* The record goes through the stage without a generator; what comes out, src or dst. */
static const uint8_t *undrawn(const mr_stage_def_t *def, mr_spec_t in, const char *setting,
                              uint8_t *src, uint8_t *dst) {
  hand_t h;
  in.seeded = false;
  assert_int_equal(hand_open(&h, def, &in, HAND_SETTINGS(setting)), MR_OK);
  mr_rec_t a = HAND_REC(src), b = HAND_REC(dst);
  assert_int_equal(def->map->run(&h.s, &a, &b), MR_OK);
  assert_int_equal(b.draw, 0);
  hand_close(&h);
  return b.field->data;
}

static void settings_that_leave_nothing_to_draw_need_no_generator(void **state) {
  uint8_t src[3072], dst[3072], box[3072];
  fill(src, 3072);
  mr_spec_t square = pictures(32, 32);
  assert_ptr_equal(undrawn(&mr_stage_flip, square, "p=0", src, dst), src);
  assert_ptr_equal(undrawn(&mr_stage_flip, square, "p=1", src, dst), dst);
  for (int i = 0; i < 3072; i++) assert_int_equal(dst[i], src[i / 32 * 32 + 31 - i % 32]);
  assert_ptr_equal(undrawn(&mr_stage_resized_crop, square, "scale=1:1", src, dst), src);

  /* Twice as high as wide: too high for the ratios, and with a generator the same comes out. */
  mr_spec_t high = pictures(32, 16);
  assert_ptr_equal(undrawn(&mr_stage_resized_crop, high, "scale=1:1", src, dst), dst);
  hand_t h;
  mr_philox_t g;
  mr_philox_init(&g, 3, 0);
  mr_rec_t a = HAND_REC(src, .rng = &g), b = HAND_REC(box);
  assert_int_equal(hand_open(&h, &mr_stage_resized_crop, &high, HAND_SETTINGS("scale=1:1")), MR_OK);
  assert_int_equal(mr_stage_resized_crop.map->run(&h.s, &a, &b), MR_OK);
  assert_memory_equal(box, dst, sizeof box);
  hand_close(&h);
}

static void other_input_is_refused_by_each_stage(void **state) {
  static const mr_stage_def_t *const def[] = {&mr_stage_flip, &mr_stage_resized_crop,
                                              &mr_stage_normalize};
  for (int k = 0; k < 3; k++) {
    hand_t h;
    mr_spec_t in = pictures(32, 32);
    in.field->dtype = MR_F32;
    assert_int_equal(hand_plan(&h, def[k], &in, NULL), MR_ERR_SHAPE);
    assert_true(strlen(h.diag.text) > 10);
    hand_close(&h);
    in = pictures(32, 32), in.field->layout = MR_LAYOUT_NONE;
    assert_int_equal(hand_plan(&h, def[k], &in, NULL), MR_ERR_SHAPE);
    hand_close(&h);
  }
}

static void settings_out_of_range_are_refused(void **state) {
  hand_t h;
  mr_spec_t in = pictures(32, 32);
  assert_int_equal(hand_plan(&h, &mr_stage_flip, &in, HAND_SETTINGS("p=1.5")), MR_ERR_CONFIG);
  hand_close(&h);
  assert_int_equal(hand_plan(&h, &mr_stage_resized_crop, &in, HAND_SETTINGS("scale=0:1")),
                   MR_ERR_CONFIG);
  hand_close(&h);
  assert_int_equal(hand_plan(&h, &mr_stage_resized_crop, &in, HAND_SETTINGS("ratio=1.1:0.9")),
                   MR_ERR_CONFIG);
  hand_close(&h);
  assert_int_equal(hand_plan(&h, &mr_stage_normalize, &in, HAND_SETTINGS("std=0.2,0,0.2")),
                   MR_ERR_CONFIG);
  assert_string_equal(h.diag.text, "normalize: std of channel 1 is 0, want more than 0");
  hand_close(&h);
}

static void normalize_settles_hwc_or_chw_floats(void **state) {
  hand_t h;
  mr_spec_t in = pictures(32, 16);
  assert_int_equal(hand_plan(&h, &mr_stage_normalize, &in, HAND_SETTINGS("preset=cifar10")), MR_OK);
  const mr_field_t *o = h.s.out_spec[0].field;
  assert_true(o->dtype == MR_F32 && o->layout == MR_LAYOUT_HWC);
  assert_true(o->dim[0] == 32 && o->dim[1] == 16 && o->dim[2] == 3);
  hand_close(&h);
  assert_int_equal(hand_plan(&h, &mr_stage_normalize, &in, HAND_SETTINGS("layout=chw")), MR_OK);
  assert_true(o->layout == MR_LAYOUT_CHW && o->dim[0] == 3 && o->dim[1] == 32);
  hand_close(&h);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_flip_mirrors_every_row_or_keeps_the_picture),
      cmocka_unit_test(interleaved_pixels_are_mirrored_whole),
      cmocka_unit_test(stages_that_draw_are_refused_for_records_without_a_generator),
      cmocka_unit_test(settings_that_leave_nothing_to_draw_need_no_generator),
      cmocka_unit_test(other_input_is_refused_by_each_stage),
      cmocka_unit_test(settings_out_of_range_are_refused),
      cmocka_unit_test(normalize_settles_hwc_or_chw_floats),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
