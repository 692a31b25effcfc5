/* The table of this room's stages, for mr_registry_add. */
#ifndef MR_LOADERS_LOADERS_H
#define MR_LOADERS_LOADERS_H

#include "pipeline/stage.h"

extern const mr_stage_def_t *const mr_loaders_stages[]; /* ends at NULL */

#endif
