/* Optional libraries.  A `needs` list such as "CURL ARCHIVE" is walked word by word against the
   table that CMake generates; what the table lacks becomes a sentence that names the library, its
   Debian packages and the option to build with. */
#include "base/feature.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

/* The row whose name is [s,s+n), or NULL. */
static const mr_feature_t *feature_find(const char *s, size_t n) {
  for (const mr_feature_t *f = mr_features; f->name; f++)
    if (strlen(f->name) == n && !memcmp(f->name, s, n)) return f;
  return NULL;
}

static const char *after_word(const char *s) {
  s += strcspn(s, " ");
  return s + strspn(s, " ");
}

bool mr_are_features(const char *needs) {
  for (; needs && *needs; needs = after_word(needs))
    if (!feature_find(needs, strcspn(needs, " "))) return false;
  return true;
}

/* The next row that *needs names and this build lacks, or NULL; *needs advances past its name. */
static const mr_feature_t *next_lacking(const char **needs) {
  while (*needs && **needs) {
    const mr_feature_t *f = feature_find(*needs, strcspn(*needs, " "));
    *needs = after_word(*needs);
    assert(f);
    if (!f->version) return f;
  }
  return NULL;
}

bool mr_built_in(const char *needs) { return !next_lacking(&needs); }

/* Writes "libcurl and libarchive". */
static void name_libraries(const char *needs, char *text, size_t n) {
  size_t at = 0;
  *text = 0;
  for (const mr_feature_t *f; at < n && (f = next_lacking(&needs));)
    at += (size_t)snprintf(text + at, n - at, "%s%s", at ? " and " : "", f->library);
}

const char *mr_lacking_note(const char *needs, char *text, size_t n) {
  char library[MR_LACKING_MAX];
  *text = 0;
  if (mr_built_in(needs)) return text;
  name_libraries(needs, library, sizeof library);
  snprintf(text, n, " Not built in (no %s).", library);
  return text;
}

mr_err_t mr_without(mr_diag_t *diag, const char *what, const char *needs) {
  char library[MR_LACKING_MAX], packages[256] = "", options[256] = "";
  size_t p = 0, o = 0;
  name_libraries(needs, library, sizeof library);
  for (const mr_feature_t *f; (f = next_lacking(&needs));) {
    if (p < sizeof packages)
      p += (size_t)snprintf(packages + p, sizeof packages - p, " %s", f->packages);
    if (o < sizeof options)
      o += (size_t)snprintf(options + o, sizeof options - o, " -D%s=ON", f->option);
  }
  return mr_fail(diag, MR_ERR_UNAVAILABLE,
                 "%s: this millrace was built without %s; install%s and build with%s", what,
                 library, packages, options);
}
