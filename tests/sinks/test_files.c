/* The files that other programs read: csv and TensorBoard's events.  The real tensorboard package
   reads them in scripts/check-readers.sh. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>

#include "sinks/tfrecord.h"
#include "tests/sinks/talk.h"

static const mr_stage_def_t *const own[] = {&talk_def, NULL};
static int setup(void **state) { return talk_setup(own); }
static int teardown(void **state) { return talk_teardown(); }

static void csv_has_a_row_a_record_and_a_field_a_column(void **state) {
  char text[192], *save = NULL;
  mr_diag_t diag;
  snprintf(text, sizeof text, "talk last=3 ! telemetry every=0 ! csv path=%s/a/m.csv", dir);
  assert_int_equal(run(text, &diag), MR_OK);
  char *got = read_text("a/m.csv");
  int rows = 0, columns = 0;
  for (char *line = strtok_r(got, "\n", &save); line; line = strtok_r(NULL, "\n", &save), rows++) {
    int commas = 0;
    for (char *c = line; *c; c++) commas += *c == ',';
    if (!rows) columns = commas;
    assert_int_equal(commas, columns);
    if (rows == 0) assert_memory_equal(line, "kind,step,epoch,images,elapsed_s,loss,accuracy", 46);
    if (rows == 2) assert_memory_equal(line, "step,2,1,20,1.000000,1.25,0.25,,", 32);
    if (rows == 5) assert_memory_equal(line, "final,3,", 8);
  }
  assert_int_equal(rows, 6);
  free(got);
}

static void resumed_csv_has_every_step_once(void **state) {
  char text[192], path[96];
  mr_diag_t diag;
  snprintf(text, sizeof text, "talk last=9 ! csv path=%s/whole", dir);
  assert_int_equal(run(text, &diag), MR_OK);
  snprintf(text, sizeof text, "talk last=7 ! csv path=%s/parts", dir);
  assert_int_equal(run(text, &diag), MR_OK);
  snprintf(path, sizeof path, "%s/parts", dir);
  FILE *f = fopen(path, "a");
  fputs("step,8,", f); /* the write that a kill cut */
  fclose(f);
  snprintf(text, sizeof text, "talk first=5 last=9 ! csv path=%s/parts resume-step=4", dir);
  assert_int_equal(run(text, &diag), MR_OK);
  char *whole = read_text("whole"), *parts = read_text("parts");
  assert_string_equal(parts, whole);
  free(whole), free(parts);
}

static void a_table_with_other_columns_is_not_gone_on_with(void **state) {
  char text[192], path[96];
  mr_diag_t diag;
  snprintf(path, sizeof path, "%s/old", dir);
  FILE *f = fopen(path, "w");
  fputs("kind,step,other\nstep,1,2\n", f);
  fclose(f);
  snprintf(text, sizeof text, "talk ! csv path=%s/old resume-step=4", dir);
  assert_int_equal(run(text, &diag), MR_ERR_DATA);
  assert_non_null(strstr(diag.text, "other columns"));
}

static void the_check_sum_is_crc_32c(void **state) {
  assert_int_equal(mr_crc32c("123456789", 9), 0xe3069283);
  assert_int_equal(mr_crc32c("", 0), 0);
}

static uint32_t unmask(const uint8_t *at) {
  uint32_t v =
      (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
  v -= 0xa282ead8u;
  return v << 15 | v >> 17;
}

static void event_files_are_whole_records_with_right_sums(void **state) {
  char text[192], name[300] = "", path[400];
  mr_diag_t diag;
  void *bytes;
  size_t n, at = 0, records = 0;
  snprintf(text, sizeof text, "talk last=30 ! telemetry every=0 ! tensorboard dir=%s/tb", dir);
  assert_int_equal(run(text, &diag), MR_OK);
  snprintf(path, sizeof path, "%s/tb", dir);
  DIR *d = opendir(path);
  for (struct dirent *e; (e = readdir(d));)
    if (strstr(e->d_name, "tfevents")) snprintf(name, sizeof name, "%s", e->d_name);
  closedir(d);
  snprintf(path, sizeof path, "%s/tb/%s", dir, name);
  assert_int_equal(mr_read_file(path, 1 << 24, &bytes, &n, &diag), MR_OK);
  for (const uint8_t *p = bytes; at < n; records++) {
    uint64_t len = 0;
    assert_true(n - at >= MR_TFRECORD_HEAD);
    for (int i = 0; i < 8; i++) len |= (uint64_t)p[at + (size_t)i] << 8 * i;
    assert_int_equal(unmask(p + at + 8), mr_crc32c(p + at, 8));
    assert_true(len <= n - at - MR_TFRECORD_HEAD - MR_TFRECORD_TAIL);
    assert_int_equal(unmask(p + at + MR_TFRECORD_HEAD + len),
                     mr_crc32c(p + at + MR_TFRECORD_HEAD, len));
    at += MR_TFRECORD_HEAD + len + MR_TFRECORD_TAIL;
  }
  assert_int_equal(at, n);
  /* version, start, settings, 30 steps, the test with its confusion matrix, the end twice */
  assert_int_equal(records, 3 + 30 + 2 + 2);
  free(bytes);
}

int main(void) {
#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
  const struct CMUnitTest tests[] = {
      CASE(csv_has_a_row_a_record_and_a_field_a_column),    CASE(resumed_csv_has_every_step_once),
      CASE(a_table_with_other_columns_is_not_gone_on_with), CASE(the_check_sum_is_crc_32c),
      CASE(event_files_are_whole_records_with_right_sums),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
