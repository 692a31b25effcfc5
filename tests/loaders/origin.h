/* A server of objects for tests: answers ranges from memory, and misbehaves in ways drawn from a
   seed.  It takes a free port of its own. */
#ifndef MR_TESTS_LOADERS_ORIGIN_H
#define MR_TESTS_LOADERS_ORIGIN_H

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/evp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "loaders/remote/remote_proof.h"
#include "tests/random.h"

/* Ways to answer.  The first are passing troubles, after which the same request is answered. */
typedef enum origin_way {
  ORIGIN_BUSY,    /* 503 with Retry-After */
  ORIGIN_CUT,     /* the connection ends within the body */
  ORIGIN_SILENT,  /* nothing more comes after the head */
  ORIGIN_CORRUPT, /* a changed byte, and the digest of the right ones */
  ORIGIN_DROP,    /* no answer at all */
  ORIGIN_TROUBLES,
  ORIGIN_WELL = ORIGIN_TROUBLES,
  ORIGIN_WHOLE,   /* ignores the range */
  ORIGIN_OTHER,   /* other bytes than asked for */
  ORIGIN_SHORT,   /* fewer bytes than the range says */
  ORIGIN_LONG,    /* more */
  ORIGIN_PACKED,  /* says that it compresses */
  ORIGIN_MISSING, /* 404, as for every index of tokens */
  ORIGIN_CHANGED, /* another ETag, if the request wants none */
  ORIGIN_CONTROL, /* a control character in the ETag */
  ORIGIN_DRIP,    /* a byte of the body now and then */
  ORIGIN_TALK,    /* an error whose text has no end */
  ORIGIN_WAIT,    /* 100 Continue without end */
  ORIGIN_CODE,    /* an error with a status and a code as S3 gives */
} origin_way_t;

typedef struct origin {
  int fd, port;
  const uint8_t *data;
  size_t n;
  pthread_t thread;
  const char *_Atomic token,
      *_Atomic peer; /* what it proves in its answers as this peer of a job; NULL: nothing */
  const char *_Atomic expired; /* a request with it is answered as S3 does to an old token */
  const char *_Atomic secret;  /* NULL, or a text that no request may hold */
                               /* of ORIGIN_CODE */
  atomic_int code_status;
  const char *_Atomic code;
  atomic_bool leaked;       /* one did */
  const char *_Atomic lead; /* where it redirects every request; NULL: nowhere */
  atomic_int empty;         /* pages without a file before the last one of a listing */
  const char *json; /* what it answers for index.json; NULL: the same bytes as for all paths */
  bool (*_Atomic holds)(void); /* NULL, or asked before each answer: true holds it back for ever */
  atomic_int trouble;          /* percent of requests that meet a trouble */
  atomic_int way;              /* what all others meet */
  atomic_int etag;             /* the object's state */
  atomic_bool dated;           /* only the time shows that the object has changed */
  atomic_bool weak;            /* with dated: there is an ETag, a weak one that never changes */
  atomic_bool stateless;       /* neither ETag nor time */
  atomic_int requests;
  atomic_llong sent;    /* bytes of bodies */
  atomic_llong claims;  /* the size that it says, if not 0 */
  pthread_mutex_t lock; /* guards the members below */
  pthread_cond_t left;  /* a client has left */
  struct origin_client *clients;
  round_t random;
} origin_t;

typedef struct origin_client {
  origin_t *o;
  int fd;
  struct origin_client *next;
} origin_client_t;

static inline bool origin_send(int fd, const void *data, size_t n) {
  for (size_t at = 0; at < n;) {
    ssize_t k = send(fd, (const char *)data + at, n - at, MSG_NOSIGNAL);
    if (k <= 0) return false;
    at += (size_t)k;
  }
  return true;
}

static inline bool origin_head(int fd, int status, const char *more) {
  char head[800];
  int n = snprintf(head, sizeof head, "HTTP/1.1 %d x\r\n%s\r\n", status, more);
  return origin_send(fd, head, (size_t)n);
}

/* Sends a part again and again, with a pause, until the client gives up. */
static inline bool origin_repeat(int fd, const char *part, size_t n, useconds_t pause) {
  while (origin_send(fd, part, n)) usleep(pause);
  return false;
}

