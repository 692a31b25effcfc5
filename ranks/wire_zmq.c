/* The wire of ZeroMQ: each process binds a PULL, and connects a PUSH to each process to which it
   sends.  Rank 0 is where the launcher says; the others say hello to it with the port that they
   have bound, and it sends all of them the addresses of all.

   Beyond this host everything is CURVE's.  The key is one for the whole job, as a job's ranks trust
   each other alike: each is the server and the client of that one pair, and accepts no other. */
#include <errno.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zmq.h>

#include "base/clock.h"
#include "base/loopback.h"
#include "base/slow_clients.h"
#include "base/text.h"
#include "links/curve_key.h"
#include "links/guard.h"
#include "links/zap.h"
#include "ranks/job.h"
#include "ranks/wire.h"

enum {
  ADDRESS_BYTES = 96,
  RETRY_MS = 20,
  RETRY_MAX_MS = 500,
  HANDSHAKE_MS = 3000,
  AGAIN_MS = 500, /* an opening parcel without an answer is sent again, then after twice the time */
  AGAIN_MAX_MS = 16000,
  BYE_MS = 2000,
  STRANGERS = 256,       /* most connections beside the ranks' */
  TEND = 64,             /* parcels after which the guard has a look though there are more */
  WINDOW = 64,           /* messages of one connection that wait to be taken; then it has to wait */
  EARLY_BYTES = 1 << 30, /* of parcels that wait for the end of the opening */
  SEAL_BYTES = 256       /* at most that CURVE adds to a message */
};
/* Field a of the parcels that open.  A connection that is cut among many of strangers loses what it
   carries, until its receiver has heard the sender once (links/guard.h): so HELLO is sent again
   until WELCOME comes, and HERE until ADDRESSES does.  Two ranks of which neither is 0 say nothing
   before their first parcel: where that is lost, the rank that waits for it is named in time. */
enum { HELLO = 1, WELCOME, ADDRESSES, REFUSED, HERE };

typedef struct zmq_parcel {
  mr__parcel_t parcel;
  zmq_msg_t message;
  char peer[48]; /* the sender's address, as the kernel gives it; of parcels that open */
} zmq_parcel_t;

/* By which a rank's parcels come.  libzmq may have closed it, and its number be another file's. */
typedef struct sender {
  int fd; /* -1: none */
  ino_t inode;
} sender_t;

struct mr__wire {
  void *context, *in, **out; /* out[size]; NULL: not connected yet */
  mr_guard_t *guard;         /* of `in` */
  mr_zap_t *zap;
  const mr_launch_t *l;
  int rank, size, wake;
  bool here, sealed; /* all ranks are on this host; CURVE is on */
  int64_t limit_ns;
  uint64_t taken; /* parcels */
  char public_key[MR_CURVE_KEY_TEXT], secret_key[MR_CURVE_KEY_TEXT];
  char (*address)[ADDRESS_BYTES];    /* [size]; "" if unknown */
  bool *come;                        /* rank 0: [size]; it has been welcomed and knows it */
  sender_t *sender;                  /* [size] */
  mr__parcel_t *early, **early_last; /* what has come while the wire was being opened */
  uint64_t early_bytes;
};

static void set_number(void *socket, int option, int value) {
  zmq_setsockopt(socket, option, &value, sizeof value);
}

/* ---- keys ---- */

static int secret_digit(char c) {
  return c >= '0' && c <= '9'                 ? c - '0'
         : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10
                                              : -1;
}

static mr_err_t read_secret(mr__wire_t *w, const char *text, mr_diag_t *diag) {
  unsigned char raw[MR_ZAP_KEY];
  bool good = strlen(text) == 2 * sizeof raw;
  for (size_t i = 0; good && i < sizeof raw; i++) {
    int high = secret_digit(text[2 * i]), low = secret_digit(text[2 * i + 1]);
    good = high >= 0 && low >= 0;
    raw[i] = (unsigned char)(high * 16 + low);
  }
  if (!good)
    return mr_fail(diag, MR_ERR_CONFIG,
                   "MILLRACE_SECRET: expected 64 hexadecimal digits, the same for all ranks, as "
                   "`openssl rand -hex 32` prints them");
  zmq_z85_encode(w->secret_key, raw, sizeof raw);
  explicit_bzero(raw, sizeof raw);
  if (!zmq_curve_public(w->public_key, w->secret_key)) return MR_OK;
  return mr_fail(diag, MR_ERR_UNAVAILABLE, "this ZeroMQ library has no CURVE");
}

