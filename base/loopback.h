/* ZeroMQ addresses: which are well formed, and which stay on this machine. */
#ifndef MR_BASE_LOOPBACK_H
#define MR_BASE_LOOPBACK_H

#include <stdbool.h>

#include "base/err.h"

/* Returns true for 127.0.0.0/8, "::1", "[::1]" and "localhost", false for any other name.  Resolves
   nothing. */
bool mr_host_is_loopback(const char *host);

/* Returns whether address is ipc://ANYTHING, or tcp://HOST:PORT with a port in [1,65535] or *,
   which takes a free one.  Only binding or connecting shows whether the host exists. */
bool mr_address_is_one(const char *address);

/* Returns whether address is ipc://ANYTHING, or tcp://HOST:PORT with a loopback host. */
bool mr_address_stays_here(const char *address);

/* The rule of every listener, who may connect to it: what listens at an address of this machine
   alone (HOST, or tcp://HOST:PORT with a loopback host, or ipc://ANYTHING) takes connections
   without a proof, those of ipc from this user; true for any other address, at which each
   connection must prove itself by a key, or by a token within TLS; without one the
   listener is refused before it binds.  (Peers that share caches prove themselves on this machine
   too.)  tests/apps/test_flood.c asks every listener. */
bool mr_needs_proof(const char *address);

/* Call it before binding ipc://FILE, because binding replaces FILE.  Removes the socket file that a
   killed process has left there.  MR_ERR_IO if a process listens there, if the file is no socket or
   cannot be removed; nothing is removed then.  MR_OK for any other address. */
mr_err_t mr_address_make_free(const char *address, mr_diag_t *diag);

#endif
