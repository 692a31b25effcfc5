/* The table of the stages in list.def. */
#include "stages/stages.h"

/* list.def is read twice: for declarations and for rows. */
#define MR_STAGE(name) extern const mr_stage_def_t mr_stage_##name;
#include "stages/list.def"
#undef MR_STAGE

const mr_stage_def_t *const mr_stages_stages[] = {
#define MR_STAGE(name) &mr_stage_##name,
#include "stages/list.def"
#undef MR_STAGE
    NULL};
