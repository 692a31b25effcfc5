/* link-in in a build without ZeroMQ: its name and ports, for messages. */
#include "pipeline/stage.h"

const mr_stage_def_t mr_stage_link_in = {
    .name = "link-in",
    .help = "Receives buffers from a link-out in another process or on another host.",
    .needs = "ZMQ",
    .in = {{"link", MR_FLOW_NONE, true}},
    .out = {{"out", MR_FLOW_NONE, false}},
};
