/* cifar100: CIFAR-100's binary files as records, a coarse and a fine label byte and then a picture.
   Here is only what differs from CIFAR-10: one file for each split, two labels of which a setting
   chooses one, and the names of both kinds of classes. */
#include <inttypes.h>
#include <stdio.h>

#include "loaders/formats/cifar.h"

enum { FINE = 100, COARSE = 20, LABELS_FINE = 0 };

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
  mr_cifar_t files;
  int labels;
} cifar100_t;

static int cifar100_n_files(const mr_cifar_t *t) { return 1; }

static void cifar100_path_of(const mr_cifar_t *t, int i, char *text, size_t n) {
  snprintf(text, n, "%s/%s", t->folder, mr__split_is_test(&t->split) ? "test.bin" : "train.bin");
}

/* Test records come after all others. */
static uint64_t cifar100_id_of(const mr_cifar_t *t, int64_t number) {
  return (uint64_t)(number + (mr__split_is_test(&t->split) ? t->records : 0));
}

static mr_err_t cifar100_check(const void *ctx, const char *path, int64_t at, const uint8_t *record,
                               mr_diag_t *diag) {
  if (record[0] < COARSE && record[1] < FINE) return MR_OK;
  return mr_fail(diag, MR_ERR_DATA,
                 "%s: labels %d and %d of record %" PRId64 ", want [0,19] and [0,99]", path,
                 record[0], record[1], at);
}

static const mr_cifar_kind_t kind = {
    "cifar100", 2, cifar100_n_files, cifar100_path_of, cifar100_id_of, cifar100_check};

static mr_err_t cifar100_plan(mr_stage_t *s) {
  cifar100_t *t = s->state;
  bool fine = t->labels == LABELS_FINE;
  t->files.split.training = t->files.records, t->files.split.test = t->files.records / 5;
  t->files.label_at = fine;
  return mr__cifar_plan(s, &kind, fine ? fine_class : coarse_class, fine ? FINE : COARSE,
                        fine ? "fine_label_names.txt" : "coarse_label_names.txt");
}

static const mr_opt_t cifar100_opts[] = {
    MR_CIFAR_OPTS("data/cifar-100-binary", "Folder of train.bin and test.bin."),
    {.name = "labels",
     .type = MR_OPT_ENUM,
     .offset = offsetof(cifar100_t, labels),
     .def = "fine",
     .choices = "fine|coarse",
     .help = "Which label a record has: one of 100 fine classes, or one of 20 coarse ones."},
    {.name = "records",
     .type = MR_OPT_INT,
     .offset = offsetof(mr_cifar_t, records),
     .unit = "records",
     .def = "50000",
     .lo = 5,
     .hi = 1e12,
     .help = "Records in train.bin; test.bin holds a fifth as many."},
    {0}};

const mr_stage_def_t mr_stage_cifar100 = {
    .name = "cifar100",
    .help = "Reads the pictures of CIFAR-100's binary files.",
    .opts = cifar100_opts,
    .state_sz = sizeof(cifar100_t),
    .plan = cifar100_plan,
    MR_CIFAR_HOOKS,
};
