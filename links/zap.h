/* Which peers may connect to the CURVE servers of a ZeroMQ context: those whose public keys are on
   a list.  A thread answers libzmq's question about each peer (its protocol ZAP). */
#ifndef MR_LINKS_ZAP_H
#define MR_LINKS_ZAP_H

#include "base/err.h"

MR_BEGIN_DECLS

typedef struct mr_zap mr_zap_t;

enum { MR_ZAP_KEY = 32 }; /* bytes of a public key */

/* Starts the thread, once for a context of ZeroMQ and before its servers bind; key[n] is copied.
   The caller ends it by mr_zap_close.  MR_OK; MR_ERR_NOMEM also without sockets or threads;
   MR_ERR_IO if the context has such a thread already. */
mr_err_t mr_zap_open(void *context, const unsigned char (*key)[MR_ZAP_KEY], int n, mr_zap_t **out,
                     mr_diag_t *diag);
/* Before the context ends, and after its sockets are closed; NULL is fine. */
void mr_zap_close(mr_zap_t *z);

MR_END_DECLS

#endif
