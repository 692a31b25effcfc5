/* Measures a server as a loader would use it: C requests are in flight, and as soon as one ends the
   next begins, at a random place.  No answer is kept, no request is hedged, and the first failure
   ends the measurement.  Bytes that arrive before the connections are warm are not counted. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "loaders/remote/remote_engine.h"
#include "loaders/remote/remote_measure.h"

enum { PINGS = 9, SIZE_MOST = 8 << 20, WARM_SHARE = 4 };

typedef struct meter meter_t;

typedef struct probe {
  mr__request_t request;
  meter_t *meter;
} probe_t;

struct meter {
  const mr_object_t *const *object;
  int n_objects;
  int64_t size, bytes, from_ns, until_ns;
  uint64_t random;
  mr__engine_t *engine;
  pthread_mutex_t lock;
  pthread_cond_t over;
  int left; /* probes in flight */
  mr_err_t e;
  mr_diag_t diag;
};

static uint64_t meter_draw(meter_t *m) { /* xorshift64* */
  m->random ^= m->random >> 12, m->random ^= m->random << 25, m->random ^= m->random >> 27;
  return m->random * UINT64_C(2685821657736338717);
}

static void on_probe(mr__request_t *q, void *arg);

/* Called with the lock held. */
static void send_probe(meter_t *m, probe_t *p) {
  const mr_object_t *o = m->object[meter_draw(m) % (uint64_t)m->n_objects];
  int64_t size = m->size < o->size ? m->size : o->size, places = o->size - size + 1;
  p->meter = m;
  p->request = (mr__request_t){.object = o,
                               .at = (int64_t)(meter_draw(m) % (uint64_t)places),
                               .size = size,
                               .done = on_probe,
                               .arg = p};
  mr__engine_submit(m->engine, &p->request);
}

static void on_probe(mr__request_t *q, void *arg) {
  probe_t *p = arg;
  meter_t *m = p->meter;
  int64_t now = mr_now_ns();
  pthread_mutex_lock(&m->lock);
  if (q->code < 0 && m->e >= 0) m->e = q->code, m->diag = q->diag;
  if (now >= m->from_ns && now < m->until_ns) m->bytes += q->size;
  if (m->e >= 0 && now < m->until_ns)
    send_probe(m, p);
  else if (!--m->left)
    pthread_cond_signal(&m->over);
  pthread_mutex_unlock(&m->lock);
}

/* Keeps n requests in flight for some seconds. */
static mr_err_t keep_asking(meter_t *m, int n, double seconds, double *bytes_per_s,
                            mr_diag_t *diag) {
  probe_t *probe = calloc((size_t)n, sizeof *probe);
  if (!probe) return mr_no_memory(diag, "%d requests", n);
  int64_t now = mr_now_ns(), all = (int64_t)(seconds * 1e9);
  m->from_ns = now + all / WARM_SHARE, m->until_ns = now + all, m->bytes = 0;
  pthread_mutex_lock(&m->lock);
  m->left = n;
  for (int i = 0; i < n; i++) send_probe(m, &probe[i]);
  while (m->left) pthread_cond_wait(&m->over, &m->lock);
  pthread_mutex_unlock(&m->lock);
  free(probe);
  *bytes_per_s = (double)m->bytes * 1e9 / (double)(m->until_ns - m->from_ns);
  return mr_diag_relay(diag, m->e, &m->diag);
}

static int measure_by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* The median of the times of single requests for a byte, after one that opens the connection. */
static mr_err_t measure_latency(meter_t *m, double *latency_s, mr_diag_t *diag) {
  double took[PINGS + 1] = {0};
  int64_t size = m->size;
  mr_err_t e = MR_OK;
  m->size = 1;
  for (int i = 0; i <= PINGS && e >= 0; i++) {
    int64_t begin = mr_now_ns();
    double unused;
    e = keep_asking(m, 1, 0, &unused, diag); /* no time: one request */
    took[i] = (double)(mr_now_ns() - begin) / 1e9;
  }
  m->size = size;
  if (e < 0) return e;
  qsort(took + 1, PINGS, sizeof *took, measure_by_value);
  *latency_s = took[1 + PINGS / 2];
  return MR_OK;
}

static mr_err_t measure_all(meter_t *m, const mr_remote_conf_t *conf, const char *region,
                            double seconds, mr_served_t *out, mr_diag_t *diag) {
  mr_remote_conf_t own = *conf;
  mr_err_t e = MR_OK;
  own.hedge = 0;
  for (int n = 1, next; n && e >= 0 && out->n < MR_SERVED_MAX; n = next) {
    next = n == conf->connections ? 0 : 4 * n < conf->connections ? 4 * n : (int)conf->connections;
    own.connections = n;
    MR_TRY(mr__engine_open(&m->engine, &own, region, diag));
    if (!out->n) e = measure_latency(m, &out->latency_s, diag);
    out->at[out->n].connections = n;
    if (e >= 0) e = keep_asking(m, n, seconds, &out->at[out->n++].bytes_per_s, diag);
    mr__engine_close(m->engine);
  }
  return e;
}

mr_err_t mr__remote_measure(const mr_remote_conf_t *conf, const char *region,
                            const mr_object_t *const *object, int n, int64_t size, double seconds,
                            mr_served_t *out, mr_diag_t *diag) {
  meter_t m = {.object = object, .n_objects = n, .random = (uint64_t)mr_now_ns() | 1};
  m.size = size < 1 ? 1 : size > SIZE_MOST ? SIZE_MOST : size;
  out->n = 0;
  pthread_mutex_init(&m.lock, NULL), pthread_cond_init(&m.over, NULL);
  mr_err_t e = measure_all(&m, conf, region, seconds, out, diag);
  pthread_cond_destroy(&m.over), pthread_mutex_destroy(&m.lock);
  return e;
}
