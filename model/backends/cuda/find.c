/* Looks for a library in one folder after the other.  A library of a Python package lies in
   site-packages/nvidia/PACKAGE/lib, where PACKAGE changes from version to version, so that glob
   looks for it. */
#include "model/backends/cuda/find.h"

#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/library.h"

/* mr_library_open; of several files that cannot be loaded the first one's reason stays. */
static void *find_open(const char *file, char *path, size_t n) {
  char said[PATH_MAX];
  void *lib = mr_library_open(file, said, sizeof said);
  if (lib || !*path) snprintf(path, n, "%s", said);
  return lib;
}

/* In folders that a pattern of glob names, the last one first: its version is the newest. */
static void *find_in(const char *folders, const char *const *names, char *path, size_t n) {
  void *lib = NULL;
  for (int k = 0; names[k] && !lib; k++) {
    char pattern[PATH_MAX];
    glob_t found;
    if (snprintf(pattern, sizeof pattern, "%s/%s", folders, names[k]) >= (int)sizeof pattern ||
        glob(pattern, 0, NULL, &found))
      continue;
    for (size_t i = found.gl_pathc; i > 0 && !lib; i--)
      lib = find_open(found.gl_pathv[i - 1], path, n);
    globfree(&found);
  }
  return lib;
}

/* In a folder that a variable of the environment names, or in each of several. */
static void *find_by_variable(const char *variable, const char *below, const char *const *names,
                              char *path, size_t n) {
  const char *at = getenv(variable);
  void *lib = NULL;
  while (at && *at && !lib) {
    char folder[PATH_MAX];
    size_t len = strcspn(at, ":");
    int all = snprintf(folder, sizeof folder, "%.*s%s", (int)len, at, below);
    if (len && all < (int)sizeof folder) lib = find_in(folder, names, path, n);
    at += len + (at[len] == ':');
  }
  return lib;
}

#define PACKAGES "/lib/python3*/site-packages/nvidia/*/lib"

void *mr__cuda_find(const char *const *names, char *path, size_t n) {
  static const char *const usual[] = {"/usr/local/cuda/lib64",
                                      "/opt/cuda/lib64",
                                      "/usr/local/lib/python3*/[sd]i[ts][et]-packages/nvidia/*/lib",
                                      "/usr/lib/python3*/[sd]i[ts][et]-packages/nvidia/*/lib",
                                      "/usr/lib/python3/dist-packages/nvidia/*/lib",
                                      NULL};
  *path = 0;
  void *lib = find_by_variable("MILLRACE_CUDA_LIBRARIES", "", names, path, n);
  for (int k = 0; names[k] && !lib; k++) lib = find_open(names[k], path, n);
  for (int i = 0; i < 2 && !lib; i++) lib = find_in(usual[i], names, path, n);
  if (!lib) lib = find_by_variable("VIRTUAL_ENV", PACKAGES, names, path, n);
  if (!lib) lib = find_by_variable("CONDA_PREFIX", PACKAGES, names, path, n);
  if (!lib) lib = find_by_variable("HOME", "/.local" PACKAGES, names, path, n);
  for (int i = 2; usual[i] && !lib; i++) lib = find_in(usual[i], names, path, n);
  return lib;
}
