/* The file of an object in a cache: what killed runs left is given back to the disk, and a file
   without such bytes is left in peace, whatever blocks it has. */
#include <fcntl.h>

#include "loaders/remote/remote_object.h"
#include "tests/loaders/shards.h"

enum { BLOCK = 1 << 16, BLOCKS = 9, LAST = 5000, SIZE = (BLOCKS - 1) * BLOCK + LAST };

static int punched;
static unsigned punched_blocks; /* bit k: a hole was made of block k */

int __real_fallocate(int fd, int mode, off_t at, off_t n);
int __wrap_fallocate(int fd, int mode, off_t at, off_t n);
int __wrap_fallocate(int fd, int mode, off_t at, off_t n) {
  punched++;
  punched_blocks |= 1u << at / BLOCK;
  return __real_fallocate(fd, mode, at, n);
}

static char content[BLOCK];

static int64_t bytes_of(int k) { return k == BLOCKS - 1 ? LAST : BLOCK; }

static mr__object_file_t made(const char *name) {
  char path[128], temporary[140];
  mr_diag_t diag = {0};
  mr__object_file_t f = {.fd = -1, .size = SIZE, .block = BLOCK, .state = {3, 4}};
  snprintf(path, sizeof path, "%s", in_folder(name));
  snprintf(temporary, sizeof temporary, "%s.new", path);
  if (mr__object_make(&f, path, temporary, &diag) < 0) fail_msg("%s", diag.text);
  memset(content, 7, sizeof content);
  return f;
}

static void write_block(const mr__object_file_t *f, int k) {
  mr_diag_t diag = {0};
  mr__block_entry_t was;
  assert_true(mr__object_entry(f, k * (int64_t)BLOCK, &was));
  if (mr__object_write(f, k * (int64_t)BLOCK, content, bytes_of(k), was, &diag) < 0)
    fail_msg("%s", diag.text);
}

/* A kill between a block and its entry. */
static void write_without_entry(const mr__object_file_t *f, int k) {
  assert_int_equal(pwrite(f->fd, content, (size_t)bytes_of(k), k * (off_t)BLOCK), bytes_of(k));
}

static void assert_blocks(const mr__object_file_t *f, unsigned want) {
  static char got[BLOCK];
  for (int k = 0; k < BLOCKS; k++) {
    mr__block_entry_t e;
    int64_t at = k * (int64_t)BLOCK, n = bytes_of(k);
    assert_true(mr__object_entry(f, at, &e));
    assert_int_equal(e.digest != 0, want >> k & 1);
    if (!e.digest) continue;
    assert_true(mr__object_read(f, at, got, n));
    assert_memory_equal(got, content, (size_t)n);
    assert_true(e.digest == mr__object_digest(f, at, got, n));
  }
}

static void a_file_without_traces_of_a_kill_is_left_in_peace(void **state) {
  for (unsigned have = 0; have < 1u << BLOCKS; have += 73) { /* some sets of blocks, and all */
    unsigned set = have + 73 >= 1u << BLOCKS ? (1u << BLOCKS) - 1 : have;
    mr__object_file_t f = made("peace");
    for (int k = 0; k < BLOCKS; k++)
      if (set >> k & 1) write_block(&f, k);
    fsync(f.fd);
    punched = 0;
    mr__object_tidy(&f);
    assert_int_equal(punched, 0);
    assert_blocks(&f, set);
    close(f.fd), unlink(in_folder("peace"));
  }
}

static void a_block_of_a_killed_run_is_given_back(void **state) {
  for (int k = 0; k < BLOCKS - 1; k++) { /* the last one is shorter than what is looked for */
    mr__object_file_t f = made("killed");
    if (!mr__object_punches(f.fd)) skip();
    for (int i = 0; i < BLOCKS; i += 2)
      if (i != k) write_block(&f, i);
    write_without_entry(&f, k);
    assert_int_equal(fsync(f.fd), 0); /* some file systems take their blocks late */
    punched_blocks = 0;
    mr__object_tidy(&f);
    assert_true(punched_blocks >> k & 1);
    assert_int_equal(punched_blocks & 0x155 & ~(1u << k), 0);
    assert_blocks(&f, 0x155 & ~(1u << k));
    close(f.fd), unlink(in_folder("killed"));
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_file_without_traces_of_a_kill_is_left_in_peace),
      cmocka_unit_test(a_block_of_a_killed_run_is_given_back)};
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
