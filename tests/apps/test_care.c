/* Records that are bad or not wanted: what replaces them, what is reported, what does not move. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdbool.h>
#include <sys/stat.h>

#include "base/dataset.h"
#include "base/npy.h"
#include "base/xio.h"
#include "tests/apps/program.h"
#include "tests/needs.h"

enum { RECORD = 3073, PER_FILE = 20, FILES = 5 };

static program_t p;
static char dir[64], quarantine[96], source[160], out[96], labels[96];

/* ---- five small files, and ways to spoil them ---- */

static void path_of(int file, char path[96]) {
  snprintf(path, 96, "%s/data_batch_%d.bin", dir, file + 1);
}

static void write_files(void) {
  for (int f = 0; f < FILES; f++) {
    char path[96];
    static unsigned char bytes[PER_FILE * RECORD];
    for (int i = 0; i < PER_FILE * RECORD; i++) bytes[i] = (unsigned char)(i * 7 + f * 31 + i / 99);
    for (int r = 0; r < PER_FILE; r++) bytes[r * RECORD] = (unsigned char)((r + f) % 10);
    path_of(f, path);
    assert_int_equal(mr_write_file(path, bytes, sizeof bytes, NULL), MR_OK);
  }
  unlink(quarantine);
}

static void spoil_label(int file, int record) {
  char path[96];
  path_of(file, path);
  FILE *f = fopen(path, "r+b");
  fseek(f, record * RECORD, SEEK_SET);
  fputc(77, f);
  fclose(f);
}

static void cut_file(int file, int records, int bytes) {
  char path[96];
  path_of(file, path);
  assert_int_equal(truncate(path, records * RECORD + bytes), 0);
}

static const char *ledger_of(const char *more, const char *batch) {
  static char ledger[17], text[512];
  snprintf(text, sizeof text, "%s %s ! shuffle seed=4 epochs=3 ! flip ! batch 8 %s ! null", source,
           more, batch);
  RUN(&p, "run", text);
  const char *at = strstr(p.out, "ledger ");
  if (p.status || !at) fail_msg("%s: status %d: %s%s", text, p.status, p.out, p.err);
  snprintf(ledger, sizeof ledger, "%.16s", at + 7);
  return ledger;
}

static void refused(const char *more, int status, const char *sentence) {
  char text[512];
  snprintf(text, sizeof text, "%s %s ! shuffle seed=4 epochs=3 ! batch 8 ! null", source, more);
  RUN(&p, "run", text);
  if (p.status != status || !strstr(p.err, sentence))
    fail_msg("%s: status %d: %s, expected %d: %s", text, p.status, p.err, status, sentence);
}

/* ---- bad records ---- */

static void a_bad_record_fails_the_run_unless_on_bad_says_otherwise(void **state) {
  write_files();
  spoil_label(2, 5);
  static const char *const more[] = {"", "memory=0", "skip-records=3", "skip-records=3 memory=0"};
  for (int k = 0; k < 4; k++)
    refused(more[k], 1,
            "data_batch_3.bin: label 77 of record 5, want [0,9]; on-bad=skip-replace or "
            "on-bad=quarantine:N uses another one instead\n");
  refused("on-bad=skip", 2, "on-bad = skip: want fail, skip-replace or quarantine:N");
  refused("on-bad=quarantine:", 2, "want fail, skip-replace or quarantine:N");
  refused("on-bad=quarantine:-1", 2, "want fail, skip-replace or quarantine:N");
}

static void one_bad_record_is_reported_as_one(void **state) {
  char more[160];
  write_files();
  spoil_label(2, 5);
  ledger_of("on-bad=skip-replace skip-records=3", "");
  assert_non_null(strstr(p.out, "cifar10: excluded 3 records, 1 bad record, replaced 3 times\n"));
  spoil_label(2, 6);
  unlink(quarantine);
  snprintf(more, sizeof more, "on-bad=quarantine:1 quarantine=%s", quarantine);
  refused(more, 1, "more than 1 bad record (on-bad): ");
  assert_null(strstr(p.err, "another one instead"));
  unlink(quarantine);
}

