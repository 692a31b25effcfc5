/* Decompresses files that are compressed as a whole, so that their records can be read at random.
   Needs libzstd and zlib; a build without them refuses in without.c.

   Implemented in decompress.c, over decompress_keep.c; digests of whole files in file_digest.c. */
#ifndef MR_LOADERS_SHARDS_DECOMPRESS_H
#define MR_LOADERS_SHARDS_DECOMPRESS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "loaders/shards/shard_file.h"
#include "loaders/shards/shard_index.h"

enum { MR_DIGEST_TEXT = 40 };

/* A digest as text, as xxhash's hexdigest writes it. */
typedef struct mr_file_digest {
  char name[12];             /* "xxh64"; "": none is known, or none that can be checked here */
  char text[MR_DIGEST_TEXT]; /* in lower case */
} mr_file_digest_t;

/* True if mr_file_digest_t can have this name: xxh32, xxh64, xxh3_64, xxh128, xxh3_128. */
bool mr_file_digest_known(const char *name);

/* Reads the file behind fd and compares.  MR_ERR_DATA with a sentence that begins with path if the
   digest is another one; MR_ERR_IO, MR_ERR_NOMEM.  MR_OK for a digest without name.  Any thread. */
mr_err_t mr_file_digest_check(int fd, const char *path, const mr_file_digest_t *want,
                              mr_diag_t *diag);

/* What a file must be, and what it must become. */
typedef struct mr_compressed {
  const char *codec; /* "zstd" or "gz" */
  int64_t packed;    /* bytes; -1: any number */
  int64_t unpacked;  /* the same, and never more than `most`; -1: any number up to it */
  int64_t most;
  mr_file_digest_t packed_digest, unpacked_digest;
} mr_compressed_t;

/* Decompresses a file, here or remote, into a local file beside its index file (where: as in
   mr_shards_conf_t.index), unless it is there already, and sets *out (heap, the caller's) to the
   new file's path.  id: of the file, which names the new one; an object without ETag and time,
   whose id does not tell its versions apart, is decompressed each time, and its contents name the
   new one. The new file appears whole or not at all, with a check beside it, and one that is there
   is used if it is as it was made (decompress_keep.h); those of earlier states that are no longer
   used are removed when a new one is made.  Blocks; any thread.  Threads and processes that want
   the same file at once wait for the first one; a file that is there is never replaced by an equal
   one, since graphs that are planned know its time.  MR_ERR_DATA if the file is not what c says;
   MR_ERR_IO, MR_ERR_NOMEM; MR_ERR_CONFIG for another codec, or where no folder for a cache is
   known; MR_ERR_UNAVAILABLE if it is not built in. */
mr_err_t mr_decompress(mr_shard_file_t *file, const mr_shard_id_t *id, const char *where,
                       const mr_compressed_t *c, char **out, mr_diag_t *diag);

#endif
