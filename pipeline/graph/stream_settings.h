/* Settings that do not decide what the batches of a stream hold, which a resume may therefore
   change. */
#ifndef MR_PIPELINE_GRAPH_STREAM_SETTINGS_H
#define MR_PIPELINE_GRAPH_STREAM_SETTINGS_H

#include <stdbool.h>

#include "pipeline/stage.h"

/* True if the setting of this name says how the same numbers are computed, or how the same bytes
   are fetched (workers, cache, retries): it is no part of a stream's identity. */
bool mr_setting_is_means(const char *name);

/* True if it lengthens or shortens a stream, or excludes records and steps without shifting
   others. */
bool mr_setting_is_length(const mr_stage_def_t *def, const char *name);

/* True if row o of def, which is a source, names files or folders: their contents count, not their
   names. */
bool mr_setting_is_place(const mr_stage_def_t *def, const mr_opt_t *o);

#endif
