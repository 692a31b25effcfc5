/* Picture files of a folder, one folder for each class, with the order and the class numbers of
   torchvision's ImageFolder; or the files that a list names.  Files are given as they are, encoded:
   `decode` makes pictures of them.

   plan lists the files, since their number is part of the spec; open only starts to read. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "base/xio.h"
#include "loaders/files.h"
#include "loaders/folder_list.h"
#include "loaders/split.h"
#include "pipeline/care.h"
#include "pipeline/stage_source.h"

enum { LIST_BYTES_MAX = 1 << 30 };

typedef struct folder {
  const char *path, *list_file, *field_name;
  int64_t max_bytes, max_files, id_base, threads;
  bool allow_empty;
  mr_split_t split;
  mr_care_t care;
  mr_folder_list_t list; /* plan makes it */
  mr_dataset_t dataset;
  mr_files_t *files;
} folder_t;

/* ---- plan ---- */

static mr_err_t folder_list(folder_t *t, mr_diag_t *diag) {
  void *text;
  size_t n;
  if (!t->list_file)
    return mr_folder_list_scan(&t->list, t->path, t->max_files, t->allow_empty, diag);
  MR_TRY(mr_read_file(t->list_file, LIST_BYTES_MAX, &text, &n, diag));
  mr_err_t e = mr_folder_list_parse(&t->list, t->list_file, text, n, t->max_files, diag);
  free(text);
  return e;
}

static void folder_forget(mr_stage_t *s) {
  folder_t *t = s->state;
  mr_folder_list_free(&t->list);
}

static mr_err_t folder_plan(mr_stage_t *s) {
  folder_t *t = s->state;
  mr_diag_t why = {0};
  if (!mr_field_name_ok(t->field_name) || !strcmp(t->field_name, "label"))
    return mr_stage_fail(s, MR_ERR_CONFIG,
                         "setting field = %s: want a name of at most %d letters, digits, \"_\", "
                         "\"-\" and \".\", a letter first, other than label",
                         t->field_name, MR_FIELD_NAME - 1);
  mr_err_t e = folder_list(t, &why);
  if (e < 0) return mr_stage_relay(s, e, &why);
  if (t->split.kind == MR_SPLIT_TEST) t->split.holdout = 0; /* the folder is the whole test set */
  t->split.training = t->split.test = t->list.n;
  MR_TRY(mr__split_plan(s, &t->split));
  t->dataset = (mr_dataset_t){"folder", t->list.n_classes, t->list.name};
  mr_field_t image = {.dtype = MR_U8, .ndim = 1, .dim = {t->max_bytes}, .ragged = true};
  snprintf(image.name, sizeof image.name, "%s", t->field_name);
  s->out_spec[0] = (mr_spec_t){.flow = MR_FLOW_RECORDS,
                               .n_fields = 2,
                               .field = {image, mr_field_of_label(t->list.n_classes)},
                               .n_records = mr__split_size(&t->split),
                               .n_epochs = 1,
                               .dataset = &t->dataset};
  s->writes = 1 << MR_LABEL;
  return MR_OK;
}

/* ---- reading ---- */

static const char *folder_path(const void *ctx, int64_t number) {
  return mr_folder_path(&((const folder_t *)ctx)->list, number);
}

static mr_err_t folder_open(mr_stage_t *s) {
  folder_t *t = s->state;
  mr_diag_t why = {0};
  mr_files_conf_t conf = {t->path, folder_path, t, t->max_bytes, (int)t->threads};
  mr_err_t e = mr_files_open(&t->files, &conf, &why);
  return mr_stage_relay(s, e, &why);
}

static void folder_close(mr_stage_t *s) {
  folder_t *t = s->state;
  mr_files_close(t->files);
  t->files = NULL;
}

static mr_err_t folder_explain(mr_stage_t *s, char *text, size_t n) {
  const folder_t *t = s->state;
  mr_snprintf(text, n,
              "%" PRId64 " files of %d classes, each read whole when it is due, by pread%s",
              t->list.n, t->list.n_classes,
              t->threads ? "; those of the next burst by threads of their own" : "");
  return MR_OK;
}

static void folder_where(mr_stage_t *s, int64_t index, mr_where_t *out) {
  const folder_t *t = s->state;
  int64_t number = mr__split_at(&t->split, index);
  snprintf(out->file, MR_WHERE_MAX, "%s/%s", t->path, folder_path(t, number));
  out->offset = 0;
  out->key = (uint64_t)(number + t->id_base);
}

