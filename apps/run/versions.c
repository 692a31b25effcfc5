/* The libraries and the processor that a run's bits depend on, as a file of the run's folder and as
   a line. */
#include "apps/run/versions.h"

#include <cjson/cJSON.h>
#include <dnnl.h>
#include <gnu/libc-version.h>
#include <stdio.h>
#include <string.h>

#include "apps/run/machine_report.h"
#include "base/xio.h"

mr_err_t mr_versions_save(const char *folder, mr_diag_t *diag) {
  char path[MR_PATH_MAX];
  cJSON *report = cJSON_CreateObject();
  mr_report_libraries(report);
  mr_report_processor(report);
  char *text = cJSON_Print(report);
  cJSON_Delete(report);
  if (!text) return mr_no_memory(diag, "versions");
  snprintf(path, sizeof path, "%s/versions.json", folder);
  mr_err_t e = mr_write_file(path, text, strlen(text), diag);
  cJSON_free(text);
  return e;
}

const char *mr_versions_line(void) {
  static char line[128];
  const dnnl_version_t *dnnl = dnnl_version();
  snprintf(line, sizeof line, "millrace %s, oneDNN %d.%d.%d, glibc %s", MR_VERSION, dnnl->major,
           dnnl->minor, dnnl->patch, gnu_get_libc_version());
  return line;
}
