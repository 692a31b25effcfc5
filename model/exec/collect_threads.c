/* Collectives of threads: ranks meet at counters under a lock and read each other's operands in
   place.  Each computes its whole result itself in the order of ranks, so that nothing is sent
   back.  A rank waits for others to come up to its limit; while they read its operand it waits as
   long as that takes, since they have come. */
#include "model/exec/collect.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "model/ir/element.h"
#include "model/ops/operands.h"
#include "model/ops/rules.h"

/* What is on its way from one rank to another. */
typedef struct letter {
  const void *data; /* NULL: none */
  size_t bytes;
} letter_t;

typedef struct member {
  bool joined;
  uint64_t come; /* meetings, two for each call */
  const void *shown;
} member_t;

typedef struct group {
  struct group *next;
  char id[MR_COLLECT_ID];
  int size, users;
  pthread_mutex_t lock;
  pthread_cond_t changed;
  mr_diag_t why;     /* of the first failure; code MR_OK: none */
  uint64_t met;      /* the last meeting to which all came before a failure */
  int missing;       /* the rank that did not come; -1: none is known */
  letter_t *letter;  /* [size][size] from, to */
  member_t member[]; /* [size] */
} group_t;

struct mr_collect {
  group_t *group;
  int rank;
  double limit_s;
};

/* The communicators of the process, whose ranks find each other here. */
static struct {
  pthread_mutex_t lock;
  group_t *first;
} groups = {.lock = PTHREAD_MUTEX_INITIALIZER};

static group_t *group_create(const char *id, int size) {
  group_t *g = calloc(1, sizeof *g + (size_t)size * sizeof g->member[0]);
  letter_t *letter = calloc((size_t)size * (size_t)size, sizeof *letter);
  if (!g || !letter) return free(g), free(letter), NULL;
  pthread_condattr_t attr;
  pthread_condattr_init(&attr);
  pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
  pthread_mutex_init(&g->lock, NULL);
  pthread_cond_init(&g->changed, &attr);
  pthread_condattr_destroy(&attr);
  strcpy(g->id, id);
  g->size = size, g->letter = letter, g->missing = -1;
  g->next = groups.first, groups.first = g;
  return g;
}

/* With the lock of groups held. */
static mr_err_t group_join(const char *id, int rank, int size, group_t **out, mr_diag_t *diag) {
  group_t *g = groups.first;
  while (g && strcmp(g->id, id) != 0) g = g->next;
  if (!g && !(g = group_create(id, size)))
    return mr_no_memory(diag, "a communicator of %d ranks", size);
  if (g->size != size)
    return mr_fail(diag, MR_ERR_CONFIG, "communicator %s: size %d, the other ranks have %d", id,
                   size, g->size);
  if (g->member[rank].joined)
    return mr_fail(diag, MR_ERR_CONFIG, "communicator %s: rank %d has joined already", id, rank);
  g->member[rank].joined = true;
  g->users++;
  return *out = g, MR_OK;
}

mr_err_t mr__collect_check(const mr_device_t *d, const char *id, int rank, int size, double limit_s,
                           mr_diag_t *diag) {
  if (size < 1 || size > MR_COLLECT_RANKS || rank < 0 || rank >= size)
    return mr_fail(diag, MR_ERR_CONFIG,
                   "communicator: rank %d of %d, want 0 to size - 1 of 1 to %d", rank, size,
                   MR_COLLECT_RANKS);
  if (strlen(id) >= MR_COLLECT_ID || !(limit_s > 0))
    return mr_fail(diag, MR_ERR_CONFIG,
                   "communicator %.40s: want a name of less than %d bytes, and a limit above 0 s",
                   id, MR_COLLECT_ID);
  if (!d->backend->host)
    return mr_fail(diag, MR_ERR_CONFIG,
                   "communicator %s: device %s is not the processors', which these ranks need", id,
                   d->name);
  return MR_OK;
}