/* Answers one request; false: the connection is to be ended. */
static inline bool origin_answer(origin_t *o, int fd, const char *text) {
  char more[700], digest[100];
  unsigned char sum[32];
  bool json = o->json && strstr(text, "/index.json HTTP/");
  const uint8_t *data = json ? (const uint8_t *)o->json : o->data;
  size_t whole = json ? strlen(o->json) : o->n;
  long long first = 0, last = (long long)whole - 1;
  const char *range = strcasestr(text, "\r\nrange: bytes=");
  if (range) sscanf(range + 15, "%lld-%lld", &first, &last);
  if (last >= (long long)whole) last = (long long)whole - 1;
  pthread_mutex_lock(&o->lock);
  bool trouble = (int)draw(&o->random, 100) < o->trouble;
  int way = trouble ? (int)draw(&o->random, ORIGIN_TROUBLES) : o->way;
  pthread_mutex_unlock(&o->lock);
  o->requests++;
  char etag[32];
  snprintf(etag, sizeof etag, "\"e%s%d\"", way == ORIGIN_CONTROL ? "\001" : "",
           o->etag + (way == ORIGIN_CHANGED));
  char state[120] = "";
  const char *said = !o->dated ? etag : o->weak ? "W/\"w\"" : "";
  if (!o->stateless)
    snprintf(state, sizeof state, "%s%s%sLast-Modified: Sun, 06 Nov 1994 08:49:%02d GMT\r\n",
             *said ? "ETag: " : "", said, *said ? "\r\n" : "", o->dated ? (37 + o->etag) % 60 : 37);
  const char *match = strcasestr(text, "\r\nif-match: ");
  if (match && strncmp(match + 12, etag, strlen(etag)))
    return origin_head(fd, 412, "Content-Length: 0\r\n");
  if (!strncmp(text, "GET / ", 6)) return origin_head(fd, 200, "Content-Length: 0\r\n");
  if (way == ORIGIN_DROP) return false;
  if (strstr(text, "list-type=2")) {
    char page[300];
    bool whole_listing = o->empty-- == 0;
    int k = snprintf(page, sizeof page,
                     "<ListBucketResult><IsTruncated>%s</IsTruncated><NextContinuationToken>%d"
                     "</NextContinuationToken></ListBucketResult>",
                     whole_listing ? "false" : "true", (int)o->requests);
    snprintf(more, sizeof more, "Content-Length: %d\r\n", k);
    return origin_head(fd, 200, more) && origin_send(fd, page, (size_t)k);
  }
  bool (*holds)(void) = o->holds;
  if (holds && holds()) return recv(fd, digest, 1, 0), false; /* until the client gives up */
  if (o->expired && strstr(text, o->expired)) {
    static const char why[] = "<Error><Code>ExpiredToken</Code></Error>";
    snprintf(more, sizeof more, "Content-Length: %zu\r\n", sizeof why - 1);
    return origin_head(fd, 400, more) && origin_send(fd, why, sizeof why - 1);
  }
  if (o->lead) {
    snprintf(more, sizeof more, "Location: %s\r\nContent-Length: 0\r\n", o->lead);
    return origin_head(fd, 302, more);
  }
  if (o->secret && strstr(text, o->secret)) o->leaked = true;
  static const char code[] = "<Error><Code>InvalidObjectState</Code></Error>",
                    go[] = "HTTP/1.1 100 Continue\r\n\r\n";
  if (way == ORIGIN_WAIT) return origin_repeat(fd, go, sizeof go - 1, 1000);
  if (way == ORIGIN_TALK)
    return origin_head(fd, 404, "Connection: close\r\n") &&
           origin_repeat(fd, code, sizeof code - 1, 0);
  if (way == ORIGIN_CODE) {
    char why[160];
    int k = snprintf(why, sizeof why, "<Error><Code>%s</Code></Error>", o->code);
    snprintf(more, sizeof more, "Content-Length: %d\r\n", k);
    return origin_head(fd, o->code_status, more) && origin_send(fd, why, (size_t)k);
  }
  if (way == ORIGIN_BUSY) return origin_head(fd, 503, "Retry-After: 0\r\nContent-Length: 0\r\n");
  if (way == ORIGIN_MISSING || strstr(text, ".idx HTTP/"))
    return origin_head(fd, 404, "Content-Length: 0\r\n");
  size_t n = (size_t)(last - first + 1), length = n;
  if (way == ORIGIN_WHOLE) first = 0, n = length = whole;
  if (way == ORIGIN_SHORT) length = --n;
  if (way == ORIGIN_LONG) length = n + 5;
  uint8_t *body = calloc(1, length + 1);
  memcpy(body, data + first, n);
  EVP_Digest(body, length, sum, NULL, EVP_sha256(), NULL);
  EVP_EncodeBlock((unsigned char *)digest, sum, 32);
  char proof[40 + MR_PROOF_TEXT] = "";
  const char *asked = strcasestr(text, "\r\nauthorization: Millrace ");
  if (o->token && asked) {
    char path[64];
    sscanf(text, "GET %63s", path);
    mr_proof_about_t about = {o->token, o->peer, path, first, (int64_t)n};
    if (mr__proof_answer(&about, asked + 26, body, proof + 16))
      memcpy(proof, "Millrace-Proof: ", 16), strcat(proof, "\r\n");
  }
  snprintf(more, sizeof more,
           "Content-Range: bytes %lld-%lld/%zu\r\nContent-Length: %zu\r\n%s"
           "Content-Digest: sha-256=:%s:\r\n%s%s",
           first + (way == ORIGIN_OTHER), last + (way == ORIGIN_OTHER),
           o->claims ? (size_t)o->claims : whole, length, state, digest,
           way == ORIGIN_PACKED ? "Content-Encoding: gzip\r\n" : "", proof);
  bool well = origin_head(fd, way == ORIGIN_WHOLE ? 200 : 206, more);
  if (way == ORIGIN_DRIP) return free(body), well && origin_repeat(fd, "x", 1, 40000);
  if (way == ORIGIN_CORRUPT) body[length / 2] ^= 1;
  size_t upto = way == ORIGIN_CUT || way == ORIGIN_SILENT ? length / 2 : length;
  o->sent += (long long)upto; /* before: what a client has received is counted */
  well = well && origin_send(fd, body, upto);
  free(body);
  if (way == ORIGIN_SILENT) recv(fd, digest, 1, 0); /* until the client gives up */
  return well && upto == length;
}

