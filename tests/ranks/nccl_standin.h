/* What the stand-in for NCCL has beside NCCL's own calls: streams, and what it has seen.  Tests get
   these by dlsym. */
#ifndef MR_TESTS_RANKS_NCCL_STANDIN_H
#define MR_TESTS_RANKS_NCCL_STANDIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct standin_stream standin_stream_t;

typedef struct standin_calls {
  standin_stream_t *(*create)(void); /* with a thread that does its work in order */
  void (*destroy)(standin_stream_t *s);
  uint64_t (*mark)(standin_stream_t *s); /* how much it has been given */
  bool (*reached)(standin_stream_t *s, uint64_t mark, bool wait);
  void (*record)(standin_stream_t *s, bool on); /* what is given is kept, and not done */
  bool (*records)(standin_stream_t *s);
  void (*replay)(standin_stream_t *s); /* gives what was recorded */
  void (*forget)(standin_stream_t *s); /* what was recorded; an abort waits for it, as NCCL does */
  int (*live)(void);                   /* communicators that have not ended */
  const char *(*fault)(void);          /* the first misuse; "": none */
  /* out[n] = out[n] and x[n], of NCCL's type by its operator */
  void (*reduce_by)(void (*reduce)(int type, int op, void *out, const void *x, size_t n));
} standin_calls_t;

/* The name of the call that returns them. */
#define STANDIN_CALLS "standin_calls"
typedef const standin_calls_t *standin_calls_fn(void);

#endif
