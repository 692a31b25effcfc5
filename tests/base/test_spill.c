/* Arrays that move from the heap to files and back: their contents, and where they lie. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>

/* before cmocka.h */
#include "base/spill.h"
#include "tests/vectors.h"
/* after vectors.h */
#include "tests/random.h"

/* How many calls fail, as on a disk that is full. */
static int full;

int __real_fallocate(int fd, int mode, off_t at, off_t n);
int __wrap_fallocate(int fd, int mode, off_t at, off_t n);
int __wrap_fallocate(int fd, int mode, off_t at, off_t n) {
  if (full > 0) return full--, errno = ENOSPC, -1;
  return __real_fallocate(fd, mode, at, n);
}

enum { ARRAYS = 4, BYTES_MAX = 1 << 20, LIMIT = 100000 };

/* An array, and what it must hold. */
typedef struct twin {
  mr_spill_t s;
  uint8_t want[BYTES_MAX];
} twin_t;
static twin_t twin[ARRAYS];

static void check_contents(round_t *r, const twin_t *t) {
  round_check(r, !t->s.bytes || !memcmp(t->s.at, t->want, t->s.bytes), "bytes have changed");
}

static void draw_write(round_t *r, twin_t *t) {
  if (!t->s.bytes) return;
  size_t at = (size_t)draw(r, (int)t->s.bytes);
  ((uint8_t *)t->s.at)[at] = t->want[at] = (uint8_t)draw(r, 256);
}

/* New bytes are undefined: the twin takes them. */
static void draw_grow(round_t *r, twin_t *t) {
  size_t was = t->s.bytes, want = (size_t)draw(r, BYTES_MAX / 2);
  round_check(r, mr_spill_grow(&t->s, want, "rows", NULL) == MR_OK, "no memory");
  round_check(r, t->s.bytes >= want && t->s.bytes >= was, "%zu bytes", t->s.bytes);
  round_check(r, t->s.bytes <= BYTES_MAX, "%zu bytes for %zu", t->s.bytes, want);
  if (t->s.bytes > was) memcpy(t->want + was, (uint8_t *)t->s.at + was, t->s.bytes - was);
}

static void play(round_t *r) {
  for (int k = 0; k < ARRAYS; k++) twin[k].s = MR_SPILL_NONE;
  for (int step = 0; step < 60; step++) {
    twin_t *t = &twin[draw(r, ARRAYS)];
    switch (draw(r, 8)) {
      case 0: mr_spill_settle(&t->s); break;
      case 1: mr_spill_free(&t->s); break;
      case 2:
      case 3: draw_grow(r, t); break;
      default: draw_write(r, t);
    }
    check_contents(r, t);
  }
  for (int k = 0; k < ARRAYS; k++) {
    check_contents(r, &twin[k]);
    mr_spill_free(&twin[k].s);
  }
}

static void arrays_keep_their_contents_wherever_they_lie(void **state) {
  round_t r = round_first(300);
  while (round_next(&r)) {
    mr__spill_heap_max = one_in(&r, 3) ? 0 : LIMIT;
    play(&r);
  }
}

static void arrays_beyond_the_limit_lie_in_files(void **state) {
  mr_spill_t a = MR_SPILL_NONE, b = MR_SPILL_NONE, small = MR_SPILL_NONE;
  mr__spill_heap_max = LIMIT;
  assert_int_equal(mr_spill_grow(&a, LIMIT - 1, "rows", NULL), MR_OK);
  assert_false(a.mapped);
  assert_int_equal(mr_spill_grow(&b, LIMIT / 2, "rows", NULL), MR_OK);
  assert_true(b.mapped); /* both together exceed it */
  assert_int_equal(mr_spill_grow(&small, 1000, "rows", NULL), MR_OK);
  assert_false(small.mapped);
  mr_spill_free(&b), mr_spill_free(&a);
  assert_int_equal(mr_spill_grow(&b, LIMIT / 2, "rows", NULL), MR_OK);
  assert_false(b.mapped); /* there is room again */
  assert_int_equal(mr_spill_grow(&b, LIMIT + 1, "rows", NULL), MR_OK);
  assert_true(b.mapped);
  mr_spill_free(&b), mr_spill_free(&small);
}

/* A file of these bytes cannot be made. */
static void without_room_for_files_the_heap_takes_arrays(void **state) {
  round_t r = round_first(50);
  struct rlimit was, few;
  signal(SIGXFSZ, SIG_IGN);
  assert_int_equal(getrlimit(RLIMIT_FSIZE, &was), 0);
  while (round_next(&r)) {
    few = was, few.rlim_cur = (rlim_t)draw(&r, LIMIT);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &few), 0);
    mr__spill_heap_max = 0;
    play(&r);
    mr_spill_t s = MR_SPILL_NONE;
    assert_int_equal(mr_spill_grow(&s, 2 * LIMIT, "rows", NULL), MR_OK);
    bool mapped = s.mapped;
    mr_spill_free(&s);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &was), 0);
    round_check(&r, !mapped, "a file of more than %d bytes", LIMIT);
  }
}

/* $TMPDIR, /var/tmp and /tmp may lie on different disks. */
static void a_folder_without_room_leaves_arrays_to_the_next(void **state) {
  mr__spill_heap_max = 0;
  setenv("TMPDIR", "/tmp", 1);
  for (full = 1; full <= 3; full++) {
    int first = full;
    mr_spill_t s = MR_SPILL_NONE;
    assert_int_equal(mr_spill_grow(&s, LIMIT, "rows", NULL), MR_OK);
    assert_int_equal(full, 0);
    assert_int_equal(s.mapped, first < 3); /* else the heap takes it */
    mr_spill_free(&s);
    full = first;
  }
  full = 0;
  unsetenv("TMPDIR");
}

static void sizes_that_no_memory_has_are_refused(void **state) {
  mr_spill_t s = MR_SPILL_NONE;
  mr_diag_t diag = {0};
  assert_int_equal(mr_spill_grow(&s, SIZE_MAX, "an index", &diag), MR_ERR_NOMEM);
  assert_non_null(strstr(diag.text, "an index"));
#if !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__) /* they end the process instead */
  assert_int_equal(mr_spill_grow(&s, SIZE_MAX / 5, "an index", &diag), MR_ERR_NOMEM);
#endif
  assert_int_equal(s.bytes, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(arrays_keep_their_contents_wherever_they_lie),
      cmocka_unit_test(arrays_beyond_the_limit_lie_in_files),
      cmocka_unit_test(without_room_for_files_the_heap_takes_arrays),
      cmocka_unit_test(a_folder_without_room_leaves_arrays_to_the_next),
      cmocka_unit_test(sizes_that_no_memory_has_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
