/* Records reach the disk before the checkpoint that follows them.

   A resumed run does not repeat the steps before its checkpoint, so records that a file sink has
   not stored by then are lost.  The training stage gives a record of kind MR_REPORT_MARK before
   each state and numbers both alike (mr_report_t.mark, mr_state_t.mark).  The mark passes through
   the same stages as the records before it.  A sink that stores records answers each mark once they
   are synced; the checkpoint waits for these answers before it renames its file.

   A mark never leaves its process: the checkpoint does not wait for sinks in other processes. */
#ifndef MR_PIPELINE_RUN_DURABLE_H
#define MR_PIPELINE_RUN_DURABLE_H

#include "pipeline/stage.h"

/* In open: announces that this stage answers marks. */
void mr_durable_begin(mr_stage_t *s);

/* Answers a mark, from the thread of a stage that has called begin.  stored: all records before the
   mark are on the disk; false (they cannot be written now) ends the wait for this stage too.  Does
   not block. */
void mr_durable_answer(mr_stage_t *s, int64_t mark, bool stored);

/* Waits up to ms until every stage that metrics of stage `of` reach, and that answers marks, has
   answered this one.  A stage that once let that time pass is not waited for again until it
   answers.  Returns the name (owned by the graph) of a stage whose records are not on the disk;
   NULL if all are, mark is 0 or no stage answers marks.  Returns at once when the graph is
   cancelled. */
const char *mr_durable_wait(mr_stage_t *s, const char *of, int64_t mark, int ms);

#endif
