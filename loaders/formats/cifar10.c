/* cifar10: CIFAR-10's binary files as records, a label byte and then a picture.  Here is only what
   differs from CIFAR-100, names of files, keys and classes; reading is cifar.c's.  A key counts
   10,000 for each file, so it stays the same when a test uses smaller files. */
#include <inttypes.h>
#include <stdio.h>

#include "loaders/formats/cifar.h"

enum { PER_FILE = 10000 }; /* of the official files */

static const char *const class_name[MR_IMAGE_CLASSES] = {
    "airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"};

static int cifar10_n_files(const mr_cifar_t *t) {
  return mr__split_is_test(&t->split) ? 1 : MR_CIFAR_FILES;
}

static void cifar10_path_of(const mr_cifar_t *t, int i, char *text, size_t n) {
  if (mr__split_is_test(&t->split))
    snprintf(text, n, "%s/test_batch.bin", t->folder);
  else
    snprintf(text, n, "%s/data_batch_%d.bin", t->folder, i + 1);
}

/* Keys count 10,000 per file; test records come after all others. */
static uint64_t cifar10_id_of(const mr_cifar_t *t, int64_t number) {
  int64_t file = mr__split_is_test(&t->split) ? MR_CIFAR_FILES : number / t->records;
  return (uint64_t)(file * PER_FILE + number % t->records);
}

static mr_err_t cifar10_check(const void *ctx, const char *path, int64_t at, const uint8_t *record,
                              mr_diag_t *diag) {
  if (record[0] < MR_IMAGE_CLASSES) return MR_OK;
  return mr_fail(diag, MR_ERR_DATA, "%s: label %d of record %" PRId64 ", want [0,9]", path,
                 record[0], at);
}

static const mr_cifar_kind_t kind = {
    "cifar10", 1, cifar10_n_files, cifar10_path_of, cifar10_id_of, cifar10_check};

static mr_err_t cifar10_plan(mr_stage_t *s) {
  mr_cifar_t *t = s->state;
  t->split.training = MR_CIFAR_FILES * t->records, t->split.test = t->records;
  return mr__cifar_plan(s, &kind, class_name, MR_IMAGE_CLASSES, "batches.meta.txt");
}

static const mr_opt_t cifar10_opts[] = {
    MR_CIFAR_OPTS("data/cifar-10-batches-bin",
                  "Folder of data_batch_1.bin to data_batch_5.bin and test_batch.bin."),
    {.name = "records",
     .type = MR_OPT_INT,
     .offset = offsetof(mr_cifar_t, records),
     .unit = "records",
     .def = "10000",
     .lo = 1,
     .hi = PER_FILE,
     .help = "Records in each file."},
    {0}};

static const mr_hint_t cifar10_words[] = {
    {"dataloader loader mapandbatch torchdataloader dataset",
     "cifar10 ! shuffle seed=1 ! normalize ! batch 128 workers=2", "a loader is a chain of stages"},
    {"cifar cifar10dataset torchvision", "cifar10", "the sources are \"cifar10\" and \"cifar100\""},
    {0}};

static const mr_hint_t cifar10_setting_words[] = {
    {"valsplit validationsplit valfraction valratio testsize", "holdout=5000",
     "holdout= counts records"},
    {"train istraining", "split=train",
     "train=True is split=train here, train=False is split=test"},
    {0}};

const mr_stage_def_t mr_stage_cifar10 = {
    .name = "cifar10",
    .role = MR_ROLE_CLASSES,
    .hint = cifar10_words,
    .setting_hint = cifar10_setting_words,
    .help = "Reads the pictures of CIFAR-10's binary files.",
    .opts = cifar10_opts,
    .state_sz = sizeof(mr_cifar_t),
    .plan = cifar10_plan,
    MR_CIFAR_HOOKS,
};
