/* What a process resumes from when it has died is kept by a few stages: a checkpoint, the state of
   a ledger, a link out (whose other end keeps it).  They say in open that they will, and then, once
   it is durable, that earlier buffers need not come again. */
#ifndef MR_PIPELINE_COMMIT_H
#define MR_PIPELINE_COMMIT_H

#include "pipeline/stage.h"

MR_BEGIN_DECLS

/* In open: this stage keeps what the streams before it resume from.  Of several such stages behind
   a stream the last one counts. */
void mr_commits(mr_stage_t *s);
/* The buffers before number at an input port of stage `of` (the stage itself or one before it) need
   not come again.  Not from several workers.  number < 0, or a port that nothing leads to: nothing
   is said. */
void mr_commit(mr_stage_t *s, const char *of, int port, int64_t number);
/* The buffers before this one of output 0 need not come again; -1: no stage behind it keeps
   anything.  Any thread, after every stage is open; a stage without inputs is woken when it
   changes. */
int64_t mr_committed(const mr_stage_t *s);

MR_END_DECLS

#endif
