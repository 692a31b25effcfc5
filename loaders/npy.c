/* A pair of .npy files: images (N, ...) and a label for each. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/npy.h"
#include "loaders/class_names.h"
#include "loaders/split.h"
#include "loaders/store.h"
#include "pipeline/care.h"
#include "pipeline/stage_source.h"

enum { LAYOUT_AUTO, LAYOUT_HWC, LAYOUT_CHW, LAYOUT_NONE };

typedef struct npy {
  const char *images, *labels, *names_file;
  int backend, layout;
  bool ahead;
  int64_t memory, classes, id_base;
  mr_split_t split;
  mr_npy_t image_head, label_head; /* types and shapes; no data */
  size_t head, record;             /* bytes before the first record, of one */
  mr_npy_t label;
  char number[MR_CLASSES_MAX][12]; /* names of classes that have none */
  const char *number_at[MR_CLASSES_MAX];
  mr_class_names_t names;
  mr_dataset_t dataset;
  mr_store_t *store;
  mr_care_t care;
} npy_t;

static bool is_label_type(mr_dtype_t t) {
  return t == MR_U8 || t == MR_I32 || t == MR_U32 || t == MR_I64 || t == MR_U64;
}

/* (N,C,H,W) if said so, or if there are 1, 3 or 4 planes and the last dimension is something else;
   where four pixels and three planes meet, these are the channels. */
static mr_layout_t layout_of(const npy_t *t) {
  const mr_npy_t *a = &t->image_head;
  if (a->ndim != 4 || t->layout == LAYOUT_NONE) return MR_LAYOUT_NONE;
  if (t->layout != LAYOUT_AUTO) return t->layout == LAYOUT_HWC ? MR_LAYOUT_HWC : MR_LAYOUT_CHW;
  if (a->dim[3] == 1 || a->dim[3] == 3) return MR_LAYOUT_HWC;
  if (a->dim[1] == 1 || a->dim[1] == 3) return MR_LAYOUT_CHW;
  return a->dim[3] == 4 ? MR_LAYOUT_HWC : a->dim[1] == 4 ? MR_LAYOUT_CHW : MR_LAYOUT_NONE;
}

/* "f64[10,8,8]" into text[0,n). */
static const char *array_text(const mr_npy_t *a, char *text, size_t n) {
  int at = snprintf(text, n, "%s[", mr_dtype_name(a->dtype));
  for (int i = 0; i < a->ndim && at >= 0 && (size_t)at < n; i++)
    at += snprintf(text + at, n - (size_t)at, "%s%" PRId64, i ? "," : "", a->dim[i]);
  if (at >= 0 && (size_t)at < n) snprintf(text + at, n - (size_t)at, "]");
  return text;
}

static mr_err_t peek_images(npy_t *t, mr_diag_t *diag) {
  mr_npy_t *a = &t->image_head;
  char text[128];
  MR_TRY(mr_npy_peek(t->images, a, &t->head, diag));
  size_t each = mr_dtype_size(a->dtype);
  if ((a->dtype != MR_U8 && a->dtype != MR_F32) || a->ndim < 2 || a->count == 0)
    return mr_fail(
        diag, MR_ERR_DATA,
        "%s: holds %s, want an array (N, ...) of u1 or f4 with records in it (u8 and f32 "
        "here; a.astype(\"f4\") in NumPy makes f32 of others)",
        t->images, array_text(a, text, sizeof text));
  if (t->head % each)
    return mr_fail(diag, MR_ERR_DATA, "%s: its data begin at byte %zu, want a multiple of %zu",
                   t->images, t->head, each);
  t->record = a->count / (size_t)a->dim[0] * each;
  return t->record <= 1 << 28 ? MR_OK
                              : mr_fail(diag, MR_ERR_DATA,
                                        "%s: records of %zu bytes, want at "
                                        "most %d",
                                        t->images, t->record, 1 << 28);
}

static mr_err_t peek_labels(npy_t *t, mr_diag_t *diag) {
  size_t offset;
  mr_npy_t *a = &t->label_head;
  char text[128];
  MR_TRY(mr_npy_peek(t->labels, a, &offset, diag));
  if (!is_label_type(a->dtype) || a->ndim != 1 || a->dim[0] != t->image_head.dim[0])
    return mr_fail(diag, MR_ERR_DATA,
                   "%s: holds %s, want whole numbers [%" PRId64 "], one for each record of %s",
                   t->labels, array_text(a, text, sizeof text), t->image_head.dim[0], t->images);
  return MR_OK;
}

