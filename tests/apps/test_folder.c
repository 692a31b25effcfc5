/* A folder of pictures through whole graphs: the same ledger for any workers, bad files, resuming,
   and what `who` tells. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <sys/resource.h>

#include <stdbool.h>
#include <sys/stat.h>

#include "base/xio.h"
#include "tests/apps/program.h"
#include "tests/needs.h"
#include "tests/vectors.h"

enum { BYTES_MAX = 1 << 20 };

static program_t p;
static char dir[] = "/tmp/mr-pictures-XXXXXX", quarantine[64];

#define TRAIN \
  " ! shuffle seed=2 epochs=2 ! decode ! resized-crop 40 ! flip ! normalize preset=imagenet"

/* The committed pictures, every second one in class b. */
static void write_files(void) {
  static char bytes[BYTES_MAX];
  char line[256], name[64], path[192];
  int at, n, k = 0;
  FILE *f = vectors_open("pictures.bin");
  assert_true(fread(bytes, 1, sizeof bytes, f) > 0);
  fclose(f);
  f = vectors_open("pictures.txt");
  for (const char *c = "ab"; *c; c++) {
    snprintf(path, sizeof path, "%s/%c", dir, *c);
    mkdir(path, 0755);
  }
  while (fgets(line, sizeof line, f)) {
    if (sscanf(line, "%63s %d %d", name, &at, &n) != 3 || *name == '#') continue;
    snprintf(path, sizeof path, "%s/%c/%s.jpg", dir, "ab"[k++ % 2], name);
    assert_int_equal(mr_write_file(path, bytes + at, (size_t)n, NULL), MR_OK);
  }
  fclose(f);
  unlink(quarantine);
}

static int setup(void **state) {
  if (!mkdtemp(dir)) return -1;
  snprintf(quarantine, sizeof quarantine, "%s.jsonl", dir);
  write_files();
  return 0;
}

static int teardown(void **state) {
  unlink(quarantine);
  return program_forget(dir);
}

static const char *text_of(const char *source, const char *rest) {
  static char text[512];
  snprintf(text, sizeof text, "folder %s %s%s ! null", dir, source, rest);
  return text;
}

static const char *ledger_of(const char *source, const char *rest) {
  static char ledger[17];
  RUN(&p, "run", text_of(source, rest));
  if (p.status) fail_msg("%s", p.err);
  const char *at = strstr(p.out, "ledger ");
  assert_non_null(at);
  snprintf(ledger, sizeof ledger, "%s", at + 7);
  return ledger;
}

static void refused(const char *source, const char *rest, const char *why) {
  RUN(&p, "run", text_of(source, rest));
  assert_int_not_equal(p.status, 0);
  if (!strstr(p.err, why)) fail_msg("%s: not \"%s\"", p.err, why);
}

static void cut_file(const char *name, int bytes) {
  char path[128];
  snprintf(path, sizeof path, "%s/%s", dir, name);
  assert_int_equal(truncate(path, bytes), 0);
}

static void pictures_of_different_sizes_need_a_stage_that_makes_them_even(void **state) {
  refused(
      "", " ! decode ! batch 4",
      "batch: field image holds pictures of different sizes, and batch takes records of one size; "
      "\"center-crop size=HxW\", \"pad-crop size=HxW\", \"resize size=HxW\" or \"resized-crop "
      "size=N\" before it makes them so");
  refused("", " ! decode ! flip p=1 ! batch 4",
          "flip: takes pictures of one size, and those of field image differ");
  refused("", " ! decode ! resize 40 ! batch 4", "batch: field image holds pictures of different");
  refused("", " ! decode ! decode ! batch 4", "encoded bytes");
  refused("", " ! decode ! resize 4x ! batch 4", "setting size = 4x: want N or HxW");
  ledger_of("", " ! decode ! resize 40x30 ! batch 4");
  ledger_of("", " ! decode ! resize 40 ! center-crop 48x32 ! batch 4");
}

static void workers_and_reading_threads_change_no_record(void **state) {
  char first[17];
  strcpy(first, ledger_of("", TRAIN " ! batch 8 workers=1"));
  assert_string_equal(ledger_of("", TRAIN " ! batch 8 workers=3"), first);
  assert_string_equal(ledger_of("read-threads=0", TRAIN " ! batch 8 workers=2"), first);
  assert_string_equal(ledger_of("read-threads=9", TRAIN " ! batch 8"), first);
}

static void bombs_and_large_files_are_bad_records(void **state) {
  refused("", " ! decode max-pixels=5000 ! resize 8x8 ! batch 8", "want at most max-pixels=5000");
  refused("max-bytes=1000", " ! decode ! resize 8x8 ! batch 8", "want at most max-bytes=1000");
  ledger_of("on-bad=skip-replace", " ! decode max-pixels=5000 ! resize 8x8 ! batch 8");
}

