/* What a sink keeps of the run before a resume: one line without a zig-zag in every face. */
#ifndef MR_SINKS_RESUME_H
#define MR_SINKS_RESUME_H

#include <stdbool.h>

#include "pipeline/stage.h"

typedef struct mr_resume {
  int64_t step; /* the checkpoint's; -1: a new run */
  bool valid;   /* that step's validation had been done */
} mr_resume_t;

/* The two rows of settings, for a mr_resume_t at an offset of the state. */
#define MR_RESUME_OPTS(at)                                                                      \
  {.name = "resume-step",                                                                       \
   .type = MR_OPT_INT,                                                                          \
   .offset = (at) + offsetof(mr_resume_t, step),                                                \
   .unit = "steps",                                                                             \
   .def = "-1",                                                                                 \
   .lo = -1,                                                                                    \
   .hi = 1e15,                                                                                  \
   .help =                                                                                      \
       "Keeps what an earlier run wrote up to this step, and appends; -1: starts a new file."}, \
  {                                                                                             \
    .name = "resume-valid", .type = MR_OPT_BOOL, .offset = (at) + offsetof(mr_resume_t, valid), \
    .unit = "", .def = "true",                                                                  \
    .help =                                                                                     \
        "Whether that step was validated before its checkpoint; if not, its validation is "     \
        "reported again."                                                                       \
  }

/* The row of a sink that cannot take back what it has shown: it stays silent up to this step. */
#define MR_RESUME_TOLD_OPT(at)                                                               \
  {                                                                                          \
    .name = "resume-told", .type = MR_OPT_INT, .offset = (at), .unit = "steps", .def = "-1", \
    .lo = -1, .hi = 1e15,                                                                    \
    .help =                                                                                  \
        "Last step that the run reported before it was killed; steps up to it are not "      \
        "reported again."                                                                    \
  }

/* Whether a record was told by the run before: a step up to told, or a validation before it (one of
   step told itself may have been what the kill cut off). */
bool mr_resume_was_told(int64_t told, const char *kind, int64_t step);

/* Whether a record of the earlier run still holds: not beyond the step, not one that speaks of that
   run's end, and not of a validation that is still to come.  kind: as mr_metrics_kind_text. */
bool mr_resume_keeps(const mr_resume_t *r, const char *kind, double step);

/* Whether path is a regular file: only that can be resumed.  A pipe or a device holds nothing, and
   opening it could block. */
bool mr_resume_is_file(const char *path);

/* A line of an earlier run's file. */
typedef struct mr_resume_line {
  bool head;     /* names of columns: kept */
  char kind[16]; /* else: of the record, as mr_metrics_kind_text, and its step */
  int64_t step;
} mr_resume_line_t;

/* Reads line[0,n), which ends with a newline; false: it is no line of such a file. */
typedef bool mr_resume_read_fn(const void *arg, const char *line, size_t n, mr_resume_line_t *out);

/* Removes from a file of lines those that do not hold or cannot be read, and what follows the last
   newline.  Says on standard error, after the stage's name, which steps up to r->step have no
   record of kind "step".  MR_OK too where path is not a regular file; MR_ERR_IO, MR_ERR_NOMEM: the
   file is untouched. */
mr_err_t mr_resume_cut(const mr_stage_t *s, const char *path, const mr_resume_t *r,
                       mr_resume_read_fn *read, const void *arg, mr_diag_t *diag);

#endif
