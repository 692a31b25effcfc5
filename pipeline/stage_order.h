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

  bool sparse;    /* leaves holes */
  bool uncounted; /* grain does not count this stage as a step from a pipeline's seed */
};

MR_END_DECLS

#endif
