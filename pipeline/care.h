/* What a source does with records that are bad or not wanted.

   A source takes part by an mr_care_t in its state (mr_stage_def_t.care is its offset), the rows
   MR_CARE_OPTS among its settings, and, where care->lenient is set, by failing in fetch instead of
   open for records that cannot be read or are none.  The rest is done around its fetch. */
#ifndef MR_PIPELINE_CARE_H
#define MR_PIPELINE_CARE_H

#include <stdbool.h>

#include "pipeline/opt.h"

/* Set in mr_buf_t.key for a record that skip-records= left out; its label is MR_LABEL_NONE. */
#define MR_KEY_SKIPPED (UINT64_C(1) << 63)

typedef struct mr_care {
  const char *skip, *on_bad, *file; /* settings */
  int64_t seed;
  bool lenient;                         /* set before plan: bad records are fetch's matter */
  int64_t n_skipped, n_replaced, n_bad; /* after close: how often, how often, how many */
  struct mr__care *rt;
} mr_care_t;

/* The end of a sentence about a bad record that fails a run under on-bad=fail. */
#define MR_ON_BAD_ADVICE "; on-bad=skip-replace or on-bad=quarantine:N uses another one instead"

/* True if skip-records= of the source s leaves out the record of this key (mr_rec_t.key).  While
   the graph runs. */
struct mr_stage;
bool mr_care_leaves_out(const struct mr_stage *s, uint64_t key);

/* Rows of a table: clang-format would give each of their values a line. */
/* clang-format off */
#define MR_CARE_OPTS(state, member)                                                               \
  {.name = "skip-records", .type = MR_OPT_STR, .offset = offsetof(state, member.skip),            \
   .unit = "ids",                                                                                 \
   .help = "Records to exclude, 3,10-20 or @FILE: they keep their place in the batch with "       \
           "zero weight."},                                                                       \
  {.name = "on-bad", .type = MR_OPT_STR, .offset = offsetof(state, member.on_bad),                \
   .def = "fail",                                                                                 \
   .help = "What to do with an unreadable or invalid record: fail, skip-replace (use another "    \
           "one) or quarantine:N (the same for at most N records, which are listed in a "         \
           "file)."},                                                                             \
  {.name = "quarantine", .type = MR_OPT_STR, .offset = offsetof(state, member.file),              \
   .def = "quarantine.jsonl",                                                                     \
   .help = "File of on-bad=quarantine:N, one line of JSON per record."},                          \
  {.name = "bad-seed", .type = MR_OPT_INT, .offset = offsetof(state, member.seed), .def = "0",    \
   .hi = 4294967295.0, .help = "Seed that chooses the records used instead of bad ones."}
/* clang-format on */

#endif
