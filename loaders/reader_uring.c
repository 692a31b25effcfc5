/* The io_uring way: slots are reads in flight; one submission starts as many as there are slots. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "loaders/reader_private.h"

typedef struct mr_reader_slot {
  mr_read_t left; /* what is still to come */
} slot_t;

/* Registration saves a lookup per read; without it (a low RLIMIT_MEMLOCK) all still works. */
static void register_all(mr_reader_t *r) {
  struct iovec v = {r->buffer, r->buffer_len};
  r->files_fixed = io_uring_register_files(&r->ring, r->fd, (unsigned)r->n_files) == 0;
  r->buffer_fixed = r->buffer && io_uring_register_buffers(&r->ring, &v, 1) == 0;
}

mr_err_t mr__reader_ring_open(mr_reader_t *r, mr_diag_t *diag) {
  int e = io_uring_queue_init(r->depth, &r->ring, 0);
  if (e < 0) {
    snprintf(r->fallback, sizeof r->fallback, "io_uring is refused (%s), reading with pread",
             strerror(-e));
    return MR_OK;
  }
  r->ring_open = true;
  r->slot = calloc(r->depth, sizeof *r->slot);
  r->idle = calloc(r->depth, sizeof *r->idle);
  if (!r->slot || !r->idle) return mr_fail(diag, MR_ERR_NOMEM, "no memory for %u reads", r->depth);
  for (unsigned i = 0; i < r->depth; i++) r->idle[i] = (int)i;
  register_all(r);
  return MR_OK;
}

void mr__reader_ring_close(mr_reader_t *r) {
  if (r->ring_open) io_uring_queue_exit(&r->ring);
  free(r->slot), free(r->idle);
  r->ring_open = false, r->slot = NULL, r->idle = NULL;
}

static bool in_buffer(const mr_reader_t *r, const char *dst, size_t len) {
  return r->buffer_fixed && dst >= r->buffer && len <= r->buffer_len &&
         (size_t)(dst - r->buffer) <= r->buffer_len - len;
}

/* Puts a slot's next window into the submission queue, which has room for every slot. */
static void prepare(mr_reader_t *r, int at) {
  const mr_read_t *left = &r->slot[at].left;
  struct io_uring_sqe *sqe = io_uring_get_sqe(&r->ring);
  unsigned want = (unsigned)(left->len < r->window ? left->len : r->window);
  int fd = r->files_fixed ? left->file : r->fd[left->file];
  if (in_buffer(r, left->dst, want))
    io_uring_prep_read_fixed(sqe, fd, left->dst, want, (uint64_t)left->offset, 0);
  else
    io_uring_prep_read(sqe, fd, left->dst, want, (uint64_t)left->offset);
  if (r->files_fixed) sqe->flags |= IOSQE_FIXED_FILE;
  sqe->user_data = (uint64_t)at;
}

/* One completion: true when its slot is in flight again with what is left. */
static bool complete(mr_reader_t *r, int at, int got, mr_err_t *e, mr_diag_t *diag) {
  mr_read_t *left = &r->slot[at].left;
  if (*e < 0) return false; /* draining after a failure */
  if (got == -EINTR || got == -EAGAIN) {
    prepare(r, at);
    return true;
  }
  if (got <= 0) {
    *e = mr__reader_fail(r, left, got, diag);
    return false;
  }
  left->dst = (char *)left->dst + got, left->offset += got, left->len -= (size_t)got;
  if (left->len == 0) return false;
  prepare(r, at);
  return true;
}

/* Submits what is prepared and waits for a completion.  EINTR and a full completion queue are
   answered by trying again. */
static int submit_and_wait(mr_reader_t *r) {
  int e;
  do {
    e = io_uring_submit_and_wait(&r->ring, 1);
  } while (e == -EINTR || e == -EAGAIN || e == -EBUSY);
  return e;
}

mr_err_t mr__reader_uring(mr_reader_t *r, const mr_read_t *read, size_t n, mr_diag_t *diag) {
  mr_err_t e = MR_OK;
  unsigned flying = 0;
  size_t next = 0;
  while (flying || (e == MR_OK && next < n)) {
    for (; e == MR_OK && next < n && flying < r->depth; next++) {
      if (read[next].len == 0) continue;
      int at = r->idle[r->depth - 1 - flying++];
      r->slot[at].left = read[next];
      prepare(r, at);
    }
    if (!flying) break;
    int sent = submit_and_wait(r);
    if (sent < 0) { /* the ring itself is broken: give it up, later reads use pread */
      mr__reader_ring_close(r);
      return mr_fail(diag, MR_ERR_IO, "io_uring failed: %s", strerror(-sent));
    }
    struct io_uring_cqe *cqe;
    while (flying && io_uring_peek_cqe(&r->ring, &cqe) == 0) {
      int at = (int)cqe->user_data, got = cqe->res;
      io_uring_cqe_seen(&r->ring, cqe);
      if (!complete(r, at, got, &e, diag)) r->idle[r->depth - flying--] = at;
    }
  }
  return e;
}
