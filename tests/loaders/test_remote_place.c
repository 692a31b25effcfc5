/* Blocks that two runs write at once, remove and read, and the file that counts the folder's bytes:
   what another run has written is neither counted again nor trusted, what it has removed is not
   read, and a disk without room is a sentence.

   The calls that would look at the folder are replaced, so that no test depends on time. */
#include <errno.h>

#include "loaders/remote/remote_cache.h"
#include "tests/loaders/cached.h"
#include "tests/loaders/origin.h"

enum { BLOCK = 4096 };

static const mr_object_t object = {
    .name = "http://h/x", .url = "http://h/x", .size = BLOCK, .etag = "\"1\""};
/* The second one has two blocks. */
static const mr_object_t two = {
    .name = "http://h/two", .url = "http://h/two", .size = 2 * BLOCK, .etag = "\"1\""};
static uint8_t block[BLOCK];

/* ---- what the other run, or the disk, does ---- */

static bool looks_free; /* the next entry that is read, as if the other run wrote it afterwards */
static bool no_holes;   /* the file system makes none in files */
static int no_room;     /* errno for what a file should get on the disk; 0: it gets it */

ssize_t __real_pread(int fd, void *to, size_t n, off_t at);
ssize_t __wrap_pread(int fd, void *to, size_t n, off_t at);
ssize_t __wrap_pread(int fd, void *to, size_t n, off_t at) {
  if (!looks_free || n != 16) return __real_pread(fd, to, n, at);
  looks_free = false;
  memset(to, 0, n);
  return (ssize_t)n;
}

int __real_fallocate(int fd, int mode, off_t at, off_t n);
int __wrap_fallocate(int fd, int mode, off_t at, off_t n);
int __wrap_fallocate(int fd, int mode, off_t at, off_t n) {
  if (no_holes) return errno = EOPNOTSUPP, -1;
  return __real_fallocate(fd, mode, at, n);
}

int __real_posix_fallocate(int fd, off_t at, off_t n);
int __wrap_posix_fallocate(int fd, off_t at, off_t n);
int __wrap_posix_fallocate(int fd, off_t at, off_t n) {
  return no_room ? no_room : __real_posix_fallocate(fd, at, n);
}

static mr__cache_t *open_cache(const char *name) {
  mr__cache_t *c;
  mr_diag_t diag = {0};
  if (mr__cache_open(&c, in_folder(name), 10 * BLOCK, 0, BLOCK, false, &diag) < 0)
    fail_msg("%s", diag.text);
  return c;
}

/* Bytes that the folder's runs count together. */
static int64_t bytes_counted(const char *name) {
  int64_t n = -1;
  char path[300];
  snprintf(path, sizeof path, "%s/used", in_folder(name));
  FILE *f = fopen(path, "rb");
  assert_non_null(f);
  assert_int_equal(fread(&n, sizeof n, 1, f), 1);
  fclose(f);
  return n;
}

/* The path of the file of `two`, also if it has no block. */
static void file_of_two(const char *name, char path[512]) {
  char command[300];
  snprintf(command, sizeof command, "find '%s' -name '*.object' -size %dc", in_folder(name),
           2 * BLOCK + 2 * 16 + 48);
  FILE *f = popen(command, "r");
  assert_non_null(f);
  assert_non_null(fgets(path, 512, f));
  pclose(f);
  path[strcspn(path, "\n")] = 0;
}

/* ---- tests ---- */

static void a_block_that_two_runs_write_is_counted_once(void **state) {
  mr__cache_t *c[2] = {open_cache("twice"), open_cache("twice")};
  mr_diag_t diag = {0};
  mr__stamp_t own;
  assert_int_equal(mr__cache_write(c[0], &object, 0, block, BLOCK, 0, &own, &diag), MR_OK);
  assert_true(own);
  looks_free = true;
  assert_int_equal(mr__cache_write(c[1], &object, 0, block, BLOCK, 0, &own, &diag), MR_OK);
  assert_false(looks_free);
  assert_false(own);
  assert_int_equal(bytes_counted("twice"), BLOCK);
  mr__cache_remove(c[1], &object, 0);
  assert_int_equal(bytes_counted("twice"), 0);
  for (int i = 0; i < 2; i++) mr__cache_close(c[i]);
}

