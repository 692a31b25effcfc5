/* ArrayRecord files: the input as a file; as the data of a chunk whose checksums are right; and
   as the data of the footer behind a true chunk. */
#include "pipeline/care.h"
#include "tests/fuzz/fuzz_shards.h"
#include "tests/loaders/arrayrecord.h"

/* The first four bytes are the numbers of the chunk's header. */
static const char *write_as_chunk(const uint8_t *data, size_t n, bool footer) {
  static const uint8_t plain[] = {0, 1, 4, 'a', 'b', 'c', 'd'};
  ar_out_t o = {0};
  image_t of_chunk = {(uint8_t *)(footer ? plain : data + 4), footer ? sizeof plain : n - 4, 0};
  uint64_t records = footer ? 1 : data[0], decoded = footer ? 4 : data[1] | (uint64_t)data[2] << 8;
  ar_records(&o, records, decoded, &of_chunk);
  if (footer)
    ar_end_with(&o, data[0], data[1] | (uint64_t)data[2] << 8, data + 4, n - 4);
  else
    ar_end(&o);
  const char *path = fuzz_file(footer ? "footer.ar" : "chunk.ar", o.file.at, o.file.n);
  ar_free(&o);
  return path;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  static const char *const usual[] = {NULL};
  static const char *const record[] = {"fields=__record__:r", NULL};
  fuzz_shard("arrayrecord", fuzz_file("raw.ar", data, n), true, record);
  if (n < 4) return 0;
  fuzz_shard("arrayrecord", write_as_chunk(data, n, false), true, data[3] & 1 ? usual : record);
  fuzz_shard("arrayrecord", write_as_chunk(data, n, true), true, record);
  return 0;
}
