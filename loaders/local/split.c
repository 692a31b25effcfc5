/* Which records are for training, which for validation: a fixed permutation of the training records
   (index_shuffle, bijective) whose last `holdout` are validation's.  It depends on split-seed and
   the number of records, never on the seed of the run, so that every run of a data set holds the
   same records back. */
#include "loaders/local/split.h"

#include <inttypes.h>

const mr_hint_t mr_split_hints[] = {{"val validation dev eval evaluation", "valid", NULL},
                                    {"training", "train", NULL},
                                    {"testing", "test", NULL},
                                    {0}};

mr_err_t mr__split_plan(mr_stage_t *s, mr_split_t *p) {
  if (p->holdout >= p->training)
    return mr_stage_fail(s, MR_ERR_CONFIG, "holdout=%" PRId64 " records, want [0,%" PRId64 "]",
                         p->holdout, p->training - 1);
  if (mr__split_size(p) < 1)
    return mr_stage_fail(s, MR_ERR_CONFIG, "split=%s has no records%s",
                         p->kind == MR_SPLIT_VALID ? "valid" : "test",
                         p->kind == MR_SPLIT_VALID ? " with holdout=0" : "");
  mr_index_shuffle_init_bijective(&p->order, (uint64_t)p->training - 1, (uint32_t)p->seed,
                                  MR_SHUFFLE_ROUNDS);
  return MR_OK;
}

mr_err_t mr__split_plan_files(mr_stage_t *s, mr_split_t *p, int64_t n) {
  if (p->kind == MR_SPLIT_TEST && p->holdout) {
    mr_notice("%s: split=test takes all %" PRId64 " records: holdout=%" PRId64
              " is not used; split=valid gives those that are held back",
              s->name, n, p->holdout);
    p->holdout = 0;
  }
  p->training = p->test = n;
  return mr__split_plan(s, p);
}

int64_t mr__split_size(const mr_split_t *p) {
  switch (p->kind) {
    case MR_SPLIT_TRAIN: return p->training - p->holdout;
    case MR_SPLIT_VALID: return p->holdout;
    case MR_SPLIT_TEST: return p->test;
    default: return p->training;
  }
}

int64_t mr__split_at(const mr_split_t *p, int64_t index) {
  if (p->kind == MR_SPLIT_TEST || p->kind == MR_SPLIT_ALL) return index;
  if (p->kind == MR_SPLIT_VALID) index += p->training - p->holdout;
  return (int64_t)mr_index_shuffle_at(&p->order, (uint64_t)index);
}

int64_t mr__split_from(const mr_split_t *p, int64_t number) {
  uint64_t from[2];
  int64_t index = number, train = p->training - p->holdout;
  bool drawn = p->kind == MR_SPLIT_TRAIN || p->kind == MR_SPLIT_VALID;
  if (number < 0) return -1;
  if (drawn && !mr_index_shuffle_from(&p->order, (uint64_t)number, from)) return -1;
  if (drawn) index = (int64_t)from[0] - (p->kind == MR_SPLIT_VALID ? train : 0);
  return index >= 0 && index < mr__split_size(p) ? index : -1;
}
