#include <sys/stat.h>
#include <unistd.h>

#include "pipeline/stage_source.h"
#include "tests/stage.h"

extern const mr_stage_def_t mr_stage_cifar10;

/* A small official layout: 20 records a file, pixels made of file and record. */
enum { RECORDS = 20, RECORD = 3073, FILES = 6 };

static char folder[64], setting[96];
static const char *const file_name[FILES] = {"data_batch_1.bin", "data_batch_2.bin",
                                             "data_batch_3.bin", "data_batch_4.bin",
                                             "data_batch_5.bin", "test_batch.bin"};

static void path_of(char *path, const char *name) { sprintf(path, "%s/%s", folder, name); }

static void write_bytes(const char *name, const void *data, size_t n) {
  char path[128];
  path_of(path, name);
  FILE *o = fopen(path, "wb");
  assert_non_null(o);
  assert_int_equal(fwrite(data, 1, n, o), n);
  assert_int_equal(fclose(o), 0);
}

static uint8_t pixel(int file, int record, int k) {
  return (uint8_t)(file * 37 + record * 11 + k * 7);
}

static void fill_file(int file, uint8_t *data) {
  for (int i = 0; i < RECORDS; i++) {
    data[i * RECORD] = (uint8_t)((file + i) % 10);
    for (int k = 0; k < 3072; k++) data[i * RECORD + 1 + k] = pixel(file, i, k);
  }
}

static void write_file(int file) {
  static uint8_t data[RECORDS * RECORD];
  fill_file(file, data);
  write_bytes(file_name[file], data, sizeof data);
}

static int make_folder(void **state) {
  strcpy(folder, "/tmp/millrace-cifar-XXXXXX");
  if (!mkdtemp(folder)) return -1;
  sprintf(setting, "path=%s", folder);
  for (int f = 0; f < FILES; f++) write_file(f);
  return 0;
}

static int remove_folder(void **state) {
  char path[128];
  for (int f = 0; f < FILES; f++) path_of(path, file_name[f]), unlink(path);
  path_of(path, "batches.meta.txt"), unlink(path);
  return rmdir(folder);
}

/* Fetches all records of a split and checks label, id and pixels of each; marks seen ids. */
static void check_split(const char *split, const char *memory, int want, uint8_t *seen) {
  hand_t h;
  if (hand_open(&h, &mr_stage_cifar10, NULL,
                HAND_SETTINGS(setting, split, memory, "records=20", "holdout=30")) < 0)
    fail_msg("%s", h.diag.text);
  assert_int_equal(h.s.out_spec[0].n_records, want);
  for (int64_t at = 0; at < want; at += 7) {
    int64_t index[7];
    hand_rec_t kept[7];
    mr_rec_t r[7];
    int n = want - at < 7 ? (int)(want - at) : 7;
    for (int i = 0; i < n; i++) index[i] = at + i, r[i] = *hand_rec(&kept[i], &h.s);
    assert_int_equal(mr_stage_cifar10.source->fetch(&h.s, (int)(at / 7 % 3), index, n, r), MR_OK);
    for (int i = 0; i < n; i++) {
      int file = (int)(r[i].key / 10000), record = (int)(r[i].key % 10000);
      assert_true(file < FILES && record < RECORDS);
      assert_int_equal(seen[file * RECORDS + record]++, 0);
      assert_int_equal(hand_label(&kept[i]), (file + record) % 10);
      for (int k = 0; k < 3072; k++)
        assert_int_equal(hand_image(&kept[i])[k], pixel(file, record, k));
    }
  }
  hand_close(&h);
}

static void splits_are_disjoint_and_cover_all(const char *memory) {
  uint8_t seen[FILES * RECORDS] = {0}, all[FILES * RECORDS] = {0};
  check_split("split=train", memory, 70, seen);
  check_split("split=valid", memory, 30, seen);
  check_split("split=test", memory, 20, seen);
  for (int i = 0; i < FILES * RECORDS; i++) assert_int_equal(seen[i], 1);
  check_split("split=all", memory, 100, all);
}

static void resident_splits_are_disjoint_and_whole(void **state) {
  splits_are_disjoint_and_cover_all("memory=100000000");
}

/* More records a file than pass through the loading window at once, and no whole number of
   windows: each must still end up at its index. */
