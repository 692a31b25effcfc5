/* ArrayRecord files of a server: a chunk crosses the wire once for all of its records, in any
   order of bursts that was announced, and in one that was not. */
#include "tests/loaders/arrayrecord.h"
#include "tests/loaders/origin.h"
#include "tests/loaders/shards.h"

extern const mr_stage_def_t mr_stage_arrayrecord;

enum { CHUNKS = 60, EACH = 40, RECORDS = CHUNKS * EACH, RECORD = 1000 };

static uint8_t content[RECORDS][RECORD];
static origin_t origin;
static ar_out_t file;

static int start(void **state) {
  round_t r = {.x = 3};
  size_t size[EACH];
  for (int i = 0; i < RECORDS; i++)
    for (int k = 0; k < RECORD; k++) content[i][k] = (uint8_t)round_bits(&r);
  for (int i = 0; i < EACH; i++) size[i] = RECORD;
  for (int c = 0; c < CHUNKS; c++) {
    image_t data = ar_plain(content[c * EACH], size, EACH);
    ar_records(&file, EACH, EACH * RECORD, &data);
    free(data.at);
  }
  ar_end(&file);
  origin_open(&origin, file.file.at, file.file.n, 78);
  origin.way = ORIGIN_WELL;
  unsetenv("http_proxy"), unsetenv("HTTP_PROXY"), unsetenv("all_proxy"), unsetenv("ALL_PROXY");
  return make_folder(state);
}

static int stop(void **state) {
  origin_close(&origin);
  ar_free(&file);
  return remove_folder(state);
}

/* Less memory than the file has bytes: what is not given back would stop what is fetched ahead. */
static void open_source(hand_t *h) {
  char url[80];
  snprintf(url, sizeof url, "files=http://127.0.0.1:%d/r.ar", origin.port);
  if (hand_open(h, &mr_stage_arrayrecord, NULL,
                HAND_SETTINGS(url, "fields=__record__:r", "ahead=1048576", "retries=0")) < 0)
    fail_msg("%s", h->diag.text);
  assert_int_equal(h->s.out_spec[0].n_records, RECORDS);
}

static void check_burst(hand_t *h, int worker, const int64_t *index, int n, burst_t *b) {
  if (burst_fetch(h, worker, index, n, b) < 0) fail_msg("%s", h->diag.text);
  for (int i = 0; i < n; i++) {
    assert_int_equal(b->rec[i].field[0].rows, RECORD);
    assert_memory_equal(b->rec[i].field[0].data, content[index[i]], RECORD);
  }
}

static void in_the_files_order_each_byte_is_sent_once(void **state) {
  hand_t h;
  open_source(&h);
  burst_t *b = burst_new(&h.s);
  int64_t index[MR_BURST];
  long long before = origin.sent; /* fetching begins with the first record that is announced */
  for (int64_t i = 0; i < RECORDS; i++) h.s.def->source->foresee(&h.s, &i, 1);
  for (int first = 0, n; first < RECORDS; first += n) {
    n = RECORDS - first < MR_BURST ? RECORDS - first : MR_BURST;
    for (int i = 0; i < n; i++) index[i] = first + i;
    check_burst(&h, 0, index, n, b);
  }
  assert_in_range(origin.sent - before, RECORDS * RECORD, (long long)file.file.n);
  burst_free(b), shards_close(&h);
}

static void any_order_of_workers_and_bursts_gives_the_records(void **state) {
  for (round_t r = round_first(6); round_next(&r);) {
    hand_t h;
    int64_t index[RECORDS];
    bool announced = !one_in(&r, 3);
    open_source(&h);
    burst_t *b = burst_new(&h.s);
    for (int i = 0; i < RECORDS; i++) {
      int k = (int)draw(&r, (uint64_t)i + 1);
      index[i] = index[k], index[k] = i;
    }
    for (int i = 0; i < RECORDS && announced; i++) h.s.def->source->foresee(&h.s, &index[i], 1);
    for (int first = 0, n; first < RECORDS / 4; first += n) {
      n = 1 + (int)draw(&r, MR_BURST);
      check_burst(&h, (int)draw(&r, 3), index + first, n, b);
    }
    burst_free(b), shards_close(&h);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(in_the_files_order_each_byte_is_sent_once),
      cmocka_unit_test(any_order_of_workers_and_bursts_gives_the_records),
  };
  return cmocka_run_group_tests(tests, start, stop);
}
