/* Remote objects in a build without libcurl.  Opening the engine refuses with the libraries to
   build with, so the other calls, which the linker needs, are never made. */
#include <assert.h>

#include "base/feature.h"
#include "loaders/remote_private.h"

mr_err_t mr__engine_open(mr__engine_t **out, const mr_remote_conf_t *conf, const char *region,
                         mr_diag_t *diag) {
  *out = NULL;
  return mr_without(diag, "URLs", "CURL");
}

void mr__engine_close(mr__engine_t *e) { assert(!e); }
void mr__engine_submit(mr__engine_t *e, mr__request_t *q) { assert(!"no engine is open"); }
void mr__engine_count(mr__engine_t *e, mr_remote_counts_t *out) { *out = (mr_remote_counts_t){0}; }

mr_err_t mr__engine_plain(const char *method, const char *url, const char *headers, char *text,
                          size_t n, mr_diag_t *diag) {
  return mr_without(diag, "URLs", "CURL");
}
