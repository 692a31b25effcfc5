/* The stage in a build without libmicrohttpd: it is listed and fails with the reason. */
#include "pipeline/stage.h"

const mr_stage_def_t mr_stage_web = {
    .name = "web",
    .help = "Shows the run on a live page.",
    .needs = "MICROHTTPD",
    .in = {{.name = "metrics", .flow = MR_FLOW_METRICS, .lossy = true}},
};
