/* A substitute for NCCL in tests, on machines without a GPU: its interface over shared memory,
   between threads and processes.  Work is done in order by a thread of each stream, long after the
   call has returned.  It reports what NCCL leaves undefined: ranks that make different calls,
   messages of other sizes than expected, groups that do not end, communicators used after their end
   or ended twice. */
#include "tests/ranks/nccl_standin.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "ranks/nccl.h"

enum { MOST = 8, CHUNK = 1 << 16, LETTER = 1 << 12, INVALID_ARGUMENT = 4, INVALID_USAGE = 5 };

/* ---- what ranks share ---- */

typedef struct slot {
  uint64_t number, count;
  int kind, type, op;
  char data[CHUNK];
} slot_t;

typedef struct letter {
  bool full;
  size_t total, n;
  char data[LETTER];
} letter_t;

typedef struct segment {
  pthread_mutex_t lock;
  pthread_cond_t changed;
  int size, attached, arrived;
  uint64_t meeting;
  bool differ;
  slot_t slot[MOST];
  letter_t letter[MOST][MOST];
} segment_t;

typedef enum kind { ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER, SEND, RECEIVE } kind_t;

struct ncclComm {
  mr__nccl_comm_t next;
  segment_t *shared;
  char name[64];
  int rank, size;
  uint64_t number; /* of collectives so far; the stream's thread */
  atomic_int pending, error;
  atomic_int recorded; /* calls in recordings */
  atomic_bool aborted;
  bool finalized;
};

typedef struct op {
  kind_t kind;
  const char *in;
  char *out;
  size_t n;
  int type, op, peer;
  mr__nccl_comm_t comm;
} op_t;

typedef struct work {
  struct work *next;
  int n;
  op_t op[];
} work_t;

struct standin_stream {
  pthread_mutex_t lock;
  pthread_cond_t changed;
  pthread_t thread;
  work_t *first, *kept;
  uint64_t given, done;
  bool records, ends;
};

static struct {
  pthread_mutex_t lock;
  mr__nccl_comm_t live;
  char fault[128];
  int ids;
  void (*reduce)(int type, int op, void *out, const void *x, size_t n);
} all = {.lock = PTHREAD_MUTEX_INITIALIZER};

static int misused(const char *how) {
  pthread_mutex_lock(&all.lock);
  if (!*all.fault) snprintf(all.fault, sizeof all.fault, "%s", how);
  pthread_mutex_unlock(&all.lock);
  return INVALID_USAGE;
}

static bool is_live(mr__nccl_comm_t comm) {
  pthread_mutex_lock(&all.lock);
  mr__nccl_comm_t c = all.live;
  while (c && c != comm) c = c->next;
  pthread_mutex_unlock(&all.lock);
  return c != NULL;
}

static size_t type_bytes(int type) {
  static const size_t bytes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};
  return bytes[type];
}

/* ---- collectives, on the thread of a stream ---- */

/* Until all ranks have come; false: this one has been aborted. */
static bool meet(mr__nccl_comm_t c) {
  segment_t *s = c->shared;
  pthread_mutex_lock(&s->lock);
  uint64_t meeting = s->meeting;
  if (++s->arrived == s->size) {
    s->arrived = 0, s->meeting++;
    pthread_cond_broadcast(&s->changed);
  }
  while (s->meeting == meeting && !atomic_load(&c->aborted))
    pthread_cond_wait(&s->changed, &s->lock);
  bool good = s->meeting != meeting;
  pthread_mutex_unlock(&s->lock);
  return good;
}

static bool agrees(const slot_t *a, const slot_t *b) {
  return a->number == b->number && a->count == b->count && a->kind == b->kind &&
         a->type == b->type && a->op == b->op;
}

