/* The table of this room's stages, for mr_registry_add. */
#ifndef MR_LOADERS_LOADERS_H
#define MR_LOADERS_LOADERS_H

#include "base/decls.h"
#include "pipeline/stage.h"

MR_BEGIN_DECLS

extern const mr_stage_def_t *const mr_loaders_stages[]; /* static; ends at NULL */

MR_END_DECLS

#endif
