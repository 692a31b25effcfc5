/* Makes a large archive that is only simulated, and its index, by the calls that a scan makes.

   usage: large_index ARCHIVE RECORDS
   ARCHIVE becomes a sparse file of zeros with the length of a tar of that many members of 512
   bytes, each of them a record with a key, and ARCHIVE.mrindex its index.  bench/memory.py runs it.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "loaders/formats/tar_scan.h"
#include "loaders/shards/shard_index.h"

enum { BLOCK = 512, MEMBER = 2 * BLOCK /* its header and its contents */ };

static mr_err_t describe_columns(mr_shard_draft_t *d, int64_t records, mr_diag_t *diag) {
  uint32_t key, bin;
  MR_TRY(mr_shard_draft_column(d, "__key__", 7, MR_TAR_KEY, &key, diag));
  MR_TRY(mr_shard_draft_column(d, "bin", 3, MR_TAR_MEMBER, &bin, diag));
  for (int64_t i = 0; i < records; i++) {
    char name[32];
    int n = snprintf(name, sizeof name, "%09lld", (long long)i);
    MR_TRY(mr_shard_draft_record(d, name, (size_t)n, diag));
    mr_shard_draft_count(d, key, n);
    MR_TRY(mr_shard_draft_part(d, bin, i * MEMBER + BLOCK, BLOCK, diag));
  }
  return MR_OK;
}

static mr_err_t make_index(const char *archive, int fd, int64_t records, mr_diag_t *diag) {
  char path[4096];
  mr_shard_id_t id;
  mr_shard_index_t x = {0};
  snprintf(path, sizeof path, "%s.mrindex", archive);
  MR_TRY(mr_shard_id_of(fd, archive, &id, diag));
  MR_TRY(mr_shard_id_for_index(fd, archive, &id, diag));
  mr_shard_draft_t *d = mr_shard_draft_new();
  if (!d) return mr_no_memory(diag, "an index");
  mr_err_t e = describe_columns(d, records, diag);
  if (e >= 0) e = mr_shard_index_make(d, "tar/1", &id, NULL, &x, diag);
  mr_shard_draft_free(d);
  if (e >= 0) e = mr_shard_index_save(&x, path, NULL, diag);
  mr_shard_index_close(&x);
  return e;
}

int main(int argc, char **argv) {
  mr_diag_t diag = {0};
  int64_t records = argc == 3 ? atoll(argv[2]) : 0;
  if (records < 1) return fprintf(stderr, "usage: large_index ARCHIVE RECORDS\n"), 2;
  int fd = open(argv[1], O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0 || ftruncate(fd, (records + 1) * MEMBER) < 0)
    return fprintf(stderr, "large_index: %s: %s\n", argv[1], strerror(errno)), 1;
  if (make_index(argv[1], fd, records, &diag) < 0)
    return fprintf(stderr, "large_index: %s\n", diag.text), 1;
  return 0;
}
