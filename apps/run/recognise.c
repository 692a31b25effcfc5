/* Recognising data by names: CIFAR's files, an index.json and what it lists, files of one ending,
   folders of pictures.  A folder that holds train and val (or such) is looked at part by part. */
#include "apps/run/recognise.h"

#include <cjson/cJSON.h>
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "apps/cli/cli.h"
#include "apps/run/recognise_private.h"
#include "base/file_kind.h"
#include "base/xio.h"
#include "loaders/remote/remote_url.h"

enum { FOUND_PATH = 4096, INDEX_BYTES = 64 << 20 };

const char *const mr__part_names[MR__PARTS] = {"train training", "val valid validation dev eval",
                                               "test testing"};

/* ---- names ---- */

/* Whether a word of a list of words is name[0,n). */
static bool in_words(const char *words, const char *name, size_t n) {
  for (const char *w = words; *w; w += strspn(w, " ")) {
    size_t k = strcspn(w, " ");
    if (k == n && !strncasecmp(w, name, n)) return true;
    w += k;
  }
  return false;
}

/* Whether a name ends in one of a list of endings. */
static bool ends_in(const char *name, const char *ends) {
  size_t n = strlen(name);
  for (const char *w = ends; *w; w += strspn(w, " ")) {
    size_t k = strcspn(w, " ");
    if (n > k && !strncasecmp(name + n - k, w, k)) return true;
    w += k;
  }
  return false;
}

/* The bytes of a name before "-00003-of-00128"; 0: the name does not end so. */
static size_t shard_of_many(const char *name) {
  const char *of = strstr(name, "-of-"), *first = of;
  while (first && first > name && isdigit((unsigned char)first[-1])) first--;
  bool many = of && isdigit((unsigned char)of[4]) && !of[4 + strspn(of + 4, "0123456789")];
  return !many || first == of ? 0 : first == name ? 1 : (size_t)(first - 1 - name);
}

static mr_kind_t kind_of_end(const char *name) {
  for (int k = 0; k < MR_KINDS; k++)
    if (*mr_kind_texts[k].ends && ends_in(name, mr_kind_texts[k].ends)) return (mr_kind_t)k;
  return MR_KINDS;
}

/* A shard of many, as TensorFlow Datasets names them, may have its ending before its number. */
mr_kind_t mr__kind_of_name(const char *name) {
  char whole[FOUND_PATH];
  size_t n = shard_of_many(name);
  mr_kind_t kind = kind_of_end(name);
  if (kind != MR_KINDS || !n) return kind;
  snprintf(whole, sizeof whole, "%.*s", (int)n, name);
  kind = kind_of_end(whole);
  return kind == MR_KINDS ? MR_KIND_TFRECORD : kind;
}

static int part_of_word(const char *word, size_t n) {
  for (int p = 0; p < MR__PARTS; p++)
    if (in_words(mr__part_names[p], word, n)) return p;
  return -1;
}

/* The part of a data set that a file's name begins with ("val" of "val-0003.tar") or has before its
   ending ("train" of "mnist-train.tfrecord-00000-of-00001"). */
static int part_of_name(const char *name) {
  static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
  int first = part_of_word(name, strspn(name, letters));
  size_t end = strcspn(name, "."), begin = end;
  while (begin > 0 && strchr(letters, name[begin - 1])) begin--;
  return first >= 0 ? first : part_of_word(name + begin, end - begin);
}

bool mr__is_picture(const char *name) { return ends_in(name, ".jpg .jpeg .png .webp"); }

/* ---- folders ---- */

