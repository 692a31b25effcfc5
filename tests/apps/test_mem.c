/* millrace mem as a person meets it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdbool.h>
#include <zlib.h>

#include "tests/apps/program.h"

#define TINY "--layers", "1", "--embed", "32", "--mlp", "64", "--heads", "2", "--batch", "4"

static program_t p;

static size_t after(const char *label) {
  const char *at = strstr(p.out, label);
  if (!at) fail_msg("\"%s\" is not in: %s%s", label, p.out, p.err);
  return strtoull(at + strlen(label), NULL, 10);
}

static void a_run_touches_what_was_planned_to_the_byte(void **state) {
  const char *words[] = {"loss", "grad", "step"}, *dtypes[] = {"f32", "bf16"};
  for (int i = 0; i < 6; i++) {
    RUN(&p, "mem", words[i / 2], TINY, "--dtype", dtypes[i % 2]);
    if (p.status) fail_msg("%s of %s: %s", words[i / 2], dtypes[i % 2], p.err);
    assert_true(after("planned peak ") > 10000);
    assert_int_equal(after("planned peak "), after("measured peak "));
  }
}

static void the_timeline_marks_one_peak_and_tensors_stand_there(void **state) {
  RUN(&p, "mem", "loss", TINY, "--timeline", "--no-run", "--top", "2");
  assert_int_equal(p.status, 0);
  char *mark = strstr(p.out, "<- peak");
  assert_non_null(mark);
  assert_null(strstr(mark + 1, "<- peak"));
  assert_non_null(strstr(p.out, "fused in encoder_blocks.0"));
  assert_non_null(strstr(p.out, "--top N shows them"));
  assert_null(strstr(p.out, "measured"));
}

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

static void a_size_to_fit_into_chooses_what_fits(void **state) {
  RUN(&p, "mem", "step", TINY, "--no-run");
  size_t whole = after("planned peak ");
  char size[32];
  snprintf(size, sizeof size, "%zuB", whole * 3 / 4);
  RUN(&p, "mem", "step", TINY, "--fit", size);
  if (p.status) fail_msg("%s", p.err);
  assert_true(after("planned peak ") <= whole * 3 / 4);
  assert_int_equal(after("planned peak "), after("measured peak "));
  assert_true(after("accumulate=") > 1 || strstr(p.out, "remat=full"));
  RUN(&p, "mem", "step", TINY, "--fit", "1k");
  assert_int_equal(p.status, 1);
  assert_non_null(strstr(p.err, "the smallest peak is"));
  RUN(&p, "mem", "loss", TINY, "--fit", "1k");
  assert_int_equal(p.status, 2);
}

static void what_cannot_be_is_refused_in_one_sentence(void **state) {
  RUN(&p, "mem", "sum");
  assert_int_equal(p.status, 2);
  assert_non_null(strstr(p.err, "unknown function \"sum\"; expected loss, grad or step"));
  RUN(&p, "mem", "loss", TINY, "--no-run", "--pprof", "/nowhere/file");
  assert_int_equal(p.status, 1);
  assert_non_null(strstr(p.err, "/nowhere/file: cannot be written: No such file"));
}

static void too_large_a_batch_is_told_with_the_planned_peak(void **state) {
  RUN(&p, "mem", "step", "--batch", "65536");
  assert_int_equal(p.status, 1);
  assert_non_null(strstr(p.err, "out of memory: the planned peak is "));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_run_touches_what_was_planned_to_the_byte),
      cmocka_unit_test(the_timeline_marks_one_peak_and_tensors_stand_there),
      cmocka_unit_test(a_profile_for_pprof_holds_each_tensor_alive_at_the_peak),
      cmocka_unit_test(a_size_to_fit_into_chooses_what_fits),
      cmocka_unit_test(what_cannot_be_is_refused_in_one_sentence),
      cmocka_unit_test(too_large_a_batch_is_told_with_the_planned_peak),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
