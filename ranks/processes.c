/* This process's end of a job: one thread receives parcels and gives each to its communicator, for
   whose callers it wakes up.

   Who is late: a rank that waits says so to the others now and then, and for whom it waits.  A rank
   whose time is up follows these words, from the rank that it waits for itself, to the first one
   that has not said anything lately: that one computes, is stopped or is dead.  Its verdict goes to
   all members, so that they report one rank. */
#include "ranks/processes_private.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"

enum { GROUPS_MOST = 4096, TICK_MOST_MS = 200 };

/* How many communicators of an id this process has had. */
typedef struct epoch {
  struct epoch *next;
  uint32_t n;
  char id[MR_COLLECT_ID];
} epoch_t;

static struct {
  pthread_mutex_t lock; /* of all below, and of sending */
  const mr__wire_ops_t *ops;
  mr__wire_t *wire; /* NULL: no job */
  int rank, size, n_groups, waiting, byes;
  double limit_s;
  pthread_cond_t left; /* a rank has said bye, or something has failed */
  bool stop, whole;    /* whole: nothing has failed */
  mr__group_t *groups;
  epoch_t *epochs;
  pthread_t thread;
} process = {.lock = PTHREAD_MUTEX_INITIALIZER};

void mr__processes_lock(void) { pthread_mutex_lock(&process.lock); }
void mr__processes_unlock(void) { pthread_mutex_unlock(&process.lock); }

static void parcels_add(mr__parcels_t *q, mr__parcel_t *p) {
  p->next = NULL;
  if (!q->first) q->last = &q->first;
  *q->last = p, q->last = &p->next;
}

mr__parcel_t *mr__parcels_take(mr__parcels_t *q) {
  mr__parcel_t *p = q->first;
  if (p) q->first = p->next;
  return p;
}

static void parcels_drop(mr__parcels_t *q) {
  for (mr__parcel_t *p; (p = mr__parcels_take(q));) p->drop(p);
}

/* ---- communicators ---- */

static mr__group_t *group_of_id(const char *id, uint32_t epoch) {
  mr__group_t *g = process.groups;
  while (g && (g->epoch != epoch || strcmp(g->id, id) != 0)) g = g->next;
  return g;
}

static mr__group_t *add_group(const char *id, uint32_t epoch, int size) {
  if (process.n_groups == GROUPS_MOST) return NULL;
  mr__group_t *g = calloc(1, sizeof *g + (size_t)size * sizeof g->member[0]);
  if (!g) return NULL;
  strcpy(g->id, id);
  mr_cond_init(&g->changed);
  g->epoch = epoch, g->size = size, g->own = g->missing = g->waits_for = -1;
  for (int r = 0; r < size; r++) g->member[r].job_rank = -1;
  g->next = process.groups, process.groups = g;
  process.n_groups++;
  return g;
}

static void remove_group(mr__group_t *g) {
  mr__group_t **at = &process.groups;
  while (*at != g) at = &(*at)->next;
  *at = g->next;
  process.n_groups--;
  for (int r = 0; r < g->size; r++)
    parcels_drop(&g->member[r].data), parcels_drop(&g->member[r].letters);
  pthread_cond_destroy(&g->changed);
  free(g);
}

static epoch_t *epoch_of(const char *id) {
  epoch_t *e = process.epochs;
  while (e && strcmp(e->id, id) != 0) e = e->next;
  return e;
}

/* ---- sending ---- */

static bool send_parcel(const mr__group_t *g, int job_rank, mr__parcel_kind_t kind, uint64_t call,
                        int a, int b, mr__parcel_t *p) {
  if (!p) return false;
  mr__head_t *h = p->head;
  h->kind = kind, h->from = (uint32_t)process.rank, h->epoch = g->epoch;
  h->call = call, h->a = a, h->b = b;
  memcpy(h->id, g->id, sizeof h->id);
  return process.ops->send(process.wire, job_rank, p);
}

