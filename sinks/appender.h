/* A file that grows record by record and never stops who feeds it.

   Where a record cannot be written (no space, a pipe whose reader stands still) it is kept, the
   newest MR_APPENDER_HELD of them, and tried again with the next one: training does not end because
   a disk is full.  Records go out whole and in order; what had to be let go is counted and said. */
#ifndef MR_SINKS_APPENDER_H
#define MR_SINKS_APPENDER_H

#include "pipeline/stage.h"

enum { MR_APPENDER_HELD = 4096 };

typedef struct mr_held mr_held_t;

typedef struct mr_appender {
  int fd;           /* -1: not open */
  const char *path; /* the caller's; outlives it */
  mr_held_t *first, **last;
  int n_held;
  size_t at; /* bytes of the first that are written */
  int64_t written, lost;
  bool failing; /* said already */
} mr_appender_t;

/* Makes the file's folder if need be.  keep: what is in it stays.  MR_ERR_IO names the path. */
mr_err_t mr_appender_open(mr_appender_t *f, const char *path, bool keep, mr_diag_t *diag);

/* Copies and writes n bytes.  Never blocks longer than the file system does. */
void mr_appender_add(mr_appender_t *f, const mr_stage_t *s, const void *record, size_t n);

/* Bytes in the file; 0 for a pipe. */
int64_t mr_appender_size(const mr_appender_t *f);

/* A last try for what is held, then the file is closed; f may be all zero or closed before. */
void mr_appender_close(mr_appender_t *f, const mr_stage_t *s);

/* ", 12 lost" or "" into text[0,n). */
void mr_appender_lost_text(const mr_appender_t *f, char *text, size_t n);

#endif
