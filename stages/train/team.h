/* Compute threads: settings that train-step and eval-step share.  Implemented in report.c. */
#ifndef MR_STAGES_TRAIN_TEAM_H
#define MR_STAGES_TRAIN_TEAM_H

#include "model/exec/backend.h"
#include "model/exec/exec.h"
#include "pipeline/stage.h"

typedef struct mr_train_team {
  int64_t threads;
  bool pin;
} mr_train_team_t;

/* Sends a notice (mr_notice) if pin cannot give each thread a processor of its own. */
void mr_train_team_report(const mr_stage_t *s, const mr_train_team_t *t);

#define MR_TRAIN_DEVICE_HELP                                                                     \
  "Where the step runs: cpu, opencl[:N] or cuda[:N], the device of that number by OpenCL or by " \
  "CUDA (docs/devices.md)."

/* clang-format would give each value of these rows a line of its own. */
/* clang-format off */
/* For a stage whose state holds an mr_train_team_t at offset base. */
#define MR_TRAIN_TEAM_OPTS(base)                                                                  \
  {.name = "threads", .hint = "numthreads nthreads intraopthreads",                               \
   .type = MR_OPT_INT,                                                                            \
   .offset = (base) + offsetof(mr_train_team_t, threads), .def = "0", .hi = MR_THREADS_MAX,       \
   .help = "Number of compute threads; 0: one per processor."},                                   \
  {.name = "pin", .type = MR_OPT_BOOL, .offset = (base) + offsetof(mr_train_team_t, pin),         \
   .def = "false",                                                                                \
   .help = "Binds each of these threads to a processor of its own, or in turn if there are "      \
           "fewer processors."}
/* clang-format on */

#endif
