/* Replay files in memory, and what writing and reading share. */
#ifndef MR_STAGES_TRAIN_REPLAY_PRIVATE_H
#define MR_STAGES_TRAIN_REPLAY_PRIVATE_H

#include "base/safetensors.h"
#include "model/zoo/zoo.h"
#include "pipeline/stage.h"
#include "stages/train/replay.h"
#include "stages/train/trace_step.h"

enum {
  MR__REPLAY_VERSION = 1,
  MR__REPLAY_NAME = 256,         /* bytes of a tensor's name */
  MR__REPLAY_SETTINGS = 1 << 14, /* of the settings' lines */
  MR__REPLAY_FIELDS = 2048,      /* of the fields' lines */
  MR__REPLAY_SETS = 4
};

/* The sets of a step, as they are named in a file. */
typedef struct mr__replay_set {
  const char *name;
  mr_set_kind_t kind;
  int number;
} mr__replay_set_t;
extern const mr__replay_set_t mr__replay_set[MR__REPLAY_SETS];

/* Whether a file holds no value of this setting: it says where a run writes and when it ends, and
   not what a step computes. */
bool mr__replay_leaves_out(const char *name);

/* What MILLRACE_MATMUL_PRECISION and MILLRACE_THREEFRY_PARTITIONABLE choose. */
typedef struct mr__replay_defaults {
  mr_precision_t precision;
  mr_key_layout_t keys;
} mr__replay_defaults_t;

struct mr_replay {
  const char *path; /* while it is opened */
  mr_safetensors_t *file;
  mr_stage_t stage; /* a stage that is in no graph: its state holds settings, and the model's */
  char *words, *field_words; /* settings and names of fields point here */
  mr_model_t model;
  mr_params_t params;
  void *field[MR_LOSS_FIELDS + 1]; /* 64-aligned copies; the mask behind the fields */
  uint64_t *record;
  mr__traced_step_t step;
  mr__replay_defaults_t defaults; /* of the run */
  mr_replay_report_t reported;
};

/* Reads and checks the file r->path into the zeroed r.  Fails as mr_replay_open; the caller ends r
   with mr_replay_close in any case. */
mr_err_t mr__replay_read(mr_replay_t *r, mr_diag_t *diag);

#endif
