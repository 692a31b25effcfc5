/* The stage in a build without ZeroMQ: it is listed and fails with the reason. */
#include "pipeline/stage.h"

const mr_stage_def_t mr_stage_publish = {
    .name = "publish",
    .help = "Publishes metrics over ZeroMQ, one topic per metric.",
    .needs = "ZMQ",
    .in = {{.name = "metrics", .flow = MR_FLOW_METRICS, .lossy = true}},
};
