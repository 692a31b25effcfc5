/* Checksums of answers: CRC-32C is our own, which has the processor's instruction; the others are
   libcrypto's.  An algorithm that libcrypto refuses to compute, as some do in FIPS mode, is
   skipped, not counted as damage. */
#include "loaders/remote/remote_answer.h"

#include <openssl/evp.h>
#include <string.h>

#include "base/crc32c.h"

static const EVP_MD *digest_of_kind(mr_sum_kind_t kind) {
  switch (kind) {
    case MR_SUM_MD5: return EVP_md5();
    case MR_SUM_SHA1: return EVP_sha1();
    case MR_SUM_SHA256: return EVP_sha256();
    case MR_SUM_SHA512: return EVP_sha512();
    default: return NULL;
  }
}

bool mr__remote_sum_ok(const mr_remote_sum_t *sum, const void *data, size_t n) {
  uint8_t value[EVP_MAX_MD_SIZE];
  unsigned bytes = 0;
  if (sum->kind == MR_SUM_NONE) return true;
  if (sum->kind == MR_SUM_CRC32C) {
    uint32_t crc = __builtin_bswap32(mr_crc32c(data, n)); /* sent with the highest byte first */
    return !memcmp(sum->value, &crc, sizeof crc);
  }
  if (!EVP_Digest(data, n, value, &bytes, digest_of_kind(sum->kind), NULL)) return true;
  return bytes == (unsigned)mr__remote_sum_bytes(sum->kind) && !memcmp(sum->value, value, bytes);
}
