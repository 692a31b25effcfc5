/* Records on the disk before the checkpoint that follows them.

   A resumed run does not repeat the steps before its checkpoint, so what a file sink has not
   stored by then is lost.  The stage that trains gives a record of kind MR_METRICS_MARK before each
   state and numbers both alike (mr_metrics_t.mark, mr_state_t.mark).  The mark passes through the
   same stages as the records before it.  A sink that stores records answers each mark once they are
   synced; the checkpoint waits for these answers before it renames its file.

   A mark never leaves its process: sinks in other processes are not waited for. */
#ifndef MR_PIPELINE_DURABLE_H
#define MR_PIPELINE_DURABLE_H

#include "pipeline/stage.h"

/* In open: this stage answers marks. */
void mr_durable_begin(mr_stage_t *s);

/* From the thread of a stage that has called begin: whether all records before this mark are on
   the disk.  false (they cannot be written now) ends the wait for this stage as well.  Does not
   block. */
void mr_durable_answer(mr_stage_t *s, int64_t mark, bool stored);

/* Waits until every such stage that metrics of stage `of` lead to has answered this mark, ms at
   most; a stage that has once let that time pass is not waited for again until it answers.  Returns
   the name (owned by the graph) of a stage whose records are not on the disk, or NULL where all
   are, mark is 0 or no stage answers marks.  Returns at once when the graph is cancelled. */
const char *mr_durable_wait(mr_stage_t *s, const char *of, int64_t mark, int ms);

#endif
