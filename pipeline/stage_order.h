/* An order: maps a position of its output to a position of one of its inputs.  It moves no record.
   An order over sequential streams must also be a walk (stage_walk.h); otherwise the graph does not
   settle. */
#ifndef MR_PIPELINE_STAGE_ORDER_H
#define MR_PIPELINE_STAGE_ORDER_H

#include "pipeline/stage.h"

MR_BEGIN_DECLS

/* What an order finds at a position. */
typedef struct mr_at {
  int port;      /* input to read, 0 unless set */
  int64_t index; /* position there, >= 0; the requested position unless set */
  bool hole;     /* no record is at this position */
  bool seeded;   /* from here on the record's generator is Philox of key, its counter starting at
                    (0, 0, 0, counter); out_spec[0].seeded tells the stages downstream */
  uint64_t key[2], counter;
} mr_at_t;

/* The period of an indexable stream: the positions [k * n, (k + 1) * n) hold the same records for
   every k >= 0, in the same order if `ordered`. n == 0: unknown. */
typedef struct mr_period {
  int64_t n;
  bool ordered;
} mr_period_t;

struct mr_order_def {
  /* Finds what is at a position >= 0; *at is set to that position of input 0 before the call.
     MR_OK, or a failure that ends the run. */
  mr_err_t (*at)(mr_stage_t *s, int64_t position, mr_at_t *at);

  /* The period of the output, where in[p] is that of input p, whose epochs need not be a whole
     number of periods long.  After plan.  NULL: unknown, and seeking behind a filter reads all
     records. */
  mr_period_t (*period)(const mr_stage_t *s, const mr_period_t *in);

  /* Sets input[p], for each linked input p, to the position at which the stage continues there
     behind its first `position` records, which it has taken in order.  After plan.  The stage then
     has a setting "resume", "POSITION:A,B,..", by which it continues so: a resume that changed the
     stage sets it.  NULL: its order is not one of its inputs' own. */
  void (*reached)(const mr_stage_t *s, int64_t position, int64_t *input);

  /* The inverse of at, where it is cheap, for those that ask when a record comes.  Sets *position
     to the least one >= from, from in [0,2^62), at which the output takes position `index` >= 0 of
     input `port`.  MR_OK; MR_END: none does; or the failure of at there.  After plan.  NULL: only
     at knows. */
  mr_err_t (*taken)(mr_stage_t *s, int port, int64_t index, int64_t from, int64_t *position);
  /* With taken: sets [*first,*end) to positions of input `port` that hold all that the output takes
     from there at positions [lo,hi), 0 <= lo < hi <= 2^62; it may be wider.  After plan. */
  void (*spans)(const mr_stage_t *s, int port, int64_t lo, int64_t hi, int64_t *first,
                int64_t *end);

  bool sparse;    /* leaves holes */
  bool uncounted; /* grain does not count this stage as a step from a pipeline's seed */
};

/* taken and spans of an order that takes each position of its only input in its place. */
static inline mr_err_t mr_taken_in_place(mr_stage_t *s, int port, int64_t index, int64_t from,
                                         int64_t *position) {
  return *position = index, index >= from ? MR_OK : MR_END;
}

static inline void mr_spans_in_place(const mr_stage_t *s, int port, int64_t lo, int64_t hi,
                                     int64_t *first, int64_t *end) {
  *first = lo, *end = hi;
}

/* For spans of an order that takes an epoch of `each_in` positions for each `each` of its own. */
static inline void mr_span_epochs(int64_t each, int64_t each_in, int64_t lo, int64_t hi,
                                  int64_t *first, int64_t *end) {
  if (__builtin_mul_overflow(lo / each, each_in, first)) *first = INT64_MAX;
  if (__builtin_mul_overflow((hi - 1) / each + 1, each_in, end)) *end = INT64_MAX;
}

MR_END_DECLS

#endif
