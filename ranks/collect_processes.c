/* Collectives of processes.  Values travel whole and every sum is added here, in the order of ranks
   as threads add it, so that the bits are theirs.  A large all_reduce goes to the rank of each
   part, is added there piece by piece as the pieces come, and goes from there to all: as many bytes
   as a ring sends. */
#include <stdlib.h>
#include <string.h>

#include "ranks/job.h"
#include "ranks/processes_private.h"

enum { WHOLE_BYTES = 1 << 15 /* all_reduce of less sends the operand to every rank */ };

/* The calls, as their parcels say. */
typedef enum call { ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER, ALL_TO_ALL, ALL_MAX, ALL_MIN } call_t;
static const char *const call_names[] = {"all_reduce",           "all_gather",
                                         "reduce_scatter",       "all_to_all",
                                         "all_reduce (maximum)", "all_reduce (minimum)"};
enum { N_CALLS = sizeof call_names / sizeof *call_names };

static mr_err_t processes_create(const mr_device_t *d, const char *id, int rank, int size,
                                 double limit_s, mr_collect_t **out, mr_diag_t *diag) {
  MR_TRY(mr__collect_check(d, id, rank, size, limit_s, diag));
  mr_collect_t *c = calloc(1, sizeof *c);
  if (!c) return mr_no_memory(diag, "a rank of a communicator");
  *c = (mr_collect_t){.rank = rank, .size = size};
  mr__processes_lock();
  mr_err_t e = mr__group_join(id, rank, size, limit_s, &c->group, diag);
  mr__processes_unlock();
  if (e < 0) return free(c), e;
  return *out = c, MR_OK;
}

static void processes_destroy(mr_collect_t *c) {
  if (!c) return;
  mr__processes_lock();
  mr__group_leave(c->group);
  mr__processes_unlock();
  free(c);
}

/* ---- the parts of a call ---- */

static size_t piece_at(size_t bytes, size_t at) {
  return bytes - at < MR__PARCEL_MOST ? bytes - at : MR__PARCEL_MOST;
}

/* The copy is made without the lock. */
static void give_piece(mr_collect_t *c, int to, mr__parcel_kind_t kind, uint64_t call, int what,
                       const void *data, size_t bytes) {
  mr__parcel_t *p = mr__parcel_new(bytes);
  if (p && bytes) memcpy(p->data, data, bytes);
  mr__processes_lock();
  mr__group_send(c->group, to, kind, call, what, p);
  mr__processes_unlock();
}

/* Also nothing is a piece: the receiver waits for it. */
static void give_data(mr_collect_t *c, call_t what, int to, const char *data, size_t bytes) {
  size_t at = 0, n;
  do {
    n = piece_at(bytes, at);
    give_piece(c, to, MR__PARCEL_DATA, c->calls, what, data ? data + at : data, n);
  } while ((at += n) < bytes);
}

/* The next piece of this call from a rank, which the caller drops; NULL: the communicator has
   failed. */
static mr__parcel_t *take_data(mr_collect_t *c, call_t what, int from, size_t bytes) {
  mr__group_t *g = c->group;
  mr__parcel_t *p = NULL;
  mr__processes_lock();
  int64_t until = mr__group_until(g);
  while (g->why.code >= 0 && !(p = mr__parcels_take(&g->member[from].data)) &&
         mr__group_wait(g, from, until, call_names[what]))
    continue;
  const mr__head_t *h = p ? p->head : NULL;
  bool good = h && h->call == c->calls && h->b == (int)what && h->bytes == bytes;
  if (h && !good)
    mr__group_fail(
        g, -1,
        "rank %d made %s number %llu with %llu bytes, where rank %d made %s number %llu "
        "and expected %zu: all ranks must make the same calls in the same order",
        mr__group_process(g, from), h->b >= 0 && h->b < N_CALLS ? call_names[h->b] : "another call",
        (unsigned long long)h->call, (unsigned long long)h->bytes, mr__group_process(g, c->rank),
        call_names[what], (unsigned long long)c->calls, bytes);
  mr__processes_unlock();
  if (good) return p;
  if (p) p->drop(p);
  return NULL;
}

