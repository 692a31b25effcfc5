/* Recognising what lies in a folder of a server.  A web server does not list its files, so that it
   is asked for those that a kind of data has; a bucket is listed, as far as is needed to see. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "apps/cli/cli.h"
#include "apps/run/recognise_private.h"
#include "base/xio.h"
#include "loaders/remote/remote.h"
#include "pipeline/opt.h"

enum { INDEX_BYTES = 64 << 20, KEYS_MOST = 4096 /* of a listing */ };

typedef struct conf {
  mr_remote_conf_t remote;
} conf_t;

static const mr_opt_t conf_opts[] = {MR_REMOTE_OPTS(conf_t, remote), {0}};

typedef struct place {
  const char *url; /* without a final slash */
  mr_remote_t *remote;
} place_t;

static mr_err_t read_conf(conf_t *c, const char *const *word, int n, mr_diag_t *diag) {
  for (const mr_opt_t *o = conf_opts; o->name; o++) {
    const char *value = o->def;
    size_t k = strlen(o->name);
    for (int i = 0; i < n; i++)
      if (!strncmp(word[i], o->name, k) && word[i][k] == '=') value = word[i] + k + 1;
    if (value) MR_TRY(mr_opt_set(o, c, "train", value, diag));
  }
  return MR_OK;
}

static mr_err_t find_object(const place_t *p, const char *name, const mr_object_t **object,
                            mr_diag_t *diag) {
  char url[MR_PATH_MAX];
  *object = NULL;
  if (snprintf(url, sizeof url, "%s/%s", p->url, name) >= (int)sizeof url) return MR_OK;
  return mr_remote_find(p->remote, url, object, diag);
}

static mr_err_t has_objects(const place_t *p, const char *a, const char *b, bool *both,
                            mr_diag_t *diag) {
  const mr_object_t *object;
  MR_TRY(find_object(p, a, &object, diag));
  if (object) MR_TRY(find_object(p, b, &object, diag));
  *both = object != NULL;
  return MR_OK;
}

/* The kind of an index.json. */
static mr_err_t kind_of_object(const place_t *p, const mr_object_t *o, mr_kind_t *kind,
                               mr_diag_t *diag) {
  char *text = o->size <= INDEX_BYTES ? malloc((size_t)o->size + 1) : NULL;
  if (!text) return o->size <= INDEX_BYTES ? mr_no_memory(diag, "%s", o->name) : MR_OK;
  const mr_remote_want_t want = {.object = o, .size = o->size, .to = text};
  mr_err_t e = mr_remote_read(p->remote, &want, 1, diag);
  if (e >= 0) *kind = mr__kind_of_index(text, (size_t)o->size);
  free(text);
  return e;
}

/* Finds whether a part has something, which is_there decides, under one of its names: *name, NULL:
   it has not. */
typedef mr_err_t is_there_fn(const place_t *p, const char *part, bool *there, mr_diag_t *diag);

static mr_err_t find_part(const place_t *p, int part, is_there_fn *is_there, char name[16],
                          mr_diag_t *diag) {
  for (const char *w = mr__part_names[part]; *w; w += strspn(w, " ")) {
    bool there = false;
    size_t n = strcspn(w, " ");
    snprintf(name, 16, "%.*s", (int)n, w);
    MR_TRY(is_there(p, name, &there, diag));
    if (there) return MR_OK;
    w += n;
  }
  name[0] = 0;
  return MR_OK;
}

/* Places the parts if there is one for training. */
static mr_err_t find_remote_parts(const place_t *p, mr_kind_t kind, is_there_fn *is_there,
                                  mr_found_t *out, mr_diag_t *diag) {
  char name[MR__PARTS][16] = {""};
  const char *part[MR__PARTS] = {NULL};
  for (int i = 0; i < MR__PARTS; i++) {
    MR_TRY(find_part(p, i, is_there, name[i], diag));
    if (*name[i]) part[i] = name[i];
    if (!part[MR__TRAIN]) return MR_OK;
  }
  mr__place_parts(part, mr_kind_texts[kind].place, out);
  return MR_OK;
}

/* ---- an index.json, arrays ---- */

static mr_err_t has_index(const place_t *p, const char *part, bool *there, mr_diag_t *diag) {
  char name[64];
  const mr_object_t *object;
  snprintf(name, sizeof name, "%s/index.json", part);
  MR_TRY(find_object(p, name, &object, diag));
  *there = object != NULL;
  return MR_OK;
}

static mr_err_t find_remote_index(const place_t *p, mr_found_t *out, mr_diag_t *diag) {
  const mr_object_t *object;
  char train[16], name[64];
  MR_TRY(find_object(p, "index.json", &object, diag));
  if (object) return kind_of_object(p, object, &out->kind, diag);
  MR_TRY(find_part(p, MR__TRAIN, has_index, train, diag));
  if (!*train) return MR_OK;
  snprintf(name, sizeof name, "%s/index.json", train);
  MR_TRY(find_object(p, name, &object, diag));
  if (object) MR_TRY(kind_of_object(p, object, &out->kind, diag));
  return out->kind == MR_KINDS ? MR_OK : find_remote_parts(p, out->kind, has_index, out, diag);
}

static mr_err_t find_remote_arrays(const place_t *p, mr_found_t *out, mr_diag_t *diag) {
  bool images = false, numbers = false;
  MR_TRY(has_objects(p, "images.npy", "labels.npy", &images, diag));
  if (!images) MR_TRY(has_objects(p, "x.npy", "y.npy", &numbers, diag));
  if (!images && !numbers) return MR_OK;
  out->kind = MR_KIND_NPY;
  strcpy(out->train, images ? "images=$data/images.npy labels=$data/labels.npy"
                            : "fields=x:$data/x.npy,y:$data/y.npy");
  return MR_OK;
}

