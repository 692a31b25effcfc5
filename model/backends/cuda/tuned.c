/* Reads the tuning files, and writes the user's.  The two are kept apart: what is measured here is
   written without the shipped rows, so that a newer program's rows are not hidden by older ones. */
#include "model/backends/cuda/tuned.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/share.h"
#include "base/xio.h"

static struct {
  pthread_mutex_t lock;
  bool read, writes; /* settled; whether rows may be written to path */
  char path[MR_PATH_MAX];
  mr_cuda_tunings_t rows;
  struct {
    char name[MR_CUDA_TUNINGS_FILE]; /* of the file that was read; empty: none */
    mr_cuda_tunings_t rows;
  } shipped[2]; /* of cuBLASLt's version, and of cuDNN's */
  int oldest;   /* of shipped */
} tuned = {.lock = PTHREAD_MUTEX_INITIALIZER};

static bool tuned_is_off(void) {
  const char *own = getenv("MILLRACE_TUNING");
  return own && !strcmp(own, "off");
}

static bool tuned_path(char path[MR_PATH_MAX]) {
  const char *own = getenv("MILLRACE_TUNING"), *cache = getenv("XDG_CACHE_HOME"),
             *home = getenv("HOME");
  int n = own && *own       ? snprintf(path, MR_PATH_MAX, "%s", own)
          : cache && *cache ? snprintf(path, MR_PATH_MAX, "%s/millrace/products.txt", cache)
          : home && *home   ? snprintf(path, MR_PATH_MAX, "%s/.cache/millrace/products.txt", home)
                            : MR_PATH_MAX;
  return !tuned_is_off() && n < MR_PATH_MAX;
}

/* Reads the rows of a file into the zeroed *rows, which stays empty on failure.  own: it was made
   by an earlier run, and another user must not choose this one's algorithms. */
static mr_err_t tuned_parse(const char *path, bool own, mr_cuda_tunings_t *rows, mr_diag_t *diag) {
  void *text;
  size_t n;
  if (own)
    MR_TRY(mr_read_trusted(path, MR_CUDA_TUNINGS_BYTES, MR_KEPT_TUNING, NULL, &text, &n, diag));
  else
    MR_TRY(mr_read_file(path, MR_CUDA_TUNINGS_BYTES, &text, &n, diag));
  mr_err_t e = mr__cuda_tunings_parse(text, n, rows, diag);
  free(text);
  if (e < 0) mr__cuda_tunings_fini(rows);
  return e;
}

static void tuned_read_own(void) {
  mr_diag_t diag = {0};
  if (tuned.read) return;
  tuned.read = true;
  if (!tuned_path(tuned.path)) return;
  tuned.writes = true;
  if (access(tuned.path, F_OK) != 0 && errno == ENOENT) return;
  if (tuned_parse(tuned.path, true, &tuned.rows, &diag) == MR_OK) return;
  tuned.writes = false;
  mr_notice(
      "device cuda: tuning file %s: %s; it is left as it is, and products take shipped "
      "algorithms, or the library's own choice",
      tuned.path, diag.text);
}

/* A shipped file holds rows of the device and the version that its name says, and no others. */
static mr_err_t tuned_is_of(const mr_cuda_tunings_t *t, const char *device, uint64_t version,
                            mr_diag_t *diag) {
  for (size_t i = 0; i < t->n; i++)
    if (t->row[i].version != version || strcmp(t->row[i].device, device) != 0)
      return mr_fail(diag, MR_ERR_DATA, "a row of %s with version %llu, want %s with %llu",
                     t->row[i].device, (unsigned long long)t->row[i].version, device,
                     (unsigned long long)version);
  return MR_OK;
}

/* Returns the rows of the shipped file, which is read once unless many are asked for in turn. */
static const mr_cuda_tunings_t *tuned_read_shipped(const char *device, uint64_t version) {
  char name[MR_CUDA_TUNINGS_FILE], path[MR_PATH_MAX];
  mr_diag_t diag = {0};
  mr__cuda_tunings_file(device, version, name);
  for (int i = 0; i < 2; i++)
    if (!strcmp(name, tuned.shipped[i].name)) return &tuned.shipped[i].rows;
  mr_cuda_tunings_t *rows = &tuned.shipped[tuned.oldest].rows;
  memcpy(tuned.shipped[tuned.oldest].name, name, sizeof name);
  tuned.oldest = !tuned.oldest;
  mr__cuda_tunings_fini(rows);
  if (tuned_is_off() || !mr_share_find(name, path, sizeof path)) return rows;
  mr_err_t e = tuned_parse(path, false, rows, &diag);
  if (e == MR_OK) e = tuned_is_of(rows, device, version, &diag);
  if (e == MR_OK) return rows;
  mr__cuda_tunings_fini(rows);
  mr_notice(
      "device cuda: shipped tuning file %s: %s; it is not used, and products take the library's "
      "own choice of algorithms",
      path, diag.text);
  return rows;
}

bool mr__cuda_tuned_asked(void) {
  const char *v = getenv("MILLRACE_TUNE");
  return v && !strcmp(v, "1");
}

bool mr__cuda_tuned_own(const char *device, uint64_t version, const char *product,
                        mr_cuda_tuning_t *row) {
  pthread_mutex_lock(&tuned.lock);
  tuned_read_own();
  const mr_cuda_tuning_t *r = mr__cuda_tunings_find(&tuned.rows, device, version, product);
  if (r) *row = *r;
  pthread_mutex_unlock(&tuned.lock);
  return r != NULL;
}

bool mr__cuda_tuned_shipped(const char *device, uint64_t version, const char *product,
                            mr_cuda_tuning_t *row) {
  pthread_mutex_lock(&tuned.lock);
  const mr_cuda_tuning_t *r =
      mr__cuda_tunings_find(tuned_read_shipped(device, version), device, version, product);
  if (r) *row = *r;
  pthread_mutex_unlock(&tuned.lock);
  return r != NULL;
}

static mr_err_t tuned_write(mr_diag_t *diag) {
  char folder[MR_PATH_MAX];
  snprintf(folder, sizeof folder, "%s", tuned.path);
  char *end = strrchr(folder, '/');
  if (end && end != folder) {
    *end = 0;
    MR_TRY(mr_make_own_folder(folder, diag));
  }
  char *text = NULL;
  size_t n = 0;
  FILE *to = open_memstream(&text, &n);
  if (to) mr__cuda_tunings_print(&tuned.rows, to);
  mr_err_t e = to && fclose(to) == 0 ? mr_write_own(tuned.path, text, n, NULL, diag)
                                     : mr_no_memory(diag, "measured algorithms");
  free(text);
  return e;
}

void mr__cuda_tuned_put(const mr_cuda_tuning_t *row) {
  mr_diag_t diag = {0};
  pthread_mutex_lock(&tuned.lock);
  tuned_read_own();
  mr_err_t e = mr__cuda_tunings_put(&tuned.rows, row, &diag);
  if (e == MR_OK && tuned.writes) e = tuned_write(&diag);
  if (e < 0 && tuned.writes) {
    tuned.writes = false;
    mr_notice("device cuda: measured algorithms are not kept: %s", diag.text);
  }
  pthread_mutex_unlock(&tuned.lock);
}
