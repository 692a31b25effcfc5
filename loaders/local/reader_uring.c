/* The two io_uring ways.  A slot holds one read in flight; one submission starts as many as there
   are slots.  With O_DIRECT a read must begin, end and land at multiples of the device's block:
   aligned reads go straight into place, others through the slot's bounce buffer. */
#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/halt.h"
#include "loaders/local/reader_private.h"

enum {
  BOUNCE = 1 << 16,
  FIXED_MAX = 64 << 20,
  ODD_MAX = 64,       /* most short reads in a row without a wanted byte */
  REFUSED_MAX = 1000, /* most times in a row that the kernel refuses to take reads */
  PAUSE_NS = 1000000  /* between two of them */
};

typedef struct slot {
  mr_read_t left; /* the part still to read */
  int64_t from;   /* where the read in flight begins; before left.offset only if bounced */
  bool bounced;
  int odd;
} slot_t;

typedef struct mr_ring_state {
  struct io_uring ring;
  bool ring_open, files_fixed, buffer_fixed, bounce_fixed;
  size_t n_fixed; /* bytes registered, counted in `registered` */
  int64_t align;  /* of O_DIRECT; 0: the page cache is used */
  char *bounce;   /* [depth][BOUNCE] */
  slot_t *slot;   /* [depth] */
  int *idle;      /* [depth] stack of slots that are not in flight */

  const mr_read_t *read; /* [n] the reads of the current call */
  size_t n, next;        /* next: the first not yet in a slot */
  unsigned flying;       /* slots in flight */
} uring_t;

/* liburing maps and unmaps rings by raw system calls, which the thread sanitizer does not see: it
   would report a race when a ring reuses the address of another thread's former ring.  This lock
   gives it the order of opening and closing. */
static pthread_mutex_t mapping = PTHREAD_MUTEX_INITIALIZER;

int mr_uring_refused(void) {
  struct io_uring ring;
  int e = io_uring_queue_init(2, &ring, 0);
  if (e == 0) io_uring_queue_exit(&ring);
  return -e;
}

/* Bytes that all readers of the process have registered, at most FIXED_MAX: the kernel makes them
   resident and keeps them so, which a thousand sources cannot afford.  Relaxed: a count that orders
   nothing. */
static atomic_size_t registered;

static bool fixed_take(size_t n) {
  if (n > FIXED_MAX) return false;
  if (atomic_fetch_add_explicit(&registered, n, memory_order_relaxed) + n <= FIXED_MAX) return true;
  atomic_fetch_sub_explicit(&registered, n, memory_order_relaxed);
  return false;
}

static void fixed_give_back(uring_t *u) {
  atomic_fetch_sub_explicit(&registered, u->n_fixed, memory_order_relaxed);
  u->n_fixed = 0;
}

/* Registration saves a lookup per read; reads work without it too (a low RLIMIT_MEMLOCK). */
static void register_all(mr_reader_t *r, uring_t *u) {
  struct iovec v[2] = {{u->bounce, (size_t)r->depth * BOUNCE}, {r->buffer, r->buffer_len}};
  int first = u->bounce ? 0 : 1, last = r->buffer ? 2 : 1;
  u->files_fixed = io_uring_register_files(&u->ring, r->fd, (unsigned)r->n_files) == 0;
  size_t bytes = 0;
  for (int i = first; i < last; i++) bytes += v[i].iov_len;
  bool taken = last > first && fixed_take(bytes);
  if (taken) u->n_fixed = bytes;
  if (taken && io_uring_register_buffers(&u->ring, v + first, (unsigned)(last - first)) != 0)
    fixed_give_back(u);
  u->bounce_fixed = u->n_fixed && u->bounce;
  u->buffer_fixed = u->n_fixed && r->buffer;
}