static mr_err_t wire_read_key(mr__wire_t *w, const char *file, mr_diag_t *diag) {
  const char *secret = getenv("MILLRACE_SECRET");
  w->sealed = file || (secret && *secret);
  if (file) return mr_curve_key_read_secret(file, w->public_key, w->secret_key, diag);
  if (w->sealed) return read_secret(w, secret, diag);
  if (w->here) return MR_OK;
  return mr_fail(diag, MR_ERR_CONFIG,
                 "communicator=zmq: rank 0 is at %.80s, and ranks on several hosts need a key: set "
                 "MILLRACE_SECRET to the same 64 hexadecimal digits for all (openssl rand -hex 32) "
                 "or give all of them one file of `millrace keys`",
                 w->l->host);
}

static mr_err_t set_curve(mr__wire_t *w, void *socket, bool server, mr_diag_t *diag) {
  if (!w->sealed) return MR_OK;
  int one = 1;
  int bad = zmq_setsockopt(socket, ZMQ_CURVE_SECRETKEY, w->secret_key, MR_CURVE_KEY_TEXT) ||
            zmq_setsockopt(socket, ZMQ_CURVE_PUBLICKEY, w->public_key, MR_CURVE_KEY_TEXT);
  if (server)
    bad = bad || zmq_setsockopt(socket, ZMQ_CURVE_SERVER, &one, sizeof one) ||
          zmq_setsockopt(socket, ZMQ_ZAP_DOMAIN, "millrace", 8);
  else
    bad = bad || zmq_setsockopt(socket, ZMQ_CURVE_SERVERKEY, w->public_key, MR_CURVE_KEY_TEXT);
  if (!bad) return MR_OK;
  return mr_fail(diag, MR_ERR_UNAVAILABLE, "this ZeroMQ library has no CURVE");
}

/* ---- sockets ---- */

static void *wire_socket(mr__wire_t *w, int kind, bool ipv6, mr_diag_t *diag) {
  int64_t longest = (int64_t)sizeof(mr__head_t) + MR__PARCEL_MOST + SEAL_BYTES;
  void *s = zmq_socket(w->context, kind);
  if (!s) {
    mr_fail(diag, MR_ERR_NOMEM, "cannot create a socket: %s", zmq_strerror(zmq_errno()));
    return NULL;
  }
  zmq_setsockopt(s, ZMQ_MAXMSGSIZE, &longest, sizeof longest);
  set_number(s, ZMQ_SNDHWM, 0); /* a call's parcels are all queued: it never waits for a receiver */
  set_number(s, ZMQ_RCVHWM, WINDOW); /* the sender keeps the others, so that a stranger fills its
                                        own memory */
  set_number(s, ZMQ_LINGER, 0);
  set_number(s, ZMQ_RECONNECT_IVL, RETRY_MS);
  set_number(s, ZMQ_RECONNECT_IVL_MAX, RETRY_MAX_MS);
  set_number(s, ZMQ_HANDSHAKE_IVL, HANDSHAKE_MS);
  set_number(s, ZMQ_IPV6, ipv6);
  if (set_curve(w, s, kind == ZMQ_PULL, diag) >= 0) return s;
  zmq_close(s);
  return NULL;
}

