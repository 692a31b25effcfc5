/* A run's folder: RUN/graph.mr, RUN/settings.txt, RUN/data.txt, RUN/versions.json,
 * RUN/metrics.jsonl, RUN/checkpoints/, and RUN/lock while it is trained. */
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
  bool made;                     /* the folder was not there before */
  bool read;                     /* graph and settings are those of the folder */
  mr_run_lock_t *lock;           /* held by who trains in it; NULL for who only reads */
  char origin[MR_RUN_PATH + 64]; /* where the graph's text comes from, for sentences */
} mr_run_dir_t;

/* A new run in path, or with path NULL in the next free of runs/1, runs/2, ...  Makes the folder
   and locks it until mr_run_dir_free, which follows in any case.  MR_ERR_CONFIG if it holds an
   earlier run or another process trains there, MR_ERR_IO if it cannot be made or written. */
mr_err_t mr_run_dir_new(mr_run_dir_t *r, const char *path, mr_diag_t *diag);

/* Takes back what a new run has written, if it failed before its first metrics and checkpoint: the
   folder is then as it was before. */
void mr_run_dir_undo(mr_run_dir_t *r);

/* An earlier run, with its graph and settings; path NULL: the newest of runs/.  Locks it and
   removes temporary files that a killed process has left there.  MR_ERR_CONFIG if another process
   trains there.  mr_run_dir_free follows in any case and ends the lock. */
mr_err_t mr_run_dir_open(mr_run_dir_t *r, const char *path, mr_diag_t *diag);

/* The same without a lock and without touching anything there: to look at a run that may be under
   way. */
mr_err_t mr_run_dir_read(mr_run_dir_t *r, const char *path, mr_diag_t *diag);

/* Parses the run's graph into g, with its settings and $run; data=synthetic puts synthetic sources
   in the place of cifar10; files of quarantine= lie in the folder unless they are given.  Loads the
   run's plug-ins before (run_plugins.h). */
mr_err_t mr_run_dir_graph(const mr_run_dir_t *r, mr_graph_t *g, mr_diag_t *diag);

/* The first part of that: the text and its plug-ins, with settings[0,n). */
mr_err_t mr_run_dir_parse(const mr_run_dir_t *r, mr_graph_t *g, const char *const *settings, int n,
                          mr_diag_t *diag);

/* Appends a setting.  One that holds a newline is refused. */
mr_err_t mr_run_dir_set(mr_run_dir_t *r, const char *key_value, mr_diag_t *diag);
/* The value of the last setting of this key, or NULL. */
const char *mr_run_dir_get(const mr_run_dir_t *r, const char *key);

/* Writes graph.mr, settings.txt and data.txt, each whole or not at all and readable by their owner
   alone.  Changes the process's umask for that time: no other thread may make files. */
mr_err_t mr_run_dir_save(const mr_run_dir_t *r, mr_diag_t *diag);
void mr_run_dir_free(mr_run_dir_t *r);

/* The last step that the run in path has told in its metrics; 0 if there is no such file. */
mr_err_t mr_run_dir_steps(const char *path, int64_t *steps, mr_diag_t *diag);

/* Where the newest checkpoint of the run stands; path is "" if the run ended before its first one.
   MR_ERR_IO or MR_ERR_DATA says why a checkpoint cannot be used. */
typedef struct mr_resume_point {
  char path[MR_RUN_PATH + 64];
  mr_train_progress_t at;
} mr_resume_point_t;
mr_err_t mr_run_dir_resume_point(const mr_run_dir_t *r, mr_resume_point_t *out, mr_diag_t *diag);

#endif
