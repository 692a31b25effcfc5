/* Records of .npy files: pictures (N, ...) with a label for each, and fields of any other names.
   Each field but the label is a column (npy_column.h); labels are loaded whole at open. */
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "loaders/local/class_names.h"
#include "loaders/local/npy_column.h"
#include "pipeline/care.h"

enum { LIST_MAX = 4096 }; /* bytes of fields= and of ragged=, with a final zero */

typedef struct npy {
  const char *images, *labels, *names_file, *fields, *ragged;
  int backend, layout;
  bool ahead;
  int64_t memory, classes, id_base;
  mr_split_t split;
  char list[2][LIST_MAX]; /* fields and ragged, cut into words */
  mr_npy_column_t column[MR_FIELDS_MAX];
  int n_columns;   /* even ones first */
  bool pictures;   /* column 0 is that of images= */
  int label_field; /* after image, or the last; -1: no labels */
  mr_npy_file_t label_file;
  mr_npy_t label_head; /* type and shape; no data */
  mr_npy_t label;
  mr_class_names_t names; /* from plan to forget */
  mr_dataset_t dataset;
  mr_classes_t named; /* those of names=; n 0: none */
  mr_care_t care;
  mr_remote_conf_t url;
  mr_remote_t *remote;       /* of files at URLs, from plan to forget; NULL: none */
  mr_remote_counts_t counts; /* set by close, for the report */
  atomic_bool foreseen;      /* the future is announced by foresee, not by ahead */
} npy_t;

/* ---- which files ---- */

static mr_err_t cut_list(mr_stage_t *s, const char *setting, const char *given, bool ragged) {
  npy_t *t = s->state;
  char *list = t->list[ragged];
  if (!given) return MR_OK;
  if (snprintf(list, LIST_MAX, "%s", given) >= LIST_MAX)
    return mr_stage_fail(s, MR_ERR_CONFIG, "setting %s: %zu bytes, want at most %d", setting,
                         strlen(given), LIST_MAX - 1);
  return mr_npy_columns_cut(s, setting, list, ragged, t->column, &t->n_columns);
}

/* Checks that no two fields have one name. */
static mr_err_t npy_check_names(mr_stage_t *s) {
  const npy_t *t = s->state;
  for (int i = 0; i < t->n_columns; i++) {
    const char *name = t->column[i].name;
    bool twice = t->label_field >= 0 && !strcmp(name, "label");
    for (int k = 0; k < i; k++) twice |= !strcmp(name, t->column[k].name);
    if (twice)
      return mr_stage_fail(s, MR_ERR_CONFIG,
                           "two fields would be named %s: images= makes the field image, labels= "
                           "the field label, fields= and ragged= those they name",
                           name);
  }
  return MR_OK;
}

/* Chooses the columns.  Pictures and labels are the default; with fields= or ragged= they are part
   of the records only if images= and labels= are given. */
static mr_err_t plan_columns(mr_stage_t *s) {
  npy_t *t = s->state;
  bool named = t->fields || t->ragged;
  bool images = !named || mr_setting_given(s, offsetof(npy_t, images));
  bool labels = !named || mr_setting_given(s, offsetof(npy_t, labels));
  t->n_columns = 0;
  t->pictures = images;
  if (images)
    t->column[t->n_columns++] = (mr_npy_column_t){.name = "image", .file.path = t->images};
  MR_TRY(cut_list(s, "fields", t->fields, false));
  MR_TRY(cut_list(s, "ragged", t->ragged, true));
  t->label_field = !labels ? -1 : images ? 1 : t->n_columns;
  if (t->n_columns + labels > MR_FIELDS_MAX)
    return mr_stage_fail(s, MR_ERR_CONFIG, "%d fields, want at most %d in a record",
                         t->n_columns + labels, MR_FIELDS_MAX);
  for (int i = 0; i < t->n_columns; i++) t->column[i].split = &t->split;
  if (labels || (!t->names_file && !mr_setting_given(s, offsetof(npy_t, classes))))
    return npy_check_names(s);
  return mr_stage_fail(
      s, MR_ERR_CONFIG,
      "setting %s: applies to labels, and these records have none: want labels=FILE beside fields=",
      t->names_file ? "names" : "classes");
}

