/* A file that grows record by record and never blocks the stage before it.

   A record that cannot be written (no space, a pipe whose reader is slow) is held and retried with
   the next one, so that a full disk does not stop training.  At most MR_APPENDER_HELD records are
   held; then the oldest is dropped.  Records are written whole and in order.  Dropped records are
   counted, and make the run fail at its end.  One thread at a time. */
#ifndef MR_SINKS_APPENDER_H
#define MR_SINKS_APPENDER_H

#include "metrics/report.h"
#include "pipeline/run/durable.h"

enum { MR_APPENDER_HELD = 4096 };

typedef struct mr_held mr_held_t;

typedef struct mr_appender {
  int fd;           /* -1: not open */
  const char *path; /* the caller's; outlives it */
  mr_held_t *first, **last;
  int n_held;
  size_t at; /* bytes of the first record that are written */
  int64_t written, lost;
  int64_t missed; /* records that the stage's lossy input dropped; set by close */
  bool regular;   /* a file, not a pipe or a device */
  bool is_pipe;   /* or a socket */
  bool failing;   /* the failure has been reported */
  int unsynced;   /* errno of the last sync; 0 if it succeeded */
} mr_appender_t;

/* Opens path for appending, and makes its folder if it is missing.  keep: the file's contents stay,
   else it is emptied.  Registers stage s as one that answers marks (mr_durable_begin).  MR_ERR_IO
   with the path in the sentence; the caller calls mr_appender_close after a failure too. */
mr_err_t mr_appender_open(mr_appender_t *f, mr_stage_t *s, const char *path, bool keep,
                          mr_diag_t *diag);

/* Copies and writes record[0,n), and whatever is held before it.  Blocks no longer than the file
   system does; a first failure and the recovery from it are notices.  record NULL: the caller had
   no memory to build it, and it counts as lost. */
void mr_appender_add(mr_appender_t *f, const mr_stage_t *s, const void *record, size_t n);

/* Answers a mark: syncs the file if all records before the mark are in it.  A pipe or a device
   counts as synced. */
void mr_appender_mark(mr_appender_t *f, mr_stage_t *s, const mr_report_t *mark);

/* Returns the bytes in the file; 0 for a pipe. */
int64_t mr_appender_size(const mr_appender_t *f);

/* Tries once more to write the records held, syncs and closes.  For a pipe whose reader is slow it
   waits up to two seconds per write.  f may be all zero or closed already. */
void mr_appender_close(mr_appender_t *f, const mr_stage_t *s);

/* After close: MR_ERR_IO if records were lost or the file could not be synced, so that the run
   fails at its end, else MR_OK.  Records lost to a pipe do not count: its reader may leave
   early. */
mr_err_t mr_appender_verdict(const mr_appender_t *f, mr_stage_t *s);

/* Writes ", 12 lost" or "" into text[0,n), n >= 1: records that could not be written, and those
   that the stage's input dropped because the file was too slow. */
void mr_appender_lost_text(const mr_appender_t *f, char *text, size_t n);

#endif
