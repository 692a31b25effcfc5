/* Picture files of a folder, one folder for each class, with the order and the class numbers of
   torchvision's ImageFolder; or the files that a list names.  Files are given as they are, encoded:
   `decode` makes pictures of them.

   plan lists the files, since their number is part of the spec; open only starts to read.  Files
   here are read by loaders/local/files.h, those at a URL by loaders/formats/folder_remote.h. */
#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <xxhash.h>

#include "base/text.h"
#include "base/xio.h"
#include "loaders/formats/folder_remote.h"
#include "loaders/local/files.h"
#include "loaders/local/split.h"
#include "pipeline/care.h"
#include "pipeline/stage_source.h"

enum { LIST_BYTES_MAX = 1 << 30 };

typedef struct folder {
  const char *path, *list_file, *field_name, *index;
  int64_t max_bytes, max_files, id_base, threads;
  bool allow_empty, relist;
  mr_split_t split;
  mr_care_t care;
  mr_folder_list_t list; /* plan makes it */
  mr_dataset_t dataset;
  mr_classes_t named;
  mr_files_t *files;
  mr_remote_conf_t url;
  mr_folder_remote_t *remote; /* from plan to forget; NULL: a folder here */
  char *own[2];               /* heap: path and list made of URLs; NULL: as given */
  mr_remote_counts_t counts;  /* set by close, for the report */
  atomic_bool foreseen;       /* the future is announced by foresee, not by ahead */
} folder_t;

/* ---- plan ---- */

static mr_err_t decode_local(const char **path, char **own, mr_diag_t *diag) {
  if (!*path || strncasecmp(*path, "file://", 7)) return MR_OK;
  *path = *own = mr_remote_shown(*path);
  return *own ? MR_OK : mr_no_memory(diag, "a path");
}

/* Finds out where the folder is.  Without path=, a list at a URL lies in its folder. */
static mr_err_t folder_where_is(mr_stage_t *s, bool *remote, mr_diag_t *diag) {
  folder_t *t = s->state;
  const char *list = t->list_file;
  bool given = mr_setting_given(s, offsetof(folder_t, path)), at_url = list && mr_remote_is(list);
  MR_TRY(decode_local(&t->path, &t->own[0], diag));
  MR_TRY(decode_local(&t->list_file, &t->own[1], diag));
  *remote = mr_remote_is(t->path) || (at_url && !given);
  if (at_url && given && !*remote)
    return mr_fail(diag, MR_ERR_CONFIG,
                   "setting list: is a URL, and path=%s is not: want both here, or both at URLs",
                   t->path);
  if (!at_url || given) return MR_OK;
  size_t n = strncasecmp(list, "s3", 2) ? strcspn(list, "?#") : strlen(list);
  while (n && list[n - 1] != '/') n--;
  t->path = t->own[0] = strndup(list, n);
  return t->path ? MR_OK : mr_no_memory(diag, "a path");
}

static mr_err_t folder_list_remote(folder_t *t, mr_diag_t *diag) {
  mr_folder_remote_conf_t conf = {.folder = t->path,
                                  .list = t->list_file,
                                  .index = t->index,
                                  .relist = t->relist,
                                  .allow_empty = t->allow_empty,
                                  .lenient = t->care.lenient,
                                  .max_files = t->max_files,
                                  .max_bytes = t->max_bytes,
                                  .remote = &t->url};
  return mr_folder_remote_open(&t->remote, &conf, &t->list, diag);
}

static mr_err_t folder_list(mr_stage_t *s, mr_diag_t *diag) {
  folder_t *t = s->state;
  bool remote;
  MR_TRY(folder_where_is(s, &remote, diag));
  if (remote) return folder_list_remote(t, diag);
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
  mr_folder_remote_close(t->remote);
  mr_folder_list_free(&t->list);
  free(t->own[0]), free(t->own[1]);
  t->remote = NULL, t->own[0] = t->own[1] = NULL;
}

static mr_err_t folder_plan(mr_stage_t *s) {
  folder_t *t = s->state;
  mr_diag_t why = {0};
  if (!mr_field_name_ok(t->field_name) || !strcmp(t->field_name, "label"))
    return mr_stage_fail(s, MR_ERR_CONFIG,
                         "setting field = %s: want a name of at most %d letters, digits, \"_\", "
                         "\"-\" and \".\", a letter first, other than label",
                         t->field_name, MR_FIELD_NAME - 1);
  mr_err_t e = folder_list(s, &why);
  if (e < 0) return mr_stage_relay(s, e, &why);
  MR_TRY(mr__split_plan_files(s, &t->split, t->list.n));
  t->dataset = (mr_dataset_t){"folder", t->list.n_classes, t->list.name};
  mr_field_t image = {.dtype = MR_U8, .ndim = 1, .dim = {t->max_bytes}, .ragged = true};
  snprintf(image.name, sizeof image.name, "%s", t->field_name);
  s->out_spec[0] = (mr_spec_t){.flow = MR_FLOW_RECORDS,
                               .n_fields = 2,
                               .field = {image, mr_field_of_label(t->list.n_classes)},
                               .n_records = mr__split_size(&t->split),
                               .n_epochs = 1,
                               .dataset = &t->dataset};
  t->named = (mr_classes_t){t->list.n_classes, t->list.name};
  if (!t->list.numbered) s->out_spec[0].field[MR_LABEL].classes = &t->named;
  s->writes = 1 << MR_LABEL;
  return MR_OK;
}

