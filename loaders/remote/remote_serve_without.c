/* Answering peers in a build without libmicrohttpd or libcrypto: opening refuses with the reason,
   so that a process never counts as a peer that keeps blocks for others and cannot give them out.
 */
#include <assert.h>

#include "base/feature.h"
#include "loaders/remote/remote_peers.h"

mr_err_t mr__serve_open(mr__serve_t **out, const mr__peers_t *p, mr__serve_fn *fn, void *arg,
                        mr_diag_t *diag) {
  *out = NULL;
  return mr_without(diag, "setting peers", "MICROHTTPD");
}

void mr__serve_close(mr__serve_t *s) { assert(!s); }
