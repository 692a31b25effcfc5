#include "loaders/local/reader.h"

#include <sys/stat.h>
#include <unistd.h>

#include "loaders/local/reader_choose.h"
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

static const mr_read_way_t every[] = {MR_READ_URING, MR_READ_DIRECT, MR_READ_PREAD, MR_READ_MMAP};
enum { N_EVERY = 4 };

/* NULL if this machine refuses the backend: that is said, not passed over. */
static mr_reader_t *open_by(mr_read_way_t backend, mr_reader_conf_t conf) {
  const char *const paths[] = {path[0], path[1]};
  mr_reader_t *r;
  mr_diag_t d = {0};
  if (!conf.path) conf.path = paths, conf.n_files = 2;
  conf.backend = backend;
  mr_err_t e = mr_reader_open(&r, &conf, &d);
  if (e == MR_ERR_UNAVAILABLE) print_message("left out: %s\n", d.text);
  if (e < 0 && e != MR_ERR_UNAVAILABLE) fail_msg("%s", d.text);
  if (r) assert_int_equal(mr_reader_backend(r), backend);
  return r;
}

static uint32_t draw(uint32_t *seed) { return *seed = *seed * 1664525u + 1013904223u; }

enum { N_READS = 100, LEN = 5000 };

/* Reads of all lengths to 4095, some at a file's very end, some of nothing. */
static void check_random_reads(mr_reader_t *r, uint8_t *to) {
  mr_read_t read[N_READS];
  uint32_t seed = 9;
  for (int i = 0; i < N_READS; i++) {
    size_t len = draw(&seed) >> 20 & 4095;
    int64_t at = i % 10 == 3 ? SIZE - (int64_t)len : (int64_t)(draw(&seed) % (SIZE - LEN));
    read[i] = (mr_read_t){i % 2, at, len, to + i * LEN};
  }
  mr_diag_t d = {0};
  if (mr_reader_read(r, read, N_READS, &d) < 0) fail_msg("%s", d.text);
  for (int i = 0; i < N_READS; i++)
    assert_memory_equal(read[i].dst, content[i % 2] + read[i].offset, read[i].len);
}

/* Depths below, at and above the number of reads; windows so small that each read takes many. */
static void batches_of_reads_bring_the_files_bytes_by_every_way(void **state) {
  static const struct {
    unsigned depth;
    size_t window;
  } way[] = {{1, 0}, {7, 0}, {256, 0}, {8, 100}, {0, 16}};
  uint8_t *to = malloc(N_READS * LEN);
  for (size_t k = 0; k < sizeof way / sizeof *way * 2 * N_EVERY; k++) {
    bool fixed = k / N_EVERY % 2;
    mr_reader_conf_t conf = {.depth = way[k / N_EVERY / 2].depth,
                             .window = way[k / N_EVERY / 2].window,
                             .buffer = fixed ? to : NULL,
                             .buffer_len = fixed ? N_READS * LEN : 0};
    mr_reader_t *r = open_by(every[k % N_EVERY], conf);
    if (!r) continue;
    check_random_reads(r, to);
    check_random_reads(r, to);
    mr_reader_close(r);
  }
  free(to);
}

/* Records of an odd size, in the file's order, backwards, and two of three; in one piece of memory
   or strewn: what is joined to one read, and what is not, comes out the same. */
static void neighbours_are_joined_and_come_apart_again(void **state) {
  enum { REC = 307, N = 400 };
  uint8_t *to = malloc(N * (REC + 9));
  mr_read_t read[N];
  for (size_t k = 0; k < N_EVERY; k++)
    for (int shape = 0; shape < 8; shape++) {
      mr_reader_t *r = open_by(every[k], (mr_reader_conf_t){.window = shape & 4 ? 10000 : 0});
      if (!r) break;
      memset(to, 0, N * (REC + 9));
      for (int i = 0; i < N; i++) {
        int record = shape & 1 ? N - 1 - i : i / 2 * 3 + i % 2;
        read[i] = (mr_read_t){i < N / 2, record * REC, REC, to + i * (shape & 2 ? REC + 9 : REC)};
      }
      assert_int_equal(mr_reader_read(r, read, N, NULL), MR_OK);
      for (int i = 0; i < N; i++)
        assert_memory_equal(read[i].dst, content[i < N / 2] + read[i].offset, REC);
      mr_reader_close(r);
    }
  free(to);
}

