/* The search of mr_fit: for each kind of remat, the fewest parts whose plan fits.  A step of k
   parts is estimated from plans of one and of two parts, and planned whole only if it would be
   chosen. */
#include "model/train/fit.h"

#include <math.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "model/exec/backend.h"

enum { MOST_PARTS = 32 }; /* a step is unrolled over its parts */

/* The next divisor of batch above k, or 0 if no divisor in (k,MOST_PARTS] is left. */
static int64_t more_parts(int64_t batch, int64_t k) {
  for (k++; k <= batch && k <= MOST_PARTS; k++)
    if (batch % k == 0) return k;
  return 0;
}

static mr_err_t plan_parts(const mr_loss_t *l, const mr_train_config_t *t, int64_t part,
                           int64_t parts, mr_train_plan_t *out, mr_diag_t *diag) {
  mr_train_config_t own = *t;
  own.batch = part * parts;
  own.accumulate = parts;
  return mr_train_step_plan(l, &own, out, diag);
}

typedef struct tried {
  mr_fit_t fit;
  bool whole; /* its peak is that of all parts, not an estimate */
} tried_t;

typedef struct search {
  const mr_loss_t *l;
  const mr_train_config_t *t;
  int remats; /* kinds of remat to try */
  size_t limit;
  double byte;   /* what moving a byte costs, in operations */
  double cost;   /* of best */
  mr_fit_t best; /* accumulate 0: none yet */
  int n_tried;
  tried_t tried[MR_NN_REMATS * MOST_PARTS];
} search_t;

/* Each part after the second needs about the memory and the cost of the second.  A plan of two
   parts therefore predicts a plan of k parts, and is made faster. */
static mr_err_t plan_in_parts(const search_t *s, const mr_train_config_t *t, int64_t k,
                              mr_train_plan_t *out, mr_diag_t *diag) {
  mr_train_plan_t one;
  MR_TRY(plan_parts(s->l, t, t->batch / k, k < 2 ? k : 2, out, diag));
  if (k == 1 || out->peak > s->limit) return MR_OK; /* its cost is not asked */
  MR_TRY(plan_parts(s->l, t, t->batch / k, 1, &one, diag));
  out->flop = one.flop + (double)(k - 1) * (out->flop - one.flop);
  out->bytes = one.bytes + (double)(k - 1) * (out->bytes - one.bytes);
  return MR_OK;
}

/* Estimates t in k parts and keeps it if it fits and is cheaper than the best so far.  A choice is
   planned with all of its parts before it is kept, as it must fit to the byte. */
static mr_err_t try_it(search_t *s, const mr_train_config_t *t, int64_t k, bool *fits,
                       mr_diag_t *diag) {
  mr_train_plan_t p, whole;
  MR_TRY(plan_in_parts(s, t, k, &p, diag));
  double cost = p.flop + s->byte * p.bytes;
  tried_t *tried = &s->tried[s->n_tried++];
  *tried = (tried_t){{t->compute.remat, k, p.peak, s->byte}, .whole = k <= 2};
  *fits = p.peak <= s->limit;
  if (!*fits || (s->best.accumulate && cost >= s->cost)) return MR_OK;
  whole = p;
  if (k > 2) MR_TRY(plan_parts(s->l, t, t->batch / k, k, &whole, diag));
  tried->fit.peak = whole.peak, tried->whole = true;
  *fits = whole.peak <= s->limit;
  if (!*fits) return MR_OK;
  s->best = tried->fit;
  s->cost = cost;
  return MR_OK;
}

static int by_peak(const void *a, const void *b) {
  size_t x = ((const tried_t *)a)->fit.peak, y = ((const tried_t *)b)->fit.peak;
  return (x > y) - (x < y);
}

/* The smallest peak with all parts.  The order of the estimates is not that of the plans: each
   estimate below the smallest plan so far is planned whole. */
static mr_err_t plan_least(search_t *s, mr_fit_t *least, mr_diag_t *diag) {
  qsort(s->tried, (size_t)s->n_tried, sizeof *s->tried, by_peak);
  for (int i = 0; i < s->n_tried && s->tried[i].fit.peak < least->peak; i++) {
    mr_fit_t one = s->tried[i].fit;
    mr_train_config_t own = *s->t;
    mr_train_plan_t p = {.peak = one.peak};
    own.compute.remat = one.remat;
    if (!s->tried[i].whole)
      MR_TRY(plan_parts(s->l, &own, own.batch / one.accumulate, one.accumulate, &p, diag));
    one.peak = p.peak;
    if (one.peak < least->peak) *least = one;
  }
  return MR_OK;
}