/* The file's lock, as another process holds it while it writes. */
static void a_block_that_another_run_is_writing_is_left_to_it(void **state) {
  mr__cache_t *c = open_cache("writes");
  mr_diag_t diag = {0};
  mr__stamp_t own;
  assert_int_equal(mr__cache_write(c, &object, 0, block, BLOCK, 0, &own, &diag), MR_OK);
  assert_int_equal(count_cached("writes"), 1);
  assert_int_equal(mr__cache_write(c, &two, 0, block, BLOCK, 0, &own, &diag), MR_OK);
  assert_int_equal(count_cached("writes"), 2);
  mr__cache_close(c);
  c = open_cache("writes");
  mr__cache_remove(c, &two, 0);
  assert_int_equal(bytes_counted("writes"), BLOCK);
  char path[512];
  file_of_two("writes", path);
  int fd = open(path, O_RDWR);
  struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 2 * BLOCK, .l_len = 16};
  assert_int_equal(fcntl(fd, F_OFD_SETLK, &lock), 0);
  assert_int_equal(mr__cache_write(c, &two, 0, block, BLOCK, 0, &own, &diag), MR_OK);
  assert_false(own);
  assert_false(mr__cache_has(c, &two, 0));
  assert_int_equal(bytes_counted("writes"), BLOCK);
  close(fd);
  assert_int_equal(mr__cache_write(c, &two, 0, block, BLOCK, 0, &own, &diag), MR_OK);
  assert_true(own);
  mr__cache_close(c);
}

/* As any process of this user may do; a mapping of it would end this process. */
static void a_count_that_another_process_shortens_is_written_anew(void **state) {
  mr__cache_t *c = open_cache("shortened");
  mr_diag_t diag = {0};
  mr__stamp_t own;
  char path[300];
  assert_int_equal(mr__cache_write(c, &object, 0, block, BLOCK, 0, &own, &diag), MR_OK);
  assert_int_equal(bytes_counted("shortened"), BLOCK);
  snprintf(path, sizeof path, "%s/used", in_folder("shortened"));
  assert_int_equal(truncate(path, 0), 0);
  assert_int_equal(mr__cache_write(c, &two, 0, block, BLOCK, 0, &own, &diag), MR_OK);
  assert_int_equal(bytes_counted("shortened"), 2 * BLOCK);
  mr__cache_close(c);
}

static void a_block_that_was_there_is_not_trusted(void **state) {
  mr__cache_t *c = open_cache("there");
  mr_diag_t diag = {0};
  char command[400];
  uint8_t to[BLOCK];
  mr__stamp_t own;
  assert_int_equal(mr__cache_write(c, &object, 0, block, BLOCK, 0, &own, &diag), MR_OK);
  snprintf(command, sizeof command,
           "printf X | dd of=$(find '%s' -name '*.object') bs=1 seek=100 conv=notrunc status=none",
           in_folder("there"));
  assert_int_equal(system(command), 0);
  assert_int_equal(mr__cache_write(c, &object, 0, block, BLOCK, 0, &own, &diag), MR_OK);
  assert_false(own);
  assert_false(mr__cache_read(c, &object, 0, 0, BLOCK, to, &own));
  assert_false(mr__cache_has(c, &object, 0));
  mr__cache_close(c);
}

/* A run that has verified a block reads neither the hole that another run makes of it nor,
   unverified, what comes after that. */
static void a_block_that_was_removed_is_not_read(void **state) {
  mr__cache_t *c[2] = {open_cache("gone"), open_cache("gone")};
  mr_diag_t diag = {0};
  uint8_t to[BLOCK];
  mr__stamp_t own, first, other;
  memset(block, 7, sizeof block);
  assert_int_equal(mr__cache_write(c[0], &two, BLOCK, block, BLOCK, 0, &own, &diag), MR_OK);
  first = own;
  assert_true(mr__cache_read(c[0], &two, BLOCK, 10, 90, to, &own));
  assert_true(own == first && to[0] == 7);
  mr__cache_remove(c[1], &two, BLOCK);
  assert_false(mr__cache_read(c[0], &two, BLOCK, 10, 90, to, &own));
  assert_int_equal(own, 0);
  memset(block, 9, sizeof block);
  assert_int_equal(mr__cache_write(c[1], &two, BLOCK, block, BLOCK, 0, &other, &diag), MR_OK);
  own = first;
  assert_true(mr__cache_read(c[0], &two, BLOCK, 10, 90, to, &own));
  assert_true(own == other && own != first && to[0] == 9);
  assert_int_equal(bytes_counted("gone"), BLOCK);
  for (int i = 0; i < 2; i++) mr__cache_close(c[i]);
  memset(block, 0, sizeof block);
}