/* Bad labels, a file that ends early within a record, one that is empty. */
static void spoil_much(void) {
  write_files();
  spoil_label(0, 0), spoil_label(0, 1), spoil_label(3, 19);
  cut_file(1, 12, 1000);
  cut_file(4, 0, 0);
}

static void replacements_do_not_depend_on_workers_memory_or_backend(void **state) {
  static const char *const how[] = {"memory=0", "memory=0 backend=pread", "memory=0 backend=mmap",
                                    "memory=0 backend=uring"};
  const int n_how = mr_built_in("URING") ? 4 : 3;
  char first[17];
  spoil_much();
  strcpy(first, ledger_of("on-bad=skip-replace", "workers=1"));
  assert_non_null(strstr(p.out, "31 bad records"));
  assert_string_equal(ledger_of("on-bad=skip-replace", "workers=2"), first);
  assert_string_equal(ledger_of("on-bad=skip-replace", "workers=4"), first);
  for (int i = 0; i < n_how; i++) {
    char more[96];
    snprintf(more, sizeof more, "on-bad=skip-replace %s", how[i]);
    assert_string_equal(ledger_of(more, "workers=3"), first);
  }
  assert_string_not_equal(ledger_of("on-bad=skip-replace bad-seed=1", ""), first);
}

static void good_files_give_the_same_order_under_any_policy(void **state) {
  char first[17];
  write_files();
  strcpy(first, ledger_of("", ""));
  assert_string_equal(ledger_of("on-bad=skip-replace", ""), first);
  assert_string_equal(ledger_of("on-bad=skip-replace memory=0", "workers=2"), first);
}

/* Lines of another data set, which a stage of the same name has read, replace nothing here. */
static void lines_of_another_data_set_are_passed_over(void **state) {
  static const char *const line[] = {
      "{\"source\":\"cifar10\",\"index\":3,\"id\":3,\"file\":\"/x/train.bin\",\"offset\":9219,"
      "\"reason\":\"\",\"replacement\":50}\n",
      "{\"source\":\"cifar10\",\"index\":3,\"id\":3,\"file\":\"/x/data_batch_1.bin\","
      "\"offset\":9218,\"reason\":\"\",\"replacement\":50}\n",
      "{\"source\":\"cifar10\",\"index\":3,\"id\":4,\"file\":\"/x/data_batch_1.bin\","
      "\"offset\":9219,\"reason\":\"\",\"replacement\":50}\n",
      "{\"source\":\"cifar10\",\"index\":3,\"id\":3,\"file\":\"/x/data_batch_1.bin\","
      "\"offset\":9219,\"reason\":\"\",\"replacement\":50}\n"};
  char more[160], plain[17];
  write_files();
  strcpy(plain, ledger_of("", ""));
  snprintf(more, sizeof more, "on-bad=quarantine:3 quarantine=%s", quarantine);
  for (int i = 0; i < 4; i++) {
    assert_int_equal(mr_write_file(quarantine, line[i], strlen(line[i]), NULL), MR_OK);
    bool same = !strcmp(ledger_of(more, ""), plain);
    assert_int_equal(same, i < 3); /* the last one is of this data set, in another folder */
  }
  unlink(quarantine);
}

