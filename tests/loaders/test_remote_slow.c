/* A cache on a disk that takes nothing: every byte comes, and what waits to be written stays
   bounded. The disk stands still for as long as records are read. */
#include "loaders/remote/remote_private.h"
#include "tests/loaders/origin.h"
#include "tests/loaders/shards.h"

enum { BLOCK = 65536, BLOCKS = 800, BYTES = BLOCK * BLOCKS };

static uint8_t *content;
static origin_t origin;

/* ---- the disk ---- */

static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t opened = PTHREAD_COND_INITIALIZER;
static bool stands_still;
static atomic_bool is_slow;

int __real_link(const char *from, const char *to);
int __wrap_link(const char *from, const char *to);

int __wrap_link(const char *from, const char *to) {
  pthread_mutex_lock(&gate);
  while (stands_still) pthread_cond_wait(&opened, &gate);
  pthread_mutex_unlock(&gate);
  if (is_slow) usleep(1000);
  return __real_link(from, to);
}

static void move_disk(bool moves) {
  pthread_mutex_lock(&gate);
  stands_still = !moves;
  pthread_cond_broadcast(&opened);
  pthread_mutex_unlock(&gate);
}

static int start(void **state) {
  content = malloc(BYTES);
  if (!content) return -1;
  for (size_t i = 0; i < BYTES; i++) content[i] = (uint8_t)(i * 2654435761u >> 24);
  origin_open(&origin, content, BYTES, 78);
  unsetenv("http_proxy"), unsetenv("HTTP_PROXY"), unsetenv("all_proxy"), unsetenv("ALL_PROXY");
  return make_folder(state);
}

static int stop(void **state) {
  origin_close(&origin);
  free(content);
  return remove_folder(state);
}

static mr_remote_t *open_cached(const char *cache, double timeout, const mr_object_t **o) {
  const mr_remote_conf_t conf = {.connections = 8,
                                 .retries = 5,
                                 .timeout = timeout,
                                 .ahead = 1 << 20,
                                 .cache = in_folder(cache),
                                 .cache_size = "1GB",
                                 .cache_block = BLOCK};
  char url[64];
  mr_remote_t *remote;
  mr_diag_t diag = {0};
  snprintf(url, sizeof url, "http://127.0.0.1:%d/x", origin.port);
  if (mr_remote_open(&remote, &conf, &diag) < 0 || mr_remote_object(remote, url, o, &diag) < 0 ||
      mr_remote_start(remote, &diag) < 0)
    fail_msg("%s", diag.text);
  return remote;
}

static void a_disk_that_stands_still_stops_no_reading(void **state) {
  static uint8_t room[BLOCK];
  const mr_object_t *o;
  mr_remote_counts_t counts;
  mr_diag_t diag = {0};
  mr_remote_t *remote = open_cached("slow", 30, &o);
  for (int i = 0; i < BLOCKS; i++) {
    mr_remote_want_t want = {o, (int64_t)((i * 7) % BLOCKS) * BLOCK, BLOCK, NULL};
    mr_remote_tell(remote, &want, 1);
  }
  int before = n_notices;
  move_disk(false);
  for (int i = 0; i < BLOCKS; i++) {
    int64_t at = (int64_t)((i * 7) % BLOCKS) * BLOCK;
    mr_remote_want_t want = {o, at, BLOCK, room};
    if (mr_remote_read(remote, &want, 1, &diag) < 0) fail_msg("%s", diag.text);
    assert_memory_equal(room, content + at, BLOCK);
  }
  mr_remote_count(remote, &counts);
  move_disk(true);
  mr_remote_close(remote);
  assert_true(counts.unkept > 0 && counts.unkept < BLOCKS);
  assert_int_equal(n_notices, before + 1);
}

/* Loads everything in pieces of half the bytes; returns the blocks that were not kept. */
static int64_t load_halves(mr_remote_t *remote, const mr_object_t *o) {
  uint8_t *room = calloc(1, BYTES);
  mr_remote_counts_t counts;
  mr_diag_t diag = {0};
  for (int i = 0; i < 2; i++) {
    mr_remote_want_t want = {o, (int64_t)i * (BYTES / 2), BYTES / 2, room + i * (BYTES / 2)};
    if (mr_remote_load(remote, &want, true, &diag) < 0) fail_msg("%s", diag.text);
  }
  assert_memory_equal(room, content, BYTES);
  free(room);
  mr_remote_count(remote, &counts);
  return counts.unkept;
}

static void a_disk_that_stands_still_stops_no_load(void **state) {
  const mr_object_t *o;
  mr_remote_t *remote = open_cached("still", 1, &o);
  move_disk(false);
  int64_t unkept = load_halves(remote, o);
  move_disk(true);
  assert_true(unkept > 0 && unkept < BLOCKS);
  mr_remote_close(remote);
}

/* The disk takes one block a millisecond, and more come from the server. */
static void a_load_keeps_pace_with_a_slow_disk(void **state) {
  const mr_object_t *o;
  long long before = origin.sent;
  mr_remote_t *remote = open_cached("paced", 30, &o);
  is_slow = true;
  assert_int_equal(load_halves(remote, o), 0);
  is_slow = false;
  mr_remote_close(remote);
  remote = open_cached("paced", 30, &o); /* all blocks are there */
  assert_int_equal(load_halves(remote, o), 0);
  mr_remote_close(remote);
  assert_int_equal(origin.sent - before, BYTES + 2); /* and bytes that identify the object */
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_disk_that_stands_still_stops_no_reading),
      cmocka_unit_test(a_disk_that_stands_still_stops_no_load),
      cmocka_unit_test(a_load_keeps_pace_with_a_slow_disk),
  };
  return cmocka_run_group_tests(tests, start, stop);
}
