/* The scan that makes the indexes of remote files: what it reads is not requested again, neither
   when records are read, nor by other processes that begin at the same time. */
#include <fcntl.h>
#include <sys/file.h>

#include "tests/loaders/origin.h"
#include "tests/loaders/shards.h"
#include "tests/port.h"

#include "tests/child.h" /* after cmocka.h */

extern const mr_stage_def_t mr_stage_table;

enum { FILES = 6, ROWS = 20000, PROCESSES = 3 };

static origin_t origin;
static image_t table; /* what each of the files is */

static int start(void **state) {
  round_t r = {.x = 3};
  char row[80];
  image_add(&table, "id,text\n", 8);
  for (int i = 0; i < ROWS; i++) {
    int n = snprintf(row, sizeof row, "%d,%0*d\n", i, 1 + (int)draw(&r, 40), i);
    image_add(&table, row, (size_t)n);
  }
  origin_open(&origin, table.at, table.n, 78);
  origin.way = ORIGIN_WELL;
  unsetenv("http_proxy"), unsetenv("HTTP_PROXY"), unsetenv("all_proxy"), unsetenv("ALL_PROXY");
  return make_folder(state);
}

static int stop(void **state) {
  origin_close(&origin);
  free(table.at);
  return remove_folder(state);
}

static mr_err_t open_tables(hand_t *h, const char *cache, const char *size) {
  static char files[80], folder_of[200], size_of[40]; /* the settings are not copied */
  snprintf(files, sizeof files, "files=http://127.0.0.1:%d/t{0..%d}.csv", origin.port, FILES - 1);
  snprintf(folder_of, sizeof folder_of, "cache=%s", in_folder(cache));
  snprintf(size_of, sizeof size_of, "cache-size=%s", size);
  return hand_open(h, &mr_stage_table, NULL,
                   HAND_SETTINGS(files, folder_of, size_of, "cache-block=16384", "fields=id,text",
                                 "timeout=60", "hedge=0", "retries=0"));
}

/* Reads all rows in an order drawn from the seed; NULL, or what is wrong. */
static const char *read_rows(hand_t *h, uint64_t seed) {
  static int64_t order[FILES * ROWS];
  static burst_t *b;
  round_t r = {.x = seed};
  if (h->s.out_spec[0].n_records != FILES * ROWS) return "another number of rows";
  for (int i = 0; i < FILES * ROWS; i++) {
    int k = (int)draw(&r, (uint64_t)i + 1);
    order[i] = order[k], order[k] = i;
  }
  b = burst_new(&h->s);
  for (int i = 0; i < FILES * ROWS; i += MR_BURST)
    h->s.def->source->foresee(&h->s, order + i, MR_BURST);
  for (int i = 0; i < FILES * ROWS; i += MR_BURST) {
    if (burst_fetch(h, 0, order + i, MR_BURST, b) < 0) return h->diag.text;
    for (int k = 0; k < MR_BURST; k++)
      if (*(const int64_t *)b->rec[k].field[0].data != order[i + k] % ROWS) return "another row";
  }
  burst_free(b);
  return NULL;
}

_Static_assert(FILES *ROWS % MR_BURST == 0, "bursts are whole");

static void bytes_that_the_scan_has_read_are_not_requested_again(void **state) {
  hand_t h;
  long long before = origin.sent;
  if (open_tables(&h, "one", "100MB") < 0) fail_msg("%s", h.diag.text);
  const char *wrong = read_rows(&h, 1);
  if (wrong) fail_msg("%s", wrong);
  shards_close(&h);
  assert_int_equal(origin.sent - before, FILES * (long long)(table.n + 1));
}

/* A cache that holds a part of the files is not exceeded, and what it holds is a hit. */
static void a_small_cache_keeps_what_it_has_room_for(void **state) {
  hand_t h;
  long long before = origin.sent, whole = FILES * (long long)(table.n + 1);
  if (open_tables(&h, "small", "1MB") < 0) fail_msg("%s", h.diag.text);
  long long scanned = origin.sent - before;
  const char *wrong = read_rows(&h, 2);
  if (wrong) fail_msg("%s", wrong);
  mr_asked_t asked = {0};
  assert_true(h.s.def->source->asked(&h.s, &asked));
  shards_close(&h);
  assert_int_equal(scanned, whole);
  assert_true(asked.hits > 0 && asked.hits < asked.uses);
}

/* Whether something has the cache open, which then evicts nothing. */
static bool cache_is_open(const char *cache) {
  char used[200];
  snprintf(used, sizeof used, "%s/used", in_folder(cache));
  int fd = open(used, O_RDWR);
  assert_true(fd >= 0);
  bool free_of_locks = flock(fd, LOCK_EX | LOCK_NB) == 0;
  close(fd);
  return !free_of_locks;
}

static void a_source_of_another_process_gives_the_cache_back(void **state) {
  char files[80], folder_of[200];
  hand_t h;
  snprintf(files, sizeof files, "files=http://127.0.0.1:%d/t0.csv", origin.port);
  snprintf(folder_of, sizeof folder_of, "cache=%s", in_folder("elsewhere"));
  if (hand_plan(&h, &mr_stage_table, NULL,
                HAND_SETTINGS(files, folder_of, "fields=id,text", "index=/proc/none")) < 0)
    fail_msg("%s", h.diag.text);
  assert_true(cache_is_open("elsewhere"));
  h.s.def->forget(&h.s);
  h.s.elsewhere = true;
  if (h.s.def->plan(&h.s) < 0) fail_msg("%s", h.diag.text);
  assert_false(cache_is_open("elsewhere"));
  assert_int_equal(h.s.out_spec[0].n_records, ROWS);
  assert_true(h.s.def->source->objects(&h.s) != 0);
  h.s.def->forget(&h.s);
  free(h.s.state);
}

