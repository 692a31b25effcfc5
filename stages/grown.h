/* Memory of a worker that grows with the pictures that pass. */
#ifndef MR_STAGES_GROWN_H
#define MR_STAGES_GROWN_H

#include <stdlib.h>

#include "pipeline/picture.h"

/* Zeros: empty.  It keeps no contents when it grows. */
typedef struct mr_grown {
  uint8_t *at; /* [cap] 64-aligned; heap, the holder's */
  size_t cap;  /* without MR_PART_SLACK bytes behind it */
} mr_grown_t;

/* Makes g at least n bytes large, and MR_PART_SLACK more.  MR_OK, or MR_ERR_NOMEM with a sentence;
 * g is empty then. */
static inline mr_err_t mr_grow(mr_grown_t *g, size_t n, mr_diag_t *diag) {
  if (n <= g->cap && g->at) return MR_OK;
  size_t cap = (n + n / 4 + 4096) / 64 * 64; /* a little more, so that it does not grow each time */
  free(g->at);
  *g = (mr_grown_t){.at = aligned_alloc(64, cap + MR_PART_SLACK), .cap = cap};
  if (g->at) return MR_OK;
  g->cap = 0;
  return mr_no_memory(diag, "a picture of %zu bytes", n);
}

static inline void mr_grown_free(mr_grown_t *g) {
  free(g->at);
  *g = (mr_grown_t){0};
}

#endif