static inline void origin_leave(origin_client_t *g) {
  origin_t *o = g->o;
  pthread_mutex_lock(&o->lock);
  origin_client_t **at = &o->clients;
  while (*at != g) at = &(*at)->next;
  *at = g->next;
  close(g->fd);
  pthread_cond_signal(&o->left);
  pthread_mutex_unlock(&o->lock);
  free(g);
}

static inline void *origin_serve(void *arg) {
  origin_client_t *g = arg;
  char text[8192];
  size_t n = 0;
  for (;;) {
    ssize_t k = recv(g->fd, text + n, sizeof text - 1 - n, 0);
    if (k <= 0) break;
    n += (size_t)k, text[n] = 0;
    if (!strstr(text, "\r\n\r\n")) continue;
    n = 0;
    if (!origin_answer(g->o, g->fd, text)) break;
  }
  origin_leave(g);
  return NULL;
}

static inline void *origin_listen(void *arg) {
  origin_t *o = arg;
  for (int fd; (fd = accept(o->fd, NULL, NULL)) >= 0;) {
    pthread_t thread;
    int now = 1; /* a head must not wait until the head before it is acknowledged */
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &now, sizeof now);
    origin_client_t *g = malloc(sizeof *g);
    pthread_mutex_lock(&o->lock);
    *g = (origin_client_t){o, fd, o->clients};
    o->clients = g;
    pthread_mutex_unlock(&o->lock);
    if (pthread_create(&thread, NULL, origin_serve, g) != 0) abort();
    pthread_detach(thread);
  }
  return NULL;
}

/* Serves data[0,n), which must stay, under any path. */
/* At an address of this machine. */
static inline void origin_open_at(origin_t *o, const char *ip, const void *data, size_t n,
                                  uint64_t seed) {
  struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = inet_addr(ip)};
  socklen_t len = sizeof a;
  *o = (origin_t){.data = data, .n = n, .random = {.x = seed}, .way = ORIGIN_WELL};
  pthread_mutex_init(&o->lock, NULL), pthread_cond_init(&o->left, NULL);
  o->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (bind(o->fd, (struct sockaddr *)&a, sizeof a) || listen(o->fd, 64)) abort();
  getsockname(o->fd, (struct sockaddr *)&a, &len);
  o->port = ntohs(a.sin_port);
  if (pthread_create(&o->thread, NULL, origin_listen, o) != 0) abort();
}

static inline void origin_open(origin_t *o, const void *data, size_t n, uint64_t seed) {
  origin_open_at(o, "127.0.0.1", data, n, seed);
}

/* Afterwards nothing reads the data. */
static inline void origin_close(origin_t *o) {
  shutdown(o->fd, SHUT_RDWR);
  pthread_join(o->thread, NULL);
  close(o->fd);
  pthread_mutex_lock(&o->lock);
  for (origin_client_t *g = o->clients; g; g = g->next) shutdown(g->fd, SHUT_RDWR);
  while (o->clients) pthread_cond_wait(&o->left, &o->lock);
  pthread_mutex_unlock(&o->lock);
}

#endif