static bool take_into(mr_collect_t *c, call_t what, int from, char *out, size_t bytes) {
  size_t at = 0, n;
  do {
    n = piece_at(bytes, at);
    mr__parcel_t *p = take_data(c, what, from, n);
    if (!p) return false;
    if (n) memcpy(out + at, p->data, n);
    p->drop(p);
  } while ((at += n) < bytes);
  return true;
}

/* out = out + x, or the larger or smaller one; for rank 0 out = x. */
static void add_term(mr_reduce_t how, mr_dtype_t t, int rank, void *out, const void *x,
                     size_t bytes) {
  if (!bytes) return;
  if (rank == 0)
    memcpy(out, x, bytes);
  else
    mr__collect_reduce(how, t, out, x, (int64_t)(bytes / mr_dtype_size(t)));
}

/* One piece of the sum, of what the others give and this rank's own. */
static bool sum_piece(mr_collect_t *c, call_t what, mr_reduce_t how, mr_dtype_t t, const void *own,
                      void *out, size_t bytes) {
  for (int r = 0; r < c->size; r++) {
    mr__parcel_t *p = r == c->rank ? NULL : take_data(c, what, r, bytes);
    if (r != c->rank && !p) return false;
    add_term(how, t, r, out, p ? p->data : own, bytes);
    if (p) p->drop(p);
  }
  return true;
}

static bool begin_call(mr_collect_t *c, const char *what) {
  mr__group_t *g = c->group;
  mr__processes_lock();
  int64_t until = mr__group_until(g);
  bool good = g->why.code >= 0;
  for (int r = 0; r < g->size && good; r++)
    while (good && g->member[r].job_rank < 0) good = mr__group_wait(g, r, until, what);
  c->calls++;
  mr__processes_unlock();
  return good;
}

static void end_call(bool good, void *out, size_t bytes) {
  if (!good && bytes) memset(out, 0xFF, bytes);
}

/* ---- the calls ---- */

static bool sum_whole(mr_collect_t *c, call_t what, mr_reduce_t how, mr_dtype_t t, const char *in,
                      char *out, size_t bytes) {
  for (int r = 0; r < c->size; r++)
    if (r != c->rank) give_data(c, what, r, in, bytes);
  return sum_piece(c, what, how, t, in, out, bytes);
}

/* Where part r of n elements begins; the first ones have one element more. */
static size_t sum_part_begins(int64_t n, int size, int r, size_t element) {
  int64_t each = n / size, more = n % size;
  return (size_t)(each * r + (r < more ? r : more)) * element;
}

static bool sum_parts(mr_collect_t *c, call_t what, mr_reduce_t how, mr_dtype_t t, int64_t n,
                      const char *in, char *out) {
  size_t element = mr_dtype_size(t);
  for (int i = 1; i < c->size; i++) { /* each begins with another rank */
    int r = (c->rank + i) % c->size;
    size_t from = sum_part_begins(n, c->size, r, element);
    give_data(c, what, r, in + from, sum_part_begins(n, c->size, r + 1, element) - from);
  }
  size_t at = sum_part_begins(n, c->size, c->rank, element);
  size_t end = sum_part_begins(n, c->size, c->rank + 1, element), k;
  for (; at < end; at += k) {
    k = piece_at(end, at);
    if (!sum_piece(c, what, how, t, in + at, out + at, k)) return false;
    for (int i = 1; i < c->size; i++) give_data(c, what, (c->rank + i) % c->size, out + at, k);
  }
  for (int i = 1; i < c->size; i++) {
    int r = (c->rank + i) % c->size;
    size_t from = sum_part_begins(n, c->size, r, element);
    if (!take_into(c, what, r, out + from, sum_part_begins(n, c->size, r + 1, element) - from))
      return false;
  }
  return true;
}

