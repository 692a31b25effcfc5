/* The ledger: a chained 64-bit hash over (step, record keys, augmentation draws, loss bits).
   Two runs with equal ledgers trained on the same bytes in the same order. */
#ifndef MR_BASE_LEDGER_H
#define MR_BASE_LEDGER_H

#include <stdint.h>

#include "base/decls.h"

MR_BEGIN_DECLS

/* Returns the ledger after one more step.  ledger: its value before the step, 0 at the start.  key,
   draw: [n].  loss_bits: the step's loss as IEEE binary32 bits, 0 where nothing is trained. */
uint64_t mr_ledger_step(uint64_t ledger, int64_t step, const uint64_t *key, const uint64_t *draw,
                        int n, uint32_t loss_bits);

/* Returns the hash h extended by the word x; the building block of draw hashes. */
uint64_t mr_hash_mix(uint64_t h, uint64_t x);

MR_END_DECLS

#endif
