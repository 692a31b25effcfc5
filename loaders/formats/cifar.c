/* The common part of CIFAR's two layouts: finds the files of a folder, opens them as a store, and
   fetches records from it. */
#include "loaders/formats/cifar.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/suggest.h"

enum { PATH_TEXT = MR_CIFAR_PATH + 32 };

/* The paths that a store's conf points to. */
typedef struct paths {
  char text[MR_CIFAR_FILES][PATH_TEXT];
  const char *at[MR_CIFAR_FILES];
} paths_t;

mr_err_t mr__cifar_plan(mr_stage_t *s, const mr_cifar_kind_t *kind, const char *const *class_name,
                        int n_classes, const char *names_file) {
  mr_cifar_t *t = s->state;
  MR_TRY(mr__split_plan(s, &t->split));
  mr_diag_t why = {0};
  t->kind = kind;
  mr_err_t e = mr__class_names_usual(&t->names, class_name, n_classes, &why);
  bool short_enough = strlen(t->folder) < MR_CIFAR_PATH; /* else open refuses it */
  if (e >= 0 && short_enough)
    e = mr__class_names_read(&t->names, t->folder, names_file, n_classes, &why);
  if (e < 0) return mr_stage_relay(s, e, &why);
  t->dataset = (mr_dataset_t){kind->origin, n_classes, t->names.name};
  t->named = (mr_classes_t){n_classes, t->names.name};
  s->out_spec[0] = mr_image_spec(mr__split_size(&t->split), &t->dataset);
  s->out_spec[0].field[MR_LABEL].classes = &t->named;
  s->writes = 1 << MR_LABEL;
  return MR_OK;
}

static int64_t cifar_locate(const void *ctx, int64_t index) {
  return mr__split_at(&((const mr_cifar_t *)ctx)->split, index);
}

static bool is_there(const char *folder, const char *name) {
  char path[PATH_TEXT + 64];
  return snprintf(path, sizeof path, "%s/%s", folder, name) < (int)sizeof path &&
         access(path, F_OK) == 0;
}

/* If none of the files is in the folder, fails with what is there instead. */
static mr_err_t check_some(const mr_cifar_t *t, const paths_t *paths, mr_diag_t *diag) {
  static const char *const inside[] = {"cifar-10-batches-bin", "cifar-100-binary"};
  static const char *const packed[] = {"cifar-10-binary.tar.gz", "cifar-100-binary.tar.gz"};
  static const char *const python[] = {"data_batch_1", "cifar-10-batches-py", "cifar-100-python",
                                       "cifar-10-python.tar.gz", "train"};
  const char *name = strrchr(paths->at[0], '/') + 1;
  for (int i = 0; i < t->kind->n_files(t); i++)
    if (access(paths->at[i], F_OK) == 0) return MR_OK; /* the store reports a missing one */
  for (size_t i = 0; i < sizeof inside / sizeof *inside; i++)
    if (is_there(t->folder, inside[i]))
      return mr_fail(diag, MR_ERR_IO, "path=%s: holds no %s; say path=%s/%s", t->folder, name,
                     t->folder, inside[i]);
  for (size_t i = 0; i < sizeof packed / sizeof *packed; i++)
    if (is_there(t->folder, packed[i]))
      return mr_fail(diag, MR_ERR_IO, "path=%s: %s is packed: unpack it first (tar xzf %s)",
                     t->folder, packed[i], packed[i]);
  for (size_t i = 0; i < sizeof python / sizeof *python; i++)
    if (is_there(t->folder, python[i]))
      return mr_fail(diag, MR_ERR_IO,
                     "path=%s: %s is CIFAR's Python version, want the binary version (%s); "
                     "`millrace data fetch` downloads CIFAR-10's",
                     t->folder, python[i], name);
  return mr_fail(diag, MR_ERR_IO, "path=%s: holds no %s; `millrace data fetch` downloads CIFAR-10",
                 t->folder, name);
}

static mr_err_t find_files(const mr_cifar_t *t, paths_t *paths, mr_diag_t *diag) {
  char hint[PATH_TEXT + 64];
  if (strlen(t->folder) >= MR_CIFAR_PATH)
    return mr_fail(diag, MR_ERR_CONFIG, "path has %zu bytes, want less than %d", strlen(t->folder),
                   MR_CIFAR_PATH);
  struct stat st;
  if (stat(t->folder, &st) == 0 && !S_ISDIR(st.st_mode))
    return mr_fail(diag, MR_ERR_IO, "path=%s: want a folder that holds %s files%s", t->folder,
                   t->kind->origin, mr_path_hint(t->folder, hint, sizeof hint));
  if (access(t->folder, R_OK | X_OK) < 0) {
    int reason = errno;
    return mr_fail(diag, MR_ERR_IO, "path=%s: the folder cannot be read: %s%s", t->folder,
                   strerror(reason), mr_path_hint(t->folder, hint, sizeof hint));
  }
  for (int i = 0; i < t->kind->n_files(t); i++) {
    t->kind->path(t, i, paths->text[i], PATH_TEXT);
    paths->at[i] = paths->text[i];
  }
  return check_some(t, paths, diag);
}

