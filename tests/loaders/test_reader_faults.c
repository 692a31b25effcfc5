/* Every call of the reader fails once, in every way, under every backend: the bytes come all the
   same, or the failure names the file (and the byte, if it was a read). */
#include <liburing.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "loaders/local/reader.h"
#include "tests/fault.h"
#include "tests/vectors.h"

enum { SIZE = 100003, N_READS = 24, LEN = 3073 };

static char folder[64], path[2][96];
static uint8_t content[2][SIZE];

/* ---- the calls ---- */

int __real_open(const char *file, int flags, ...);
int __wrap_open(const char *file, int flags, ...);
int __wrap_open(const char *file, int flags, ...) {
  if (strncmp(file, folder, strlen(folder))) return __real_open(file, flags, 0);
  FAULT_OR(__real_open(file, flags, 0));
}

int __real_fstat(int fd, struct stat *st);
int __wrap_fstat(int fd, struct stat *st);
int __wrap_fstat(int fd, struct stat *st) { FAULT_OR(__real_fstat(fd, st)); }

void *__real_mmap(void *at, size_t n, int prot, int flags, int fd, off_t offset);
void *__wrap_mmap(void *at, size_t n, int prot, int flags, int fd, off_t offset);
void *__wrap_mmap(void *at, size_t n, int prot, int flags, int fd, off_t offset) {
  int e = fault_now(false);
  if (e > 0) return errno = e, MAP_FAILED;
  return __real_mmap(at, n, prot, flags, fd, offset);
}

ssize_t __real_pread(int fd, void *to, size_t n, off_t offset);
ssize_t __wrap_pread(int fd, void *to, size_t n, off_t offset);
ssize_t __wrap_pread(int fd, void *to, size_t n, off_t offset) {
  int e = fault_now(n > 1);
  if (e > 0) return errno = e, -1;
  return __real_pread(fd, to, e < 0 ? n / 2 : n, offset);
}

/* EAGAIN is what this call says of data that are not in memory. */
ssize_t __real_preadv2(int fd, const struct iovec *v, int n, off_t offset, int flags);
ssize_t __wrap_preadv2(int fd, const struct iovec *v, int n, off_t offset, int flags);
ssize_t __wrap_preadv2(int fd, const struct iovec *v, int n, off_t offset, int flags) {
  struct iovec half = {v->iov_base, v->iov_len / 2};
  int e = fault_now(v->iov_len > 1);
  if (e > 0) return errno = e, -1;
  return __real_preadv2(fd, e < 0 ? &half : v, n, offset, flags);
}

static _Thread_local unsigned seen; /* completions of this thread's ring that were looked at */

int __real_io_uring_queue_init(unsigned depth, struct io_uring *ring, unsigned flags);
int __wrap_io_uring_queue_init(unsigned depth, struct io_uring *ring, unsigned flags);
int __wrap_io_uring_queue_init(unsigned depth, struct io_uring *ring, unsigned flags) {
  int e = fault_now(false);
  seen = 0;
  return e > 0 ? -e : __real_io_uring_queue_init(depth, ring, flags);
}

/* Two places of failure: the call itself, and each completion that it brings. */
int __real_io_uring_submit_and_wait(struct io_uring *ring, unsigned n);
int __wrap_io_uring_submit_and_wait(struct io_uring *ring, unsigned n);
int __wrap_io_uring_submit_and_wait(struct io_uring *ring, unsigned n) {
  int e = fault_now(false);
  if (e > 0) return -e;
  int sent = __real_io_uring_submit_and_wait(ring, n);
  struct io_uring_cq *cq = &ring->cq;
  for (unsigned tail = io_uring_smp_load_acquire(cq->ktail); seen != tail; seen++) {
    struct io_uring_cqe *cqe = &cq->cqes[seen & *cq->kring_mask];
    e = fault_now(cqe->res > 1);
    if (e > 0) cqe->res = -e;
    if (e < 0) cqe->res /= 2;
  }
  return sent;
}

int __real_io_uring_submit(struct io_uring *ring);
int __wrap_io_uring_submit(struct io_uring *ring);
int __wrap_io_uring_submit(struct io_uring *ring) {
  int e = fault_now(false);
  return e > 0 ? -e : __real_io_uring_submit(ring);
}

