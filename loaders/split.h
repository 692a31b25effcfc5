/* Training records are put into an order of their own; its first part is train, the rest valid, so
   no record is in both. */
#ifndef MR_LOADERS_SPLIT_H
#define MR_LOADERS_SPLIT_H

#include "base/index_shuffle.h"
#include "loaders/image.h"
#include "pipeline/stage.h"

/* The settings of a source that has splits, and what follows from them. */
typedef struct mr_split {
  int kind; /* MR_SPLIT_* */
  int64_t holdout, seed;
  int64_t training; /* records of train and valid together */
  int64_t test;     /* records of the test files; they are in their own */
  mr_index_shuffle_t order;
} mr_split_t;

/* Checks the settings against training and test, which the source has set, for a source's plan. */
mr_err_t mr__split_plan(mr_stage_t *s, mr_split_t *p);

static inline bool mr__split_is_test(const mr_split_t *p) { return p->kind == MR_SPLIT_TEST; }

/* Records of the split. */
int64_t mr__split_size(const mr_split_t *p);

/* Where record index of the split stands among the files it is in. */
int64_t mr__split_at(const mr_split_t *p, int64_t index);

/* Rows of a table: clang-format would give each of their values a line. */
/* clang-format off */

/* The rows of such a source's settings; member: of mr_split_t in its state; usual, held: the
   defaults of split and holdout. */
#define MR_SPLIT_OPTS(state, member, usual, held)                                                 \
  {"split", MR_OPT_ENUM, offsetof(state, member.kind), "", usual, 0, 0, "train|valid|test|all",   \
   "train: the training records without those held back; valid: those held back; test: the test " \
   "records; all: all training records.", 0},                                                      \
  {"holdout", MR_OPT_INT, offsetof(state, member.holdout), "records", held, 0, 1e12, NULL,        \
   "Training records held back for validation.", 0},                                              \
  {"split-seed", MR_OPT_INT, offsetof(state, member.seed), "", "12", 0, 4294967295.0, NULL,       \
   "Seed that chooses the records held back.", 0}

/* The rows of how its files are read. */
#define MR_READ_OPTS(state)                                                                       \
  {"memory", MR_OPT_INT, offsetof(state, memory), "bytes", "-1", -1, 1e15, NULL,                  \
   "Files up to this size are kept in memory, larger ones are read as records are needed; "       \
   "-1: half of the free memory.", 0},                                                            \
  {"read-ahead", MR_OPT_BOOL, offsetof(state, ahead), "", "true", 0, 0, NULL,                     \
   "Reads records that are not in memory while earlier ones are transformed.", 0},                \
  {"backend", MR_OPT_ENUM, offsetof(state, backend), "", "auto", 0, 0, MR_BACKEND_CHOICES,        \
   "How files are read; auto chooses by machine and data (`millrace doctor` prints why).", 0}
/* clang-format on */

#endif
