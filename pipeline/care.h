/* How a source treats bad and excluded records.

   A map before the batch may find a record bad too (pipeline/stage_map.h).

   A source takes part with an mr_care_t in its state (mr_source_def_t.care is the offset) and the
   rows MR_CARE_OPTS among its settings.  Where care->lenient is set, it reports unreadable and
   invalid records from fetch instead of failing in open.  A wrapper around fetch (care_fetch.c)
   does the rest. */
#ifndef MR_PIPELINE_CARE_H
#define MR_PIPELINE_CARE_H

#include <stdbool.h>

#include "pipeline/opt.h"

/* Set in mr_buf_t.key of a record that skip-records= excludes; its label is MR_LABEL_NONE. */
#define MR_KEY_SKIPPED (UINT64_C(1) << 63)

typedef struct mr_care {
  const char *skip, *on_bad, *file; /* settings */
  int64_t seed;
  bool lenient;                         /* set before plan: fetch, not open, reports bad records */
  int64_t n_skipped, n_replaced, n_bad; /* set by close: exclusions, replacements, distinct bad
                                           records */
  struct mr__care *rt;
} mr_care_t;

/* Ends the sentence about a bad record that fails a run under on-bad=fail. */
#define MR_ON_BAD_ADVICE "; on-bad=skip-replace or on-bad=quarantine:N uses another one instead"

struct mr_stage;
/* True if skip-records= of source s excludes the record with this key (mr_rec_t.key); false if it
   does not, or s is no source with an mr_care_t.  From plan to close; any thread. */
bool mr_care_leaves_out(const struct mr_stage *s, uint64_t key);

/* clang-format would give each value of these rows a line of its own. */
/* clang-format off */
#define MR_CARE_OPTS(state, member)                                                               \
  {.name = "skip-records", .type = MR_OPT_STR, .offset = offsetof(state, member.skip),            \
   .unit = "ids",                                                                                 \
   .help = "Records to exclude, 3,10-20 or @FILE: they keep their slot in the batch with "        \
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
