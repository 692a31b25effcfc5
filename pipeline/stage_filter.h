/* A filter: says which records stay.  Of an indexable stream it leaves holes, of a sequential one
   nothing. */
#ifndef MR_PIPELINE_STAGE_FILTER_H
#define MR_PIPELINE_STAGE_FILTER_H

#include "pipeline/stage.h"

MR_BEGIN_DECLS

struct mr_filter_def {
  /* Whether a record stays.  State is read-only, as in a map; a record may be asked for twice. */
  mr_err_t (*keep)(mr_stage_t *s, const mr_rec_t *rec, bool *keep);
  /* What keep says follows from the key and the fields of s->reads alone.  Where these are as the
     source gives them, each pass over the records then keeps as many, and a far batch is found
     without asking for every record before it. */
  bool of_record;
};

MR_END_DECLS

#endif
