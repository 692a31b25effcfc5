/* Two ways to expand a seed into many words: C++'s std::seed_seq and NumPy's SeedSequence.  Any
   thread; no call fails. */
#ifndef MR_BASE_SEEDSEQ_H
#define MR_BASE_SEEDSEQ_H

#include <stddef.h>
#include <stdint.h>

#include "base/decls.h"

MR_BEGIN_DECLS

/* Fills out[0,n) as C++ `std::seed_seq{seed[0..n_seeds)}.generate` does (ISO C++
   [rand.util.seedseq]). */
void mr_seed_seq(const uint32_t *seed, size_t n_seeds, uint32_t *out, size_t n);

/* Fills out[0,n) as `numpy.random.SeedSequence(entropy).generate_state(n, uint32)` does.  word: the
   entropy's integers, each as little-endian 32-bit words (0 is one word).  generate_state(n/2,
   uint64) gives the same words in pairs, low word first. */
void mr_seed_sequence(const uint32_t *word, size_t n_words, uint32_t *out, size_t n);

MR_END_DECLS

#endif
