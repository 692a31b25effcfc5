/* A map: makes one record of one record.  Neighbouring maps run as one loop, record by record, and
   the last one writes into the batch.  The three calls for maps are in chain.c (mr_field_from),
   lineage.c (mr_draw_note) and records.c. */
#ifndef MR_PIPELINE_STAGE_MAP_H
#define MR_PIPELINE_STAGE_MAP_H

#include "pipeline/stage.h"

MR_BEGIN_DECLS

/* In plan of a map or join: says that field `out` of output 0 is, before run, field `in` of input
   `port`; port is 0 for a map.  Without this call a map's field is the one of the same number, and
   a join's the one of input 0.  in < 0: the field has no value before run, which must then write it
   (set its bit of s->writes). */
void mr_field_from(mr_stage_t *s, int out, int port, int in);

struct mr_map_def {
  /* Hot.  in->field are the values of input 0; out->field is set to those that plan declared
     (mr_field_from), so that unchanged fields cost nothing.  For a bit of s->writes,
     out->field[f].data is room for the longest value instead: run writes there and sets rows if the
     field is ragged, or sets out->field[f] to a value of in (nothing to do).  in and out share no
     memory.  State is read-only here: several workers call run at once, each with its own scratch.
     MR_OK.  MR_ERR_DATA: the record is bad, as if its source had said so (pipeline/care.h); run is
     called again for the record used instead.  Another failure ends the run. */
  mr_err_t (*run)(mr_stage_t *s, const mr_rec_t *in, mr_rec_t *out);

  /* Frees what a worker keeps through its scratch between calls, which is zeros if run was never
     called.  After the last call of that worker; settings are still there.  NULL: nothing. */
  void (*leave)(mr_stage_t *s);

  /* Writes what mr_draw_note(r, what) meant, "mirrored", into text[0,n).  NULL: the number. */
  void (*draw_text)(const mr_stage_t *s, uint64_t what, char *text, size_t n);
};

/* Adds a random decision to the ledger's hash of this record. */
void mr_draw_note(mr_rec_t *r, uint64_t what);

/* In plan of a stage that draws random numbers: MR_OK, or MR_ERR_CONFIG with a sentence if the
   records of input 0 have no generator.  otherwise: the settings that need none, "p=0 or p=1";
   NULL: the stage always draws. */
mr_err_t mr_needs_generator(mr_stage_t *s, const char *otherwise);

MR_END_DECLS

#endif
