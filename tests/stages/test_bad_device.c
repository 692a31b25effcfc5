/* A device that fails under one record, or once: with on-bad= the run continues, and the record
   gets the replacement that it would get if its bytes were bad. */
#include <liburing.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "loaders/loaders.h"
#include "loaders/local/reader_choose.h"
#include "pipeline/graph/graph.h"
#include "pipeline/stage_step.h"
#include "stages/stages.h"
#include "tests/fault.h"
#include "tests/vectors.h"

enum { RECORD = 3073, PER_FILE = 20, FILES = 5, BAD_FILE = 2, BAD_RECORD = 5, SLOTS = 64 };

static char folder[] = "/tmp/millrace-device-XXXXXX";
static bool sector; /* the bad record's bytes cannot be read */

/* ---- the calls ---- */

/* True if a read meets the middle of the bad record. */
static bool hits(int fd, int64_t offset, size_t len) {
  char link[64], name[128];
  int64_t at = BAD_RECORD * RECORD + 1500;
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t n = readlink(link, name, sizeof name - 1);
  if (!sector || n <= 0) return false;
  name[n] = 0;
  return strstr(name, "data_batch_3.bin") && offset <= at && at < offset + (int64_t)len;
}

ssize_t __real_pread(int fd, void *to, size_t n, off_t offset);
ssize_t __wrap_pread(int fd, void *to, size_t n, off_t offset);
ssize_t __wrap_pread(int fd, void *to, size_t n, off_t offset) {
  if (hits(fd, offset, n)) return errno = EIO, -1;
  FAULT_OR(__real_pread(fd, to, n, offset));
}

ssize_t __real_preadv2(int fd, const struct iovec *v, int n, off_t offset, int flags);
ssize_t __wrap_preadv2(int fd, const struct iovec *v, int n, off_t offset, int flags);
ssize_t __wrap_preadv2(int fd, const struct iovec *v, int n, off_t offset, int flags) {
  if (hits(fd, offset, v->iov_len)) return errno = EIO, -1;
  FAULT_OR(__real_preadv2(fd, v, n, offset, flags));
}

/* Of this thread's ring: slots whose read meets the bad record. */
static _Thread_local unsigned seen;
static _Thread_local bool bad_slot[SLOTS];

int __real_io_uring_queue_init(unsigned depth, struct io_uring *ring, unsigned flags);
int __wrap_io_uring_queue_init(unsigned depth, struct io_uring *ring, unsigned flags);
int __wrap_io_uring_queue_init(unsigned depth, struct io_uring *ring, unsigned flags) {
  seen = 0;
  return __real_io_uring_queue_init(depth, ring, flags);
}

/* The files stay unregistered, so that a submission tells its file. */
int __wrap_io_uring_register_files(struct io_uring *ring, const int *fd, unsigned n);
int __wrap_io_uring_register_files(struct io_uring *ring, const int *fd, unsigned n) {
  return -EINVAL;
}

static void look_at_submissions(struct io_uring *ring) {
  for (unsigned k = ring->sq.sqe_head; k != ring->sq.sqe_tail; k++) {
    const struct io_uring_sqe *e = &ring->sq.sqes[k & *ring->sq.kring_mask];
    bad_slot[e->user_data % SLOTS] = hits(e->fd, (int64_t)e->off, e->len);
  }
}

static void look_at_completions(struct io_uring *ring) {
  struct io_uring_cq *cq = &ring->cq;
  for (unsigned tail = io_uring_smp_load_acquire(cq->ktail); seen != tail; seen++) {
    struct io_uring_cqe *cqe = &cq->cqes[seen & *cq->kring_mask];
    if (bad_slot[cqe->user_data % SLOTS] || fault_now(false) > 0) cqe->res = -EIO;
  }
}

int __real_io_uring_submit(struct io_uring *ring);
int __wrap_io_uring_submit(struct io_uring *ring);
int __wrap_io_uring_submit(struct io_uring *ring) {
  look_at_submissions(ring);
  return __real_io_uring_submit(ring);
}

int __real_io_uring_submit_and_wait(struct io_uring *ring, unsigned n);
int __wrap_io_uring_submit_and_wait(struct io_uring *ring, unsigned n);
int __wrap_io_uring_submit_and_wait(struct io_uring *ring, unsigned n) {
  look_at_submissions(ring);
  int sent = __real_io_uring_submit_and_wait(ring, n);
  look_at_completions(ring);
  return sent;
}

/* ---- a sink that knows all bytes of a run by one number ---- */

typedef struct sum {
  uint64_t hash, records;
} sum_t;

static mr_err_t sum_plan(mr_stage_t *s) { return MR_OK; }

static void add(uint64_t *hash, const void *data, size_t n) {
  for (size_t i = 0; i < n; i++) *hash = (*hash ^ ((const uint8_t *)data)[i]) * 1099511628211u;
}

static mr_err_t sum_step(mr_stage_t *s) {
  sum_t *t = s->state;
  const mr_spec_t *spec = &s->in_spec[0];
  mr_buf_t *b[MR_BURST];
  size_t k = mr_take(s, 0, b, MR_BURST);
  for (size_t i = 0; i < k; i++) {
    for (int f = 0; f < spec->n_fields; f++)
      add(&t->hash, b[i]->field[f].data, (size_t)b[i]->n * mr_field_bytes(&spec->field[f]));
    add(&t->hash, b[i]->key, (size_t)b[i]->n * sizeof *b[i]->key);
    add(&t->hash, b[i]->draw, (size_t)b[i]->n * sizeof *b[i]->draw);
    t->records += (uint64_t)b[i]->n;
    mr_buf_unref(b[i]);
  }
  return k ? MR_OK : mr_idle(s);
}

