/* The command in a build without ZeroMQ: it is listed and fails with the reason. */
#include "apps/cli.h"

const mr_command_t mr_command_keys = {
    .name = "keys",
    .words = "NAME",
    .help = "Generates the keys of a link between hosts: NAME.key (secret) and NAME.pub.",
    .needs = "ZMQ",
};
