/* A run's folder: RUN/graph.mr, RUN/settings.txt, RUN/data.txt, RUN/history.jsonl,
   RUN/versions.json, RUN/metrics.jsonl, RUN/checkpoints/, RUN/checkpoints.txt where it keeps some
   elsewhere, and RUN/lock while a process trains there.  Main thread only.  Implemented in
   run_dir.c; the plug-ins of a run in run_plugins.c, its checkpoints in run_checkpoints.c, its
   additional sinks in faces.c. */
#ifndef MR_APPS_RUN_RUN_DIR_H
#define MR_APPS_RUN_RUN_DIR_H

#include <stdbool.h>
#include <stdint.h>

#include "apps/cli/cli.h"
#include "apps/run/history.h"
#include "apps/run/run_lock.h"
#include "base/err.h"
#include "pipeline/graph/graph.h"
#include "stages/train/state.h"

enum { MR_RUN_PATH = 1024, MR_RUN_SETTINGS = 256, MR_RUN_FOLDERS = 64 };

typedef struct mr_run_dir {
  char path[MR_RUN_PATH];
  char *graph;                    /* the text of the graph; heap */
  char *setting[MR_RUN_SETTINGS]; /* NAME=VALUE each; heap */
  int n_settings;
  char *data;                    /* of mr_data_facts; heap; NULL: the run has none */
  char *carry;                   /* as in mr_history_part_t; heap; NULL: none */
  int made;                      /* folders at the end of path that did not exist before */
  bool read;                     /* graph and settings were read from the folder */
  mr_run_lock_t *lock;           /* held for training; NULL for reading only */
  bool cut;                      /* mr_run_dir_open: its last process did not end in order */
  bool fails;                    /* set it, and mr_run_dir_free has the next one see that */
  char origin[MR_RUN_PATH + 64]; /* origin of the graph's text, for sentences */
} mr_run_dir_t;

/* Begins a new run in path, or, if path is NULL, in the next free folder of runs/1, runs/2, ...
   Makes the folder and locks it until mr_run_dir_free, which the caller calls after a failure too.
   MR_ERR_CONFIG if it holds an earlier run or another process trains there, MR_ERR_IO if it cannot
   be made or written; no folder that it has made is left then. */
mr_err_t mr_run_dir_new(mr_run_dir_t *r, const char *path, mr_diag_t *diag);

/* Removes what a new run has written, if it failed before its first metrics and checkpoint, so that
   the folder is as it was before. */
void mr_run_dir_undo(mr_run_dir_t *r);

/* Opens an earlier run with its graph and settings; path NULL: the newest of runs/.  Locks it and
   removes temporary files that a killed process has left.  MR_ERR_CONFIG if another process trains
   there or there is no run; MR_ERR_IO, MR_ERR_DATA or MR_ERR_NOMEM for its files.  The caller calls
   mr_run_dir_free after a failure too, which releases the lock. */
mr_err_t mr_run_dir_open(mr_run_dir_t *r, const char *path, mr_diag_t *diag);

/* The same without a lock and without changing anything, for a run that may be in progress. */
mr_err_t mr_run_dir_read(mr_run_dir_t *r, const char *path, mr_diag_t *diag);

/* Parses the run's graph into g, which stays the caller's, with its settings and $run, after
   loading the run's plug-ins (mr_run_plugins_load).  data=synthetic replaces cifar10 by synthetic
   sources; quarantine= files are in the folder unless they are set.  Failures of plug-ins, parsing
   and settings. */
mr_err_t mr_run_dir_graph(const mr_run_dir_t *r, mr_graph_t *g, mr_diag_t *diag);

/* Applies the settings by which a stream that changed continues (r->carry) to a parsed graph.  Only
   for a graph that begins behind the step of that change.  Failures of settings. */
mr_err_t mr_run_dir_carry(const mr_run_dir_t *r, mr_graph_t *g, mr_diag_t *diag);

/* Replaces graph, settings, data and carry of r by those of a part.  MR_ERR_NOMEM, MR_ERR_USAGE as
   mr_run_dir_set. */
mr_err_t mr_run_dir_become(mr_run_dir_t *r, const mr_history_part_t *part, mr_diag_t *diag);

/* Sets *part to what r holds, from this step on, with the plug-ins that are loaded; the caller
   frees settings and plugins, the other texts are r's.  MR_ERR_NOMEM. */
mr_err_t mr_run_dir_part(const mr_run_dir_t *r, int64_t from, mr_history_part_t *part,
                         mr_diag_t *diag);

/* The first part of that: the text and its plug-ins, with settings[0,n). */
mr_err_t mr_run_dir_parse(const mr_run_dir_t *r, mr_graph_t *g, const char *const *settings, int n,
                          mr_diag_t *diag);

/* Appends a copy of a setting.  MR_ERR_USAGE if it is not NAME=VALUE in one line or there are
   MR_RUN_SETTINGS already; MR_ERR_NOMEM. */
mr_err_t mr_run_dir_set(mr_run_dir_t *r, const char *name_value, mr_diag_t *diag);
/* The same for a word of a command that reads a run.  MR_ERR_USAGE also for run=, the variable that
   names the folder itself, with another value. */
