/* The state of a stream of batches between two batches: all that resuming there needs.

   As numbers, in files too: position, number, words. */
#ifndef MR_PIPELINE_GRAPH_STREAM_AT_H
#define MR_PIPELINE_GRAPH_STREAM_AT_H

#include <assert.h>
#include <stdbool.h>

#include "base/decls.h"
#include "pipeline/buffer.h"

MR_BEGIN_DECLS

typedef struct mr_stream_at {
  int64_t position;                  /* mr_buf_t.position after the last buffer; 0 at the start */
  int64_t number;                    /* of the next buffer, from 0 */
  int64_t word[MR_STREAM_WORDS_MAX]; /* [n_words] mr_buf_t.word; none if the position suffices */
  int32_t n_words;
} mr_stream_at_t;

enum { MR_STREAM_AT_NUMBERS = 2 + MR_STREAM_WORDS_MAX }; /* the most that pack writes */
static_assert(MR_STREAM_AT_NUMBERS * sizeof(int64_t) <= 4096, "a state is at most 4 KiB");

/* Moves *at behind buffer b of an edge of this spec.  b may already be back in its pool, as long as
   its fields are unchanged. */
void mr_stream_at_pass(mr_stream_at_t *at, const mr_spec_t *spec, const mr_buf_t *b);

/* Writes the state into to[0,n) and returns n, in [2,MR_STREAM_AT_NUMBERS]. */
int mr_stream_at_pack(const mr_stream_at_t *at, int64_t *to);

/* Reads a state from from[0,n).  False, and *at unchanged, if the numbers are no state: negative,
   or too few or many. */
bool mr_stream_at_unpack(mr_stream_at_t *at, const int64_t *from, int64_t n);

MR_END_DECLS

#endif
