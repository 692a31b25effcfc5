/* Additional sinks for a run's metrics, requested by flags of train. */
#ifndef MR_APPS_FACES_H
#define MR_APPS_FACES_H

#include "apps/cli.h"
#include "apps/run_dir.h"

/* Rows for a command's table of flags. */
/* clang-format off */
#define MR_FACE_FLAGS                                                                              \
  {"--tensorboard", NULL, "Also writes event files for TensorBoard into RUN/tensorboard."},        \
  {"--prometheus", NULL, "Also serves metrics to Prometheus at 127.0.0.1:9464/metrics."},         \
  {"--web", NULL, "Also shows the run on a live page, and prints its address."}
/* clang-format on */

/* Appends a line to the graph of r for each of these flags that is given and whose stage the graph
   does not have yet, so that a resumed run keeps it.  MR_ERR_CONFIG if no stage of the graph
   produces metrics; MR_ERR_NOMEM; also failures of parsing the graph. */
mr_err_t mr_faces_add(const mr_args_t *a, mr_run_dir_t *r, mr_diag_t *diag);

#endif
