/* link-out in a build without ZeroMQ: its name and ports, for messages. */
#include "pipeline/stage.h"

const mr_stage_def_t mr_stage_link_out = {
    .name = "link-out",
    .help = "Sends buffers to a link-in in another process or on another host.",
    .needs = "ZMQ",
    .in = {{.name = "in", .leaves = true}},
    .out = {{"link", MR_FLOW_NONE, true}},
};