static mr_err_t threads_create(const mr_device_t *d, const char *id, int rank, int size,
                               double limit_s, mr_collect_t **out, mr_diag_t *diag) {
  MR_TRY(mr__collect_check(d, id, rank, size, limit_s, diag));
  mr_collect_t *c = calloc(1, sizeof *c);
  if (!c) return mr_no_memory(diag, "a rank of a communicator");
  *c = (mr_collect_t){.rank = rank, .limit_s = limit_s};
  pthread_mutex_lock(&groups.lock);
  mr_err_t e = group_join(id, rank, size, &c->group, diag);
  pthread_mutex_unlock(&groups.lock);
  if (e < 0) return free(c), e;
  return *out = c, MR_OK;
}

static void threads_destroy(mr_collect_t *c) {
  if (!c) return;
  group_t *g = c->group;
  pthread_mutex_lock(&groups.lock);
  bool last = --g->users == 0;
  for (group_t **at = &groups.first; last && *at; at = &(*at)->next)
    if (*at == g) {
      *at = g->next;
      break;
    }
  pthread_mutex_unlock(&groups.lock);
  free(c);
  if (!last) return;
  pthread_cond_destroy(&g->changed);
  pthread_mutex_destroy(&g->lock);
  free(g->letter);
  free(g);
}

/* ---- waiting, with the lock held ---- */

static struct timespec collect_deadline(const mr_collect_t *c) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  double s = c->limit_s < 1e8 ? c->limit_s : 1e8;
  t.tv_sec += (time_t)s;
  t.tv_nsec += (long)((s - (double)(time_t)s) * 1e9);
  if (t.tv_nsec >= 1000000000) t.tv_sec++, t.tv_nsec -= 1000000000;
  return t;
}

static void group_fail(group_t *g, int missing, const char *what, const mr_collect_t *c) {
  if (g->why.code < 0) return;
  g->missing = missing;
  if (missing >= 0)
    mr_fail(&g->why, MR_ERR_UNAVAILABLE,
            "communicator %s: rank %d did not come to %s within %g s, for which rank %d waited",
            g->id, missing, what, c->limit_s, c->rank);
  else
    mr_fail(&g->why, MR_ERR_UNAVAILABLE, "communicator %s: %s", g->id, what);
  pthread_cond_broadcast(&g->changed);
}

/* The first rank that has come to fewer meetings than n; -1: none. */
static int group_late(const group_t *g, uint64_t n) {
  for (int r = 0; r < g->size; r++)
    if (g->member[r].come < n) return r;
  return -1;
}

/* Shows data to the others when all have come.  false: the communicator has failed. */
static bool collect_meet(mr_collect_t *c, const void *data, const char *what) {
  group_t *g = c->group;
  member_t *own = &g->member[c->rank];
  const struct timespec until = collect_deadline(c);
  int timed = 0;
  pthread_mutex_lock(&g->lock);
  uint64_t n = ++own->come;
  own->shown = data;
  if (g->why.code >= 0 && group_late(g, n) < 0) {
    g->met = n;
    pthread_cond_broadcast(&g->changed);
  }
  while (g->met < n && g->why.code >= 0 && !timed)
    timed = pthread_cond_timedwait(&g->changed, &g->lock, &until);
  bool good = g->met >= n; /* decided once for all ranks, by the last one that comes */
  if (!good) group_fail(g, group_late(g, n), what, c);
  pthread_mutex_unlock(&g->lock);
  return good;
}

/* Behind a meeting to which all have come: they read what was shown, and then come here. */
static void collect_leave(mr_collect_t *c) {
  group_t *g = c->group;
  pthread_mutex_lock(&g->lock);
  uint64_t n = ++g->member[c->rank].come;
  if (group_late(g, n) < 0) pthread_cond_broadcast(&g->changed); /* the last one wakes all others */
  while (group_late(g, n) >= 0) pthread_cond_wait(&g->changed, &g->lock);
  pthread_mutex_unlock(&g->lock);
}

static const char *collect_shown(const mr_collect_t *c, int rank) {
  return c->group->member[rank].shown;
}