static void files_of_several_windows_are_kept_in_order(void **state) {
  enum { MANY = 6001 };
  char kept[sizeof folder];
  strcpy(kept, folder);
  assert_int_equal(make_folder(NULL), 0);
  uint8_t *data = malloc((size_t)MANY * RECORD);
  for (int f = 0; f < FILES - 1; f++) {
    for (int i = 0; i < MANY; i++) {
      data[(size_t)i * RECORD] = (uint8_t)((f + i) % 10);
      for (int k = 0; k < 3072; k++) data[(size_t)i * RECORD + 1 + (size_t)k] = pixel(f, i, k);
    }
    write_bytes(file_name[f], data, (size_t)MANY * RECORD);
  }
  free(data);
  hand_t h;
  if (hand_open(&h, &mr_stage_cifar10, NULL,
                HAND_SETTINGS(setting, "split=train", "records=6001", "holdout=5")) < 0)
    fail_msg("%s", h.diag.text);
  for (int64_t at = 0; at < 5 * MANY - 5; at++) {
    hand_rec_t r;
    assert_int_equal(hand_fetch(&h, 0, at, &r), MR_OK);
    int file = (int)(r.rec.key / 10000), record = (int)(r.rec.key % 10000);
    const uint8_t *got = hand_image(&r);
    assert_int_equal(hand_label(&r), (file + record) % 10);
    assert_int_equal(got[0], pixel(file, record, 0));
    assert_int_equal(got[3071], pixel(file, record, 3071));
  }
  hand_close(&h);
  assert_int_equal(remove_folder(NULL), 0);
  strcpy(folder, kept);
  sprintf(setting, "path=%s", folder);
}

static void bursts_read_from_disk_give_the_same(void **state) {
  splits_are_disjoint_and_cover_all("memory=0");
}

static void pread_gives_the_same(void **state) {
  setenv("MILLRACE_IO", "pread", 1);
  splits_are_disjoint_and_cover_all("memory=0");
  splits_are_disjoint_and_cover_all("memory=100000000");
  unsetenv("MILLRACE_IO");
}

static void check_refused(const char *memory, mr_err_t code, const char *piece) {
  hand_t h;
  mr_err_t e = hand_open(&h, &mr_stage_cifar10, NULL,
                         HAND_SETTINGS(setting, memory, "records=20", "holdout=30"));
  assert_int_equal(e, code);
  if (!strstr(h.diag.text, piece)) fail_msg("want '%s' in '%s'", piece, h.diag.text);
  hand_close(&h);
}

static void wrong_sizes_name_the_file_and_both_sizes(void **state) {
  static uint8_t data[RECORDS * RECORD + 1];
  fill_file(2, data);
  for (int k = 0; k < 2; k++) {
    const char *memory = k ? "memory=0" : "memory=100000000";
    write_bytes(file_name[2], data, RECORDS * RECORD - 100);
    check_refused(memory, MR_ERR_DATA,
                  "data_batch_3.bin: 61360 bytes, want 61460 (20 records of 3073)");
    write_bytes(file_name[2], data, RECORDS * RECORD + 1);
    check_refused(memory, MR_ERR_DATA, "data_batch_3.bin: 61461 bytes, want 61460");
    write_bytes(file_name[2], data, 0);
    check_refused(memory, MR_ERR_DATA, "data_batch_3.bin: 0 bytes, want 61460");
  }
  write_file(2);
}

static void a_label_above_9_is_refused_at_open_when_resident(void **state) {
  static uint8_t data[RECORDS * RECORD];
  fill_file(4, data);
  data[7 * RECORD] = 200;
  write_bytes(file_name[4], data, sizeof data);
  check_refused("memory=100000000", MR_ERR_DATA,
                "data_batch_5.bin: label 200 of record 7, want [0,9]");
  write_file(4);
}

/* However the records are read. */
static void a_label_above_9_is_refused_at_open_when_records_are_read_as_due(void **state) {
  static const char *const way[] = {"auto", "mmap", "pread", "uring", "direct"};
  static uint8_t data[RECORDS * RECORD];
  fill_file(4, data);
  data[7 * RECORD] = 10;
  write_bytes(file_name[4], data, sizeof data);
  for (int k = 0; k < 5; k++) {
    char backend[32];
    hand_t h;
    snprintf(backend, sizeof backend, "backend=%s", way[k]);
    mr_err_t e = hand_open(
        &h, &mr_stage_cifar10, NULL,
        HAND_SETTINGS(setting, "split=all", "memory=0", "records=20", "holdout=30", backend));
    if (e != MR_ERR_UNAVAILABLE) {
      assert_int_equal(e, MR_ERR_DATA);
      assert_non_null(strstr(h.diag.text, "data_batch_5.bin: label 10 of record 7, want [0,9]"));
    }
    hand_close(&h);
  }
  write_file(4);
}

