/* CIFAR-10's binary files as records.  The training records are put into an order of their own
   (split-seed); its first part is train, the rest valid, so no record is in both. */
#include <inttypes.h>

#include "base/index_shuffle.h"
#include "loaders/cifar10_files.h"
#include "loaders/store.h"
#include "pipeline/stage.h"

typedef struct cifar10 {
  const char *path;
  int split, backend;
  int64_t holdout, split_seed, memory, records;
  mr_cifar10_names_t names;
  mr_dataset_t dataset;
  mr_index_shuffle_t order;
  mr_store_t *store;
} cifar10_t;

static bool is_test(const cifar10_t *t) { return t->split == MR_SPLIT_TEST; }
static int64_t training_records(const cifar10_t *t) { return MR_CIFAR10_FILES * t->records; }

static int64_t split_size(const cifar10_t *t) {
  switch (t->split) {
    case MR_SPLIT_TRAIN: return training_records(t) - t->holdout;
    case MR_SPLIT_VALID: return t->holdout;
    case MR_SPLIT_TEST: return t->records;
    default: return training_records(t);
  }
}

static mr_err_t cifar10_plan(mr_stage_t *s) {
  cifar10_t *t = s->state;
  int64_t all = training_records(t);
  if (t->holdout >= all)
    return mr_stage_fail(s, MR_ERR_CONFIG, "holdout=%" PRId64 " records, want [0,%" PRId64 "]",
                         t->holdout, all - 1);
  if (split_size(t) < 1)
    return mr_stage_fail(s, MR_ERR_CONFIG, "split=valid has no records with holdout=0");
  mr__cifar10_usual_names(&t->names);
  mr_index_shuffle_init(&t->order, (uint64_t)all - 1, (uint32_t)t->split_seed, MR_SHUFFLE_ROUNDS);
  t->dataset = (mr_dataset_t){"cifar10", MR_IMAGE_CLASSES, t->names.name};
  s->out_spec[0] = mr_image_spec(split_size(t), &t->dataset);
  return MR_OK;
}

/* Where record index of the split lies: the record's number among its files. */
static int64_t locate(const void *ctx, int64_t index) {
  const cifar10_t *t = ctx;
  if (t->split == MR_SPLIT_TEST || t->split == MR_SPLIT_ALL) return index;
  if (t->split == MR_SPLIT_VALID) index += training_records(t) - t->holdout;
  return (int64_t)mr_index_shuffle_at(&t->order, (uint64_t)index);
}

static mr_err_t open_store(cifar10_t *t, mr_diag_t *diag) {
  mr_cifar10_paths_t p;
  MR_TRY(mr__cifar10_paths(t->path, is_test(t), &p, diag));
  mr_store_conf_t conf = {.path = p.path,
                          .n_files = p.n,
                          .record = MR_CIFAR10_RECORD,
                          .per_file = t->records,
                          .n = split_size(t),
                          .memory = t->memory,
                          .backend = (mr_backend_t)t->backend,
                          .locate = locate,
                          .check = mr__cifar10_check,
                          .ctx = t};
  MR_TRY(mr_store_open(&t->store, &conf, diag));
  return mr__cifar10_read_names(t->path, &t->names, diag);
}

static mr_err_t cifar10_open(mr_stage_t *s) {
  mr_diag_t why = {0};
  mr_err_t e = open_store(s->state, &why);
  return e < 0 ? mr_stage_fail(s, e, "%s", why.text) : MR_OK;
}

static void cifar10_close(mr_stage_t *s) {
  cifar10_t *t = s->state;
  mr_store_close(t->store);
  t->store = NULL;
}

/* Ids count 10,000 a file, test records come after all others. */
static uint64_t id_of(const cifar10_t *t, int64_t number) {
  int64_t file = is_test(t) ? MR_CIFAR10_FILES : number / t->records;
  return (uint64_t)(file * MR_CIFAR10_PER_FILE + number % t->records);
}

static mr_err_t cifar10_fetch(mr_stage_t *s, int worker, const int64_t *index, int n,
                              mr_rec_t *out) {
  cifar10_t *t = s->state;
  int64_t number[MR_BURST];
  uint8_t *record[MR_BURST];
  mr_diag_t why = {0};
  mr_err_t e = mr_store_fetch(t->store, worker, index, n, number, record, &why);
  if (e < 0) return mr_stage_fail(s, e, "%s", why.text);
  for (int i = 0; i < n; i++) {
    out[i].label = record[i][0];
    out[i].data = record[i] + 1;
    out[i].key = id_of(t, number[i]);
  }
  return MR_OK;
}

static const mr_opt_t cifar10_opts[] = {
    {"path", MR_OPT_STR, offsetof(cifar10_t, path), "", "data/cifar-10-batches-bin", 0, 0, NULL,
     "Folder of data_batch_1.bin to data_batch_5.bin and test_batch.bin.", 1},
    {"split", MR_OPT_ENUM, offsetof(cifar10_t, split), "", "train", 0, 0, "train|valid|test|all",
     "Training records but the held-back ones, those, the test records, or all for training.", 0},
    {"holdout", MR_OPT_INT, offsetof(cifar10_t, holdout), "records", "5000", 0, 50000, NULL,
     "Training records held back for validation.", 0},
    {"split-seed", MR_OPT_INT, offsetof(cifar10_t, split_seed), "", "12", 0, 4294967295.0, NULL,
     "Decides which records are held back.", 0},
    {"memory", MR_OPT_INT, offsetof(cifar10_t, memory), "bytes", "-1", -1, 1e15, NULL,
     "Files up to this size are kept in memory, larger ones are read as records are due; -1: half "
     "of what the machine has free.",
     0},
    {"backend", MR_OPT_ENUM, offsetof(cifar10_t, backend), "", "auto", 0, 0, MR_BACKEND_CHOICES,
     "How files are read; auto takes what the machine allows and the data needs.", 0},
    {"records", MR_OPT_INT, offsetof(cifar10_t, records), "records", "10000", 1,
     MR_CIFAR10_PER_FILE, NULL, "Records that every file holds.", 0},
    {0}};

const mr_stage_def_t mr_stage_cifar10 = {
    .name = "cifar10",
    .help = "Reads the pictures of CIFAR-10's binary files.",
    .out = {{"out", MR_FLOW_RECORDS, false}},
    .opts = cifar10_opts,
    .state_sz = sizeof(cifar10_t),
    .plan = cifar10_plan,
    .open = cifar10_open,
    .close = cifar10_close,
    .fetch = cifar10_fetch,
};
