/* Sharing pools on one host: the sending end listens on an abstract socket, checks the user and the
   secret of a peer, and hands it the descriptors of its pools. */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "links/link_private.h"

enum { POOLS_MAX = 16, NAME_AT = MR__LINK_SECRET, NAME_MAX_BYTES = MR__LINK_TOKEN - NAME_AT };

typedef struct shared {
  mr_pool_t *pool;
  const char *base;
  size_t bytes;
  bool handed; /* the peer of this session has it */
} shared_t;

struct mr__share {
  int listener, peer;
  int candidate; /* connected, has not shown the secret yet */
  bool on;
  char token[MR__LINK_TOKEN];
  mr__slot_t slot;
  shared_t pool[POOLS_MAX];
  int n_pools;
};

/* ---- one host ---- */

void mr__share_host(char text[MR_LINK_NAME_MAX]) {
  struct stat ns;
  char boot[40] = "";
  FILE *f = fopen("/proc/sys/kernel/random/boot_id", "re");
  memset(text, 0, MR_LINK_NAME_MAX);
  if (f && fgets(boot, 37, f) && stat("/proc/self/ns/net", &ns) == 0)
    snprintf(text, MR_LINK_NAME_MAX, "%s-%llu", boot, (unsigned long long)ns.st_ino);
  if (f) fclose(f);
}

bool mr__share_same_host(const mr__share_t *s, const char *host) {
  char ours[MR_LINK_NAME_MAX];
  mr__share_host(ours);
  return s && *ours && !strcmp(ours, host);
}

static socklen_t abstract_address(struct sockaddr_un *a, const char *token) {
  size_t n = strnlen(token + NAME_AT, NAME_MAX_BYTES);
  *a = (struct sockaddr_un){.sun_family = AF_UNIX};
  memcpy(a->sun_path + 1, token + NAME_AT, n);
  return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + n);
}

static bool same_user(int fd) {
  struct ucred c;
  socklen_t n = sizeof c;
  return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &c, &n) == 0 && c.uid == geteuid();
}

/* ---- sending end ---- */

mr_err_t mr__share_open(mr_link_t *l, mr_diag_t *diag) {
  struct sockaddr_un a;
  uint64_t random[3];
  mr__share_t *s = calloc(1, sizeof *s);
  l->share = s;
  if (!s) return mr_no_memory(diag, "a link");
  s->peer = s->candidate = -1;
  s->slot = mr__slot_of(&l->spec);
  s->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (s->listener < 0 || getrandom(random, sizeof random, 0) != sizeof random)
    return mr_fail(diag, MR_ERR_IO, "cannot create the socket that shares buffers: %s",
                   strerror(errno));
  memcpy(s->token, random, MR__LINK_SECRET);
  snprintf(s->token + NAME_AT, NAME_MAX_BYTES, "millrace-%d-%016llx", (int)getpid(),
           (unsigned long long)random[2]);
  socklen_t n = abstract_address(&a, s->token);
  if (bind(s->listener, (struct sockaddr *)&a, n) < 0 || listen(s->listener, 8) < 0)
    return mr_fail(diag, MR_ERR_IO, "cannot create the socket that shares buffers: %s",
                   strerror(errno));
  return MR_OK;
}

void mr__share_close(mr__share_t *s) {
  if (!s) return;
  if (s->listener >= 0) close(s->listener);
  if (s->peer >= 0) close(s->peer);
  if (s->candidate >= 0) close(s->candidate);
  free(s);
}

int mr__share_fd(const mr__share_t *s) {
  if (!s || !s->on || s->peer >= 0) return -1;
  return s->candidate >= 0 ? s->candidate : s->listener;
}

void mr__share_token(const mr__share_t *s, char token[MR__LINK_TOKEN]) {
  memcpy(token, s->token, MR__LINK_TOKEN);
}

void mr__share_use(mr__share_t *s, bool on) {
  if (!s) return;
  if (s->peer >= 0) close(s->peer);
  s->peer = -1, s->on = on;
  for (int i = 0; i < s->n_pools; i++) s->pool[i].handed = false;
}

/* One candidate at a time: one that shows the secret becomes the peer, one that shows anything else
   is dropped, and one that shows nothing yields to the next. */
static void hear_candidate(mr__share_t *s) {
  char secret[MR__LINK_SECRET];
  ssize_t n = recv(s->candidate, secret, sizeof secret, MSG_DONTWAIT);
  if (n < 0 && errno == EAGAIN) return;
  if (n == sizeof secret && !memcmp(secret, s->token, sizeof secret))
    s->peer = s->candidate;
  else
    close(s->candidate);
  s->candidate = -1;
}

/* The newest connection is the candidate until it has shown the secret, so that a connection that
   says nothing keeps no one out. */