static void a_whole_file_is_read_in_windows(void **state) {
  uint8_t *to = aligned_alloc(4096, (SIZE + 8191) / 4096 * 4096);
  for (size_t k = 0; k < N_EVERY * 3; k++) {
    int shift = (int)(k / N_EVERY) * 7; /* 0: O_DIRECT goes straight into place */
    mr_reader_t *r = open_by(every[k % N_EVERY], (mr_reader_conf_t){.depth = 4, .window = 8192});
    if (!r) continue;
    memset(to, 0, SIZE);
    assert_int_equal(mr_reader_size(r, 1), SIZE);
    assert_int_equal(mr_reader_read_big(r, 1, 0, SIZE, to + shift, NULL), MR_OK);
    assert_memory_equal(to + shift, content[1], SIZE);
    mr_reader_close(r);
  }
  free(to);
}

static void reading_past_the_end_names_file_and_byte(void **state) {
  uint8_t to[200];
  char want[256];
  snprintf(want, sizeof want, "%s: ends at byte %d, want 50 bytes more", path[1], SIZE);
  for (size_t k = 0; k < N_EVERY; k++) {
    mr_reader_t *r = open_by(every[k], (mr_reader_conf_t){.depth = 4});
    if (!r) continue;
    mr_read_t read[3] = {{0, 0, 10, to}, {1, SIZE - 50, 100, to + 20}, {0, 9000, 10, to + 150}};
    mr_diag_t d = {0};
    assert_int_equal(mr_reader_read(r, read, 3, &d), MR_ERR_DATA);
    assert_string_equal(d.text, want);
    read[1].offset = SIZE + 100000;
    assert_int_equal(mr_reader_read(r, read, 3, NULL), MR_ERR_DATA);
    assert_int_equal(mr_reader_read(r, read, 1, NULL), MR_OK); /* and continues after it */
    assert_memory_equal(to, content[0], 10);
    mr_reader_close(r);
  }
}

/* Sizes around nothing, one byte, a block and a page. */
static void tiny_files_are_read_whole_and_not_beyond(void **state) {
  static const int size[] = {0, 1, 511, 512, 513, 4095, 4096, 4097, 65536, 65537};
  uint8_t to[70000];
  char name[96];
  snprintf(name, sizeof name, "%s/tiny", folder);
  const char *const paths[] = {name};
  for (size_t i = 0; i < sizeof size / sizeof *size * N_EVERY; i++) {
    int n = size[i / N_EVERY];
    FILE *o = fopen(name, "wb");
    assert_int_equal(fwrite(content[0], 1, (size_t)n, o), n);
    fclose(o);
    mr_reader_t *r = open_by(every[i % N_EVERY], (mr_reader_conf_t){.path = paths, .n_files = 1});
    if (!r) continue;
    mr_diag_t d = {0};
    memset(to, 0, sizeof to);
    assert_int_equal(mr_reader_read(r, &(mr_read_t){0, 0, (size_t)n, to}, 1, &d), MR_OK);
    assert_memory_equal(to, content[0], n);
    assert_int_equal(to[n], 0);
    assert_int_equal(mr_reader_read(r, &(mr_read_t){0, n, 1, to}, 1, &d), MR_ERR_DATA);
    mr_reader_close(r);
  }
  unlink(name);
}

/* Cut while it is open: the mapping faults, the others come to an end; all say the same. */
static void a_file_cut_short_is_noticed_by_every_way(void **state) {
  char name[96], want[200];
  static uint8_t to[20000];
  snprintf(name, sizeof name, "%s/cut", folder);
  snprintf(want, sizeof want, "%s: ends at byte 10000, want 6000 bytes more", name);
  const char *const paths[] = {name};
  for (size_t k = 0; k < N_EVERY; k++) {
    FILE *o = fopen(name, "wb");
    assert_int_equal(fwrite(content[0], 1, 20000, o), 20000);
    fclose(o);
    mr_reader_t *r = open_by(every[k], (mr_reader_conf_t){.path = paths, .n_files = 1});
    if (!r) continue;
    mr_diag_t d = {0};
    assert_int_equal(truncate(name, 10000), 0);
    assert_int_equal(mr_reader_read(r, &(mr_read_t){0, 8000, 8000, to}, 1, &d), MR_ERR_DATA);
    assert_string_equal(d.text, want);
    assert_int_equal(mr_reader_read(r, &(mr_read_t){0, 8000, 2000, to}, 1, NULL), MR_OK);
    assert_memory_equal(to, content[0] + 8000, 2000);
    mr_reader_close(r);
  }
  unlink(name);
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
  assert_non_null(strstr(d.text, "not a regular file"));
}