/* To the members that are known, or to all ranks of the job. */
static void send_others(const mr__group_t *g, bool members, mr__parcel_kind_t kind, int a, int b,
                        const char *text) {
  int n = members ? g->size : process.size;
  size_t bytes = strlen(text);
  for (int i = 0; i < n; i++) {
    int to = members ? g->member[i].job_rank : i;
    if (to < 0 || to == process.rank) continue;
    mr__parcel_t *p = mr__parcel_new(bytes);
    if (p) memcpy(p->data, text, bytes);
    send_parcel(g, to, kind, 0, a, b, p); /* what is lost without memory is missed in time */
  }
}

static void set_failed(mr__group_t *g, int missing, const char *text) {
  g->missing = missing;
  mr_fail(&g->why, MR_ERR_UNAVAILABLE, "%s", text);
  process.whole = false;
  pthread_cond_broadcast(&g->changed);
  pthread_cond_broadcast(&process.left);
}

void mr__group_fail(mr__group_t *g, int missing, const char *format, ...) {
  char said[600], text[700];
  if (g->why.code < 0) return;
  va_list args;
  va_start(args, format);
  mr_vsnprintf(said, sizeof said, format, args);
  va_end(args);
  mr_snprintf(text, sizeof text, "communicator %s: %s", g->id, said);
  set_failed(g, missing, text);
  send_others(g, true, MR__PARCEL_FAIL, missing, 0, g->why.text);
}

static void fail_without_memory(mr__group_t *g) {
  mr_diag_t why = {0};
  if (g->why.code < 0) return;
  mr_no_memory(&why, "what rank %d sends", g->own);
  set_failed(g, -1, why.text);
  send_others(g, true, MR__PARCEL_FAIL, -1, 0, g->why.text);
}

void mr__group_send(mr__group_t *g, int r, mr__parcel_kind_t kind, uint64_t call, int b,
                    mr__parcel_t *p) {
  if (!send_parcel(g, g->member[r].job_rank, kind, call, g->own, b, p)) fail_without_memory(g);
}

/* ---- joining ---- */

mr_err_t mr__group_join(const char *id, int rank, int size, double limit_s, mr__group_t **out,
                        mr_diag_t *diag) {
  if (!process.wire)
    return mr_fail(diag, MR_ERR_CONFIG,
                   "communicator %s: no job is open in this process: call mr_job_open first", id);
  if (size > process.size)
    return mr_fail(diag, MR_ERR_CONFIG, "communicator %s: %d ranks, but the job has %d processes",
                   id, size, process.size);
  epoch_t *e = epoch_of(id);
  uint32_t n = e ? e->n : 0;
  mr__group_t *g = group_of_id(id, n);
  if (!e && (e = calloc(1, sizeof *e))) {
    strcpy(e->id, id);
    e->next = process.epochs, process.epochs = e;
  }
  if (e && !g) g = add_group(id, n, size);
  if (!e || !g) return mr_no_memory(diag, "a communicator of %d ranks", size);
  if (g->size != size)
    return mr_fail(diag, MR_ERR_CONFIG, "communicator %s: size %d, the other ranks have %d", id,
                   size, g->size);
  if (g->member[rank].job_rank >= 0)
    return mr_fail(diag, MR_ERR_CONFIG, "communicator %s: rank %d has joined already", id, rank);
  g->own = rank, g->limit_s = limit_s < 1e8 ? limit_s : 1e8;
  g->member[rank].job_rank = process.rank;
  g->joined++;
  e->n++;
  send_others(g, false, MR__PARCEL_JOIN, rank, size, "");
  process.ops->wake(process.wire); /* its limit may be shorter than the others' */
  return *out = g, MR_OK;
}

void mr__group_leave(mr__group_t *g) {
  send_others(g, false, MR__PARCEL_LEAVE, g->own, 0, "");
  remove_group(g);
}

/* ---- waiting ---- */

