/* What a model is judged by, in the records of a run: the numbers behind the loss, whichever the
   model has. */
#ifndef MR_APPS_JUDGED_H
#define MR_APPS_JUDGED_H

#include <cjson/cJSON.h>
#include <stddef.h>

/* The first of these numbers in a record of metrics.jsonl, NULL without any; the others follow it
   as siblings, *n in all.  A null among them is a NaN.  They live as long as the record. */
const cJSON *mr_judged(const cJSON *record, int *n);

/* Each of them, behind `before`, into text[0,size): ", accuracy 0.4100"; "" without any.  Names
   hold only what a terminal may be sent. */
void mr_judged_text(const cJSON *record, const char *before, char *text, size_t size);

#endif