static void a_pipe_is_refused_without_waiting_for_its_writer(void **state) {
  char pipe[96];
  snprintf(pipe, sizeof pipe, "%s/pipe", folder);
  const char *const paths[] = {pipe};
  mr_reader_t *r;
  mr_diag_t d = {0};
  assert_int_equal(mkfifo(pipe, 0600), 0);
  assert_int_equal(mr_reader_open(&r, &(mr_reader_conf_t){.path = paths, .n_files = 1}, &d),
                   MR_ERR_IO);
  assert_non_null(strstr(d.text, "not a regular file"));
  unlink(pipe);
}

static void the_environment_names_a_way_for_auto_and_it_is_said(void **state) {
  setenv("MILLRACE_IO", "pread", 1);
  const char *const paths[] = {path[0], path[1]};
  mr_reader_t *r;
  uint8_t *to = malloc(N_READS * LEN);
  assert_int_equal(mr_reader_open(&r, &(mr_reader_conf_t){.path = paths, .n_files = 2}, NULL),
                   MR_OK);
  assert_int_equal(mr_reader_backend(r), MR_READ_PREAD);
  assert_string_equal(mr_reader_fallback(r), "MILLRACE_IO=pread, reading with pread");
  assert_string_equal(mr_reader_fallback_seen(), mr_reader_fallback(r));
  check_random_reads(r, to);
  mr_reader_close(r);
  unsetenv("MILLRACE_IO");
  free(to);
}

static void the_choice_follows_from_machine_and_data(void **state) {
  const int64_t GB = 1000000000;
  static const struct {
    mr_reader_facts_t f;
    bool once;
    mr_read_way_t want;
    const char *why;
  } row[] = {
      {{0, 512, 1, 1.0, 8}, false, MR_READ_MMAP, "page cache holds the files"},
      {{0, 512, 1, 1.0, 8}, true, MR_READ_URING, "read once"},
      {{0, 512, 1, 0.1, 8}, false, MR_READ_URING, "page cache keeps"},
      {{0, 512, 100, 0.1, 8}, false, MR_READ_DIRECT, "larger than half"},
      {{0, 512, 100, 0.1, 8}, true, MR_READ_DIRECT, "larger than half"},
      {{0, 0, 100, 0.1, 8}, false, MR_READ_URING, "page cache keeps"},
      {{1 /* EPERM */, 512, 100, 0.1, 8}, false, MR_READ_PREAD, "not permitted"},
      {{1 /* EPERM */, 512, 1, 1.0, 8}, true, MR_READ_PREAD, "32 threads"},
      {{1 /* EPERM */, 512, 1, 1.0, 8}, false, MR_READ_PREAD, "not permitted"},
  };
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    char why[MR_READER_WHY];
    mr_reader_facts_t f = row[i].f;
    f.bytes *= GB, f.available *= GB;
    assert_int_equal(mr_reader_choose(&f, row[i].once, why), row[i].want);
    assert_non_null(strstr(why, row[i].why));
  }
}

static void the_facts_of_files_just_written_are_found(void **state) {
  mr_reader_facts_t f;
  FILE *o = fopen(path[0], "rb");
  int fd = fileno(o);
  mr_reader_facts(&fd, 1, &f);
  fclose(o);
  assert_int_equal(f.bytes, SIZE);
  assert_true(f.cached >= 0 && f.cached <= 1);
  assert_true(f.available > 0);
  assert_int_equal(f.uring_errno, mr_uring_refused());
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(batches_of_reads_bring_the_files_bytes_by_every_way),
      cmocka_unit_test(neighbours_are_joined_and_come_apart_again),
      cmocka_unit_test(a_whole_file_is_read_in_windows),
      cmocka_unit_test(reading_past_the_end_names_file_and_byte),
      cmocka_unit_test(tiny_files_are_read_whole_and_not_beyond),
      cmocka_unit_test(a_file_cut_short_is_noticed_by_every_way),
      cmocka_unit_test(a_missing_file_and_a_folder_are_named),
      cmocka_unit_test(a_pipe_is_refused_without_waiting_for_its_writer),
      cmocka_unit_test(the_environment_names_a_way_for_auto_and_it_is_said),
      cmocka_unit_test(the_choice_follows_from_machine_and_data),
      cmocka_unit_test(the_facts_of_files_just_written_are_found),
  };
  return cmocka_run_group_tests(tests, make_files, remove_files);
}
