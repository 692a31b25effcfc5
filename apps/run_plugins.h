/* The plug-ins of a run.  They are kept as its settings, "plugin=NAME FILE" with an absolute FILE,
   so that every command that reads the run's folder loads its stages, ops and models. */
#ifndef MR_APPS_RUN_PLUGINS_H
#define MR_APPS_RUN_PLUGINS_H

#include "apps/run_dir.h"

/* Returns whether a setting KEY=VALUE names a plug-in, and is no setting of the graph. */
bool mr_run_plugin_is(const char *setting);

/* Appends the plug-ins that are loaded now and that the run's settings do not name yet.  Fails as
   mr_run_dir_set. */
mr_err_t mr_run_plugins_note(mr_run_dir_t *r, mr_diag_t *diag);

/* Loads the plug-ins that the run's settings name, except those whose NAME is loaded already by
   --plugin, so that a run can use a plug-in that has moved.  MR_ERR_UNAVAILABLE for a file inside
   the run's folder: folders of runs are copied and shared as data and must not bring code along.
   MR_ERR_USAGE for a relative FILE, and failures of mr_plugin_load. */
mr_err_t mr_run_plugins_load(const mr_run_dir_t *r, mr_diag_t *diag);

/* An mr_plugin_fn for the graph text of a run that was read from its folder (ctx: its
   mr_run_dir_t).  It loads nothing, because the run's settings name all its plug-ins and they are
   loaded.  MR_ERR_UNAVAILABLE if the settings name none. */
mr_err_t mr_run_plugins_of_text(void *ctx, const char *origin, const char *file, mr_diag_t *diag);

#endif
