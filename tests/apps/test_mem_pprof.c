/* millrace mem --pprof: the profile is what pprof reads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <zlib.h>

#include "tests/apps/program.h"

#define TINY "--layers", "1", "--embed", "32", "--mlp", "64", "--heads", "2", "--batch", "4"

static program_t p;

/* Words of a message of the wire format; fails the test where it does not hold. */
static uint64_t varint(const unsigned char **at, const unsigned char *end) {
  uint64_t v = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    assert_true(*at < end);
    unsigned char c = *(*at)++;
    v |= (uint64_t)(c & 127) << shift;
    if (c < 128) return v;
  }
  fail_msg("a number of more than 64 bits");
  return 0;
}

/* How many fields `want` of length-delimited kind there are, and the bytes of the last. */
static int fields(const unsigned char *at, const unsigned char *end, uint64_t want) {
  int n = 0;
  while (at < end) {
    uint64_t tag = varint(&at, end), v = varint(&at, end);
    if ((tag & 7) != 2) continue;
    assert_true(v <= (uint64_t)(end - at));
    at += v;
    n += tag >> 3 == want;
  }
  return n;
}

static void a_profile_for_pprof_holds_each_tensor_alive_at_the_peak(void **state) {
  char path[] = "/tmp/mr-mem-XXXXXX";
  close(mkstemp(path));
  RUN(&p, "mem", "grad", TINY, "--no-run", "--pprof", path);
  assert_int_equal(p.status, 0);
  unsigned char bytes[1 << 15];
  FILE *raw = fopen(path, "rb");
  assert_true(getc(raw) == 0x1f && getc(raw) == 0x8b); /* gzip, as pprof writes it */
  fclose(raw);
  gzFile f = gzopen(path, "rb");
  size_t n = gzfread(bytes, 1, sizeof bytes, f);
  gzclose(f);
  unlink(path);
  assert_true(n < sizeof bytes);
  const char *at = strstr(p.out, "alive at the peak");
  assert_non_null(at);
  assert_int_equal(fields(bytes, bytes + n, 1), 2);
  assert_int_equal(fields(bytes, bytes + n, 2), atoi(strchr(at, ':') + 1));
  assert_int_equal(fields(bytes, bytes + n, 4), fields(bytes, bytes + n, 5));
}

static void a_file_that_cannot_be_written_is_named(void **state) {
  RUN(&p, "mem", "loss", TINY, "--no-run", "--pprof", "/nowhere/file");
  assert_int_equal(p.status, 1);
  assert_non_null(strstr(p.err, "/nowhere/file: cannot be written: No such file"));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_profile_for_pprof_holds_each_tensor_alive_at_the_peak),
      cmocka_unit_test(a_file_that_cannot_be_written_is_named),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