/* ---- reading ---- */

static const char *folder_path(const void *ctx, int64_t number) {
  return mr_folder_path(&((const folder_t *)ctx)->list, number);
}

/* Whether this process has reported it before: several stages of a graph, and several graphs of a
   command, may read one folder. */
static bool is_reported(const char *where, const mr_folder_list_t *l) {
  static _Atomic uint64_t reported[16]; /* hashes from the first on; 0: none yet */
  uint64_t h = XXH3_64bits_withSeed(where, strlen(where), (uint64_t)l->n_outside);
  h = XXH3_64bits_withSeed(l->outside, strlen(l->outside), h) | 1;
  for (int i = 0; i < 16; i++) {
    uint64_t was = 0; /* relaxed: the hash guards no other memory */
    if (atomic_compare_exchange_strong_explicit(&reported[i], &was, h, memory_order_relaxed,
                                                memory_order_relaxed))
      return false;
    if (was == h) return true;
  }
  return false;
}

static void tell_outside(const mr_stage_t *s, const mr_folder_list_t *l) {
  const folder_t *t = s->state;
  char *shown = t->remote ? mr_remote_shown(t->path) : NULL;
  const char *where = shown ? shown : t->remote ? "" : t->path;
  bool say = l->n_outside && !is_reported(where, l);
  if (say && l->n_outside == 1)
    mr_notice("%s: %s: a picture is in the folder of no class, and is not read: %s", s->name, where,
              l->outside);
  else if (say)
    mr_notice("%s: %s: %" PRId64 " pictures are in the folder of no class, and are not read: %s ..",
              s->name, where, l->n_outside, l->outside);
  free(shown);
}

static mr_err_t folder_open(mr_stage_t *s) {
  folder_t *t = s->state;
  mr_diag_t why = {0};
  mr_files_conf_t conf = {t->path, folder_path, t, t->max_bytes, (int)t->threads};
  mr_err_t e = t->remote ? mr_remote_start(mr_folder_remote_of(t->remote), &why)
                         : mr_files_open(&t->files, &conf, &why);
  if (e >= 0) tell_outside(s, &t->list);
  return mr_stage_relay(s, e, &why);
}

static void folder_close(mr_stage_t *s) {
  folder_t *t = s->state;
  if (t->remote) mr_remote_count(mr_folder_remote_of(t->remote), &t->counts);
  mr_files_close(t->files);
  t->files = NULL;
}

static mr_err_t folder_explain(mr_stage_t *s, char *text, size_t n) {
  const folder_t *t = s->state;
  char bytes[24];
  if (t->remote)
    mr_snprintf(text, n, "%" PRId64 " files of %d classes, %s, each requested whole (index=%s)",
                t->list.n, t->list.n_classes,
                mr_bytes_text((size_t)mr_folder_remote_bytes(t->remote), bytes), t->index);
  else
    mr_snprintf(text, n,
                "%" PRId64 " files of %d classes, each read whole when it is due, by pread%s",
                t->list.n, t->list.n_classes,
                t->threads ? "; those of the next burst by threads of their own" : "");
  return MR_OK;
}

static void folder_where(mr_stage_t *s, int64_t index, mr_where_t *out) {
  const folder_t *t = s->state;
  int64_t number = mr__split_at(&t->split, index);
  char *shown = t->remote ? mr_remote_shown(t->path) : NULL;
  const char *folder = shown ? shown : t->remote ? "" : t->path;
  size_t len = strlen(folder);
  while (t->remote && len && folder[len - 1] == '/') len--;
  snprintf(out->file, MR_WHERE_MAX, "%.*s/%s", (int)len, folder, folder_path(t, number));
  out->offset = t->remote ? -1 : 0; /* no file here: the name identifies the record */
  free(shown);
  out->key = (uint64_t)(number + t->id_base);
}

static int64_t folder_index_of(const mr_stage_t *s, uint64_t key) {
  const folder_t *t = s->state;
  return mr__split_from(&t->split, (int64_t)(key - (uint64_t)t->id_base));
}

static mr_err_t folder_fetch(mr_stage_t *s, int worker, const int64_t *index, int n,
                             mr_rec_t *out) {
  folder_t *t = s->state;
  int64_t number[MR_BURST] = {0};
  uint8_t *data[MR_BURST];
  size_t size[MR_BURST];
  mr_diag_t why, *diag = mr_stage_why(s, &why);
  for (int i = 0; i < n; i++) number[i] = mr__split_at(&t->split, index[i]);
  mr_err_t e = t->remote ? mr_folder_remote_fetch(t->remote, worker, number, n, data, size, diag)
                         : mr_files_fetch(t->files, worker, number, n, data, size, diag);
  if (e < 0) return mr_stage_relay(s, e, &why);
  for (int i = 0; i < n; i++) {
    out[i].field[MR_IMAGE] = (mr_value_t){.data = data[i], .rows = (int64_t)size[i]};
    *(int32_t *)out[i].field[MR_LABEL].data = t->list.file[number[i]].label;
    out[i].key = (uint64_t)(number[i] + t->id_base);
  }
  return MR_OK;
}