static mr_err_t wire_bind(mr__wire_t *w, mr_diag_t *diag) {
  char at[64], port[12] = "*";
  const char *host = w->here ? "127.0.0.1" : "*";
  if (!(w->in = wire_socket(w, ZMQ_PULL, strchr(w->l->host, ':') && !w->here, diag)))
    return diag ? diag->code : MR_ERR_NOMEM;
  if (w->sealed) {
    unsigned char key[1][MR_ZAP_KEY];
    zmq_z85_decode(key[0], w->public_key);
    MR_TRY(mr_zap_open(w->context, key, 1, &w->zap, diag));
  }
  if (w->rank == 0) mr_snprintf(port, sizeof port, "%d", w->l->port);
  mr_snprintf(at, sizeof at, "tcp://%s:%s", host, port);
  /* Parcels that are queued while a rank computes are no stranger's: their bytes are not bounded.
   */
  w->guard =
      mr_guard_open(w->context, w->in, w->size + mr_listener_most(STRANGERS), MR_GUARD_ANY_BYTES);
  if (!w->guard) return mr_no_memory(diag, "a job of %d ranks", w->size);
  if (!zmq_bind(w->in, at)) return MR_OK;
  return mr_fail(diag, MR_ERR_IO,
                 "rank %d cannot listen at %s (%s): MILLRACE_RANK0=HOST:PORT names another port",
                 w->rank, at, zmq_strerror(zmq_errno()));
}

static int wire_bound_port(const mr__wire_t *w) {
  char at[256] = "";
  size_t n = sizeof at;
  zmq_getsockopt(w->in, ZMQ_LAST_ENDPOINT, at, &n);
  const char *colon = strrchr(at, ':');
  return colon ? atoi(colon + 1) : 0;
}

static void write_address(char to[ADDRESS_BYTES], const char *host, int port) {
  mr_snprintf(to, ADDRESS_BYTES, strchr(host, ':') ? "tcp://[%.70s]:%d" : "tcp://%.72s:%d", host,
              port);
}

/* ---- parcels ---- */

static void drop_sent(void *data, void *parcel) {
  mr__parcel_t *p = parcel;
  p->drop(p);
}

static bool zmq_wire_send(mr__wire_t *w, int to, mr__parcel_t *p) {
  zmq_msg_t m;
  if (!w->out[to]) {
    void *s = wire_socket(w, ZMQ_PUSH, strchr(w->address[to], '[') != NULL, NULL);
    if (s && zmq_connect(s, w->address[to])) zmq_close(s), s = NULL;
    w->out[to] = s;
  }
  if (!w->out[to] || zmq_msg_init_data(&m, p->head, sizeof *p->head + p->head->bytes, drop_sent, p))
    return p->drop(p), false;
  if (zmq_msg_send(&m, w->out[to], ZMQ_DONTWAIT) >= 0) return true;
  return zmq_msg_close(&m), false;
}

static void drop_received(mr__parcel_t *p) {
  zmq_msg_close(&((zmq_parcel_t *)(void *)p)->message);
  free(p);
}

/* Within a message data may lie anywhere: those that are not aligned are copied.  Takes over m. */
static mr__parcel_t *parcel_of_message(mr__wire_t *w, zmq_msg_t *m) {
  size_t n = zmq_msg_size(m);
  bool aligned = (uintptr_t)zmq_msg_data(m) % 8 == 0;
  zmq_parcel_t *p = mr__head_is_good(zmq_msg_data(m), n, w->size) ? calloc(1, sizeof *p) : NULL;
  if (p && (aligned ? zmq_msg_init(&p->message) : zmq_msg_init_size(&p->message, n)))
    free(p), p = NULL;
  if (!p) return zmq_msg_close(m), NULL;
  const char *peer = zmq_msg_gets(m, "Peer-Address");
  mr_snprintf(p->peer, sizeof p->peer, "%s", peer ? peer : "");
  if (aligned)
    zmq_msg_move(&p->message, m);
  else
    memcpy(zmq_msg_data(&p->message), zmq_msg_data(m), n);
  zmq_msg_close(m);
  p->parcel.head = zmq_msg_data(&p->message);
  p->parcel.data = (char *)(p->parcel.head + 1);
  p->parcel.drop = drop_received;
  return &p->parcel;
}