/* One chunk of all ranks' operands: into to, reduced, or to rank r's place r * step. */
static bool share_chunk(mr__nccl_comm_t c, const op_t *o, const char *in, size_t n, char *to,
                        size_t step) {
  slot_t *own = &c->shared->slot[c->rank];
  own->number = c->number, own->count = o->n, own->kind = (int)o->kind;
  own->type = o->type, own->op = o->op;
  if (n) memcpy(own->data, in, n);
  if (!meet(c)) return false;
  bool good = true;
  for (int r = 0; r < c->size; r++) good &= agrees(own, &c->shared->slot[r]);
  for (int r = 0; r < c->size && good && n; r++) {
    if (step || r == 0)
      memcpy(to + (size_t)r * step, c->shared->slot[r].data, n);
    else
      all.reduce(o->type, o->op, to, c->shared->slot[r].data, n / type_bytes(o->type));
  }
  if (!good) {
    atomic_store(&c->error, INVALID_USAGE);
    misused("ranks have made different calls");
  }
  return meet(c) && good;
}

static void run_collective(const op_t *o) {
  mr__nccl_comm_t c = o->comm;
  size_t element = type_bytes(o->type), own = o->n * element;
  size_t bytes = o->kind == REDUCE_SCATTER ? own * (size_t)c->size : own, at = 0, n;
  char *whole = o->kind == REDUCE_SCATTER ? malloc(bytes + 1) : o->out;
  c->number++;
  do {
    n = bytes - at < CHUNK ? bytes - at : CHUNK;
    if (!share_chunk(c, o, o->in + at, n, whole + at, o->kind == ALL_GATHER ? own : 0)) break;
  } while ((at += n) < bytes);
  if (o->kind != REDUCE_SCATTER) return;
  if (own && at >= bytes) memcpy(o->out, whole + (size_t)c->rank * own, own);
  free(whole);
}

/* ---- messages of a group, all at once ---- */

typedef struct progress {
  size_t at;
  bool done;
} progress_t;

static bool advance(const op_t *o, progress_t *p) {
  segment_t *s = o->comm->shared;
  int own = o->comm->rank;
  letter_t *l = o->kind == SEND ? &s->letter[own][o->peer] : &s->letter[o->peer][own];
  if (p->done || l->full != (o->kind == RECEIVE)) return false;
  if (o->kind == SEND) {
    l->total = o->n, l->n = o->n - p->at < LETTER ? o->n - p->at : LETTER;
    if (l->n) memcpy(l->data, o->in + p->at, l->n);
  } else if (l->total != o->n) {
    atomic_store(&o->comm->error, INVALID_USAGE);
    misused("a message has another size than its receive");
    return p->done = true;
  } else if (l->n) {
    memcpy(o->out + p->at, l->data, l->n);
  }
  l->full = o->kind == SEND;
  p->at += l->n;
  p->done = p->at >= o->n;
  pthread_cond_broadcast(&s->changed);
  return true;
}

static void run_messages(const work_t *w) {
  progress_t *p = calloc((size_t)w->n + 1, sizeof *p);
  mr__nccl_comm_t c = NULL;
  for (int i = 0; i < w->n; i++) {
    p[i].done = w->op[i].kind != SEND && w->op[i].kind != RECEIVE;
    if (!p[i].done) c = w->op[i].comm;
  }
  if (c) pthread_mutex_lock(&c->shared->lock);
  for (bool left = c != NULL; left && !atomic_load(&c->aborted);) {
    bool moved = false;
    left = false;
    for (int i = 0; i < w->n; i++) moved |= advance(&w->op[i], &p[i]), left |= !p[i].done;
    if (left && !moved) pthread_cond_wait(&c->shared->changed, &c->shared->lock);
  }
  if (c) pthread_mutex_unlock(&c->shared->lock);
  free(p);
}

static void run_work(const work_t *w) {
  for (int i = 0; i < w->n; i++)
    if (w->op[i].kind != SEND && w->op[i].kind != RECEIVE) run_collective(&w->op[i]);
  run_messages(w);
  for (int i = 0; i < w->n; i++) atomic_fetch_sub(&w->op[i].comm->pending, 1);
}

/* ---- streams ---- */

static void *stream_main(void *arg) {
  standin_stream_t *s = arg;
  pthread_mutex_lock(&s->lock);
  for (;;) {
    while (!s->first && !s->ends) pthread_cond_wait(&s->changed, &s->lock);
    work_t *w = s->first;
    if (!w) break;
    s->first = w->next;
    pthread_mutex_unlock(&s->lock);
    run_work(w);
    free(w);
    pthread_mutex_lock(&s->lock);
    s->done++;
    pthread_cond_broadcast(&s->changed);
  }
  pthread_mutex_unlock(&s->lock);
  return NULL;
}

