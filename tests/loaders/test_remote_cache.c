/* What is fetched ahead, and the cache: random orders of records from a server that misbehaves and
   a folder that others write into; every byte is right, and the hits are those of Belady's rule. */
#include <fcntl.h>

#include "loaders/remote/belady.h"
#include "loaders/remote/remote_cache.h"
#include "loaders/remote/remote_private.h"
#include "loaders/shards/shard_index.h"
#include "tests/loaders/cached.h"
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
  int reported = 0;
  for (int i = 0; i < p->n;) {
    mr_remote_want_t want[32];
    mr_diag_t diag = {0};
    int n = 1 + (int)draw(r, 32);
    if (n > p->n - i) n = p->n - i;
    for (; reported < p->n && reported < i + n + view; reported++) {
      mr_remote_want_t w = {o, p->at[reported], p->size[reported], NULL};
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

/* Reads the first parts of what was announced. */
static const char *read_announced(round_t *r, mr_remote_t *remote, const mr_object_t *o,
                                  const order_t *p) {
  static uint8_t room[3 * BLOCK];
  for (int i = 0; i < p->n; i++) {
    mr_diag_t diag = {0};
    mr_remote_want_t want = {o, p->at[i], p->size[i], room};
    if (mr_remote_read(remote, &want, 1, &diag) < 0) return "a request has failed";
    if (memcmp(room, content + want.at, (size_t)want.size)) return "a part is wrong";
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

/* Small parts in a random order, all of which fit into memory, share requests by their place. */
static void neighbours_share_requests_in_any_order(void **state) {
  enum { PART = 300, GAP = 20, PARTS = BYTES / (PART + GAP) };
  static order_t p;
  for (round_t r = round_first(6); round_next(&r);) {
    const mr_object_t *o;
    mr_remote_counts_t counts;
    mr_remote_conf_t conf = usual;
    conf.ahead = 1 << 20, conf.timeout = 2, conf.hedge = 0;
    p.n = PARTS;
    for (int i = 0; i < PARTS; i++) p.at[i] = i * (PART + GAP), p.size[i] = PART;
    for (int i = PARTS - 1; i > 0; i--) {
      int k = (int)draw(&r, (uint64_t)i + 1);
      int64_t at = p.at[i];
      p.at[i] = p.at[k], p.at[k] = at;
    }
    origin.trouble = 0;
    mr_remote_t *remote = open_started(&conf, &o);
    const char *wrong = read_parts(&r, remote, o, &p, PARTS, true);
    mr_remote_count(remote, &counts);
    mr_remote_close(remote);
    round_check(&r, !wrong, "%s", wrong);
    round_check(&r, counts.requests < PARTS / 20 && counts.bytes <= BYTES + BYTES / 4,
                "%lld requests, %lld bytes", (long long)counts.requests, (long long)counts.bytes);
  }
}

/* ---- a folder that others write into ---- */

static void change_byte(round_t *r, const char *path, int64_t at, int64_t n) {
  uint8_t byte;
  int fd = open(path, O_RDWR);
  if (n < 1) n = 1;
  at += (int64_t)draw(r, (uint64_t)n);
  assert_int_equal(pread(fd, &byte, 1, at), 1);
  byte ^= (uint8_t)(1 << draw(r, 8));
  assert_int_equal(pwrite(fd, &byte, 1, at), 1);
  close(fd);
}

/* A changed bit of a block, or of its entry in the table; or the block stays. */
static void damage_block(void *ctx, const cached_block_t *b) {
  round_t *r = ctx;
  switch (draw(r, 4)) {
    case 0: change_byte(r, b->path, b->at, b->n); break;
    case 1: change_byte(r, b->path, b->entry, 16); break;
    default: break;
  }
}

/* The file of the object as a whole: cut off, gone, or something else of its name. */
static void damage_file(round_t *r, const char *cache) {
  char command[300], path[512];
  struct stat st;
  snprintf(command, sizeof command, "find '%s' -name '*.object'", in_folder(cache));
  FILE *list = popen(command, "r");
  assert_non_null(fgets(path, sizeof path, list));
  pclose(list);
  path[strcspn(path, "\n")] = 0;
  assert_int_equal(stat(path, &st), 0);
  switch (draw(r, 8)) {
    case 0: assert_int_equal(truncate(path, (off_t)draw(r, (uint64_t)st.st_size)), 0); break;
    case 1: unlink(path); break;
    case 2: /* a link to something else */
      unlink(path);
      assert_int_equal(symlink("/etc/passwd", path), 0);
      break;
    case 3:
      unlink(path);
      assert_int_equal(mkdir(path, 0755), 0);
      break;
    case 4: change_byte(r, path, st.st_size - 48, 48); break; /* in the tail */
    default: break;
  }
}

static void a_damaged_folder_costs_time_and_no_byte(void **state) {
  static order_t p;
  for (round_t r = round_first(24); round_next(&r);) {
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
    round_check(&r, each_cached(name, damage_block, &r) > BLOCKS / 2, "few blocks were kept");
    damage_file(&r, name);
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

/* Alone, a run has blocks of its own beyond the limit while they are used, and none when it ends:
   also if it ends before it has read what it announced. */
static void the_limit_holds_during_and_after_a_run(void **state) {
  static order_t p;
  for (round_t r = round_first(15); round_next(&r);) {
    const mr_object_t *o;
    char name[32], size[32];
    int most = 5 + (int)draw(&r, BLOCKS / 2);
    mr_remote_conf_t conf = usual;
    snprintf(name, sizeof name, "limit-%llu", (unsigned long long)r.seed);
    snprintf(size, sizeof size, "%d", most * BLOCK);
    conf.cache = in_folder(name), conf.cache_size = size;
    origin.trouble = 0;
    draw_parts(&r, &p, PARTS_MOST);
    mr_remote_t *remote = open_started(&conf, &o);
    for (int i = 0; i < p.n; i++)
      mr_remote_tell(remote, &(mr_remote_want_t){o, p.at[i], p.size[i], NULL}, 1);
    p.n = 1 + (int)draw(&r, PARTS_MOST); /* only these are read */
    const char *wrong = read_announced(&r, remote, o, &p);
    int during = count_cached(name);
    mr_remote_close(remote);
    round_check(&r, !wrong, "%s", wrong);
    round_check(&r, during <= most + (int)(conf.ahead / BLOCK), "%d blocks of %d during the run",
                during, most);
    int after = count_cached(name);
    round_check(&r, after <= most, "%d blocks of %d after the run", after, most);
  }
}

static void the_limit_holds_for_all_runs_together(void **state) {
  static order_t p;
  round_t r = {.x = 9};
  mr_remote_t *remote[2];
  const mr_object_t *o[2];
  mr_remote_conf_t conf = usual;
  conf.cache = in_folder("limit"), conf.cache_size = "81920"; /* 20 blocks */
  draw_parts(&r, &p, PARTS_MOST);
  for (int i = 0; i < 2; i++) remote[i] = open_started(&conf, &o[i]);
  for (int i = 0; i < 2; i++) {
    const char *wrong = read_parts(&r, remote[i], o[i], &p, 300, true);
    if (wrong) fail_msg("%s", wrong);
    assert_in_range(count_cached("limit"), 1, 20);
  }
  for (int i = 0; i < 2; i++) mr_remote_close(remote[i]);
  conf.cache_size = "40960"; /* a smaller limit holds when no other run is there */
  mr_remote_close(open_started(&conf, &o[0]));
  assert_in_range(count_cached("limit"), 0, 10);
}

/* ---- runs that share a folder ---- */

enum { LISTED_MAX = 200 };

static int64_t listed[LISTED_MAX];
static int n_listed;

static void list_block(void *ctx, const cached_block_t *b) {
  assert_true(n_listed < LISTED_MAX);
  listed[n_listed++] = b->at;
}

static void find_block(void *ctx, const cached_block_t *b) {
  bool *found = ctx;
  for (int i = 0; i < n_listed; i++) found[i] |= listed[i] == b->at;
}

/* The listed blocks that are gone. */
static int count_gone(const char *cache) {
  bool found[LISTED_MAX] = {0};
  int gone = 0;
  each_cached(cache, find_block, found);
  for (int i = 0; i < n_listed; i++) gone += !found[i];
  return gone;
}

/* A second run with a smaller limit, another order and an own object neither removes at its start
   nor evicts what is there; a third one, alone, may. */
static void a_run_removes_no_block_while_another_uses_the_folder(void **state) {
  static order_t p;
  round_t r = {.x = 21};
  const mr_object_t *o[3];
  mr_remote_conf_t conf = usual;
  mr_remote_counts_t counts;
  conf.cache = in_folder("shared-by-two"), conf.cache_size = "204800"; /* 50 blocks */
  draw_parts(&r, &p, PARTS_MOST);
  mr_remote_t *first = open_started(&conf, &o[0]);
  const char *wrong = read_parts(&r, first, o[0], &p, 300, true);
  if (wrong) fail_msg("%s", wrong);
  for (int n = -1, now; (now = count_cached("shared-by-two")) != n || n < 20; n = now)
    usleep(100000); /* what was fetched is written by another thread */
  n_listed = 0;
  each_cached("shared-by-two", list_block, NULL);
  assert_in_range(n_listed, 20, 50 + 16);
  conf.cache_size = "40960"; /* 10 blocks */
  mr_remote_t *second = open_started(&conf, &o[1]);
  assert_int_equal(count_gone("shared-by-two"), 0);
  draw_parts(&r, &p, PARTS_MOST);
  wrong = read_parts(&r, second, o[1], &p, 300, true);
  if (wrong) fail_msg("%s", wrong);
  assert_int_equal(count_gone("shared-by-two"), 0);
  mr_remote_count(second, &counts);
  assert_true(counts.hits > counts.uses / 4); /* it uses what is there */
  mr_remote_close(second);
  assert_int_equal(count_gone("shared-by-two"), 0);
  wrong = read_parts(&r, first, o[0], &p, 300, true);
  if (wrong) fail_msg("%s", wrong);
  mr_remote_count(first, &counts);
  assert_int_equal(counts.lost, 0);
  mr_remote_close(first);
  assert_in_range(count_cached("shared-by-two"), 20, 50);
  mr_remote_close(open_started(&conf, &o[2]));
  assert_in_range(count_cached("shared-by-two"), 0, 10);
}

static void wrong_settings_are_refused(void **state) {
  mr_remote_t *remote;
  mr_diag_t diag = {0};
  mr_remote_conf_t conf = usual;
  conf.cache = in_folder("x"), conf.cache_size = "many";
  assert_int_equal(mr_remote_open(&remote, &conf, &diag), MR_ERR_CONFIG);
  assert_non_null(strstr(diag.text, "cache-size"));
  conf.cache_size = "10", diag = (mr_diag_t){0};
  assert_int_equal(mr_remote_open(&remote, &conf, &diag), MR_ERR_CONFIG);
  assert_non_null(strstr(diag.text, "want at least a block"));
  conf.cache = "/proc/none", conf.cache_size = "1GB";
  diag = (mr_diag_t){0};
  assert_int_equal(mr_remote_open(&remote, &conf, &diag), MR_OK);
  assert_int_equal(mr_remote_start(remote, &diag), MR_ERR_IO);
  mr_remote_close(remote);
}

static void objects_of_one_path_and_other_queries_share_no_block(void **state) {
  static const uint8_t block[100];
  mr_object_t o = {
      .name = "http://h/get", .url = "http://h/get?f=1", .size = 100, .etag = "", .mtime_ns = 5};
  mr_object_t other = o;
  mr_shard_id_t id, other_id;
  char at[300];
  mr__cache_t *c;
  mr_diag_t diag = {0};
  mr__stamp_t own;
  other.url = "http://h/get?f=2";
  snprintf(at, sizeof at, "%s/queries", folder);
  if (mr__cache_open(&c, at, 1 << 20, 0, BLOCK, false, &diag) < 0) fail_msg("%s", diag.text);
  assert_int_equal(mr__cache_write(c, &o, 0, block, sizeof block, 0, &own, &diag), MR_OK);
  assert_true(mr__cache_has(c, &o, 0));
  assert_false(mr__cache_has(c, &other, 0));
  mr__cache_close(c);
  mr_shard_id_of_object(&o, &id), mr_shard_id_of_object(&other, &other_id);
  assert_memory_not_equal(&id, &other_id, sizeof id);
}

/* ---- disks ---- */

/* Calls fn with the rights of another user, who owns nothing here. */
static void as_another_user(void (*fn)(void)) {
  bool root = geteuid() == 0;
  if (root) assert_int_equal(seteuid(65534), 0);
  fn();
  if (root) assert_int_equal(seteuid(0), 0);
}

static char others_folder[200];

static void open_others_folder(void) {
  mr__cache_t *c;
  mr_diag_t diag = {0};
  assert_int_equal(mr__cache_open(&c, others_folder, 1 << 20, 0, BLOCK, false, &diag), MR_ERR_IO);
  assert_null(c);
  assert_non_null(strstr(diag.text, "setting cache = "));
  assert_non_null(strstr(diag.text, "Permission denied; name a folder"));
}

static void another_users_folder_is_one_sentence(void **state) {
  mr__cache_t *c;
  mr_diag_t diag = {0};
  snprintf(others_folder, sizeof others_folder, "%s", in_folder("others"));
  assert_int_equal(chmod(folder, 0755), 0);
  assert_int_equal(mkdir(others_folder, 0555), 0);
  as_another_user(open_others_folder); /* nothing is in it yet */
  assert_int_equal(chmod(others_folder, 0755), 0);
  assert_int_equal(mr__cache_open(&c, others_folder, 1 << 20, 0, BLOCK, false, &diag), MR_OK);
  mr__cache_close(c);
  if (geteuid() == 0) as_another_user(open_others_folder); /* a run of its owner has filled it */
}

static int n_leftovers(const char *cache) {
  char command[256];
  int n = -1;
  snprintf(command, sizeof command, "find '%s' -name '*.new' | wc -l", in_folder(cache));
  FILE *f = popen(command, "r");
  assert_int_equal(fscanf(f, "%d", &n), 1);
  pclose(f);
  return n;
}

/* No file can hold a block, as on a disk without room. */
static void a_full_disk_costs_hits_and_no_byte(void **state) {
  static order_t p;
  struct rlimit old, small;
  round_t r = {.x = 4};
  const mr_object_t *o;
  mr_remote_counts_t counts;
  mr_remote_conf_t conf = usual;
  conf.cache = in_folder("full"), conf.cache_size = "10MB";
  origin.trouble = 0;
  draw_parts(&r, &p, PARTS_MOST);
  signal(SIGXFSZ, SIG_IGN);
  getrlimit(RLIMIT_FSIZE, &old);
  small = (struct rlimit){BLOCK / 2, old.rlim_max};
  mr_remote_t *remote = open_started(&conf, &o);
  int before = n_notices;
  setrlimit(RLIMIT_FSIZE, &small);
  const char *wrong = read_parts(&r, remote, o, &p, 300, true);
  mr_remote_count(remote, &counts);
  mr_remote_close(remote);
  setrlimit(RLIMIT_FSIZE, &old);
  if (wrong) fail_msg("%s", wrong);
  assert_int_equal(n_notices, before + 1);
  assert_int_equal(count_cached("full"), 0);
  assert_int_equal(n_leftovers("full"), 0);
}

static void a_huge_object_is_read_and_not_cached(void **state) {
  static order_t p;
  round_t r = {.x = 8};
  const mr_object_t *o;
  mr_remote_conf_t conf = usual;
  conf.cache = in_folder("huge"), conf.cache_size = "10MB";
  origin.trouble = 0;
  origin.claims = ((long long)1 << 40) + 1;
  draw_parts(&r, &p, 50);
  mr_remote_t *remote = open_started(&conf, &o);
  assert_true(o->size == ((int64_t)1 << 40) + 1);
  const char *wrong = read_parts(&r, remote, o, &p, 300, true);
  mr_remote_close(remote);
  origin.claims = 0;
  if (wrong) fail_msg("%s", wrong);
  assert_int_equal(count_cached("huge"), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_cache_hits_as_often_as_can_be),
      cmocka_unit_test(any_order_and_view_gives_the_right_bytes),
      cmocka_unit_test(neighbours_share_requests_in_any_order),
      cmocka_unit_test(a_damaged_folder_costs_time_and_no_byte),
      cmocka_unit_test(another_state_of_an_object_is_another_object),
      cmocka_unit_test(objects_of_one_path_and_other_queries_share_no_block),
      cmocka_unit_test(the_limit_holds_during_and_after_a_run),
      cmocka_unit_test(the_limit_holds_for_all_runs_together),
      cmocka_unit_test(a_run_removes_no_block_while_another_uses_the_folder),
      cmocka_unit_test(wrong_settings_are_refused),
      cmocka_unit_test(another_users_folder_is_one_sentence),
      cmocka_unit_test(a_full_disk_costs_hits_and_no_byte),
      cmocka_unit_test(a_huge_object_is_read_and_not_cached),
  };
  return cmocka_run_group_tests(tests, start, stop);
}