static void a_file_cut_short_while_running_is_noticed(void **state) {
  char path[128];
  path_of(path, file_name[1]);
  hand_t h;
  assert_int_equal(
      hand_open(&h, &mr_stage_cifar10, NULL,
                HAND_SETTINGS(setting, "split=all", "memory=0", "records=20", "holdout=30")),
      MR_OK);
  assert_int_equal(truncate(path, 5 * RECORD), 0);
  hand_rec_t r;
  assert_int_equal(hand_fetch(&h, 0, 25, &r), MR_ERR_DATA);
  assert_non_null(
      strstr(h.diag.text, "data_batch_2.bin: ends at byte 15365, want 3073 bytes more"));
  hand_close(&h);
  write_file(1);
}

static void missing_files_and_folders_are_named(void **state) {
  char path[128];
  path_of(path, file_name[2]);
  unlink(path);
  check_refused("memory=0", MR_ERR_IO,
                "data_batch_3.bin: cannot be opened: No such file or directory");
  write_file(2);
  hand_t h;
  assert_int_equal(hand_open(&h, &mr_stage_cifar10, NULL, HAND_SETTINGS("path=/nonexistent/x")),
                   MR_ERR_IO);
  assert_string_equal(
      h.diag.text,
      "cifar10: path=/nonexistent/x: the folder cannot be read: No such file or directory");
  hand_close(&h);
}

static char heard[400];

static void hear_notice(void *arg, const char *text) { snprintf(heard, sizeof heard, "%s", text); }

static void class_names_come_from_the_meta_file(void **state) {
  hand_t h;
  assert_int_equal(
      hand_open(&h, &mr_stage_cifar10, NULL, HAND_SETTINGS(setting, "records=20", "holdout=30")),
      MR_OK);
  assert_string_equal(h.s.out_spec[0].dataset->class_name[9], "truck");
  hand_close(&h);
  const char *ten = "a\nb\nc\nd\ne\nf\ng\nh\ni\nlorry\n\n";
  write_bytes("batches.meta.txt", ten, strlen(ten));
  assert_int_equal(
      hand_open(&h, &mr_stage_cifar10, NULL, HAND_SETTINGS(setting, "records=20", "holdout=30")),
      MR_OK);
  assert_string_equal(h.s.out_spec[0].dataset->class_name[9], "lorry");
  hand_close(&h);
  const char *forms = "a\n\xC3\xA9\nc\ne\xCC\x81\ne\nf\ng\nh\ni\nj\n";
  write_bytes("batches.meta.txt", forms, strlen(forms));
  *heard = 0;
  mr_notice_to(hear_notice, NULL);
  assert_int_equal(hand_plan(&h, &mr_stage_cifar10, NULL, HAND_SETTINGS(setting)), MR_OK);
  mr_notice_to(NULL, NULL);
  assert_non_null(strstr(heard, "batches.meta.txt: classes 1 and 3 are one name, "));
  hand_close(&h);
  write_bytes("batches.meta.txt", ten, 10);
  check_refused("memory=0", MR_ERR_DATA,
                "batches.meta.txt: want the names of 10 classes, one a line");
  write_bytes("batches.meta.txt", "a\nb\nc\nd\ne\nf\ng\nh\ni\nj\0k\n", 22);
  check_refused("memory=0", MR_ERR_DATA, "batches.meta.txt");
  char path[128];
  path_of(path, "batches.meta.txt"), unlink(path);
}

static void settings_that_leave_no_records_are_refused(void **state) {
  hand_t h;
  assert_int_equal(
      hand_plan(&h, &mr_stage_cifar10, NULL, HAND_SETTINGS("records=20", "holdout=100")),
      MR_ERR_CONFIG);
  assert_string_equal(h.diag.text, "cifar10: holdout=100 records, want [0,99]");
  hand_close(&h);
  assert_int_equal(
      hand_plan(&h, &mr_stage_cifar10, NULL, HAND_SETTINGS("split=valid", "holdout=0")),
      MR_ERR_CONFIG);
  hand_close(&h);
  assert_int_equal(hand_plan(&h, &mr_stage_cifar10, NULL, HAND_SETTINGS("split=other")),
                   MR_ERR_CONFIG);
  hand_close(&h);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(resident_splits_are_disjoint_and_whole),
      cmocka_unit_test(bursts_read_from_disk_give_the_same),
      cmocka_unit_test(files_of_several_windows_are_kept_in_order),
      cmocka_unit_test(pread_gives_the_same),
      cmocka_unit_test(wrong_sizes_name_the_file_and_both_sizes),
      cmocka_unit_test(a_label_above_9_is_refused_at_open_when_resident),
      cmocka_unit_test(a_label_above_9_is_refused_at_open_when_records_are_read_as_due),
      cmocka_unit_test(a_file_cut_short_while_running_is_noticed),
      cmocka_unit_test(missing_files_and_folders_are_named),
      cmocka_unit_test(class_names_come_from_the_meta_file),
      cmocka_unit_test(settings_that_leave_no_records_are_refused),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
