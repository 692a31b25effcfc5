/* A filter: says which records stay.  Of an indexable stream it leaves holes, of a sequential one
   nothing. */
#ifndef MR_PIPELINE_STAGE_FILTER_H
#define MR_PIPELINE_STAGE_FILTER_H

#include "pipeline/stage.h"

MR_BEGIN_DECLS

struct mr_filter_def {
  /* Whether a record stays.  State is read-only, as in a map; a record may be asked for twice. */
  mr_err_t (*keep)(mr_stage_t *s, const mr_rec_t *rec, bool *keep);
  bool of_record; /* asks fields as the source gives them and the key alone */
};

MR_END_DECLS

#endif
