/* The index.json of a data set in a folder, local or at a URL, which names its files. */
#ifndef MR_LOADERS_FORMATS_INDEX_JSON_H
#define MR_LOADERS_FORMATS_INDEX_JSON_H

#include <cjson/cJSON.h>

#include "base/xio.h"
#include "loaders/remote/remote.h"

typedef struct mr_index_json {
  char path[MR_PATH_MAX];   /* of index.json, for sentences */
  char folder[MR_PATH_MAX]; /* with a final "/", or "" */
  bool remote;
  cJSON *json;
} mr_index_json_t;

/* Reads the index.json of a folder; name is the folder's or the file's, or the URL of one of them.
   The caller ends *x with mr_index_json_fini, also after a failure.  MR_ERR_CONFIG, MR_ERR_IO,
   MR_ERR_DATA if it is not JSON, MR_ERR_NOMEM. */
mr_err_t mr_index_json_read(mr_index_json_t *x, const char *name, const mr_remote_conf_t *conf,
                            mr_diag_t *diag);
void mr_index_json_fini(mr_index_json_t *x);

/* Writes the path of a file that the index names.  False if it is not a name, or leads out of the
   folder. */
bool mr_index_json_path(const mr_index_json_t *x, const cJSON *name, char out[MR_PATH_MAX]);

#endif
