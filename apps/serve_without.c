/* The command in a build without ZeroMQ: it is listed and fails with the reason. */
#include "apps/cli.h"

const mr_command_t mr_command_serve = {
    .name = "serve",
    .words = "GRAPH|FILE [KEY=VALUE...]",
    .help = "Serves the batches of a graph to remote trainers, one shard each.",
    .needs = "ZMQ",
};
