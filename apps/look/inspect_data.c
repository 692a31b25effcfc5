/* The contents of data files for millrace inspect.  The name decides the format (.npy,
   .safetensors, CIFAR's .bin); what is printed is the shape and a summary, counts of labels for
   instance, and names from a file are made printable first. */
#include "apps/look/inspect_data.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "apps/cli/cli.h"
#include "apps/run/choose_graph.h"
#include "apps/run/recognise.h"
#include "apps/run/run_dir.h"
#include "base/npy.h"
#include "base/safetensors.h"
#include "base/shown.h"
#include "base/text.h"
#include "loaders/local/reader.h"

enum { PICTURE = 3072, PATH = 4096, RECORDS = 1024 /* read together */ };

static bool ends_with(const char *s, const char *end) {
  size_t n = strlen(s), k = strlen(end);
  return n >= k && !strcmp(s + n - k, end);
}

static void print_shape(mr_dtype_t dtype, int ndim, const int64_t *dim) {
  printf("%s[", mr_dtype_name(dtype));
  for (int i = 0; i < ndim; i++) printf("%s%" PRId64, i ? "," : "", dim[i]);
  printf("]");
}

static mr_err_t inspect_npy(const char *path, mr_diag_t *diag) {
  mr_npy_t a;
  size_t offset;
  MR_TRY(mr_npy_peek(path, &a, &offset, diag));
  printf("%s: .npy, ", path);
  print_shape(a.dtype, a.ndim, a.dim);
  printf(", %zu bytes from byte %zu on\n", a.count * mr_dtype_size(a.dtype), offset);
  return MR_OK;
}

static mr_err_t inspect_safetensors(const char *path, mr_diag_t *diag) {
  mr_safetensors_t *f;
  char name[1024];
  MR_TRY(mr_safetensors_open(path, &f, diag));
  const char *digest = mr_safetensors_meta(f, "millrace.xxh3");
  printf("%s: safetensors, %d tensors%s%s\n", path, mr_safetensors_count(f),
         digest ? ", digest good: " : "", digest ? digest : "");
  for (int i = 0; i < mr_safetensors_count(f); i++) {
    const mr_st_tensor_t *t = mr_safetensors_at(f, i);
    printf("  %-40s ", mr_printable_cell(t->name, sizeof name, name, sizeof name));
    print_shape(t->dtype, t->ndim, t->dim);
    printf("\n");
  }
  mr_safetensors_close(f);
  return MR_OK;
}

/* Counts of each byte value at offset `at` of the records. */
typedef struct labels {
  int at, n;
  const char *name;
  int64_t count[256];
} labels_t;

static void print_labels(const labels_t *l) {
  int64_t bad = 0, least = INT64_MAX, most = 0;
  for (int i = 0; i < 256; i++) {
    if (i >= l->n) {
      bad += l->count[i];
      continue;
    }
    if (l->count[i] < least) least = l->count[i];
    if (l->count[i] > most) most = l->count[i];
  }
  printf("  %s in [0,%d]: %" PRId64 " to %" PRId64 " records each", l->name, l->n - 1, least, most);
  if (bad) printf(", %" PRId64 " OUT OF RANGE", bad);
  printf("\n");
}

static mr_err_t count_labels(mr_reader_t *r, int64_t n, int record, labels_t *l, int n_labels,
                             mr_diag_t *diag) {
  uint8_t *data = malloc((size_t)RECORDS * (size_t)record);
  mr_err_t e = data ? MR_OK : mr_no_memory(diag, "%d records", RECORDS);
  for (int64_t at = 0; e >= 0 && at < n; at += RECORDS) {
    int64_t k = n - at < RECORDS ? n - at : RECORDS;
    e = mr_reader_read_big(r, 0, at * record, (size_t)(k * record), data, diag);
    for (int64_t i = 0; e >= 0 && i < k; i++)
      for (int j = 0; j < n_labels; j++) l[j].count[data[i * record + l[j].at]]++;
  }
  free(data);
  return e;
}

/* CIFAR's files have no header: the name determines the layout, and the size must fit. */
static mr_err_t inspect_cifar(const char *path, bool hundred, mr_diag_t *diag) {
  static const labels_t ten[] = {{0, 10, "labels", {0}}};
  static const labels_t two[] = {{0, 20, "coarse labels", {0}}, {1, 100, "fine labels", {0}}};
  int n_labels = hundred ? 2 : 1, record = PICTURE + n_labels;
  labels_t l[2];
  memcpy(l, hundred ? two : ten, (size_t)n_labels * sizeof *l);
  mr_reader_t *r;
  mr_reader_conf_t conf = {.path = &path, .n_files = 1, .once = true};
  MR_TRY(mr_reader_open(&r, &conf, diag));
  int64_t size = mr_reader_size(r, 0);
  mr_err_t e = size && size % record == 0
                   ? count_labels(r, size / record, record, l, n_labels, diag)
                   : mr_fail(diag, MR_ERR_DATA,
                             "%s: %" PRId64 " bytes, want a multiple of %d: records of CIFAR-%d",
                             path, size, record, hundred ? 100 : 10);
  mr_reader_close(r);
  if (e < 0) return e;
  char line[PATH + 128];
  snprintf(line, sizeof line, "%s: CIFAR-%d, %" PRId64 " records of %d bytes, u8[3,32,32]", path,
           hundred ? 100 : 10, size / record, record);
  mr_put_wrapped(stdout, line, mr_columns(STDOUT_FILENO), 2);
  for (int i = 0; i < n_labels; i++) print_labels(&l[i]);
  return MR_OK;
}

