/* What is fetched ahead, and the cache: random orders of records from a server that misbehaves and
   a folder that others write into; every byte is right, and the hits are those of Belady's rule. */
#include <fcntl.h>

#include "loaders/belady.h"
#include "loaders/remote_cache.h"
#include "loaders/remote_private.h"
#include "loaders/shard_index.h"
#include "tests/loaders/origin.h"
#include "tests/loaders/shards.h"

enum { BYTES = 400000, BLOCK = 4096, BLOCKS = (BYTES + BLOCK - 1) / BLOCK, PARTS_MOST = 2000 };

static uint8_t content[BYTES];
static origin_t origin;

static int start(void **state) {
  round_t r = {.x = 5};
  for (int i = 0; i < BYTES; i++) content[i] = (uint8_t)draw(&r, 256);
  origin_open(&origin, content, BYTES, 78);
  unsetenv("http_proxy"), unsetenv("HTTP_PROXY"), unsetenv("all_proxy"), unsetenv("ALL_PROXY");
  return make_folder(state);
}

static int stop(void **state) {
  origin_close(&origin);
  return remove_folder(state);
}

static const mr_remote_conf_t usual = {.connections = 8,
                                       .retries = 40,
                                       .backoff = 0.001,
                                       .timeout = 0.06,
                                       .hedge = 4,
                                       .ahead = 65536,
                                       .cache_block = BLOCK};

static mr_remote_t *open_started(const mr_remote_conf_t *conf, const mr_object_t **o) {
  char url[64];
  mr_remote_t *remote;
  mr_diag_t diag = {0};
  snprintf(url, sizeof url, "http://127.0.0.1:%d/x", origin.port);
  if (mr_remote_open(&remote, conf, &diag) < 0 || mr_remote_object(remote, url, o, &diag) < 0 ||
      mr_remote_start(remote, &diag) < 0)
    fail_msg("%s", diag.text);
  return remote;
}

typedef struct order {
  int64_t at[PARTS_MOST], size[PARTS_MOST];
  int n;
} order_t;

/* Parts of random sizes; neighbours now and then, as in a sequential order. */
static void draw_parts(round_t *r, order_t *o, int n) {
  o->n = n;
  for (int i = 0; i < n; i++) {
    int64_t size = (int64_t)draw(r, one_in(r, 10) ? 3 * BLOCK : 900), at;
    at = i && one_in(r, 3) ? o->at[i - 1] + o->size[i - 1] : (int64_t)draw(r, BYTES);
    if (at + size > BYTES) at = BYTES - size;
    o->at[i] = at, o->size[i] = size;
  }
}

/* Reads all parts in order, in bursts, with what is known of the future in steps of `view`; parts
   that are announced and not read, and read and not announced, too.  Returns what is wrong. */
static const char *read_parts(round_t *r, mr_remote_t *remote, const mr_object_t *o,
                              const order_t *p, int view, bool exact) {
  static char text[1100];
  static uint8_t room[32][3 * BLOCK];
  int told = 0;
  for (int i = 0; i < p->n;) {
    mr_remote_want_t want[32];
    mr_diag_t diag = {0};
    int n = 1 + (int)draw(r, 32);
    if (n > p->n - i) n = p->n - i;
    for (; told < p->n && told < i + n + view; told++) {
      mr_remote_want_t w = {o, p->at[told], p->size[told], NULL};
      if (exact || !one_in(r, 20)) mr_remote_tell(remote, &w, 1);
    }
    for (int k = 0; k < n; k++)
      want[k] = (mr_remote_want_t){o, p->at[i + k], p->size[i + k], room[k]};
    if (exact || !one_in(r, 20)) {
      if (mr_remote_read(remote, want, n, &diag) < 0) {
        snprintf(text, sizeof text, "%s", diag.text);
        return text;
      }
      for (int k = 0; k < n; k++)
        if (memcmp(room[k], content + want[k].at, (size_t)want[k].size))
          return snprintf(text, sizeof text, "part %d is wrong", i + k), text;
    }
    i += n;
  }
  return NULL;
}

/* Hits of the rule itself on the same blocks. */
static int64_t rule_hits(const order_t *p, uint32_t capacity, int64_t *uses) {
  mr_belady_t *b = mr_belady_new(capacity);
  int64_t hits = 0;
  mr_belady_use_t u;
  *uses = 0;
  for (int i = 0; i < p->n; i++)
    for (int64_t k = p->at[i] / BLOCK; p->size[i] && k <= (p->at[i] + p->size[i] - 1) / BLOCK; k++)
      assert_true(mr_belady_tell(b, (uint32_t)k));
  while (mr_belady_take(b, &u)) hits += u.hit, ++*uses;
  mr_belady_free(b);
  return hits;
}