static int64_t bytes_on_disk(const char *name) {
  char command[300];
  long long kib = -1;
  snprintf(command, sizeof command, "find '%s' -name '*.object' -printf '%%k\n'", in_folder(name));
  FILE *f = popen(command, "r");
  assert_non_null(f);
  if (fscanf(f, "%lld", &kib) != 1) kib = -1; /* no file */
  pclose(f);
  return kib < 0 ? -1 : kib * 1024;
}

/* Alone, a removed block's room is the disk's again, and a file without blocks is gone; while
   another run uses the folder, all stays. */
static void a_removed_block_gives_its_room_back(void **state) {
  enum { MANY = 40 };
  const mr_object_t large = {
      .name = "http://h/y", .url = "http://h/y", .size = MANY * BLOCK, .etag = "\"1\""};
  for (int shared = 0; shared < 2; shared++) {
    const char *name = shared ? "room-shared" : "room";
    mr__cache_t *c, *other = NULL;
    mr_diag_t diag = {0};
    uint8_t data[BLOCK];
    mr__stamp_t own;
    assert_int_equal(mr__cache_open(&c, in_folder(name), MANY * BLOCK, 0, BLOCK, false, &diag),
                     MR_OK);
    if (shared)
      assert_int_equal(
          mr__cache_open(&other, in_folder(name), MANY * BLOCK, 0, BLOCK, false, &diag), 0);
    for (int i = 0; i < MANY; i++) {
      memset(data, i, sizeof data);
      assert_int_equal(mr__cache_write(c, &large, i * BLOCK, data, BLOCK, 0, &own, &diag), MR_OK);
      if (i % 2) mr__cache_evict(c, &large, i * BLOCK);
    }
    assert_int_equal(bytes_counted(name), (shared ? MANY : MANY / 2) * BLOCK);
    assert_in_range(bytes_on_disk(name), (shared ? MANY : MANY / 2) * BLOCK,
                    ((shared ? MANY : MANY / 2) + 4) * BLOCK);
    for (int i = 0; i < MANY; i += 2) mr__cache_evict(c, &large, i * BLOCK);
    assert_int_equal(bytes_counted(name), shared ? MANY * BLOCK : 0);
    if (!shared) assert_int_equal(bytes_on_disk(name), -1);
    assert_int_equal(mr__cache_write(c, &large, 0, data, BLOCK, 0, &own, &diag), MR_OK);
    assert_true(mr__cache_has(c, &large, 0));
    mr__cache_close(other);
    mr__cache_close(c);
  }
}

/* Where a removed block would keep its room, none is evicted, and a full folder stays as it is. */
static void without_holes_in_files_a_full_folder_stays(void **state) {
  enum { MANY = 10 };
  const mr_object_t large = {
      .name = "http://h/z", .url = "http://h/z", .size = 2 * MANY * BLOCK, .etag = "\"1\""};
  mr_diag_t diag = {0};
  mr__stamp_t own;
  no_holes = true;
  mr__cache_t *c = open_cache("no-holes"); /* of 10 blocks */
  for (int i = 0; i < MANY; i++)
    assert_int_equal(mr__cache_write(c, &large, i * BLOCK, block, BLOCK, 0, &own, &diag), MR_OK);
  for (int i = 0; i < MANY; i++) mr__cache_evict(c, &large, i * BLOCK);
  assert_int_equal(bytes_counted("no-holes"), MANY * BLOCK);
  assert_int_equal(mr__cache_write(c, &large, MANY * BLOCK, block, BLOCK, 0, &own, &diag), MR_END);
  assert_int_equal(count_cached("no-holes"), MANY);
  mr__cache_remove(c, &large, 0); /* a damaged one goes, and its place takes it again */
  assert_false(mr__cache_has(c, &large, 0));
  assert_int_equal(mr__cache_write(c, &large, 0, block, BLOCK, 0, &own, &diag), MR_OK);
  assert_true(own);
  mr__cache_close(c);
  no_holes = false;
}