/* Meets; false, with 0xFF in out, if the communicator has failed. */
static bool collect_begin(mr_collect_t *c, const void *in, void *out, size_t bytes,
                          const char *what) {
  if (collect_meet(c, in, what)) return true;
  if (bytes) memset(out, 0xFF, bytes);
  return false;
}

/* ---- the calls ---- */

/* y, or x where that is larger (by sign -1: smaller) or NaN; as lax.max and min order zeros. */
static void take_extremes(mr_dtype_t t, int sign, void *out, const void *x, int64_t n) {
  if (t == MR_F32) {
    float *y = out;
    const float *z = x;
    const float s = (float)sign;
    for (int64_t i = 0; i < n; i++) y[i] = s * y[i] > s * z[i] || isnan(y[i]) ? y[i] : z[i];
    return;
  }
  for (int64_t i = 0; i < n; i++) {
    bool stays;
    if (mr_is_float(t)) {
      double y = mr_get_f64(t, out, i), z = mr_get_f64(t, x, i);
      stays = sign * y > sign * z || isnan(y);
    } else {
      int64_t y = mr_get_i64(t, out, i), z = mr_get_i64(t, x, i);
      bool larger = t == MR_U64 ? (uint64_t)y > (uint64_t)z : y > z;
      stays = sign > 0 ? larger : !larger;
    }
    size_t size = mr_dtype_size(t), at = (size_t)i * size;
    if (!stays) memcpy((char *)out + at, (const char *)x + at, size);
  }
}

void mr__collect_reduce(mr_reduce_t how, mr_dtype_t t, void *out, const void *x, int64_t n) {
  if (how != MR_REDUCE_SUM) {
    take_extremes(t, how == MR_REDUCE_MAX ? 1 : -1, out, x, n);
    return;
  }
  if (t == MR_F32) {
    float *y = out;
    for (int64_t i = 0; i < n; i++) y[i] += ((const float *)x)[i];
    return;
  }
  for (int64_t i = 0; i < n; i++)
    if (mr_is_float(t))
      mr_set_f64(t, out, i, mr_get_f64(t, out, i) + mr_get_f64(t, x, i));
    else
      mr_set_i64(t, out, i, mr__add_i2(mr_get_i64(t, out, i), mr_get_i64(t, x, i)));
}

/* The sum or extreme of n elements that begin `at` bytes behind what each rank shows. */
static void reduce_shown(mr_collect_t *c, mr_reduce_t how, mr_dtype_t t, int64_t n, size_t at,
                         void *out) {
  if (n) memcpy(out, collect_shown(c, 0) + at, (size_t)n * mr_dtype_size(t));
  for (int r = 1; r < c->group->size; r++)
    mr__collect_reduce(how, t, out, collect_shown(c, r) + at, n);
}

static void threads_all_reduce(mr_collect_t *c, mr_reduce_t how, mr_dtype_t t, int64_t n,
                               const void *in, void *out) {
  if (!collect_begin(c, in, out, (size_t)n * mr_dtype_size(t), "all_reduce")) return;
  reduce_shown(c, how, t, n, 0, out);
  collect_leave(c);
}

static void threads_reduce_scatter(mr_collect_t *c, mr_dtype_t t, int64_t n, const void *in,
                                   void *out) {
  size_t bytes = (size_t)n * mr_dtype_size(t);
  if (!collect_begin(c, in, out, bytes, "reduce_scatter")) return;
  reduce_shown(c, MR_REDUCE_SUM, t, n, (size_t)c->rank * bytes, out);
  collect_leave(c);
}

/* Row r of out is what rank r shows, from `at` on. */
static void collect_rows(mr_collect_t *c, size_t bytes, size_t at, void *out) {
  for (int r = 0; r < c->group->size && bytes; r++)
    memcpy((char *)out + (size_t)r * bytes, collect_shown(c, r) + at, bytes);
}

static void threads_all_gather(mr_collect_t *c, size_t bytes, const void *in, void *out) {
  if (!collect_begin(c, in, out, bytes * (size_t)c->group->size, "all_gather")) return;
  collect_rows(c, bytes, 0, out);
  collect_leave(c);
}

