/* A digest that is made while a file is read or written. */
#ifndef MR_LOADERS_SHARDS_FILE_DIGEST_H
#define MR_LOADERS_SHARDS_FILE_DIGEST_H

#include <stdbool.h>
#include <stddef.h>
#include <xxhash.h>

#include "loaders/shards/decompress.h"

enum { MR_FILE_HASHES = 5 };

typedef struct mr_file_hash {
  int kind; /* -1: none */
  XXH32_state_t *small;
  XXH64_state_t *middle;
  XXH3_state_t *large;
} mr_file_hash_t;

/* Begins a digest of the kind that want names; one without name costs nothing.  The caller ends h
   with mr_file_hash_end, also after a failure.  MR_ERR_NOMEM. */
mr_err_t mr_file_hash_begin(mr_file_hash_t *h, const mr_file_digest_t *want, mr_diag_t *diag);
void mr_file_hash_add(mr_file_hash_t *h, const void *data, size_t n);

/* Frees h.  Returns whether the digest is want's; true without a name. */
bool mr_file_hash_end(mr_file_hash_t *h, const mr_file_digest_t *want);

#endif
