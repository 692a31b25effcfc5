/* Each process of a job writes the slots of a share itself, and with zero=3 its values: of its own
   where it has no others, else of the one that zero=1 would give it.  All are durable before rank 0
   writes the file that names them, and that file's name is the commit: a kill at any moment before
   leaves files that nothing names. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/xio.h"
#include "model/exec/process_ranks.h"
#include "pipeline/stage_step.h"
#include "stages/train/train_step_private.h"

bool mr__train_has_shares(const train_t *v) {
  return !v->in_parts && (v->zero || v->cut.cut.stages);
}

bool mr__train_has_value_shares(const train_t *v) {
  return v->zero == 3 && mr__train_has_shares(v);
}

bool mr__train_has_slices(const train_t *v) {
  enum { ONE, RANKS };
  return v->agree && v->checkpoint_files == RANKS && v->checkpoint_dir && *v->checkpoint_dir;
}

/* The parameters whose slots and average this process writes. */
static void set_own(train_t *v, const mr_process_ranks_t *p) {
  const mr_train_config_t shares = {.ranks = p->size, .rank = p->rank, .zero = 1};
  int *own = v->at.own;
  v->at.own_values = mr__train_has_value_shares(v);
  if (mr__train_has_shares(v))
    mr_train_step_share(v->step, &own[0], &own[1]);
  else
    mr_train_share_of(&shares, &v->params, &own[0], &own[1]);
}

/* Whether rank 0 finds what the others have written. */
static mr_err_t check_slices_seen(mr_stage_t *s) {
  const train_t *v = s->state;
  char path[MR_PATH_MAX + MR_SAFETENSORS_SLICE_NAME];
  int rank = 1;
  for (const char *at = v->slices; *at; at += strcspn(at, "\n"), at += *at == '\n', rank++) {
    snprintf(path, sizeof path, "%s/%.*s", v->checkpoint_dir, (int)strcspn(at, "\n"), at);
    if (access(path, F_OK) < 0)
      return mr_stage_fail(s, MR_ERR_IO,
                           "setting checkpoint-files = ranks: rank %d has written %s, which rank 0 "
                           "does not find: want a folder that all hosts share, or "
                           "checkpoint-files=one",
                           rank, path);
  }
  return MR_OK;
}

mr_err_t mr__train_write_slices(mr_stage_t *s) {
  train_t *v = s->state;
  const mr_process_ranks_t *p = mr_process_ranks();
  char name[MR_SAFETENSORS_SLICE_NAME] = "";
  mr_diag_t why = {0};
  mr_err_t e = MR_OK;
  if (v->slices_step == v->at.step) return MR_OK;
  mr__agree_doing(v->agree, "writes its slice of the checkpoint of", v->at.step, MR_PACE_TENSORS);
  if (!v->slices) v->slices = calloc((size_t)p->size, MR_SAFETENSORS_SLICE_NAME);
  if (!v->slices) return mr_stage_no_memory(s, "the names of slices");
  set_own(v, p);
  if (p->rank)
    e = mr_train_slice_write(v->checkpoint_dir, &v->params, &v->at, p->rank, p->size, name, &why);
  MR_TRY(mr__agree_files(s, v->agree, e, &why, name, v->slices));
  v->slices_step = v->at.step;
  return p->rank ? MR_OK : check_slices_seen(s);
}
