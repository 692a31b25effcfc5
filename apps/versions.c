/* Writes two sections of doctor's report into a run's folder. */
#include "apps/versions.h"

#include <dnnl.h>
#include <gnu/libc-version.h>
#include <stdio.h>
#include <string.h>

#include "apps/doctor.h"
#include "base/xio.h"

mr_err_t mr_versions_save(const char *folder, mr_diag_t *diag) {
  char path[MR_PATH_MAX];
  cJSON *report = cJSON_CreateObject();
  mr_doctor_libraries(report);
  mr_doctor_processor(report);
  char *text = cJSON_Print(report);
  cJSON_Delete(report);
  if (!text) return mr_fail(diag, MR_ERR_NOMEM, "out of memory for versions");
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