/* The field number of column i. */
static int npy_field_of(const npy_t *t, int i) {
  return i + (t->label_field >= 0 && i >= t->label_field);
}

/* ---- headers ---- */

static mr_err_t peek_column(npy_t *t, int i, mr_diag_t *diag) {
  mr_npy_column_t *c = &t->column[i];
  char text[128];
  bool pictures = i == 0 && t->pictures;
  MR_TRY(mr_npy_column_peek(c, diag));
  bool bytes = c->head.dtype == MR_U8 || c->head.dtype == MR_F32;
  if (pictures && (!bytes || c->head.ndim < 2))
    return mr_fail(
        diag, MR_ERR_DATA,
        "%s: holds %s, want an array (N, ...) of u1 or f4 with records in it (u8 and f32 "
        "here; a.astype(\"f4\") in NumPy makes f32 of others; fields=NAME:FILE takes any)",
        c->file.path, mr_npy_text(&c->head, text, sizeof text));
  if (c->n == t->column[0].n) return MR_OK;
  return mr_fail(diag, MR_ERR_DATA,
                 "%s: is of %" PRId64 " records, want %" PRId64 ", one for each record of %s",
                 c->offsets.path ? c->offsets.path : c->file.path, c->n, t->column[0].n,
                 t->column[0].file.path);
}

static bool is_label_type(mr_dtype_t t) {
  return t == MR_U8 || t == MR_I32 || t == MR_U32 || t == MR_I64 || t == MR_U64;
}

static mr_err_t peek_labels(npy_t *t, mr_diag_t *diag) {
  size_t offset;
  mr_npy_t *a = &t->label_head;
  char text[128];
  MR_TRY(mr_npy_file_peek(&t->label_file, a, &offset, diag));
  if (!is_label_type(a->dtype) || a->ndim != 1 || a->dim[0] != t->column[0].n)
    return mr_fail(diag, MR_ERR_DATA,
                   "%s: holds %s, want whole numbers [%" PRId64 "], one for each record of %s",
                   t->label_file.path, mr_npy_text(a, text, sizeof text), t->column[0].n,
                   t->column[0].file.path);
  return MR_OK;
}

/* All files are found before bytes of one are read: the cache and peers share what is known then.
 */
static mr_err_t find_npy_files(npy_t *t, mr_diag_t *diag) {
  for (int i = 0; i < t->n_columns; i++)
    MR_TRY(mr_npy_column_find(&t->column[i], &t->remote, &t->url, diag));
  t->label_file = (mr_npy_file_t){.path = t->labels};
  return t->label_field >= 0 ? mr_npy_file_find(&t->label_file, &t->remote, &t->url, diag) : MR_OK;
}

static mr_err_t peek_columns(npy_t *t, mr_diag_t *diag) {
  MR_TRY(find_npy_files(t, diag));
  for (int i = 0; i < t->n_columns; i++) MR_TRY(peek_column(t, i, diag));
  return t->label_field >= 0 ? peek_labels(t, diag) : MR_OK;
}

/* Without names=, classes are called by their numbers. */
static mr_err_t name_npy_classes(mr_stage_t *s) {
  npy_t *t = s->state;
  mr_diag_t why = {0};
  if (t->names_file && t->label_field >= 0) {
    int want = mr_setting_given(s, offsetof(npy_t, classes)) ? (int)t->classes : 0;
    mr_err_t e = mr__class_names_read(&t->names, NULL, t->names_file, want, &why);
    if (e < 0) return mr_stage_relay(s, e, &why);
    t->classes = t->names.n;
    t->named = (mr_classes_t){t->names.n, t->names.name};
    return MR_OK;
  }
  mr_err_t e = mr__class_names_numbers(&t->names, (int)t->classes, &why);
  return mr_stage_relay(s, e, &why);
}