/* What a process of the test does that opens all tables. */
static int index_all(char **arg) {
  hand_t h;
  mr_err_t e = open_tables(&h, arg[0], "100MB");
  if (e < 0) return fprintf(stderr, "%s\n", h.diag.text), 1;
  bool good = h.s.out_spec[0].n_records == FILES * ROWS;
  shards_close(&h);
  return !good;
}

/* A process of the test: be_worker does what it is for. */
static pid_t start_worker(int said, int go, const char *arg1, const char *arg2) {
  char port[12];
  snprintf(port, sizeof port, "%d", origin.port);
  return start_anew(said, go, (const char *const[]){folder, port, arg1, arg2, NULL});
}

/* Each file is scanned by one of them. */
static void processes_that_begin_at_once_share_the_scan(void **state) {
  pid_t child[PROCESSES];
  int status;
  long long before = origin.sent;
  for (int i = 0; i < PROCESSES; i++) {
    child[i] = start_worker(-1, -1, "shared", NULL);
    assert_true(child[i] > 0);
  }
  for (int i = 0; i < PROCESSES; i++) {
    assert_int_equal(waitpid(child[i], &status, 0), child[i]);
    assert_int_equal(status, 0);
  }
  assert_int_equal(origin.sent - before, FILES * (long long)(table.n + PROCESSES));
  hand_t h; /* and the blocks are there */
  if (open_tables(&h, "shared", "100MB") < 0) fail_msg("%s", h.diag.text);
  const char *wrong = read_rows(&h, 3);
  if (wrong) fail_msg("%s", wrong);
  shards_close(&h);
  assert_int_equal(origin.sent - before, FILES * (long long)(table.n + PROCESSES + 1));
}

/* What a process of the test does that opens a table as one of two peers, says a byte, and answers
   until it hears one. */
static int index_as_peer(int said, int go, char **arg) {
  hand_t h;
  char byte;
  char files[80], folder_of[200], peer[60], all[100];
  snprintf(files, sizeof files, "files=http://127.0.0.1:%d/t0.csv", origin.port);
  snprintf(folder_of, sizeof folder_of, "cache=%s", in_folder("peers"));
  snprintf(peer, sizeof peer, "peer=%s", arg[0]), snprintf(all, sizeof all, "peers=%s", arg[1]);
  mr_err_t e =
      hand_open(&h, &mr_stage_table, NULL,
                HAND_SETTINGS(files, folder_of, peer, all, "peer-token=0123456789abcdef",
                              "fields=id,text:text:bytes", "timeout=60", "hedge=0", "retries=0"));
  if (e < 0) fprintf(stderr, "%s\n", h.diag.text);
  if (write(said, "y", 1) != 1 || read(go, &byte, 1) != 1) return 2;
  if (e >= 0) shards_close(&h);
  return e < 0 || n_notices;
}

/* One scans, and waits for its peers before; the other waits for that scan.  A peer that did not
   answer in time would be a notice. */
static void a_process_that_waits_for_a_scan_answers_its_peers(void **state) {
  char name[2][40], peers[90];
  pid_t child[2];
  int status, said[2], go[2];
  assert_int_equal(pipe2(said, O_CLOEXEC) | pipe2(go, O_CLOEXEC), 0);
  for (int i = 0; i < 2; i++) {
    int port = port_free();
    snprintf(name[i], sizeof name[i], "127.0.0.1:%d", port);
  }
  snprintf(peers, sizeof peers, "%s,%s", name[0], name[1]);
  for (int i = 0; i < 2; i++) {
    child[i] = start_worker(said[1], go[0], name[i], peers);
    assert_true(child[i] > 0);
  }
  close(said[1]), close(go[0]); /* a process that dies is the end of what is said */
  for (int i = 0; i < 2; i++) assert_int_equal(read(said[0], peers, 1), 1);
  assert_int_equal(write(go[1], "gg", 2), 2);
  for (int i = 0; i < 2; i++) {
    assert_int_equal(waitpid(child[i], &status, 0), child[i]);
    assert_int_equal(status, 0);
  }
  close(said[0]), close(go[1]);
}

static int be_worker(int argc, char **argv) {
  int said = atoi(argv[1]), go = atoi(argv[2]);
  snprintf(folder, sizeof folder, "%s", argv[3]), origin.port = atoi(argv[4]);
  mr_notice_to(count_notice, NULL);
  return argc > 6 ? index_as_peer(said, go, argv + 5) : index_all(argv + 5);
}

int main(int argc, char **argv) {
  if (argc > 1) return be_worker(argc, argv);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(bytes_that_the_scan_has_read_are_not_requested_again),
      cmocka_unit_test(a_small_cache_keeps_what_it_has_room_for),
      cmocka_unit_test(a_source_of_another_process_gives_the_cache_back),
      cmocka_unit_test(processes_that_begin_at_once_share_the_scan),
      cmocka_unit_test(a_process_that_waits_for_a_scan_answers_its_peers),
  };
  return cmocka_run_group_tests(tests, start, stop);
}