static const mr_stage_def_t sum_def = {
    .name = "sum",
    .help = "Adds up.",
    .in = {{.name = "in", .flow = MR_FLOW_BATCHES}},
    .state_sz = sizeof(sum_t),
    .plan = sum_plan,
    .step = &(const mr_step_def_t){.run = sum_step},
};
static const mr_stage_def_t *const own[] = {&sum_def, NULL};
static mr_registry_t reg;

static mr_err_t run(const char *how, int workers, sum_t *sum, mr_diag_t *d) {
  char text[512];
  *d = (mr_diag_t){0};
  snprintf(text, sizeof text,
           "cifar10 path=%s records=%d holdout=0 %s ! shuffle seed=3 epochs=2 ! flip ! batch 24 "
           "workers=%d ! sum",
           folder, PER_FILE, how, workers);
  mr_graph_t *g = mr_graph_create(&reg);
  mr_err_t e = mr_graph_parse(g, text, NULL, 0, d);
  if (e >= 0) e = mr_graph_run(g, d);
  if (e >= 0) *sum = *(const sum_t *)mr_graph_stage_of(g, "sum")->state;
  mr_graph_destroy(g);
  return e;
}

static sum_t sum_of(const char *how, int workers) {
  sum_t sum = {0};
  mr_diag_t d;
  if (run(how, workers, &sum, &d) < 0) fail_msg("%s: %s", how, d.text);
  assert_int_equal(sum.records, 2 * FILES * PER_FILE);
  return sum;
}

static void set_label(int label) {
  char path[96];
  snprintf(path, sizeof path, "%s/data_batch_%d.bin", folder, BAD_FILE + 1);
  FILE *f = fopen(path, "r+b");
  assert_non_null(f);
  assert_int_equal(fseek(f, BAD_RECORD * RECORD, SEEK_SET), 0);
  fputc(label, f);
  assert_int_equal(fclose(f), 0);
}

static const char *const ways[] = {"memory=-1 backend=pread", "memory=0 backend=pread",
                                   "memory=0 backend=uring"};
enum { WAYS = sizeof ways / sizeof *ways };

static bool lacks(const char *how) { return strstr(how, "uring") && mr_uring_refused() != 0; }

static void a_record_that_cannot_be_read_is_replaced_like_a_bad_one(void **state) {
  uint64_t clean = sum_of("on-bad=skip-replace", 1).hash;
  set_label(77);
  uint64_t want = sum_of("on-bad=skip-replace", 1).hash;
  set_label(BAD_RECORD);
  assert_true(want != clean);
  for (int i = 0; i < 2 * WAYS; i++) {
    char how[128];
    snprintf(how, sizeof how, "on-bad=skip-replace %s", ways[i / 2]);
    if (lacks(how)) continue;
    sector = true;
    uint64_t got = sum_of(how, 1 + i % 2).hash;
    sector = false;
    if (got != want) fail_msg("%s, %d workers", how, 1 + i % 2);
    assert_true(sum_of(how, 1 + i % 2).hash == clean);
  }
}

static void unless_asked_for_the_run_fails_and_names_the_byte(void **state) {
  sum_t sum;
  mr_diag_t d;
  for (int i = 0; i < WAYS; i++) {
    if (lacks(ways[i])) continue;
    sector = true;
    mr_err_t e = run(ways[i], 2, &sum, &d);
    sector = false;
    assert_int_equal(e, MR_ERR_IO);
    if (!strstr(d.text, "data_batch_3.bin: cannot be read at byte ")) fail_msg("%s", d.text);
  }
}

/* A read that fails once is read again: nothing is replaced. */
static void a_failure_that_passes_changes_nothing(void **state) {
  uint64_t clean = sum_of("on-bad=skip-replace", 1).hash;
  for (int i = 0; i < WAYS; i++) {
    char how[128];
    long n = 1;
    snprintf(how, sizeof how, "on-bad=skip-replace %s", ways[i]);
    if (lacks(how)) continue;
    for (;; n++) {
      fault_set(n, FAULT_EIO, false);
      if (sum_of(how, 2).hash != clean) fail_msg("%s, call %ld", how, n);
      if (!fault.times) break;
    }
    print_message("%s: every one of %ld calls failed once\n", how, n - 1);
    fault_set(0, FAULT_EIO, false);
  }
}

static int setup(void **state) {
  static uint8_t data[PER_FILE * RECORD];
  char path[96];
  mr_registry_add(&reg, mr_loaders_stages);
  mr_registry_add(&reg, mr_stages_stages);
  mr_registry_add(&reg, own);
  if (!mkdtemp(folder)) return -1;
  for (int k = 0; k < FILES; k++) {
    for (int i = 0; i < PER_FILE * RECORD; i++) data[i] = (uint8_t)(i * 7 + k * 31 + i / 99);
    for (int r = 0; r < PER_FILE; r++) data[r * RECORD] = (uint8_t)(r % 10);
    snprintf(path, sizeof path, "%s/data_batch_%d.bin", folder, k + 1);
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(data, sizeof data, 1, f) != 1 || fclose(f)) return -1;
  }
  return 0;
}

static int teardown(void **state) {
  char path[96];
  for (int k = 1; k <= FILES; k++) {
    snprintf(path, sizeof path, "%s/data_batch_%d.bin", folder, k);
    unlink(path);
  }
  return rmdir(folder);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_record_that_cannot_be_read_is_replaced_like_a_bad_one),
      cmocka_unit_test(unless_asked_for_the_run_fails_and_names_the_byte),
      cmocka_unit_test(a_failure_that_passes_changes_nothing),
  };
  return cmocka_run_group_tests(tests, setup, teardown);
}
