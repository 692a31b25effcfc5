/* A run's folder: RUN/graph.mr, RUN/settings.txt, RUN/data.txt, RUN/versions.json,
   RUN/metrics.jsonl, RUN/checkpoints/, and RUN/lock while a process trains there.  Main thread
   only. */
#ifndef MR_APPS_RUN_DIR_H
#define MR_APPS_RUN_DIR_H

#include <stdbool.h>
#include <stdint.h>

#include "apps/run_lock.h"
#include "base/err.h"
#include "pipeline/graph.h"
#include "stages/train/state.h"

enum { MR_RUN_PATH = 1024, MR_RUN_SETTINGS = 256 };

typedef struct mr_run_dir {
  char path[MR_RUN_PATH];
  char *graph;                    /* the text of the graph; heap */
  char *setting[MR_RUN_SETTINGS]; /* KEY=VALUE each; heap */
  int n_settings;
  char *data;                    /* apps/data_facts.h; heap; NULL: the run has none */
  bool made;                     /* the folder did not exist before */
  bool read;                     /* graph and settings were read from the folder */
  mr_run_lock_t *lock;           /* held for training; NULL for reading only */
  char origin[MR_RUN_PATH + 64]; /* origin of the graph's text, for sentences */
} mr_run_dir_t;

/* Begins a new run in path, or, if path is NULL, in the next free folder of runs/1, runs/2, ...
   Makes the folder and locks it until mr_run_dir_free, which the caller calls after a failure too.
   MR_ERR_CONFIG if it holds an earlier run or another process trains there, MR_ERR_IO if it cannot
   be made or written. */
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
   loading the run's plug-ins (run_plugins.h).  data=synthetic replaces cifar10 by synthetic
   sources; quarantine= files are in the folder unless they are set.  Failures of plug-ins, parsing
   and settings. */
mr_err_t mr_run_dir_graph(const mr_run_dir_t *r, mr_graph_t *g, mr_diag_t *diag);

/* The first part of that: the text and its plug-ins, with settings[0,n). */
mr_err_t mr_run_dir_parse(const mr_run_dir_t *r, mr_graph_t *g, const char *const *settings, int n,
                          mr_diag_t *diag);

/* Appends a copy of a setting.  MR_ERR_USAGE if it is not KEY=VALUE in one line or there are
   MR_RUN_SETTINGS already; MR_ERR_NOMEM. */
mr_err_t mr_run_dir_set(mr_run_dir_t *r, const char *key_value, mr_diag_t *diag);
/* Returns the value of the last setting of this key, or NULL.  Belongs to r. */
const char *mr_run_dir_get(const mr_run_dir_t *r, const char *key);

/* Writes graph.mr, settings.txt and data.txt, each whole or not at all and readable by their owner
   alone.  MR_ERR_IO, MR_ERR_NOMEM.  Changes the process's umask meanwhile: no other thread may make
   files. */
mr_err_t mr_run_dir_save(const mr_run_dir_t *r, mr_diag_t *diag);
void mr_run_dir_free(mr_run_dir_t *r); /* releases the lock; all zero is fine */

/* Reads the last step that the run in path has reported in its metrics into *steps; 0 without such
   a file.  MR_ERR_IO if the file cannot be opened. */
mr_err_t mr_run_dir_steps(const char *path, int64_t *steps, mr_diag_t *diag);

/* Finds the newest checkpoint of the run and its progress; path is "" if the run ended before its
   first one.  MR_ERR_IO or MR_ERR_DATA if the checkpoint cannot be used. */
typedef struct mr_resume_point {
  char path[MR_RUN_PATH + 64];
  mr_train_progress_t at;
} mr_resume_point_t;
mr_err_t mr_run_dir_resume_point(const mr_run_dir_t *r, mr_resume_point_t *out, mr_diag_t *diag);

#endif
