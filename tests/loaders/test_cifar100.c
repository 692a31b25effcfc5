#include <sys/stat.h>
#include <unistd.h>

#include "pipeline/stage_source.h"
#include "tests/stage.h"

extern const mr_stage_def_t mr_stage_cifar100;

enum { TRAIN = 50, TEST = 10, RECORD = 3074 };

static char folder[64], setting[96];

static void path_of(char *path, const char *name) { sprintf(path, "%s/%s", folder, name); }

static int coarse(int id) { return id % 20; }
static int fine(int id) { return id * 7 % 100; }
static uint8_t pixel(int id, int k) { return (uint8_t)(id * 11 + k * 7); }

/* Records of ids [first, first+n), with the labels of record `bad` replaced if there is one. */
static void write_records(const char *name, int first, int n, int bad, int c, int f) {
  char path[128];
  static uint8_t data[TRAIN * RECORD];
  for (int i = 0; i < n; i++) {
    uint8_t *r = data + i * RECORD;
    r[0] = (uint8_t)(i == bad ? c : coarse(first + i));
    r[1] = (uint8_t)(i == bad ? f : fine(first + i));
    for (int k = 0; k < 3072; k++) r[2 + k] = pixel(first + i, k);
  }
  path_of(path, name);
  FILE *o = fopen(path, "wb");
  assert_non_null(o);
  assert_int_equal(fwrite(data, RECORD, (size_t)n, o), n);
  assert_int_equal(fclose(o), 0);
}

static int make_folder(void **state) {
  strcpy(folder, "/tmp/millrace-cifar100-XXXXXX");
  if (!mkdtemp(folder)) return -1;
  sprintf(setting, "path=%s", folder);
  write_records("train.bin", 0, TRAIN, -1, 0, 0);
  write_records("test.bin", TRAIN, TEST, -1, 0, 0);
  return 0;
}

static int remove_folder(void **state) {
  static const char *const name[] = {"train.bin", "test.bin", "fine_label_names.txt"};
  char path[128];
  for (int i = 0; i < 3; i++) path_of(path, name[i]), unlink(path);
  return rmdir(folder);
}

static void check_split(const char *split, const char *labels, const char *memory, int want,
                        uint8_t *seen) {
  hand_t h;
  if (hand_open(&h, &mr_stage_cifar100, NULL,
                HAND_SETTINGS(setting, split, labels, memory, "records=50", "holdout=12")) < 0)
    fail_msg("%s", h.diag.text);
  assert_int_equal(h.s.out_spec[0].n_records, want);
  assert_int_equal(h.s.out_spec[0].dataset->n_classes, strstr(labels, "fine") ? 100 : 20);
  for (int64_t i = 0; i < want; i++) {
    hand_rec_t r;
    assert_int_equal(hand_fetch(&h, 0, i, &r), MR_OK);
    int id = (int)r.rec.key;
    assert_true(id < TRAIN + TEST);
    assert_int_equal(seen[id]++, 0);
    assert_int_equal(hand_label(&r), strstr(labels, "fine") ? fine(id) : coarse(id));
    for (int k = 0; k < 3072; k++) assert_int_equal(hand_image(&r)[k], pixel(id, k));
  }
  hand_close(&h);
}

static void splits_are_disjoint_and_whole_with_both_labels_kept_or_not(void **state) {
  static const char *const labels[] = {"labels=fine", "labels=coarse"};
  static const char *const memory[] = {"memory=-1", "memory=0"};
  for (int i = 0; i < 4; i++) {
    uint8_t seen[TRAIN + TEST] = {0};
    check_split("split=train", labels[i / 2], memory[i % 2], TRAIN - 12, seen);
    check_split("split=valid", labels[i / 2], memory[i % 2], 12, seen);
    check_split("split=test", labels[i / 2], memory[i % 2], TEST, seen);
    for (int k = 0; k < TRAIN + TEST; k++) assert_int_equal(seen[k], 1);
  }
}

static void check_refused(mr_err_t code, const char *piece) {
  hand_t h;
  assert_int_equal(hand_open(&h, &mr_stage_cifar100, NULL,
                             HAND_SETTINGS(setting, "split=all", "records=50", "holdout=0")),
                   code);
  if (!strstr(h.diag.text, piece)) fail_msg("want '%s' in '%s'", piece, h.diag.text);
  hand_close(&h);
}

static void labels_out_of_range_and_wrong_sizes_name_file_and_record(void **state) {
  write_records("train.bin", 0, TRAIN, 9, 20, 3);
  check_refused(MR_ERR_DATA, "train.bin: labels 20 and 3 of record 9, want [0,19] and [0,99]");
  write_records("train.bin", 0, TRAIN, 31, 2, 100);
  check_refused(MR_ERR_DATA, "train.bin: labels 2 and 100 of record 31");
  write_records("train.bin", 0, TRAIN - 1, -1, 0, 0);
  check_refused(MR_ERR_DATA, "train.bin: 150626 bytes, want 153700 (50 records of 3074)");
  write_records("train.bin", 0, TRAIN, -1, 0, 0);
}

static void class_names_are_the_official_ones_or_those_of_the_file(void **state) {
  hand_t h;
  char path[128];
  const char *const *settings = HAND_SETTINGS(setting, "labels=fine", "records=50", "holdout=12");
  assert_int_equal(hand_open(&h, &mr_stage_cifar100, NULL, settings), MR_OK);
  assert_string_equal(h.s.out_spec[0].dataset->class_name[0], "apple");
  assert_string_equal(h.s.out_spec[0].dataset->class_name[99], "worm");
  hand_close(&h);
  path_of(path, "fine_label_names.txt");
  FILE *o = fopen(path, "w");
  for (int i = 0; i < 100; i++) fprintf(o, "class-%d\n", i);
  fclose(o);
  assert_int_equal(hand_open(&h, &mr_stage_cifar100, NULL, settings), MR_OK);
  assert_string_equal(h.s.out_spec[0].dataset->class_name[99], "class-99");
  hand_close(&h);
  assert_int_equal(truncate(path, 100), 0);
  assert_int_equal(hand_open(&h, &mr_stage_cifar100, NULL, settings), MR_ERR_DATA);
  assert_non_null(strstr(h.diag.text, "fine_label_names.txt: want the names of 100 classes"));
  hand_close(&h);
  unlink(path);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(splits_are_disjoint_and_whole_with_both_labels_kept_or_not),
      cmocka_unit_test(labels_out_of_range_and_wrong_sizes_name_file_and_record),
      cmocka_unit_test(class_names_are_the_official_ones_or_those_of_the_file),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
