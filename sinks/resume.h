/* Which records of an earlier run a sink keeps after a resume, so that every curve is one line that
   never goes back.  Implemented in resume.c, and event_steps.c for event files. */
#ifndef MR_SINKS_RESUME_H
#define MR_SINKS_RESUME_H

#include <stdbool.h>

#include "pipeline/stage.h"

typedef struct mr_resume {
  int64_t step; /* the checkpoint's; -1: a new run */
  bool valid;   /* that step had been validated */
} mr_resume_t;

/* The two settings, for a mr_resume_t at an offset in the state. */
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

/* The setting of a sink that cannot take back what it has shown: up to this step it says that steps
   are repeated. */
#define MR_RESUME_REPORTED_OPT(at)                                                               \
  {                                                                                              \
    .name = "resume-reported", .type = MR_OPT_INT, .offset = (at), .unit = "steps", .def = "-1", \
    .lo = -1, .hi = 1e15,                                                                        \
    .help =                                                                                      \
        "Last step that the run reported before it was killed; steps up to it are shown as "     \
        "repeated ones."                                                                         \
  }

/* Returns whether the earlier run reported a record: a step up to `reported`, or a validation
   before it. The validation of step `reported` itself may have been cut off by the kill, so it
   counts as not reported. */
bool mr_resume_was_reported(int64_t reported, const char *kind, int64_t step);

/* Returns whether a record of the earlier run remains valid: false beyond the step, for a test or
   final record, and for a validation that will be repeated.  kind: as mr_report_kind_text. */
bool mr_resume_keeps(const mr_resume_t *r, const char *kind, double step);

/* Returns whether path is a regular file: only that can be resumed.  A pipe or a device holds
   nothing, and opening it could block. */
bool mr_resume_is_file(const char *path);

/* A line of an earlier run's file. */
typedef struct mr_resume_line {
  bool head; /* names of columns, always kept; then the other fields are unused */
  char kind[MR_IN_NAME_MAX + 1]; /* as mr_report_kind_text */
  int64_t step;
} mr_resume_line_t;

/* Parses line[0,n), which ends with a newline, into *out; false if it is no line of such a file. */
typedef bool mr_resume_read_fn(const void *arg, const char *line, size_t n, mr_resume_line_t *out);

/* Cuts a file of lines whose steps do not decrease: takes out those that mr_resume_keeps rejects or
   that cannot be parsed, and the bytes after the last newline.  Of a file of any length it reads
   the last MR_LINES_TAIL bytes up to r->step and a few dozen lines before; what lies before these
   stays as it is.  Sends a notice that names the steps in what it read, up to r->step, without a
   record of kind "step".  MR_OK also if path is missing or not a regular file.  MR_ERR_IO,
   MR_ERR_NOMEM: the file is untouched. */
mr_err_t mr_resume_cut(const mr_stage_t *s, const char *path, const mr_resume_t *r,
                       mr_resume_read_fn *read, const void *arg, mr_diag_t *diag);

/* The set of steps that an earlier run's file has records of, as ascending ranges, because nearly
   all of a run's steps are in it.  One thread at a time.  first and last are included; at least one
   missing step lies between two ranges. */
typedef struct mr_reported_range {
  int64_t first, last;
} mr_reported_range_t;

/* All zeros is the empty set. */
typedef struct mr_reported_steps {
  size_t n, room;
  mr_reported_range_t *range;
} mr_reported_steps_t;

/* Adds a step; one that is in the set already is fine.  Returns false without memory, with the set
   unchanged. */
bool mr_reported_steps_add(mr_reported_steps_t *t, int64_t step);

/* Removes the steps from first on. */
void mr_reported_steps_forget(mr_reported_steps_t *t, int64_t first);

/* Sends a notice, with the stage's name, that names the steps in [first,last] missing from the set;
   none if no step is missing.  where: the file or folder that lacks them. */
void mr_reported_steps_say_missing(const mr_reported_steps_t *t, const mr_stage_t *s,
                                   const char *where, int64_t first, int64_t last);

void mr_reported_steps_fini(mr_reported_steps_t *t); /* frees the ranges */

/* Adds the steps for which TensorBoard finds a training number (a tag train/NAME) in the event
   files of a folder, by the rules of TensorBoard's reader: it reads files whose name contains
   "tfevents", in the order of their names, each up to its first record that is cut or has a wrong
   checksum; the start of a session removes the steps from its own on.  MR_OK also if the folder
   does not exist; MR_ERR_IO if the folder or a file cannot be read; MR_ERR_NOMEM.  After a failure
   steps may have some of them. */
mr_err_t mr_event_steps(const char *dir, mr_reported_steps_t *steps, mr_diag_t *diag);

#endif
