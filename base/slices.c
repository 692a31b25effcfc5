/* A checkpoint of several ranks: the file of rank 0 names those of the others, which lie beside it,
   with the digest of each in its name: what was written by another run, or at another step, has
   another digest, and a kill between two files changes none that an older checkpoint names. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/safetensors_private.h"
#include "base/text.h"
#include "base/xio.h"

enum { SLICES_MOST = 1 << 16, NAME = MR_SAFETENSORS_SLICE_NAME };

void mr_safetensors_slice_name(const char *stem, int k, int n, const char *hex, char name[NAME]) {
  mr_snprintf(name, NAME, "%s.%d-of-%d.%s.safetensors", stem, k, n, hex);
}

/* What the name of a slice says. */
typedef struct slice_name {
  int k, n;
  char hex[MR_SAFETENSORS_HEX + 1];
} slice_name_t;

static bool parse_name(const char *name, slice_name_t *out) {
  char again[NAME], stem[NAME];
  const char *dot = strchr(name, '.');
  int used = 0;
  if (!dot || dot == name || strchr(name, '/') || strlen(name) >= sizeof again) return false;
  snprintf(stem, sizeof stem, "%.*s", (int)(dot - name), name);
  if (sscanf(dot, ".%d-of-%d.%16[0-9a-f]%n", &out->k, &out->n, out->hex, &used) != 3) return false;
  mr_safetensors_slice_name(stem, out->k, out->n, out->hex, again);
  return !strcmp(again, name) && strlen(out->hex) == MR_SAFETENSORS_HEX;
}

bool mr_safetensors_is_slice(const char *name, const char *stem) {
  slice_name_t s;
  size_t n = strlen(stem);
  return !strncmp(name, stem, n) && name[n] == '.' && parse_name(name, &s);
}

/* Reads the slice of this name, the k-th of n beside the file at path, into f. */
static mr_err_t read_slice(mr_safetensors_t *f, const char *path, const char *folder,
                           const char *name, int k, int n, mr_diag_t *diag) {
  slice_name_t says;
  char beside[PATH_MAX + NAME + 2], want[32];
  mr_safetensors_t *s;
  if (!parse_name(name, &says) || says.k != k || says.n != n + 1)
    return mr_fail(diag, MR_ERR_DATA,
                   "%s: its index of slices names %.100s where that of rank %d of %d is wanted",
                   path, name, k, n + 1);
  snprintf(beside, sizeof beside, "%s%s", folder, name);
  if (access(beside, F_OK) < 0 && errno == ENOENT)
    return mr_fail(diag, MR_ERR_IO,
                   "%s: the slice of rank %d of %d is missing, want %s beside it; `millrace "
                   "checkpoint merge` makes one file of all, which may be moved",
                   path, k, n + 1, name);
  MR_TRY(mr__safetensors_read(beside, &s, diag));
  f->slice[f->n_slices++] = s;
  snprintf(want, sizeof want, "%d of %d", k, n + 1);
  const char *digest = mr_safetensors_meta(s, "millrace.xxh3"),
             *slice = mr_safetensors_meta(s, MR_SAFETENSORS_SLICE);
  if (!digest || strcmp(digest, says.hex))
    return mr_fail(
        diag, MR_ERR_DATA,
        "%s: is not the slice of %s, which is of another step or another run: its digest "
        "is %s, want %s",
        beside, path, digest ? digest : "missing", says.hex);
  if (slice && !strcmp(slice, want)) return MR_OK;
  return mr_fail(diag, MR_ERR_DATA, "%s: says that it is slice %.40s, want %s", beside,
                 slice ? slice : "none", want);
}

static mr_err_t read_slices(mr_safetensors_t *f, const char *path, char *index, int n,
                            mr_diag_t *diag) {
  char folder[PATH_MAX], *save;
  if (!realpath(path, folder))
    return mr_fail(diag, MR_ERR_IO, "%s: cannot be found: %s", path, strerror(errno));
  *(strrchr(folder, '/') + 1) = 0;
  char *name = strtok_r(index, "\n", &save);
  for (int k = 1; name; name = strtok_r(NULL, "\n", &save), k++)
    MR_TRY(read_slice(f, path, folder, name, k, n, diag));
  return MR_OK;
}

/* A tensor and the file it is in: the first, or slice k. */
typedef struct place {
  const mr_st_tensor_t *t;
  int file;
} place_t;

static int place_by_name(const void *a, const void *b) {
  return strcmp(((const place_t *)a)->t->name, ((const place_t *)b)->t->name);
}

/* Refuses a tensor that two files have.  own: tensors of the first file. */
static mr_err_t check_once(const mr_safetensors_t *f, const char *path, int own, mr_diag_t *diag) {
  place_t *at = malloc(((size_t)f->n + 1) * sizeof *at);
  if (!at) return mr_no_memory(diag, "the tensors of %s", path);
  for (int i = 0, file = 0, end = own; i < f->n; i++) {
    while (i >= end) end += f->slice[file++]->n;
    at[i] = (place_t){&f->tensor[i], file};
  }
  qsort(at, (size_t)f->n, sizeof *at, place_by_name);
  mr_err_t e = MR_OK;
  for (int i = 1; i < f->n && e >= 0; i++)
    if (!strcmp(at[i - 1].t->name, at[i].t->name))
      e = mr_fail(diag, MR_ERR_DATA,
                  "%s: the tensor %s is there twice, in the files of rank %d and of rank %d", path,
                  at[i].t->name, at[i - 1].file, at[i].file);
  free(at);
  return e;
}

/* Appends the tensors of all slices to those of f. */
static mr_err_t join_tensors(mr_safetensors_t *f, const char *path, mr_diag_t *diag) {
  int n = f->n, own = f->n;
  for (int i = 0; i < f->n_slices; i++) n += f->slice[i]->n;
  mr_st_tensor_t *all = realloc(f->tensor, ((size_t)n + 1) * sizeof *all);
  if (!all) return mr_no_memory(diag, "the tensors of %s", path);
  f->tensor = all;
  for (int i = 0; i < f->n_slices; i++) {
    memcpy(all + f->n, f->slice[i]->tensor, (size_t)f->slice[i]->n * sizeof *all);
    f->n += f->slice[i]->n;
  }
  return check_once(f, path, own, diag);
}

mr_err_t mr__slices_open(mr_safetensors_t *f, const char *path, mr_diag_t *diag) {
  const char *index = mr_safetensors_meta(f, MR_SAFETENSORS_SLICES);
  int n = 0;
  if (!index) return MR_OK;
  for (const char *at = index; *at; at++) n += *at != '\n' && (at == index || at[-1] == '\n');
  if (n > SLICES_MOST)
    return mr_fail(diag, MR_ERR_DATA, "%s: names %d slices, want at most %d", path, n, SLICES_MOST);
  char *copy = strdup(index);
  f->slice = calloc((size_t)n + 1, sizeof *f->slice);
  mr_err_t e = copy && f->slice ? MR_OK : mr_no_memory(diag, "the slices of %s", path);
  if (e >= 0) e = read_slices(f, path, copy, n, diag);
  free(copy);
  return e < 0 ? e : join_tensors(f, path, diag);
}
