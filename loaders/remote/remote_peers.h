/* Processes of one job that share their caches: a block of an object is kept by one of them, its
   owner, and the others ask the owner, which fetches it from the server if it does not have it.

   A peer answers ranges of an object as a server does, with its size, ETag and time, so the engine
   checks its answers as it checks a server's (length, range, state).  Both ends prove that they
   know the job's token (remote_proof.h), which no message holds.  What fails is fetched from the
   server instead.  The order of records never depends on peers.

   Implemented in remote_peers.c; the answering end is remote_serve.c, or remote_serve_without.c. */
#ifndef MR_LOADERS_REMOTE_REMOTE_PEERS_H
#define MR_LOADERS_REMOTE_REMOTE_PEERS_H

#include "base/err.h"
#include "loaders/remote/object.h"
#include "loaders/remote/remote_conf.h"
#include "loaders/remote/remote_proof.h"

enum { MR_PEERS_MAX = 256, MR_PEER_TOKEN_MIN = 16, MR_PEER_PATH = 34 /* "/", 32 digits, NUL */ };

typedef struct mr__peers mr__peers_t;

/* Reads peer=, peers= and peer-token= of conf, for object[0,n), which must live until close; the
   numbers of the objects are their places in it.  The caller ends *out with mr__peers_close.
   MR_ERR_CONFIG for a malformed list or a missing token; MR_ERR_NOMEM. */
mr_err_t mr__peers_open(mr__peers_t **out, const mr_remote_conf_t *conf,
                        const mr_object_t *const *object, int n, mr_diag_t *diag);
void mr__peers_close(mr__peers_t *p); /* NULL is fine */

/* Waits until every peer answers.  No question is asked after `seconds`, and each takes at most
   two; a notice names each peer that has not answered by then.  Blocks. */
void mr__peers_wait(mr__peers_t *p, double seconds);

/* Returns whether something answers at this process's own address.  Blocks for two seconds at most.
 */
bool mr__peers_own_answers(const mr__peers_t *p);

enum { MR_PEER_GROUP = 16 }; /* blocks that have one owner, so that neighbours share requests */

/* Returns which peer keeps group `group` of blocks of an object; -1: this process.  It depends on
   the names of the peers and on the object's state alone (rendezvous hashing): when a peer is added
   or leaves, only its share moves. */
int mr__peers_owner(const mr__peers_t *p, const mr_object_t *o, int64_t group);

/* Returns the object as a peer serves it, which belongs to p; NULL if the peer has failed within
   the last seconds, or without memory: ask the server.  Any thread. */
const mr_object_t *mr__peers_object(mr__peers_t *p, int peer, const mr_object_t *o);

/* A request to the peer has failed: it is left alone for some seconds, and for longer each time
   until it answers.  The first time, a notice gives the reason.  Any thread. */
void mr__peers_failed(mr__peers_t *p, int peer, const char *why);
void mr__peers_answered(mr__peers_t *p, int peer);
bool mr__peers_rests(mr__peers_t *p, int peer); /* whether it is left alone now */

/* Returns the object of a request's path, "/" and its 32 digits; NULL for any other path.  It is
   one of those given to open, and its owner is the caller of open.  Any thread. */
const mr_object_t *mr__peers_find(const mr__peers_t *p, const char *path);

/* Returns what an exchange is about in which this process answers with bytes [at,at+n) of the
   object of a path, for its proofs; path must live as long as what is returned. */
mr_proof_about_t mr__peers_about(const mr__peers_t *p, const char *path, int64_t at, int64_t n);

/* Return HOST:PORT of this process, the number of peers with this process, and HOST:PORT of a peer,
   in [0,count).  The names are p's, valid until mr__peers_close. */
const char *mr__peers_own(const mr__peers_t *p);
int mr__peers_count(const mr__peers_t *p);
const char *mr__peers_name(const mr__peers_t *p, int peer);

/* ---- remote_serve.c ---- */

typedef struct mr__serve mr__serve_t;

/* Copies bytes [at,at+n) of an object to `to`, out of the cache or from the server.  Any thread;
   blocks. */
typedef mr_err_t mr__serve_fn(void *arg, const mr_object_t *o, int64_t at, int64_t n, uint8_t *to);

/* Answers peers at mr__peers_own, in threads of its own.  MR_ERR_IO if the address cannot be used,
   MR_ERR_CONFIG if this process answers there already, for another source; MR_ERR_UNAVAILABLE in a
   build without libmicrohttpd. */
mr_err_t mr__serve_open(mr__serve_t **out, const mr__peers_t *p, mr__serve_fn *fn, void *arg,
                        mr_diag_t *diag);
void mr__serve_close(mr__serve_t *s); /* NULL is fine; waits for answers in progress */

#endif