static void the_quarantine_file_names_file_offset_and_reason(void **state) {
  char more[160], again[17];
  void *text;
  size_t n;
  write_files();
  spoil_label(2, 5), spoil_label(0, 7);
  cut_file(4, 19, 10);
  snprintf(more, sizeof more, "on-bad=quarantine:3 quarantine=%s", quarantine);
  strcpy(again, ledger_of(more, "workers=2"));
  assert_int_equal(mr_read_file(quarantine, 1 << 20, &text, &n, NULL), MR_OK);
  int lines = 0;
  for (char *at = text; (at = strchr(at, '\n')); at++) lines++;
  assert_int_equal(lines, 3);
  assert_non_null(strstr(text, "data_batch_3.bin\",\"offset\":15365,\"reason\":\""));
  assert_non_null(strstr(text, "label 77 of record 5, want [0,9]\",\"replacement\":"));
  assert_non_null(strstr(text, "data_batch_1.bin\",\"offset\":21511,"));
  assert_non_null(strstr(text, "data_batch_5.bin\",\"offset\":58387,"));
  assert_non_null(strstr(text, "\"id\":20005,"));
  free(text);
  assert_string_equal(ledger_of(more, "workers=1"), again); /* with what the file remembers */
  unlink(quarantine);
  snprintf(more, sizeof more, "on-bad=quarantine:2 quarantine=%s", quarantine);
  refused(more, 1, "more than 2 bad records (on-bad): ");
  refused("on-bad=quarantine:9 quarantine=/none/there", 1, "quarantine=/none/there: cannot");
}

/* 20 MB of lines of another stage stand before those of this one. */
static void a_quarantine_file_of_any_length_is_read(void **state) {
  enum { OTHERS = 200000 };
  char more[160], again[17];
  write_files();
  spoil_label(2, 5), spoil_label(0, 7);
  FILE *f = fopen(quarantine, "w");
  assert_non_null(f);
  for (int i = 0; i < OTHERS; i++)
    fprintf(
        f,
        "{\"source\":\"elsewhere\",\"index\":%d,\"id\":%d,\"reason\":\"a label out of its range\","
        "\"replacement\":0}\n",
        i, i);
  assert_int_equal(fclose(f), 0);
  snprintf(more, sizeof more, "on-bad=quarantine:2 quarantine=%s", quarantine);
  strcpy(again, ledger_of(more, ""));
  struct stat st;
  assert_int_equal(stat(quarantine, &st), 0);
  assert_true(st.st_size > 1 << 24);
  assert_string_equal(ledger_of(more, ""), again); /* with what the file remembers */
  assert_non_null(strstr(p.out, "2 bad records"));
  unlink(quarantine);
}

static void when_everything_is_bad_the_run_fails(void **state) {
  write_files();
  for (int f = 0; f < FILES; f++) cut_file(f, 0, 0);
  refused("on-bad=skip-replace", 1, "records drawn to replace it");
}

/* ---- skipped records ---- */

typedef struct one {
  mr_npy_t data, label;
  char keys[2048];
} one_t;

static one_t one_batch(const char *more, const char *maps, int step) {
  char text[512], number[16];
  one_t b;
  snprintf(text, sizeof text,
           "%s %s ! shuffle seed=4 epochs=3 ! flip ! resized-crop scale=0.5:1 %s ! "
           "normalize preset=cifar10 ! batch 8 ! null",
           source, more, maps);
  snprintf(number, sizeof number, "%d", step);
  RUN(&p, "batch", text, "--step", number, "--out", out, "--labels", labels);
  if (p.status) fail_msg("%s: %s", text, p.err);
  snprintf(b.keys, sizeof b.keys, "%s", strstr(p.out, "keys"));
  assert_int_equal(mr_npy_load(out, &b.data, NULL), MR_OK);
  assert_int_equal(mr_npy_load(labels, &b.label, NULL), MR_OK);
  return b;
}

static void free_one(one_t *b) { mr_npy_free(&b->data), mr_npy_free(&b->label); }

static unsigned long long key_at(const one_t *b, int i) {
  char *at = (char *)b->keys + 4;
  unsigned long long key = 0;
  for (; i >= 0; i--) key = strtoull(at, &at, 10);
  return key;
}

static bool is_listed(unsigned long long key) { return key == 3 || (key >= 20000 && key <= 20011); }

