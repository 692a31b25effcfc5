/* The calls of pprof.h in a build without protobuf-c: a profile is nothing, and saving it says
   which library is missing, so that callers need not ask before. */
#include "base/feature.h"
#include "model/call/pprof.h"

mr_pprof_t *mr_pprof_create(void) { return NULL; }

void mr_pprof_add(mr_pprof_t *p, int n, const char *const *name, int64_t bytes) {}

mr_err_t mr_pprof_save(mr_pprof_t *p, const char *what, const char *path, mr_diag_t *diag) {
  return mr_without(diag, what, "PROTOBUF");
}
