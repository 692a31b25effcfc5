/* The table of this room's stages, for mr_registry_add. */
#ifndef MR_STAGES_STAGES_H
#define MR_STAGES_STAGES_H

#include "base/decls.h"
#include "pipeline/stage.h"

MR_BEGIN_DECLS

extern const mr_stage_def_t *const mr_stages_stages[]; /* ends at NULL */

MR_END_DECLS

#endif
