/* Digests of the xxHash family, which MDS and others write into their index files.  A file is read
   in chunks, so that its size does not matter; a digest of an unknown name cannot be checked here
   and passes. */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "loaders/shards/decompress.h"
#include "loaders/shards/file_digest.h"

enum { CHUNK = 1 << 18 };

static const char *const known[MR_FILE_HASHES] = {"xxh32", "xxh64", "xxh3_64", "xxh128",
                                                  "xxh3_128"};

bool mr_file_digest_known(const char *name) {
  for (int i = 0; i < MR_FILE_HASHES; i++)
    if (!strcmp(known[i], name)) return true;
  return false;
}

mr_err_t mr_file_hash_begin(mr_file_hash_t *h, const mr_file_digest_t *want, mr_diag_t *diag) {
  *h = (mr_file_hash_t){.kind = -1};
  for (int i = 0; i < MR_FILE_HASHES; i++)
    if (!strcmp(known[i], want->name)) h->kind = i;
  if (h->kind < 0) return MR_OK;
  if (h->kind == 0) h->small = XXH32_createState();
  if (h->kind == 1) h->middle = XXH64_createState();
  if (h->kind > 1) h->large = XXH3_createState();
  if (h->small) XXH32_reset(h->small, 0);
  if (h->middle) XXH64_reset(h->middle, 0);
  if (h->large && h->kind == 2) XXH3_64bits_reset(h->large);
  if (h->large && h->kind > 2) XXH3_128bits_reset(h->large);
  return h->small || h->middle || h->large ? MR_OK : mr_no_memory(diag, "a digest");
}

void mr_file_hash_add(mr_file_hash_t *h, const void *data, size_t n) {
  if (h->small) XXH32_update(h->small, data, n);
  if (h->middle) XXH64_update(h->middle, data, n);
  if (h->large && h->kind == 2) XXH3_64bits_update(h->large, data, n);
  if (h->large && h->kind > 2) XXH3_128bits_update(h->large, data, n);
}

bool mr_file_hash_end(mr_file_hash_t *h, const mr_file_digest_t *want) {
  uint8_t digest[16];
  char text[MR_DIGEST_TEXT] = "";
  int n = 0;
  if (h->small) XXH32_canonicalFromHash((XXH32_canonical_t *)digest, XXH32_digest(h->small)), n = 4;
  if (h->middle)
    XXH64_canonicalFromHash((XXH64_canonical_t *)digest, XXH64_digest(h->middle)), n = 8;
  if (h->large && h->kind == 2)
    XXH64_canonicalFromHash((XXH64_canonical_t *)digest, XXH3_64bits_digest(h->large)), n = 8;
  if (h->large && h->kind > 2)
    XXH128_canonicalFromHash((XXH128_canonical_t *)digest, XXH3_128bits_digest(h->large)), n = 16;
  XXH32_freeState(h->small), XXH64_freeState(h->middle), XXH3_freeState(h->large);
  for (int i = 0; i < n; i++) snprintf(text + 2 * i, 3, "%02x", digest[i]);
  return !n || !strcmp(text, want->text);
}

mr_err_t mr_file_digest_check(int fd, const char *path, const mr_file_digest_t *want,
                              mr_diag_t *diag) {
  mr_file_hash_t h;
  if (!*want->name) return MR_OK;
  uint8_t *chunk = malloc(CHUNK);
  if (!chunk) return mr_no_memory(diag, "a digest of %s", path);
  mr_err_t e = mr_file_hash_begin(&h, want, diag);
  for (off_t at = 0; e >= 0;) {
    ssize_t got = pread(fd, chunk, CHUNK, at);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) e = mr_fail(diag, MR_ERR_IO, "%s: cannot be read: %s", path, strerror(errno));
    if (got <= 0) break;
    mr_file_hash_add(&h, chunk, (size_t)got), at += got;
  }
  bool same = mr_file_hash_end(&h, want);
  free(chunk);
  if (e >= 0 && !same)
    e = mr_fail(diag, MR_ERR_DATA, "%s: is damaged: its %s is not %s", path, want->name,
                want->text);
  return e;
}
