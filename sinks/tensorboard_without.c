/* The stage in a build without protobuf-c: it is listed and fails with the reason. */
#include "pipeline/stage.h"

const mr_stage_def_t mr_stage_tensorboard = {
    .name = "tensorboard",
    .help = "Writes metrics, histograms, pictures and settings as TensorBoard event files.",
    .needs = "PROTOBUF",
    .in = {{.name = "metrics", .flow = MR_FLOW_METRICS, .lossy = true}},
};
