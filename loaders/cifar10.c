/* CIFAR-10's binary files as records: resident if they fit the memory given, else read burst by
   burst into scratch of each worker.  The training records are put into an order of their own
   (split-seed); its first part is train, the rest valid, so no record is in both. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/index_shuffle.h"
#include "loaders/cifar10_files.h"
#include "pipeline/stage.h"

enum { WORKERS_MAX = 64, WINDOW = 2730 /* records, 8 MiB: in flight together */ };

/* What one worker reads with; touched by that worker alone. */
typedef struct lane {
  mr_reader_t *reader;
  uint8_t *scratch; /* [MR_BURST][3073] */
} lane_t;

typedef struct cifar10 {
  const char *path;
  int split, backend;
  int64_t holdout, split_seed, memory, records;
  mr_cifar10_names_t names;
  mr_dataset_t dataset;
  mr_index_shuffle_t order;
  uint8_t *resident; /* [split_size][3073] in the order of the split, or NULL */
  lane_t lane[WORKERS_MAX];
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
static int64_t locate(const cifar10_t *t, int64_t index) {
  if (t->split == MR_SPLIT_TEST || t->split == MR_SPLIT_ALL) return index;
  if (t->split == MR_SPLIT_VALID) index += training_records(t) - t->holdout;
  return (int64_t)mr_index_shuffle_at(&t->order, (uint64_t)index);
}

/* Checks the labels of n records of a file from record first on, and keeps those of the split.
   slot: where each record of the files goes, -1 for one of another split. */
static mr_err_t keep_window(cifar10_t *t, const mr_reader_t *r, int file, int64_t first, int64_t n,
                            const uint8_t *window, const int32_t *slot, mr_diag_t *diag) {
  for (int64_t i = 0; i < n; i++) {
    const uint8_t *record = window + i * MR_CIFAR10_RECORD;
    int32_t to = slot[file * t->records + first + i];
    MR_TRY(mr__cifar10_check_label(r, file, first + i, record[0], diag));
    if (to >= 0) memcpy(t->resident + (int64_t)to * MR_CIFAR10_RECORD, record, MR_CIFAR10_RECORD);
  }
  return MR_OK;
}

static mr_err_t load_files(cifar10_t *t, uint8_t *window, int32_t *slot, mr_diag_t *diag) {
  int n = is_test(t) ? 1 : MR_CIFAR10_FILES;
  mr_reader_t *r;
  mr_reader_conf_t conf = {.backend = (mr_backend_t)t->backend,
                           .once = true,
                           .buffer = window,
                           .buffer_len = (size_t)WINDOW * MR_CIFAR10_RECORD};
  MR_TRY(mr__cifar10_open(t->path, is_test(t), t->records, conf, &r, diag));
  for (int64_t i = 0; i < n * t->records; i++) slot[i] = -1;
  for (int64_t i = 0; i < split_size(t); i++) slot[locate(t, i)] = (int32_t)i;
  mr_err_t e = MR_OK;
  for (int f = 0; f < n; f++)
    for (int64_t at = 0; at < t->records && e == MR_OK; at += WINDOW) {
      int64_t k = t->records - at < WINDOW ? t->records - at : WINDOW;
      e = mr_reader_read_big(r, f, at * MR_CIFAR10_RECORD, (size_t)(k * MR_CIFAR10_RECORD), window,
                             diag);
      if (e == MR_OK) e = keep_window(t, r, f, at, k, window, slot, diag);
    }
  mr_reader_close(r);
  return e;
}

/* Keeps the split's own records, in the split's order; what else the files hold passes through a
   window. */
static mr_err_t load_resident(cifar10_t *t, mr_diag_t *diag) {
  size_t bytes = (size_t)split_size(t) * MR_CIFAR10_RECORD;
  uint8_t *window = malloc((size_t)WINDOW * MR_CIFAR10_RECORD);
  int32_t *slot = malloc((size_t)training_records(t) * sizeof *slot);
  t->resident = malloc(bytes);
  mr_err_t e = t->resident && window && slot
                   ? load_files(t, window, slot, diag)
                   : mr_fail(diag, MR_ERR_NOMEM, "no memory for %zu bytes of records", bytes);
  free(window);
  free(slot);
  return e;
}

static mr_err_t open_lane(cifar10_t *t, lane_t *l, mr_diag_t *diag) {
  size_t bytes = (size_t)MR_BURST * MR_CIFAR10_RECORD;
  if (!l->scratch) l->scratch = malloc(bytes);
  if (!l->scratch) return mr_fail(diag, MR_ERR_NOMEM, "no memory for a burst of records");
  mr_reader_conf_t conf = {
      .backend = (mr_backend_t)t->backend, .buffer = l->scratch, .buffer_len = bytes};
  return mr__cifar10_open(t->path, is_test(t), t->records, conf, &l->reader, diag);
}

static mr_err_t cifar10_open(mr_stage_t *s) {
  cifar10_t *t = s->state;
  mr_diag_t why = {0};
  size_t bytes = (size_t)split_size(t) * MR_CIFAR10_RECORD;
  mr_err_t e =
      bytes <= (size_t)t->memory ? load_resident(t, &why) : open_lane(t, &t->lane[0], &why);
  if (e == MR_OK) e = mr__cifar10_read_names(t->path, &t->names, &why);
  return e < 0 ? mr_stage_fail(s, e, "%s", why.text) : MR_OK;
}

static void cifar10_close(mr_stage_t *s) {
  cifar10_t *t = s->state;
  for (int w = 0; w < WORKERS_MAX; w++) {
    mr_reader_close(t->lane[w].reader);
    free(t->lane[w].scratch);
    t->lane[w] = (lane_t){0};
  }
  free(t->resident);
  t->resident = NULL;
}

/* number: among the split's files.  Ids count 10,000 a file, test records come after all others. */
static void set_record(const cifar10_t *t, int64_t number, uint8_t *record, mr_rec_t *out) {
  int64_t file = is_test(t) ? MR_CIFAR10_FILES : number / t->records;
  out->label = record[0];
  out->data = record + 1;
  out->key = (uint64_t)(file * MR_CIFAR10_PER_FILE + number % t->records);
}

static mr_err_t fetch_burst(cifar10_t *t, lane_t *l, const int64_t *index, int n, mr_rec_t *out,
                            mr_diag_t *diag) {
  mr_read_t read[MR_BURST];
  if (!l->reader) MR_TRY(open_lane(t, l, diag));
  for (int i = 0; i < n; i++) {
    int64_t number = locate(t, index[i]);
    uint8_t *record = l->scratch + i * MR_CIFAR10_RECORD;
    read[i] = (mr_read_t){(int)(number / t->records), number % t->records * MR_CIFAR10_RECORD,
                          MR_CIFAR10_RECORD, record};
  }
  MR_TRY(mr_reader_read(l->reader, read, (size_t)n, diag));
  for (int i = 0; i < n; i++) {
    int64_t at = read[i].offset / MR_CIFAR10_RECORD;
    uint8_t *record = read[i].dst;
    MR_TRY(mr__cifar10_check_label(l->reader, read[i].file, at, *record, diag));
    set_record(t, read[i].file * t->records + at, record, &out[i]);
  }
  return MR_OK;
}

static mr_err_t cifar10_fetch(mr_stage_t *s, int worker, const int64_t *index, int n,
                              mr_rec_t *out) {
  cifar10_t *t = s->state;
  if (t->resident) {
    for (int i = 0; i < n; i++) {
      int64_t number = locate(t, index[i]);
      set_record(t, number, t->resident + index[i] * MR_CIFAR10_RECORD, &out[i]);
    }
    return MR_OK;
  }
  if (worker >= WORKERS_MAX)
    return mr_stage_fail(s, MR_ERR_CONFIG, "%d workers, want at most %d", worker + 1, WORKERS_MAX);
  mr_diag_t why = {0};
  mr_err_t e = fetch_burst(t, &t->lane[worker], index, n, out, &why);
  return e < 0 ? mr_stage_fail(s, e, "%s", why.text) : MR_OK;
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
    {"memory", MR_OPT_INT, offsetof(cifar10_t, memory), "bytes", "1073741824", 0, 1e15, NULL,
     "Splits up to this size are kept in memory, larger ones are read as records are due.", 0},
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
