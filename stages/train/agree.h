/* What ranks that are processes agree on before each step: that all have the same batch, end their
   streams or stop together; and what each needs of the others' records: keys, draws, marks of
   exclusion and labels, so that the ledger of each is that of the whole batch.

   One exchange a step, on the stage's thread, on the communicator by which the step exchanges its
   sums too, unless it computes on a device, which has one of its own: the calls of a rank have one
   order.  A stage without such ranks has no mr__agree_t. */
#ifndef MR_STAGES_TRAIN_AGREE_H
#define MR_STAGES_TRAIN_AGREE_H

#include "model/exec/process_ranks.h"
#include "model/train/train.h"
#include "pipeline/stage.h"

typedef struct mr__agree mr__agree_t;

/* Joins the communicator of the job's ranks for stage s, whose input 0 has batches, worked through
   in `ordered` parts; stages: those of pipelines, 0 without; on: where the step computes.  *out is
   NULL, with MR_OK, where the ranks are not processes.  MR_ERR_CONFIG, MR_ERR_NOMEM.  The caller
   closes it. */
mr_err_t mr__agree_open(mr_stage_t *s, int64_t ordered, int stages, const mr_device_t *on,
                        mr__agree_t **out);
void mr__agree_close(mr__agree_t *a); /* NULL is fine */

/* Sets rank, size and communicator of a step's configuration; those of a NULL stay. */
void mr__agree_set(const mr__agree_t *a, mr_train_config_t *t);

/* What a rank may ask for after a step, as bits: a state, a validation before it. */
enum { MR__WANTS_STATE = 1, MR__WANTS_VALID = 2 };

/* Agrees about step `step`, the next one.  pulled: MR_OK with this rank's batch, or MR_END, at the
   end of its stream or because it is to stop, or settled: because its evaluations end the run.
   said: this rank's numbers of the newest step that
   has been read, of which all ranks must have the same.  *wants: what this rank asks for after that
   step, and then what any rank does.  Blocks until all ranks have come.  MR_OK: all have a batch,
   and *batch is whole now, but for the values of other ranks' records.  MR_END:
   all end; *stop: because a rank is to stop.  A failure with its sentence: the ranks do not fit, or
   one has not come. */
mr_err_t mr__agree(mr_stage_t *s, mr__agree_t *a, int64_t step, mr_err_t pulled, bool settled,
                   const mr_train_out_t *said, mr_buf_t *batch, uint32_t *wants, bool *stop);

/* Slots of a batch whose values this process has, [0,n), for rank 0's samples: all without a. */
int mr__agree_own(const mr__agree_t *a, const mr_buf_t *batch);

/* Tells all ranks how this one's part of a checkpoint has come out: e with its sentence in *why, or
   MR_OK and the name of the file it has written, "": none.  Blocks until all have come.  MR_OK:
   index, of size ranks * MR_SAFETENSORS_SLICE_NAME, has the names of ranks 1 and on, a line each. A
   failure of any rank is that of all, as "rank 2: ...". */
mr_err_t mr__agree_files(mr_stage_t *s, mr__agree_t *a, mr_err_t e, const mr_diag_t *why,
                         const char *name, char *index);

/* All ranks end the run behind the same step. */
void mr__agree_end(mr__agree_t *a);
/* Before the step is destroyed: steps on devices that the others will not come to fail at once,
   unless all ranks have ended the run.  NULL is fine for both. */
void mr__agree_leave_steps(mr__agree_t *a);

/* Says what this rank does (mr_process_ranks_t.doing).  NULL is fine. */
void mr__agree_doing(const mr__agree_t *a, const char *what, int64_t step, mr_pace_t pace);

#endif