/* ---- the reader under them ---- */

static int make_files(void **state) {
  strcpy(folder, "/tmp/millrace-faults-XXXXXX");
  if (!mkdtemp(folder)) return -1;
  uint32_t seed = 5;
  for (int f = 0; f < 2; f++) {
    for (int k = 0; k < SIZE; k++)
      seed = seed * 1664525u + 1013904223u, content[f][k] = (uint8_t)(seed >> 24);
    snprintf(path[f], sizeof path[f], "%s/file-%d", folder, f);
    FILE *o = fopen(path[f], "wb");
    if (!o || fwrite(content[f], 1, SIZE, o) != SIZE || fclose(o)) return -1;
  }
  return 0;
}

static int remove_files(void **state) {
  for (int f = 0; f < 2; f++) unlink(path[f]);
  return rmdir(folder);
}

static const mr_reader_conf_t *conf_of(mr_read_way_t backend) {
  static _Thread_local const char *paths[2];
  static _Thread_local mr_reader_conf_t conf;
  paths[0] = path[0], paths[1] = path[1];
  conf = (mr_reader_conf_t){.path = paths, .n_files = 2, .depth = 8, .backend = backend};
  return &conf;
}

static bool bytes_are_right(const mr_read_t *read, int n) {
  for (int i = 0; i < n; i++)
    if (memcmp(read[i].dst, content[read[i].file] + read[i].offset, read[i].len)) return false;
  return true;
}

static void lay_out(mr_read_t *read, uint8_t *to) {
  for (int i = 0; i < N_READS; i++) {
    int64_t at = i == 5 ? SIZE - LEN : (int64_t)(i * 7919 % (SIZE - LEN));
    read[i] = (mr_read_t){i % 2, at, LEN, to + (size_t)i * LEN};
  }
}

/* "FILE: cannot be read at byte N: REASON", with a byte of one of the reads. */
static bool names_file_and_byte(const char *text) {
  for (int f = 0; f < 2; f++) {
    const char *at = strstr(text, path[f]);
    long long byte;
    if (at && sscanf(at + strlen(path[f]), ": cannot be read at byte %lld:", &byte) == 1)
      return byte >= 0 && byte < SIZE;
  }
  return false;
}

static bool in_two; /* reads are begun and finished */

static mr_err_t read_all(mr_reader_t *r, const mr_read_t *read, mr_diag_t *d) {
  if (!in_two || !mr_reader_begins(r)) return mr_reader_read(r, read, N_READS, d);
  mr_err_t e = mr_reader_begin(r, read, N_READS, d);
  return e < 0 ? e : mr_reader_finish(r, d);
}

/* True if opening and reading survived; else the failure was reported as it should be. */
static bool one_round(mr_read_way_t backend, uint8_t *to) {
  mr_reader_t *r;
  mr_diag_t d = {0};
  mr_read_t read[N_READS];
  memset(to, 0, (size_t)N_READS * LEN);
  lay_out(read, to);
  mr_err_t e = mr_reader_open(&r, conf_of(backend), &d);
  if (e < 0) {
    assert_null(r);
    if (!strstr(d.text, folder) && !strstr(d.text, "io_uring is refused") &&
        !strstr(d.text, "out of memory"))
      fail_msg("opening names no file: %s", d.text);
    return false;
  }
  e = read_all(r, read, &d);
  if (e < 0 && !names_file_and_byte(d.text)) fail_msg("names no file and byte: %s", d.text);
  if (e >= 0) assert_true(bytes_are_right(read, N_READS));
  fault.at = 0; /* and afterwards all is well again */
  memset(to, 0, (size_t)N_READS * LEN);
  assert_int_equal(read_all(r, read, NULL), MR_OK);
  assert_true(bytes_are_right(read, N_READS));
  mr_reader_close(r);
  return e >= 0;
}

/* Every N until the rounds end before it: reads that continue after a fault make more calls. */
static void sweep(mr_read_way_t backend, fault_kind_t kind, long *survived, long *reported) {
  uint8_t *to = malloc((size_t)N_READS * LEN);
  for (long n = 1;; n++) {
    fault_set(n, kind, false);
    bool lived = one_round(backend, to);
    if (fault.times == 0 && fault.calls < n) break;
    if (lived)
      ++*survived;
    else
      ++*reported;
    if (n > 5000) fail_msg("%s: no end of calls", mr_read_way_name(backend));
  }
  free(to);
}

