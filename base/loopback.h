/* Which addresses stay on this machine. */
#ifndef MR_BASE_LOOPBACK_H
#define MR_BASE_LOOPBACK_H

#include <stdbool.h>

/* "127.0.0.1" and its like, "::1", "[::1]" or "localhost"; no name that merely looks so. */
bool mr_host_is_loopback(const char *host);

/* A ZeroMQ address: ipc://ANYTHING, or tcp://HOST:PORT with such a host. */
bool mr_address_stays_here(const char *address);

#endif