static mr_err_t none_fits(search_t *s, mr_diag_t *diag) {
  char want[24], have[24];
  mr_fit_t least = {.peak = SIZE_MAX};
  MR_TRY(plan_least(s, &least, diag));
  return mr_fail(diag, MR_ERR_NOMEM,
                 "fit: no plan of a step on %lld records takes %s or less; the smallest peak is %s "
                 "(%zu bytes), with remat=%s accumulate=%lld; take a smaller batch or model",
                 (long long)s->t->batch, mr_bytes_text(s->limit, want),
                 mr_bytes_text(least.peak, have), least.peak, mr_nn_remat_name(least.remat),
                 (long long)least.accumulate);
}

mr_err_t mr_fit_at(const mr_loss_t *l, bool remat, const mr_train_config_t *t, size_t limit,
                   double byte, mr_fit_t *out, mr_diag_t *diag) {
  search_t s = {.l = l, .t = t, .remats = remat ? MR_NN_REMATS : 1, .limit = limit, .byte = byte};
  if (t->ordered)
    return mr_fail(diag, MR_ERR_CONFIG,
                   "fit: it chooses the parts of a batch, which ordered=%lld sets; want one of "
                   "them, and remat= to need less memory",
                   (long long)t->ordered);
  for (int r = 0; r < s.remats; r++) {
    mr_train_config_t own = *t;
    own.compute.remat = (mr_nn_remat_t)r;
    bool fits = false;
    for (int64_t k = 1; k && !fits; k = more_parts(t->batch, k))
      MR_TRY(try_it(&s, &own, k, &fits, diag));
  }
  if (!s.best.accumulate) return none_fits(&s, diag);
  *out = s.best;
  return MR_OK;
}

mr_err_t mr_fit(const mr_loss_t *l, bool remat, const mr_train_config_t *t, size_t limit,
                mr_fit_t *out, mr_diag_t *diag) {
  double byte = mr_fit_byte_cost(t->compute.device, t->compute.dtype);
  return mr_fit_at(l, remat, t, limit, byte, out, diag);
}

/* ---- what a byte costs ---- */

double mr_fit_byte_round(double gflops, double gbs) {
  if (!(gflops > 0) || !(gbs > 0) || !isfinite(gflops / gbs)) return MR_FIT_BYTE;
  double steps = round(log2(gflops / gbs / MR_FIT_BYTE) / 2);
  return MR_FIT_BYTE * exp2(2 * fmin(fmax(steps, -4), 4));
}

/* What was measured of a device, by its name, under which it may be opened again. */
typedef struct measured {
  struct measured *next;
  double cost[MR_DTYPE_COUNT]; /* 0: not yet */
  char name[];
} measured_t;

/* Of the whole process. */
static struct {
  pthread_mutex_t lock;
  measured_t *first;
} fit_measured = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* With the lock held; NULL without memory. */
static measured_t *fit_measured_of(const mr_device_t *device) {
  measured_t *m = fit_measured.first;
  while (m && strcmp(m->name, device->name) != 0) m = m->next;
  if (m || !(m = calloc(1, sizeof *m + strlen(device->name) + 1))) return m;
  strcpy(m->name, device->name);
  m->next = fit_measured.first, fit_measured.first = m;
  return m;
}

double mr_fit_byte_cost(const mr_device_t *device, mr_dtype_t dtype) {
  if (!device || device->backend->host || !device->backend->limits) return MR_FIT_BYTE;
  const mr_limit_ops_t *limits = device->backend->limits;
  int threads = mr_device_threads(device);
  pthread_mutex_lock(&fit_measured.lock);
  measured_t *m = fit_measured_of(device);
  if (m && !m->cost[dtype])
    m->cost[dtype] =
        mr_fit_byte_round(limits->fma(device, dtype, threads), limits->bandwidth(device, threads));
  double known = m ? m->cost[dtype] : MR_FIT_BYTE;
  pthread_mutex_unlock(&fit_measured.lock);
  return known;
}
