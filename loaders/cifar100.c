/* CIFAR-100's binary files as records: a coarse and a fine label byte, then a picture. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "loaders/class_names.h"
#include "loaders/split.h"
#include "loaders/store.h"
#include "pipeline/care.h"

enum { HEAD = 2, RECORD = HEAD + MR_IMAGE_BYTES, FINE = 100, COARSE = 20, FOLDER = 1024 };
enum { LABELS_FINE, LABELS_COARSE };

static const char *const fine_class[FINE] = {
    "apple",       "aquarium_fish", "baby",      "bear",       "beaver",       "bed",
    "bee",         "beetle",        "bicycle",   "bottle",     "bowl",         "boy",
    "bridge",      "bus",           "butterfly", "camel",      "can",          "castle",
    "caterpillar", "cattle",        "chair",     "chimpanzee", "clock",        "cloud",
    "cockroach",   "couch",         "crab",      "crocodile",  "cup",          "dinosaur",
    "dolphin",     "elephant",      "flatfish",  "forest",     "fox",          "girl",
    "hamster",     "house",         "kangaroo",  "keyboard",   "lamp",         "lawn_mower",
    "leopard",     "lion",          "lizard",    "lobster",    "man",          "maple_tree",
    "motorcycle",  "mountain",      "mouse",     "mushroom",   "oak_tree",     "orange",
    "orchid",      "otter",         "palm_tree", "pear",       "pickup_truck", "pine_tree",
    "plain",       "plate",         "poppy",     "porcupine",  "possum",       "rabbit",
    "raccoon",     "ray",           "road",      "rocket",     "rose",         "sea",
    "seal",        "shark",         "shrew",     "skunk",      "skyscraper",   "snail",
    "snake",       "spider",        "squirrel",  "streetcar",  "sunflower",    "sweet_pepper",
    "table",       "tank",          "telephone", "television", "tiger",        "tractor",
    "train",       "trout",         "tulip",     "turtle",     "wardrobe",     "whale",
    "willow_tree", "wolf",          "woman",     "worm"};

static const char *const coarse_class[COARSE] = {"aquatic_mammals",
                                                 "fish",
                                                 "flowers",
                                                 "food_containers",
                                                 "fruit_and_vegetables",
                                                 "household_electrical_devices",
                                                 "household_furniture",
                                                 "insects",
                                                 "large_carnivores",
                                                 "large_man-made_outdoor_things",
                                                 "large_natural_outdoor_scenes",
                                                 "large_omnivores_and_herbivores",
                                                 "medium_mammals",
                                                 "non-insect_invertebrates",
                                                 "people",
                                                 "reptiles",
                                                 "small_mammals",
                                                 "trees",
                                                 "vehicles_1",
                                                 "vehicles_2"};

typedef struct cifar100 {
  const char *path;
  int backend, labels;
  bool ahead;
  int64_t memory, records;
  mr_split_t split;
  mr_class_names_t names;
  mr_dataset_t dataset;
  mr_store_t *store;
  mr_care_t care;
} cifar100_t;

static mr_err_t cifar100_plan(mr_stage_t *s) {
  cifar100_t *t = s->state;
  bool fine = t->labels == LABELS_FINE;
  t->split.training = t->records, t->split.test = t->records / 5;
  MR_TRY(mr__split_plan(s, &t->split));
  mr__class_names_usual(&t->names, fine ? fine_class : coarse_class, fine ? FINE : COARSE);
  t->dataset = (mr_dataset_t){"cifar100", t->names.n, t->names.name};
  s->out_spec[0] = mr_image_spec(mr__split_size(&t->split), &t->dataset);
  return MR_OK;
}

static int64_t locate(const void *ctx, int64_t index) {
  return mr__split_at(&((const cifar100_t *)ctx)->split, index);
}

static mr_err_t check(const void *ctx, const char *path, int64_t at, const uint8_t *record,
                      mr_diag_t *diag) {
  if (record[0] < COARSE && record[1] < FINE) return MR_OK;
  return mr_fail(diag, MR_ERR_DATA,
                 "%s: labels %d and %d of record %" PRId64 ", want [0,19] and [0,99]", path,
                 record[0], record[1], at);
}

typedef struct path {
  char text[FOLDER + 16];
  const char *at;
} path_t;

/* path: where the name that conf points to is kept. */
static mr_err_t store_conf(const cifar100_t *t, path_t *path, mr_store_conf_t *conf,
                           mr_diag_t *diag) {
  bool test = mr__split_is_test(&t->split);
  if (strlen(t->path) >= FOLDER)
    return mr_fail(diag, MR_ERR_CONFIG, "path has %zu bytes, want less than %d", strlen(t->path),
                   FOLDER);
  if (access(t->path, R_OK | X_OK) < 0)
    return mr_fail(diag, MR_ERR_IO, "path=%s: the folder cannot be read: %s", t->path,
                   strerror(errno));
  snprintf(path->text, sizeof path->text, "%s/%s", t->path, test ? "test.bin" : "train.bin");
  path->at = path->text;
  *conf = (mr_store_conf_t){.path = &path->at,
                            .n_files = 1,
                            .record = RECORD,
                            .per_file = test ? t->split.test : t->split.training,
                            .n = mr__split_size(&t->split),
                            .memory = t->memory,
                            .backend = (mr_backend_t)t->backend,
                            .in_turn = !t->ahead,
                            .locate = locate,
                            .lenient = t->care.lenient,
                            .check = check,
                            .ctx = t};
  return MR_OK;
}

