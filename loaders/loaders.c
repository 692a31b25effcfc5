/* The table of this room's stages, generated from list.def. */
#include "loaders/loaders.h"

/* Each line of list.def is expanded twice: as a declaration and as a row of the table. */
#define MR_STAGE(name) extern const mr_stage_def_t mr_stage_##name;
#include "loaders/list.def"
#undef MR_STAGE

const mr_stage_def_t *const mr_loaders_stages[] = {
#define MR_STAGE(name) &mr_stage_##name,
#include "loaders/list.def"
#undef MR_STAGE
    NULL};
