/* What a server's latency and bandwidth are. */
#ifndef MR_LOADERS_REMOTE_REMOTE_MEASURE_H
#define MR_LOADERS_REMOTE_REMOTE_MEASURE_H

#include <stdint.h>

#include "loaders/remote/object.h"
#include "loaders/remote/remote_conf.h"
#include "pipeline/stage_source.h"

/* Measures the latency, and the rate of requests of `size` bytes with 1, 4, 16, ... connections up
   to conf's, `seconds` each; sets latency_s, n and at of *out.  Fails as the first request that
   does. Blocks. */
mr_err_t mr__remote_measure(const mr_remote_conf_t *conf, const char *region,
                            const mr_object_t *const *object, int n, int64_t size, double seconds,
                            mr_served_t *out, mr_diag_t *diag);

#endif