/* The batches of a run with records 3 and 20000 to 20011 left out beside those of the whole run. */
static int compare(const char *more, const char *maps) {
  int left_out = 0;
  for (int step = 1; step <= 20; step += 3) {
    one_t a = one_batch("", maps, step), b = one_batch(more, maps, step);
    size_t each = a.data.count / a.label.count;
    assert_int_equal(a.label.count, b.label.count);
    for (size_t i = 0; i < a.label.count; i++) {
      const float *x = (float *)a.data.data + i * each, *y = (float *)b.data.data + i * each;
      unsigned long long key = key_at(&a, (int)i);
      bool listed = is_listed(key);
      assert_true(key_at(&b, (int)i) == (key | (listed ? 1ull << 63 : 0)));
      int32_t label = ((int32_t *)a.label.data)[i];
      assert_int_equal(((int32_t *)b.label.data)[i], listed ? MR_LABEL_NONE : label);
      if (!listed) assert_memory_equal(x, y, each * sizeof *x);
      for (size_t k = 0; k < each && listed; k++) assert_true(y[k] == 0);
      left_out += listed;
    }
    free_one(&a), free_one(&b);
  }
  return left_out;
}

static void skipped_records_keep_their_place_and_move_nothing(void **state) {
  write_files();
  assert_in_range(compare("skip-records=3,20000-20011", ""), 5, 60);
}

static void a_skipped_record_need_not_be_readable(void **state) {
  write_files();
  one_t whole = one_batch("", "", 1);
  free_one(&whole);
  spoil_label(0, 3);
  refused("skip-records=4 memory=0", 1, "label 77");
  ledger_of("skip-records=3,20000-20011 memory=0", "workers=2");
  assert_non_null(strstr(p.out, "cifar10: excluded 39 records"));
  ledger_of("skip-records=3", "");
  refused("skip-records=4", 1, "label 77 of record 3");
}

static void the_ledger_tells_that_records_were_left_out(void **state) {
  char first[17], skipped[17];
  write_files();
  strcpy(first, ledger_of("", ""));
  strcpy(skipped, ledger_of("skip-records=3", ""));
  assert_string_not_equal(skipped, first);
  assert_string_equal(ledger_of("skip-records=3 memory=0", "workers=3"), skipped);
  assert_string_equal(ledger_of("skip-records=99", ""), first); /* no such record */
  refused("skip-records=x", 2, "skip-records");
}

static void every_source_of_records_can_leave_some_out(void **state) {
  static const char *const each[] = {"range 40", "synthetic n=40", NULL};
  for (int i = 0; each[i]; i++) {
    char text[256];
    snprintf(text, sizeof text, "%s skip-records=3,10-12 ! shuffle seed=4 ! batch 8 ! null",
             each[i]);
    RUN(&p, "run", text);
    assert_int_equal(p.status, 0);
    assert_non_null(strstr(p.out, "excluded 4 records"));
  }
}

/* The filter looks at each of them, also at those that do not stay. */
static void records_that_only_a_filter_reads_are_not_counted(void **state) {
  RUN(&p, "run", "range 40 skip-records=3,10-12 ! filter modulo=2 ! batch 8 workers=2 ! null");
  assert_int_equal(p.status, 0);
  assert_non_null(strstr(p.out, "range: excluded 2 records"));
}

/* ---- skipped steps ---- */

static void skipped_steps_come_empty_and_move_no_other(void **state) {
  char first[17];
  write_files();
  strcpy(first, ledger_of("", "skip-steps=2,5-7"));
  assert_non_null(strstr(p.out, "39 batches, 268 records"));
  assert_string_equal(ledger_of("", "skip-steps=2,5-7 workers=3"), first);
  assert_string_not_equal(ledger_of("", ""), first);
  one_t a = one_batch("", "", 8), b;
  char text[512];
  snprintf(text, sizeof text,
           "%s ! shuffle seed=4 epochs=3 ! flip ! resized-crop scale=0.5:1 ! normalize "
           "preset=cifar10 ! batch 8 skip-steps=2,5-7 ! null",
           source);
  RUN(&p, "batch", text, "--step", "8", "--out", out);
  assert_int_equal(mr_npy_load(out, &b.data, NULL), MR_OK);
  assert_int_equal(a.data.count, b.data.count);
  assert_memory_equal(a.data.data, b.data.data, a.data.count * sizeof(float));
  free_one(&a), mr_npy_free(&b.data);
  RUN(&p, "run", "synthetic ! shuffle ! batch 5 skip-steps=x ! null");
  assert_int_equal(p.status, 2);
}

