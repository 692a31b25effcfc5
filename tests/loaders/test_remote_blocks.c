/* Blocks whose use was not announced: what a load gives was read, whatever becomes of the files of
   the cache, and answers to peers end when the reading does. */
#include "base/clock.h"
#include "loaders/remote/remote_private.h"
#include "loaders/remote/remote_window_private.h"
#include "tests/loaders/origin.h"
#include "tests/loaders/shards.h"

enum { BLOCK = 1 << 20, BLOCKS = 30, BYTES = BLOCK * BLOCKS, BIG = 5 * BLOCK };

static uint8_t *content, *room;
static origin_t origin;

/* ---- the disk ---- */

static atomic_bool stands_still;
int __real_link(const char *from, const char *to);
int __wrap_link(const char *from, const char *to);

int __wrap_link(const char *from, const char *to) {
  while (stands_still) usleep(1000);
  return __real_link(from, to);
}

static int start(void **state) {
  content = malloc(BYTES), room = malloc(BYTES);
  if (!content || !room) return -1;
  for (size_t i = 0; i < BYTES; i++) content[i] = (uint8_t)(i * 2654435761u >> 24);
  origin_open(&origin, content, BYTES, 78);
  origin.way = ORIGIN_WELL;
  unsetenv("http_proxy"), unsetenv("HTTP_PROXY"), unsetenv("all_proxy"), unsetenv("ALL_PROXY");
  return make_folder(state);
}

static int stop(void **state) {
  origin_close(&origin);
  free(content), free(room);
  return remove_folder(state);
}

static mr_remote_t *open_cached(const char *cache, const char *size, int64_t block,
                                const mr_object_t **o) {
  const mr_remote_conf_t conf = {.connections = 8,
                                 .retries = 5,
                                 .timeout = 60,
                                 .ahead = 1 << 20,
                                 .cache = in_folder(cache),
                                 .cache_size = size,
                                 .cache_block = block};
  char url[64];
  mr_remote_t *remote;
  mr_diag_t diag = {0};
  snprintf(url, sizeof url, "http://127.0.0.1:%d/x", origin.port);
  if (mr_remote_open(&remote, &conf, &diag) < 0 || mr_remote_object(remote, url, o, &diag) < 0)
    fail_msg("%s", diag.text);
  return remote;
}

static void load_all(mr_remote_t *remote, const mr_object_t *o) {
  mr_remote_want_t want = {o, 0, BYTES, room};
  mr_diag_t diag = {0};
  memset(room, 0, BYTES);
  if (mr_remote_load(remote, &want, true, &diag) < 0) fail_msg("%s", diag.text);
  assert_memory_equal(room, content, BYTES);
}

/* A file of another user, say, that is there and cannot be opened, however often. */
static void blocks_that_cannot_be_opened_are_asked_of_the_server(void **state) {
  const mr_object_t *o;
  char command[1024];
  mr_remote_t *remote = open_cached("links", "100MB", BLOCK, &o);
  load_all(remote, o);
  mr_remote_close(remote);
  snprintf(command, sizeof command,
           "cd '%s' && for f in */*.object; do mv $f $f.x && ln -s ${f#*/}.x $f; done",
           in_folder("links"));
  assert_int_equal(system(command), 0);
  remote = open_cached("links", "100MB", BLOCK, &o);
  load_all(remote, o);
  mr_remote_close(remote);
}

/* A long load takes place in parts, which share no block. */
static void blocks_that_are_not_kept_are_requested_once(void **state) {
  const mr_object_t *o;
  long long before = origin.sent;
  mr_remote_t *remote = open_cached("parts", "5MiB", BIG, &o);
  load_all(remote, o);
  mr_remote_close(remote);
  assert_int_equal(origin.sent - before, BYTES + 1); /* and a byte that identifies the object */
}

/* ---- answers ---- */

typedef struct answer {
  mr__window_t *w;
  const mr_object_t *o;
  atomic_bool over;
  mr_err_t e;
} answer_t;

static void *answer_main(void *arg) {
  static uint8_t to[BLOCK];
  answer_t *a = arg;
  a->e = mr__window_serve(a->w, a->o, BYTES - BLOCK, BLOCK, to);
  a->over = true;
  return NULL;
}

/* An answer that waits for the disk does not wait for it any more, and asks no server. */
static void answers_end_when_the_reading_does(void **state) {
  const mr_object_t *o;
  mr_remote_t *remote = open_cached("ended", "1MB", 1 << 16, &o);
  const mr_remote_conf_t conf = {.connections = 8, .retries = 5, .timeout = 60, .ahead = 1 << 20};
  mr__engine_t *engine;
  mr__cache_t *cache;
  mr_diag_t diag = {0};
  pthread_t thread;
  if (mr__engine_open(&engine, &conf, "", &diag) < 0 ||
      mr__cache_open(&cache, in_folder("answers"), 2 * BYTES, conf.ahead, BLOCK, false, &diag) < 0)
    fail_msg("%s", diag.text);
  mr__window_conf_t how = {.engine = engine,
                           .ahead = conf.ahead,
                           .connections = conf.connections,
                           .cache = cache,
                           .block = BLOCK,
                           .patience = 240,
                           .capacity = BLOCKS};
  answer_t a = {.w = mr__window_create(&how), .o = o};
  stands_still = true;
  for (int i = 0; i < 8; i++) /* what waits to be written is the share of answers then */
    assert_int_equal(mr__window_serve(a.w, o, i * BLOCK, BLOCK, room), MR_OK);
  int requests = origin.requests;
  assert_int_equal(pthread_create(&thread, NULL, answer_main, &a), 0);
  usleep(300000);
  assert_false(a.over);
  int64_t begun = mr_now_ns();
  mr__window_end_serving(a.w);
  pthread_join(thread, NULL);
  assert_int_equal(a.e, MR_ERR_CANCEL);
  assert_true(mr_now_ns() - begun < (int64_t)30 * 1000000000); /* it would wait for a minute */
  usleep(100000);
  assert_int_equal(origin.requests, requests);
  stands_still = false;
  mr__engine_close(engine);
  mr__window_destroy(a.w);
  mr__cache_close(cache);
  mr_remote_close(remote);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(blocks_that_cannot_be_opened_are_asked_of_the_server),
      cmocka_unit_test(blocks_that_are_not_kept_are_requested_once),
      cmocka_unit_test(answers_end_when_the_reading_does),
  };
  return cmocka_run_group_tests(tests, start, stop);
}
