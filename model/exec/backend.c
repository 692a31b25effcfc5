/* The table of backends, made from backends.def; the first is the default.  Nothing else in exec
   names a backend. */
#include "model/exec/backend.h"

#include <string.h>

#define MR_BACKEND(name) extern const mr_backend_t mr_backend_##name;
#include "model/exec/backends.def"
#undef MR_BACKEND

const mr_backend_t *const mr_backends[] = {
#define MR_BACKEND(name) &mr_backend_##name,
#include "model/exec/backends.def"
#undef MR_BACKEND
    NULL};

const mr_backend_t *mr_backend_find(const char *name) {
  for (int i = 0; mr_backends[i]; i++)
    if (!strcmp(mr_backends[i]->name, name)) return mr_backends[i];
  return NULL;
}

void mr_backends_leave(void) {
  for (int i = 0; mr_backends[i]; i++)
    if (mr_backends[i]->team) mr_backends[i]->team->leave();
}
