/* Files of tokens: the input as a flat file, and as Megatron-LM's index of one. */
#include "pipeline/care.h"
#include "tests/fuzz/fuzz_shards.h"

static void open_tokens(const char *path, const char *pack, const char *memory) {
  char files[160];
  snprintf(files, sizeof files, "files=%s", path);
  mr_notice_to(fuzz_no_notice, NULL);
  fuzz_stage_t f;
  if (fuzz_open(&f, "tokens",
                FUZZ_SETTINGS(files, "length=8", "stride=8", pack, memory, "eos=3")) >= 0)
    fuzz_fetch_fields(&f);
  f.s.def->close(&f.s);
  f.s.def->forget(&f.s);
  free(f.s.state);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  static const char *const pack[] = {"pack=stream", "pack=reset", "pack=whole"};
  const char *memory = n & 1 ? "memory=0" : "memory=99999";
  open_tokens(fuzz_file("flat.bin", data, n), pack[n % 3], memory);
  if (n < 2) return 0;
  size_t head = data[0] * 4u < n ? data[0] * 4u : n; /* the rest are tokens */
  fuzz_file("pair.idx", data + 1, head ? head - 1 : 0);
  open_tokens(fuzz_file("pair.bin", data + head, n - head), pack[data[0] % 3], memory);
  return 0;
}
