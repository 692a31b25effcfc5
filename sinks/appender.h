/* A file that grows record by record and never blocks the stage before it.

   A record that cannot be written (no space, a pipe whose reader is slow) is held, the newest
   MR_APPENDER_HELD of them, and tried again with the next one: a full disk does not stop training.
   Records are written whole and in order; those that are dropped are counted, and fail the run at
   its end. */
#ifndef MR_SINKS_APPENDER_H
#define MR_SINKS_APPENDER_H

#include "metrics/metrics.h"
#include "pipeline/durable.h"

enum { MR_APPENDER_HELD = 4096 };

typedef struct mr_held mr_held_t;

typedef struct mr_appender {
  int fd;           /* -1: not open */
  const char *path; /* the caller's; outlives it */
  mr_held_t *first, **last;
  int n_held;
  size_t at; /* bytes of the first that are written */
  int64_t written, lost;
  int64_t missed; /* records that the lossy input dropped before they came here; set by close */
  bool regular;   /* a file, not a pipe or a device */
  bool is_pipe;   /* or a socket */
  bool failing;   /* said already */
  int unsynced;   /* errno of the last sync, 0: it was done */
} mr_appender_t;

/* Makes the file's folder if need be.  keep: what is in the file stays.  For stage s, which answers
   marks from now on (mr_durable_begin).  MR_ERR_IO names the path. */
mr_err_t mr_appender_open(mr_appender_t *f, mr_stage_t *s, const char *path, bool keep,
                          mr_diag_t *diag);

/* Copies and writes n bytes.  Never blocks longer than the file system does.  record NULL: there
   was no memory to make it; it counts as lost. */
void mr_appender_add(mr_appender_t *f, const mr_stage_t *s, const void *record, size_t n);

/* Answers a mark: syncs the file if all records before the mark are in it.  A pipe or a device
   counts as synced. */
void mr_appender_mark(mr_appender_t *f, mr_stage_t *s, const mr_metrics_t *mark);

/* Bytes in the file; 0 for a pipe. */
int64_t mr_appender_size(const mr_appender_t *f);

/* Tries to write what is held once more, syncs and closes; f may be all zero or closed before. */
void mr_appender_close(mr_appender_t *f, const mr_stage_t *s);

/* After close: MR_ERR_IO where records were lost or the file could not be synced, so that the run
   fails at its end; a pipe's reader may leave early. */
mr_err_t mr_appender_verdict(const mr_appender_t *f, mr_stage_t *s);

/* ", 12 lost" or "" into text[0,n): those that could not be written, and those that came too fast
   for this disk. */
void mr_appender_lost_text(const mr_appender_t *f, char *text, size_t n);

#endif
