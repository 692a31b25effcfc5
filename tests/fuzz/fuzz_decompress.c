/* Files compressed as a whole, as the shards of MDS and litdata are.  The first byte chooses what
   is known of the file; its other bytes are the file. */
#include <fcntl.h>

#include "loaders/shards/decompress.h"
#include "pipeline/care.h"
#include "tests/fuzz/fuzz_shards.h"

enum { GZ = 1, KNOWN = 2, MOST = 1 << 18 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  if (!n) return 0;
  const char *path = fuzz_file("packed", data + 1, n - 1);
  mr_compressed_t c = {.codec = data[0] & GZ ? "gz" : "zstd",
                       .packed = data[0] & KNOWN ? (int64_t)n - 1 : -1,
                       .unpacked = data[0] & KNOWN ? data[0] >> 2 : -1,
                       .most = MOST};
  mr_diag_t diag = {0};
  mr_shard_id_t id;
  struct stat st;
  char *out = NULL;
  mr_notice_to(fuzz_no_notice, NULL);
  mr_shard_file_t f = {.path = path, .fd = open(path, O_RDONLY | O_CLOEXEC)};
  fuzz_need(f.fd >= 0 && mr_shard_id_of(f.fd, f.path, &id, &diag) >= 0, "the file");
  f.size = id.size;
  mr_err_t e = mr_decompress(&f, &id, fuzz_folder(), &c, &out, &diag);
  if (e >= 0) {
    fuzz_need(stat(out, &st) == 0 && st.st_size <= MOST, "too many bytes came out");
    fuzz_need(c.unpacked < 0 || st.st_size == c.unpacked, "other bytes than said came out");
    char sum[4200];
    snprintf(sum, sizeof sum, "%s.sum", out);
    unlink(out), unlink(sum);
  }
  free(out);
  mr_shard_file_fini(&f);
  close(f.fd);
  return 0;
}
