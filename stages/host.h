/* Batches divided among hosts: host I of N takes a contiguous slice of every batch. */
#ifndef MR_STAGES_HOST_H
#define MR_STAGES_HOST_H

#include "pipeline/stage.h"

typedef struct mr_host {
  int64_t i, n; /* i in [0,n) */
} mr_host_t;

/* Parses "I/N" with 0 <= I < N <= size into *h; NULL or "" is 0/1.  MR_OK, or MR_ERR_CONFIG with a
   sentence of the stage. */
mr_err_t mr_host_parse(mr_stage_t *s, const char *text, int64_t size, mr_host_t *h);

/* Reduces slots [*from,*from+*n) to the host's own; the slices of all hosts follow one another and
   differ by at most one slot. */
void mr_host_slice(const mr_host_t *h, int *from, int *n);

#endif
