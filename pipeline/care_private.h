#ifndef MR_PIPELINE_CARE_PRIVATE_H
#define MR_PIPELINE_CARE_PRIVATE_H

#include "pipeline/care.h"
#include "pipeline/stage.h"

/* The stage's mr_care_t, in its state; NULL if the stage has none. */
mr_care_t *mr__care_of(const mr_stage_t *s);

/* Before a source's plan: parses on-bad and sets lenient.  MR_OK, also without an mr_care_t;
   MR_ERR_CONFIG for an unknown policy. */
mr_err_t mr__care_plan(mr_stage_t *s);

/* Before a source's open: makes the runtime, parses skip-records, reads and opens the quarantine
   file.  MR_ERR_NOMEM, MR_ERR_CONFIG (the list), MR_ERR_IO (the file), each with a sentence.  close
   is called after a failed open too. */
mr_err_t mr__care_open(mr_stage_t *s);
void mr__care_close(mr_stage_t *s);

/* The source's fetch, with replacements for bad records and marks on excluded ones.  made: the
   records go into batches, so they count for the report; a filter's look does not.  Returns fetch's
   failure, or MR_ERR_DATA where on-bad allows no further bad record. */
mr_err_t mr__care_fetch(mr_stage_t *s, int lane, const int64_t *index, int n, mr_rec_t *rec,
                        bool made);

/* The source's ahead, for the records that such a fetch would read. */
void mr__care_ahead(mr_stage_t *s, int lane, const int64_t *index, int n);

/* The report on excluded and replaced records into text[0,n); "" without any.  After close. */
void mr__care_report(const mr_stage_t *s, char *text, size_t n);

#endif
