#include "pipeline/stage.h"

const mr_stage_def_t mr_stage_tensorboard = {
    .name = "tensorboard",
    .help = "Writes metrics, histograms, pictures and settings as TensorBoard event files.",
    .needs = "PROTOBUF",
    .in = {{.name = "metrics", .flow = MR_FLOW_METRICS, .lossy = true}},
};