static mr_err_t folder_fetch(mr_stage_t *s, int worker, const int64_t *index, int n,
                             mr_rec_t *out) {
  folder_t *t = s->state;
  int64_t number[MR_BURST] = {0};
  uint8_t *data[MR_BURST];
  size_t size[MR_BURST];
  mr_diag_t why = {0};
  for (int i = 0; i < n; i++) number[i] = mr__split_at(&t->split, index[i]);
  mr_err_t e = mr_files_fetch(t->files, worker, number, n, data, size, &why);
  if (e < 0) return mr_stage_relay(s, e, &why);
  for (int i = 0; i < n; i++) {
    out[i].field[MR_IMAGE] = (mr_value_t){.data = data[i], .rows = (int64_t)size[i]};
    *(int32_t *)out[i].field[MR_LABEL].data = t->list.file[number[i]].label;
    out[i].key = (uint64_t)(number[i] + t->id_base);
  }
  return MR_OK;
}

static bool folder_ahead(mr_stage_t *s, int worker, const int64_t *index, int n) {
  folder_t *t = s->state;
  int64_t number[MR_BURST] = {0};
  for (int i = 0; i < n; i++) number[i] = mr__split_at(&t->split, index[i]);
  return mr_files_ahead(t->files, worker, number, n);
}

/* ---- the stage ---- */

static const mr_opt_t folder_opts[] = {
    {.name = "path",
     .type = MR_OPT_STR,
     .offset = offsetof(folder_t, path),
     .def = "data/train",
     .help = "Folder that holds a folder of pictures for each class.",
     .positional = 1},
    {.name = "list",
     .type = MR_OPT_STR,
     .offset = offsetof(folder_t, list_file),
     .unit = "FILE",
     .help = "List of the files to use, in its order: CSV with a header, or JSON lines, with "
             "file_name (or path, below the folder) and label (a number or a name)."},
    {.name = "field",
     .type = MR_OPT_STR,
     .offset = offsetof(folder_t, field_name),
     .def = "image",
     .help = "Name of the field of encoded bytes."},
    {.name = "max-bytes",
     .type = MR_OPT_INT,
     .offset = offsetof(folder_t, max_bytes),
     .unit = "bytes",
     .def = "33554432",
     .lo = 1,
     .hi = 1 << 30,
     .help = "Size of the largest file; a larger one is a bad record."},
    {.name = "max-files",
     .type = MR_OPT_INT,
     .offset = offsetof(folder_t, max_files),
     .unit = "files",
     .def = "100000000",
     .lo = 1,
     .hi = 1e10,
     .help = "Most files; a folder with more is refused."},
    {.name = "allow-empty",
     .type = MR_OPT_BOOL,
     .offset = offsetof(folder_t, allow_empty),
     .def = "false",
     .help = "Accepts classes without a picture, as torchvision's allow_empty does."},
    {.name = "read-threads",
     .type = MR_OPT_INT,
     .offset = offsetof(folder_t, threads),
     .unit = "threads",
     .def = "4",
     .hi = 64,
     .help = "Threads that read files while earlier ones are transformed; 0: files are read when "
             "they are due."},
    {.name = "id-base",
     .type = MR_OPT_INT,
     .offset = offsetof(folder_t, id_base),
     .def = "0",
     .hi = 1e15,
     .help = "Id of the first file; give folders that are used in one graph different ids."},
    MR_SPLIT_OPTS(folder_t, split, "all", "0"),
    MR_CARE_OPTS(folder_t, care),
    {0}};

static const mr_source_def_t folder_source = {
    .fetch = folder_fetch,
    .ahead = folder_ahead,
    .where = folder_where,
    .care = offsetof(folder_t, care),
    .explain = folder_explain,
};

const mr_stage_def_t mr_stage_folder = {
    .name = "folder",
    .help =
        "Reads the picture files of a folder, one folder a class, as torchvision's ImageFolder.",
    .out = {{"out", MR_FLOW_RECORDS, false}},
    .opts = folder_opts,
    .state_sz = sizeof(folder_t),
    .plan = folder_plan,
    .forget = folder_forget,
    .open = folder_open,
    .close = folder_close,
    .source = &folder_source,
};
