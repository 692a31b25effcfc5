/* Names of remote objects, and the URLs at which they are requested. */
#ifndef MR_LOADERS_REMOTE_REMOTE_URL_H
#define MR_LOADERS_REMOTE_REMOTE_URL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/xio.h"

/* Returns whether name begins with http://, https:// or s3://.  Any thread. */
bool mr_remote_is(const char *name);

/* Returns a new string (heap, the caller frees it), NULL without memory: a local name as it is, the
   path of a file:// URL, a URL without user, password and query.  Any thread. */
char *mr_remote_shown(const char *name);

/* Returns a hash of the parameters in a URL's query, without those of signatures, which differ each
   time; 0 without any.  With the shown name it identifies an object.  Any thread. */
uint64_t mr_remote_query(const char *url);

/* Writes the URL at which the object s3://BUCKET/KEY is requested: below the endpoint if there is
   one (path style), else https://BUCKET.s3.REGION.amazonaws.com/KEY, or in path style for a bucket
   whose name has a dot.  Every byte of the key but letters, digits and "-._~/" is encoded.
   MR_ERR_CONFIG for a name without bucket or key, a wrong bucket, or a URL that is too long. */
mr_err_t mr__remote_s3_url(const char *name, const char *endpoint, const char *region,
                           char out[MR_PATH_MAX], mr_diag_t *diag);

/* Writes the URL of the bucket of s3://BUCKET/PREFIX in the same way, with a final slash, and sets
 *prefix to what follows the bucket in name, "" without anything.  Fails as mr__remote_s3_url. */
mr_err_t mr__remote_s3_bucket(const char *name, const char *endpoint, const char *region,
                              char out[MR_PATH_MAX], const char **prefix, mr_diag_t *diag);

/* Appends text to out[0,room) at *at, with every byte but letters, digits, "-._~" and, with
   slashes, "/" encoded, and a final NUL.  False if it does not fit. */
bool mr__remote_encode(char *out, size_t room, size_t *at, const char *text, bool slashes);

#endif
