/* The fields of a record as `who` prints them. */
#ifndef MR_APPS_LOOK_WHO_FIELDS_H
#define MR_APPS_LOOK_WHO_FIELDS_H

#include <cjson/cJSON.h>
#include <stdio.h>

#include "pipeline/stage.h"

/* Prints what names and shapes do not tell: the values of scalar fields and the numbers of rows of
   ragged fields, "  weight 0.25, tokens 4 rows".  Omits the label, which has its own column. */
void mr_who_print_fields(FILE *out, const mr_spec_t *spec, const mr_rec_t *rec);

/* Returns an array with name, dtype and shape of every field, and the value of scalar ones; the
   caller frees it with cJSON_Delete.  NULL without memory. */
cJSON *mr_who_fields_json(const mr_spec_t *spec, const mr_rec_t *rec);

#endif