static standin_stream_t *stream_create(void) {
  standin_stream_t *s = calloc(1, sizeof *s);
  pthread_mutex_init(&s->lock, NULL);
  pthread_cond_init(&s->changed, NULL);
  if (pthread_create(&s->thread, NULL, stream_main, s)) abort();
  return s;
}

static void stream_forget(standin_stream_t *s) {
  pthread_mutex_lock(&s->lock);
  for (work_t *w; (w = s->kept); free(w)) {
    s->kept = w->next;
    for (int i = 0; i < w->n; i++) atomic_fetch_sub(&w->op[i].comm->recorded, 1);
  }
  pthread_mutex_unlock(&s->lock);
}

static void stream_destroy(standin_stream_t *s) {
  pthread_mutex_lock(&s->lock);
  s->ends = true;
  pthread_cond_broadcast(&s->changed);
  pthread_mutex_unlock(&s->lock);
  pthread_join(s->thread, NULL);
  stream_forget(s);
  pthread_cond_destroy(&s->changed);
  pthread_mutex_destroy(&s->lock);
  free(s);
}

static uint64_t stream_mark(standin_stream_t *s) {
  pthread_mutex_lock(&s->lock);
  uint64_t given = s->given;
  pthread_mutex_unlock(&s->lock);
  return given;
}

static bool stream_reached(standin_stream_t *s, uint64_t mark, bool wait) {
  pthread_mutex_lock(&s->lock);
  while (wait && s->done < mark) pthread_cond_wait(&s->changed, &s->lock);
  bool reached = s->done >= mark;
  pthread_mutex_unlock(&s->lock);
  return reached;
}

static void append(work_t **to, work_t *w) {
  while (*to) to = &(*to)->next;
  *to = w;
}

static work_t *copy_of(const work_t *w) {
  size_t bytes = sizeof *w + (size_t)w->n * sizeof w->op[0];
  work_t *copy = malloc(bytes);
  memcpy(copy, w, bytes);
  copy->next = NULL;
  return copy;
}

/* With the stream's lock held. */
static void give(standin_stream_t *s, work_t *w) {
  for (int i = 0; i < w->n; i++) atomic_fetch_add(&w->op[i].comm->pending, 1);
  append(&s->first, w);
  s->given++;
  pthread_cond_broadcast(&s->changed);
}

static void stream_give(standin_stream_t *s, int n, const op_t *op) {
  work_t *w = malloc(sizeof *w + (size_t)n * sizeof *op);
  *w = (work_t){.n = n};
  memcpy(w->op, op, (size_t)n * sizeof *op);
  pthread_mutex_lock(&s->lock);
  for (int i = 0; i < n && s->records; i++) atomic_fetch_add(&op[i].comm->recorded, 1);
  if (s->records)
    append(&s->kept, w);
  else
    give(s, w);
  pthread_mutex_unlock(&s->lock);
}

static void stream_record(standin_stream_t *s, bool on) {
  pthread_mutex_lock(&s->lock);
  s->records = on;
  pthread_mutex_unlock(&s->lock);
}

static bool stream_records(standin_stream_t *s) {
  pthread_mutex_lock(&s->lock);
  bool records = s->records;
  pthread_mutex_unlock(&s->lock);
  return records;
}

static void stream_replay(standin_stream_t *s) {
  pthread_mutex_lock(&s->lock);
  for (const work_t *w = s->kept; w; w = w->next) give(s, copy_of(w));
  pthread_mutex_unlock(&s->lock);
}

static int live_comms(void) {
  int n = 0;
  pthread_mutex_lock(&all.lock);
  for (mr__nccl_comm_t c = all.live; c; c = c->next) n++;
  pthread_mutex_unlock(&all.lock);
  return n;
}

static const char *first_fault(void) { return all.fault; }

static void set_reduce(void (*reduce)(int type, int op, void *out, const void *x, size_t n)) {
  all.reduce = reduce;
}