mr_err_t mr_run_dir_word(mr_run_dir_t *r, const char *name_value, mr_diag_t *diag);
/* Returns the value of the last setting of this name, or NULL.  Belongs to r. */
const char *mr_run_dir_get(const mr_run_dir_t *r, const char *name);

/* Writes graph.mr, settings.txt and data.txt, each whole or not at all and readable by their owner
   alone.  MR_ERR_IO, MR_ERR_NOMEM.  Changes the process's umask meanwhile: no other thread may make
   files. */
mr_err_t mr_run_dir_save(const mr_run_dir_t *r, mr_diag_t *diag);
void mr_run_dir_free(mr_run_dir_t *r); /* releases the lock; all zero is fine */

/* Reads the last step that the run in path has reported in its metrics into *steps; 0 without such
   a file.  MR_ERR_IO if the file cannot be opened. */
mr_err_t mr_run_dir_steps(const char *path, int64_t *steps, mr_diag_t *diag);

/* The folders in which the run may have checkpoints, RUN/checkpoints first, into folder[0,most),
   most > 0; returns their number.  Only paths shorter than MR_RUN_CHECKPOINTS count. */
enum { MR_RUN_CHECKPOINTS = MR_RUN_PATH + 32 };
int mr_run_dir_checkpoints(const mr_run_dir_t *r, char (*folder)[MR_RUN_CHECKPOINTS], int most);

/* Refuses a graph that would keep checkpoints in a folder with those of another run, which it would
   remove, and which its next resume would take for its own.  fresh: the run begins, and no folder
   with checkpoints is its own.  MR_ERR_CONFIG. */
mr_err_t mr_run_dir_refuse_foreign(const mr_run_dir_t *r, bool fresh, const mr_graph_t *g,
                                   mr_diag_t *diag);
/* Makes the folders in which g keeps checkpoints and notes them in RUN/checkpoints.txt, from where
   mr_run_dir_checkpoints has them, whatever the working folder is then.  MR_ERR_IO, MR_ERR_CONFIG.
 */
mr_err_t mr_run_dir_note_checkpoints(const mr_run_dir_t *r, const mr_graph_t *g, mr_diag_t *diag);

/* Finds the newest checkpoint of the run, wherever its graph keeps them, and its progress; path is
   "" if the run ended before its first one.  MR_ERR_IO or MR_ERR_DATA if the checkpoint cannot be
   used. */
typedef struct mr_resume_point {
  char path[MR_RUN_PATH + 64];
  mr_train_progress_t at;
} mr_resume_point_t;
mr_err_t mr_run_dir_resume_point(const mr_run_dir_t *r, mr_resume_point_t *out, mr_diag_t *diag);

/* The plug-ins of a run are kept as its settings, "plugin=NAME FILE" with an absolute FILE, so that
   every command that reads the run's folder loads its stages, ops and models.

   Returns whether a setting NAME=VALUE names a plug-in, and is no setting of the graph. */
bool mr_run_plugin_is(const char *setting);

/* Appends the plug-ins that are loaded now and that the run's settings do not name yet.  Fails as
   mr_run_dir_set. */
mr_err_t mr_run_plugins_note(mr_run_dir_t *r, mr_diag_t *diag);

/* Loads the plug-ins that the run's settings name, except those whose NAME is loaded already by
   --plugin, so that a run can use a plug-in that has moved.  MR_ERR_UNAVAILABLE for a file inside
   the run's folder: folders of runs are copied and shared as data and must not bring code along.
   MR_ERR_USAGE for a relative FILE, and failures of mr_plugin_load. */
mr_err_t mr_run_plugins_load(const mr_run_dir_t *r, mr_diag_t *diag);

/* Returns the plug-ins that are loaded as lines "NAME DIGEST", of the bytes of their files; heap,
   the caller frees it.  NULL without memory. */
char *mr_run_plugins_text(void);

/* Appends a line for the user, "changed: plug-in NAME: ...", to said[0,n) for each plug-in that
   both texts name with other digests. */
void mr_run_plugins_compare(const char *was, const char *now, char *said, size_t n);

/* An mr_plugin_fn for the graph text of a run that was read from its folder (ctx: its
   mr_run_dir_t).  It loads nothing, because the run's settings name all its plug-ins and they are
   loaded.  MR_ERR_UNAVAILABLE if the settings name none. */
mr_err_t mr_run_plugins_of_text(void *ctx, const char *origin, const char *file, mr_diag_t *diag);

/* Additional sinks for a run's metrics, requested by flags of train: rows for its table of flags.
 */
/* clang-format off */
#define MR_FACE_FLAGS                                                                              \
  {"--tensorboard", NULL, "Also writes event files for TensorBoard into RUN/tensorboard."},        \
  {"--prometheus", NULL, "Also serves metrics to Prometheus at 127.0.0.1:9464/metrics."},         \
  {"--web", NULL, "Also shows the run on a live page, and prints its address."}
/* clang-format on */

/* Appends a line to the graph of r for each of these flags that is given and whose stage the graph
   does not have yet, so that a resumed run keeps it.  MR_ERR_CONFIG if no stage of the graph
   produces metrics; MR_ERR_NOMEM; also failures of parsing the graph. */
mr_err_t mr_faces_add(const mr_args_t *a, mr_run_dir_t *r, mr_diag_t *diag);

#endif
