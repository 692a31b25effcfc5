/* Commits: which buffers a process that dies will not need again.

   A few stages keep what a new process resumes from: a checkpoint, the state of a ledger, a link
   out (whose other end keeps it).  Each announces this in open and, once the state is durable,
   commits the earlier buffers of its inputs. */
#ifndef MR_PIPELINE_RUN_COMMIT_H
#define MR_PIPELINE_RUN_COMMIT_H

#include "pipeline/stage.h"

MR_BEGIN_DECLS

/* In open: announces that this stage keeps what the streams before it resume from.  Of several such
   stages along a stream the one furthest downstream counts. */
void mr_commits(mr_stage_t *s);
/* Commits the buffers before `number` at an input port of stage `of` (the stage itself or one
   before it).  One worker of s calls it at a time.  Does nothing for number < 0 or an unconnected
   port. */
void mr_commit(mr_stage_t *s, const char *of, int port, int64_t number);
/* The number before which the buffers of output 0 are committed; -1 if no stage downstream keeps
   anything.  Any thread, once every stage is open; when the number changes, a stage without inputs
   is woken. */
int64_t mr_committed(const mr_stage_t *s);

MR_END_DECLS

#endif