/* Bytes that were written before a kill, and have no entry. */
static void partly_written_files_of_a_killed_run_are_removed(void **state) {
  mr__cache_t *c = open_cache("killed");
  const mr_object_t *all[] = {&two};
  mr_diag_t diag = {0};
  mr__stamp_t own;
  mr__cached_t *found;
  size_t n;
  char path[512];
  memset(block, 5, sizeof block);
  assert_int_equal(mr__cache_write(c, &two, 0, block, BLOCK, 0, &own, &diag), MR_OK);
  mr__cache_close(c);
  file_of_two("killed", path);
  int fd = open(path, O_RDWR);
  assert_int_equal(pwrite(fd, block, BLOCK, BLOCK), BLOCK);
  close(fd);
  int64_t before = bytes_on_disk("killed");
  c = open_cache("killed");
  mr__cache_share(c, all, 1, &found, &n);
  assert_int_equal(n, 1);
  assert_int_equal(found->at, 0);
  free(found);
  assert_true(bytes_on_disk("killed") <= before);
  uint8_t to[BLOCK];
  own = 0;
  assert_true(mr__cache_read(c, &two, 0, 0, BLOCK, to, &own));
  assert_memory_equal(to, block, BLOCK);
  assert_false(mr__cache_has(c, &two, BLOCK));
  mr__cache_close(c);
  memset(block, 0, sizeof block);
}

/* Its table is one hole but for an entry, and is not read as a whole. */
static void of_a_huge_object_the_blocks_that_are_there_are_found(void **state) {
  const mr_object_t large = {
      .name = "http://h/1t", .url = "http://h/1t", .size = INT64_C(1) << 40, .etag = "\"1\""};
  const mr_object_t *all[] = {&large};
  const int64_t at[] = {0, INT64_C(77) << 30, (INT64_C(1) << 40) - BLOCK};
  mr_diag_t diag = {0};
  mr__stamp_t own;
  mr__cached_t *found;
  size_t n;
  mr__cache_t *c = open_cache("1t");
  for (int i = 0; i < 3; i++)
    assert_int_equal(mr__cache_write(c, &large, at[i], block, BLOCK, 0, &own, &diag), MR_OK);
  mr__cache_close(c);
  c = open_cache("1t");
  mr__cache_share(c, all, 1, &found, &n);
  assert_int_equal(n, 3);
  for (int i = 0; i < 3; i++) assert_int_equal(found[i].at, at[i]);
  free(found);
  assert_int_equal(bytes_counted("1t"), 3 * BLOCK);
  mr__cache_close(c);
}

/* A damaged file of an own object has room too, and goes like another's. */
static void a_damaged_file_is_counted_until_it_is_replaced(void **state) {
  const mr_object_t *all[] = {&two};
  mr_diag_t diag = {0};
  mr__stamp_t own;
  mr__cached_t *found;
  size_t n;
  char path[512];
  mr__cache_t *c = open_cache("damaged");
  for (int i = 0; i < 2; i++)
    assert_int_equal(mr__cache_write(c, &two, i * BLOCK, block, BLOCK, 0, &own, &diag), MR_OK);
  mr__cache_close(c);
  file_of_two("damaged", path);
  assert_int_equal(truncate(path, 2 * BLOCK), 0);
  c = open_cache("damaged");
  mr__cache_share(c, all, 1, &found, &n);
  free(found);
  assert_int_equal(n, 0);
  assert_in_range(bytes_counted("damaged"), 2 * BLOCK - 48 - 32, 2 * BLOCK);
  assert_int_equal(mr__cache_write(c, &two, 0, block, BLOCK, 0, &own, &diag), MR_OK);
  assert_true(own);
  mr__cache_close(c);
  assert_int_equal(count_cached("damaged"), 1);
}

