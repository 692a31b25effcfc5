#include "loaders/reader.h"

#include <sys/stat.h>
#include <unistd.h>

#include "tests/vectors.h"

enum { SIZE = 3000017 };

static char folder[64], path[2][96];
static uint8_t *content[2];

static int make_files(void **state) {
  strcpy(folder, "/tmp/millrace-reader-XXXXXX");
  if (!mkdtemp(folder)) return -1;
  uint32_t seed = 3;
  for (int f = 0; f < 2; f++) {
    content[f] = malloc(SIZE);
    for (int k = 0; k < SIZE; k++)
      seed = seed * 1664525u + 1013904223u, content[f][k] = (uint8_t)(seed >> 24);
    snprintf(path[f], sizeof path[f], "%s/file-%d", folder, f);
    FILE *o = fopen(path[f], "wb");
    if (!o || fwrite(content[f], 1, SIZE, o) != SIZE || fclose(o)) return -1;
  }
  return 0;
}

static int remove_files(void **state) {
  for (int f = 0; f < 2; f++) unlink(path[f]), free(content[f]);
  return rmdir(folder);
}

static mr_reader_t *opened(unsigned depth, size_t window, void *buffer, size_t len) {
  const char *const paths[] = {path[0], path[1]};
  mr_reader_conf_t conf = {paths, 2, depth, window, buffer, len};
  mr_reader_t *r;
  mr_diag_t d = {0};
  if (mr_reader_open(&r, &conf, &d) < 0) fail_msg("%s", d.text);
  return r;
}

static void check_random_reads(mr_reader_t *r, uint8_t *to) {
  enum { N = 100, LEN = 5000 };
  mr_read_t read[N];
  uint32_t seed = 9;
  for (int i = 0; i < N; i++) {
    seed = seed * 1664525u + 1013904223u;
    size_t len = seed >> 20 & 4095;
    read[i] = (mr_read_t){i % 2, (int64_t)(seed % (SIZE - LEN)), len, to + i * LEN};
  }
  mr_diag_t d = {0};
  if (mr_reader_read(r, read, N, &d) < 0) fail_msg("%s", d.text);
  for (int i = 0; i < N; i++)
    assert_memory_equal(read[i].dst, content[i % 2] + read[i].offset, read[i].len);
}

/* Depths below, at and above the number of reads; windows so small that each read takes many. */
static void batches_of_reads_bring_the_files_bytes(void **state) {
  static const struct {
    unsigned depth;
    size_t window;
  } way[] = {{1, 0}, {7, 0}, {256, 0}, {8, 100}, {0, 1}};
  uint8_t *to = malloc(100 * 5000);
  for (size_t k = 0; k < sizeof way / sizeof *way; k++)
    for (int fixed = 0; fixed < 2; fixed++) {
      mr_reader_t *r =
          opened(way[k].depth, way[k].window, fixed ? to : NULL, fixed ? 100 * 5000 : 0);
      check_random_reads(r, to);
      check_random_reads(r, to);
      mr_reader_close(r);
    }
  free(to);
}

static void a_whole_file_is_read_in_windows(void **state) {
  uint8_t *to = malloc(SIZE);
  mr_reader_t *r = opened(4, 10000, NULL, 0);
  assert_int_equal(mr_reader_size(r, 1), SIZE);
  assert_int_equal(mr_reader_read_big(r, 1, 0, SIZE, to, NULL), MR_OK);
  assert_memory_equal(to, content[1], SIZE);
  mr_reader_close(r);
  free(to);
}

static void reading_past_the_end_names_file_and_byte(void **state) {
  uint8_t to[200];
  char want[256];
  mr_reader_t *r = opened(4, 0, NULL, 0);
  mr_read_t read[3] = {{0, 0, 10, to}, {1, SIZE - 50, 100, to + 20}, {0, 7, 10, to + 150}};
  mr_diag_t d = {0};
  assert_int_equal(mr_reader_read(r, read, 3, &d), MR_ERR_DATA);
  snprintf(want, sizeof want, "%s: ends at byte %d, want 50 bytes more", path[1], SIZE);
  assert_string_equal(d.text, want);
  assert_int_equal(mr_reader_read(r, read, 1, NULL), MR_OK); /* and goes on after it */
  assert_memory_equal(to, content[0], 10);
  mr_reader_close(r);
}

static void a_missing_file_and_a_folder_are_named(void **state) {
  const char *const none[] = {"/nonexistent/data"}, *const dir[] = {folder};
  mr_reader_t *r;
  mr_diag_t d = {0};
  assert_int_equal(mr_reader_open(&r, &(mr_reader_conf_t){.path = none, .n_files = 1}, &d),
                   MR_ERR_IO);
  assert_string_equal(d.text, "/nonexistent/data: cannot be opened: No such file or directory");
  assert_null(r);
  d = (mr_diag_t){0};
  assert_int_equal(mr_reader_open(&r, &(mr_reader_conf_t){.path = dir, .n_files = 1}, &d),
                   MR_ERR_IO);
  assert_non_null(strstr(d.text, "is no regular file"));
}

static void pread_gives_the_same_bytes_and_says_so(void **state) {
  setenv("MILLRACE_IO", "pread", 1);
  uint8_t *to = malloc(100 * 5000);
  mr_reader_t *r = opened(8, 0, NULL, 0);
  assert_string_equal(mr_reader_fallback(r), "MILLRACE_IO=pread, reading with pread");
  assert_string_equal(mr_reader_fallback_seen(), mr_reader_fallback(r));
  check_random_reads(r, to);
  mr_reader_close(r);
  reading_past_the_end_names_file_and_byte(NULL);
  a_whole_file_is_read_in_windows(NULL);
  unsetenv("MILLRACE_IO");
  free(to);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(batches_of_reads_bring_the_files_bytes),
      cmocka_unit_test(a_whole_file_is_read_in_windows),
      cmocka_unit_test(reading_past_the_end_names_file_and_byte),
      cmocka_unit_test(a_missing_file_and_a_folder_are_named),
      cmocka_unit_test(pread_gives_the_same_bytes_and_says_so),
  };
  return cmocka_run_group_tests(tests, make_files, remove_files);
}