static void the_cache_hits_as_often_as_can_be(void **state) {
  static order_t p;
  for (round_t r = round_first(12); round_next(&r);) {
    const mr_object_t *o;
    mr_remote_counts_t counts;
    char name[32], size[32];
    uint32_t capacity = 1 + (uint32_t)draw(&r, BLOCKS);
    snprintf(name, sizeof name, "exact-%llu", (unsigned long long)r.seed);
    snprintf(size, sizeof size, "%d", (int)capacity * BLOCK);
    mr_remote_conf_t conf = usual;
    conf.cache = in_folder(name), conf.cache_size = size;
    draw_parts(&r, &p, PARTS_MOST / 2);
    origin.trouble = one_in(&r, 2) ? 4 : 0;
    mr_remote_t *remote = open_started(&conf, &o);
    const char *wrong = read_parts(&r, remote, o, &p, PARTS_MOST, true);
    mr_remote_count(remote, &counts);
    mr_remote_close(remote);
    round_check(&r, !wrong, "%s", wrong);
    int64_t uses, best = rule_hits(&p, capacity, &uses);
    round_check(&r, counts.uses == uses && counts.hits == best && !counts.lost,
                "%lld hits of %lld, %lld lost; the rule has %lld of %lld", (long long)counts.hits,
                (long long)counts.uses, (long long)counts.lost, (long long)best, (long long)uses);
  }
}

static void any_order_and_view_gives_the_right_bytes(void **state) {
  static order_t p;
  for (round_t r = round_first(25); round_next(&r);) {
    const mr_object_t *o;
    char size[32];
    mr_remote_conf_t conf = usual;
    snprintf(size, sizeof size, "%d", (1 + (int)draw(&r, BLOCKS)) * BLOCK);
    conf.cache_size = size;
    if (one_in(&r, 2)) conf.cache = in_folder("shared"); /* with what rounds before have left */
    conf.ahead = 4096 << draw(&r, 8);
    origin.trouble = one_in(&r, 2) ? 4 : 0;
    draw_parts(&r, &p, (int)draw(&r, origin.trouble ? PARTS_MOST / 5 : PARTS_MOST));
    mr_remote_t *remote = open_started(&conf, &o);
    const char *wrong = read_parts(&r, remote, o, &p, (int)draw(&r, 400), false);
    mr_remote_close(remote);
    round_check(&r, !wrong, "%s", wrong);
  }
}

/* ---- a folder that others write into ---- */

/* Calls fn for each block of the folder, with what it holds. */
static int each_block(const char *cache, round_t *r, void (*fn)(round_t *, const char *, long)) {
  char command[256], path[512];
  int n = 0;
  snprintf(command, sizeof command, "find '%s' -name '*.block' | sort", in_folder(cache));
  FILE *list = popen(command, "r");
  while (fgets(path, sizeof path, list)) {
    struct stat st;
    path[strcspn(path, "\n")] = 0;
    if (stat(path, &st) == 0) n++, fn(r, path, (long)st.st_size);
  }
  pclose(list);
  return n;
}

static void only_count(round_t *r, const char *path, long size) {}

static void damage_block(round_t *r, const char *path, long size) {
  uint8_t byte;
  char other[600];
  int fd = open(path, O_RDWR);
  long at = (long)draw(r, (uint64_t)size);
  switch (draw(r, 6)) {
    case 0: /* one changed bit */
      assert_int_equal(pread(fd, &byte, 1, at), 1);
      byte ^= (uint8_t)(1 << draw(r, 8));
      assert_int_equal(pwrite(fd, &byte, 1, at), 1);
      break;
    case 1: assert_int_equal(ftruncate(fd, at), 0); break;
    case 2: unlink(path); break;
    case 3: /* a link to something else */
      unlink(path);
      assert_int_equal(symlink("/etc/passwd", path), 0);
      break;
    case 4: /* a folder, or a block of another place under this name */
      snprintf(other, sizeof other, "%.500s/../other", path);
      unlink(path);
      assert_int_equal(mkdir(path, 0755), 0);
      break;
    default: break; /* stays */
  }
  close(fd);
}

static void a_damaged_folder_costs_time_and_no_byte(void **state) {
  static order_t p;
  for (round_t r = round_first(10); round_next(&r);) {
    const mr_object_t *o;
    char name[32];
    mr_remote_conf_t conf = usual;
    snprintf(name, sizeof name, "hostile-%llu", (unsigned long long)r.seed);
    conf.cache = in_folder(name), conf.cache_size = "10MB";
    origin.trouble = 0;
    draw_parts(&r, &p, PARTS_MOST);
    mr_remote_t *remote = open_started(&conf, &o);
    const char *wrong = read_parts(&r, remote, o, &p, PARTS_MOST, true);
    mr_remote_close(remote);
    round_check(&r, !wrong, "%s", wrong);
    round_check(&r, each_block(name, &r, damage_block) > BLOCKS / 2, "few blocks were kept");
    remote = open_started(&conf, &o);
    wrong = read_parts(&r, remote, o, &p, PARTS_MOST, true);
    mr_remote_close(remote);
    round_check(&r, !wrong, "%s", wrong);
  }
}

