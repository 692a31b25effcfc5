#ifndef MR_PIPELINE_CARE_PRIVATE_H
#define MR_PIPELINE_CARE_PRIVATE_H

#include "pipeline/care.h"
#include "pipeline/stage.h"

/* The stage's, or NULL. */
mr_care_t *mr__care_of(const mr_stage_t *s);

/* Checks the settings and sets lenient: before a source's plan. */
mr_err_t mr__care_plan(mr_stage_t *s);

/* Around a source's open and close. */
mr_err_t mr__care_open(mr_stage_t *s);
void mr__care_close(mr_stage_t *s);

/* The source's fetch, with replacements for bad records and marks on skipped ones, which the report
   counts where the records are made. */
mr_err_t mr__care_fetch(mr_stage_t *s, int lane, const int64_t *index, int n, mr_rec_t *rec,
                        bool made);

/* The source's ahead, for the records that such a fetch would ask for. */
void mr__care_ahead(mr_stage_t *s, int lane, const int64_t *index, int n);

/* What became of bad and skipped records into text[0,n), "" if there were none.  After close. */
void mr__care_report(const mr_stage_t *s, char *text, size_t n);

#endif
