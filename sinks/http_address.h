/* The file that keeps a live page's address with its token, for the page of a resumed run and for
   `millrace top`.  Only its owner can read it. */
#ifndef MR_SINKS_HTTP_ADDRESS_H
#define MR_SINKS_HTTP_ADDRESS_H

#include <stdbool.h>

#include "base/err.h"

enum { MR_HTTP_TOKEN = 33 }; /* bytes of a token: 32 hexadecimal digits and the end */

/* Reads a file that mr_http_address_write has written into token and *port.  Returns false, with
   both unchanged, if the file is missing or has other contents, or if another user owns it or may
   read or write it, because its token is no secret then. */
bool mr_http_address_read(const char *path, char token[MR_HTTP_TOKEN], int *port);

/* Writes url and a newline to path, mode 0600, whole or not at all.  MR_ERR_IO on failure. */
mr_err_t mr_http_address_write(const char *path, const char *url, mr_diag_t *diag);

#endif