static void processes_all_reduce(mr_collect_t *c, mr_reduce_t how, mr_dtype_t t, int64_t n,
                                 const void *in, void *out) {
  static const call_t call_of[] = {
      [MR_REDUCE_SUM] = ALL_REDUCE, [MR_REDUCE_MAX] = ALL_MAX, [MR_REDUCE_MIN] = ALL_MIN};
  call_t what = call_of[how];
  size_t bytes = (size_t)n * mr_dtype_size(t);
  bool whole = bytes < WHOLE_BYTES || n < c->size;
  bool good = begin_call(c, call_names[what]) && (whole ? sum_whole(c, what, how, t, in, out, bytes)
                                                        : sum_parts(c, what, how, t, n, in, out));
  end_call(good, out, bytes);
}

static void processes_reduce_scatter(mr_collect_t *c, mr_dtype_t t, int64_t n, const void *in,
                                     void *out) {
  size_t bytes = (size_t)n * mr_dtype_size(t), at = 0, k;
  const char *own = (const char *)in + (size_t)c->rank * bytes;
  bool good = begin_call(c, "reduce_scatter");
  for (int i = 1; i < c->size && good; i++) {
    int r = (c->rank + i) % c->size;
    give_data(c, REDUCE_SCATTER, r, (const char *)in + (size_t)r * bytes, bytes);
  }
  if (good) do {
      k = piece_at(bytes, at);
      good = sum_piece(c, REDUCE_SCATTER, MR_REDUCE_SUM, t, own + at, (char *)out + at, k);
    } while (good && (at += k) < bytes);
  end_call(good, out, bytes);
}

/* Gives row r of in, or the one row of all, and takes row r of out. */
static void exchange_rows(mr_collect_t *c, call_t what, size_t bytes, const char *in, size_t step,
                          char *out) {
  bool good = begin_call(c, call_names[what]);
  for (int i = 1; i < c->size && good; i++) {
    int r = (c->rank + i) % c->size;
    give_data(c, what, r, in + (size_t)r * step, bytes);
  }
  if (good && bytes) memcpy(out + (size_t)c->rank * bytes, in + (size_t)c->rank * step, bytes);
  for (int r = 0; r < c->size && good; r++)
    if (r != c->rank) good = take_into(c, what, r, out + (size_t)r * bytes, bytes);
  end_call(good, out, bytes * (size_t)c->size);
}

static void processes_all_gather(mr_collect_t *c, size_t bytes, const void *in, void *out) {
  exchange_rows(c, ALL_GATHER, bytes, in, 0, out);
}

static void processes_all_to_all(mr_collect_t *c, size_t bytes, const void *in, void *out) {
  exchange_rows(c, ALL_TO_ALL, bytes, in, bytes, out);
}

/* ---- letters, which are no calls of all ranks ---- */

static bool wait_for_member(mr_collect_t *c, int r, const char *what) {
  mr__processes_lock();
  int64_t until = mr__group_until(c->group);
  bool good = c->group->why.code >= 0;
  while (good && c->group->member[r].job_rank < 0) good = mr__group_wait(c->group, r, until, what);
  mr__processes_unlock();
  return good;
}

/* Gives a letter to the wire, which queues it.  Returns what member[to].taken is when the receiver
   has it whole; 0 after a failure. */
static uint64_t letter_give(mr_collect_t *c, int to, size_t bytes, const void *data) {
  size_t at = 0, n;
  if (!wait_for_member(c, to, "receive")) return 0;
  mr__processes_lock();
  uint64_t taken = c->group->member[to].taken + 1;
  mr__processes_unlock();
  do {
    n = piece_at(bytes, at);
    give_piece(c, to, MR__PARCEL_LETTER, bytes, 0, bytes ? (const char *)data + at : data, n);
  } while ((at += n) < bytes);
  return taken;
}

