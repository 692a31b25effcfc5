/* The stages of this room in a build without ZeroMQ: their names and ports, for messages.  Opening
   one fails with the sentence of base/feature.h. */
#include "pipeline/stage.h"

#if defined(MR_WITHOUT_ZMQ)
const mr_stage_def_t mr_stage_broadcast = {
    .name = "broadcast",
    .help = "Publishes buffers to any number of subscribers, and waits for none.",
    .needs = "ZMQ",
    .in = {{.name = "in", .lossy = true}},
};

const mr_stage_def_t mr_stage_link_in = {
    .name = "link-in",
    .role = MR_ROLE_LINK_IN,
    .help = "Receives buffers from a link-out in another process or on another host.",
    .needs = "ZMQ",
    .in = {{"link", MR_FLOW_NONE, true}},
    .out = {{"out", MR_FLOW_NONE, false}},
};

const mr_stage_def_t mr_stage_link_out = {
    .name = "link-out",
    .role = MR_ROLE_LINK_OUT,
    .help = "Sends buffers to a link-in in another process or on another host.",
    .needs = "ZMQ",
    .in = {{.name = "in", .leaves = true}},
    .out = {{"link", MR_FLOW_NONE, true}},
};

const mr_stage_def_t mr_stage_source = {
    .name = "source",
    .help =
        "Receives the batches of `millrace serve` or of a broadcast in another process or on "
        "another host.",
    .needs = "ZMQ",
    .out = {{"out", MR_FLOW_BATCHES, false}},
};
#endif
