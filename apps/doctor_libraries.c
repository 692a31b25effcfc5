/* The section of millrace doctor about libraries: those this process runs with, and those that the
   build left out. */
#include <dnnl.h>
#include <gnu/libc-version.h>
#include <omp.h>
#include <xxhash.h>

#include "apps/doctor.h"
#include "base/feature.h"

void mr_doctor_libraries(cJSON *report) {
  cJSON *s = cJSON_AddObjectToObject(report, "libraries");
  const dnnl_version_t *dnnl = dnnl_version();
  unsigned xxh = XXH_versionNumber();
  mr_doctor_say(s, "millrace", "%s", MR_VERSION);
  mr_doctor_say(s, "libc", "glibc %s", gnu_get_libc_version());
  mr_doctor_say(s, "oneDNN", "%d.%d.%d", dnnl->major, dnnl->minor, dnnl->patch);
  mr_doctor_say(s, "OpenMP", "%d threads", omp_get_max_threads());
  mr_doctor_say(s, "cJSON", "%s", cJSON_Version());
  mr_doctor_say(s, "xxHash", "%u.%u.%u", xxh / 10000, xxh / 100 % 100, xxh % 100);
  for (const mr_feature_t *f = mr_features; f->name; f++) {
    if (f->version)
      mr_doctor_say(s, f->library, "%s (built with)", f->version);
    else
      mr_doctor_say(s, f->library,
                    "not built in (%s): install %s and build with -DMILLRACE_WITH_%s=ON", f->gives,
                    f->packages, f->name);
  }
}
