/* CIFAR-10's binary files as records. */
#include "loaders/cifar10_files.h"
#include "loaders/class_names.h"
#include "loaders/split.h"
#include "loaders/store.h"
#include "pipeline/care.h"
#include "pipeline/stage.h"

typedef struct cifar10 {
  const char *path;
  int backend;
  bool ahead;
  int64_t memory, records;
  mr_split_t split;
  mr_class_names_t names;
  mr_dataset_t dataset;
  mr_store_t *store;
  mr_care_t care;
} cifar10_t;

static mr_err_t cifar10_plan(mr_stage_t *s) {
  cifar10_t *t = s->state;
  t->split.training = MR_CIFAR10_FILES * t->records, t->split.test = t->records;
  MR_TRY(mr__split_plan(s, &t->split));
  mr__class_names_usual(&t->names, mr__cifar10_class, MR_IMAGE_CLASSES);
  t->dataset = (mr_dataset_t){"cifar10", MR_IMAGE_CLASSES, t->names.name};
  s->out_spec[0] = mr_image_spec(mr__split_size(&t->split), &t->dataset);
  return MR_OK;
}

static int64_t locate(const void *ctx, int64_t index) {
  return mr__split_at(&((const cifar10_t *)ctx)->split, index);
}

/* paths: where the names that conf points to are kept. */
static mr_err_t store_conf(const cifar10_t *t, mr_cifar10_paths_t *paths, mr_store_conf_t *conf,
                           mr_diag_t *diag) {
  MR_TRY(mr__cifar10_paths(t->path, mr__split_is_test(&t->split), paths, diag));
  *conf = (mr_store_conf_t){.path = paths->path,
                            .n_files = paths->n,
                            .record = MR_CIFAR10_RECORD,
                            .per_file = t->records,
                            .n = mr__split_size(&t->split),
                            .memory = t->memory,
                            .backend = (mr_backend_t)t->backend,
                            .in_turn = !t->ahead,
                            .locate = locate,
                            .lenient = t->care.lenient,
                            .check = mr__cifar10_check,
                            .ctx = t};
  return MR_OK;
}

static mr_err_t open_store(cifar10_t *t, mr_diag_t *diag) {
  mr_cifar10_paths_t paths;
  mr_store_conf_t conf;
  MR_TRY(store_conf(t, &paths, &conf, diag));
  MR_TRY(mr_store_open(&t->store, &conf, diag));
  return mr__class_names_read(&t->names, t->path, "batches.meta.txt", diag);
}

static mr_err_t cifar10_open(mr_stage_t *s) {
  mr_diag_t why = {0};
  mr_err_t e = open_store(s->state, &why);
  return e < 0 ? mr_stage_fail(s, e, "%s", why.text) : MR_OK;
}

static mr_err_t cifar10_explain(mr_stage_t *s, char *text, size_t n) {
  mr_cifar10_paths_t paths;
  mr_store_conf_t conf;
  mr_diag_t why = {0};
  mr_err_t e = store_conf(s->state, &paths, &conf, &why);
  if (e >= 0) e = mr_store_explain(&conf, text, n, &why);
  return e < 0 ? mr_stage_fail(s, e, "%s", why.text) : MR_OK;
}

static void cifar10_close(mr_stage_t *s) {
  cifar10_t *t = s->state;
  mr_store_close(t->store);
  t->store = NULL;
}

/* Ids count 10,000 a file, test records come after all others. */
static uint64_t id_of(const cifar10_t *t, int64_t number) {
  int64_t file = mr__split_is_test(&t->split) ? MR_CIFAR10_FILES : number / t->records;
  return (uint64_t)(file * MR_CIFAR10_PER_FILE + number % t->records);
}

static void cifar10_where(mr_stage_t *s, int64_t index, mr_where_t *out) {
  const cifar10_t *t = s->state;
  int64_t number = locate(t, index);
  mr__cifar10_path(t->path, mr__split_is_test(&t->split), (int)(number / t->records), out->file,
                   MR_WHERE_MAX);
  out->offset = number % t->records * MR_CIFAR10_RECORD;
  out->key = id_of(t, number);
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

static bool cifar10_ahead(mr_stage_t *s, int worker, const int64_t *index, int n) {
  cifar10_t *t = s->state;
  return mr_store_ahead(t->store, worker, index, n);
}

static const mr_opt_t cifar10_opts[] = {
    {"path", MR_OPT_STR, offsetof(cifar10_t, path), "", "data/cifar-10-batches-bin", 0, 0, NULL,
     "Folder of data_batch_1.bin to data_batch_5.bin and test_batch.bin.", 1},
    MR_SPLIT_OPTS(cifar10_t, split, "train", "5000"),
    MR_READ_OPTS(cifar10_t),
    MR_CARE_OPTS(cifar10_t, care),
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
    .ahead = cifar10_ahead,
    .where = cifar10_where,
    .care = offsetof(cifar10_t, care),
    .explain = cifar10_explain,
};
