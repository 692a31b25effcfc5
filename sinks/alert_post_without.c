/* Alerts in a build without libcurl: posting is unavailable. */
#include "base/feature.h"
#include "sinks/alert_post.h"

mr_err_t mr_alert_post(const char *address, const char *kind, int64_t step, const char *text,
                       mr_diag_t *diag) {
  return mr_without(diag, "alert: webhook", "CURL");
}
