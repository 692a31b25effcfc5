/* Records that are kept behind the back of the first fetches: MILLRACE_IO=mmap stands for a page
   cache that holds the files. */
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include "loaders/local/store.h"
#include "tests/vectors.h"

enum { FILES = 2, PER_FILE = 2500, RECORD = 3073, ALL = FILES * PER_FILE };

static char folder[64], path[FILES][96];

static uint8_t byte_at(int64_t number, int64_t k) {
  return (uint8_t)(k ? number * 31 + k * 7 + number / 256 : number % 10);
}

/* bad: a record whose first byte says so; -1: none. */
static void write_files(int64_t bad) {
  static uint8_t data[PER_FILE * RECORD];
  for (int f = 0; f < FILES; f++) {
    for (int64_t i = 0; i < PER_FILE; i++)
      for (int64_t k = 0; k < RECORD; k++)
        data[i * RECORD + k] =
            f * PER_FILE + i == bad && k == 0 ? 255 : byte_at(f * PER_FILE + i, k);
    FILE *o = fopen(path[f], "wb");
    assert_non_null(o);
    assert_int_equal(fwrite(data, 1, sizeof data, o), sizeof data);
    assert_int_equal(fclose(o), 0);
  }
}

static int64_t backwards(const void *ctx, int64_t index) { return ALL - 1 - index; }

static mr_err_t check(const void *ctx, const char *file, int64_t at, const uint8_t *record,
                      mr_diag_t *diag) {
  if (*record < 10) return MR_OK;
  return mr_fail(diag, MR_ERR_DATA, "%s: record %lld is bad", file, (long long)at);
}

static bool in_turn; /* of the next store */

static mr_store_t *opened_with(int64_t n, int64_t memory, mr_read_way_t backend) {
  const char *name[FILES] = {path[0], path[1]};
  mr_store_conf_t conf = {.path = name,
                          .n_files = FILES,
                          .record = RECORD,
                          .per_file = PER_FILE,
                          .n = n,
                          .memory = memory,
                          .backend = backend,
                          .in_turn = in_turn,
                          .locate = backwards,
                          .check = check};
  mr_store_t *st;
  mr_diag_t d = {0};
  mr_err_t e = mr_store_open(&st, &conf, &d);
  if (e < 0 && e != MR_ERR_UNAVAILABLE) fail_msg("%s", d.text);
  return st; /* NULL where a backend is refused */
}

static mr_store_t *opened(int64_t n) { return opened_with(n, 1 << 30, MR_READ_AUTO); }

static void fetch_and_compare(mr_store_t *st, int worker, int64_t from) {
  int64_t index[32], number[32];
  uint8_t *record[32];
  mr_diag_t d = {0};
  for (int i = 0; i < 32; i++) index[i] = (from + i * 977) % ALL;
  if (mr_store_fetch(st, worker, index, 32, number, record, &d) < 0) fail_msg("%s", d.text);
  for (int i = 0; i < 32; i++) {
    assert_int_equal(number[i], ALL - 1 - index[i]);
    for (int64_t k = 0; k < RECORD; k += 96) /* the last one, 3072, too */
      assert_int_equal(record[i][k], byte_at(number[i], k));
  }
}

static void records_are_the_same_before_and_after_they_are_kept(void **state) {
  write_files(-1);
  mr_store_t *st = opened(ALL);
  long before = 0;
  for (int64_t k = 0; !mr_store_kept(st); k++, before++) {
    fetch_and_compare(st, (int)(k % 3), k * 13);
    sched_yield();
  }
  for (int64_t k = 0; k < 300; k++) fetch_and_compare(st, (int)(k % 4), k * 13);
  print_message("%ld fetches before all was kept\n", before);
  mr_store_close(st);
}

typedef struct reading {
  mr_store_t *st;
  int worker;
} reading_t;

static void *read_on(void *arg) {
  reading_t *r = arg;
  for (int64_t k = 0; k < 400; k++) fetch_and_compare(r->st, r->worker, k * 7 + r->worker);
  return NULL;
}

static void workers_go_over_to_what_is_kept_one_by_one(void **state) {
  pthread_t thread[3];
  write_files(-1);
  reading_t r[3] = {{opened(ALL), 0}};
  for (int w = 0; w < 3; w++) {
    r[w] = (reading_t){r[0].st, w};
    assert_int_equal(pthread_create(&thread[w], NULL, read_on, &r[w]), 0);
  }
  for (int w = 0; w < 3; w++) pthread_join(thread[w], NULL);
  mr_store_close(r[0].st);
}

static void closing_does_not_wait_for_the_rest(void **state) {
  write_files(-1);
  for (int k = 0; k < 20; k++) {
    mr_store_t *st = opened(ALL);
    if (k % 2) fetch_and_compare(st, 0, k);
    mr_store_close(st);
  }
}