static void npy_plan_fields(mr_stage_t *s) {
  npy_t *t = s->state;
  mr_spec_t *out = &s->out_spec[0];
  int classes = t->label_field >= 0 ? (int)t->classes : 0;
  t->dataset = (mr_dataset_t){"npy", classes, t->names.name};
  *out = (mr_spec_t){.flow = MR_FLOW_RECORDS,
                     .n_fields = t->n_columns + (t->label_field >= 0),
                     .n_records = mr__split_size(&t->split),
                     .n_epochs = 1,
                     .dataset = &t->dataset};
  for (int i = 0; i < t->n_columns; i++)
    out->field[npy_field_of(t, i)] = mr_npy_column_field(&t->column[i], t->layout);
  if (t->label_field < 0) return;
  out->field[t->label_field] = mr_field_of_label(classes);
  if (t->named.n) out->field[t->label_field].classes = &t->named;
  s->writes = (uint16_t)(1u << t->label_field);
}

static mr_err_t npy_plan(mr_stage_t *s) {
  npy_t *t = s->state;
  mr_diag_t why = {0};
  MR_TRY(plan_columns(s));
  mr_err_t e = peek_columns(t, &why);
  if (e < 0) return mr_stage_relay(s, e, &why);
  MR_TRY(mr__split_plan_files(s, &t->split, t->column[0].n));
  MR_TRY(name_npy_classes(s));
  npy_plan_fields(s);
  return MR_OK;
}

/* ---- labels ---- */

/* The label of record i of the files; -1 if it is not in [0,classes). */
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
                 t->label_file.path, number, t->classes - 1,
                 t->care.lenient ? "" : MR_ON_BAD_ADVICE);
}

static mr_err_t load_labels(npy_t *t, mr_diag_t *diag) {
  const mr_npy_t *head = &t->label_head, *now = &t->label;
  MR_TRY(mr_npy_file_load(&t->label_file, &t->label, diag));
  if (now->dtype != head->dtype || now->count != head->count)
    return mr_fail(diag, MR_ERR_DATA, "%s: has changed since the graph was planned",
                   t->label_file.path);
  for (int64_t i = 0; i < (int64_t)now->count && !t->care.lenient; i++)
    MR_TRY(check_label(t, i, diag));
  return MR_OK;
}

/* ---- reading ---- */

static mr_npy_reading_t reading_of(const npy_t *t) {
  return (mr_npy_reading_t){.memory = t->memory,
                            .backend = (mr_read_way_t)t->backend,
                            .in_turn = !t->ahead,
                            .lenient = t->care.lenient};
}

static mr_err_t npy_open_files(npy_t *t, mr_diag_t *diag) {
  mr_npy_reading_t how = reading_of(t);
  if (t->label_field >= 0) MR_TRY(load_labels(t, diag));
  for (int i = 0; i < t->n_columns; i++) MR_TRY(mr_npy_column_open(&t->column[i], &how, diag));
  bool due = false;
  for (int i = 0; i < t->n_columns; i++) due |= mr_npy_column_due(&t->column[i]);
  return due ? mr_remote_start(t->remote, diag) : MR_OK;
}

static void npy_forget(mr_stage_t *s) {
  npy_t *t = s->state;
  for (int i = 0; i < t->n_columns; i++) mr_npy_column_forget(&t->column[i]);
  mr_npy_file_forget(&t->label_file);
  mr__class_names_free(&t->names);
  mr_remote_close(t->remote);
  t->remote = NULL;
}

static mr_err_t npy_open(mr_stage_t *s) {
  mr_diag_t why = {0};
  mr_err_t e = npy_open_files(s->state, &why);
  return mr_stage_relay(s, e, &why);
}

/* Writes "read once ..", or "x: read once ..; y: .." for several columns. */
static mr_err_t npy_explain(mr_stage_t *s, char *text, size_t n) {
  const npy_t *t = s->state;
  mr_npy_reading_t how = reading_of(t);
  mr_diag_t why = {0};
  size_t at = 0;
  for (int i = 0; i < t->n_columns && at + 1 < n; i++) {
    const mr_npy_column_t *c = &t->column[i];
    if (t->n_columns > 1)
      at += (size_t)snprintf(text + at, n - at, "%s%s: ", i ? "; " : "", c->name);
    if (at + 1 >= n) break;
    mr_err_t e = mr_npy_column_explain(c, &how, text + at, n - at, &why);
    if (e < 0) return mr_stage_relay(s, e, &why);
    at += strlen(text + at);
  }
  return MR_OK;
}