static int64_t folder_tell(folder_t *t, const int64_t *index, int n) {
  int64_t number[MR_BURST] = {0};
  for (int i = 0; i < n; i++) number[i] = mr__split_at(&t->split, index[i]);
  return mr_folder_remote_tell(t->remote, number, n);
}

static int64_t folder_foresee(mr_stage_t *s, const int64_t *index, int n) {
  folder_t *t = s->state;
  if (!t->remote) return -1;
  if (n) atomic_store_explicit(&t->foreseen, true, memory_order_relaxed); /* no bytes go with it */
  return folder_tell(t, index, n);
}

static bool folder_asked(mr_stage_t *s, mr_asked_t *out) {
  const folder_t *t = s->state;
  return t->remote && mr_remote_asked(mr_folder_remote_of(t->remote), out);
}

static uint64_t folder_objects(mr_stage_t *s) {
  const folder_t *t = s->state;
  return t->remote ? mr_remote_states(mr_folder_remote_of(t->remote)) : 0;
}

static void folder_report(mr_stage_t *s, char *text, size_t n) {
  mr_remote_report(&((const folder_t *)s->state)->counts, text, n);
}

static mr_err_t folder_measure(mr_stage_t *s, double seconds, mr_served_t *out) {
  const folder_t *t = s->state;
  mr_diag_t why = {0};
  if (!t->remote) return MR_END;
  out->records = t->list.n, out->bytes = mr_folder_remote_bytes(t->remote);
  mr_err_t e = mr_remote_measure(mr_folder_remote_of(t->remote), out->bytes / out->records, seconds,
                                 out, &why);
  return mr_stage_relay(s, e, &why);
}

static bool folder_ahead(mr_stage_t *s, int worker, const int64_t *index, int n) {
  folder_t *t = s->state;
  int64_t number[MR_BURST] = {0};
  if (t->remote) {
    if (n && !atomic_load_explicit(&t->foreseen, memory_order_relaxed)) folder_tell(t, index, n);
    return true;
  }
  for (int i = 0; i < n; i++) number[i] = mr__split_at(&t->split, index[i]);
  return mr_files_ahead(t->files, worker, number, n);
}

/* ---- the stage ---- */

static const mr_opt_t folder_opts[] = {
    {.name = "path",
     .hint = "root datadir dataroot datapath dir directory folder location imagedir",
     .type = MR_OPT_STR,
     .offset = offsetof(folder_t, path),
     .def = "data/train",
     .help = "Folder that holds a folder of pictures for each class; or a URL, s3://BUCKET/PREFIX, "
             "or http:// with list=.",
     .positional = 1},
    {.name = "list",
     .type = MR_OPT_STR,
     .offset = offsetof(folder_t, list_file),
     .unit = "FILE",
     .help = "List of the files to use, in its order: CSV with a header, or JSON lines, with "
             "file_name (or path, below the folder) and label (a number or a name).  A URL: paths "
             "are relative to the list if path= is not given."},
    {.name = "index",
     .type = MR_OPT_STR,
     .offset = offsetof(folder_t, index),
     .def = "auto",
     .help =
         "URLs: where the listing is kept, which is made at first use: auto (in cache=, else in "
         "the user's cache), or a folder."},
    {.name = "relist",
     .type = MR_OPT_BOOL,
     .offset = offsetof(folder_t, relist),
     .def = "false",
     .help =
         "URLs: lists the files anew, and replaces the listing that is kept, which every other run "
         "uses, however old it is."},
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
    MR_REMOTE_OPTS(folder_t, url),
    MR_SPLIT_OPTS(folder_t, split, "all", "0"),
    MR_CARE_OPTS(folder_t, care),
    {0}};

static const mr_source_def_t folder_source = {
    .fetch = folder_fetch,
    .ahead = folder_ahead,
    .foresee = folder_foresee,
    .where = folder_where,
    .index_of = folder_index_of,
    .care = offsetof(folder_t, care),
    .asked = folder_asked,
    .measure = folder_measure,
    .objects = folder_objects,
    .explain = folder_explain,
};

static const mr_hint_t folder_words[] = {
    {"imagefolder datasetfolder imagefolderdataset imagenet filereader", "folder DIR ! decode",
     "stage \"folder\" reads pictures, one folder a class"},
    {0}};

const mr_stage_def_t mr_stage_folder = {
    .name = "folder",
    .hint = folder_words,
    .help =
        "Reads the picture files of a folder, one folder a class, as torchvision's ImageFolder.",
    .out = {{"out", MR_FLOW_RECORDS, false}},
    .opts = folder_opts,
    .state_sz = sizeof(folder_t),
    .plan = folder_plan,
    .forget = folder_forget,
    .open = folder_open,
    .close = folder_close,
    .report = folder_report,
    .source = &folder_source,
};
