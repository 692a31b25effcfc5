/* `mem --pprof` in a build without protobuf-c: unavailable. */
#include "apps/mem_pprof.h"
#include "base/feature.h"

mr_err_t mr_mem_pprof(const mr_mem_report_t *r, const char *path, mr_diag_t *diag) {
  return mr_without(diag, "mem: --pprof", "PROTOBUF");
}