/* ---- a bucket ---- */

/* What a listing has shown: files that lie in the folder itself, and whether pictures lie in
   folders below it. */
typedef struct keys {
  char *name[KEYS_MOST];
  int n, seen;
  bool pictures, enough;
} keys_t;

static mr_err_t note_key(void *ctx, const mr_listed_t *file, mr_diag_t *diag) {
  keys_t *k = ctx;
  const char *slash = strchr(file->path, '/');
  if (slash) k->pictures |= mr__is_picture(file->path);
  if (!slash && file->path[0] != '.') {
    k->name[k->n] = strdup(file->path);
    if (!k->name[k->n]) return mr_no_memory(diag, "a list of names");
    k->n++;
  }
  k->enough = ++k->seen == KEYS_MOST;
  return k->enough ? MR_ERR_CANCEL : MR_OK;
}

static mr_err_t take_first(void *ctx, const mr_listed_t *file, mr_diag_t *diag) {
  *(bool *)ctx = true;
  return MR_ERR_CANCEL;
}

static mr_err_t has_keys(const place_t *p, const char *part, bool *there, mr_diag_t *diag) {
  char url[MR_PATH_MAX];
  mr_diag_t why = {0};
  *there = false;
  if (snprintf(url, sizeof url, "%s/%s", p->url, part) >= (int)sizeof url) return MR_OK;
  mr_err_t e = mr_remote_list(p->remote, url, take_first, there, &why);
  return *there ? MR_OK : mr_diag_relay(diag, e, &why);
}

static mr_err_t look_into_bucket(const place_t *p, mr_kind_t want, mr_found_t *out,
                                 mr_diag_t *diag) {
  keys_t *k = calloc(1, sizeof *k);
  mr_diag_t why = {0};
  if (!k) return mr_no_memory(diag, "a list of names");
  mr_err_t e = mr_remote_list(p->remote, p->url, note_key, k, &why);
  e = k->enough ? MR_OK : mr_diag_relay(diag, e, &why);
  if (e >= 0)
    e = mr__recognise_files(p->url, (const char *const *)k->name, k->n, k->pictures, want, out,
                            diag);
  if (e >= 0 && out->kind == MR_KINDS && k->pictures) out->kind = MR_KIND_PICTURES;
  while (k->n) free(k->name[--k->n]);
  free(k);
  if (e < 0 || out->kind != MR_KIND_PICTURES) return e;
  return find_remote_parts(p, MR_KIND_PICTURES, has_keys, out, diag);
}

/* CIFAR's files would be taken for tokens. */
static mr_err_t refuse_cifar(const place_t *p, mr_diag_t *diag) {
  bool ten = false, hundred = false;
  MR_TRY(has_objects(p, "data_batch_1.bin", "test_batch.bin", &ten, diag));
  if (!ten) MR_TRY(has_objects(p, "train.bin", "fine_label_names.txt", &hundred, diag));
  if (!ten && !hundred) return MR_OK;
  char *shown = mr_remote_shown(p->url);
  mr_err_t e = mr_fail(diag, MR_ERR_DATA,
                       "%.300s: CIFAR's files, which are read from a folder of this machine alone; "
                       "fetch them first (`millrace data fetch` downloads CIFAR-10)",
                       shown ? shown : "a URL");
  free(shown);
  return e;
}

static bool may_be(mr_kind_t want, mr_kind_t kind) { return want == MR_KINDS || want == kind; }

/* Whether a listing can tell of a kind: by the endings of files, or by parts of pictures. */
static bool may_be_listed(mr_kind_t want) {
  return may_be(want, MR_KIND_PICTURES) || *mr_kind_texts[want].ends;
}

static mr_err_t look_at(const place_t *p, mr_kind_t want, mr_found_t *out, mr_diag_t *diag) {
  if (may_be(want, MR_KIND_MDS) || want == MR_KIND_LITDATA) MR_TRY(find_remote_index(p, out, diag));
  if (out->kind == MR_KINDS && may_be(want, MR_KIND_NPY)) MR_TRY(find_remote_arrays(p, out, diag));
  if (out->kind == MR_KINDS && want == MR_KINDS) MR_TRY(refuse_cifar(p, diag));
  if (out->kind != MR_KINDS || p->url[0] != 's' || !may_be_listed(want)) return MR_OK;
  return look_into_bucket(p, want, out, diag);
}

/* A kind that the user names needs no look: where one fails, its stage reads what it is given, or
   says why it cannot. */
mr_err_t mr__recognise_url(const char *url, mr_kind_t want, const char *const *word, int n,
                           mr_found_t *out, mr_diag_t *diag) {
  conf_t conf = {0};
  char folder[MR_PATH_MAX];
  place_t place = {.url = folder};
  size_t length = strlen(url);
  if (!mr_remote_is(url) || length >= sizeof folder || strpbrk(url, "?#{}")) return MR_OK;
  while (length && url[length - 1] == '/') length--;
  snprintf(folder, sizeof folder, "%.*s", (int)length, url);
  MR_TRY(read_conf(&conf, word, n, diag));
  conf.remote.cache = NULL; /* names and indexes: they are read once more, and then kept */
  MR_TRY(mr_remote_open(&place.remote, &conf.remote, diag));
  const mr_found_t before = *out;
  mr_diag_t why = {0};
  snprintf(out->data, sizeof out->data, "%s", folder);
  mr_err_t e = look_at(&place, want, out, &why);
  mr_remote_close(place.remote);
  bool named = e < 0 && want != MR_KINDS && e != MR_ERR_NOMEM && e != MR_ERR_USAGE;
  if (!named) return mr_diag_relay(diag, e, &why);
  return *out = before, MR_OK;
}
