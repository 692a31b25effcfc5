/* broadcast in a build without ZeroMQ: its name and ports, for messages. */
#include "pipeline/stage.h"

const mr_stage_def_t mr_stage_broadcast = {
    .name = "broadcast",
    .help = "Publishes buffers to any number of subscribers, and waits for none.",
    .needs = "ZMQ",
    .in = {{.name = "in", .lossy = true}},
};