const standin_calls_t *standin_calls(void);
const standin_calls_t *standin_calls(void) {
  static const standin_calls_t calls = {
      stream_create, stream_destroy, stream_mark, stream_reached, stream_record, stream_records,
      stream_replay, stream_forget,  live_comms,  first_fault,    set_reduce};
  return &calls;
}

/* ---- NCCL's calls ---- */

#define NCCL(type, name, ...) \
  type name(__VA_ARGS__);     \
  type name(__VA_ARGS__)

NCCL(int, ncclGetVersion, int *version) { return *version = 23003, 0; }

NCCL(const char *, ncclGetErrorString, int result) {
  return result == INVALID_USAGE      ? "invalid usage"
         : result == INVALID_ARGUMENT ? "invalid argument"
                                      : "some error";
}

NCCL(const char *, ncclGetLastError, mr__nccl_comm_t comm) { return all.fault; }

static segment_t *map_segment(const char *name, int flags) {
  int fd = shm_open(name, flags, 0600);
  if (fd < 0) return NULL;
  bool sized = !(flags & O_CREAT) || !ftruncate(fd, sizeof(segment_t));
  void *p =
      sized ? mmap(NULL, sizeof(segment_t), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) : MAP_FAILED;
  close(fd);
  return p == MAP_FAILED ? NULL : p;
}

NCCL(int, ncclGetUniqueId, mr__nccl_id_t *id) {
  pthread_mutexattr_t mutex;
  pthread_condattr_t cond;
  memset(id, 0, sizeof *id);
  pthread_mutex_lock(&all.lock);
  snprintf(id->bytes, sizeof id->bytes, "/mr-nccl-%d-%d", (int)getpid(), all.ids++);
  pthread_mutex_unlock(&all.lock);
  segment_t *s = map_segment(id->bytes, O_RDWR | O_CREAT | O_EXCL);
  if (!s) return INVALID_ARGUMENT;
  pthread_mutexattr_init(&mutex), pthread_condattr_init(&cond);
  pthread_mutexattr_setpshared(&mutex, PTHREAD_PROCESS_SHARED);
  pthread_condattr_setpshared(&cond, PTHREAD_PROCESS_SHARED);
  pthread_mutex_init(&s->lock, &mutex), pthread_cond_init(&s->changed, &cond);
  pthread_mutexattr_destroy(&mutex), pthread_condattr_destroy(&cond);
  munmap(s, sizeof *s);
  return 0;
}

NCCL(int, ncclCommInitRankConfig, mr__nccl_comm_t *comm, int size, mr__nccl_id_t id, int rank,
     mr__nccl_config_t *config) {
  if (config->size != sizeof *config || config->magic != 0xcafebeef || config->blocking)
    return misused("a configuration that blocks, or none");
  segment_t *s = size <= MOST && rank < size ? map_segment(id.bytes, O_RDWR) : NULL;
  if (!s) return INVALID_ARGUMENT;
  mr__nccl_comm_t c = calloc(1, sizeof *c);
  c->shared = s, c->rank = rank, c->size = size;
  snprintf(c->name, sizeof c->name, "%.60s", id.bytes);
  pthread_mutex_lock(&s->lock);
  s->size = size;
  if (++s->attached == size) shm_unlink(c->name);
  pthread_mutex_unlock(&s->lock);
  pthread_mutex_lock(&all.lock);
  c->next = all.live, all.live = c;
  pthread_mutex_unlock(&all.lock);
  return *comm = c, MR_NCCL_IN_PROGRESS;
}

NCCL(int, ncclCommGetAsyncError, mr__nccl_comm_t comm, int *error) {
  if (!is_live(comm)) return misused("a communicator is asked after its end");
  segment_t *s = comm->shared;
  pthread_mutex_lock(&s->lock);
  bool busy = s->attached < comm->size || (comm->finalized && atomic_load(&comm->pending));
  pthread_mutex_unlock(&s->lock);
  int failed = atomic_load(&comm->error);
  return *error = failed ? failed : busy ? MR_NCCL_IN_PROGRESS : 0, 0;
}

