/* The files that other programs read: csv and TensorBoard's events.  The real tensorboard package
   reads them in scripts/check-readers.sh. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>

#include "base/crc32c.h"
#include "sinks/picture.h"
#include "sinks/tfrecord.h"
#include "tests/needs.h"
#include "tests/sinks/talk.h"

/* Passes metrics on and says of itself what the end of a link says. */
static mr_err_t end_plan(mr_stage_t *s) {
  s->out_spec[0] = s->in_spec[0];
  return MR_OK;
}

static mr_err_t end_step(mr_stage_t *s) {
  mr_buf_t *b;
  if (!mr_take(s, 0, &b, 1)) return mr_idle(s);
  int64_t step = ((const mr_report_t *)b->data)->kind == MR_REPORT_FINAL ? 5 : 1;
  mr_set_link(s, 10 * step, 8 * step);
  return mr_push(s, 0, b);
}

static const mr_stage_def_t end_def = {
    .name = "end",
    .help = "Is the end of a link.",
    .in = {{.name = "in", .flow = MR_FLOW_METRICS}},
    .out = {{.name = "out", .flow = MR_FLOW_METRICS}},
    .step = &(const mr_step_def_t){.run = end_step, .outside = true},
    .plan = end_plan,
};

static const mr_stage_def_t *const own[] = {&talk_def, &end_def, NULL};
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

/* Field k, from 0, of row r of a table. */
static void field_of(const char *table, int r, int k, char *text, size_t n) {
  for (; r; r--) table = strchr(table, '\n') + 1;
  for (; k; k--) table += strcspn(table, ",\n") + 1;
  snprintf(text, n, "%.*s", (int)strcspn(table, ",\n"), table);
}

static int column_of(const char *table, const char *name) {
  char text[1024];
  int columns = 1;
  for (const char *c = table; *c != '\n'; c++) columns += *c == ',';
  for (int k = 0; k < columns; k++) {
    field_of(table, 0, k, text, sizeof text);
    if (!strcmp(text, name)) return k;
  }
  return -1;
}

