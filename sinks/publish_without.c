#include "pipeline/stage.h"

const mr_stage_def_t mr_stage_publish = {
    .name = "publish",
    .help = "Publishes metrics over ZeroMQ, one topic per metric.",
    .needs = "ZMQ",
    .in = {{.name = "metrics", .flow = MR_FLOW_METRICS, .lossy = true}},
};
