/* Chunks of Riegeli's record files, of which ArrayRecord files consist.

   A file is a sequence of chunks.  At each multiple of 64 KiB lies a block header of 24 bytes,
   which cuts through chunks and only helps to find the next one after damage.  A chunk has a header
   of 40 bytes: hash of the other 32, u64 data_size, hash of the data, u8 type with 7 bytes of
   records, u64 decoded_size; then its data.  The data of a chunk of type 'r': u8 compression (0,
   'b' brotli, 's' snappy, 'z' zstd), varint bytes of the sizes, sizes, values; a compressed buffer
   begins with a varint, its decompressed bytes.

   Source of the format: Riegeli, doc/riegeli_records_file_format.md. */
#ifndef MR_LOADERS_FORMATS_RIEGELI_H
#define MR_LOADERS_FORMATS_RIEGELI_H

#include <stdbool.h>

#include "loaders/shards/shard_groups.h"

enum {
  MR_RIEGELI_BLOCK = 1 << 16,
  MR_RIEGELI_HEAD = 40,
  MR_RIEGELI_HEAD_MOST = 64, /* with a block header in it */
};

typedef struct mr_riegeli_head {
  int64_t data_size, decoded_size, n_records;
  uint64_t data_hash;
  uint8_t type; /* 's' signature, 'm' metadata, 'p' padding, 'r' records, 't' transposed ones */
} mr_riegeli_head_t;

/* Returns where n bytes of a chunk, which begins at byte `at`, end in the file; -1 if that is
   beyond any file. */
int64_t mr_riegeli_place(int64_t at, int64_t n);

/* Removes the block headers from bytes [at,at+n) of a file; returns how many are left. */
size_t mr_riegeli_join(uint8_t *data, int64_t at, size_t n);

/* Reads the header data[0,MR_RIEGELI_HEAD).  False if its hash is wrong, or a number in it does not
   fit any file. */
bool mr_riegeli_head(const uint8_t *data, mr_riegeli_head_t *out);

/* Returns where the chunk behind one at byte `at` begins; -1 if that is beyond any file. */
int64_t mr_riegeli_end(int64_t at, const mr_riegeli_head_t *head);

/* An mr_shard_group_fn for a chunk of type 'r'; checks both hashes. */
mr_err_t mr_riegeli_group(uint8_t *data, int64_t at, int64_t size, mr_shard_group_t *out,
                          mr_diag_t *diag);

#endif
