/* What listings ask of an open remote source. */
#ifndef MR_LOADERS_REMOTE_REMOTE_PRIVATE_H
#define MR_LOADERS_REMOTE_REMOTE_PRIVATE_H

#include "base/xio.h"
#include "loaders/remote/remote.h"
#include "loaders/remote/remote_engine.h"

/* Requests url (heap or not, the caller's), called name in sentences, whole, into *page, whose
   `most` is set; the caller frees page->data, also after a failure.  Blocks; fails as
   mr_remote_object, without MR_ERR_DATA for ranges. */
mr_err_t mr__remote_page(mr_remote_t *r, const char *url, const char *name, bool s3,
                         mr__page_t *page, mr_diag_t *diag);

/* Writes the URL of the bucket as mr__remote_s3_bucket does, with r's endpoint and region. */
mr_err_t mr__remote_bucket(const mr_remote_t *r, const char *name, char out[MR_PATH_MAX],
                           const char **prefix, mr_diag_t *diag);

#endif
