/* One transfer of a request by libcurl: how it is prepared, what the server has said so far, and
   what becomes of it.  Used by the engine's thread alone.

   Implemented in remote_attempt.c, and remote_judge.c for the judgement. */
#ifndef MR_LOADERS_REMOTE_REMOTE_ATTEMPT_H
#define MR_LOADERS_REMOTE_REMOTE_ATTEMPT_H

#include <curl/curl.h>

#include "loaders/remote/remote_answer.h"
#include "loaders/remote/remote_engine.h"
#include "loaders/remote/remote_proof.h"

enum { MR__SAID_MAX = 2048, MR__SAID_MOST = 1 << 16 /* bytes of an error's text that are read */ };

/* Where a transfer's redirects may lead. */
typedef struct mr_redirect {
  CURL *easy;
  bool began_near, may_come_near; /* its first host, and its redirects, are of this machine */
  bool astray;                    /* one was not followed because it may not come near */
} mr_redirect_t;

/* One transfer of a request. */
typedef struct mr__attempt {
  mr__request_t *q;
  CURL *easy;
  struct curl_slist *headers;
  uint8_t *to;                    /* where its bytes go: q->to, or its own room */
  uint8_t *own;                   /* heap; NULL: none */
  int64_t got, begun_ns, last_ns; /* last_ns: of bytes that were asked for */
  int64_t floor_ns, floor_got;    /* when the rate was last looked at, and got then; first by the
                                     first byte */
  char said[MR__SAID_MAX];        /* the beginning of an error's text */
  int64_t n_said;                 /* bytes of that text, which may be longer than what is kept */
  long status;
  mr_remote_span_t span;
  mr_remote_sum_t sum;
  bool has_span, encoded, too_long, refused; /* refused: the body is not wanted */
  bool wrong_etag;
  mr_redirect_t redirect;
  char asked[MR_PROOF_TEXT], proof[MR_PROOF_TEXT]; /* of an exchange with a peer */
  char etag[256], region[64], reason[CURL_ERROR_SIZE];
  int64_t mtime_ns;         /* 0: not said */
  struct mr__attempt *next; /* in the list of those in flight */
} mr__attempt_t;

/* Prepares a transfer of q but for its headers; `own`: with room of its own, if the bytes matter,
   since q's other transfer writes to q->to.  Of conf, the time to connect and the redirects that
   are followed.  NULL without memory.
 */
mr__attempt_t *mr__attempt_new(mr__request_t *q, bool own, const mr_remote_conf_t *conf);
void mr__attempt_free(mr__attempt_t *a); /* it must be in no multi handle */

/* What a request to a peer is about, for its proofs. */
mr_proof_about_t mr__attempt_about(const mr__request_t *q);

/* Makes a transfer accept what the files of SSL_CERT_FILE and SSL_CERT_DIR certify, if they are
 * set. */
void mr__remote_certificates(CURL *c);
/* Allows http and https, and no redirect from https to http: what was asked for by an https:// name
   must not come in clear.  url: the first one. */
void mr__remote_schemes(CURL *c, const char *url);
/* Lets no redirect of a transfer lead from a host elsewhere to this machine or its link, unless it
   may come near.  Fills *r, which lives as long as c. */
void mr__remote_stay(CURL *c, mr_redirect_t *r, bool may_come_near);
extern const char mr__remote_astray[]; /* the sentence about r->astray, without what to do */
/* Whether an address, as libcurl writes it, is of this machine or of its link alone: loopback,
   link-local, or unspecified, which is loopback too. */
bool mr__remote_is_near(const char *ip);
/* Returns why a transfer has failed, for people: `reason` is what libcurl wrote, or "".  It lives
   as long as reason. */
const char *mr__remote_reason(CURLcode code, const char *reason);

/* Writes the code of an error of S3, "ExpiredToken", into code[64]; false, and "", without one. */
bool mr__attempt_code(const mr__attempt_t *a, char code[64]);

/* Whether that code says that the credentials are no longer good: newer ones may be. */
bool mr__attempt_expired(const mr__attempt_t *a);

typedef enum mr__verdict { MR__USE, MR__AGAIN, MR__FAIL } mr__verdict_t;

/* Judges a transfer that has ended with `code`: whether its bytes are those that were asked for,
   the failure may pass, or it is final.  *diag gets the reason, but for MR__USE. */
mr__verdict_t mr__attempt_judge(mr__attempt_t *a, CURLcode code, mr_diag_t *diag);

#endif