static void sweep_all(void) {
  for (mr_read_way_t b = MR_READ_AUTO; b <= MR_READ_MMAP; b++)
    for (fault_kind_t k = 0; k < FAULT_KINDS; k++) {
      long survived = 0, reported = 0;
      sweep(b, k, &survived, &reported);
      print_message("%s, %s: %ld survived, %ld told\n", mr_read_way_name(b), fault_name[k],
                    survived, reported);
      if (k == FAULT_SHORT) assert_int_equal(reported, 0);
      assert_true(survived + reported > 0);
    }
}

static void every_call_may_fail_in_every_way_under_every_backend(void **state) { sweep_all(); }

static void reads_that_are_begun_and_finished_survive_the_same(void **state) {
  in_two = true;
  sweep_all();
  in_two = false;
}

/* A reader may be closed over reads that have begun: nothing is written to their places later. */
static void closing_ends_what_has_begun(void **state) {
  fault_set(0, FAULT_SHORT, false);
  for (mr_read_way_t b = MR_READ_URING; b <= MR_READ_PREAD; b++)
    for (int round = 0; round < 20; round++) {
      uint8_t *to = malloc((size_t)N_READS * LEN);
      mr_read_t read[N_READS];
      mr_reader_t *r;
      lay_out(read, to);
      if (mr_reader_open(&r, conf_of(b), NULL) == MR_OK) {
        assert_int_equal(mr_reader_begin(r, read, N_READS, NULL), MR_OK);
        mr_reader_close(r);
      }
      free(to);
    }
}

/* A device that is gone for good: EIO from call N on never hangs and is reported. */
static void a_device_that_is_gone_is_reported_and_never_waited_for(void **state) {
  uint8_t *to = malloc((size_t)N_READS * LEN);
  for (mr_read_way_t b = MR_READ_AUTO; b <= MR_READ_MMAP; b++)
    for (long n = 1; n < 40; n++) {
      fault_set(n, FAULT_EIO, true);
      one_round(b, to);
    }
  free(to);
}

/* ---- two workers at once ---- */

typedef struct worker {
  pthread_t thread;
  mr_read_way_t backend;
  uint8_t *to;
  long reported;
} worker_t;

static void *work(void *arg) {
  worker_t *w = arg;
  mr_read_t read[N_READS];
  lay_out(read, w->to);
  for (int i = 0; i < 50; i++) {
    mr_reader_t *r;
    mr_diag_t d = {0};
    if (mr_reader_open(&r, conf_of(w->backend), &d) < 0) {
      w->reported++;
      continue;
    }
    mr_err_t e = mr_reader_read(r, read, N_READS, &d);
    w->reported += e < 0;
    if (e < 0 && !strstr(d.text, "cannot be read at byte")) w->reported = -1000000;
    if (e >= 0 && !bytes_are_right(read, N_READS)) w->reported = -1000000;
    mr_reader_close(r);
  }
  return NULL;
}

static void two_workers_that_fail_at_once_both_say_so(void **state) {
  for (mr_read_way_t b = MR_READ_URING; b <= MR_READ_PREAD; b++) {
    worker_t w[2];
    conf_of(b);
    fault_set(40, FAULT_EIO, true);
    for (int i = 0; i < 2; i++) {
      w[i] = (worker_t){.backend = b, .to = malloc((size_t)N_READS * LEN)};
      assert_int_equal(pthread_create(&w[i].thread, NULL, work, &w[i]), 0);
    }
    for (int i = 0; i < 2; i++) {
      pthread_join(w[i].thread, NULL);
      assert_true(w[i].reported > 0);
      free(w[i].to);
    }
  }
  fault_set(0, FAULT_SHORT, false);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_call_may_fail_in_every_way_under_every_backend),
      cmocka_unit_test(reads_that_are_begun_and_finished_survive_the_same),
      cmocka_unit_test(closing_ends_what_has_begun),
      cmocka_unit_test(a_device_that_is_gone_is_reported_and_never_waited_for),
      cmocka_unit_test(two_workers_that_fail_at_once_both_say_so),
  };
  return cmocka_run_group_tests(tests, make_files, remove_files);
}
