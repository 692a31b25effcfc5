/* Procedural pictures of ten classes, made in memory from a seed: for a first run without data. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "loaders/image.h"
#include "loaders/synthetic_draw.h"
#include "pipeline/care.h"
#include "pipeline/stage.h"

static const mr_dataset_t synthetic_dataset = {"synthetic", MR_SYNTHETIC_CLASSES,
                                               mr_synthetic_class};

typedef struct synthetic {
  int split;
  int64_t n, seed;
  uint8_t *picture; /* [n][3072] */
  uint8_t *label;   /* [n] */
  mr_care_t care;
} synthetic_t;

static mr_err_t synthetic_plan(mr_stage_t *s) {
  static const int64_t usual[] = {
      [MR_SPLIT_TRAIN] = 10000, [MR_SPLIT_VALID] = 1000, [MR_SPLIT_TEST] = 2000};
  synthetic_t *t = s->state;
  if (t->n == 0) t->n = usual[t->split];
  s->out_spec[0] = mr_image_spec(t->n, &synthetic_dataset);
  return MR_OK;
}

static mr_err_t synthetic_open(mr_stage_t *s) {
  synthetic_t *t = s->state;
  t->picture = malloc((size_t)t->n * MR_IMAGE_BYTES);
  t->label = malloc((size_t)t->n);
  if (!t->picture || !t->label)
    return mr_stage_fail(s, MR_ERR_NOMEM, "no memory for %lld pictures", (long long)t->n);
  for (int64_t k = 0; k < t->n; k++) {
    mr_philox_t g; /* of the record alone; the upper key word keeps splits apart */
    mr_philox_init(&g, (uint64_t)t->seed << 32 | (uint64_t)k, (uint64_t)t->split + 1);
    t->label[k] = (uint8_t)mr_philox_integers(&g, 0, MR_SYNTHETIC_CLASSES);
    mr_synthetic_draw(&g, t->label[k], t->picture + k * MR_IMAGE_BYTES);
  }
  return MR_OK;
}

static void synthetic_close(mr_stage_t *s) {
  synthetic_t *t = s->state;
  free(t->picture), free(t->label);
  t->picture = t->label = NULL;
}

/* Ids of the splits do not overlap: the split is the upper word. */
static uint64_t id_of(const synthetic_t *t, int64_t index) {
  return (uint64_t)t->split << 32 | (uint64_t)index;
}

static void synthetic_where(mr_stage_t *s, int64_t index, mr_where_t *out) {
  const synthetic_t *t = s->state;
  snprintf(out->file, MR_WHERE_MAX, "synthetic seed=%" PRId64, t->seed);
  out->offset = -1;
  out->key = id_of(t, index);
}

static mr_err_t synthetic_fetch(mr_stage_t *s, int worker, const int64_t *index, int n,
                                mr_rec_t *out) {
  const synthetic_t *t = s->state;
  for (int i = 0; i < n; i++) {
    out[i].data = t->picture + index[i] * MR_IMAGE_BYTES;
    out[i].label = t->label[index[i]];
    out[i].key = id_of(t, index[i]);
  }
  return MR_OK;
}

static const mr_opt_t synthetic_opts[] = {
    {"split", MR_OPT_ENUM, offsetof(synthetic_t, split), "", "train", 0, 0, "train|valid|test",
     "Which pictures; those of one split are in no other.", 0},
    {"n", MR_OPT_INT, offsetof(synthetic_t, n), "records", "0", 0, 1e6, NULL,
     "How many pictures; 0 is 10000 for train, 1000 for valid, 2000 for test.", 0},
    {"seed", MR_OPT_INT, offsetof(synthetic_t, seed), "", "0", 0, 4294967295.0, NULL,
     "Decides every picture.", 0},
    MR_CARE_OPTS(synthetic_t, care),
    {0}};

const mr_stage_def_t mr_stage_synthetic = {
    .name = "synthetic",
    .help = "Makes 32x32 pictures of ten shapes and textures in memory, from a seed.",
    .out = {{"out", MR_FLOW_RECORDS, false}},
    .opts = synthetic_opts,
    .state_sz = sizeof(synthetic_t),
    .plan = synthetic_plan,
    .open = synthetic_open,
    .close = synthetic_close,
    .fetch = synthetic_fetch,
    .where = synthetic_where,
    .care = offsetof(synthetic_t, care),
};
