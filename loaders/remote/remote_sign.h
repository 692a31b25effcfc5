/* Credentials and region for s3. */
#ifndef MR_LOADERS_REMOTE_REMOTE_SIGN_H
#define MR_LOADERS_REMOTE_REMOTE_SIGN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum { MR_SECRET_MAX = 256, MR_TOKEN_MAX = 4096 };

typedef struct mr_credentials {
  char key[MR_SECRET_MAX], secret[MR_SECRET_MAX], token[MR_TOKEN_MAX]; /* token: "" without one */
  int64_t until_s; /* seconds since 1970 at which they end; 0: they do not */
} mr_credentials_t;

/* Sends one small request, for instance metadata.  headers: lines joined by \n, or NULL.  Fills
   text[0,n) with the body, NUL-terminated.  MR_ERR_IO with a sentence. */
typedef mr_err_t mr_plain_request_fn(const char *method, const char *url, const char *headers,
                                     char *text, size_t n, mr_diag_t *diag);

/* Finds credentials as Amazon's tools do: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, the profile
   AWS_PROFILE in AWS_SHARED_CREDENTIALS_FILE and AWS_CONFIG_FILE, instance metadata (IMDSv2).
   MR_ERR_CONFIG with a sentence that names these places if none has them; no sentence holds a
   secret. */
mr_err_t mr__remote_credentials(mr_credentials_t *out, mr_plain_request_fn *plain, mr_diag_t *diag);

/* Writes the region of the environment or the profile into out[0,n), else "us-east-1". */
void mr__remote_region(char *out, size_t n);

/* Finds `key` in section [section] of a file of settings in memory, text[0,size); copies its value
   to out[0,n).  False without it, or if it does not fit. */
bool mr__remote_ini(const char *text, size_t size, const char *section, const char *key, char *out,
                    size_t n);

/* Parses the answer of instance metadata into *out.  False if it is malformed. */
bool mr__remote_parse_metadata(const char *text, mr_credentials_t *out);

#endif