/* Waits up to ms (-1: forever) for a message or a wake.  Strangers are looked at meanwhile. */
static void wire_wait(mr__wire_t *w, int ms) {
  int64_t until = mr_now_ns() + ms * INT64_C(1000000);
  for (;;) {
    mr_guard_tend(w->guard); /* after all that came was taken, so that it counts for its sender */
    int guard_ms = mr_guard_wait_ms(w->guard);
    int64_t left = ms < 0 ? -1 : (until - mr_now_ns() + 999999) / 1000000;
    if (ms >= 0 && left < 0) left = 0;
    bool whole = guard_ms < 0 || (ms >= 0 && left <= guard_ms);
    zmq_pollitem_t item[3] = {{w->in, 0, ZMQ_POLLIN, 0},
                              {NULL, w->wake, ZMQ_POLLIN, 0},
                              {NULL, mr_guard_fd(w->guard), ZMQ_POLLIN, 0}};
    zmq_poll(item, 3, whole ? left : guard_ms);
    uint64_t wakes;
    if (item[1].revents) return (void)!read(w->wake, &wakes, sizeof wakes);
    if (item[0].revents || !left || (whole && !item[2].revents)) return;
  }
}

/* The message that has come, if one has. */
static bool wire_message(mr__wire_t *w, zmq_msg_t *m) {
  zmq_msg_init(m);
  return zmq_msg_recv(m, w->in, ZMQ_DONTWAIT) >= 0 || (zmq_msg_close(m), false);
}

static bool is_sender(const sender_t *s) {
  struct stat st;
  return s->fd >= 0 && fstat(s->fd, &st) == 0 && st.st_ino == s->inode;
}

static void note_sender(sender_t *s, int fd) {
  struct stat st;
  if (s->fd == fd) return;
  *s = (sender_t){.fd = -1};
  if (fstat(fd, &st) == 0 && S_ISSOCK(st.st_mode)) *s = (sender_t){.fd = fd, .inode = st.st_ino};
}

static uint64_t zmq_wire_arrived(mr__wire_t *w, int from) {
  sender_t *s = &w->sender[from];
  struct tcp_info info = {0};
  socklen_t n = sizeof info;
  if (is_sender(s) && getsockopt(s->fd, IPPROTO_TCP, TCP_INFO, &info, &n) == 0)
    return info.tcpi_bytes_received;
  s->fd = -1; /* its next parcel tells */
  return 0;
}

/* The next parcel of any kind.  NULL: the time is up, a wake has come, or what has come is no
   parcel: a stranger that sends without an end does not keep the caller from its own work. */
static mr__parcel_t *wire_next(mr__wire_t *w, int ms) {
  zmq_msg_t m;
  bool came = wire_message(w, &m);
  if (!came) {
    wire_wait(w, ms);
    came = wire_message(w, &m);
  }
  if (!came) return NULL;
  int fd = zmq_msg_get(&m, ZMQ_SRCFD);
  bool good = mr__head_is_good(zmq_msg_data(&m), zmq_msg_size(&m), w->size);
  mr_guard_heard(w->guard, &m, good, false);
  if (++w->taken % TEND == 0) mr_guard_tend(w->guard);
  mr__parcel_t *p = parcel_of_message(w, &m);
  if (p) note_sender(&w->sender[p->head->from], fd);
  return p;
}

static mr__parcel_t *zmq_wire_receive(mr__wire_t *w, int ms, bool soon) {
  mr__parcel_t *p = w->early;
  if (p) return w->early = p->next, p;
  p = wire_next(w, ms);
  if (!p || p->head->kind != MR__PARCEL_OPENING) return p;
  return p->drop(p), NULL; /* of another job, or of one that has been opened twice */
}

static void zmq_wire_wake(mr__wire_t *w) {
  uint64_t one = 1;
  while (write(w->wake, &one, sizeof one) < 0 && errno == EINTR) continue;
}

