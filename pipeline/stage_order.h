/* An order: says which record stands at a position of its output, by a position of one of its
   inputs. It moves no record.  An order over sequential streams must also be a walk (stage_walk.h);
   one that is not refuses them when the graph settles. */
#ifndef MR_PIPELINE_STAGE_ORDER_H
#define MR_PIPELINE_STAGE_ORDER_H

#include "pipeline/stage.h"

MR_BEGIN_DECLS

/* What an order finds at a position. */
typedef struct mr_at {
  int port;      /* input to ask, 0 unless set */
  int64_t index; /* position there, >= 0; the position asked for unless set */
  bool hole;     /* nothing stands here */
  bool seeded;   /* from here on the record's generator is Philox of key, its counter starting at
                    (0, 0, 0, counter); out_spec[0].seeded says so to the stages behind */
  uint64_t key[2], counter;
} mr_at_t;

/* How often a stream of records at positions repeats itself: the positions [k * n, (k + 1) * n)
   hold the same records for every k >= 0, in the same order if `ordered`.  n == 0: not known. */
typedef struct mr_period {
  int64_t n;
  bool ordered;
} mr_period_t;

struct mr_order_def {
  /* What stands at a position >= 0, into *at, which is set to that position of input 0. */
  mr_err_t (*at)(mr_stage_t *s, int64_t position, mr_at_t *at);

  /* The period of what comes out, in[p] being that of input p, whose epochs need not be a whole
     number of periods long.  After plan.  NULL: none is known, and seeking behind a filter goes
     through all records. */
  mr_period_t (*period)(const mr_stage_t *s, const mr_period_t *in);

  bool sparse;    /* leaves holes */
  bool uncounted; /* does not count where grain counts the steps from a pipeline's seed */
};

MR_END_DECLS

#endif
