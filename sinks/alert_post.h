/* Sends an alert as a POST request.  Implemented in alert_post.c, and in without.c in a build
   without libcurl. */
#ifndef MR_SINKS_ALERT_POST_H
#define MR_SINKS_ALERT_POST_H

#include <stdint.h>

#include "base/err.h"

/* Posts {"alert": kind, "step": step, "text": text} to an http or https address.  Blocks for at
   most ten seconds.  MR_OK once a response has arrived, whatever its status; MR_ERR_IO with
   libcurl's reason; MR_ERR_NOMEM; MR_ERR_UNAVAILABLE in a build without libcurl. */
mr_err_t mr_alert_post(const char *address, const char *kind, int64_t step, const char *text,
                       mr_diag_t *diag);

#endif