int64_t mr__group_until(const mr__group_t *g) { return mr_now_ns() + (int64_t)(g->limit_s * 1e9); }

/* Follows from rank r on who waits for whom; the file's comment says how. */
static int find_late_member(const mr__group_t *g, int r) {
  int64_t fresh = mr_now_ns() - (int64_t)(g->limit_s * 0.6e9);
  for (int i = 0; i < g->size; i++) {
    const mr__member_t *m = &g->member[r];
    if (m->beat_ns < fresh || !m->beat_ns || m->waits_for == g->own) break;
    r = m->waits_for;
  }
  return r;
}

bool mr__group_wait(mr__group_t *g, int r, int64_t until_ns, const char *what) {
  if (g->why.code < 0) return false;
  if (mr_now_ns() >= until_ns) {
    int late = g->member[r].job_rank < 0 ? r : find_late_member(g, r);
    mr__group_fail(g, late, "rank %d did not come to %s within %g s, for which rank %d waited",
                   late, what, g->limit_s, g->own);
    return false;
  }
  g->waits_for = r;
  if (process.waiting++ == 0 && process.ops->polls) process.ops->wake(process.wire);
  mr_cond_wait_until(&g->changed, &process.lock, until_ns); /* the caller looks once more */
  process.waiting--;
  g->waits_for = -1;
  return g->why.code >= 0;
}

/* ---- receiving ---- */

static void take_join(const mr__head_t *h) {
  const epoch_t *e = epoch_of(h->id);
  if (h->b < 1 || h->b > MR_COLLECT_RANKS || h->b > process.size || h->a < 0 || h->a >= h->b)
    return;
  mr__group_t *g = group_of_id(h->id, h->epoch);
  if (!g && e && h->epoch < e->n) return; /* this process has left it */
  if (!g && !(g = add_group(h->id, h->epoch, h->b))) return;
  if (g->size != h->b)
    mr__group_fail(g, -1, "rank %d has size %d, the other ranks have %d", h->a, h->b, g->size);
  else if (g->member[h->a].job_rank >= 0)
    mr__group_fail(g, -1, "two processes have joined as rank %d", h->a);
  else
    g->member[h->a].job_rank = (int)h->from, g->joined++;
  pthread_cond_broadcast(&g->changed);
}

static void take_leave(mr__group_t *g) {
  if (++g->left == g->joined && g->own < 0) remove_group(g);
}

static void take_fail(mr__group_t *g, const mr__parcel_t *p) {
  char text[sizeof g->why.text];
  size_t n = p->head->bytes < sizeof text - 1 ? p->head->bytes : sizeof text - 1;
  int missing = p->head->a;
  memcpy(text, p->data, n), text[n] = 0;
  if (g->why.code >= 0 && missing >= -1 && missing < g->size) set_failed(g, missing, text);
}

static bool is_from_member(const mr__group_t *g, const mr__head_t *h) {
  if (h->kind != MR__PARCEL_FAIL)
    return h->a >= 0 && h->a < g->size && g->member[h->a].job_rank == (int)h->from;
  for (int r = 0; r < g->size; r++)
    if (g->member[r].job_rank == (int)h->from) return true;
  return false;
}

/* Gives p to its communicator, or drops it. */
static void take_parcel(mr__parcel_t *p) {
  const mr__head_t *h = p->head;
  if (h->kind == MR__PARCEL_JOIN) return take_join(h), p->drop(p);
  if (h->kind == MR__PARCEL_BYE) {
    process.byes++;
    pthread_cond_broadcast(&process.left);
    return p->drop(p);
  }
  mr__group_t *g = group_of_id(h->id, h->epoch);
  if (!g || !is_from_member(g, h)) return p->drop(p);
  mr__member_t *m = &g->member[h->kind == MR__PARCEL_FAIL ? 0 : h->a];
  if (h->kind == MR__PARCEL_DATA || h->kind == MR__PARCEL_LETTER) {
    parcels_add(h->kind == MR__PARCEL_DATA ? &m->data : &m->letters, p);
    pthread_cond_broadcast(&g->changed);
    return;
  }
  if (h->kind == MR__PARCEL_TAKEN) m->taken++, pthread_cond_broadcast(&g->changed);
  if (h->kind == MR__PARCEL_BEAT && h->b >= 0 && h->b < g->size)
    m->beat_ns = mr_now_ns(), m->waits_for = h->b;
  if (h->kind == MR__PARCEL_FAIL) take_fail(g, p);
  if (h->kind == MR__PARCEL_LEAVE) take_leave(g);
  p->drop(p);
}

