/* Lists of ranges, as a setting and as a file: rows ascend, lie apart, and hold what they say. */
#include "base/ranges.h"

#include "tests/fuzz/fuzz.h"

static void check(const char *text) {
  mr_ranges_t r = {0};
  mr_diag_t diag = {0};
  if (mr_ranges_parse(&r, text, &diag) < 0) fuzz_need(*diag.text, "a sentence");
  for (size_t i = 0; diag.code >= 0 && i < r.n; i++) {
    fuzz_need(r.row[i].first <= r.row[i].last, "a row in order");
    fuzz_need(!i || r.row[i - 1].last < r.row[i].first, "rows apart");
    fuzz_need(mr_ranges_has(&r, r.row[i].first) && mr_ranges_has(&r, r.row[i].last), "both ends");
    bool next = i + 1 < r.n && r.row[i].last + 1 == r.row[i + 1].first;
    if (r.row[i].last < UINT64_MAX)
      fuzz_need(mr_ranges_has(&r, r.row[i].last + 1) == next, "what is behind a row");
  }
  mr_ranges_fini(&r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  char *text = malloc(n + 1), file[160];
  memcpy(text, data, n);
  text[n] = 0;
  if (text[0] != '@') check(text); /* files of the machine are not read */
  snprintf(file, sizeof file, "@%s", fuzz_file("ranges", data, n));
  check(file);
  free(text);
  return 0;
}
