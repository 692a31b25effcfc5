/* Processes that use one folder of blocks at once: they come and go, write, read, evict and remove
   at random, also while they are alone.  No byte that is read is wrong, and the count is right in
   the end. */
#include <sys/wait.h>

#include "loaders/remote/remote_cache.h"
#include "tests/loaders/cached.h"

enum { BLOCK = 4096, OBJECTS = 5, LIMIT = 40 * BLOCK, PROCESSES = 3, OPERATIONS = 4000 };

/* Of one block, of some that end within a page, of many. */
static const int64_t size_of[OBJECTS] = {100, BLOCK, 3 * BLOCK + 77, 20 * BLOCK, 70 * BLOCK + 1};
static mr_object_t object[OBJECTS];

static void name_objects(void) {
  static char name[OBJECTS][40];
  for (int i = 0; i < OBJECTS; i++) {
    snprintf(name[i], sizeof name[i], "http://h/%d", i);
    object[i] = (mr_object_t){
        .name = name[i], .url = name[i], .size = size_of[i], .etag = "\"1\"", .mtime_ns = 1};
  }
}

static uint8_t byte_of(int o, int64_t at) { return (uint8_t)(at * 31 + at / 4096 * 7 + o * 101); }

typedef struct user {
  mr__cache_t *c;
  mr__stamp_t stamp[OBJECTS][80];
  round_t r;
} user_t;

static const char *enter(user_t *u) {
  const mr_object_t *all[OBJECTS];
  mr__cached_t *own;
  size_t n;
  mr_diag_t diag = {0};
  for (int i = 0; i < OBJECTS; i++) all[i] = &object[i];
  memset(u->stamp, 0, sizeof u->stamp);
  if (mr__cache_open(&u->c, in_folder("together"), LIMIT, 4 * BLOCK, BLOCK, false, &diag) < 0)
    return "a folder that cannot be opened";
  mr__cache_share(u->c, all, OBJECTS, &own, &n);
  free(own);
  return NULL;
}

static const char *read_part(user_t *u, int o, int64_t at, int64_t n, mr__stamp_t *stamp) {
  uint8_t to[BLOCK];
  int64_t from = (int64_t)draw(&u->r, (int)n), part = 1 + (int64_t)draw(&u->r, (int)(n - from));
  if (!mr__cache_read(u->c, &object[o], at, from, part, to, stamp)) return NULL;
  for (int64_t i = 0; i < part; i++)
    if (to[i] != byte_of(o, at + from + i)) return "a wrong byte";
  return NULL;
}

static const char *operate(user_t *u) {
  int o = (int)draw(&u->r, OBJECTS);
  int64_t block = (int64_t)draw(&u->r, (int)((size_of[o] + BLOCK - 1) / BLOCK));
  int64_t at = block * BLOCK, n = size_of[o] - at < BLOCK ? size_of[o] - at : BLOCK;
  mr__stamp_t *stamp = &u->stamp[o][block];
  uint8_t data[BLOCK];
  mr_diag_t diag = {0};
  switch (draw(&u->r, 8)) {
    case 0: mr__cache_evict(u->c, &object[o], at); return NULL;
    case 1:
      if (!one_in(&u->r, 10)) return NULL;
      mr__cache_remove(u->c, &object[o], at);
      return NULL;
    case 2:
    case 3:
      for (int64_t i = 0; i < n; i++) data[i] = byte_of(o, at + i);
      return mr__cache_write(u->c, &object[o], at, data, n, 0, stamp, &diag) < 0
                 ? "a block that cannot be written"
                 : NULL;
    default: return read_part(u, o, at, n, stamp);
  }
}

/* Uses the folder, and leaves it now and then, so that the others are alone at times. */
static const char *use_folder(uint64_t seed) {
  user_t u = {.r = {.x = seed}};
  const char *wrong = enter(&u);
  for (int i = 0; i < OPERATIONS && !wrong; i++) {
    wrong = operate(&u);
    if (wrong || !one_in(&u.r, 150)) continue;
    mr__cache_close(u.c);
    if (one_in(&u.r, 2)) usleep((useconds_t)draw(&u.r, 3000));
    wrong = enter(&u);
  }
  mr__cache_close(u.c);
  return wrong;
}

static int64_t bytes_counted(void) {
  int64_t n = -1;
  FILE *f = fopen(in_folder("together/used"), "rb");
  assert_non_null(f);
  assert_int_equal(fread(&n, sizeof n, 1, f), 1);
  fclose(f);
  return n;
}

static void add_bytes(void *ctx, const cached_block_t *b) { *(int64_t *)ctx += b->n; }

static void one_alone_reads_and_counts_right(void **state) {
  int64_t bytes = 0;
  const char *wrong = use_folder(71);
  if (wrong) fail_msg("%s", wrong);
  each_cached("together", add_bytes, &bytes);
  assert_int_equal(bytes_counted(), bytes);
  assert_in_range(bytes, 1, LIMIT + 4 * BLOCK);
}

static void processes_at_once_read_no_wrong_byte(void **state) {
  int status;
#if defined(__SANITIZE_THREAD__)
  skip();
#endif
  for (round_t r = round_first(6); round_next(&r);) {
    pid_t child[PROCESSES];
    int64_t bytes = 0;
    for (int i = 0; i < PROCESSES; i++) {
      fflush(stdout), fflush(stderr);
      if ((child[i] = fork()) != 0) continue;
      const char *wrong = use_folder((uint64_t)draw(&r, 1 << 30) + (uint64_t)i);
      if (wrong) fprintf(stderr, "%s\n", wrong);
      _exit(wrong != NULL);
    }
    bool good = true;
    for (int i = 0; i < PROCESSES; i++)
      good &= waitpid(child[i], &status, 0) == child[i] && !status;
    round_check(&r, good, "a process has failed");
    user_t u = {.r = {.x = 1}}; /* alone, it counts again */
    const char *wrong = enter(&u);
    if (wrong) fail_msg("%s", wrong);
    each_cached("together", add_bytes, &bytes);
    round_check(&r, bytes_counted() == bytes, "%lld bytes counted, %lld there",
                (long long)bytes_counted(), (long long)bytes);
    round_check(&r, bytes <= LIMIT + PROCESSES * 4 * BLOCK, "%lld bytes", (long long)bytes);
    mr__cache_close(u.c);
  }
}

static int start(void **state) { return name_objects(), make_folder(state); }

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(one_alone_reads_and_counts_right),
      cmocka_unit_test(processes_at_once_read_no_wrong_byte),
  };
  return cmocka_run_group_tests(tests, start, remove_folder);
}
