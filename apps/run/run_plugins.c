/* Keeps the plug-ins of a run among its settings, as plugin=NAME FILE, and loads them again when
   the run is resumed.  A file inside the run's own folder is refused: a run that someone hands over
   must not bring code along. */
#include "apps/run/run_dir.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "apps/cli/cli.h"
#include "apps/run/resume.h"
#include "base/text.h"
#include "base/xio.h"
#include "pipeline/stage_source.h"
#include "plugins/plugin.h"

static const char prefix[] = "plugin=";

bool mr_run_plugin_is(const char *setting) { return !strncmp(setting, prefix, sizeof prefix - 1); }

/* The file of setting i, and its name of *n letters; NULL if it is no plug-in.  A later setting of
   the same name replaces it. */
static const char *file_of(const mr_run_dir_t *r, int i, const char **name, int *n) {
  if (!mr_run_plugin_is(r->setting[i])) return NULL;
  *name = r->setting[i] + sizeof prefix - 1;
  *n = (int)strcspn(*name, " ");
  return (*name)[*n] ? *name + *n + 1 : "";
}

static bool is_replaced(const mr_run_dir_t *r, int i) {
  size_t n = strcspn(r->setting[i], " ");
  for (int k = i + 1; k < r->n_settings; k++)
    if (!strncmp(r->setting[k], r->setting[i], n) && r->setting[k][n] == ' ') return true;
  return false;
}

/* ---- saving ---- */

mr_err_t mr_run_plugins_note(mr_run_dir_t *r, mr_diag_t *diag) {
  for (int p = 0; p < mr_plugin_count(); p++) {
    const char *file, *name = mr_plugin_at(p, &file)->name;
    char text[PATH_MAX + 256];
    bool there = false;
    snprintf(text, sizeof text, "%s%s %s", prefix, name, file);
    for (int i = 0; i < r->n_settings; i++)
      there |= !strcmp(r->setting[i], text) && !is_replaced(r, i);
    if (!there) MR_TRY(mr_run_dir_set(r, text, diag));
  }
  return MR_OK;
}

/* ---- which bytes they had ---- */

/* The digest of a file's bytes; 0 if it cannot be read. */
static uint64_t plugin_digest(const char *file) {
  char bytes[1 << 16];
  uint64_t hash = 0;
  FILE *f = mr_open_regular(file);
  for (size_t n; f && (n = fread(bytes, 1, sizeof bytes, f)) > 0;)
    hash = XXH3_64bits_withSeed(bytes, n, hash);
  if (f) fclose(f);
  return hash;
}

char *mr_run_plugins_text(void) {
  mr_text_out_t text;
  FILE *f = mr_text_out_open(&text);
  for (int p = 0; f && p < mr_plugin_count(); p++) {
    const char *file, *name = mr_plugin_at(p, &file)->name;
    fprintf(f, "%s %016" PRIx64 "\n", name, plugin_digest(file));
  }
  return mr_text_out_close(&text, f, NULL);
}

void mr_run_plugins_compare(const char *was, const char *now, char *said, size_t n) {
  for (const char *at = now, *end; (end = strchr(at, '\n')); at = end + 1) {
    char name[MR_WHERE_MAX], before[64];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(at, " \n"), at);
    size_t k = strlen(name), m = strlen(said);
    if (!mr_data_facts_of(was, name, before, sizeof before)) continue;
    if (at[k] != ' ' || !strncmp(at + k + 1, before, (size_t)(end - at) - k - 1)) continue;
    snprintf(said + m, n - m, "changed: plug-in %s: the bytes of its file: %s -> %.*s\n", name,
             before, (int)(end - at - 1) - (int)k, at + k + 1);
  }
}

/* ---- loading ---- */

static bool is_loaded(const char *name, int n) {
  for (int p = 0; p < mr_plugin_count(); p++) {
    const char *other = mr_plugin_at(p, NULL)->name;
    if ((int)strlen(other) == n && !strncmp(other, name, (size_t)n)) return true;
  }
  return false;
}

static bool lies_in(const char *file, const char *folder) {
  char a[PATH_MAX], b[PATH_MAX];
  size_t n;
  if (!realpath(file, a) || !realpath(folder, b)) return false;
  n = strlen(b);
  return !strncmp(a, b, n) && a[n] == '/';
}

static mr_err_t run_plugins_load(const mr_run_dir_t *r, const char *file, mr_diag_t *diag) {
  mr_diag_t why = {0};
  if (*file != '/')
    return mr_fail(diag, MR_ERR_USAGE,
                   "%s: plugin=%s: expected NAME and an absolute FILE; "
                   "--plugin FILE loads a plug-in",
                   r->path, file);
  if (lies_in(file, r->path))
    return mr_fail(diag, MR_ERR_UNAVAILABLE,
                   "%s: its settings name the plug-in %s, which lies in the run's own folder: code "
                   "from there is not loaded; --plugin %s loads it if you trust it",
                   r->path, file, file);
  mr_err_t e = mr_load_plugin(file, &why);
  if (e >= 0) return MR_OK;
  return mr_fail(diag, e,
                 "%s: the run needs a plug-in: %s; --plugin FILE names another file with it",
                 r->path, why.text);
}

mr_err_t mr_run_plugins_load(const mr_run_dir_t *r, mr_diag_t *diag) {
  for (int i = 0, n; i < r->n_settings; i++) {
    const char *name, *file = file_of(r, i, &name, &n);
    if (file && !is_replaced(r, i) && !is_loaded(name, n)) MR_TRY(run_plugins_load(r, file, diag));
  }
  return MR_OK;
}

mr_err_t mr_run_plugins_of_text(void *ctx, const char *origin, const char *file, mr_diag_t *diag) {
  const mr_run_dir_t *r = ctx;
  for (int i = 0; i < r->n_settings; i++)
    if (mr_run_plugin_is(r->setting[i])) return MR_OK;
  return mr_fail(diag, MR_ERR_UNAVAILABLE,
                 "plugin %s: the run's settings name no plug-in; --plugin FILE loads it", file);
}