static bool is_data_folder(const char *path) {
  struct stat st;
  return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static bool has_entry(const char *folder, const char *name) {
  char path[FOUND_PATH + 300];
  return snprintf(path, sizeof path, "%s/%s", folder, name) < (int)sizeof path &&
         access(path, F_OK) == 0;
}

/* A folder's entries that do not begin with a dot, sorted; heap. */
typedef struct listing {
  struct dirent **entry;
  int n;
} listing_t;

static int is_shown(const struct dirent *e) { return e->d_name[0] != '.'; }

static mr_err_t read_listing(const char *folder, listing_t *l, mr_diag_t *diag) {
  l->entry = NULL;
  l->n = scandir(folder, &l->entry, is_shown, alphasort);
  if (l->n >= 0) return MR_OK;
  l->n = 0;
  return mr_fail(diag, MR_ERR_IO, "%.300s: cannot be read: %s", folder, strerror(errno));
}

static void listing_free(listing_t *l) {
  while (l->n > 0) free(l->entry[--l->n]);
  free(l->entry);
}

/* Whether a folder holds a picture, or folders that do. */
static bool holds_pictures(const char *folder, bool within) {
  listing_t l;
  bool any = false;
  if (read_listing(folder, &l, NULL) < 0) return false;
  for (int i = 0; i < l.n && !any; i++) {
    char path[FOUND_PATH + 300];
    if (snprintf(path, sizeof path, "%s/%s", folder, l.entry[i]->d_name) >= (int)sizeof path)
      continue;
    any = within ? is_data_folder(path) && holds_pictures(path, false)
                 : mr__is_picture(l.entry[i]->d_name) && !is_data_folder(path);
  }
  listing_free(&l);
  return any;
}

/* The folder of a part among a folder's entries; NULL without one. */
static const char *part_folder(const char *folder, const listing_t *l, int part) {
  char path[FOUND_PATH + 300];
  for (int i = 0; i < l->n; i++) {
    const char *name = l->entry[i]->d_name;
    bool fits = snprintf(path, sizeof path, "%s/%s", folder, name) < (int)sizeof path;
    if (fits && in_words(mr__part_names[part], name, strlen(name)) && is_data_folder(path))
      return name;
  }
  return NULL;
}

mr_kind_t mr__kind_of_index(const char *text, size_t n) {
  return memmem(text, n, "\"shards\"", 8)   ? MR_KIND_MDS
         : memmem(text, n, "\"chunks\"", 8) ? MR_KIND_LITDATA
                                            : MR_KINDS;
}

/* The kind of a folder's index.json; MR_KINDS: of none. */
static mr_kind_t kind_of_index(const char *folder) {
  char path[FOUND_PATH + 16];
  void *bytes;
  size_t n;
  snprintf(path, sizeof path, "%s/index.json", folder);
  if (mr_read_file(path, INDEX_BYTES, &bytes, &n, NULL) < 0) return MR_KINDS;
  mr_kind_t k = mr__kind_of_index(bytes, n);
  free(bytes);
  return k;
}

/* ---- lists of files ---- */

/* The files of a part, or of none (-1), among those of a kind. */
typedef struct files {
  const char *name[4096];
  int n;
} files_t;

/* The first digits in which two names differ: their place and number; 0 digits if they differ
   elsewhere. */
static int digits_apart(const char *a, const char *b, size_t *at) {
  size_t i = 0;
  while (a[i] && a[i] == b[i]) i++;
  while (i > 0 && isdigit((unsigned char)a[i - 1])) i--;
  *at = i;
  size_t n = strspn(a + i, "0123456789");
  return n && n < 10 && strspn(b + i, "0123456789") == n && !strcmp(a + i + n, b + i + n) ? (int)n
                                                                                          : 0;
}

/* Writes files whose names count up as one name with braces; false if they do not. */
static bool write_braces(const char *folder, const files_t *f, char *text, size_t size) {
  size_t at;
  int digits = f->n > 1 ? digits_apart(f->name[0], f->name[f->n - 1], &at) : 0;
  if (!digits) return false;
  long first = strtol(f->name[0] + at, NULL, 10);
  for (int i = 0; i < f->n; i++) {
    char want[300];
    snprintf(want, sizeof want, "%.*s%0*ld%s", (int)at, f->name[0], digits, first + i,
             f->name[0] + at + digits);
    if (strcmp(want, f->name[i]) != 0) return false;
  }
  return snprintf(text, size, "%s/%.*s{%0*ld..%0*ld}%s", folder, (int)at, f->name[0], digits, first,
                  digits, first + f->n - 1, f->name[0] + at + digits) < (int)size;
}

static mr_err_t write_files(const char *folder, const files_t *f, char *text, size_t size,
                            mr_diag_t *diag) {
  size_t at = 0;
  if (write_braces(folder, f, text, size)) return MR_OK;
  for (int i = 0; i < f->n && at < size; i++)
    at += (size_t)snprintf(text + at, size - at, "%s%s/%s", i ? "::" : "", folder, f->name[i]);
  if (at < size) return MR_OK;
  return mr_fail(
      diag, MR_ERR_DATA,
      "%.300s: the names of %d files do not count up and are too many to list; name some "
      "of them, as in part-{000..012}.tar",
      folder, f->n);
}

static mr_err_t fail_several(const char *folder, mr_kind_t a, mr_kind_t b, mr_diag_t *diag) {
  return mr_fail(diag, MR_ERR_DATA,
                 "%.300s: holds %s and %s; want the name of a file, or source=%s or source=%s",
                 folder, mr_kind_texts[a].called, mr_kind_texts[b].called, mr_kind_texts[a].stage,
                 mr_kind_texts[b].stage);
}

mr_err_t mr__recognise_files(const char *folder, const char *const *name, int n, bool pictures,
                             mr_kind_t want, mr_found_t *out, mr_diag_t *diag) {
  static files_t of[MR__PARTS + 1]; /* the last: of no part */
  for (int p = 0; p <= MR__PARTS; p++) of[p].n = 0;
  for (int i = 0; i < n; i++) {
    mr_kind_t k = mr__kind_of_name(name[i]);
    if (k == MR_KINDS || (want != MR_KINDS && k != want)) continue;
    if (out->kind != MR_KINDS && k != out->kind) return fail_several(folder, out->kind, k, diag);
    out->kind = k;
    int p = part_of_name(name[i]);
    files_t *f = &of[p < 0 ? MR__PARTS : p];
    if (f->n < (int)(sizeof f->name / sizeof *f->name)) f->name[f->n++] = name[i];
  }
  if (out->kind != MR_KINDS && pictures && want == MR_KINDS)
    return fail_several(folder, out->kind, MR_KIND_PICTURES, diag);
  if (out->kind == MR_KINDS) return MR_OK;
  files_t *train = of[MR__TRAIN].n ? &of[MR__TRAIN] : &of[MR__PARTS];
  if (!train->n)
    return mr_fail(diag, MR_ERR_DATA, "%.300s: its files are of no training records", folder);
  MR_TRY(write_files(folder, train, out->data, sizeof out->data, diag));
  files_t *valid = of[MR__VALID].n ? &of[MR__VALID] : &of[MR__TEST];
  if (train == &of[MR__TRAIN] && valid->n)
    MR_TRY(write_files(folder, valid, out->valid_data, sizeof out->valid_data, diag));
  return MR_OK;
}

/* ---- what lies there ---- */

/* Arrays by the names that belong together; false if they are others. */
static bool find_arrays(const char *folder, mr_found_t *out) {
  if (has_entry(folder, "images.npy") && has_entry(folder, "labels.npy")) {
    strcpy(out->train, "images=$data/images.npy labels=$data/labels.npy");
  } else if (has_entry(folder, "x.npy") && has_entry(folder, "y.npy")) {
    strcpy(out->train, "fields=x:$data/x.npy,y:$data/y.npy");
  } else {
    return false;
  }
  out->kind = MR_KIND_NPY;
  return true;
}

static bool find_cifar(const char *folder, mr_found_t *out) {
  bool ten = has_entry(folder, "data_batch_1.bin"),
       hundred = has_entry(folder, "train.bin") && has_entry(folder, "test.bin") &&
                 has_entry(folder, "fine_label_names.txt");
  out->kind = ten ? MR_KIND_CIFAR10 : hundred ? MR_KIND_CIFAR100 : MR_KINDS;
  if (!ten && !hundred) return false;
  strcpy(out->train, "path=$data");
  strcpy(out->test, "path=$data split=test");
  return true;
}

void mr__place_parts(const char *const part[MR__PARTS], const char *place, mr_found_t *out) {
  char *const text[MR__PARTS] = {out->train, out->valid, out->test};
  for (int p = 0; p < MR__PARTS; p++)
    if (part[p]) snprintf(text[p], sizeof out->train, "%s=$data/%s", place, part[p]);
  if (*out->valid || !*out->test) return;
  strcpy(out->valid, out->test); /* records to judge by before the end */
  out->test[0] = 0;
}

/* Sets the parts train, val and test of a folder that has them. */
static void find_parts(const char *folder, const listing_t *l, const char *place, mr_found_t *out) {
  const char *part[MR__PARTS];
  for (int p = 0; p < MR__PARTS; p++) part[p] = part_folder(folder, l, p);
  mr__place_parts(part, place, out);
}

/* Looks for files of one kind in a folder. */
static mr_err_t recognise_entries(const char *folder, const listing_t *l, bool pictures,
                                  mr_kind_t want, mr_found_t *out, mr_diag_t *diag) {
  const char **name = calloc((size_t)l->n + 1, sizeof *name);
  if (!name) return mr_no_memory(diag, "a list of names");
  for (int i = 0; i < l->n; i++) name[i] = l->entry[i]->d_name;
  mr_err_t e = mr__recognise_files(folder, name, l->n, pictures, want, out, diag);
  free(name);
  return e;
}

/* What a folder holds, without a look into its parts; MR_KINDS: nothing known. */
static mr_err_t recognise_in(const char *folder, const listing_t *l, mr_kind_t want,
                             mr_found_t *out, mr_diag_t *diag) {
  out->kind = MR_KINDS;
  if ((want == MR_KINDS || want == MR_KIND_NPY) && find_arrays(folder, out)) return MR_OK;
  if (find_cifar(folder, out)) return MR_OK;
  if ((out->kind = kind_of_index(folder)) != MR_KINDS) return MR_OK;
  bool pictures = holds_pictures(folder, true);
  MR_TRY(recognise_entries(folder, l, pictures, want, out, diag));
  if (out->kind == MR_KINDS && pictures) out->kind = MR_KIND_PICTURES;
  return MR_OK;
}

static mr_err_t fail_unknown(const char *path, mr_diag_t *diag) {
  char hint[MR_FILE_HINT] = "";
  bool folder = is_data_folder(path), flat = folder && holds_pictures(path, false);
  if (!folder) mr_file_hint(path, hint, sizeof hint);
  return mr_fail(
      diag, MR_ERR_DATA,
      "%.300s: %s%s; want a folder of pictures for each class, CIFAR's files, an "
      "index.json of MDS or litdata, images.npy and labels.npy, or files that end in "
      ".tar, .tfrecord, .arrayrecord, .beton, .npz, .safetensors, .csv or .bin (tokens); "
      "source=STAGE says what it is",
      path,
      flat     ? "its pictures are in no folder of a class"
      : folder ? "holds no data that are recognised"
               : "is not recognised by its name",
      hint);
}

/* A folder with parts is of the kind of its training part. */
static mr_err_t recognise_folder(const char *folder, mr_kind_t want, mr_found_t *out,
                                 mr_diag_t *diag) {
  listing_t l, of_train;
  char train[FOUND_PATH + 300];
  MR_TRY(read_listing(folder, &l, diag));
  const char *name = part_folder(folder, &l, MR__TRAIN);
  mr_err_t e = MR_OK;
  out->kind = MR_KINDS;
  if (name) {
    snprintf(train, sizeof train, "%s/%s", folder, name);
    if ((e = read_listing(train, &of_train, diag)) >= 0)
      e = recognise_in(train, &of_train, want, out, diag);
    listing_free(&of_train);
    bool whole =
        out->kind == MR_KIND_PICTURES || out->kind == MR_KIND_MDS || out->kind == MR_KIND_LITDATA;
    if (e >= 0 && whole) {
      out->train[0] = 0;
      find_parts(folder, &l, mr_kind_texts[out->kind].place, out);
    }
  }
  if (e >= 0 && out->kind == MR_KINDS) e = recognise_in(folder, &l, want, out, diag);
  if (e >= 0 && out->kind == MR_KINDS && has_entry(folder, "cifar-10-batches-bin")) {
    strncat(out->data, "/cifar-10-batches-bin", sizeof out->data - strlen(out->data) - 1);
    out->kind = MR_KIND_CIFAR10;
  }
  listing_free(&l);
  return e;
}

/* The name behind the last slash of a URL, without what follows "?". */
static void name_of_url(const char *url, char *name, size_t n) {
  snprintf(name, n, "%.*s", (int)strcspn(url, "?#"), url);
  char *slash = strrchr(name, '/');
  if (slash) memmove(name, slash + 1, strlen(slash));
}

/* A URL names a file that is known by its ending, or the folder of a data set. */
static mr_err_t find_url(const char *url, mr_kind_t want, const char *const *word, int n,
                         mr_found_t *out, mr_diag_t *diag) {
  char name[FOUND_PATH];
  name_of_url(url, name, sizeof name);
  mr_kind_t by_name = mr__kind_of_name(name);
  if (by_name == MR_KINDS) MR_TRY(mr__recognise_url(url, want, word, n, out, diag));
  if (out->kind == MR_KINDS) out->kind = by_name;
  if (out->kind != MR_KINDS || want != MR_KINDS) return MR_OK;
  char *shown = mr_remote_shown(url);
  mr_err_t e =
      mr_fail(diag, MR_ERR_DATA,
              "%.300s: neither its name nor what the server has there says what it is; say so "
              "with source=folder, source=mds or another stage (`millrace inspect` lists them)",
              shown ? shown : "a URL");
  free(shown);
  return e;
}

/* The kind that the user names. */
static mr_err_t read_kind(const char *kind, mr_kind_t *out, mr_diag_t *diag) {
  char known[256] = "";
  for (int k = 0; k < MR_KINDS; k++) {
    if (!strcmp(kind, mr_kind_texts[k].stage)) return *out = (mr_kind_t)k, MR_OK;
    snprintf(known + strlen(known), sizeof known - strlen(known), "%s%s", k ? ", " : "",
             mr_kind_texts[k].stage);
  }
  return mr_fail(diag, MR_ERR_USAGE, "source=%.60s: not a kind of data; known: %s", kind, known);
}

mr_err_t mr_recognise(const char *path, const char *kind, const char *const *word, int n_words,
                      mr_found_t *out, mr_diag_t *diag) {
  mr_kind_t want = MR_KINDS;
  struct stat st;
  *out = (mr_found_t){.kind = MR_KINDS};
  if (strpbrk(path, "\"$\n\\") || !*path || strlen(path) >= FOUND_PATH)
    return mr_fail(diag, MR_ERR_USAGE,
                   "\"%.100s\": want a path without quotes, dollar signs and backslashes", path);
  snprintf(out->data, sizeof out->data, "%s", path);
  size_t n = strlen(out->data);
  if (n > 1 && out->data[n - 1] == '/' && !strstr(path, "://")) out->data[n - 1] = 0;
  if (kind) MR_TRY(read_kind(kind, &want, diag));
  bool remote = strstr(path, "://") != NULL, several = strchr(path, '{') || strstr(path, "::");
  bool there = !remote && !several && stat(path, &st) == 0;
  if (!remote && !several && !there)
    return mr_fail(diag, MR_ERR_IO, "%.300s: cannot be read: %s", path, strerror(errno));
  char folder[FOUND_PATH];
  snprintf(folder, sizeof folder, "%s", out->data);
  if (there && S_ISDIR(st.st_mode)) MR_TRY(recognise_folder(folder, want, out, diag));
  if (remote) MR_TRY(find_url(path, want, word, n_words, out, diag));
  if (out->kind == MR_KINDS && want == MR_KINDS && !(there && S_ISDIR(st.st_mode)))
    out->kind = mr__kind_of_name(path);
  if (want != MR_KINDS) out->kind = want;
  if (out->kind == MR_KINDS) return fail_unknown(path, diag);
  if (!*out->train && out->kind == MR_KIND_NPY) strcpy(out->train, "fields=x:$data");
  if (!*out->train)
    snprintf(out->train, sizeof out->train, "%s=$data", mr_kind_texts[out->kind].place);
  if (*out->valid_data)
    snprintf(out->valid, sizeof out->valid, "%s=$valid_data", mr_kind_texts[out->kind].place);
  return MR_OK;
}

/* ---- pictures without classes ---- */

static void write_listed(FILE *f, const char *name) {
  cJSON *row = cJSON_CreateObject();
  cJSON_AddStringToObject(row, "file_name", name);
  cJSON_AddNumberToObject(row, "label", 0);
  char *text = cJSON_PrintUnformatted(row);
  cJSON_Delete(row);
  if (text) fprintf(f, "%s\n", text);
  cJSON_free(text);
}

/* Lists the pictures of a folder, or the one of that name, for stage folder. */
static mr_err_t list_pictures(const char *folder, const char *only, mr_found_t *out,
                              mr_diag_t *diag) {
  listing_t l;
  const char *tmp = getenv("TMPDIR");
  snprintf(out->list, sizeof out->list, "%.32s/millrace-XXXXXX",
           tmp && strlen(tmp) < 32 ? tmp : "/tmp");
  MR_TRY(read_listing(folder, &l, diag));
  int fd = mkstemp(out->list);
  FILE *f = fd >= 0 ? fdopen(fd, "w") : NULL;
  for (int i = 0; f && i < l.n; i++)
    if (only ? !strcmp(l.entry[i]->d_name, only) : mr__is_picture(l.entry[i]->d_name))
      write_listed(f, l.entry[i]->d_name);
  listing_free(&l);
  bool good = f && !ferror(f);
  if (f && fclose(f)) good = false;
  if (!good) return mr_fail(diag, MR_ERR_IO, "%s: cannot be written", out->list);
  out->kind = MR_KIND_PICTURES;
  size_t n = strlen(folder);
  while (n > 1 && folder[n - 1] == '/') n--;
  snprintf(out->data, sizeof out->data, "%.*s", (int)n, folder);
  snprintf(out->train, sizeof out->train, "path=$data list=%s", out->list);
  return MR_OK;
}

mr_err_t mr_recognise_unlabelled(const char *path, const char *kind, const char *const *word, int n,
                                 mr_found_t *out, mr_diag_t *diag) {
  char folder[FOUND_PATH];
  struct stat st;
  bool there = strlen(path) < sizeof folder && stat(path, &st) == 0;
  const char *slash = strrchr(path, '/');
  *out = (mr_found_t){.kind = MR_KINDS};
  if (!kind && there && S_ISREG(st.st_mode) && mr__is_picture(path)) {
    snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - path) : 1, slash ? path : ".");
    return list_pictures(*folder ? folder : "/", slash ? slash + 1 : path, out, diag);
  }
  if (!kind && there && S_ISDIR(st.st_mode) && holds_pictures(path, false))
    return list_pictures(path, NULL, out, diag);
  MR_TRY(mr_recognise(path, kind, word, n, out, diag));
  if (!*out->valid) return MR_OK;
  return mr_fail(diag, MR_ERR_USAGE,
                 "%.300s: has parts for training and validation; name one of them", path);
}
