/* What stages and calls are in a build without an optional library: listed, and refused with the
   reason. MR_WITHOUT_X is defined where mr_needs (cmake/features.cmake) finds X missing. */
#include "base/feature.h"
#include "pipeline/stage.h"
#include "sinks/alert_post.h"
#include "sinks/picture.h"

#ifdef MR_WITHOUT_MICROHTTPD
const mr_stage_def_t mr_stage_prometheus = {
    .name = "prometheus",
    .help = "Serves the newest metrics at /metrics for Prometheus.",
    .needs = "MICROHTTPD",
    .in = {{.name = "metrics", .flow = MR_FLOW_METRICS, .lossy = true}},
};

const mr_stage_def_t mr_stage_web = {
    .name = "web",
    .help = "Shows the run on a live page.",
    .needs = "MICROHTTPD",
    .in = {{.name = "metrics", .flow = MR_FLOW_METRICS, .lossy = true}},
};
#endif

#ifdef MR_WITHOUT_ZMQ
const mr_stage_def_t mr_stage_publish = {
    .name = "publish",
    .help = "Publishes metrics over ZeroMQ, one topic per metric.",
    .needs = "ZMQ",
    .in = {{.name = "metrics", .flow = MR_FLOW_METRICS, .lossy = true}},
};
#endif

#ifdef MR_WITHOUT_PROTOBUF
/* As in tensorboard.c. */
static const mr_hint_t missing_tensorboard_words[] = {
    {"summarywriter tensorboardlogger tensorboardcallback", "tensorboard dir=DIR", NULL}, {0}};

const mr_stage_def_t mr_stage_tensorboard = {
    .name = "tensorboard",
    .hint = missing_tensorboard_words,
    .help = "Writes metrics, histograms, pictures and settings as TensorBoard event files.",
    .needs = "PROTOBUF",
    .in = {{.name = "metrics", .flow = MR_FLOW_METRICS, .lossy = true}},
};
#endif

#ifdef MR_WITHOUT_CURL
mr_err_t mr_alert_post(const char *address, const char *kind, int64_t step, const char *text,
                       mr_diag_t *diag) {
  return mr_without(diag, "alert: webhook", "CURL");
}
#endif

#ifdef MR_WITHOUT_PNG
void *mr_png_of(const uint8_t *rgb, int width, int height, size_t *n) {
  *n = 0;
  return NULL;
}
#endif
