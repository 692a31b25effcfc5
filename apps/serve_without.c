#include "apps/cli.h"

const mr_command_t mr_command_serve = {
    .name = "serve",
    .words = "GRAPH|FILE [KEY=VALUE...]",
    .help = "Gives the batches of a graph to trainers elsewhere, each its shard.",
    .needs = "ZMQ",
};
