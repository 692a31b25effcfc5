/* A filter: decides which records stay.  In an indexable stream the others leave holes, in a
   sequential one they are skipped. */
#ifndef MR_PIPELINE_STAGE_FILTER_H
#define MR_PIPELINE_STAGE_FILTER_H

#include "pipeline/stage.h"

MR_BEGIN_DECLS

struct mr_filter_def {
  /* Sets *keep to whether a record stays; MR_OK, or a failure that ends the run.  State is
     read-only, as in a map; keep may be called twice for one record. */
  mr_err_t (*keep)(mr_stage_t *s, const mr_rec_t *rec, bool *keep);
  /* keep depends on the key and the fields of s->reads alone.  If these are as the source gives
     them, each pass over the records keeps equally many, and seeking a far batch does not inspect
     every record before it. */
  bool of_record;
};

MR_END_DECLS

#endif