static void zmq_wire_close(mr__wire_t *w, bool whole) {
  if (!w) return;
  for (mr__parcel_t *p; (p = w->early);) w->early = p->next, p->drop(p);
  for (int r = 0; w->out && r < w->size; r++)
    if (w->out[r]) set_number(w->out[r], ZMQ_LINGER, BYE_MS), zmq_close(w->out[r]);
  mr_guard_close(w->guard);
  if (w->in) zmq_close(w->in);
  mr_zap_close(w->zap);
  if (w->context) zmq_ctx_term(w->context);
  if (w->wake >= 0) close(w->wake);
  explicit_bzero(w->secret_key, sizeof w->secret_key);
  free(w->out), free(w->address), free(w->come), free(w->sender), free(w);
}

/* ---- opening ---- */

static bool send_opening(mr__wire_t *w, int to, int what, int b, uint64_t call, const void *data,
                         size_t bytes) {
  mr__parcel_t *p = mr__parcel_new(bytes);
  if (!p) return false;
  p->head->kind = MR__PARCEL_OPENING, p->head->from = (uint32_t)w->rank;
  p->head->a = what, p->head->b = b, p->head->call = call;
  if (bytes) memcpy(p->data, data, bytes);
  return zmq_wire_send(w, to, p);
}

/* Keeps a parcel for later, of a rank that has opened the job before this one, as none can before
   rank 0; what a stranger sends is kept up to a limit. */
static void keep_early(mr__wire_t *w, mr__parcel_t *p) {
  if (w->rank == 0 || w->early_bytes + p->head->bytes > EARLY_BYTES) return p->drop(p);
  w->early_bytes += p->head->bytes + sizeof *p->head;
  p->next = NULL, *w->early_last = p, w->early_last = &p->next;
}

/* The next parcel that opens, until that time. */
static mr__parcel_t *next_opening(mr__wire_t *w, int64_t until_ns) {
  for (;;) {
    int64_t left = until_ns - mr_now_ns();
    mr__parcel_t *p =
        wire_next(w, left > 0 ? (int)(left / 1000000 < 1000 ? left / 1000000 + 1 : 1000) : 0);
    if (p && p->head->kind == MR__PARCEL_OPENING) return p;
    if (p) keep_early(w, p);
    if (left <= 0) return NULL;
  }
}

/* Answers a rank that does not fit the job. */
static void refuse_rank(mr__wire_t *w, const char *address, const char *text) {
  mr__parcel_t *p = mr__parcel_new(strlen(text));
  void *s = wire_socket(w, ZMQ_PUSH, strchr(address, '[') != NULL, NULL);
  zmq_msg_t m;
  if (p && s && !zmq_connect(s, address)) {
    set_number(s, ZMQ_LINGER, BYE_MS);
    p->head->kind = MR__PARCEL_OPENING, p->head->a = REFUSED, p->head->b = -1;
    memcpy(p->data, text, strlen(text));
    if (!zmq_msg_init_data(&m, p->head, sizeof *p->head + p->head->bytes, drop_sent, p)) {
      if (zmq_msg_send(&m, s, ZMQ_DONTWAIT) < 0) zmq_msg_close(&m);
      p = NULL;
    }
  }
  if (p) p->drop(p);
  if (s) zmq_close(s);
}

/* Notes the address of a rank that says hello, and that one has come which says that it is here.
   Seen from rank 0, a rank of its own host may come from a loopback address, which means another
   host elsewhere: it is sent without a host. */
static void note_hello(mr__wire_t *w, const mr__parcel_t *p, int *known) {
  const mr__head_t *h = p->head;
  const char *peer = ((const zmq_parcel_t *)(const void *)p)->peer;
  char address[ADDRESS_BYTES], text[256];
  if (h->from < 1 || (h->a != HELLO && h->a != HERE) || h->call < 1 || h->call > 65535 || !*peer)
    return;
  write_address(address, peer, (int)h->call);
  bool noted = !strcmp(w->address[h->from], address);
  if (h->a == HERE) {
    if (!noted || w->come[h->from]) return;
    w->come[h->from] = true;
    (*known)++;
    return;
  }
  if (h->b != w->size)
    mr_snprintf(text, sizeof text, "rank %d is one of %d, but rank 0 one of %d", (int)h->from, h->b,
                w->size);
  else if (*w->address[h->from] && !noted)
    mr_snprintf(text, sizeof text, "a rank %d of the job at this address has come already",
                (int)h->from);
  else {
    memcpy(w->address[h->from], address, sizeof address);
    send_opening(w, (int)h->from, WELCOME, 0, 0, NULL, 0);
    return;
  }
  refuse_rank(w, address, text);
}

