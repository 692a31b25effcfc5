#include <unistd.h>

#include "pipeline/stage_source.h"
#include "tests/stage.h"

extern const mr_stage_def_t mr_stage_npy;

enum { N = 40, H = 5, W = 7, C = 3, REC = H * W * C };

static char folder[64], image_file[96], label_file[96], images[104], labels[104];

/* A header as NumPy writes it (version 1, padded to 64), then the data. */
static void write_npy(const char *path, const char *dict, const void *data, size_t n) {
  char head[256] = "\x93NUMPY\x01";
  size_t len = strlen(dict), all = (10 + len + 1 + 63) / 64 * 64;
  head[8] = (char)(all - 10), head[9] = 0;
  memset(head + 10, ' ', all - 10);
  memcpy(head + 10, dict, len);
  head[all - 1] = '\n';
  FILE *o = fopen(path, "wb");
  assert_non_null(o);
  assert_int_equal(fwrite(head, 1, all, o), all);
  assert_int_equal(fwrite(data, 1, n, o), n);
  assert_int_equal(fclose(o), 0);
}

static uint8_t pixel(int64_t i, int k) { return (uint8_t)(i * 31 + k * 3); }

static void write_images(const char *dict) {
  static uint8_t data[N * REC];
  for (int i = 0; i < N * REC; i++) data[i] = pixel(i / REC, i % REC);
  write_npy(image_file, dict, data, sizeof data);
}

#define U8_IMAGES "{'descr': '|u1', 'fortran_order': False, 'shape': (40, 5, 7, 3), }"

static void write_labels(int64_t bad) {
  int64_t data[N];
  for (int i = 0; i < N; i++) data[i] = i % 10;
  data[17] = bad;
  write_npy(label_file, "{'descr': '<i8', 'fortran_order': False, 'shape': (40,), }", data,
            sizeof data);
}

static int make_folder(void **state) {
  strcpy(folder, "/tmp/millrace-npy-XXXXXX");
  if (!mkdtemp(folder)) return -1;
  sprintf(image_file, "%s/images.npy", folder), sprintf(images, "images=%s", image_file);
  sprintf(label_file, "%s/labels.npy", folder), sprintf(labels, "labels=%s", label_file);
  write_images(U8_IMAGES);
  write_labels(7);
  return 0;
}

static int remove_folder(void **state) {
  unlink(image_file), unlink(label_file);
  return rmdir(folder);
}

static void records_and_labels_of_both_splits_come_as_written(void **state) {
  static const char *const memory[] = {"memory=-1", "memory=0"};
  for (int m = 0; m < 2; m++) {
    uint8_t seen[N] = {0};
    for (int split = 0; split < 2; split++) {
      hand_t h;
      if (hand_open(&h, &mr_stage_npy, NULL,
                    HAND_SETTINGS(images, labels, memory[m], "holdout=9",
                                  split ? "split=valid" : "split=train")) < 0)
        fail_msg("%s", h.diag.text);
      const mr_spec_t *spec = &h.s.out_spec[0];
      const mr_field_t *image = spec->field;
      assert_int_equal(image->layout, MR_LAYOUT_HWC);
      assert_int_equal(image->ndim, 3);
      assert_int_equal(image->dim[0] * 10000 + image->dim[1] * 100 + image->dim[2], 50703);
      for (int64_t i = 0; i < spec->n_records; i++) {
        hand_rec_t r;
        assert_int_equal(hand_fetch(&h, 0, i, &r), MR_OK);
        uint64_t key = r.rec.key;
        assert_int_equal(seen[key]++, 0);
        assert_int_equal(hand_label(&r), key == 17 ? 7 : key % 10);
        for (int k = 0; k < REC; k++) assert_int_equal(hand_image(&r)[k], pixel((int64_t)key, k));
      }
      hand_close(&h);
    }
    for (int i = 0; i < N; i++) assert_int_equal(seen[i], 1);
  }
}

static void layouts_follow_the_dimensions_or_the_setting(void **state) {
  static const struct {
    const char *shape, *setting;
    mr_layout_t want;
    int ndim;
  } row[] = {{"(40, 3, 5, 7)", "layout=auto", MR_LAYOUT_CHW, 3},
             {"(40, 3, 5, 7)", "layout=none", MR_LAYOUT_NONE, 3},
             {"(40, 5, 7, 3)", "layout=chw", MR_LAYOUT_CHW, 3},
             {"(40, 105)", "layout=auto", MR_LAYOUT_NONE, 1}};
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    char dict[128];
    hand_t h;
    sprintf(dict, "{'descr': '|u1', 'fortran_order': False, 'shape': %s, }", row[i].shape);
    write_images(dict);
    if (hand_plan(&h, &mr_stage_npy, NULL, HAND_SETTINGS(images, labels, row[i].setting)) < 0)
      fail_msg("%s", h.diag.text);
    assert_int_equal(h.s.out_spec[0].field->layout, row[i].want);
    assert_int_equal(h.s.out_spec[0].field->ndim, row[i].ndim);
    assert_int_equal(h.s.out_spec[0].n_records, N);
    hand_close(&h);
  }
  write_images(U8_IMAGES);
}

