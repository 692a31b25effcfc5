/* The text of a stream's state, as stage ledger and the loader write it. */
#ifndef MR_PULL_STATE_H
#define MR_PULL_STATE_H

#include "pipeline/graph/graph.h"

typedef struct mr_stream_state {
  mr_stream_at_t at;
  bool by_number;  /* only the number is known: the stream is to be sought there */
  char ledger[17]; /* 16 hexadecimal digits */
  char *stages;    /* JSON of the stream's identity; NULL: not in the text */
  int64_t records; /* of an epoch; 0: unknown */
} mr_stream_state_t;

/* Reads a state from text[0,n).  The caller calls mr_stream_state_free, after a failure too.
   MR_ERR_DATA; the sentence says what the text is not. */
mr_err_t mr_stream_state_read(const char *text, size_t n, mr_stream_state_t *st, mr_diag_t *diag);
void mr_stream_state_free(mr_stream_state_t *st);

/* Writes a state of the stream that g, which is settled, gives at this stage, as one line of JSON
 *in text (heap, the caller frees it; NULL on failure).  MR_ERR_NOMEM. */
mr_err_t mr_stream_state_write(const mr_graph_t *g, const mr_spec_t *spec, const mr_stream_at_t *at,
                               bool by_number, uint64_t ledger, char **text, mr_diag_t *diag);

/* Compares the stream of a state with that of g, which is settled: MR_ERR_DATA, with what differs.
   A state that does not say of which stream it is fits any. */
mr_err_t mr_stream_state_fits(const mr_graph_t *g, const mr_spec_t *spec,
                              const mr_stream_state_t *st, mr_diag_t *diag);

#endif