static void csv_has_the_numbers_of_each_stage(void **state) {
  char text[256], field[64];
  mr_diag_t diag;
  snprintf(text, sizeof text,
           "talk last=3 name=one ! end name=to-b ! telemetry every=0 ! csv path=%s/s.csv", dir);
  talk_depth = 16;
  assert_int_equal(run(text, &diag), MR_OK);
  talk_depth = 0;
  char *got = read_text("s.csv");
  field_of(got, 5, column_of(got, "one.items"), field, sizeof field);
  assert_string_equal(field, "5"); /* 3 steps, the test, the end */
  double shares = 0;
  static const char *const share[] = {"one.busy", "one.starved", "one.blocked"};
  for (int i = 0; i < 3; i++) {
    field_of(got, 5, column_of(got, share[i]), field, sizeof field);
    shares += atof(field);
  }
  assert_true(shares > 0.999 && shares < 1.001);
  assert_int_equal(column_of(got, "one.released"), -1); /* no end of a link */
  field_of(got, 5, column_of(got, "to-b.released"), field, sizeof field);
  assert_string_equal(field, "50");
  field_of(got, 5, column_of(got, "to-b.committed"), field, sizeof field);
  assert_string_equal(field, "40");
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

static void a_resumed_csv_keeps_its_columns_when_stages_come_or_go(void **state) {
  char text[192];
  mr_diag_t diag;
  snprintf(text, sizeof text, "talk last=7 name=one ! csv path=%s/m", dir);
  assert_int_equal(run(text, &diag), MR_OK);
  snprintf(text, sizeof text,
           "talk first=5 last=9 name=two ! telemetry every=0 ! csv path=%s/m resume-step=4", dir);
  assert_int_equal(run(text, &diag), MR_OK);
  char *got = read_text("m"), field[64];
  assert_true(column_of(got, "one.busy") >= 0);
  assert_int_equal(column_of(got, "two.busy"), -1);
  field_of(got, 9, 1, field, sizeof field);
  assert_string_equal(field, "9");
  field_of(got, 9, column_of(got, "one.busy"), field, sizeof field);
  assert_string_equal(field, "");
  free(got);
}

static void a_resumed_csv_keeps_the_columns_of_stages_with_long_names(void **state) {
  enum { LONG = 900 };
  char stage[LONG + 1], text[LONG + 256], column[LONG + 16], field[64];
  mr_diag_t diag;
  memset(stage, 'n', LONG), stage[LONG] = 0;
  for (int again = 0; again < 2; again++) {
    snprintf(text, sizeof text,
             "talk first=%d last=9 name=%s ! telemetry every=0 ! csv path=%s/l%s", again ? 5 : 1,
             stage, dir, again ? " resume-step=4" : "");
    if (run(text, &diag) < 0) fail_msg("%s", diag.text);
  }
  char *got = read_text("l");
  snprintf(column, sizeof column, "%s.items", stage);
  assert_true(column_of(got, column) >= 0);
  for (int step = 4; step <= 5; step++) { /* of the first part, of the second */
    field_of(got, step, column_of(got, column), field, sizeof field);
    assert_string_not_equal(field, "");
  }
  free(got);
}

/* The first step was skipped; the others are judged by two numbers of their own. */
static const mr_metric_def_t mean_error = {.name = "mean_error"}, bias = {.name = "bias"};
static const mr_metric_def_t *const of_numbers[] = {&mean_error, &bias};
static const mr_metric_list_t two_numbers = {.n = 2, .def = of_numbers};
static void other_numbers(mr_report_t *r) {
  r->n_numbers = 0;
  r->skipped = r->kind == MR_REPORT_STEP && r->step == 1;
  if (r->skipped) return;
  mr_report_add(r, MR_METRIC_OWN(LOSS), 0.5);
  mr_report_add(r, &mean_error, 0.125 * (double)r->step);
  mr_report_add(r, &bias, -0.25);
  mr_report_add(r, r->kind == MR_REPORT_STEP ? MR_METRIC_OWN(LR) : MR_METRIC_OWN(RECORDS), 1);
}

static void csv_has_columns_for_what_the_model_is_judged_by(void **state) {
  char text[192], field[64];
  mr_diag_t diag;
  talk_before = other_numbers, talk_metrics = &two_numbers;
  snprintf(text, sizeof text, "talk last=4 ! csv path=%s/j", dir);
  assert_int_equal(run(text, &diag), MR_OK);
  char *got = read_text("j");
  assert_memory_equal(got, "kind,step,epoch,images,elapsed_s,loss,mean_error,bias,lr,grad_norm",
                      66);
  field_of(got, 1, 1, field, sizeof field);
  assert_string_equal(field, "1");
  field_of(got, 1, column_of(got, "mean_error"), field, sizeof field);
  assert_string_equal(field, "");
  field_of(got, 3, column_of(got, "mean_error"), field, sizeof field);
  assert_string_equal(field, "0.375");
  field_of(got, 5, column_of(got, "bias"), field, sizeof field); /* the test's */
  assert_string_equal(field, "-0.25");
  snprintf(text, sizeof text, "talk first=3 last=4 ! csv path=%s/j resume-step=2", dir);
  assert_int_equal(run(text, &diag), MR_OK);
  char *again = read_text("j");
  assert_string_equal(again, got);
  talk_before = NULL, talk_metrics = &talk_usual;
  free(got), free(again);
}

static const mr_metric_def_t *const with_skipped[] = {MR_METRIC_OWN(ACCURACY),
                                                      MR_METRIC_OWN(SKIPPED_STEPS)};
static const mr_metric_list_t skipped_too = {.n = 2, .def = with_skipped};
static void count_skipped(mr_report_t *r) {
  if (r->kind == MR_REPORT_STEP)
    mr_report_add(r, MR_METRIC_OWN(SKIPPED_STEPS), r->step > 2 ? 1 : 0);
}

static void csv_has_a_column_of_skipped_steps_where_steps_can_be_skipped(void **state) {
  char text[192], field[64];
  mr_diag_t diag;
  snprintf(text, sizeof text, "talk last=2 ! csv path=%s/none", dir);
  assert_int_equal(run(text, &diag), MR_OK);
  char *got = read_text("none");
  assert_int_equal(column_of(got, "skipped_steps"), -1);
  free(got);
  talk_before = count_skipped, talk_metrics = &skipped_too;
  snprintf(text, sizeof text, "talk last=2 ! csv path=%s/some", dir);
  assert_int_equal(run(text, &diag), MR_OK);
  snprintf(text, sizeof text, "talk first=3 last=4 ! csv path=%s/some resume-step=2", dir);
  assert_int_equal(run(text, &diag), MR_OK);
  talk_before = NULL, talk_metrics = &talk_usual;
  got = read_text("some");
  for (int step = 1; step <= 4; step++) {
    field_of(got, step, column_of(got, "skipped_steps"), field, sizeof field);
    assert_string_equal(field, step > 2 ? "1" : "0");
  }
  free(got);
}

static void a_head_that_a_kill_cut_is_written_again(void **state) {
  char text[192], path[96];
  mr_diag_t diag;
  snprintf(path, sizeof path, "%s/cut", dir);
  FILE *f = fopen(path, "w");
  fputs("kind,step,epo", f);
  fclose(f);
  snprintf(text, sizeof text, "talk last=3 ! csv path=%s resume-step=0", path);
  assert_int_equal(run(text, &diag), MR_OK);
  char *got = read_text("cut");
  assert_memory_equal(got, "kind,step,epoch,", 16);
  assert_non_null(strstr(got, "\nstep,1,"));
  free(got);
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

/* A file of 5 GiB, of which nearly all is a hole, that ends with the lines of steps 101 to 140. */
static void write_long_file(const char *path, const char *head, const char *line) {
  FILE *f = fopen(path, "w");
  assert_non_null(f);
  fputs(head, f);
  assert_int_equal(fseeko(f, (off_t)5 << 30, SEEK_SET), 0);
  fputc('\n', f);
  for (int step = 101; step <= 140; step++) {
    fprintf(f, line, step);
    fputc('\n', f);
  }
  assert_int_equal(fclose(f), 0);
}

/* What follows byte `at` of a file. */
static char *text_behind(const char *path, off_t at, char text[4096]) {
  FILE *f = fopen(path, "r");
  assert_non_null(f);
  assert_int_equal(fseeko(f, at, SEEK_SET), 0);
  text[fread(text, 1, 4095, f)] = 0;
  fclose(f);
  return text;
}

static void files_of_any_length_are_resumed_from_their_end(void **state) {
  static const struct {
    const char *stage, *head, *line, *last, *next;
  } files[] = {
      {"jsonl", "{\"kind\":\"step\",\"step\":1,\"epoch\":0}\n",
       "{\"kind\":\"step\",\"step\":%d,\"epoch\":0}", "\"step\":120,", "\"step\":121,"},
      {"csv", "kind,step,epoch,images,elapsed_s,loss\n", "step,%d,0,0,0,0", "\nstep,120,",
       "\nstep,121,"},
  };
  char text[192], path[96], got[4096];
  mr_diag_t diag;
  snprintf(path, sizeof path, "%s/long", dir);
  for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
    write_long_file(path, files[i].head, files[i].line);
    snprintf(text, sizeof text, "talk first=121 last=122 ! %s path=%s resume-step=120",
             files[i].stage, path);
    if (run(text, &diag) != MR_OK) fail_msg("%s: %s", files[i].stage, diag.text);
    text_behind(path, (off_t)5 << 30, got);
    char *last = strstr(got, files[i].last), *next = strstr(got, files[i].next);
    assert_true(last && next && last < next);
    assert_null(strstr(next + 1, files[i].next)); /* once: the earlier one is gone */
    assert_null(strstr(got, "123"));
    assert_int_equal(unlink(path), 0);
  }
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
  NEEDS("PROTOBUF");
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

/* The newest event file of dir/tb, whole; path: its name. */
static uint8_t *newest_events(char path[400], size_t *n) {
  struct dirent **file;
  char folder[96];
  void *bytes;
  mr_diag_t diag;
  snprintf(folder, sizeof folder, "%s/tb", dir);
  int k = scandir(folder, &file, NULL, alphasort);
  assert_true(k > 2);
  snprintf(path, 400, "%s/%s", folder, file[k - 1]->d_name);
  while (k) free(file[--k]);
  free(file);
  assert_int_equal(mr_read_file(path, 1 << 24, &bytes, n, &diag), MR_OK);
  return bytes;
}

/* Where record k of an event file begins. */
static size_t record_at(const uint8_t *bytes, int k) {
  size_t at = 0;
  for (; k; k--) at += MR_TFRECORD_HEAD + bytes[at] + 256u * bytes[at + 1] + MR_TFRECORD_TAIL;
  return at;
}

/* Resumes after step 12: holes, NULL without any, must be all that is said.  The resumed run's
   own file is removed. */
static void expect_said_holes(const char *holes) {
  char text[192], want[256] = "", path[400];
  size_t n;
  snprintf(text, sizeof text, "talk first=13 last=14 ! tensorboard dir=%s/tb resume-step=12", dir);
  if (holes)
    snprintf(want, sizeof want, "millrace: tensorboard: %s/tb: has no records of %s\n", dir, holes);
  char *said = run_complains(text);
  assert_string_equal(said, want);
  free(said);
  free(newest_events(path, &n));
  assert_int_equal(unlink(path), 0);
}

static void steps_that_event_files_lack_are_said_at_resume(void **state) {
  NEEDS("PROTOBUF");
  enum { BEFORE = 3 }; /* version, start, settings; then a record a step */
  char text[192], path[400];
  mr_diag_t diag;
  size_t n;
  talk_depth = 64;
  snprintf(text, sizeof text, "talk last=12 ! tensorboard dir=%s/tb", dir);
  assert_int_equal(run(text, &diag), MR_OK);
  uint8_t *whole = newest_events(path, &n);
  expect_said_holes(NULL);

  assert_int_equal(mr_write_file(path, whole, record_at(whole, BEFORE + 9) + 5, &diag), MR_OK);
  expect_said_holes("3 steps before this resume: 10 to 12");

  /* A file system that had given the file its length, and none of its newest bytes. */
  uint8_t *zeros = calloc(1, n);
  memcpy(zeros, whole, record_at(whole, BEFORE + 11));
  assert_int_equal(mr_write_file(path, zeros, n, &diag), MR_OK);
  expect_said_holes("1 step before this resume: 12");
  free(zeros);

  /* Readers go no further than a damaged record. */
  size_t damaged = record_at(whole, BEFORE + 4) + MR_TFRECORD_HEAD + 3;
  whole[damaged] ^= 1;
  assert_int_equal(mr_write_file(path, whole, n, &diag), MR_OK);
  expect_said_holes("8 steps before this resume: 5 to 12");
  whole[damaged] ^= 1;

  /* A run that was resumed after step 8, cut behind its record of step 9: readers have forgotten
     what the run before it wrote from step 9 on. */
  assert_int_equal(mr_write_file(path, whole, n, &diag), MR_OK);
  snprintf(text, sizeof text, "talk first=9 last=12 ! tensorboard dir=%s/tb resume-step=8", dir);
  assert_int_equal(run(text, &diag), MR_OK);
  expect_said_holes(NULL);
  uint8_t *second = newest_events(path, &n);
  assert_int_equal(mr_write_file(path, second, record_at(second, BEFORE + 1), &diag), MR_OK);
  expect_said_holes("3 steps before this resume: 10 to 12");

  snprintf(text, sizeof text, "rm %s/tb/*", dir);
  assert_int_equal(system(text), 0);
  expect_said_holes("12 steps before this resume: 1 to 12");
  free(whole), free(second);
  talk_depth = 0;
}

static void pictures_of_mistakes_stand_where_the_confusion_matrix_counts_them(void **state) {
  static const char *const name[] = {"cat", "dog", "owl"};
  static const mr_dataset_t three = {"made", 3, name};
  mr_report_t wrong = {0}, *r = &wrong;
  mr_sheet_t s = {0};
  size_t n;
  mr_report_begin(r, MR_REPORT_WRONG);
  r->step = 7, r->dataset = &three;
  mr_picture_t *p = mr_report_add_picture(r);
  p->width = p->height = MR_PICTURE_SIDE;
  p->truth = 1, p->guess = 2;
  for (int i = 0; i < MR_SHEET_EACH + 1; i++) { /* the last one finds its cell full */
    memset(p->rgb, 10 * (i + 1), sizeof p->rgb);
    assert_true(mr_sheet_add(&s, r));
  }
  p->guess = 3; /* no such class */
  assert_true(mr_sheet_add(&s, r));
  for (int y = 0; y < s.height; y++)
    for (int x = 0; x < s.width; x++) {
      int row = y / (s.height / 3), column = x / (s.width / 3);
      int dx = x % (s.width / 3), dy = y % (s.height / 3), want = 255;
      if (row == 1 && column == 2 && dy < MR_PICTURE_SIDE && dx < MR_SHEET_EACH * MR_PICTURE_SIDE)
        want = 10 * (dx / MR_PICTURE_SIDE + 1);
      assert_int_equal(s.rgb[(y * s.width + x) * 3], want);
    }
  r->input = "valid.dogs", p->guess = 0; /* another evaluation of the same step */
  assert_true(mr_sheet_add(&s, r));
  assert_int_equal(s.rgb[((s.height / 3) * s.width + s.width / 3 * 2) * 3], 255);
  void *png = mr_sheet_png(&s, &n);
  if (mr_built_in("PNG"))
    assert_memory_equal(png, "\x89PNG", 4);
  else
    assert_null(png);
  assert_int_equal(s.n_classes, 0);
  mr_sheet_fini(&s);
  free(png), mr_report_fini(r);
}

int main(void) {
#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
  const struct CMUnitTest tests[] = {
      CASE(csv_has_a_row_a_record_and_a_field_a_column),
      CASE(csv_has_the_numbers_of_each_stage),
      CASE(resumed_csv_has_every_step_once),
      CASE(files_of_any_length_are_resumed_from_their_end),
      CASE(a_resumed_csv_keeps_its_columns_when_stages_come_or_go),
      CASE(a_resumed_csv_keeps_the_columns_of_stages_with_long_names),
      CASE(csv_has_columns_for_what_the_model_is_judged_by),
      CASE(csv_has_a_column_of_skipped_steps_where_steps_can_be_skipped),
      CASE(a_head_that_a_kill_cut_is_written_again),
      CASE(a_table_with_other_columns_is_not_gone_on_with),
      CASE(the_check_sum_is_crc_32c),
      CASE(event_files_are_whole_records_with_right_sums),
      CASE(steps_that_event_files_lack_are_said_at_resume),
      CASE(pictures_of_mistakes_stand_where_the_confusion_matrix_counts_them),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
