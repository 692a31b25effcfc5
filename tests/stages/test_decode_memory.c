/* Decoders without memory: the failure is of memory, and no bad record. */
#include <sys/resource.h>
#include <webp/encode.h>

#include "stages/decoder.h"
#include "tests/vectors.h"

enum { SIDE = 3000, BYTES_MAX = 1 << 20 };

static long calls, fails_at; /* of malloc and aligned_alloc; 0: none fails */

static bool call_fails(void) { return fails_at && ++calls >= fails_at; }

void *__real_malloc(size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_malloc(size_t n) { return call_fails() ? NULL : __real_malloc(n); }

void *__real_aligned_alloc(size_t align, size_t n);
void *__wrap_aligned_alloc(size_t align, size_t n);
void *__wrap_aligned_alloc(size_t align, size_t n) {
  return call_fails() ? NULL : __real_aligned_alloc(align, n);
}

/* Any PNG file of the vectors. */
static size_t any_png(uint8_t *bytes) {
  char line[256], name[64];
  int at = 0, n = 0;
  FILE *f = vectors_open("pictures.txt");
  while (vectors_line(f, line, sizeof line)) {
    assert_int_equal(sscanf(line, "%63s %d %d", name, &at, &n), 3);
    if (strstr(name, "png")) break;
  }
  fclose(f);
  f = vectors_open("pictures.bin");
  assert_int_equal(fseek(f, at, SEEK_SET), 0);
  assert_int_equal(fread(bytes, 1, (size_t)n, f), n);
  fclose(f);
  return (size_t)n;
}

/* Each allocation in turn is the first of those that fail. */
static void a_png_without_memory_is_no_bad_record(void **state) {
  static uint8_t bytes[BYTES_MAX];
  size_t n = any_png(bytes);
  mr_grown_t to = {0};
  mr_part_t part;
  mr_head_t head;
  mr_box_t b = {.h = 1, .w = 1};
  long at = 1;
  assert_true(mr_decoder_png.is(bytes, n));
  for (mr_err_t e = MR_ERR_NOMEM; e < 0; at++) {
    mr_diag_t diag = {0};
    void *d = mr_decoder_png.create();
    assert_non_null(d);
    calls = 0, fails_at = at;
    e = mr_decoder_png.begin(d, bytes, n, false, &head, &diag);
    if (e >= 0) e = mr_decoder_png.read(d, b, &to, &part, &diag);
    fails_at = 0;
    mr_decoder_png.destroy(d);
    if (e < 0 && e != MR_ERR_NOMEM) fail_msg("allocation %ld: %d, %s", at, (int)e, diag.text);
    assert_true(e >= 0 || strstr(diag.text, "memory"));
  }
  assert_true(at > 4);
  mr_grown_free(&to);
}

/* libwebp's own calls of malloc are limited by the size of the process. */
static void a_webp_without_memory_is_no_bad_record(void **state) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  skip(); /* whose own memory would be missing */
#endif
  uint8_t *rgb = calloc(1, 3 * SIDE * SIDE), *bytes = NULL;
  for (int k = 0; k < 3 * SIDE; k++) rgb[k] = (uint8_t)k;
  size_t n = WebPEncodeLosslessRGB(rgb, SIDE, SIDE, 3 * SIDE, &bytes);
  void *d = mr_decoder_webp.create();
  mr_grown_t to = {0};
  mr_part_t part;
  mr_head_t head;
  mr_diag_t diag = {0};
  struct rlimit old, small;
  free(rgb);
  assert_true(n > 0);
  assert_int_equal(mr_grow(&to, 3 * SIDE * SIDE, &diag), MR_OK);
  assert_int_equal(getrlimit(RLIMIT_AS, &old), 0);
  small = old, small.rlim_cur = 1 << 20;
  assert_int_equal(mr_decoder_webp.begin(d, bytes, n, false, &head, &diag), MR_OK);
  assert_int_equal(setrlimit(RLIMIT_AS, &small), 0);
  mr_err_t e = mr_decoder_webp.read(d, (mr_box_t){.h = 1, .w = 1}, &to, &part, &diag);
  assert_int_equal(setrlimit(RLIMIT_AS, &old), 0);
  assert_int_equal(e, MR_ERR_NOMEM);
  assert_non_null(strstr(diag.text, "memory"));
  assert_true(mr_decoder_webp.read(d, (mr_box_t){.h = 1, .w = 1}, &to, &part, &diag) >= 0);
  mr_decoder_webp.destroy(d);
  mr_grown_free(&to);
  WebPFree(bytes);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(a_png_without_memory_is_no_bad_record),
                                     cmocka_unit_test(a_webp_without_memory_is_no_bad_record)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
