#include "pipeline/stage.h"

const mr_stage_def_t mr_stage_broadcast = {
    .name = "broadcast",
    .help = "Publishes buffers to subscribers that come and go and never hold it back.",
    .needs = "ZMQ",
    .in = {{.name = "in", .lossy = true}},
};
