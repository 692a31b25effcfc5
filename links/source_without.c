/* source in a build without ZeroMQ: its name and ports, for messages. */
#include "pipeline/stage.h"

const mr_stage_def_t mr_stage_source = {
    .name = "source",
    .help =
        "Receives the batches of `millrace serve` or of a broadcast in another process or on "
        "another host.",
    .needs = "ZMQ",
    .out = {{"out", MR_FLOW_BATCHES, false}},
};
