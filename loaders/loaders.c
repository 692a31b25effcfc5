/* The table of this room's stages.  list.def names each in one line, and the two expansions here
   turn a line into a declaration and a row, so that a new source or order needs no other change. */
#include "loaders/loaders.h"

#define MR_STAGE(name) extern const mr_stage_def_t mr_stage_##name;
#include "loaders/list.def"
#undef MR_STAGE

const mr_stage_def_t *const mr_loaders_stages[] = {
#define MR_STAGE(name) &mr_stage_##name,
#include "loaders/list.def"
#undef MR_STAGE
    NULL};