static void a_bad_record_is_reported_by_a_fetch_of_it_alone(void **state) {
  uint8_t *record;
  int64_t number, good = 7, bad = ALL - 1 - (PER_FILE + 1234);
  write_files(PER_FILE + 1234);
  for (int round = 0; round < 5; round++) {
    mr_diag_t d = {0};
    mr_store_t *st = opened(ALL);
    if (round == 4) usleep(100000); /* the thread has given up by now, most likely */
    assert_int_equal(mr_store_fetch(st, 0, &good, 1, &number, &record, &d), MR_OK);
    assert_int_equal(mr_store_fetch(st, 0, &bad, 1, &number, &record, &d), MR_ERR_DATA);
    assert_non_null(strstr(d.text, "b.bin: record 1234 is bad"));
    assert_int_equal(mr_store_fetch(st, 0, &good, 1, &number, &record, &d), MR_OK);
    assert_false(mr_store_kept(st));
    mr_store_close(st);
  }
}

static void few_records_are_kept_by_themselves(void **state) {
  enum { FEW = ALL / 2 - 100 }; /* a little less than half: 7.4 MB, so these come at open */
  write_files(-1);
  mr_store_t *st = opened(FEW);
  int64_t index[2] = {0, FEW - 1}, number[2];
  uint8_t *record[2];
  mr_diag_t d = {0};
  assert_true(mr_store_kept(st));
  assert_int_equal(mr_store_fetch(st, 0, index, 2, number, record, &d), MR_OK);
  for (int i = 0; i < 2; i++)
    for (int64_t k = 0; k < RECORD; k++)
      assert_int_equal(record[i][k], byte_at(ALL - 1 - index[i], k));
  mr_store_close(st);
}

static void burst_of(int64_t from, int64_t index[32]) {
  for (int i = 0; i < 32; i++) index[i] = (from + i * 977) % ALL;
}

/* What is read ahead is what comes, also when something else is fetched first; what was fetched
   last stays while the next is read. */
static void reads_ahead_change_no_record(void **state) {
  static const mr_read_way_t way[] = {MR_READ_PREAD, MR_READ_URING, MR_READ_DIRECT};
  write_files(-1);
  for (int w = 0; w < 3; w++) {
    mr_store_t *st = opened_with(ALL, 0, way[w]);
    if (!st) continue;
    int64_t index[32], number[32], next[32];
    uint8_t *record[32];
    mr_diag_t d = {0};
    for (int64_t k = 0; k < 200; k++) {
      burst_of(k * 13, index), burst_of((k + 1) * 13, next);
      assert_int_equal(mr_store_fetch(st, 0, index, 32, number, record, &d), MR_OK);
      if (k % 5) assert_true(mr_store_ahead(st, 0, NULL, 0));
      if (k % 5) assert_true(mr_store_ahead(st, 0, next, 32));
      if (k % 5) assert_false(mr_store_ahead(st, 0, next, 32)); /* one at a time */
      for (int i = 0; i < 32; i++)
        for (int64_t b = 0; b < RECORD; b += 96)
          assert_int_equal(record[i][b], byte_at(ALL - 1 - index[i], b));
      if (k % 7 == 0) fetch_and_compare(st, 0, k * 17); /* not what was announced */
    }
    burst_of(1, next);
    mr_store_ahead(st, 0, next, 32); /* closed over it */
    mr_store_close(st);
  }
}

static void nothing_is_read_ahead_where_that_is_not_wanted(void **state) {
  int64_t next[32];
  write_files(-1);
  in_turn = true;
  mr_store_t *st = opened_with(ALL, 0, MR_READ_PREAD);
  in_turn = false;
  burst_of(40, next);
  fetch_and_compare(st, 0, 0); /* its reader is open from here on */
  assert_false(mr_store_ahead(st, 0, NULL, 0));
  assert_false(mr_store_ahead(st, 0, next, 32));
  fetch_and_compare(st, 0, 40);
  mr_store_close(st);
}

static int setup(void **state) {
  strcpy(folder, "/tmp/millrace-store-XXXXXX");
  if (!mkdtemp(folder)) return -1;
  sprintf(path[0], "%s/a.bin", folder), sprintf(path[1], "%s/b.bin", folder);
  return setenv("MILLRACE_IO", "mmap", 1);
}

static int teardown(void **state) {
  for (int f = 0; f < FILES; f++) unlink(path[f]);
  return rmdir(folder);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(records_are_the_same_before_and_after_they_are_kept),
      cmocka_unit_test(workers_go_over_to_what_is_kept_one_by_one),
      cmocka_unit_test(closing_does_not_wait_for_the_rest),
      cmocka_unit_test(a_bad_record_is_reported_by_a_fetch_of_it_alone),
      cmocka_unit_test(reads_ahead_change_no_record),
      cmocka_unit_test(nothing_is_read_ahead_where_that_is_not_wanted),
      cmocka_unit_test(few_records_are_kept_by_themselves),
  };
  return cmocka_run_group_tests(tests, setup, teardown);
}
