/* A join: makes one record of those at one position of its inputs. */
#ifndef MR_PIPELINE_STAGE_JOIN_H
#define MR_PIPELINE_STAGE_JOIN_H

#include "pipeline/stage_map.h"

MR_BEGIN_DECLS

struct mr_join_def {
  /* Makes one record from those of the inputs [0,n).  out->field is as in a map (stage_map.h);
     out's key, draw and generator are the first input's unless set.  State is read-only, as in a
     map.  MR_OK, or a failure that ends the run. */
  mr_err_t (*run)(mr_stage_t *s, const mr_rec_t *in, int n, mr_rec_t *out);
};

MR_END_DECLS

#endif