void mr__share_pump(mr__share_t *s) {
  if (!s || !s->on || s->peer >= 0) return;
  if (s->candidate >= 0) hear_candidate(s);
  if (s->peer >= 0) return;
  int fd = accept4(s->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (fd < 0) return;
  if (!same_user(fd)) {
    close(fd);
    return;
  }
  if (s->candidate >= 0) close(s->candidate);
  s->candidate = fd;
  hear_candidate(s);
}

static bool hand_out(mr__share_t *s, uint32_t pool, int fd) {
  union {
    char bytes[CMSG_SPACE(sizeof(int))];
    struct cmsghdr align;
  } control = {{0}};
  struct iovec io = {&pool, sizeof pool};
  struct msghdr m = {.msg_iov = &io,
                     .msg_iovlen = 1,
                     .msg_control = control.bytes,
                     .msg_controllen = sizeof control.bytes};
  struct cmsghdr *c = CMSG_FIRSTHDR(&m);
  c->cmsg_level = SOL_SOCKET, c->cmsg_type = SCM_RIGHTS, c->cmsg_len = CMSG_LEN(sizeof fd);
  memcpy(CMSG_DATA(c), &fd, sizeof fd);
  return sendmsg(s->peer, &m, MSG_DONTWAIT | MSG_NOSIGNAL) == sizeof pool;
}

static shared_t *find_pool(mr__share_t *s, mr_pool_t *pool) {
  for (int i = 0; i < s->n_pools; i++)
    if (s->pool[i].pool == pool) return &s->pool[i];
  if (s->n_pools == POOLS_MAX) return NULL;
  shared_t *p = &s->pool[s->n_pools++];
  *p = (shared_t){.pool = pool};
  return p;
}

/* True if the parts of a batch are placed after its data as in a slot. */
static bool lies_as(const mr__slot_t *slot, const mr_buf_t *b) {
  const char *at = b->data;
  bool so = (const char *)b->key == at + slot->key;
  for (int f = 0; f < slot->n_fields && so; f++)
    so = (const char *)b->field[f].data == at + slot->field[f].data;
  return so;
}

mr__place_t mr__share_place(mr__share_t *s, const mr_buf_t *b) {
  mr__place_t nowhere = {false, 0, 0};
  if (!s || !s->on || s->peer < 0) return nowhere;
  shared_t *p = find_pool(s, b->pool);
  int fd = p ? mr__pool_memory(b->pool, &p->base, &p->bytes) : -1;
  if (fd < 0) return nowhere;
  size_t offset = (size_t)((const char *)b->data - p->base);
  /* A buffer that a stage has pointed elsewhere, or one with another layout, travels as a
     message. */
  if (offset >= p->bytes || offset % s->slot.bytes) return nowhere;
  if (b->key && !lies_as(&s->slot, b)) return nowhere;
  if (!p->handed && !(p->handed = hand_out(s, (uint32_t)(p - s->pool), fd))) return nowhere;
  return (mr__place_t){true, (uint32_t)(p - s->pool), offset};
}

/* ---- receiving end ---- */

int mr__share_connect(const char *token) {
  struct sockaddr_un a;
  if (!token[NAME_AT]) return -1;
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return -1;
  socklen_t n = abstract_address(&a, token);
  if (connect(fd, (struct sockaddr *)&a, n) == 0 && same_user(fd) &&
      send(fd, token, MR__LINK_SECRET, MSG_NOSIGNAL) == MR__LINK_SECRET)
    return fd;
  close(fd);
  return -1;
}

bool mr__share_take(int socket, uint32_t *pool, int *fd) {
  union {
    char bytes[CMSG_SPACE(sizeof(int))];
    struct cmsghdr align;
  } control;
  struct iovec io = {pool, sizeof *pool};
  struct msghdr m = {.msg_iov = &io,
                     .msg_iovlen = 1,
                     .msg_control = control.bytes,
                     .msg_controllen = sizeof control.bytes};
  if (recvmsg(socket, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC) != sizeof *pool) return false;
  struct cmsghdr *c = CMSG_FIRSTHDR(&m);
  if (!c || c->cmsg_type != SCM_RIGHTS || c->cmsg_len != CMSG_LEN(sizeof *fd)) return false;
  memcpy(fd, CMSG_DATA(c), sizeof *fd);
  return true;
}

char *mr__share_map(int fd, size_t *bytes) {
  struct stat st;
  int seals = fcntl(fd, F_GET_SEALS);
  if (seals < 0 || !(seals & F_SEAL_SHRINK) || fstat(fd, &st) < 0 || st.st_size <= 0) return NULL;
  *bytes = (size_t)st.st_size;
  void *m = mmap(NULL, *bytes, PROT_READ, MAP_SHARED, fd, 0);
  return m == MAP_FAILED ? NULL : m;
}
