/* How peers prove to each other that they know the token of peers=, without sending it: each signs
   what it says by HMAC-SHA256, with the other one's nonce in it, so that neither a stranger at the
   port nor one who listens or changes bytes on the way can ask, answer, or answer by what was
   recorded.  A request proves which range of which object is asked of which peer; an answer, that
   its bytes are of that range. */
#ifndef MR_LOADERS_REMOTE_REMOTE_PROOF_H
#define MR_LOADERS_REMOTE_REMOTE_PROOF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
  MR_NONCE_TEXT = 33, /* 16 random bytes in hexadecimal digits, and a NUL */
  MR_PROOF_TEXT = 98  /* a nonce, a space, 64 digits, and a NUL */
};

/* What an exchange is about.  All texts live as long as the call. */
typedef struct mr_proof_about {
  const char *token;
  const char *peer; /* HOST:PORT of the one that answers, as peers= names it */
  const char *path; /* of the object in its state, with the slash */
  int64_t at, size; /* bytes [at,at+size) of it */
} mr_proof_about_t;

/* Draws a nonce and writes the header's value that a request carries as its Authorization, without
   "Millrace "; the value begins with the nonce.  False if this machine gives no random bytes or no
   HMAC. */
bool mr__proof_ask(const mr_proof_about_t *about, char out[MR_PROOF_TEXT]);

/* Whether such a value proves the token for this request; false for any other text or NULL. */
bool mr__proof_asked(const mr_proof_about_t *about, const char *text);

/* Writes the value of an answer's header Millrace-Proof over data[0,about->size): a nonce of its
   own, and the proof.  `asked` is the request's value, which mr__proof_asked has accepted.  False
   as mr__proof_ask. */
bool mr__proof_answer(const mr_proof_about_t *about, const char *asked, const void *data,
                      char out[MR_PROOF_TEXT]);

/* Whether such a value proves the token for these bytes as the answer to `asked`. */
bool mr__proof_answered(const mr_proof_about_t *about, const char *asked, const void *data,
                        const char *text);

#endif