static mr_err_t gather_ranks(mr__wire_t *w, int *missing, mr_diag_t *diag) {
  int known = 1;
  int64_t until = mr_now_ns() + w->limit_ns;
  write_address(w->address[0], "127.0.0.1", w->l->port); /* itself */
  for (mr__parcel_t *p; known < w->size && (p = next_opening(w, until)); p->drop(p))
    note_hello(w, p, &known);
  if (known < w->size) {
    char text[256];
    int late = 1;
    while (w->come[late]) late++;
    *missing = late;
    mr_snprintf(text, sizeof text, "rank %d of %d did not come to the job within %g s", late,
                w->size, (double)w->limit_ns * 1e-9);
    for (int r = 1; r < w->size; r++)
      if (*w->address[r]) send_opening(w, r, REFUSED, late, 0, text, strlen(text));
    return mr_fail(diag, MR_ERR_UNAVAILABLE, "%s", text);
  }
  char(*all)[ADDRESS_BYTES] = calloc((size_t)w->size, sizeof *all);
  bool good = all != NULL;
  for (int r = 0; r < w->size && good; r++) {
    bool by_loopback =
        !strncmp(w->address[r], "tcp://127.", 10) || !strncmp(w->address[r], "tcp://[::1]", 11);
    memcpy(all[r], w->address[r], sizeof all[r]);
    if (by_loopback && !w->here)
      mr_snprintf(all[r], sizeof all[r], "%s", strrchr(w->address[r], ':'));
  }
  for (int r = 1; r < w->size && good; r++)
    good = send_opening(w, r, ADDRESSES, 0, 0, all, (size_t)w->size * sizeof *all);
  free(all);
  return good ? MR_OK : mr_no_memory(diag, "the addresses of %d ranks", w->size);
}

/* Each is of text: "tcp://HOST:PORT", or ":PORT" on the host of rank 0. */
static bool take_addresses(mr__wire_t *w, const mr__parcel_t *p) {
  if (p->head->bytes != (uint64_t)w->size * ADDRESS_BYTES) return false;
  for (int r = 1; r < w->size; r++) {
    const char *text = p->data + (size_t)r * ADDRESS_BYTES;
    if (!memchr(text, 0, ADDRESS_BYTES)) return false;
    if (*text == ':')
      write_address(w->address[r], w->l->host, atoi(text + 1));
    else
      memcpy(w->address[r], text, ADDRESS_BYTES);
    if (!mr_address_is_one(w->address[r])) return false;
  }
  return true;
}

/* Ends with p, by which rank 0 refuses this rank. */
static mr_err_t take_refusal(mr__wire_t *w, mr__parcel_t *p, int *missing, mr_diag_t *diag) {
  *missing = p->head->b >= -1 && p->head->b < w->size ? p->head->b : -1;
  mr_err_t e = mr_fail(diag, *missing < 0 ? MR_ERR_CONFIG : MR_ERR_UNAVAILABLE, "%.*s",
                       p->head->bytes < 300 ? (int)p->head->bytes : 300, p->data);
  return p->drop(p), e;
}

