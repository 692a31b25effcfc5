/* The plug-ins of a run.  They are settings of it, "plugin=NAME FILE" with an absolute FILE, so
   that every command that reads the run's folder has its stages, ops and models. */
#ifndef MR_APPS_RUN_PLUGINS_H
#define MR_APPS_RUN_PLUGINS_H

#include "apps/run_dir.h"

/* Whether a setting, KEY=VALUE, is such a one, and none of the graph. */
bool mr_run_plugin_is(const char *setting);

/* Appends those that are loaded now and that the run's settings do not name yet. */
mr_err_t mr_run_plugins_note(mr_run_dir_t *r, mr_diag_t *diag);

/* Loads those that the run's settings name.  One whose NAME is loaded already, by --plugin, is left
   where it is, and so a run follows its plug-in to another place.  A file inside the run's folder
   is refused: folders of runs are copied and sent around as data, and bring no code along. */
mr_err_t mr_run_plugins_load(const mr_run_dir_t *r, mr_diag_t *diag);

/* An mr_plugin_fn for the text of a run that is read from its folder (ctx: its mr_run_dir_t): its
   settings have named all plug-ins, those of the text by where they were when the run began, and
   they are loaded. */
mr_err_t mr_run_plugins_of_text(void *ctx, const char *origin, const char *file, mr_diag_t *diag);

#endif
