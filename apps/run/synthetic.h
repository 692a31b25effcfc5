/* Synthetic records in place of a data set: data=synthetic. */
#ifndef MR_APPS_RUN_SYNTHETIC_H
#define MR_APPS_RUN_SYNTHETIC_H

#include "pipeline/graph/graph.h"

/* Whether a value of data= names the source that makes records up (MR_ROLE_SYNTHETIC), NULL not. */
bool mr_is_synthetic(const char *data);

/* If data is such a name, replaces every source of classes (MR_ROLE_CLASSES) of the graph by that
   source.  MR_OK, also without such a source; MR_ERR_NOMEM. */
mr_err_t mr_graph_use_synthetic(mr_graph_t *g, const char *data, mr_diag_t *diag);

#endif
