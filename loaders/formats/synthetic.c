/* Procedural pictures of ten classes, drawn in memory from a seed, for a first run without data.

   Up to KEPT_MAX pictures are drawn at open and kept, so that drawing does not slow later stages.
   In a larger set each is drawn when it is fetched, so that a set of any size opens at once and
   takes no memory. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "loaders/local/image.h"
#include "pipeline/care.h"
#include "pipeline/stage_source.h"

static const mr_dataset_t synthetic_dataset = {"synthetic", MR_SYNTHETIC_CLASSES,
                                               mr_synthetic_class};

static const mr_classes_t synthetic_classes = {MR_SYNTHETIC_CLASSES, mr_synthetic_class};

enum { KEPT_MAX = 50000 };

typedef struct synthetic {
  int split;
  int64_t n, seed;
  uint8_t *picture, *label; /* [n][3072], [n]; NULL: not kept */
  mr_care_t care;
} synthetic_t;

static mr_err_t synthetic_plan(mr_stage_t *s) {
  static const int64_t usual[] = {
      [MR_SPLIT_TRAIN] = 10000, [MR_SPLIT_VALID] = 1000, [MR_SPLIT_TEST] = 2000};
  synthetic_t *t = s->state;
  if (t->n == 0) t->n = usual[t->split];
  s->out_spec[0] = mr_image_spec(t->n, &synthetic_dataset);
  s->out_spec[0].field[MR_LABEL].classes = &synthetic_classes;
  s->writes = 1 << MR_LABEL | (t->n > KEPT_MAX ? 1 << MR_IMAGE : 0);
  return MR_OK;
}

/* Draws a picture as a function of the record alone and returns its label; the upper key word makes
   splits differ. */
static uint8_t draw_picture(const synthetic_t *t, int64_t index, uint8_t *picture) {
  mr_philox_t g;
  mr_philox_init(&g, (uint64_t)t->seed << 32 | (uint64_t)index, (uint64_t)t->split + 1);
  uint8_t label = (uint8_t)mr_philox_integers(&g, 0, MR_SYNTHETIC_CLASSES);
  mr_synthetic_draw(&g, label, picture);
  return label;
}

static mr_err_t synthetic_open(mr_stage_t *s) {
  synthetic_t *t = s->state;
  if (t->n > KEPT_MAX) return MR_OK;
  t->picture = malloc((size_t)t->n * MR_IMAGE_BYTES);
  t->label = malloc((size_t)t->n);
  if (!t->picture || !t->label) return mr_stage_no_memory(s, "%lld pictures", (long long)t->n);
  for (int64_t k = 0; k < t->n; k++)
    t->label[k] = draw_picture(t, k, t->picture + k * MR_IMAGE_BYTES);
  return MR_OK;
}

static mr_err_t synthetic_memory(mr_stage_t *s, bool models, mr_takes_t *out) {
  const synthetic_t *t = s->state;
  if (t->n <= KEPT_MAX) out->bytes = (size_t)t->n * (MR_IMAGE_BYTES + 1);
  return MR_OK;
}

static void synthetic_close(mr_stage_t *s) {
  synthetic_t *t = s->state;
  free(t->picture), free(t->label);
  t->picture = t->label = NULL;
}

/* Keys of different splits never collide: the split is the upper word. */
static uint64_t synthetic_id_of(const synthetic_t *t, int64_t index) {
  return (uint64_t)t->split << 32 | (uint64_t)index;
}

static void synthetic_where(mr_stage_t *s, int64_t index, mr_where_t *out) {
  const synthetic_t *t = s->state;
  snprintf(out->file, MR_WHERE_MAX, "synthetic seed=%" PRId64, t->seed);
  out->offset = -1;
  out->key = synthetic_id_of(t, index);
}

static int64_t synthetic_index_of(const mr_stage_t *s, uint64_t key) {
  return (int64_t)(key & UINT32_MAX);
}

static mr_err_t synthetic_fetch(mr_stage_t *s, int worker, const int64_t *index, int n,
                                mr_rec_t *out) {
  const synthetic_t *t = s->state;
  for (int i = 0; i < n; i++) {
    mr_value_t *image = &out[i].field[MR_IMAGE];
    int32_t *label = out[i].field[MR_LABEL].data;
    if (t->label)
      image->data = t->picture + index[i] * MR_IMAGE_BYTES, *label = t->label[index[i]];
    else
      *label = draw_picture(t, index[i], image->data);
    out[i].key = synthetic_id_of(t, index[i]);
  }
  return MR_OK;
}

static const mr_opt_t synthetic_opts[] = {
    {.name = "split",
     .type = MR_OPT_ENUM,
     .offset = offsetof(synthetic_t, split),
     .def = "train",
     .choices = "train|valid|test",
     .help = "Which pictures; the splits are disjoint."},
    {.name = "n",
     .hint = "numsamples numexamples numbuffers",
     .type = MR_OPT_INT,
     .offset = offsetof(synthetic_t, n),
     .unit = "records",
     .def = "0",
     .hi = 4e9,
     .help = "Number of pictures; 0: 10000 for train, 1000 for valid, 2000 for test.  Up to 50000 "
             "are kept in memory; of larger sets each picture is drawn when it is needed (10 us)."},
    {.name = "seed",
     .type = MR_OPT_INT,
     .offset = offsetof(synthetic_t, seed),
     .def = "0",
     .hi = 4294967295.0,
     .help = "Seed of all pictures."},
    MR_CARE_OPTS(synthetic_t, care),
    {0}};

static const mr_source_def_t synthetic_source = {
    .fetch = synthetic_fetch,
    .where = synthetic_where,
    .index_of = synthetic_index_of,
    .care = offsetof(synthetic_t, care),
};

static const mr_hint_t synthetic_words[] = {
    {"videotestsrc fakesrc fakedata random dummy", "synthetic",
     "stage \"synthetic\" makes pictures from a seed"},
    {0}};

const mr_stage_def_t mr_stage_synthetic = {
    .name = "synthetic",
    .role = MR_ROLE_SYNTHETIC,
    .hint = synthetic_words,
    .help = "Draws 32x32 pictures of ten shapes and textures in memory, from a seed.",
    .out = {{"out", MR_FLOW_RECORDS, false}},
    .opts = synthetic_opts,
    .state_sz = sizeof(synthetic_t),
    .plan = synthetic_plan,
    .memory = synthetic_memory,
    .open = synthetic_open,
    .close = synthetic_close,
    .source = &synthetic_source,
};
