/* The texts of kernels that were compiled for a device, each once, found by a hash: the same layer,
   or the next graph with the same shapes, compiles nothing. */
#ifndef MR_MODEL_BACKENDS_KERNELS_TEXTS_H
#define MR_MODEL_BACKENDS_KERNELS_TEXTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct mr_kernel_kept {
  uint64_t hash;
  char *text;
  void *built; /* what the runtime has compiled it to; NULL: not built yet */
} mr_kernel_kept_t;

/* Zeroed at first.  One thread at a time. */
typedef struct mr_kernel_texts {
  mr_kernel_kept_t *kept; /* [n], in the order in which they came */
  size_t n, cap;
  uint32_t *slot; /* [slots], a power of two, at most half of them used: index + 1, 0: free */
  size_t slots;
} mr_kernel_texts_t;

/* Writes the number of a text, new or known, to *index; false without memory. */
bool mr_kernel_texts_add(mr_kernel_texts_t *t, const char *text, size_t *index);
/* Frees the texts, but not what they are built to, and empties *t.  Cannot fail. */
void mr_kernel_texts_fini(mr_kernel_texts_t *t);

#endif
