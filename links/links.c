#include "links/links.h"

/* Each line of list.def is said twice: as a declaration and as a row. */
#define MR_STAGE(name) extern const mr_stage_def_t mr_stage_##name;
#include "links/list.def"
#undef MR_STAGE

const mr_stage_def_t *const mr_links_stages[] = {
#define MR_STAGE(name) &mr_stage_##name,
#include "links/list.def"
#undef MR_STAGE
    NULL};