static void another_state_of_an_object_is_another_object(void **state) {
  const mr_object_t *o;
  mr_remote_counts_t counts;
  static order_t p = {.at = {0, 5000}, .size = {100, 100}, .n = 2};
  round_t r = {.x = 1};
  mr_remote_conf_t conf = usual;
  conf.cache = in_folder("states"), conf.cache_size = "10MB";
  for (int i = 0; i < 3; i++) {
    if (i == 2) {
      origin.etag++;
      content[50] ^= 1;
    }
    mr_remote_t *remote = open_started(&conf, &o);
    const char *wrong = read_parts(&r, remote, o, &p, 10, true);
    if (wrong) fail_msg("%s", wrong);
    mr_remote_count(remote, &counts);
    assert_int_equal(counts.hits, i == 1 ? 2 : 0);
    mr_remote_close(remote);
  }
}

/* ---- the limit ---- */

static void the_limit_holds_for_all_runs_together(void **state) {
  static order_t p;
  round_t r = {.x = 9};
  mr_remote_t *remote[2];
  const mr_object_t *o[2];
  mr_remote_conf_t conf = usual;
  conf.cache = in_folder("limit"), conf.cache_size = "81920"; /* 20 blocks, and 16 of slack */
  draw_parts(&r, &p, PARTS_MOST);
  for (int i = 0; i < 2; i++) remote[i] = open_started(&conf, &o[i]);
  for (int i = 0; i < 2; i++) {
    const char *wrong = read_parts(&r, remote[i], o[i], &p, 300, true);
    if (wrong) fail_msg("%s", wrong);
    assert_in_range(each_block("limit", &r, only_count), 1, 37);
  }
  for (int i = 0; i < 2; i++) mr_remote_close(remote[i]);
  conf.cache_size = "40960"; /* a smaller limit holds when no other run is there */
  mr_remote_close(open_started(&conf, &o[0]));
  assert_in_range(each_block("limit", &r, only_count), 0, 10);
}

static void wrong_settings_are_refused(void **state) {
  mr_remote_t *remote;
  mr_diag_t diag = {0};
  mr_remote_conf_t conf = usual;
  conf.cache = in_folder("x"), conf.cache_size = "many";
  assert_int_equal(mr_remote_open(&remote, &conf, &diag), MR_OK);
  assert_int_equal(mr_remote_start(remote, &diag), MR_ERR_CONFIG);
  assert_non_null(strstr(diag.text, "cache-size"));
  mr_remote_close(remote);
  conf.cache = "/proc/none", conf.cache_size = "1GB";
  diag = (mr_diag_t){0};
  assert_int_equal(mr_remote_open(&remote, &conf, &diag), MR_OK);
  assert_int_equal(mr_remote_start(remote, &diag), MR_ERR_IO);
  mr_remote_close(remote);
}

static void objects_of_one_path_and_other_queries_share_no_block(void **state) {
  static const uint8_t block[100];
  mr_object_t o = {.name = "http://h/get", .url = "http://h/get?f=1", .size = 100, .mtime_ns = 5};
  mr_object_t other = o;
  mr_shard_id_t id, other_id;
  char at[300];
  mr__cache_t *c;
  mr_diag_t diag = {0};
  other.url = "http://h/get?f=2";
  snprintf(at, sizeof at, "%s/queries", folder);
  if (mr__cache_open(&c, at, 1 << 20, 0, BLOCK, &diag) < 0) fail_msg("%s", diag.text);
  assert_int_equal(mr__cache_write(c, &o, 0, block, sizeof block, &diag), MR_OK);
  assert_true(mr__cache_has(c, &o, 0));
  assert_false(mr__cache_has(c, &other, 0));
  mr__cache_close(c);
  mr_shard_id_of_object(&o, &id), mr_shard_id_of_object(&other, &other_id);
  assert_memory_not_equal(&id, &other_id, sizeof id);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_cache_hits_as_often_as_can_be),
      cmocka_unit_test(any_order_and_view_gives_the_right_bytes),
      cmocka_unit_test(a_damaged_folder_costs_time_and_no_byte),
      cmocka_unit_test(another_state_of_an_object_is_another_object),
      cmocka_unit_test(objects_of_one_path_and_other_queries_share_no_block),
      cmocka_unit_test(the_limit_holds_for_all_runs_together),
      cmocka_unit_test(wrong_settings_are_refused),
  };
  return cmocka_run_group_tests(tests, start, stop);
}