static const char *trained(const char *run, const char *more) {
  static char ledger[17];
  RUN(&p, "train", "--data", "synthetic", "--run-dir", run, "--steps", "6", "batch=4", "embed=24",
      "heads=2", "layers=1", "mlp=32", more);
  const char *at = strstr(p.out, "ledger ");
  if (p.status || !at) fail_msg("status %d: %s%s", p.status, p.out, p.err);
  snprintf(ledger, sizeof ledger, "%.16s", at + 7);
  return ledger;
}

static void training_passes_skipped_steps_and_says_so(void **state) {
  char run[96], path[128], first[17];
  void *text;
  size_t n;
  snprintf(run, sizeof run, "%s/a", dir);
  strcpy(first, trained(run, "batches.skip-steps=3,5"));
  snprintf(path, sizeof path, "%s/metrics.jsonl", run);
  assert_int_equal(mr_read_file(path, 1 << 20, &text, &n, NULL), MR_OK);
  char *third = strstr(text, "\"step\":3,"), *fourth = strstr(text, "\"step\":4,");
  assert_non_null(third);
  assert_true(strstr(third, "\"skipped\":1") && strstr(third, "\"skipped\":1") < fourth);
  free(text);
  snprintf(run, sizeof run, "%s/b", dir);
  assert_string_equal(trained(run, "batches.skip-steps=3,5"), first);
  snprintf(run, sizeof run, "%s/c", dir);
  assert_string_not_equal(trained(run, "batches.skip-steps=3"), first);
  snprintf(run, sizeof run, "%s/d", dir);
  trained(run, "data.skip-records=0-5000");
}

static int setup(void **state) {
  strcpy(dir, "/tmp/mr-care-XXXXXX");
  if (!mkdtemp(dir)) return -1;
  snprintf(quarantine, sizeof quarantine, "%s/q.jsonl", dir);
  snprintf(out, sizeof out, "%s/out.npy", dir);
  snprintf(labels, sizeof labels, "%s/labels.npy", dir);
  snprintf(source, sizeof source, "cifar10 path=%s records=%d split=all holdout=0", dir, PER_FILE);
  return 0;
}

static int teardown(void **state) { return program_forget(dir); }

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_bad_record_fails_the_run_unless_on_bad_says_otherwise),
      cmocka_unit_test(one_bad_record_is_reported_as_one),
      cmocka_unit_test(replacements_do_not_depend_on_workers_memory_or_backend),
      cmocka_unit_test(good_files_give_the_same_order_under_any_policy),
      cmocka_unit_test(lines_of_another_data_set_are_passed_over),
      cmocka_unit_test(the_quarantine_file_names_file_offset_and_reason),
      cmocka_unit_test(a_quarantine_file_of_any_length_is_read),
      cmocka_unit_test(when_everything_is_bad_the_run_fails),
      cmocka_unit_test(skipped_records_keep_their_place_and_move_nothing),
      cmocka_unit_test(a_skipped_record_need_not_be_readable),
      cmocka_unit_test(the_ledger_tells_that_records_were_left_out),
      cmocka_unit_test(every_source_of_records_can_leave_some_out),
      cmocka_unit_test(records_that_only_a_filter_reads_are_not_counted),
      cmocka_unit_test(skipped_steps_come_empty_and_move_no_other),
      cmocka_unit_test(training_passes_skipped_steps_and_says_so),
  };
  return cmocka_run_group_tests(tests, setup, teardown);
}
