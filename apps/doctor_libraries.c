/* The section of millrace doctor that says which libraries this process runs with. */
#include <archive.h>
#include <curl/curl.h>
#include <dnnl.h>
#include <gnu/libc-version.h>
#include <microhttpd.h>
#include <omp.h>
#include <openssl/crypto.h>
#include <xxhash.h>
#include <zmq.h>

#include "apps/doctor.h"

void mr_doctor_libraries(cJSON *report) {
  cJSON *s = cJSON_AddObjectToObject(report, "libraries");
  const dnnl_version_t *dnnl = dnnl_version();
  unsigned xxh = XXH_versionNumber();
  mr_doctor_say(s, "millrace", "%s", MR_VERSION);
  mr_doctor_say(s, "liburing", "%s (built with)", MR_LIBURING);
  mr_doctor_say(s, "oneDNN", "%d.%d.%d", dnnl->major, dnnl->minor, dnnl->patch);
  mr_doctor_say(s, "OpenMP", "%d threads", omp_get_max_threads());
  mr_doctor_say(s, "cJSON", "%s", cJSON_Version());
  mr_doctor_say(s, "xxHash", "%u.%u.%u", xxh / 10000, xxh / 100 % 100, xxh % 100);
  mr_doctor_say(s, "libcurl", "%s", curl_version_info(CURLVERSION_NOW)->version);
  int zmq[3];
  zmq_version(&zmq[0], &zmq[1], &zmq[2]);
  mr_doctor_say(s, "libzmq", "%d.%d.%d", zmq[0], zmq[1], zmq[2]);
  mr_doctor_say(s, "libmicrohttpd", "%s", MHD_get_version());
  mr_doctor_say(s, "libarchive", "%s", archive_version_string());
  mr_doctor_say(s, "libcrypto", "%s", OpenSSL_version(OPENSSL_VERSION));
  mr_doctor_say(s, "libc", "glibc %s", gnu_get_libc_version());
}
