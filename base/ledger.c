/* The ledger's hash: a chain of 64-bit mixes over the steps, keys, draws and losses of a run.  A
   mix is the finaliser of MurmurHash3 (A. Appleby, public domain) over a combination of both words:
   each input bit affects every output bit, and the order of calls matters.  It guards against
   mistakes, not against forgery. */
#include "base/ledger.h"

uint64_t mr_hash_mix(uint64_t h, uint64_t x) {
  h = (h ^ x) + 0x9E3779B97F4A7C15u + (h << 6) + (h >> 2);
  h ^= h >> 33;
  h *= 0xFF51AFD7ED558CCDu;
  h ^= h >> 33;
  h *= 0xC4CEB9FE1A85EC53u;
  return h ^ (h >> 33);
}

uint64_t mr_ledger_step(uint64_t ledger, int64_t step, const uint64_t *key, const uint64_t *draw,
                        int n, uint32_t loss_bits) {
  uint64_t h = mr_hash_mix(ledger, (uint64_t)step);
  for (int i = 0; i < n; i++) h = mr_hash_mix(mr_hash_mix(h, key[i]), draw[i]);
  return mr_hash_mix(h, loss_bits);
}