/* Says for each communicator in which this rank waits for whom, and returns how many ms that may
   take until it is to be said again. */
static int send_beats(void) {
  int ms = process.groups ? TICK_MOST_MS : -1;
  for (mr__group_t *g = process.groups; g; g = g->next) {
    if (g->own < 0) continue;
    int tick = (int)(g->limit_s * 100 < TICK_MOST_MS ? g->limit_s * 100 : TICK_MOST_MS);
    int64_t now = mr_now_ns();
    if (g->waits_for >= 0 && now - g->beat_ns >= (int64_t)tick * 2000000) {
      send_others(g, true, MR__PARCEL_BEAT, g->own, g->waits_for, "");
      g->beat_ns = now;
    }
    ms = tick < 1 ? 1 : tick < ms ? tick : ms;
  }
  return ms;
}

static void *receive_main(void *arg) {
  mr__processes_lock();
  while (!process.stop) {
    int ms = send_beats();
    bool soon = process.waiting > 0;
    mr__processes_unlock();
    mr__parcel_t *p = process.ops->receive(process.wire, ms, soon);
    mr__processes_lock();
    if (p) take_parcel(p);
  }
  mr__processes_unlock();
  return NULL;
}

mr_err_t mr__processes_start(const mr__wire_ops_t *ops, mr__wire_t *w, int rank, int size,
                             double limit_s, mr_diag_t *diag) {
  mr__processes_lock();
  bool free_now = !process.wire;
  if (free_now) {
    process.ops = ops, process.wire = w, process.rank = rank, process.size = size;
    process.stop = false, process.whole = true, process.waiting = process.byes = 0;
    process.limit_s = limit_s < 1e8 ? limit_s : 1e8;
    mr_cond_init(&process.left);
  }
  mr__processes_unlock();
  if (!free_now)
    return mr_fail(diag, MR_ERR_CONFIG, "a job of %d ranks is open in this process already",
                   process.size);
  if (!pthread_create(&process.thread, NULL, receive_main, NULL)) return MR_OK;
  pthread_cond_destroy(&process.left);
  process.wire = NULL;
  return mr_no_memory(diag, "the thread of a job's ranks");
}

void mr__processes_stop(void) {
  mr__processes_lock();
  for (int r = 0; r < process.size; r++) {
    mr__parcel_t *p = r == process.rank ? NULL : mr__parcel_new(0);
    if (!p) continue;
    p->head->kind = MR__PARCEL_BYE, p->head->from = (uint32_t)process.rank;
    process.ops->send(process.wire, r, p);
  }
  int64_t until = mr_now_ns() + (int64_t)(process.limit_s * 1e9);
  while (process.whole && process.byes < process.size - 1 &&
         mr_cond_wait_until(&process.left, &process.lock, until))
    continue;
  bool whole = process.whole && process.byes >= process.size - 1;
  process.stop = true;
  process.ops->wake(process.wire);
  mr__processes_unlock();
  pthread_join(process.thread, NULL);
  process.ops->close(process.wire, whole);
  pthread_cond_destroy(&process.left);
  mr__processes_lock();
  process.wire = NULL;
  while (process.groups) remove_group(process.groups);
  for (epoch_t *e; (e = process.epochs); free(e)) process.epochs = e->next;
  mr__processes_unlock();
}
