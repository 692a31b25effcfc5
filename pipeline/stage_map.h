/* A map: one record to one record.  Neighbouring maps run as one loop, record by record, and the
   last of them writes straight into the batch. */
#ifndef MR_PIPELINE_STAGE_MAP_H
#define MR_PIPELINE_STAGE_MAP_H

#include "pipeline/stage.h"

MR_BEGIN_DECLS

/* In plan of a map or join: field out of output 0 is, before run, field `in` of input `port`: of a
   map always port 0.  Of fields for which nothing is said a map's are those of the same number, and
   a join's those of input 0.  in < 0: it is none; then its bit of s->writes must be set. */
void mr_field_from(mr_stage_t *s, int out, int port, int in);

struct mr_map_def {
  /* Hot.  in->field are the values of input 0; out->field is set to those that plan said
     (mr_field_from), so that fields which are left alone cost nothing.  For a bit of s->writes,
     out->field[f].data is room for the longest value instead: run writes there, sets rows if the
     field is ragged, or sets out->field[f] to a value of in (nothing to do).  in and out share no
     memory.  State is read-only here: several workers call it at once, each with a scratch of its
     own. */
  mr_err_t (*run)(mr_stage_t *s, const mr_rec_t *in, mr_rec_t *out);

  /* Says what mr_draw_note(r, what) meant, "mirrored", into text[0,n).  NULL: the number. */
  void (*draw_text)(const mr_stage_t *s, uint64_t what, char *text, size_t n);
};

/* Notes a random decision in the ledger's hash of this record. */
void mr_draw_note(mr_rec_t *r, uint64_t what);

/* In plan of a stage that draws: fails where the records of input 0 have no generator to draw from.
   otherwise: which settings do without one, "p=0 or p=1". */
mr_err_t mr_needs_generator(mr_stage_t *s, const char *otherwise);

MR_END_DECLS

#endif
