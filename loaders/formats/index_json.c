/* Reads an index.json whole, because its members may come in any order; its names are checked when
   they are used. */
#include "loaders/formats/index_json.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "base/suggest.h"

enum { INDEX_MAX = 256 << 20 /* bytes */ };

/* Reads a remote file into *text (heap, the caller frees it). */
static mr_err_t index_json_get(const mr_remote_conf_t *conf, const char *url, void **text,
                               size_t *n, mr_diag_t *diag) {
  mr_remote_t *remote;
  const mr_object_t *object;
  MR_TRY(mr_remote_open(&remote, conf, diag));
  mr_err_t e = mr_remote_object(remote, url, &object, diag);
  if (e >= 0 && object->size > INDEX_MAX)
    e = mr_fail(diag, MR_ERR_DATA, "%s: has %" PRId64 " bytes, want at most %d", object->name,
                object->size, INDEX_MAX);
  *text = e >= 0 ? malloc((size_t)object->size + 1) : NULL;
  if (e >= 0 && !*text) e = mr_no_memory(diag, "%s", object->name);
  if (e >= 0) {
    mr_remote_want_t want = {.object = object, .size = object->size, .to = *text};
    *n = (size_t)object->size;
    e = mr_remote_read(remote, &want, 1, diag);
    if (e < 0) free(*text);
  }
  mr_remote_close(remote);
  return e;
}

static mr_err_t check_is_folder(const char *name, mr_diag_t *diag) {
  struct stat st;
  char hint[120];
  if (stat(name, &st) < 0 || !S_ISREG(st.st_mode)) return MR_OK;
  return mr_fail(diag, MR_ERR_IO, "%s: want the folder of an index.json%s", name,
                 mr_path_hint(name, hint, sizeof hint));
}

mr_err_t mr_index_json_read(mr_index_json_t *x, const char *name, const mr_remote_conf_t *conf,
                            mr_diag_t *diag) {
  char whole[MR_PATH_MAX], *shown;
  void *text;
  size_t n, length = strlen(name);
  *x = (mr_index_json_t){.remote = mr_remote_is(name)};
  bool is_file = length > 5 && !strcmp(name + length - 5, ".json");
  const char *slash = is_file ? strrchr(name, '/') : NULL;
  const char *join = is_file || (length && name[length - 1] == '/') ? "" : "/";
  if (snprintf(whole, sizeof whole, "%s%s%s", name, join, is_file ? "" : "index.json") >=
      (int)sizeof whole)
    return mr_fail(diag, MR_ERR_CONFIG, "%.200s: the name is too long", name);
  size_t folder = !is_file ? strlen(whole) - strlen("index.json")
                  : slash  ? (size_t)(slash + 1 - name)
                           : 0;
  memcpy(x->folder, whole, folder);
  shown = mr_remote_shown(whole); /* no sentence may hold a password */
  if (!shown) return mr_no_memory(diag, "the name of an index");
  snprintf(x->path, sizeof x->path, "%s", shown);
  free(shown);
  if (!x->remote && !is_file) MR_TRY(check_is_folder(name, diag));
  MR_TRY(x->remote ? index_json_get(conf, whole, &text, &n, diag)
                   : mr_read_file(whole, INDEX_MAX, &text, &n, diag));
  x->json = cJSON_ParseWithLength(text, n);
  free(text);
  return x->json ? MR_OK : mr_fail(diag, MR_ERR_DATA, "%s: is not JSON, or is cut short", x->path);
}

void mr_index_json_fini(mr_index_json_t *x) {
  cJSON_Delete(x->json);
  x->json = NULL;
}

bool mr_index_json_path(const mr_index_json_t *x, const cJSON *name, char out[MR_PATH_MAX]) {
  if (!cJSON_IsString(name) || !*name->valuestring || *name->valuestring == '/') return false;
  if (strstr(name->valuestring, "://")) return false; /* a URL, if the folder is "" */
  /* A web server would decode "%2e%2e", and take "?" as the end of the name; keys are encoded. */
  bool encoded = !x->remote || !strncasecmp(x->folder, "s3://", 5);
  if (!encoded && strpbrk(name->valuestring, "?#%\\")) return false;
  for (const char *p = name->valuestring; p; p = strchr(p, '/')) {
    if (*p == '/') p++;
    if (!strncmp(p, "..", 2) && (!p[2] || p[2] == '/')) return false;
  }
  return snprintf(out, MR_PATH_MAX, "%s%s", x->folder, name->valuestring) < MR_PATH_MAX;
}
