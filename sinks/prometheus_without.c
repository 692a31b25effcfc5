/* The stage in a build without libmicrohttpd: it is listed and fails with the reason. */
#include "pipeline/stage.h"

const mr_stage_def_t mr_stage_prometheus = {
    .name = "prometheus",
    .help = "Serves the newest metrics at /metrics for Prometheus.",
    .needs = "MICROHTTPD",
    .in = {{.name = "metrics", .flow = MR_FLOW_METRICS, .lossy = true}},
};
