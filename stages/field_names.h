/* Lists of fields in settings, "A,B,..", for the stages that keep, remove and rename them. */
#ifndef MR_STAGES_FIELD_NAMES_H
#define MR_STAGES_FIELD_NAMES_H

#include "pipeline/stage_map.h"

enum { MR_WORD_OF_LIST = 2 * MR_FIELD_NAME + 2 /* longer words name no field and are cut */ };

/* Copies the next word of the list and advances *at; false at its end, also if *at is NULL. */
bool mr_list_next(const char **at, char word[MR_WORD_OF_LIST]);

/* In plan: the index of input 0's field called word; MR_ERR_CONFIG (< 0) with a sentence about the
   setting if there is none. */
int mr_field_named(mr_stage_t *s, const char *setting, const char *word);

/* In plan: makes input 0's field `in` the next field of output 0. */
void mr_field_pass(mr_stage_t *s, int in);

/* The run of a map that changes which fields a record has, and none of their values.  Always
   MR_OK. */
mr_err_t mr_fields_run(mr_stage_t *s, const mr_rec_t *in, mr_rec_t *out);

#endif
