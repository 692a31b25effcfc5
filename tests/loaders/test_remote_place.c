/* Blocks that two runs write at once, and the file that counts the folder's bytes: what another run
   has placed is neither counted again nor trusted, and a disk without room is a sentence.

   The calls that would look at the folder are replaced, so that no test depends on time. */
#include <errno.h>
#include <linux/magic.h>
#include <sys/vfs.h>

#include "loaders/remote_cache.h"
#include "tests/loaders/shards.h"

enum { BLOCK = 4096 };

static const mr_object_t object = {
    .name = "http://h/x", .url = "http://h/x", .size = BLOCK, .etag = "\"1\""};
static uint8_t block[BLOCK];

/* ---- what the other run, or the disk, does ---- */

static bool looks_free; /* the block's name, as if the other run placed it right after the look */
static int no_room;     /* errno for what a file should get on the disk; 0: it gets it */

int __real_access(const char *path, int mode);
int __wrap_access(const char *path, int mode);
int __wrap_access(const char *path, int mode) {
  if (looks_free) return errno = ENOENT, -1;
  return __real_access(path, mode);
}

int __real_posix_fallocate(int fd, off_t at, off_t n);
int __wrap_posix_fallocate(int fd, off_t at, off_t n);
int __wrap_posix_fallocate(int fd, off_t at, off_t n) {
  return no_room ? no_room : __real_posix_fallocate(fd, at, n);
}

static mr__cache_t *open_cache(const char *name) {
  mr__cache_t *c;
  mr_diag_t diag = {0};
  if (mr__cache_open(&c, in_folder(name), 10 * BLOCK, 0, BLOCK, &diag) < 0)
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

/* ---- tests ---- */

static void a_block_that_two_runs_write_is_counted_once(void **state) {
  mr__cache_t *c[2] = {open_cache("twice"), open_cache("twice")};
  mr_diag_t diag = {0};
  bool own;
  assert_int_equal(mr__cache_write(c[0], &object, 0, block, BLOCK, 0, &own, &diag), MR_OK);
  assert_true(own);
  looks_free = true;
  assert_int_equal(mr__cache_write(c[1], &object, 0, block, BLOCK, 0, &own, &diag), MR_OK);
  looks_free = false;
  assert_false(own);
  assert_int_equal(bytes_counted("twice"), BLOCK);
  mr__cache_remove(c[1], &object, 0);
  assert_int_equal(bytes_counted("twice"), 0);
  for (int i = 0; i < 2; i++) mr__cache_close(c[i]);
}

static void a_block_that_was_there_is_not_trusted(void **state) {
  mr__cache_t *c = open_cache("there");
  mr_diag_t diag = {0};
  char command[400];
  uint8_t to[BLOCK];
  bool own, verified;
  assert_int_equal(mr__cache_write(c, &object, 0, block, BLOCK, 0, &own, &diag), MR_OK);
  snprintf(command, sizeof command,
           "printf X | dd of=$(find '%s' -name '*.block') bs=1 seek=100 conv=notrunc status=none",
           in_folder("there"));
  assert_int_equal(system(command), 0);
  assert_int_equal(mr__cache_write(c, &object, 0, block, BLOCK, 0, &own, &diag), MR_OK);
  verified = own;
  assert_false(mr__cache_read(c, &object, 0, 0, BLOCK, to, &verified));
  assert_false(mr__cache_has(c, &object, 0));
  mr__cache_close(c);
}

/* An object that is too large to be cached takes no other's room. */
static ino_t inode_of(const char *name, const char *ending, int *n) {
  char command[300];
  unsigned long long inode = 0;
  snprintf(command, sizeof command, "find '%s' -name '*%s' -printf '%%i\\n'", in_folder(name),
           ending);
  FILE *f = popen(command, "r");
  assert_non_null(f);
  for (*n = 0; fscanf(f, "%llu", &inode) == 1;) ++*n;
  pclose(f);
  return (ino_t)inode;
}

/* The file of a removed block takes the next one, unless another run may still read it. */
static void a_removed_block_leaves_its_file_to_the_next(void **state) {
  enum { MANY = 40 };
  const mr_object_t large = {
      .name = "http://h/y", .url = "http://h/y", .size = MANY * BLOCK, .etag = "\"1\""};
  for (int shared = 0; shared < 2; shared++) {
    const char *name = shared ? "spare-shared" : "spare";
    mr__cache_t *c, *other = NULL;
    mr_diag_t diag = {0};
    uint8_t data[BLOCK], to[BLOCK];
    bool own, verified;
    struct statfs fs;
    ino_t first = 0;
    int n, spares;
    assert_int_equal(mr__cache_open(&c, in_folder(name), MANY * BLOCK, 0, BLOCK, &diag), MR_OK);
    assert_int_equal(statfs(in_folder(name), &fs), 0);
    if (shared)
      assert_int_equal(mr__cache_open(&other, in_folder(name), MANY * BLOCK, 0, BLOCK, &diag), 0);
    for (int i = 0; i < MANY; i++) {
      memset(data, i, sizeof data);
      assert_int_equal(mr__cache_write(c, &large, i * BLOCK, data, BLOCK, 0, &own, &diag), MR_OK);
      verified = false;
      assert_true(mr__cache_read(c, &large, i * BLOCK, 0, BLOCK, to, &verified));
      assert_memory_equal(to, data, BLOCK);
      ino_t inode = inode_of(name, ".block", &n);
      assert_int_equal(n, shared ? i + 1 : 1);
      if (!i) first = inode;
      if (!shared && fs.f_type == EXT4_SUPER_MAGIC) assert_int_equal(inode, first);
      mr__cache_evict(c, &large, i * BLOCK);
      inode_of(name, ".new", &spares);
      assert_int_equal(spares, !shared && fs.f_type == EXT4_SUPER_MAGIC);
    }
    assert_int_equal(bytes_counted(name), shared ? MANY * BLOCK : 0);
    mr__cache_close(other);
    mr__cache_close(c);
    inode_of(name, ".new", &spares);
    assert_int_equal(spares, 0);
  }
}

static void an_object_of_any_size_evicts_nothing(void **state) {
  mr_object_t huge[20];
  const mr_object_t *all[20];
  mr__cached_t *own;
  size_t n_own;
  mr_diag_t diag = {0};
  bool kept;
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
static void a_disk_without_room_for_the_count_is_refused(void **state) {
  mr__cache_t *c;
  mr_diag_t diag = {0};
  no_room = ENOSPC;
  assert_int_equal(mr__cache_open(&c, in_folder("none"), 10 * BLOCK, 0, BLOCK, &diag), MR_ERR_IO);
  no_room = 0;
  assert_null(c);
  assert_non_null(strstr(diag.text, "setting cache = "));
  assert_non_null(strstr(diag.text, strerror(ENOSPC)));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_block_that_two_runs_write_is_counted_once),
      cmocka_unit_test(a_block_that_was_there_is_not_trusted),
      cmocka_unit_test(a_removed_block_leaves_its_file_to_the_next),
      cmocka_unit_test(an_object_of_any_size_evicts_nothing),
      cmocka_unit_test(a_disk_without_room_for_the_count_is_refused),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