static void number_classes(npy_t *t) {
  for (int i = 0; i < t->classes; i++) {
    snprintf(t->number[i], sizeof t->number[i], "%d", i);
    t->number_at[i] = t->number[i];
  }
  mr__class_names_usual(&t->names, t->number_at, (int)t->classes);
}

static mr_err_t npy_plan(mr_stage_t *s) {
  npy_t *t = s->state;
  mr_diag_t why = {0};
  mr_err_t e = peek_images(t, &why);
  if (e >= 0) e = peek_labels(t, &why);
  if (e < 0) return mr_stage_fail(s, e, "%s", why.text);
  if (t->split.kind == MR_SPLIT_TEST) /* the pair is the test set: all of it */
    t->split.holdout = 0;
  t->split.training = t->split.test = t->image_head.dim[0];
  MR_TRY(mr__split_plan(s, &t->split));
  number_classes(t);
  t->dataset = (mr_dataset_t){"npy", (int)t->classes, t->names.name};
  mr_spec_t *out = &s->out_spec[0];
  *out = (mr_spec_t){.flow = MR_FLOW_RECORDS,
                     .n_fields = 2,
                     .field = {{.name = "image",
                                .dtype = t->image_head.dtype,
                                .layout = layout_of(t),
                                .ndim = t->image_head.ndim - 1},
                               mr_field_of_label((int)t->classes)},
                     .n_records = mr__split_size(&t->split),
                     .n_epochs = 1,
                     .dataset = &t->dataset};
  s->writes = 1 << 1;
  memcpy(out->field->dim, t->image_head.dim + 1, (size_t)out->field->ndim * sizeof(int64_t));
  return MR_OK;
}

static int64_t locate(const void *ctx, int64_t index) {
  return mr__split_at(&((const npy_t *)ctx)->split, index);
}

/* -1 if it is no class of this set. */
static int32_t label_at(const npy_t *t, int64_t i) {
  const void *p = t->label.data;
  uint64_t v = 0;
  switch (t->label.dtype) {
    case MR_U8: v = ((const uint8_t *)p)[i]; break;
    case MR_I32: v = (uint64_t)(int64_t)((const int32_t *)p)[i]; break;
    case MR_U32: v = ((const uint32_t *)p)[i]; break;
    default: v = ((const uint64_t *)p)[i];
  }
  return v < (uint64_t)t->classes ? (int32_t)v : -1;
}

/* With on-bad= a wrong label is a bad record, not a bad file. */
static mr_err_t check_label(const npy_t *t, int64_t number, mr_diag_t *diag) {
  if (label_at(t, number) >= 0) return MR_OK;
  return mr_fail(diag, MR_ERR_DATA,
                 "%s: the label of record %" PRId64 " is not in [0,%" PRId64
                 "], want classes=N with N above every label%s",
                 t->labels, number, t->classes - 1, t->care.lenient ? "" : MR_ON_BAD_ADVICE);
}

static mr_err_t check_labels(const npy_t *t, mr_diag_t *diag) {
  const mr_npy_t *head = &t->label_head, *now = &t->label;
  if (now->dtype != head->dtype || now->count != head->count)
    return mr_fail(diag, MR_ERR_DATA, "%s: has changed since the graph was planned", t->labels);
  for (int64_t i = 0; i < (int64_t)now->count && !t->care.lenient; i++)
    MR_TRY(check_label(t, i, diag));
  return MR_OK;
}

static mr_store_conf_t store_conf(const npy_t *t) {
  return (mr_store_conf_t){.path = &t->images,
                           .n_files = 1,
                           .head = (int64_t)t->head,
                           .record = t->record,
                           .per_file = t->image_head.dim[0],
                           .n = mr__split_size(&t->split),
                           .memory = t->memory,
                           .backend = (mr_backend_t)t->backend,
                           .in_turn = !t->ahead,
                           .locate = locate,
                           .lenient = t->care.lenient,
                           .ctx = t};
}

static mr_err_t open_pair(npy_t *t, mr_diag_t *diag) {
  mr_store_conf_t conf = store_conf(t);
  MR_TRY(mr_npy_load(t->labels, &t->label, diag));
  MR_TRY(check_labels(t, diag));
  MR_TRY(mr_store_open(&t->store, &conf, diag));
  return t->names_file ? mr__class_names_read(&t->names, NULL, t->names_file, diag) : MR_OK;
}