static void threads_all_to_all(mr_collect_t *c, size_t bytes, const void *in, void *out) {
  if (!collect_begin(c, in, out, bytes * (size_t)c->group->size, "all_to_all")) return;
  collect_rows(c, bytes, (size_t)c->rank * bytes, out);
  collect_leave(c);
}

/* Waits until the letter is there, or is gone.  false: the communicator has failed. */
static bool letter_wait(mr_collect_t *c, const letter_t *l, bool there, int other,
                        const char *what) {
  group_t *g = c->group;
  const struct timespec until = collect_deadline(c);
  int timed = 0;
  while ((l->data != NULL) != there && g->why.code >= 0 && !timed)
    timed = pthread_cond_timedwait(&g->changed, &g->lock, &until);
  if ((l->data != NULL) != there && timed) group_fail(g, other, what, c);
  return (l->data != NULL) == there && g->why.code >= 0;
}

/* Shows a letter, with the lock held; false: the communicator has failed. */
static bool letter_post(mr_collect_t *c, int to, size_t bytes, const void *data) {
  static const char nothing[1];
  group_t *g = c->group;
  letter_t *l = &g->letter[c->rank * g->size + to];
  if (!letter_wait(c, l, false, to, "receive")) return false;
  *l = (letter_t){bytes ? data : nothing, bytes};
  pthread_cond_broadcast(&g->changed);
  return true;
}

/* Until it has been read.  The caller's bytes end here, also after a failure. */
static void letter_leave(mr_collect_t *c, int to) {
  letter_t *l = &c->group->letter[c->rank * c->group->size + to];
  letter_wait(c, l, false, to, "receive");
  l->data = NULL;
}

static void letter_read(mr_collect_t *c, int from, size_t bytes, void *data) {
  group_t *g = c->group;
  letter_t *l = &g->letter[from * g->size + c->rank];
  bool good = letter_wait(c, l, true, from, "send");
  if (good && l->bytes != bytes) {
    group_fail(g, -1, "a message has other bytes than its receive expected", c);
    good = false;
  }
  if (good && bytes) memcpy(data, l->data, bytes);
  if (good) l->data = NULL, pthread_cond_broadcast(&g->changed);
  if (!good && bytes) memset(data, 0xFF, bytes);
}

static void threads_send_receive(mr_collect_t *c, int to, int from, size_t bytes, const void *in,
                                 void *out) {
  pthread_mutex_lock(&c->group->lock);
  bool posted = to >= 0 && letter_post(c, to, bytes, in);
  if (from >= 0) letter_read(c, from, bytes, out);
  if (posted) letter_leave(c, to);
  pthread_mutex_unlock(&c->group->lock);
}

static void threads_send(mr_collect_t *c, int to, size_t bytes, const void *data) {
  threads_send_receive(c, to, -1, bytes, data, NULL);
}

static void threads_receive(mr_collect_t *c, int from, size_t bytes, void *data) {
  threads_send_receive(c, -1, from, bytes, NULL, data);
}

static void threads_abort(mr_collect_t *c) {
  pthread_mutex_lock(&c->group->lock);
  group_fail(c->group, -1, "it was aborted", c);
  pthread_mutex_unlock(&c->group->lock);
}

static mr_err_t threads_failed(mr_collect_t *c, int *rank, mr_diag_t *diag) {
  group_t *g = c->group;
  pthread_mutex_lock(&g->lock);
  *rank = g->missing;
  mr_err_t e = mr_diag_relay(diag, g->why.code, &g->why);
  pthread_mutex_unlock(&g->lock);
  return e;
}

const mr_collect_ops_t mr_collect_threads = {.name = "threads",
                                             .create = threads_create,
                                             .all_reduce = threads_all_reduce,
                                             .all_gather = threads_all_gather,
                                             .reduce_scatter = threads_reduce_scatter,
                                             .all_to_all = threads_all_to_all,
                                             .send = threads_send,
                                             .receive = threads_receive,
                                             .send_receive = threads_send_receive,
                                             .abort = threads_abort,
                                             .failed = threads_failed,
                                             .destroy = threads_destroy};