/* Elements 0 to 4 of each of three rows, whatever the file's order and width. */
static void check_converted(const char *dict, const void *data, size_t n) {
  char one[120], path[80];
  hand_t h;
  snprintf(path, sizeof path, "%s/other.npy", folder);
  snprintf(one, sizeof one, "fields=x:%s", path);
  write_npy(path, dict, data, n);
  if (hand_open(&h, &mr_stage_npy, NULL, HAND_SETTINGS(one)) < 0) fail_msg("%s", h.diag.text);
  assert_int_equal(h.s.out_spec[0].n_records, 3);
  const mr_field_t *f = h.s.out_spec[0].field;
  for (int64_t i = 0; i < 3; i++) {
    mr_value_t value[MR_FIELDS_MAX] = {0};
    mr_rec_t rec = {.field = value};
    if (h.s.def->source->fetch(&h.s, 0, &i, 1, &rec) < 0) fail_msg("%s", h.diag.text);
    for (int k = 0; k < 5; k++) {
      double v = f->dtype == MR_F32 ? (double)((float *)rec.field[0].data)[k]
                                    : (double)((int32_t *)rec.field[0].data)[k];
      if (v != (double)(10 * i + k - 2)) fail_msg("%s: row %d: %g", dict, (int)i, v);
    }
  }
  hand_close(&h);
  unlink(path);
}

static void arrays_of_other_orders_and_widths_are_converted(void **state) {
  uint8_t narrow[15], big[60];
  float columns[15];
  for (int i = 0; i < 3; i++)
    for (int k = 0; k < 5; k++) {
      float v = (float)(10 * i + k - 2);
      uint32_t bits;
      memcpy(&bits, &v, 4);
      narrow[5 * i + k] = (uint8_t)(10 * i + k - 2), columns[3 * k + i] = v;
      for (int b = 0; b < 4; b++) big[4 * (5 * i + k) + b] = (uint8_t)(bits >> (24 - 8 * b));
    }
  check_converted("{'descr': '|i1', 'fortran_order': False, 'shape': (3, 5), }", narrow, 15);
  check_converted("{'descr': '>f4', 'fortran_order': False, 'shape': (3, 5), }", big, 60);
  check_converted("{'descr': '<f4', 'fortran_order': True, 'shape': (3, 5), }", columns, 60);
}

static void check_refused(const char *piece) {
  hand_t h;
  assert_true(hand_open(&h, &mr_stage_npy, NULL, HAND_SETTINGS(images, labels)) < 0);
  if (!strstr(h.diag.text, piece)) fail_msg("want '%s' in '%s'", piece, h.diag.text);
  hand_close(&h);
}

static void headers_that_lie_are_refused_by_name(void **state) {
  static const struct {
    const char *dict, *piece;
  } row[] = {
      {"{'descr': '>f4', 'fortran_order': False, 'shape': (40, 5, 7, 3), }",
       "its shape wants 16800"},
      {"{'descr': '<i2', 'fortran_order': False, 'shape': (40, 5, 7, 3), }",
       "its shape wants 8400"},
      {"{'descr': '<c8', 'fortran_order': False, 'shape': (525,), }", "its type is '<c8'"},
      {"{'descr': '?i2', 'fortran_order': False, 'shape': (2100,), }", "its type is '?i2'"},
      {"{'descr': [('a\33[2J', '<f4')], 'fortran_order': False, 'shape': (40,), }",
       "its type is [('a?[2J'"},
      {"{'descr': '<f8', 'fortran_order': False, 'shape': (40, 5, 7), }", "its shape wants 11200"},
      {"{'descr': '|O', 'fortran_order': False, 'shape': (40,), }", "its type is '|O'"},
      {"{'descr': '|u1', 'fortran_order': False, 'shape': (40, 5, 7, 4), }",
       "its shape wants 5600"},
      {"{'descr': '|u1', 'fortran_order': False, 'shape': (0, 5, 7, 3), }", "its shape wants 0"},
      {"{'descr': '|u1', 'fortran_order': False, 'shape': (-40, 5, 7, 3), }",
       "its shape is not valid"},
      {"{'descr': '|u1', 'fortran_order': False, 'shape': (4294967296, 4294967296, 16), }",
       "its shape is not valid"},
      {"{'descr': '<f8', 'fortran_order': False, 'shape': (2305843009213693952, 2), }",
       "its shape is not valid"},
      {"{'descr': '|u1', 'fortran_order': False, 'shape': (4200,), }",
       "holds u8[4200], want an array (N, ...)"},
      {"{'descr': '<f8', 'fortran_order': False, 'shape': (525, 1), }", "holds f64[525,1], want"},
      {"{'descr': '|u1', 'fortran_order': False, 'shape': (40, 5", "its shape is not valid"},
      {"{'descr': '|u1', 'shape': (40, 5), }", "does not name descr, fortran_order and shape"},
      {"{'descr': '|u1', 'fortran_order': False, 'shape': (42, 5, 5, 4), }",
       "one for each record of"},
  };
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    write_images(row[i].dict);
    check_refused(row[i].piece);
  }
  FILE *o = fopen(image_file, "wb");
  fwrite("\x93NUMPY\x02\x00\xff\xff\xff\xff", 1, 12, o);
  fclose(o);
  check_refused("a header of 4294967295 bytes does not fit");
  unlink(image_file);
  check_refused("cannot open: No such file");
  write_images(U8_IMAGES);
}

static void a_label_outside_the_classes_names_its_record(void **state) {
  static const int64_t bad[] = {10, -1, INT64_MIN, INT64_MAX};
  for (int i = 0; i < 4; i++) {
    write_labels(bad[i]);
    check_refused("labels.npy: the label of record 17 is not in [0,9], want classes=N");
  }
  write_labels(7);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(records_and_labels_of_both_splits_come_as_written),
      cmocka_unit_test(layouts_follow_the_dimensions_or_the_setting),
      cmocka_unit_test(arrays_of_other_orders_and_widths_are_converted),
      cmocka_unit_test(headers_that_lie_are_refused_by_name),
      cmocka_unit_test(a_label_outside_the_classes_names_its_record),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