static mr_err_t ask_rank0(mr__wire_t *w, int *missing, mr_diag_t *diag) {
  int64_t now = mr_now_ns(), until = now + w->limit_ns, again = now, pause_ms = AGAIN_MS;
  int say = HELLO;
  write_address(w->address[0], w->here ? "127.0.0.1" : w->l->host, w->l->port);
  for (; now < until; now = mr_now_ns()) {
    if (now >= again) {
      if (!send_opening(w, 0, say, w->size, (uint64_t)wire_bound_port(w), NULL, 0))
        return mr_fail(diag, MR_ERR_IO, "cannot connect to rank 0 at %s: %s", w->address[0],
                       zmq_strerror(zmq_errno()));
      again = now + pause_ms * 1000000;
      pause_ms = pause_ms * 2 < AGAIN_MAX_MS ? pause_ms * 2 : AGAIN_MAX_MS;
    }
    mr__parcel_t *p = next_opening(w, again < until ? again : until);
    if (!p) continue;
    if (p->head->a == REFUSED) return take_refusal(w, p, missing, diag);
    bool done = p->head->a == ADDRESSES && take_addresses(w, p);
    if (p->head->a == WELCOME && say == HELLO) {
      until = mr_now_ns() + 2 * w->limit_ns; /* rank 0 decides who is late */
      say = HERE, again = 0, pause_ms = AGAIN_MS;
    }
    p->drop(p);
    if (done) return MR_OK;
  }
  *missing = 0;
  return mr_fail(diag, MR_ERR_UNAVAILABLE,
                 "rank 0 did not answer rank %d at %s within %g s: is it started, has it the same "
                 "key, and does that address lead to its host?",
                 w->rank, w->address[0], (double)w->limit_ns * 1e-9);
}

static mr_err_t wire_open_with(mr__wire_t *w, const mr__wire_cfg_t *cfg, int *missing,
                               mr_diag_t *diag) {
  MR_TRY(wire_read_key(w, cfg->key, diag));
  w->context = zmq_ctx_new();
  w->out = calloc((size_t)w->size, sizeof *w->out);
  w->address = calloc((size_t)w->size, sizeof *w->address);
  w->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  w->come = calloc((size_t)w->size, sizeof *w->come);
  w->sender = calloc((size_t)w->size, sizeof *w->sender);
  if (!w->context || !w->out || !w->address || !w->come || !w->sender || w->wake < 0)
    return mr_no_memory(diag, "a job of %d ranks", w->size);
  for (int r = 0; r < w->size; r++) w->sender[r].fd = -1;
  zmq_ctx_set(w->context, ZMQ_MAX_SOCKETS, w->size + 64);
  MR_TRY(wire_bind(w, diag));
  return w->rank ? ask_rank0(w, missing, diag) : gather_ranks(w, missing, diag);
}

static mr_err_t zmq_wire_open(const mr__wire_cfg_t *cfg, mr__wire_t **out, int *missing,
                              mr_diag_t *diag) {
  const mr_launch_t *l = cfg->launch;
  double s = cfg->limit_s < 1e6 ? cfg->limit_s : 1e6;
  *missing = -1;
  if (!*l->host || !l->port)
    return mr_fail(
        diag, MR_ERR_CONFIG,
        "communicator=zmq: %s does not say where rank 0 is: set MILLRACE_RANK0=HOST:PORT for "
        "all ranks, or use communicator=mpi",
        mr_launcher_name(l->launcher));
  mr__wire_t *w = calloc(1, sizeof *w);
  if (!w) return mr_no_memory(diag, "a job of %d ranks", l->size);
  w->l = l, w->rank = l->rank, w->size = l->size, w->limit_ns = (int64_t)(s * 1e9), w->wake = -1;
  w->here = !mr_job_needs_key(l);
  w->early_last = &w->early;
  mr_err_t e = wire_open_with(w, cfg, missing, diag);
  w->l = NULL; /* the caller's */
  if (e < 0) return zmq_wire_close(w, false), e;
  return *out = w, MR_OK;
}

const mr__wire_ops_t mr__wire_zmq = {.name = "zmq",
                                     .open = zmq_wire_open,
                                     .send = zmq_wire_send,
                                     .receive = zmq_wire_receive,
                                     .arrived = zmq_wire_arrived,
                                     .wake = zmq_wire_wake,
                                     .close = zmq_wire_close};