static int64_t per_file(const mr_cifar_t *t) {
  int64_t all = mr__split_is_test(&t->split) ? t->split.test : t->split.training;
  return all / t->kind->n_files(t);
}

static mr_err_t cifar_store_conf(const mr_cifar_t *t, paths_t *paths, mr_store_conf_t *conf,
                                 mr_diag_t *diag) {
  MR_TRY(find_files(t, paths, diag));
  *conf = (mr_store_conf_t){.path = paths->at,
                            .n_files = t->kind->n_files(t),
                            .record = (size_t)t->kind->head + MR_IMAGE_BYTES,
                            .per_file = per_file(t),
                            .n = mr__split_size(&t->split),
                            .memory = t->memory,
                            .backend = (mr_read_way_t)t->backend,
                            .in_turn = !t->ahead,
                            .locate = cifar_locate,
                            .lenient = t->care.lenient,
                            .check = t->kind->check,
                            .check_bytes = (size_t)t->kind->head,
                            .ctx = t};
  return MR_OK;
}

static mr_err_t open_store(mr_cifar_t *t, mr_diag_t *diag) {
  paths_t paths;
  mr_store_conf_t conf;
  MR_TRY(cifar_store_conf(t, &paths, &conf, diag));
  return mr_store_open(&t->store, &conf, diag);
}

mr_err_t mr__cifar_open(mr_stage_t *s) {
  mr_diag_t why = {0};
  mr_err_t e = open_store(s->state, &why);
  return mr_stage_relay(s, e, &why);
}

static mr_err_t cifar_explain(mr_stage_t *s, char *text, size_t n) {
  paths_t paths;
  mr_store_conf_t conf;
  mr_diag_t why = {0};
  mr_err_t e = cifar_store_conf(s->state, &paths, &conf, &why);
  if (e >= 0) e = mr_store_explain(&conf, text, n, &why);
  return mr_stage_relay(s, e, &why);
}

void mr__cifar_forget(mr_stage_t *s) { mr__class_names_free(&((mr_cifar_t *)s->state)->names); }

void mr__cifar_close(mr_stage_t *s) {
  mr_cifar_t *t = s->state;
  mr_store_close(t->store);
  t->store = NULL;
}

static void cifar_where(mr_stage_t *s, int64_t index, mr_where_t *out) {
  const mr_cifar_t *t = s->state;
  int64_t number = cifar_locate(t, index), each = per_file(t);
  t->kind->path(t, (int)(number / each), out->file, MR_WHERE_MAX);
  out->offset = number % each * (t->kind->head + MR_IMAGE_BYTES);
  out->key = t->kind->id(t, number);
}

/* Ids rise with the number. */
static int64_t cifar_index_of(const mr_stage_t *s, uint64_t key) {
  const mr_cifar_t *t = s->state;
  int64_t lo = 0, hi = mr__split_is_test(&t->split) ? t->split.test : t->split.training;
  while (hi - lo > 1) {
    int64_t middle = lo + (hi - lo) / 2;
    *(t->kind->id(t, middle) <= key ? &lo : &hi) = middle;
  }
  return mr__split_from(&t->split, lo);
}

static mr_err_t cifar_fetch(mr_stage_t *s, int worker, const int64_t *index, int n, mr_rec_t *out) {
  mr_cifar_t *t = s->state;
  int64_t number[MR_BURST];
  uint8_t *record[MR_BURST];
  mr_diag_t why;
  mr_err_t e = mr_store_fetch(t->store, worker, index, n, number, record, mr_stage_why(s, &why));
  if (e < 0) return mr_stage_relay(s, e, &why);
  for (int i = 0; i < n; i++) {
    out[i].field[MR_IMAGE].data = record[i] + t->kind->head;
    *(int32_t *)out[i].field[MR_LABEL].data = record[i][t->label_at];
    out[i].key = t->kind->id(t, number[i]);
  }
  return MR_OK;
}

static bool cifar_ahead(mr_stage_t *s, int worker, const int64_t *index, int n) {
  mr_cifar_t *t = s->state;
  return mr_store_ahead(t->store, worker, index, n);
}

const mr_source_def_t mr__cifar_source = {
    .fetch = cifar_fetch,
    .ahead = cifar_ahead,
    .where = cifar_where,
    .index_of = cifar_index_of,
    .care = offsetof(mr_cifar_t, care),
    .explain = cifar_explain,
};
