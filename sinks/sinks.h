/* The table of this room's stages, for mr_registry_add (sinks.c), and what a program may ask of one
   of them (checkpoint.c). */
#ifndef MR_SINKS_SINKS_H
#define MR_SINKS_SINKS_H

#include "base/decls.h"
#include "pipeline/stage.h"

MR_BEGIN_DECLS

extern const mr_stage_def_t *const mr_sinks_stages[]; /* static; ends at NULL */

/* Waits until no stage `checkpoint` of the process is writing, and blocks any that would begin, for
   ever.  Call it right before the process ends, from any thread but a stage's own. */
void mr_checkpoints_finish(void);

MR_END_DECLS

#endif