static const char *base_name(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

static bool is_ten(const char *name) {
  return (!strncmp(name, "data_batch_", 11) || !strcmp(name, "test_batch.bin")) &&
         ends_with(name, ".bin");
}

static bool is_hundred(const char *name) {
  return !strcmp(name, "train.bin") || !strcmp(name, "test.bin");
}

/* Inspects a file by its name; *known says whether the name is one that millrace knows. */
static mr_err_t inspect_by_name(const char *name, const char *path, bool *known, mr_diag_t *diag) {
  *known = true;
  if (ends_with(name, ".npy")) return inspect_npy(path, diag);
  if (ends_with(name, ".safetensors")) return inspect_safetensors(path, diag);
  if (is_ten(name) || is_hundred(name)) return inspect_cifar(path, is_hundred(name), diag);
  return *known = false, MR_OK;
}

/* The same, but for a link with an unknown name, such as checkpoints/latest, the name of its target
   counts. */
static mr_err_t inspect_file(const char *path, bool *known, mr_diag_t *diag) {
  char real[PATH_MAX];
  MR_TRY(inspect_by_name(base_name(path), path, known, diag));
  if (*known || !realpath(path, real)) return MR_OK;
  return inspect_by_name(base_name(real), path, known, diag);
}

/* Recognises what is there, and takes the words. */
static mr_err_t find_source(const char *path, const char *const *word, int n, mr_found_t *f,
                            char settings[4096], mr_diag_t *diag) {
  const char *kind = NULL;
  bool taken[MR_WORDS_MAX] = {0};
  for (int i = 0; i < n; i++)
    if (!strncmp(word[i], "source=", 7)) kind = word[i] + 7, taken[i] = true;
  MR_TRY(mr_recognise(path, kind, word, n, f, diag));
  MR_TRY(mr_source_settings(f->kind, word, n, taken, settings, 4096, diag));
  for (int i = 0; i < n; i++)
    if (!taken[i])
      return mr_fail(diag, MR_ERR_USAGE, "inspect: %.200s: %s has no such setting", word[i],
                     mr_kind_texts[f->kind].stage);
  return MR_OK;
}

/* What train would read there. */
static mr_err_t inspect_source(const char *path, const char *const *word, int n, mr_diag_t *diag) {
  mr_found_t *f = malloc(sizeof *f);
  mr_records_seen_t seen;
  char fields[1024], settings[4096];
  if (!f) return mr_no_memory(diag, "what is at a path");
  mr_err_t e = find_source(path, word, n, f, settings, diag);
  if (e >= 0) e = mr_see(f, settings, &seen, diag);
  if (e >= 0) {
    mr_spec_text(&seen.spec, fields, sizeof fields);
    char *shown = mr_shown_url(path), *data = mr_shown_url(f->data);
    printf("%s: %s, %" PRId64 " records for training: %s\n", shown ? shown : "?",
           mr_kind_texts[f->kind].called, seen.spec.n_records, fields);
    if (seen.side) printf("  pictures of %d pixels along the shorter side (median)\n", seen.side);
    if (seen.n_classes)
      printf("  %" PRId64 " classes%s%s\n", seen.n_classes, *seen.classes ? ": " : "",
             seen.classes);
    printf("  read by: %s %s%s, with data=%s\n", mr_kind_texts[f->kind].stage, f->train, settings,
           data ? data : "?");
    free(shown), free(data);
    if (*f->valid) printf("  for validation: %s\n", *f->valid_data ? f->valid_data : f->valid);
  }
  free(f);
  return e;
}

static mr_err_t inspect_folder(const char *path, mr_diag_t *diag) {
  struct dirent **entry;
  bool any = false;
  int n = scandir(path, &entry, NULL, alphasort);
  if (n < 0) return mr_fail(diag, MR_ERR_IO, "%s: cannot be read: %s", path, strerror(errno));
  mr_err_t e = MR_OK;
  for (int i = 0; i < n; i++) {
    char file[PATH + 300];
    snprintf(file, sizeof file, "%s/%s", path, entry[i]->d_name);
    free(entry[i]);
    bool known = false;
    if (e >= 0) e = inspect_file(file, &known, diag);
    any |= known;
  }
  free(entry);
  if (e < 0 || any) return e;
  mr_run_dir_t r = {0};
  mr_resume_point_t newest = {0};
  mr_diag_t unsaid = {0};
  char graph[PATH + 32];
  snprintf(graph, sizeof graph, "%s/graph.mr", path);
  if (access(graph, F_OK) == 0 && mr_run_dir_read(&r, path, &unsaid) >= 0)
    mr_run_dir_resume_point(&r, &newest, &unsaid);
  mr_run_dir_free(&r);
  char latest[PATH + 32]; /* of checkpoints that were copied without their run's graph */
  snprintf(latest, sizeof latest, "%s/checkpoints/latest", path);
  bool copied = !newest.path[0] && access(latest, F_OK) == 0;
  if (copied || newest.path[0])
    return mr_fail(diag, MR_ERR_DATA, "%s is a run; its newest checkpoint is %s", path,
                   copied ? latest : newest.path);
  return inspect_source(path, NULL, 0, diag);
}

mr_err_t mr_inspect_data(const char *path, const char *const *word, int n, mr_diag_t *diag) {
  struct stat st;
  if (strstr(path, "://") || strchr(path, '{') || strstr(path, "::"))
    return inspect_source(path, word, n, diag);
  if (strlen(path) >= PATH || stat(path, &st) < 0)
    return mr_fail(diag, MR_ERR_IO, "%.200s: cannot be read: %s", path, strerror(errno));
  bool known;
  if (n) return inspect_source(path, word, n, diag);
  if (S_ISDIR(st.st_mode)) return inspect_folder(path, diag);
  MR_TRY(inspect_file(path, &known, diag));
  return known ? MR_OK : inspect_source(path, NULL, 0, diag);
}