static void npy_close(mr_stage_t *s) {
  npy_t *t = s->state;
  if (t->remote) mr_remote_count(t->remote, &t->counts);
  for (int i = 0; i < t->n_columns; i++) mr_npy_column_close(&t->column[i]);
  mr_npy_free(&t->label);
}

static int64_t npy_locate(const npy_t *t, int64_t index) { return mr__split_at(&t->split, index); }

static void npy_where(mr_stage_t *s, int64_t index, mr_where_t *out) {
  const npy_t *t = s->state;
  int64_t number = npy_locate(t, index);
  mr_npy_column_where(&t->column[0], number, out);
  out->key = (uint64_t)(number + t->id_base);
}

static int64_t npy_index_of(const mr_stage_t *s, uint64_t key) {
  const npy_t *t = s->state;
  return mr__split_from(&t->split, (int64_t)(key - (uint64_t)t->id_base));
}

static mr_err_t fetch_columns(npy_t *t, int worker, const int64_t *index, int n, int64_t *number,
                              mr_rec_t *out, mr_diag_t *diag) {
  for (int i = 0; i < n && t->column[0].offsets.path; i++) number[i] = npy_locate(t, index[i]);
  for (int i = 0; i < t->n_columns; i++)
    MR_TRY(mr_npy_column_fetch(&t->column[i], worker, index, n, npy_field_of(t, i), number, out,
                               diag));
  for (int i = 0; i < n && t->care.lenient && t->label_field >= 0; i++)
    MR_TRY(check_label(t, number[i], diag));
  return MR_OK;
}

static mr_err_t npy_fetch(mr_stage_t *s, int worker, const int64_t *index, int n, mr_rec_t *out) {
  npy_t *t = s->state;
  int64_t number[MR_BURST];
  mr_diag_t why;
  mr_err_t e = fetch_columns(t, worker, index, n, number, out, mr_stage_why(s, &why));
  if (e < 0) return mr_stage_relay(s, e, &why);
  for (int i = 0; i < n; i++) {
    out[i].key = (uint64_t)(number[i] + t->id_base);
    if (t->label_field >= 0) *(int32_t *)out[i].field[t->label_field].data = label_at(t, number[i]);
  }
  return MR_OK;
}

/* ---- files at URLs ---- */

/* Announces records index[0,n) of the columns that are read as they are due; -1 without any. */
static int64_t tell_columns(npy_t *t, const int64_t *index, int n) {
  mr_remote_want_t want[MR_BURST];
  int64_t more = -1;
  int due = 0;
  for (int c = 0; c < t->n_columns; c++) {
    if (!mr_npy_column_due(&t->column[c])) continue;
    for (int i = 0; i < n; i++)
      mr_npy_column_part(&t->column[c], npy_locate(t, index[i]), &want[i]);
    more = mr_remote_tell(t->remote, want, n);
    due++;
  }
  return due ? more / due : -1;
}

static int64_t npy_foresee(mr_stage_t *s, const int64_t *index, int n) {
  npy_t *t = s->state;
  if (n) atomic_store_explicit(&t->foreseen, true, memory_order_relaxed); /* no bytes go with it */
  return t->remote ? tell_columns(t, index, n) : -1;
}

static bool npy_asked(mr_stage_t *s, mr_asked_t *out) {
  return mr_remote_asked(((npy_t *)s->state)->remote, out);
}

static uint64_t npy_objects(mr_stage_t *s) { return mr_remote_states(((npy_t *)s->state)->remote); }

static void npy_report(mr_stage_t *s, char *text, size_t n) {
  mr_remote_report(&((npy_t *)s->state)->counts, text, n);
}

static mr_err_t npy_measure(mr_stage_t *s, double seconds, mr_served_t *out) {
  const npy_t *t = s->state;
  mr_diag_t why = {0};
  mr_npy_reading_t how = reading_of(t);
  int64_t due = 0, all = 0;
  for (int i = 0; i < t->n_columns; i++) {
    const mr_npy_column_t *c = &t->column[i];
    if (!c->file.object) continue;
    all = mr_remote_sum(all, c->file.object->size);
    if (!mr_npy_column_keeps(c, &how)) due = mr_remote_sum(due, c->file.object->size);
  }
  out->records = t->column[0].n, out->once = !due, out->bytes = due ? due : all;
  int64_t size = out->bytes / out->records;
  if (out->once) size = all < MR_READER_WINDOW ? all : MR_READER_WINDOW;
  mr_err_t e = mr_remote_measure(t->remote, size, seconds, out, &why);
  return mr_stage_relay(s, e, &why);
}

