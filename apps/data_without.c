/* The command in a build without libcurl or libarchive: it is listed and fails with the reason. */
#include "apps/cli.h"

const mr_command_t mr_command_data = {
    .name = "data",
    .words = "fetch",
    .help = "Downloads CIFAR-10 (162 MB), verifies and unpacks it.",
    .more =
        "\nBy hand: cifar-10-binary.tar.gz from https://www.cs.toronto.edu/~kriz/cifar.html, "
        "unpacked into\n"
        "the folder data, where train looks for it.",
    .needs = "CURL ARCHIVE",
};