/* A file that only `decode` finds bad is replaced as one that the source finds bad. */
static void bad_files_are_replaced_alike_by_any_workers(void **state) {
  char first[17], many[192];
  cut_file("a/jpeg-444-17x33.jpg", 900), cut_file("b/jpeg-422-96x75.jpg", 10);
  cut_file("b/png-rgba.jpg", 40), cut_file("b/webp-lossless.jpg", 0);
  refused("", TRAIN " ! batch 8", dir); /* names the file */
  assert_non_null(strstr(p.err, "; on-bad=skip-replace or on-bad=quarantine:N uses another one"));
  strcpy(first, ledger_of("on-bad=skip-replace", TRAIN " ! batch 8 workers=1"));
  assert_non_null(strstr(p.out, "4 bad records, replaced 8 times"));
  for (int n = 2; n < 8; n++) {
    snprintf(many, sizeof many, TRAIN " ! batch 8 workers=%d", 1 + n % 4);
    assert_string_equal(
        ledger_of(n % 2 ? "on-bad=skip-replace" : "on-bad=skip-replace read-threads=0", many),
        first);
  }
  assert_string_not_equal(ledger_of("on-bad=skip-replace bad-seed=3", TRAIN " ! batch 8"), first);
  for (int n = 1; n <= 32;
       n *= 2) { /* a bad file that is several times in a batch counts each time */
    snprintf(many, sizeof many, TRAIN " ! batch %d", n);
    ledger_of("on-bad=skip-replace", many);
    assert_non_null(strstr(p.out, "4 bad records, replaced 8 times"));
  }
}

static void quarantined_files_are_listed_and_stay_so(void **state) {
  char source[128], first[17], text[4096] = "";
  snprintf(source, sizeof source, "on-bad=quarantine:4 quarantine=%s", quarantine);
  strcpy(first, ledger_of(source, TRAIN " ! batch 8"));
  FILE *f = fopen(quarantine, "r");
  assert_non_null(f);
  text[fread(text, 1, sizeof text - 1, f)] = 0;
  fclose(f);
  assert_non_null(strstr(text, "/a/jpeg-444-17x33.jpg\""));
  assert_non_null(strstr(text, "decode: JPEG: is cut short\""));
  assert_string_equal(ledger_of(source, TRAIN " ! batch 8 workers=2"), first);
  snprintf(source, sizeof source, "on-bad=quarantine:3 quarantine=%s.other", quarantine);
  refused(source, TRAIN " ! batch 8", "more than 3 bad records (on-bad): ");
  snprintf(source, sizeof source, "%s.other", quarantine);
  unlink(source);
}

static void a_filter_behind_decode_replaces_bad_files_too(void **state) {
  char first[17];
  strcpy(first,
         ledger_of("on-bad=skip-replace",
                   " ! shuffle seed=2 epochs=1 ! decode ! filter 1 ! resized-crop 24 ! batch 8"));
  assert_string_equal(
      ledger_of(
          "on-bad=skip-replace",
          " ! shuffle seed=2 epochs=1 ! decode ! filter 1 ! resized-crop 24 ! batch 8 workers=3"),
      first);
}

static void the_command_who_names_the_file_and_the_box(void **state) {
  write_files();
  RUN(&p, "who", text_of("", TRAIN " ! batch 8"), "--step", "3");
  assert_int_equal(p.status, 0);
  assert_non_null(strstr(p.out, dir));
  assert_non_null(strstr(p.out, "resized-crop: rows "));
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
/* Runs `folder` with stages behind it under a limit of 4 GiB, and expects two parts of the error.
 */
static void fails_without_memory(const char *rest, const char *first, const char *second) {
  struct rlimit was, small;
  assert_int_equal(getrlimit(RLIMIT_AS, &was), 0);
  small = (struct rlimit){(rlim_t)4 << 30, was.rlim_max};
  assert_int_equal(setrlimit(RLIMIT_AS, &small), 0);
  RUN(&p, "run", text_of("", rest));
  assert_int_equal(setrlimit(RLIMIT_AS, &was), 0);
  assert_int_not_equal(p.status, 0);
  if (!strstr(p.err, first) || !strstr(p.err, second)) fail_msg("%s", p.err);
}
#endif

/* Whole files have room for max-bytes= each, which decides nothing about pixels. */
static void buffers_without_memory_name_the_setting(void **state) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  skip(); /* it takes more addresses than the limit */
#else
  write_files();
  fails_without_memory(" ! batch 512", "the buffers of the graph; one of batch has ",
                       ": a smaller batch, or max-bytes= of folder, needs less");
  fails_without_memory(" ! decode ! resize 8000 ! center-crop 8000 ! batch 512",
                       "the buffers of the graph; one of batch has 91.6 GiB",
                       ": a smaller batch needs less");
#endif
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(pictures_of_different_sizes_need_a_stage_that_makes_them_even),
      cmocka_unit_test(workers_and_reading_threads_change_no_record),
      cmocka_unit_test(bombs_and_large_files_are_bad_records),
      cmocka_unit_test(bad_files_are_replaced_alike_by_any_workers),
      cmocka_unit_test(quarantined_files_are_listed_and_stay_so),
      cmocka_unit_test(a_filter_behind_decode_replaces_bad_files_too),
      cmocka_unit_test(buffers_without_memory_name_the_setting),
      cmocka_unit_test(the_command_who_names_the_file_and_the_box),
  };
  return cmocka_run_group_tests(tests, setup, teardown);
}