static bool npy_ahead(mr_stage_t *s, int worker, const int64_t *index, int n) {
  npy_t *t = s->state;
  bool begun = false;
  if (t->ahead && t->remote && !atomic_load_explicit(&t->foreseen, memory_order_relaxed))
    begun = tell_columns(t, index, n) >= 0;
  for (int i = 0; i < t->n_columns; i++)
    if (t->column[i].store) begun |= mr_store_ahead(t->column[i].store, worker, index, n);
  return begun;
}

static const mr_opt_t npy_opts[] = {
    {.name = "images",
     .type = MR_OPT_STR,
     .offset = offsetof(npy_t, images),
     .def = "images.npy",
     .help = "File or URL of the images, (N, ...) of u1 or f4, C-ordered.",
     .positional = 1},
    {.name = "labels",
     .type = MR_OPT_STR,
     .offset = offsetof(npy_t, labels),
     .def = "labels.npy",
     .help = "File or URL of the labels, (N,) of u1, i4, u4, i8 or u8."},
    {.name = "fields",
     .type = MR_OPT_STR,
     .offset = offsetof(npy_t, fields),
     .unit = "NAME:FILE,..",
     .help = "Other fields, each the array (N, ...) of a file, of any type; images and labels are "
             "then optional."},
    {.name = "ragged",
     .type = MR_OPT_STR,
     .offset = offsetof(npy_t, ragged),
     .unit = "NAME:VALUES:OFFSETS,..",
     .help = "Fields with a varying number of rows per record: a file of all rows, and one of the "
             "row at which each record begins, (N+1,) of i8."},
    {.name = "classes",
     .hint = "numclasses nclasses",
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
     .help = "File of the class names, one per line; without classes= there are as many as names."},
    {.name = "layout",
     .type = MR_OPT_ENUM,
     .offset = offsetof(npy_t, layout),
     .def = "auto",
     .choices = MR_NPY_LAYOUTS,
     .help = "Meaning of the three dimensions of an image; auto: the side with one, three or four "
             "channels, last or first."},
    {.name = "id-base",
     .type = MR_OPT_INT,
     .offset = offsetof(npy_t, id_base),
     .def = "0",
     .hi = 1e15,
     .help = "Id of the first record; give data sets that are used in one graph different ids."},
    MR_SPLIT_OPTS(npy_t, split, "all", "0"),
    MR_READ_OPTS(npy_t),
    MR_REMOTE_OPTS(npy_t, url),
    MR_CARE_OPTS(npy_t, care),
    {0}};

static const mr_source_def_t npy_source = {
    .fetch = npy_fetch,
    .ahead = npy_ahead,
    .foresee = npy_foresee,
    .where = npy_where,
    .index_of = npy_index_of,
    .care = offsetof(npy_t, care),
    .asked = npy_asked,
    .measure = npy_measure,
    .objects = npy_objects,
    .explain = npy_explain,
};

static const mr_hint_t npy_words[] = {
    {"cache persist", NULL,
     "no stage is needed: a source keeps files up to memory=BYTES in memory"},
    {"numpy fromnumpy fromtensorslices fromtensors tensordataset arraydatasource",
     "npy images=FILE labels=FILE", "stages \"npy\" and \"npz\" do that"},
    {"filesrc uridecodebin decodebin mnist fashionmnist svhn stl10 parquet",
     "npy images=FILE labels=FILE",
     "`millrace inspect` lists the sources; other data is saved as .npy files"},
    {0}};

const mr_stage_def_t mr_stage_npy = {
    .name = "npy",
    .hint = npy_words,
    .help = "Reads records from .npy files: images and labels, or fields of any names.",
    .out = {{"out", MR_FLOW_RECORDS, false}},
    .opts = npy_opts,
    .state_sz = sizeof(npy_t),
    .plan = npy_plan,
    .open = npy_open,
    .close = npy_close,
    .forget = npy_forget,
    .report = npy_report,
    .source = &npy_source,
};
