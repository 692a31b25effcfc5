/* The objects of a remote source lie in files once there are many: their memory is that of a few
   blocks, and their pieces neither move nor overlap. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "loaders/remote/remote.h"
#include "loaders/remote/remote_pieces.h"
#include "tests/random.h"

enum { HEAP = 1 << 20, OBJECTS = 200000 };

/* Bytes of this process that belong to no file; -1: not known here. */
static int64_t anonymous_bytes(void) {
  char line[128];
  long long kb = -1;
  FILE *f = fopen("/proc/self/status", "r");
  while (f && fgets(line, sizeof line, f) && sscanf(line, "RssAnon: %lld", &kb) != 1) continue;
  if (f) fclose(f);
  return kb < 0 ? -1 : kb << 10;
}

static void pieces_neither_move_nor_overlap(void **state) {
  enum { PIECES = 3000 };
  static struct {
    uint8_t *at, with;
    size_t n;
  } piece[PIECES];
  for (round_t r = round_first(6); round_next(&r);) {
    mr__pieces_t rows = {0};
    for (int i = 0; i < PIECES; i++) {
      piece[i].n = one_in(&r, 500) ? (size_t)draw(&r, 300000) + 1 : (size_t)draw(&r, 400) + 1;
      piece[i].at = mr__pieces_take(&rows, piece[i].n, NULL);
      piece[i].with = (uint8_t)round_bits(&r);
      round_check(&r, piece[i].at && (uintptr_t)piece[i].at % 16 == 0, "piece %d", i);
      memset(piece[i].at, piece[i].with, piece[i].n);
    }
    for (int i = 0; i < PIECES; i++)
      for (size_t k = 0; k < piece[i].n; k++)
        if (piece[i].at[k] != piece[i].with) fail_msg("piece %d has changed", i);
    mr__pieces_free(&rows);
    assert_null(rows.block);
  }
}

static void objects_of_a_large_folder_lie_in_files(void **state) {
  static const mr_remote_conf_t conf = {.connections = 1, .endpoint = "http://127.0.0.1:1"};
  static const mr_object_t *object[OBJECTS];
  mr_remote_t *r;
  char url[100];
  mr_diag_t diag = {0};
  if (mr_remote_open(&r, &conf, &diag) < 0) fail_msg("%s", diag.text);
  memset(object, 1, sizeof object); /* its pages are there */
  int64_t before = anonymous_bytes();
  for (int i = 0; i < OBJECTS; i++) {
    snprintf(url, sizeof url, "s3://a-bucket/train/n%08d/n%08d_%d.JPEG", i % 1000, i % 1000, i);
    if (mr_remote_known(r, url, i, 0, "\"0123456789abcdef0123456789abcdef\"", &object[i], &diag) <
        0)
      fail_msg("%s", diag.text);
  }
  int64_t more = anonymous_bytes() - before;
  for (int i = 0; i < OBJECTS; i++) {
    snprintf(url, sizeof url, "s3://a-bucket/train/n%08d/n%08d_%d.JPEG", i % 1000, i % 1000, i);
    assert_string_equal(object[i]->name, url);
    assert_int_equal(object[i]->size, i);
    assert_true(strstr(object[i]->url, "http://127.0.0.1:1/a-bucket/") == object[i]->url);
  }
  mr_remote_close(r);
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  skip(); /* their own memory belongs to no file either */
#endif
  if (before < 0) skip();
  printf("%lld bytes of %d objects lie in no file\n", (long long)more, OBJECTS);
  if (more > 8 * HEAP)
    fail_msg("%lld bytes, %lld an object", (long long)more, (long long)more / OBJECTS);
}

static void a_name_that_is_its_url_is_kept_once(void **state) {
  static const mr_remote_conf_t conf = {.connections = 1};
  const mr_object_t *plain, *with_query;
  mr_remote_t *r;
  assert_int_equal(mr_remote_open(&r, &conf, NULL), MR_OK);
  assert_int_equal(mr_remote_known(r, "http://h/x", 1, 0, "\"e\"", &plain, NULL), MR_OK);
  assert_int_equal(mr_remote_known(r, "http://h/x?q=1", 1, 0, "\"e\"", &with_query, NULL), MR_OK);
  assert_string_equal(plain->url, "http://h/x");
  assert_ptr_equal(plain->url, plain->name);
  assert_string_equal(with_query->name, "http://h/x");
  assert_string_equal(with_query->url, "http://h/x?q=1");
  assert_string_equal(plain->etag, "\"e\"");
  mr_remote_close(r);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(pieces_neither_move_nor_overlap),
                                     cmocka_unit_test(objects_of_a_large_folder_lie_in_files),
                                     cmocka_unit_test(a_name_that_is_its_url_is_kept_once)};
  mr__spill_heap_max = HEAP;
  return cmocka_run_group_tests(tests, NULL, NULL);
}