static mr_err_t open_store(cifar100_t *t, mr_diag_t *diag) {
  path_t path;
  mr_store_conf_t conf;
  MR_TRY(store_conf(t, &path, &conf, diag));
  MR_TRY(mr_store_open(&t->store, &conf, diag));
  return mr__class_names_read(
      &t->names, t->path,
      t->labels == LABELS_FINE ? "fine_label_names.txt" : "coarse_label_names.txt", diag);
}

static mr_err_t cifar100_open(mr_stage_t *s) {
  mr_diag_t why = {0};
  mr_err_t e = open_store(s->state, &why);
  return e < 0 ? mr_stage_fail(s, e, "%s", why.text) : MR_OK;
}

static mr_err_t cifar100_explain(mr_stage_t *s, char *text, size_t n) {
  path_t path;
  mr_store_conf_t conf;
  mr_diag_t why = {0};
  mr_err_t e = store_conf(s->state, &path, &conf, &why);
  if (e >= 0) e = mr_store_explain(&conf, text, n, &why);
  return e < 0 ? mr_stage_fail(s, e, "%s", why.text) : MR_OK;
}

static void cifar100_close(mr_stage_t *s) {
  cifar100_t *t = s->state;
  mr_store_close(t->store);
  t->store = NULL;
}

/* Ids: test records come after all others. */
static uint64_t id_of(const cifar100_t *t, int64_t number) {
  return (uint64_t)(number + (mr__split_is_test(&t->split) ? t->records : 0));
}

static void cifar100_where(mr_stage_t *s, int64_t index, mr_where_t *out) {
  const cifar100_t *t = s->state;
  int64_t number = locate(t, index);
  snprintf(out->file, MR_WHERE_MAX, "%s/%s", t->path,
           mr__split_is_test(&t->split) ? "test.bin" : "train.bin");
  out->offset = number * RECORD;
  out->key = id_of(t, number);
}

static mr_err_t cifar100_fetch(mr_stage_t *s, int worker, const int64_t *index, int n,
                               mr_rec_t *out) {
  cifar100_t *t = s->state;
  int64_t number[MR_BURST];
  uint8_t *record[MR_BURST];
  mr_diag_t why = {0};
  mr_err_t e = mr_store_fetch(t->store, worker, index, n, number, record, &why);
  if (e < 0) return mr_stage_fail(s, e, "%s", why.text);
  for (int i = 0; i < n; i++) {
    out[i].label = record[i][t->labels == LABELS_FINE];
    out[i].data = record[i] + HEAD;
    out[i].key = id_of(t, number[i]);
  }
  return MR_OK;
}

static bool cifar100_ahead(mr_stage_t *s, int worker, const int64_t *index, int n) {
  cifar100_t *t = s->state;
  return mr_store_ahead(t->store, worker, index, n);
}

static const mr_opt_t cifar100_opts[] = {
    {"path", MR_OPT_STR, offsetof(cifar100_t, path), "", "data/cifar-100-binary", 0, 0, NULL,
     "Folder of train.bin and test.bin.", 1},
    {"labels", MR_OPT_ENUM, offsetof(cifar100_t, labels), "", "fine", 0, 0, "fine|coarse",
     "Which label a record has: one of 100 classes or of 20.", 0},
    MR_SPLIT_OPTS(cifar100_t, split, "train", "5000"),
    MR_READ_OPTS(cifar100_t),
    MR_CARE_OPTS(cifar100_t, care),
    {"records", MR_OPT_INT, offsetof(cifar100_t, records), "records", "50000", 5, 1e12, NULL,
     "Records of train.bin; test.bin holds a fifth as many.", 0},
    {0}};

const mr_stage_def_t mr_stage_cifar100 = {
    .name = "cifar100",
    .help = "Reads the pictures of CIFAR-100's binary files.",
    .out = {{"out", MR_FLOW_RECORDS, false}},
    .opts = cifar100_opts,
    .state_sz = sizeof(cifar100_t),
    .plan = cifar100_plan,
    .open = cifar100_open,
    .close = cifar100_close,
    .fetch = cifar100_fetch,
    .ahead = cifar100_ahead,
    .where = cifar100_where,
    .care = offsetof(cifar100_t, care),
    .explain = cifar100_explain,
};
