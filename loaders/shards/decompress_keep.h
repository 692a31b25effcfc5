/* Decompressed files that are kept, and the check that lies beside each: STATE.raw and
   STATE.raw.sum behind the stem of a shard's name, with a list of its states. Only decompress.c
   uses this. */
#ifndef MR_LOADERS_SHARDS_DECOMPRESS_KEEP_H
#define MR_LOADERS_SHARDS_DECOMPRESS_KEEP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/trusted.h"

enum { MR__KEEP_S = 24 * 3600 }; /* how long after their last use files of earlier states remain */

/* Sets *sound: the file at path is there, is what was decompressed from this state of its source,
   and has this many bytes (-1: any number); notes its use.  Reads all of a file that may have
   changed.  trust: who may have made it.  MR_ERR_NOMEM, also without descriptors; *sound is false
   then.  Blocks; any thread. */
mr_err_t mr__raw_find(const char *path, uint64_t state, int64_t bytes, const mr_trust_t *trust,
                      bool *sound, mr_diag_t *diag);

/* Writes the check of the file that is to be called path and is called made so far.  contents:
   XXH3-64 of all of it, seeded with state.  Fails as mr_write_file; MR_ERR_NOMEM without
   descriptors. */
mr_err_t mr__raw_note(const char *made, const char *path, uint64_t state, uint64_t contents,
                      const mr_trust_t *trust, mr_diag_t *diag);

/* Removes what was decompressed from other states of the source of the file at path, which has
   just been made, if it has not been used for MR__KEEP_S, with its indexes.  where: as for
   mr_decompress.  What cannot be removed stays. */
void mr__raw_prune(const char *path, const char *where, const mr_trust_t *trust);

#endif