static mr_err_t ring_open(mr_reader_t *r, mr_diag_t *diag) {
  uring_t *u = r->state;
  pthread_mutex_lock(&mapping);
  int e = io_uring_queue_init(r->depth, &u->ring, 0);
  pthread_mutex_unlock(&mapping);
  if (e < 0) return mr_fail(diag, MR_ERR_UNAVAILABLE, "io_uring is refused (%s)", strerror(-e));
  u->ring_open = true;
  u->slot = calloc(r->depth, sizeof *u->slot);
  u->idle = calloc(r->depth, sizeof *u->idle);
  if (!u->slot || !u->idle) return mr_no_memory(diag, "%u reads", r->depth);
  for (unsigned i = 0; i < r->depth; i++) u->idle[i] = (int)i;
  register_all(r, u);
  return MR_OK;
}

static mr_err_t uring_open(mr_reader_t *r, mr_diag_t *diag) {
  r->state = calloc(1, sizeof(uring_t));
  if (!r->state) return mr_no_memory(diag, "a reader");
  return ring_open(r, diag);
}

static mr_err_t direct_open(mr_reader_t *r, mr_diag_t *diag) {
  uring_t *u = r->state = calloc(1, sizeof(uring_t));
  if (!u) return mr_no_memory(diag, "a reader");
  u->align = mr_reader_direct_align(r->fd, r->n_files);
  bool taken = u->align > 0 && u->align <= BOUNCE / 2;
  for (int i = 0; taken && i < r->n_files; i++) taken = fcntl(r->fd[i], F_SETFL, O_DIRECT) == 0;
  if (!taken)
    return mr_fail(diag, MR_ERR_UNAVAILABLE, "%s: the file system refuses O_DIRECT", r->path[0]);
  void *bounce = mmap(NULL, (size_t)r->depth * BOUNCE, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (bounce == MAP_FAILED) return mr_no_memory(diag, "%u reads", r->depth);
  u->bounce = bounce;
  return ring_open(r, diag);
}

static void ring_close(mr_reader_t *r, uring_t *u) {
  pthread_mutex_lock(&mapping);
  if (u->ring_open) io_uring_queue_exit(&u->ring);
  pthread_mutex_unlock(&mapping);
  fixed_give_back(u);
  free(u->slot), free(u->idle);
  u->ring_open = false, u->slot = NULL, u->idle = NULL;
}

static void uring_close(mr_reader_t *r) {
  uring_t *u = r->state;
  if (!u) return;
  ring_close(r, u);
  if (u->bounce) munmap(u->bounce, (size_t)r->depth * BOUNCE);
  if (u->align) /* another way may use the open files next */
    for (int i = 0; i < r->n_files; i++) fcntl(r->fd[i], F_SETFL, 0);
  free(u);
  r->state = NULL;
}

static bool in_buffer(const mr_reader_t *r, const char *dst, size_t len) {
  return r->buffer && dst >= r->buffer && len <= r->buffer_len &&
         (size_t)(dst - r->buffer) <= r->buffer_len - len;
}

/* The registered buffer that holds [dst,dst+len); -1 if none does. */
static int fixed_index(const mr_reader_t *r, const uring_t *u, const slot_t *s, const char *dst,
                       size_t len) {
  if (s->bounced) return u->bounce_fixed ? 0 : -1;
  return u->buffer_fixed && in_buffer(r, dst, len) ? u->bounce != NULL : -1;
}

/* The length of the slot's next read, and its destination in *dst.  An O_DIRECT read that is not
   aligned begins before the wanted bytes and ends after them. */
static size_t next_piece(const mr_reader_t *r, const uring_t *u, slot_t *s, int at, char **dst) {
  const mr_read_t *left = &s->left;
  size_t want = left->len < r->window ? left->len : r->window, mask = (size_t)u->align - 1;
  *dst = left->dst, s->from = left->offset, s->bounced = false;
  if (!u->align) return want;
  if ((((uintptr_t)left->dst | (size_t)left->offset) & mask) == 0 && want > mask)
    return want & ~mask;
  s->bounced = true, s->from = left->offset & ~(int64_t)mask,
  *dst = u->bounce + (size_t)at * BOUNCE;
  size_t all = ((size_t)(left->offset - s->from) + want + mask) & ~mask;
  return all < BOUNCE ? all : BOUNCE;
}

/* Puts a slot's next read into the submission queue, which has room for every slot. */
static void reader_uring_prepare(mr_reader_t *r, uring_t *u, int at) {
  slot_t *s = &u->slot[at];
  struct io_uring_sqe *sqe = io_uring_get_sqe(&u->ring);
  char *dst;
  unsigned want = (unsigned)next_piece(r, u, s, at, &dst);
  int fd = u->files_fixed ? s->left.file : r->fd[s->left.file];
  int fixed = fixed_index(r, u, s, dst, want);
  if (fixed >= 0)
    io_uring_prep_read_fixed(sqe, fd, dst, want, (uint64_t)s->from, fixed);
  else
    io_uring_prep_read(sqe, fd, dst, want, (uint64_t)s->from);
  if (u->files_fixed) sqe->flags |= IOSQE_FIXED_FILE;
  sqe->user_data = (uint64_t)at;
}

/* Returns how many wanted bytes a read of `got` bytes brought, and copies them if they bounced.  If
   a read ended before the first wanted byte: 0 at the file's end, -EAGAIN to retry, -EIO after too
   many retries. */
static int64_t count_gained(const mr_reader_t *r, const uring_t *u, slot_t *s, int at, int got) {
  if (!s->bounced || got <= 0) return got;
  int64_t skip = s->left.offset - s->from, more = got - skip;
  if (more <= 0) {
    struct stat st; /* the file may have become shorter since open */
    if (fstat(r->fd[s->left.file], &st) == 0 && s->from + got >= st.st_size) return 0;
    return ++s->odd < ODD_MAX ? -EAGAIN : -EIO;
  }
  if (more > (int64_t)s->left.len) more = (int64_t)s->left.len;
  memcpy(s->left.dst, u->bounce + (size_t)at * BOUNCE + skip, (size_t)more);
  return more;
}

/* Handles one completion; true if its slot is in flight again with the rest. */
static bool reader_uring_complete(mr_reader_t *r, uring_t *u, int at, int res, mr_err_t *e,
                                  mr_diag_t *diag) {
  mr_read_t *left = &u->slot[at].left;
  if (*e < 0) { /* draining after a failure */
    left->len = 0;
    return false;
  }
  int64_t got = count_gained(r, u, &u->slot[at], at, res);
  if (got == -EINTR || got == -EAGAIN) {
    reader_uring_prepare(r, u, at);
    return true;
  }
  if (got <= 0) {
    *e = mr__reader_fail(r, left, got, diag);
    left->len = 0;
    return false;
  }
  left->dst = (char *)left->dst + got, left->offset += got, left->len -= (size_t)got;
  if (left->len == 0) return false;
  reader_uring_prepare(r, u, at);
  return true;
}

/* Submits what is prepared and waits for a completion; retries after EINTR and, while completions
   come or for a moment, where the kernel has no memory or its completion queue is full.  A kernel
   that refuses for ever is a broken ring, whose reads another way does. */
static int submit_and_wait(uring_t *u) {
  int e;
  for (int refused = 0; (e = io_uring_submit_and_wait(&u->ring, 1)) < 0;) {
    if (e != -EINTR && e != -EAGAIN && e != -EBUSY) return e;
    if (e == -EINTR) continue;
    if (io_uring_cq_ready(&u->ring)) return 0;
    if (++refused == REFUSED_MAX || !mr_halt_pause(PAUSE_NS)) return e;
  }
  return e;
}

/* Handles every completion that has arrived. */
static void reader_uring_reap(mr_reader_t *r, uring_t *u, unsigned *flying, mr_err_t *e,
                              mr_diag_t *diag) {
  struct io_uring_cqe *cqe;
  while (*flying && io_uring_peek_cqe(&u->ring, &cqe) == 0) {
    int at = (int)cqe->user_data, res = cqe->res;
    io_uring_cqe_seen(&u->ring, cqe);
    if (!reader_uring_complete(r, u, at, res, e, diag)) u->idle[r->depth - (*flying)--] = at;
  }
}

/* Reads one after the other without a ring; O_DIRECT is off then. */
static mr_err_t read_plain(mr_reader_t *r, const mr_read_t *read, size_t n, mr_diag_t *diag) {
  for (size_t i = 0; i < n; i++) MR_TRY(mr__reader_plain(r, read[i], diag));
  return MR_OK;
}

/* Handles a broken ring.  Reads that the kernel has accepted still write to their destinations, so
   it waits for them.  Then it reads the rest, and all later calls read, without a ring. */
static mr_err_t give_up(mr_reader_t *r, uring_t *u, unsigned flying, int error, mr_diag_t *diag) {
  struct io_uring_cqe *cqe;
  mr_err_t e = MR_OK;
  for (unsigned taken = flying - io_uring_sq_ready(&u->ring); taken; taken--) {
    while (io_uring_peek_cqe(&u->ring, &cqe) != 0) usleep(100);
    io_uring_cqe_seen(&u->ring, cqe);
  }
  for (int i = 0; u->align && i < r->n_files; i++) fcntl(r->fd[i], F_SETFL, 0);
  for (unsigned i = 0; i < r->depth && e >= 0; i++)
    if (u->slot[i].left.len) e = mr__reader_plain(r, u->slot[i].left, diag);
  ring_close(r, u);
  snprintf(r->fallback, sizeof r->fallback, "io_uring failed (%s), reading with pread",
           strerror(-error));
  return e;
}

/* Assigns slots to the next reads while slots are idle. */
static void fill_slots(mr_reader_t *r, uring_t *u) {
  for (; u->next < u->n && u->flying < r->depth; u->next++) {
    if (u->read[u->next].len == 0) continue;
    int at = u->idle[r->depth - 1 - u->flying++];
    u->slot[at] = (slot_t){.left = u->read[u->next]};
    reader_uring_prepare(r, u, at);
  }
}

static void set_reads(uring_t *u, const mr_read_t *read, size_t n) {
  u->read = read, u->n = n, u->next = 0, u->flying = 0;
}

/* Reads that this submission refuses are submitted again by uring_finish. */
static void uring_begin(mr_reader_t *r, const mr_read_t *read, size_t n) {
  uring_t *u = r->state;
  set_reads(u, read, n);
  if (!u->ring_open) return;
  fill_slots(r, u);
  io_uring_submit(&u->ring);
}

static mr_err_t uring_finish(mr_reader_t *r, mr_diag_t *diag) {
  uring_t *u = r->state;
  mr_err_t e = MR_OK;
  if (!u->ring_open) return read_plain(r, u->read, u->n, diag);
  while (u->flying || (e == MR_OK && u->next < u->n)) {
    if (e == MR_OK) fill_slots(r, u);
    if (!u->flying) break;
    int sent = submit_and_wait(u);
    if (sent < 0) {
      mr_err_t rest = give_up(r, u, u->flying, sent, e < 0 ? NULL : diag);
      if (e < 0 || rest < 0) return e < 0 ? e : rest;
      return read_plain(r, u->read + u->next, u->n - u->next, diag);
    }
    reader_uring_reap(r, u, &u->flying, &e, diag);
  }
  return e;
}

static mr_err_t uring_read(mr_reader_t *r, const mr_read_t *read, size_t n, mr_diag_t *diag) {
  set_reads(r->state, read, n);
  return uring_finish(r, diag);
}

const mr_reader_way_t mr__reader_uring = {.merges = true,
                                          .open = uring_open,
                                          .close = uring_close,
                                          .read = uring_read,
                                          .begin = uring_begin,
                                          .finish = uring_finish};
const mr_reader_way_t mr__reader_direct = {.merges = true,
                                           .open = direct_open,
                                           .close = uring_close,
                                           .read = uring_read,
                                           .begin = uring_begin,
                                           .finish = uring_finish};