/* An object that is too large to be cached takes no other's room. */
static void an_object_of_any_size_evicts_nothing(void **state) {
  mr_object_t huge[20];
  const mr_object_t *all[20];
  mr__cached_t *own;
  size_t n_own;
  mr_diag_t diag = {0};
  mr__stamp_t kept;
  mr__cache_t *c = open_cache("huge");
  for (int i = 0; i < 10; i++) {
    mr_object_t o = object;
    char name[32];
    snprintf(name, sizeof name, "http://h/%d", i);
    o.name = o.url = name;
    assert_int_equal(mr__cache_write(c, &o, 0, block, BLOCK, 0, &kept, &diag), MR_OK);
  }
  for (int i = 0; i < 20; i++) {
    huge[i] = object, huge[i].size = 999999999999999999;
    all[i] = &huge[i];
  }
  mr__cache_share(c, all, 20, &own, &n_own);
  free(own);
  mr__cache_close(c);
  assert_int_equal(bytes_counted("huge"), 10 * BLOCK);
}

/* A hole in a mapped file has no place on a full disk when it is written, which ends a process. */
static void a_disk_without_room_for_the_count_is_said_to_be_full(void **state) {
  mr__cache_t *c;
  mr_diag_t diag = {0};
  no_room = ENOSPC;
  assert_int_equal(mr__cache_open(&c, in_folder("none"), 10 * BLOCK, 0, BLOCK, false, &diag),
                   MR_END);
  no_room = 0;
  assert_null(c);
  assert_non_null(strstr(diag.text, "setting cache = "));
  assert_non_null(strstr(diag.text, strerror(ENOSPC)));
}

/* As with a disk that fills during the run: what is read is right, and nothing is kept. */
static void a_disk_that_is_full_at_the_start_costs_the_cache_and_no_byte(void **state) {
  static origin_t server;
  static uint8_t content[3 * BLOCK];
  uint8_t to[3 * BLOCK];
  char url[64];
  mr_remote_t *r;
  const mr_object_t *o;
  mr_diag_t diag = {0};
  for (size_t i = 0; i < sizeof content; i++) content[i] = (uint8_t)(i * 7 / 3);
  origin_open(&server, content, sizeof content, 5);
  unsetenv("http_proxy"), unsetenv("all_proxy");
  snprintf(url, sizeof url, "http://127.0.0.1:%d/x", server.port);
  mr_remote_conf_t conf = {.connections = 2,
                           .retries = 8,
                           .backoff = 0.001,
                           .timeout = 5,
                           .ahead = 1 << 20,
                           .cache = in_folder("no-room"),
                           .cache_size = "1MB",
                           .cache_block = BLOCK};
  no_room = ENOSPC;
  assert_int_equal(mr_remote_open(&r, &conf, NULL), MR_OK);
  if (mr_remote_object(r, url, &o, &diag) < 0) fail_msg("%s", diag.text);
  for (int again = 0; again < 2; again++) {
    mr_remote_want_t want = {o, 0, sizeof to, memset(to, 0, sizeof to)};
    if (mr_remote_load(r, &want, again, &diag) < 0) fail_msg("%s", diag.text);
    assert_memory_equal(to, content, sizeof to);
  }
  mr_remote_want_t want = {o, 100, 2 * BLOCK, memset(to, 0, sizeof to)};
  if (mr_remote_start(r, &diag) < 0 || mr_remote_read(r, &want, 1, &diag) < 0)
    fail_msg("%s", diag.text);
  assert_memory_equal(to, content + 100, 2 * BLOCK);
  mr_remote_close(r);
  no_room = 0;
  origin_close(&server);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_block_that_two_runs_write_is_counted_once),
      cmocka_unit_test(a_block_that_another_run_is_writing_is_left_to_it),
      cmocka_unit_test(a_count_that_another_process_shortens_is_written_anew),
      cmocka_unit_test(a_block_that_was_there_is_not_trusted),
      cmocka_unit_test(a_block_that_was_removed_is_not_read),
      cmocka_unit_test(a_removed_block_gives_its_room_back),
      cmocka_unit_test(without_holes_in_files_a_full_folder_stays),
      cmocka_unit_test(partly_written_files_of_a_killed_run_are_removed),
      cmocka_unit_test(of_a_huge_object_the_blocks_that_are_there_are_found),
      cmocka_unit_test(a_damaged_file_is_counted_until_it_is_replaced),
      cmocka_unit_test(an_object_of_any_size_evicts_nothing),
      cmocka_unit_test(a_disk_that_is_full_at_the_start_costs_the_cache_and_no_byte),
      cmocka_unit_test(a_disk_without_room_for_the_count_is_said_to_be_full),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