static void end_comm(mr__nccl_comm_t comm) {
  pthread_mutex_lock(&comm->shared->lock);
  bool alone = comm->shared->attached < comm->size;
  pthread_mutex_unlock(&comm->shared->lock);
  if (alone) shm_unlink(comm->name);
  pthread_mutex_lock(&all.lock);
  for (mr__nccl_comm_t *at = &all.live; *at; at = &(*at)->next)
    if (*at == comm) {
      *at = comm->next;
      break;
    }
  pthread_mutex_unlock(&all.lock);
  munmap(comm->shared, sizeof *comm->shared);
  free(comm);
}

NCCL(int, ncclCommFinalize, mr__nccl_comm_t comm) {
  if (!is_live(comm)) return misused("a communicator is finalized after its end");
  return comm->finalized = true, atomic_load(&comm->pending) ? MR_NCCL_IN_PROGRESS : 0;
}

NCCL(int, ncclCommDestroy, mr__nccl_comm_t comm) {
  if (!is_live(comm)) return misused("a communicator is destroyed twice");
  if (!comm->finalized || atomic_load(&comm->pending))
    return misused("a communicator is destroyed before it is finalized");
  if (atomic_load(&comm->recorded))
    return misused("a communicator is destroyed before its recordings");
  return end_comm(comm), 0;
}

NCCL(int, ncclCommAbort, mr__nccl_comm_t comm) {
  if (!is_live(comm)) return misused("a communicator is aborted after its end");
  atomic_store(&comm->aborted, true);
  while (atomic_load(&comm->pending)) { /* its work ends, as the kernels of NCCL do */
    pthread_mutex_lock(&comm->shared->lock);
    pthread_cond_broadcast(&comm->shared->changed);
    pthread_mutex_unlock(&comm->shared->lock);
    sched_yield();
  }
  while (atomic_load(&comm->recorded))
    sched_yield(); /* as NCCL waits for the graphs that have its calls */
  return end_comm(comm), 0;
}

static _Thread_local struct {
  int depth, n;
  op_t op[4 * MOST];
  standin_stream_t *stream;
} group;

NCCL(int, ncclGroupStart, void) { return group.depth++, 0; }

NCCL(int, ncclGroupEnd, void) {
  if (!group.depth) return misused("a group ends that has not begun");
  if (--group.depth || !group.n) return 0;
  stream_give(group.stream, group.n, group.op);
  return group.n = 0;
}

static int take_op(op_t op, standin_stream_t *stream) {
  if (!is_live(op.comm)) return misused("a communicator is used after its end");
  if (!group.depth) return stream_give(stream, 1, &op), 0;
  if (group.n == 4 * MOST || (group.n && group.stream != stream))
    return misused("a group of too many calls, or of several streams");
  group.op[group.n++] = op, group.stream = stream;
  return 0;
}

NCCL(int, ncclAllReduce, const void *in, void *out, size_t n, int type, int op,
     mr__nccl_comm_t comm, void *stream) {
  return take_op((op_t){ALL_REDUCE, in, out, n, type, op, 0, comm}, stream);
}

NCCL(int, ncclAllGather, const void *in, void *out, size_t n, int type, mr__nccl_comm_t comm,
     void *stream) {
  return take_op((op_t){ALL_GATHER, in, out, n, type, 0, 0, comm}, stream);
}

NCCL(int, ncclReduceScatter, const void *in, void *out, size_t n, int type, int op,
     mr__nccl_comm_t comm, void *stream) {
  return take_op((op_t){REDUCE_SCATTER, in, out, n, type, op, 0, comm}, stream);
}

NCCL(int, ncclSend, const void *in, size_t n, int type, int peer, mr__nccl_comm_t comm,
     void *stream) {
  return take_op((op_t){SEND, in, NULL, n * type_bytes(type), type, 0, peer, comm}, stream);
}

NCCL(int, ncclRecv, void *out, size_t n, int type, int peer, mr__nccl_comm_t comm, void *stream) {
  return take_op((op_t){RECEIVE, NULL, out, n * type_bytes(type), type, 0, peer, comm}, stream);
}
