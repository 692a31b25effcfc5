/* Addresses of ZeroMQ: which are any, and which stay on this machine. */
#ifndef MR_BASE_LOOPBACK_H
#define MR_BASE_LOOPBACK_H

#include <stdbool.h>

#include "base/err.h"

/* "127.0.0.1" and its like, "::1", "[::1]" or "localhost"; no name that merely looks so. */
bool mr_host_is_loopback(const char *host);

/* ipc://ANYTHING, or tcp://HOST:PORT with a port in [1,65535] or *, which takes a free one. Whether
   there is such a host only binding or connecting shows. */
bool mr_address_is_one(const char *address);

/* Such an address: ipc://ANYTHING, or tcp://HOST:PORT with such a host. */
bool mr_address_stays_here(const char *address);

/* Before ipc://FILE is bound, whose file the binding replaces: removes the socket that a killed
   process has left there.  MR_ERR_IO, and nothing removed: a process listens there, or the file is
   no socket.  MR_OK for any other address. */
mr_err_t mr_address_make_free(const char *address, mr_diag_t *diag);

#endif
