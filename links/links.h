/* The table of this room's stages, for mr_registry_add. */
#ifndef MR_LINKS_LINKS_H
#define MR_LINKS_LINKS_H

#include "base/decls.h"
#include "pipeline/stage.h"

MR_BEGIN_DECLS

extern const mr_stage_def_t *const mr_links_stages[]; /* ends at NULL */

MR_END_DECLS

#endif
