/* An .npy file at a URL against the same file here: every record, kept in memory or read as it is
   due, from a server that misbehaves; and a file that changes. */
#include "tests/loaders/origin.h"
#include "tests/loaders/shards.h"

#include "base/npy.h"

extern const mr_stage_def_t mr_stage_npy;

enum { N = 700, REC = 3 * 5 * 7, HEAD_ROOM = MR_NPY_HEAD_MAX };

static uint8_t file[HEAD_ROOM + N * REC];
static size_t head, whole;
static origin_t origin;

static int start(void **state) {
  round_t r = {.x = 9};
  head = mr_npy_head(MR_U8, 4, (const int64_t[]){N, 3, 5, 7}, (char *)file);
  whole = head + N * REC;
  for (size_t i = head; i < whole; i++) file[i] = (uint8_t)draw(&r, 256);
  origin_open(&origin, file, whole, 3);
  unsetenv("http_proxy"), unsetenv("HTTP_PROXY"), unsetenv("all_proxy"), unsetenv("ALL_PROXY");
  return make_folder(state);
}

static int stop(void **state) {
  origin_close(&origin);
  return remove_folder(state);
}

/* Opens a stage that reads the file. */
static mr_err_t open_at_url(hand_t *h, const char *memory) {
  char fields[120];
  snprintf(fields, sizeof fields, "fields=x:http://127.0.0.1:%d/dir:1/x.npy?secret=1", origin.port);
  return hand_open(h, &mr_stage_npy, NULL,
                   HAND_SETTINGS(fields, memory, "retries=60", "backoff=0.001", "timeout=0.15"));
}

static void want_records(hand_t *h, round_t *r, burst_t *b) {
  int64_t index[MR_BURST];
  int n = 1 + draw(r, MR_BURST);
  for (int i = 0; i < n; i++) index[i] = draw(r, N);
  if (one_in(r, 2)) h->s.def->source->foresee(&h->s, index, n);
  mr_err_t e = burst_fetch(h, draw(r, 3), index, n, b);
  round_check(r, e == MR_OK, "%s", h->diag.text);
  for (int i = 0; i < n; i++) {
    round_check(r, (int64_t)b->rec[i].key == index[i], "key %d", (int)b->rec[i].key);
    round_check(r, !memcmp(b->value[i][0].data, file + head + index[i] * REC, REC), "record %d",
                (int)index[i]);
  }
}

static void every_record_is_that_of_the_file(void **state) {
  for (round_t r = round_first(6); round_next(&r);)
    for (int kept = 0; kept < 2; kept++) {
      hand_t h;
      origin.trouble = 25;
      mr_err_t e = open_at_url(&h, kept ? "memory=-1" : "memory=0");
      round_check(&r, e == MR_OK, "%s", h.diag.text);
      round_check(&r, h.s.out_spec[0].n_records == N, "records");
      round_check(&r, (h.s.def->source->foresee(&h.s, NULL, 0) < 0) == kept, "what is due");
      burst_t *b = burst_new(&h.s);
      for (int i = 0; i < 10; i++) want_records(&h, &r, b);
      burst_free(b);
      shards_close(&h);
      origin.trouble = 0;
    }
}

/* A part that was announced elsewhere than it is read would be requested twice. */
static void announced_records_are_requested_once(void **state) {
  hand_t h;
  char fields[60];
  int64_t index[N / 100];
  mr_asked_t before = {0}, after = {0};
  snprintf(fields, sizeof fields, "fields=x:http://127.0.0.1:%d/x.npy", origin.port);
  assert_int_equal(hand_open(&h, &mr_stage_npy, NULL, HAND_SETTINGS(fields, "memory=0")), MR_OK);
  burst_t *b = burst_new(&h.s);
  for (int i = 0; i < N / 100; i++) index[i] = (i * 300 + 5) % N; /* too far apart to be joined */
  assert_true(h.s.def->source->asked(&h.s, &before));
  h.s.def->source->foresee(&h.s, index, N / 100);
  assert_int_equal(burst_fetch(&h, 0, index, N / 100, b), MR_OK);
  assert_true(h.s.def->source->asked(&h.s, &after));
  assert_int_equal(after.requests - before.requests, N / 100);
  burst_free(b);
  shards_close(&h);
}

static void a_file_that_changes_is_one_clear_error(void **state) {
  hand_t h;
  int64_t index = 3;
  assert_int_equal(open_at_url(&h, "memory=0"), MR_OK);
  burst_t *b = burst_new(&h.s);
  assert_int_equal(burst_fetch(&h, 0, &index, 1, b), MR_OK);
  origin.etag++;
  assert_int_equal(burst_fetch(&h, 0, &index, 1, b), MR_ERR_DATA);
  assert_non_null(strstr(h.diag.text, "dir:1/x.npy: has changed since it was opened"));
  assert_null(strstr(h.diag.text, "secret"));
  origin.etag--;
  burst_free(b);
  shards_close(&h);
}

static void want_wrong(const char *piece) {
  hand_t h;
  assert_int_equal(open_at_url(&h, "memory=0"), MR_ERR_DATA);
  if (!strstr(h.diag.text, piece) || strstr(h.diag.text, "secret"))
    fail_msg("want '%s', got '%s'", piece, h.diag.text);
  shards_close(&h);
}

static void a_file_that_is_no_array_is_refused(void **state) {
  origin.n = whole - 1;
  want_wrong("holds 73499 data bytes, its shape wants 73500");
  origin.n = 5;
  want_wrong("not an .npy file");
  origin.n = whole;
  file[0] ^= 1;
  want_wrong("not an .npy file");
  file[0] ^= 1;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_record_is_that_of_the_file),
      cmocka_unit_test(announced_records_are_requested_once),
      cmocka_unit_test(a_file_that_changes_is_one_clear_error),
      cmocka_unit_test(a_file_that_is_no_array_is_refused),
  };
  return cmocka_run_group_tests(tests, start, stop);
}
