/* The window's memory: it knows units of the near future and of the cache, and forgets all others,
   however many blocks a run reads. */
#include "loaders/remote/remote_private.h"
#include "loaders/remote/remote_window_private.h"
#include "tests/loaders/origin.h"
#include "tests/loaders/shards.h"

enum { BLOCK = 4096, BLOCKS = 3000, BYTES = BLOCK * BLOCKS, KEPT = 40, VIEW = 50 };

static uint8_t content[BYTES];
static origin_t origin;

static int start(void **state) {
  round_t r = {.x = 5};
  for (int i = 0; i < BYTES; i++) content[i] = (uint8_t)draw(&r, 256);
  origin_open(&origin, content, BYTES, 78);
  origin.way = ORIGIN_WELL;
  unsetenv("http_proxy"), unsetenv("HTTP_PROXY"), unsetenv("all_proxy"), unsetenv("ALL_PROXY");
  return make_folder(state);
}

static int stop(void **state) {
  origin_close(&origin);
  return remove_folder(state);
}

/* Reads all blocks in a new order, with VIEW of them known ahead; returns the most units. */
static int32_t read_blocks_of(mr__window_t *w, const mr_object_t *o, uint64_t seed) {
  static uint8_t room[BLOCK];
  static int order[BLOCKS];
  round_t r = {.x = seed};
  mr_diag_t diag = {0};
  for (int i = 0; i < BLOCKS; i++) {
    int k = (int)draw(&r, (uint64_t)i + 1);
    order[i] = order[k], order[k] = i;
  }
  for (int i = 0, reported = 0; i < BLOCKS; i++) {
    mr_remote_want_t want = {o, (int64_t)order[i] * BLOCK, BLOCK, room};
    for (; reported < BLOCKS && reported < i + VIEW; reported++) {
      mr_remote_want_t next = {o, (int64_t)order[reported] * BLOCK, BLOCK, NULL};
      mr__window_tell(w, &next, 1);
    }
    mr_err_t e = mr__window_take(w, &want, &diag);
    if (e != MR_OK) fail_msg("block %d: %d %s", order[i], (int)e, diag.text);
    assert_memory_equal(room, content + want.at, BLOCK);
  }
  return w->n_units;
}

static void units_without_a_future_are_forgotten(void **state) {
  char url[64], size[32];
  snprintf(url, sizeof url, "http://127.0.0.1:%d/x", origin.port);
  snprintf(size, sizeof size, "%d", KEPT * BLOCK);
  for (int cached = 0; cached < 2; cached++) {
    const mr_remote_conf_t conf = {
        .connections = 8, .retries = 5, .timeout = 60, .backoff = 0.01, .ahead = 1 << 20};
    mr_remote_t *remote;
    mr__engine_t *engine;
    mr__cache_t *cache = NULL;
    const mr_object_t *o;
    mr_diag_t diag = {0};
    if (mr_remote_open(&remote, &conf, &diag) < 0 || mr_remote_object(remote, url, &o, &diag) < 0 ||
        mr__engine_open(&engine, &conf, "", &diag) < 0 ||
        (cached && mr__cache_open(&cache, in_folder("units"), KEPT * BLOCK, conf.ahead, BLOCK,
                                  false, &diag) < 0))
      fail_msg("%s", diag.text);
    mr__window_conf_t how = {.engine = engine,
                             .ahead = conf.ahead,
                             .connections = conf.connections,
                             .cache = cache,
                             .block = BLOCK,
                             .patience = 60,
                             .capacity = cached ? KEPT : 0};
    mr__window_t *w = mr__window_create(&how);
    assert_non_null(w);
    for (uint64_t seed = 1; seed <= 3; seed++) {
      int32_t units = read_blocks_of(w, o, seed);
      if (units > BLOCKS / 4) fail_msg("%d units of %d blocks", (int)units, BLOCKS);
    }
    mr__engine_close(engine);
    mr__window_destroy(w);
    mr__cache_close(cache);
    mr_remote_close(remote);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(units_without_a_future_are_forgotten)};
  return cmocka_run_group_tests(tests, start, stop);
}