static mr_err_t npy_open(mr_stage_t *s) {
  mr_diag_t why = {0};
  mr_err_t e = open_pair(s->state, &why);
  return e < 0 ? mr_stage_fail(s, e, "%s", why.text) : MR_OK;
}

static mr_err_t npy_explain(mr_stage_t *s, char *text, size_t n) {
  mr_store_conf_t conf = store_conf(s->state);
  mr_diag_t why = {0};
  mr_err_t e = mr_store_explain(&conf, text, n, &why);
  return e < 0 ? mr_stage_fail(s, e, "%s", why.text) : MR_OK;
}

static void npy_close(mr_stage_t *s) {
  npy_t *t = s->state;
  mr_store_close(t->store);
  mr_npy_free(&t->label);
  t->store = NULL;
}

static void npy_where(mr_stage_t *s, int64_t index, mr_where_t *out) {
  const npy_t *t = s->state;
  int64_t number = locate(t, index);
  snprintf(out->file, MR_WHERE_MAX, "%s", t->images);
  out->offset = (int64_t)t->head + number * (int64_t)t->record;
  out->key = (uint64_t)(number + t->id_base);
}

static mr_err_t npy_fetch(mr_stage_t *s, int worker, const int64_t *index, int n, mr_rec_t *out) {
  npy_t *t = s->state;
  int64_t number[MR_BURST];
  uint8_t *record[MR_BURST];
  mr_diag_t why = {0};
  mr_err_t e = mr_store_fetch(t->store, worker, index, n, number, record, &why);
  if (e < 0) return mr_stage_fail(s, e, "%s", why.text);
  for (int i = 0; i < n && t->care.lenient && e >= 0; i++) e = check_label(t, number[i], &why);
  if (e < 0) return mr_stage_fail(s, e, "%s", why.text);
  for (int i = 0; i < n; i++) {
    out[i].field[0].data = record[i];
    *(int32_t *)out[i].field[1].data = label_at(t, number[i]);
    out[i].key = (uint64_t)(number[i] + t->id_base);
  }
  return MR_OK;
}

static bool npy_ahead(mr_stage_t *s, int worker, const int64_t *index, int n) {
  npy_t *t = s->state;
  return mr_store_ahead(t->store, worker, index, n);
}

static const mr_opt_t npy_opts[] = {
    {.name = "images",
     .type = MR_OPT_STR,
     .offset = offsetof(npy_t, images),
     .def = "images.npy",
     .help = "File of the records, (N, ...) of u1 or f4, C-ordered.",
     .positional = 1},
    {.name = "labels",
     .type = MR_OPT_STR,
     .offset = offsetof(npy_t, labels),
     .def = "labels.npy",
     .help = "File of the labels, (N,) of u1, i4, u4, i8 or u8."},
    {.name = "classes",
     .type = MR_OPT_INT,
     .offset = offsetof(npy_t, classes),
     .unit = "classes",
     .def = "10",
     .lo = 1,
     .hi = MR_CLASSES_MAX,
     .help = "Labels are in [0,classes)."},
    {.name = "names",
     .type = MR_OPT_STR,
     .offset = offsetof(npy_t, names_file),
     .help = "File of the classes' names, one a line."},
    {.name = "layout",
     .type = MR_OPT_ENUM,
     .offset = offsetof(npy_t, layout),
     .def = "auto",
     .choices = "auto|hwc|chw|none",
     .help =
         "What the dimensions of a record mean; auto: one, three or four channels, last or first."},
    {.name = "id-base",
     .type = MR_OPT_INT,
     .offset = offsetof(npy_t, id_base),
     .def = "0",
     .hi = 1e15,
     .help = "Id of the first record; give pairs that meet in one graph ids of their own."},
    MR_SPLIT_OPTS(npy_t, split, "all", "0"),
    MR_READ_OPTS(npy_t),
    MR_CARE_OPTS(npy_t, care),
    {0}};

static const mr_source_def_t npy_source = {
    .fetch = npy_fetch,
    .ahead = npy_ahead,
    .where = npy_where,
    .care = offsetof(npy_t, care),
    .explain = npy_explain,
};

const mr_stage_def_t mr_stage_npy = {
    .name = "npy",
    .help = "Reads records and labels from a pair of .npy files.",
    .out = {{"out", MR_FLOW_RECORDS, false}},
    .opts = npy_opts,
    .state_sz = sizeof(npy_t),
    .plan = npy_plan,
    .open = npy_open,
    .close = npy_close,
    .source = &npy_source,
};
