/* What `who` tells of a record's fields. */
#ifndef MR_APPS_WHO_FIELDS_H
#define MR_APPS_WHO_FIELDS_H

#include <cjson/cJSON.h>
#include <stdio.h>

#include "pipeline/stage.h"

/* Prints what a table of names and shapes does not say already: "  weight 0.25, tokens 4 rows", the
   values of single numbers and the rows of ragged fields; of the only label nothing. */
void mr_who_print_fields(FILE *out, const mr_spec_t *spec, const mr_rec_t *rec);

/* An array with name, dtype and shape of every field, and the value of a single number; the
   caller's.  NULL without memory. */
cJSON *mr_who_fields_json(const mr_spec_t *spec, const mr_rec_t *rec);

#endif
