/* Splits of a source.  A fixed permutation of the training records is cut in two: the first part is
   train, the rest valid, so no record is in both. */
#ifndef MR_LOADERS_LOCAL_SPLIT_H
#define MR_LOADERS_LOCAL_SPLIT_H

#include "base/index_shuffle.h"
#include "loaders/local/image.h"
#include "pipeline/stage.h"

/* The settings of a source that has splits, and the values derived from them. */
typedef struct mr_split {
  int kind; /* MR_SPLIT_* */
  int64_t holdout, seed;
  int64_t training; /* records of train and valid together */
  int64_t test;     /* records of the test files, which are files of their own */
  mr_index_shuffle_t order;
} mr_split_t;

/* Checks the settings against training and test, which the source's plan has set, and sets order.
   MR_ERR_CONFIG if holdout exceeds the records or the split is empty. */
mr_err_t mr__split_plan(mr_stage_t *s, mr_split_t *p);

/* The same for a source whose files are one set of n records: split=test takes all of them, since
   it cannot tell which would be a test set, and a notice says so if some are to be held back.
   Fails as mr__split_plan. */
mr_err_t mr__split_plan_files(mr_stage_t *s, mr_split_t *p, int64_t n);

static inline bool mr__split_is_test(const mr_split_t *p) { return p->kind == MR_SPLIT_TEST; }

/* Returns the number of records of the split, at least 1 after mr__split_plan. */
int64_t mr__split_size(const mr_split_t *p);

/* Returns the number, in the files of the split, of record index in [0,size).  A pure function; any
   thread. */
int64_t mr__split_at(const mr_split_t *p, int64_t index);

/* The inverse: the index in [0,size) of a number of the files of the split; -1: it is not in the
   split. */
int64_t mr__split_from(const mr_split_t *p, int64_t number);

/* Other frameworks' words for the splits. */
extern const mr_hint_t mr_split_hints[];

/* Rows of a table: clang-format would put each value on its own line. */
/* clang-format off */

/* The settings of a source with splits.  member: the mr_split_t in its state; usual, held: the
   defaults of split and holdout. */
#define MR_SPLIT_OPTS(state, member, usual, held)                                                 \
  {.name = "split", .hint = "subset partition", .values = mr_split_hints,                         \
   .type = MR_OPT_ENUM, .offset = offsetof(state, member.kind), .def = usual,                     \
   .choices = "train|valid|test|all",                                                             \
   .help = "train: the training records without those held back; valid: those held back; "        \
           "test: the test records, or all records of a source without files of its own for "       \
           "them; all: all training records."},                                 \
  {.name = "holdout", .type = MR_OPT_INT, .offset = offsetof(state, member.holdout),              \
   .unit = "records", .def = held, .hi = 1e12,                                                    \
   .help = "Training records held back for validation."},                                         \
  {.name = "split-seed", .hint = "splitseed",                                                     \
   .type = MR_OPT_INT, .offset = offsetof(state, member.seed),                                    \
   .def = "12", .hi = 4294967295.0, .help = "Seed that chooses the records held back."}

/* The settings for reading its files. */
#define MR_READ_OPTS(state)                                                                       \
  {.name = "memory", .type = MR_OPT_INT, .offset = offsetof(state, memory), .unit = "bytes",      \
   .def = "-1", .lo = -1, .hi = 1e15,                                                             \
   .help = "Files up to this size are kept in memory, larger ones are read as records are "       \
           "needed; -1: half of the free memory."},                                               \
  {.name = "read-ahead", .type = MR_OPT_BOOL, .offset = offsetof(state, ahead), .def = "true",    \
   .help = "Reads records that are not in memory while earlier ones are transformed."},           \
  {.name = "backend", .type = MR_OPT_ENUM, .offset = offsetof(state, backend), .def = "auto",     \
   .choices = MR_READ_CHOICES,                                                                    \
   .help = "How files are read; auto chooses by machine and data (`millrace doctor` prints "      \
           "why)."}
/* clang-format on */

#endif
