/* The numbers that a model is judged by, in the records of a run: those after the loss, whichever
   the model has. */
#ifndef MR_APPS_JUDGED_H
#define MR_APPS_JUDGED_H

#include <cjson/cJSON.h>
#include <stddef.h>

/* Returns the first of these numbers in a record of metrics.jsonl; the others follow it as
   siblings, *n in all.  NULL if the record has none.  A null among them is a NaN.  They belong to
   the record and live as long as it. */
const cJSON *mr_judged(const cJSON *record, int *n);

/* Writes each of them after `before` into text[0,size): ", accuracy 0.4100"; "" if there are none.
   Names are escaped for a terminal. */
void mr_judged_text(const cJSON *record, const char *before, char *text, size_t size);

#endif
