/* dlopen and dlsym.  A library that is missing is usual, one that cannot be loaded is a mistake of
   the machine: the loader tells them apart in its sentence alone. */
#include "base/library.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* The loader says "FILE: cannot open shared object file: No such file or directory" of the file
   itself, and of another one that this file needs. */
static bool is_of_absence(const char *reason, const char *file) {
  const char *none = strerror(ENOENT);
  size_t n = strlen(reason), head = strlen(file), tail = strlen(none);
  return !strncmp(reason, file, head) && reason[head] == ':' && n >= tail &&
         !strcmp(reason + n - tail, none);
}

void *mr_library_open(const char *file, char *path, size_t n) {
  struct link_map *map = NULL;
  void *lib = dlopen(file, RTLD_NOW | RTLD_LOCAL);
  if (lib) {
    bool known = !dlinfo(lib, RTLD_DI_LINKMAP, &map) && map && *map->l_name;
    snprintf(path, n, "%s", known ? map->l_name : file);
    return lib;
  }
  const char *reason = dlerror();
  snprintf(path, n, "%s", reason && !is_of_absence(reason, file) ? reason : "");
  return NULL;
}

const char *mr_library_calls(void *lib, const mr_library_call_t *call, void *table) {
  const char *missing = lib ? NULL : "";
  for (; lib && call->name; call++) {
    void *at = dlsym(lib, call->name);
    if (!at && !missing) missing = call->name;
    memcpy((char *)table + call->at, &at, sizeof at); /* a pointer to a function is as large */
  }
  return missing;
}