/* Returns when the receiver has it all: a receiver that does not come is then known, and no more
   than one letter to each rank is under way. */
static void letter_end(mr_collect_t *c, int to, uint64_t taken) {
  mr__group_t *g = c->group;
  mr__processes_lock();
  int64_t until = mr__group_until(g);
  while (g->member[to].taken < taken && mr__group_wait(g, to, until, "receive")) continue;
  mr__processes_unlock();
}

static void processes_send(mr_collect_t *c, int to, size_t bytes, const void *data) {
  uint64_t taken = letter_give(c, to, bytes, data);
  if (taken) letter_end(c, to, taken);
}

static void processes_receive(mr_collect_t *c, int from, size_t bytes, void *data) {
  mr__group_t *g = c->group;
  size_t at = 0, n = 0;
  bool good = wait_for_member(c, from, "send");
  if (good) do {
      mr__parcel_t *p = NULL;
      n = piece_at(bytes, at);
      mr__processes_lock();
      int64_t until = mr__group_until(g);
      while (g->why.code >= 0 && !(p = mr__parcels_take(&g->member[from].letters)) &&
             mr__group_wait(g, from, until, "send"))
        continue;
      good = p && p->head->call == bytes && p->head->bytes == n;
      if (p && !good)
        mr__group_fail(g, -1,
                       "a message of rank %d has %llu bytes, where its receive by rank %d expected "
                       "%zu",
                       mr__group_process(g, from), (unsigned long long)p->head->call,
                       mr__group_process(g, c->rank), bytes);
      mr__processes_unlock();
      if (good && n) memcpy((char *)data + at, p->data, n);
      if (p) p->drop(p);
    } while (good && (at += n) < bytes);
  if (good) give_piece(c, from, MR__PARCEL_TAKEN, 0, 0, "", 0);
  end_call(good, data, bytes);
}

static void processes_send_receive(mr_collect_t *c, int to, int from, size_t bytes, const void *in,
                                   void *out) {
  if (to == c->rank && from == c->rank) { /* a rank has no wire to itself */
    bool good = wait_for_member(c, to, "receive");
    if (good && bytes) memcpy(out, in, bytes);
    end_call(good, out, bytes);
    return;
  }
  uint64_t taken = to < 0 ? 0 : letter_give(c, to, bytes, in);
  if (from >= 0) processes_receive(c, from, bytes, out);
  if (taken) letter_end(c, to, taken);
}

static void processes_abort(mr_collect_t *c) {
  mr__processes_lock();
  mr__group_fail(c->group, -1, "it was aborted");
  mr__processes_unlock();
}

static mr_err_t processes_failed(mr_collect_t *c, int *rank, mr_diag_t *diag) {
  mr__processes_lock();
  *rank = c->group->missing;
  mr_err_t e = mr_diag_relay(diag, c->group->why.code, &c->group->why);
  mr__processes_unlock();
  return e;
}

static void processes_ask(mr_collect_t *c, int64_t since_ns, const char *what) {
  mr__processes_lock();
  mr__group_ask(c->group, since_ns, what);
  mr__processes_unlock();
}

#define PROCESSES_TABLE(text)                                                                 \
  {                                                                                           \
    .name = text, .create = processes_create, .all_reduce = processes_all_reduce,             \
    .all_gather = processes_all_gather, .reduce_scatter = processes_reduce_scatter,           \
    .all_to_all = processes_all_to_all, .send = processes_send, .receive = processes_receive, \
    .send_receive = processes_send_receive, .ask = processes_ask, .abort = processes_abort,   \
    .failed = processes_failed, .destroy = processes_destroy                                  \
  }

const mr_collect_ops_t mr_collect_zmq = PROCESSES_TABLE("zmq");
const mr_collect_ops_t mr_collect_mpi = PROCESSES_TABLE("mpi");
