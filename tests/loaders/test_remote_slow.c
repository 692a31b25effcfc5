/* A cache on a disk that takes nothing: every byte comes, and what waits to be written stays
   bounded. The disk stands still for as long as records are read. */
#include "loaders/remote_private.h"
#include "tests/loaders/origin.h"
#include "tests/loaders/shards.h"

enum { BLOCK = 65536, BLOCKS = 800, BYTES = BLOCK * BLOCKS };

static uint8_t *content;
static origin_t origin;

/* ---- the disk ---- */

static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t opened = PTHREAD_COND_INITIALIZER;
static bool stands_still;

int __real_link(const char *from, const char *to);
int __wrap_link(const char *from, const char *to);

int __wrap_link(const char *from, const char *to) {
  pthread_mutex_lock(&gate);
  while (stands_still) pthread_cond_wait(&opened, &gate);
  pthread_mutex_unlock(&gate);
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

static void a_disk_that_stands_still_stops_no_reading(void **state) {
  static uint8_t room[BLOCK];
  char url[64];
  const mr_remote_conf_t conf = {.connections = 8,
                                 .retries = 5,
                                 .timeout = 30,
                                 .ahead = 1 << 20,
                                 .cache = in_folder("slow"),
                                 .cache_size = "1GB",
                                 .cache_block = BLOCK};
  const mr_object_t *o;
  mr_remote_t *remote;
  mr_remote_counts_t counts;
  mr_diag_t diag = {0};
  snprintf(url, sizeof url, "http://127.0.0.1:%d/x", origin.port);
  if (mr_remote_open(&remote, &conf, &diag) < 0 || mr_remote_object(remote, url, &o, &diag) < 0 ||
      mr_remote_start(remote, &diag) < 0)
    fail_msg("%s", diag.text);
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

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_disk_that_stands_still_stops_no_reading),
  };
  return cmocka_run_group_tests(tests, start, stop);
}
