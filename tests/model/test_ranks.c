/* Ranks that share the parts of a step: whatever their number, weights, slots, average and all
   that a step reports have the same bits. */
#include <math.h>
#include <pthread.h>

#include "model/exec/collect.h"
#include "model/exec/device.h"
#include "model/exec/mem_causes.h"
#include "model/model.h"
#include "tests/model/vit_step.h"
#include "tests/vectors.h"

enum { MOST_ZERO = MR_ZERO_MOST, PARTS = 8, MOST = 32, PIXELS = 8 * 8 * 3, STEPS = 6 };

static float lr_of_runs = 1e-2f;
static const int all_counts[] = {2, 3, 4, 5, 6, 7, 8, 0}, two_counts[] = {3, 8, 0};

typedef struct batch {
  float *images;
  _Alignas(64) int32_t labels[MOST];
} batch_t;

static batch_t batch_of(void) {
  batch_t b = {.images = aligned_alloc(64, MOST * PIXELS * sizeof(float))};
  for (int i = 0; i < MOST * PIXELS; i++) b.images[i] = (float)(i * 7919 % 1000) / 500 - 1;
  for (int i = 0; i < MOST; i++) b.labels[i] = i * 7 % 10;
  return b;
}

static vit_t dropping_vit(mr_dtype_t dtype) {
  vit_t c = vit_default();
  c.model.image = 8, c.model.embed = 32, c.model.mlp = 64, c.model.heads = 2, c.model.layers = 2;
  c.model.dropout = .3f, c.model.attn_drop = .2f;
  c.how.dtype = dtype, c.how.threads = 2;
  return c;
}

static mr_train_config_t config_of(int64_t batch) {
  mr_train_config_t t = mr_train_default(batch);
  t.ordered = PARTS;
  t.optim.clip_norm = 0.5f;
  return t;
}

/* The end of a run: its parameters and what its steps have reported. */
typedef struct end {
  mr_params_t params;
  mr_train_out_t out[STEPS];
} end_t;

/* Runs STEPS steps; `bad`, if not 0, is one whose pictures have a NaN. */
static end_t trained(const vit_t *c, mr_train_config_t t, int ranks, int bad) {
  batch_t b = batch_of();
  end_t r = {0};
  mr_diag_t diag = {0};
  mr_train_step_t *step;
  t.ranks = ranks;
  mr_train_want_sets(&c->how, &t.optim, &r.params);
  if (vit_params(c, 3, &r.params, &diag) < 0 || vit_step(c, t, &step, &diag) < 0)
    fail_msg("%d ranks: %s", ranks, diag.text);
  for (int i = 0; i < STEPS; i++) {
    float was = b.images[PIXELS * (t.batch - 1)];
    if (i + 1 == bad) b.images[PIXELS * (t.batch - 1)] = NAN;
    if (vit_run(step, &r.params, b.images, b.labels, lr_of_runs, i + 1, 5, &r.out[i], &diag) < 0)
      fail_msg("%d ranks, step %d: %s", ranks, i + 1, diag.text);
    b.images[PIXELS * (t.batch - 1)] = was;
  }
  mr_train_step_destroy(step);
  free(b.images);
  return r;
}

static bool same_out(const mr_train_out_t *a, const mr_train_out_t *b) {
  const float x[] = {a->loss, a->grad_norm, a->param_norm, a->loss_scale};
  const float y[] = {b->loss, b->grad_norm, b->param_norm, b->loss_scale};
  return !memcmp(x, y, sizeof x) && a->applied == b->applied && a->bad == b->bad &&
         a->skipped == b->skipped && a->counted == b->counted &&
         !memcmp(a->metric, b->metric, sizeof a->metric);
}

static void assert_same_end(const end_t *a, const end_t *b, int ranks, int zero) {
  for (int i = 0; i < STEPS; i++)
    if (!same_out(&a->out[i], &b->out[i]))
      fail_msg("%d ranks, zero=%d, step %d: loss %.9g, norm %.9g, want %.9g and %.9g", ranks, zero,
               i + 1, (double)b->out[i].loss, (double)b->out[i].grad_norm, (double)a->out[i].loss,
               (double)a->out[i].grad_norm);
  for (int k = 0; k < a->params.n_sets; k++) {
    const mr_param_set_t *x = &a->params.set[k], *y = &b->params.set[k];
    if (memcmp(x->data, y->data, a->params.arena_size * mr_dtype_size(x->dtype)) != 0)
      fail_msg("%d ranks, zero=%d: set %d differs", ranks, zero, k);
  }
}

/* Runs of those numbers of ranks, with any zero=, beside one without; returns its last step's. */
static mr_train_out_t same_on_all(const int *ranks, const vit_t *c, mr_train_config_t t, int bad) {
  end_t one = trained(c, t, 1, bad);
  for (; *ranks; ranks++)
    for (t.zero = 0; t.zero <= MOST_ZERO; t.zero++) {
      end_t many = trained(c, t, *ranks, bad);
      assert_same_end(&one, &many, *ranks, t.zero);
      mr_params_fini(&many.params);
    }
  mr_params_fini(&one.params);
  return one.out[STEPS - 1];
}

static void any_number_of_ranks_reaches_the_same_bits(void **state) {
  vit_t c = dropping_vit(MR_F32);
  mr_train_out_t last = same_on_all(all_counts, &c, config_of(MOST), 0);
  assert_true(last.counted == MOST && isfinite(last.loss));
}

static void uneven_batches_reach_the_same_bits(void **state) {
  vit_t c = dropping_vit(MR_BF16);
  same_on_all(two_counts, &c, config_of(27), 0);
}

static void a_moving_scale_a_skipped_step_and_an_average_are_the_same(void **state) {
  vit_t c = dropping_vit(MR_BF16);
  mr_train_config_t t = config_of(MOST);
  t.optim.dynamic = mr_loss_scale_usual();
  t.optim.dynamic.start = 1024, t.optim.dynamic.patience = 2, t.optim.dynamic.max_bad = 3;
  t.optim.only_finite = true;
  t.optim.ema = 0.9f;
  assert_int_equal(same_on_all(two_counts, &c, t, 3).skipped, 1);
}

static void parameters_kept_narrow_are_the_same(void **state) {
  vit_t c = dropping_vit(MR_BF16);
  c.how.values = MR_BF16, c.how.slots = MR_BF16, c.how.stochastic = true;
  same_on_all(two_counts, &c, config_of(MOST), 0);
}

static void products_in_f8_are_the_same(void **state) {
  vit_t c = dropping_vit(MR_BF16);
  c.how.fp8 = (mr_fp8_t){.format = MR_FP8_E4M3, .history = 3};
  same_on_all(two_counts, &c, config_of(MOST), 0);
}

/* Parameters in f16 alone: an update that would overflow any of them is not applied by any rank. */
static void updates_that_would_overflow_are_found_on_all_ranks(void **state) {
  vit_t c = dropping_vit(MR_F16);
  mr_train_config_t t = config_of(MOST);
  c.how.values = MR_F16;
  t.optim.only_finite = true, t.optim.dynamic.max_bad = STEPS;
  t.optim.weight_decay = 99;
  t.optim.clip_norm = 0;
  same_on_all(two_counts, &c, t, 0);
  lr_of_runs = 5e3f; /* updates of thousands, of the parameters by weight decay too */
  mr_train_out_t last = same_on_all(two_counts, &c, t, 0);
  lr_of_runs = 1e-2f;
  assert_true(last.skipped > 0);
}

/* A norm of one parameter alone, no slots, one slot. */
static void every_optimizer_reaches_the_same_bits(void **state) {
  static const char *const name[] = {"lamb", "sgd", "momentum", "lion", "adam"};
  vit_t c = dropping_vit(MR_F32);
  for (size_t i = 0; i < sizeof name / sizeof *name; i++) {
    mr_train_config_t t = config_of(MOST);
    t.optim = mr_optim_of(name[i]);
    t.optim.ema = i % 2 ? 0.5f : 0;
    same_on_all((const int[]){5, 0}, &c, t, 0);
  }
}

/* ---- shares ---- */

static int64_t size_of_number(const void *arg, int i) { return ((const int64_t *)arg)[i]; }

static int64_t largest_share(const int64_t *size, int n, int ranks) {
  int64_t most = 0;
  for (int r = 0; r < ranks; r++) {
    int from = mr_optim_share_from(n, size_of_number, size, ranks, r);
    int to = mr_optim_share_from(n, size_of_number, size, ranks, r + 1);
    int64_t sum = 0;
    assert_true(from <= to && to <= n);
    for (int i = from; i < to; i++) sum += size[i];
    if (sum > most) most = sum;
  }
  return most;
}

/* The least largest share of [at,n), by trying all cuts. */
static int64_t least_largest(const int64_t *size, int at, int n, int ranks) {
  int64_t best = INT64_MAX, sum = 0;
  if (ranks == 1) {
    for (int i = at; i < n; i++) sum += size[i];
    return sum;
  }
  for (int i = at; i <= n; i++) {
    int64_t rest = least_largest(size, i, n, ranks - 1), most = sum > rest ? sum : rest;
    if (most < best) best = most;
    if (i < n) sum += size[i];
  }
  return best;
}

static void shares_are_all_parameters_and_the_largest_is_as_small_as_can_be(void **state) {
  uint32_t x = 1;
  for (int round = 0; round < 200; round++) {
    int64_t size[9];
    int n = 1 + round % 9;
    for (int i = 0; i < n; i++) size[i] = (x = x * 1664525 + 1013904223) >> 26;
    for (int ranks = 1; ranks <= 5; ranks++) {
      assert_int_equal(mr_optim_share_from(n, size_of_number, size, ranks, 0), 0);
      assert_int_equal(mr_optim_share_from(n, size_of_number, size, ranks, ranks), n);
      assert_int_equal(largest_share(size, n, ranks), least_largest(size, 0, n, ranks));
    }
  }
}

/* Matrix products of each part of a step, and values of its backward pass that are alive at the
   peak. */
typedef struct products {
  int of[3];
  size_t backward, activations;
} products_t;

static products_t count_products(const vit_t *c, mr_train_config_t t) {
  mr_diag_t diag = {0};
  mr_train_step_t *step;
  products_t n = {.of = {0}};
  if (vit_step(c, t, &step, &diag) < 0) fail_msg("%s", diag.text);
  const mr_exec_t *x = mr_train_step_exec(step);
  const mr_fn_t *f = mr_exec_fn(x);
  for (int i = 0; i < f->n_eqn; i++) {
    const mr_eqn_t *e = f->eqn[i];
    mr_train_part_t part = mr_train_part_of(step, e);
    bool product = !strcmp(e->op->name, "dot_general") || !strcmp(e->op->name, "linear");
    n.of[part] += product;
    if (product && !strcmp(e->by, "grad") && part != MR_PART_BACKWARD)
      fail_msg("ranks=%d zero=%d: a product of the backward pass is of part %d", t.ranks, t.zero,
               part);
  }
  mr_mem_causes_t causes;
  const mr_mem_parts_t parts = {mr_train_loss_of(f), t.optim.def->name, MR_OPTIM_POSTED,
                                MR_OPTIM_GATHERED};
  assert_int_equal(mr_mem_causes_find(&causes, x, &parts, &diag), MR_OK);
  n.backward = causes.bytes[MR_MEM_BACKWARD] + causes.bytes[MR_MEM_GRADIENTS];
  n.activations = causes.bytes[MR_MEM_ACTIVATIONS];
  mr_train_step_destroy(step);
  return n;
}

/* The loss is known behind the exchange of the gradients, on which it does not depend: two ranks of
   eight parts have half of the products of one, forward and backward. */
static void forward_and_backward_of_ranks_are_different_parts(void **state) {
  vit_t c = dropping_vit(MR_F32);
  mr_train_config_t t = config_of(MOST);
  products_t one = count_products(&c, t);
  assert_true(one.of[MR_PART_FORWARD] > 0 && one.of[MR_PART_BACKWARD] > one.of[MR_PART_FORWARD]);
  t.ranks = 2;
  for (t.zero = 0; t.zero <= MOST_ZERO; t.zero++) {
    products_t two = count_products(&c, t);
    assert_int_equal(2 * two.of[MR_PART_FORWARD], one.of[MR_PART_FORWARD]);
    assert_int_equal(2 * two.of[MR_PART_BACKWARD], one.of[MR_PART_BACKWARD]);
    assert_int_equal(two.of[MR_PART_UPDATE], one.of[MR_PART_UPDATE]);
    assert_true(two.backward > 0 && two.activations > 0);
  }
}

static int waits;
static mr_err_t wait_counted(void *arg) { return waits++, *(mr_err_t *)arg; }

/* All ranks write to the caller's slots, or to its values too: none does before its readers are
 * gone. */
static void wait_once_for_the_readers(int zero) {
  vit_t c = dropping_vit(MR_F32);
  batch_t b = batch_of();
  mr_train_config_t t = config_of(MOST);
  mr_params_t p = {0};
  mr_diag_t diag = {0};
  mr_train_step_t *step;
  mr_train_out_t out;
  waits = 0;
  t.ranks = 5, t.zero = zero;
  mr_train_want_sets(&c.how, &t.optim, &p);
  if (vit_params(&c, 3, &p, &diag) < 0 || vit_step(&c, t, &step, &diag) < 0)
    fail_msg("%s", diag.text);
  mr_err_t answer = MR_ERR_CANCEL;
  void *was[MR_PARAM_SETS];
  size_t bytes = p.arena_size * sizeof(float);
  for (int k = 0; k < p.n_sets; k++) was[k] = malloc(bytes), memcpy(was[k], p.set[k].data, bytes);
  mr_train_step_before_update(step, wait_counted, &answer);
  assert_int_equal(vit_run(step, &p, b.images, b.labels, 1e-2f, 1, 5, &out, &diag), MR_ERR_CANCEL);
  assert_int_equal(waits, 1);
  for (int k = 0; k < p.n_sets; k++) assert_memory_equal(was[k], p.set[k].data, bytes);
  answer = MR_OK;
  assert_int_equal(vit_run(step, &p, b.images, b.labels, 1e-2f, 1, 5, &out, &diag), MR_OK);
  assert_int_equal(waits, 2);
  for (int k = 0; k < p.n_sets; k++) {
    assert_true(memcmp(was[k], p.set[k].data, bytes) != 0);
    free(was[k]);
  }
  mr_train_step_destroy(step);
  mr_params_fini(&p);
  free(b.images);
}

static void ranks_with_shares_wait_once_for_the_readers_of_params(void **state) {
  wait_once_for_the_readers(1);
  wait_once_for_the_readers(3);
}

/* A step that is taken back runs again from the same state on all ranks. */
static void a_step_that_is_taken_back_repeats_itself(void **state) {
  vit_t c = dropping_vit(MR_F32);
  batch_t b = batch_of();
  mr_train_config_t t = config_of(MOST);
  mr_params_t p = {0};
  mr_diag_t diag = {0};
  mr_train_step_t *step;
  mr_train_out_t first, again;
  t.ranks = 3;
  t.optim.only_finite = true;
  if (vit_params(&c, 3, &p, &diag) < 0 || vit_step(&c, t, &step, &diag) < 0)
    fail_msg("%s", diag.text);
  float was = b.images[0];
  b.images[0] = NAN;
  if (vit_run(step, &p, b.images, b.labels, 1e-3f, 1, 5, &first, &diag) < 0)
    fail_msg("%s", diag.text);
  assert_false(first.applied);
  mr_train_step_retake(step);
  b.images[0] = was;
  if (vit_run(step, &p, b.images, b.labels, 1e-3f, 1, 5, &again, &diag) < 0)
    fail_msg("%s", diag.text);
  assert_true(again.applied && again.skipped == 0 && isfinite(again.loss));
  mr_train_step_destroy(step);
  mr_params_fini(&p);
  free(b.images);
}

/* Values that the caller writes between runs reach all ranks. */
static void parameters_that_are_put_reach_all_ranks(void **state) {
  vit_t c = dropping_vit(MR_F32);
  batch_t b = batch_of();
  mr_train_out_t out[2][2];
  for (int k = 0; k < 2; k++) {
    mr_train_config_t t = config_of(MOST);
    mr_params_t p = {0};
    mr_diag_t diag = {0};
    mr_train_step_t *step;
    t.ranks = k ? 5 : 1;
    if (vit_params(&c, 3, &p, &diag) < 0 || vit_step(&c, t, &step, &diag) < 0 ||
        vit_run(step, &p, b.images, b.labels, 1e-2f, 1, 5, &out[k][0], &diag) < 0)
      fail_msg("%s", diag.text);
    if (mr_params_init(&p, 9, &diag) < 0 || mr_train_step_put(step, &p, &diag) < 0 ||
        vit_run(step, &p, b.images, b.labels, 1e-2f, 2, 5, &out[k][1], &diag) < 0)
      fail_msg("%s", diag.text);
    mr_train_step_destroy(step);
    mr_params_fini(&p);
  }
  for (int i = 0; i < 2; i++) assert_true(same_out(&out[0][i], &out[1][i]));
  free(b.images);
}

/* ---- a rank that is alone in its process ---- */

static const float average_decay = 0.9f;

typedef struct lone {
  pthread_t thread;
  int rank, ranks, zero;
  bool average; /* at the end the first one asks for the average alone */
  end_t end;
  mr_err_t err;
  char text[1024];
} lone_t;

static mr_err_t lone_run(lone_t *l, mr_collect_t *collect, bool leaves, mr_diag_t *diag) {
  vit_t c = dropping_vit(MR_F32);
  batch_t b = batch_of();
  mr_train_config_t t = config_of(MOST);
  mr_train_step_t *step = NULL;
  t.ranks = l->ranks, t.rank = l->rank, t.zero = l->zero;
  if (l->average) t.optim.ema = average_decay;
  t.collect_ops = &mr_collect_threads, t.collect = collect;
  c.how.threads = 1;
  mr_train_want_sets(&c.how, &t.optim, &l->end.params);
  mr_err_t e = vit_params(&c, 3, &l->end.params, diag);
  if (e >= 0) e = vit_step(&c, t, &step, diag);
  for (int i = 0; i < STEPS && e >= 0; i++) {
    if (leaves && i == STEPS / 2) {
      mr_collect_threads.abort(collect);
      break;
    }
    e = vit_run(step, &l->end.params, b.images, b.labels, 1e-2f, i + 1, 5, &l->end.out[i], diag);
    if (e >= 0 && i % 2 && l->average) e = mr_train_step_average(step, &l->end.params, diag);
    if (e >= 0 && i % 2 && !(l->average && i + 1 == STEPS))
      e = mr_train_step_whole(step, &l->end.params, diag);
  }
  mr_train_step_destroy(step);
  free(b.images);
  return e;
}

static void lone_join(lone_t *l, bool leaves) {
  mr_collect_t *collect;
  mr_diag_t diag = {0};
  l->err = mr_collect_threads.create(mr_device_default(), "lone", l->rank, l->ranks, 1e6, &collect,
                                     &diag);
  if (l->err >= 0) {
    l->err = lone_run(l, collect, leaves, &diag);
    mr_collect_threads.destroy(collect);
  }
  snprintf(l->text, sizeof l->text, "%s", diag.text);
}

static void *lone_stays(void *arg) { return lone_join(arg, false), NULL; }
static void *lone_leaves(void *arg) { return lone_join(arg, true), NULL; }

/* Runs ranks that know each other by a table of collectives alone; the last one may leave. */
static void run_lone(lone_t *l, int ranks, int zero, bool average, bool leaves) {
  for (int r = 0; r < ranks; r++) {
    l[r] = (lone_t){.rank = r, .ranks = ranks, .zero = zero, .average = average};
    void *(*start)(void *) = leaves && r == ranks - 1 ? lone_leaves : lone_stays;
    assert_int_equal(pthread_create(&l[r].thread, NULL, start, &l[r]), 0);
  }
  for (int r = 0; r < ranks; r++) pthread_join(l[r].thread, NULL);
}

static void ranks_that_share_a_table_of_collectives_reach_the_same_bits(void **state) {
  vit_t c = dropping_vit(MR_F32);
  end_t one = trained(&c, config_of(MOST), 1, 0);
  for (int ranks = 2; ranks <= 3; ranks++) {
    lone_t l[3];
    run_lone(l, ranks, 0, false, false);
    for (int r = 0; r < ranks; r++) {
      if (l[r].err < 0) fail_msg("rank %d: %s", r, l[r].text);
      assert_same_end(&one, &l[r].end, ranks, 0);
      mr_params_fini(&l[r].end.params);
    }
  }
  mr_params_fini(&one.params);
}

static int64_t elements_of_parameter(const void *arg, int i) {
  return (int64_t)((const mr_params_t *)arg)->param[i].size;
}

/* Whether a rank's slots, of which it has [from,to), are those of `one` there and zeros elsewhere,
   and so is all else but for its values, unless they are of its share too, and one set that it has
   whole. */
static bool has_its_share_alone(const mr_params_t *one, const mr_params_t *p, int from, int to,
                                bool values, const mr_param_set_t *whole) {
  bool same = true;
  for (int k = 0; k < p->n_sets; k++)
    for (int i = 0; i < p->n && same; i++) {
      const float *x = mr_params_at(p, &p->set[k], i), *y = mr_params_at(one, &one->set[k], i);
      bool has = (i >= from && i < to) || (!k && !values) || &p->set[k] == whole;
      for (size_t j = 0; j < p->param[i].size; j++) same &= x[j] == (has ? y[j] : 0);
    }
  return same;
}

/* With zero=1 a process has slots of its share alone, with zero=3 values too; the first one has all
   of them when they are asked for. */
static void ranks_that_are_alone_keep_their_shares(void **state) {
  vit_t c = dropping_vit(MR_F32);
  end_t one = trained(&c, config_of(MOST), 1, 0);
  for (int k = 0; k < 6; k++) {
    lone_t l[4];
    int ranks = 2 + k % 3, zero = k < 3 ? 1 : 3;
    run_lone(l, ranks, zero, false, false);
    for (int r = 0; r < ranks; r++) {
      const mr_params_t *p = &l[r].end.params;
      int from = mr_optim_share_from(p->n, elements_of_parameter, p, ranks, r);
      int to = mr_optim_share_from(p->n, elements_of_parameter, p, ranks, r + 1);
      if (l[r].err < 0) fail_msg("rank %d: %s", r, l[r].text);
      if (!r) assert_same_end(&one, &l[r].end, ranks, zero);
      for (int i = 0; i < STEPS; i++) assert_true(same_out(&one.out[i], &l[r].end.out[i]));
      if (r && !has_its_share_alone(&one.params, p, from, to, zero == 3, NULL))
        fail_msg("zero=%d: rank %d of %d: values or slots beside its share", zero, r, ranks);
      mr_params_fini(&l[r].end.params);
    }
  }
  mr_params_fini(&one.params);
}

/* The first one has the average, and of the slots its share, when that is asked for which
   evaluations read. */
static void given_for_evaluations_alone(int zero) {
  vit_t c = dropping_vit(MR_F32);
  mr_train_config_t t = config_of(MOST);
  t.optim.ema = average_decay;
  end_t one = trained(&c, t, 1, 0);
  lone_t l[3];
  assert_non_null(mr_params_set(&one.params, MR_SET_AVERAGE, 0));
  run_lone(l, 3, zero, true, false);
  for (int r = 0; r < 3; r++) {
    const mr_params_t *p = &l[r].end.params;
    int from = mr_optim_share_from(p->n, elements_of_parameter, p, 3, r);
    int to = mr_optim_share_from(p->n, elements_of_parameter, p, 3, r + 1);
    if (l[r].err < 0) fail_msg("rank %d: %s", r, l[r].text);
    for (int i = 0; i < STEPS; i++) assert_true(same_out(&one.out[i], &l[r].end.out[i]));
    if (!has_its_share_alone(&one.params, p, from, to, zero == 3, r ? NULL : mr_params_judged(p)))
      fail_msg("zero=%d: rank %d: other slots or another average", zero, r);
    mr_params_fini(&l[r].end.params);
  }
  mr_params_fini(&one.params);
}

static void ranks_give_the_average_without_their_slots(void **state) {
  given_for_evaluations_alone(1);
  given_for_evaluations_alone(3);
}

/* The step that the others cannot complete leaves their parameters as they were. */
static void a_rank_that_leaves_ends_the_step_of_the_others(void **state) {
  lone_t l[3];
  run_lone(l, 3, 0, false, true);
  assert_true(l[2].err >= 0);
  for (int r = 0; r < 2; r++) {
    assert_int_equal(l[r].err, MR_ERR_UNAVAILABLE);
    assert_non_null(strstr(l[r].text, "communicator lone"));
    for (int k = 0; k < l[r].end.params.n_sets; k++)
      assert_memory_equal(l[r].end.params.set[k].data, l[2].end.params.set[k].data,
                          l[r].end.params.arena_size * mr_dtype_size(l[r].end.params.set[k].dtype));
  }
  for (int r = 0; r < 3; r++) mr_params_fini(&l[r].end.params);
}

static void left_by_a_rank(int zero) {
  lone_t l[3];
  run_lone(l, 3, zero, false, true);
  assert_true(l[2].err >= 0);
  for (int r = 0; r < 2; r++) {
    assert_int_equal(l[r].err, MR_ERR_UNAVAILABLE);
    assert_non_null(strstr(l[r].text, "communicator lone"));
  }
  for (int r = 0; r < 3; r++) mr_params_fini(&l[r].end.params);
}

static void a_rank_that_leaves_ends_a_step_of_shares(void **state) {
  left_by_a_rank(1);
  left_by_a_rank(3);
}

/* A rank receives its share of the gradients of each other rank, never all of them from all. */
static void a_rank_takes_no_more_memory_where_there_are_more_of_them(void **state) {
  vit_t c = dropping_vit(MR_F32);
  size_t peak[2];
  for (int k = 0; k < 2; k++) {
    mr_train_config_t t = config_of(MOST);
    mr_train_step_t *step;
    mr_diag_t diag = {0};
    t.ordered = 16, t.ranks = k ? 16 : 4;
    if (vit_step(&c, t, &step, &diag) < 0) fail_msg("%s", diag.text);
    peak[k] = mr_exec_peak_bytes(mr_train_step_exec(step));
    mr_train_step_destroy(step);
  }
  if (peak[1] > peak[0]) fail_msg("%zu bytes a rank of 16, %zu of 4", peak[1], peak[0]);
}

/* Products before the first message from rank to rank. */
static int products_before_messages(const mr_fn_t *f) {
  int n = 0;
  for (int i = 0; i < f->n_eqn && strcmp(f->eqn[i]->op->name, "ppermute") != 0; i++)
    n += !strcmp(f->eqn[i]->op->name, "dot_general");
  return n;
}

/* What the step of a rank plans at most, and the fewest products that one computes before it
   exchanges gradients early. */
typedef struct planned {
  size_t peak;
  int products;
} planned_t;

/* Of all ranks, each as that of a process of its own. */
static planned_t planned_by_ranks(const vit_t *c, mr_train_config_t t) {
  planned_t p = {.products = INT32_MAX};
  for (t.rank = 0; t.rank < t.ranks; t.rank++) {
    mr_diag_t diag = {0};
    mr_collect_t *collect;
    mr_train_step_t *step;
    if (mr_collect_threads.create(mr_device_default(), "planned", t.rank, t.ranks, 1e6, &collect,
                                  &diag) < 0)
      fail_msg("%s", diag.text);
    t.collect_ops = &mr_collect_threads, t.collect = collect;
    if (vit_step(c, t, &step, &diag) < 0) fail_msg("rank %d: %s", t.rank, diag.text);
    size_t peak = mr_exec_peak_bytes(mr_train_step_exec(step));
    int products = products_before_messages(mr_exec_fn(mr_train_step_exec(step)));
    if (peak > p.peak) p.peak = peak;
    if (products < p.products) p.products = products;
    mr_train_step_destroy(step);
    mr_collect_threads.destroy(collect);
  }
  return p;
}

/* A model of 5 MB in batches of 8 small records: gradients are most of the memory.  A rank whose
   gradients leave early holds less than all of them, in one whose do not they and a chunk of what
   ranks exchange are less than three halves.  The owner of a share has computed its own part, but
   for the end of the backward pass, before it waits for the gradients of others. */
static void gradients_that_leave_early_take_less_memory(void **state) {
  vit_t c = dropping_vit(MR_F32);
  planned_t plan[MOST_ZERO + 1];
  mr_params_t p = {0};
  mr_diag_t diag = {0};
  c.model.embed = 128, c.model.mlp = 512, c.model.layers = 6;
  if (vit_params(&c, 3, &p, &diag) < 0) fail_msg("%s", diag.text);
  size_t all = (size_t)p.count * sizeof(float);
  mr_params_fini(&p);
  for (int zero = 0; zero <= MOST_ZERO; zero++) {
    mr_train_config_t t = config_of(8);
    t.ranks = 8, t.zero = zero;
    plan[zero] = planned_by_ranks(&c, t);
  }
  if (plan[2].peak >= all || plan[2].peak + all / 3 > plan[1].peak || plan[1].peak >= 3 * all / 2 ||
      plan[1].peak > plan[0].peak || plan[0].peak >= 2 * all)
    fail_msg("%zu, %zu and %zu bytes a rank, of %zu bytes of gradients", plan[0].peak, plan[1].peak,
             plan[2].peak, all);
  if (plan[3].peak >= plan[2].peak + all / 8) /* values that have come are not kept */
    fail_msg("%zu bytes a rank with shares of values, %zu without", plan[3].peak, plan[2].peak);
  if (plan[2].products * 4 < plan[0].products) /* a third is the forward pass */
    fail_msg("a rank waits for gradients after %d of its %d products", plan[2].products,
             plan[0].products);
}

/* Whether the plan of a rank is that of its own step, to the byte and by every cause. */
static void same_plan(const mr_exec_t *x, const mr_exec_t *real, const char *optimizer) {
  mr_mem_causes_t a, b;
  mr_diag_t diag = {0};
  const mr_mem_parts_t of_plan = {mr_train_loss_of(mr_exec_fn(x)), optimizer, MR_OPTIM_POSTED,
                                  MR_OPTIM_GATHERED};
  const mr_mem_parts_t of_step = {mr_train_loss_of(mr_exec_fn(real)), optimizer, MR_OPTIM_POSTED,
                                  MR_OPTIM_GATHERED};
  assert_int_equal(mr_exec_peak_bytes(x), mr_exec_peak_bytes(real));
  assert_int_equal(mr_mem_causes_find(&a, x, &of_plan, &diag), MR_OK);
  assert_int_equal(mr_mem_causes_find(&b, real, &of_step, &diag), MR_OK);
  assert_memory_equal(a.bytes, b.bytes, sizeof a.bytes);
  assert_int_equal(mr_exec_fn(x)->n_in, mr_exec_fn(real)->n_in);
  for (int i = 0; i < mr_exec_fn(x)->n_in; i++)
    assert_int_equal(mr_aval_bytes(&mr_exec_fn(x)->in[i]->aval),
                     mr_aval_bytes(&mr_exec_fn(real)->in[i]->aval));
}

/* Plans the step of rank t.rank and compares it with the step that is created; returns how many
   parameters it has slots of. */
static int plan_beside_step(vit_t *c, mr_train_config_t t, mr_collect_t *collect) {
  mr_loss_t l = mr_vit_loss(&c->model);
  mr_diag_t diag = {0};
  mr_params_t list = {0};
  mr_exec_t *x = NULL;
  mr_train_step_t *step;
  int from, to, own_from, own_to;
  t.compute = c->how;
  if (mr_train_step_plan_rank(&l, &t, &list, &x, &diag) < 0) fail_msg("%s", diag.text);
  mr_train_share_of(&t, &list, &from, &to);
  if (collect) t.collect_ops = &mr_collect_threads, t.collect = collect;
  if (vit_step(c, t, &step, &diag) < 0) fail_msg("%s", diag.text);
  same_plan(x, mr_train_step_exec(step), t.optim.def->name);
  mr_train_step_share(step, &own_from, &own_to);
  if (collect) assert_true(from == own_from && to == own_to);
  int sets = mr_optim_sets(&t.optim) - 1;
  int values = t.ranks > 1 && t.zero == 3 ? to - from : list.n;
  assert_int_equal(mr_train_step_in_place(&t, &list), values + sets * (to - from));
  mr_train_step_destroy(step);
  mr_exec_destroy(x);
  mr_params_fini(&list);
  return to - from;
}

/* Of threads the first rank's, of ranks that are alone each one's. */
static void a_plan_of_a_rank_is_what_its_step_takes(void **state) {
  enum { RANKS = 3 };
  vit_t c = dropping_vit(MR_F32);
  mr_train_config_t t = config_of(MOST);
  t.optim.ema = 0.5f;
  t.ranks = RANKS;
  for (t.zero = 0; t.zero <= MOST_ZERO; t.zero++) {
    int all = plan_beside_step(&c, t, NULL), sum = 0;
    for (t.rank = 0; t.rank < RANKS; t.rank++) {
      mr_diag_t diag = {0};
      mr_collect_t *collect;
      if (mr_collect_threads.create(mr_device_default(), "plan", t.rank, RANKS, 1e6, &collect,
                                    &diag) < 0)
        fail_msg("%s", diag.text);
      c.how.threads = 1;
      sum += plan_beside_step(&c, t, collect);
      mr_collect_threads.destroy(collect);
    }
    t.rank = 0;
    assert_true(t.zero ? all < sum : sum == RANKS * all);
  }
  t.ranks = 1, t.zero = 0;
  (void)plan_beside_step(&c, t, NULL);
}

static void ranks_without_a_part_are_refused(void **state) {
  vit_t c = dropping_vit(MR_F32);
  mr_train_config_t t = config_of(MOST);
  mr_train_step_t *step;
  mr_diag_t diag = {0};
  t.ranks = 9;
  assert_int_equal(vit_step(&c, t, &step, &diag), MR_ERR_CONFIG);
  assert_non_null(strstr(diag.text, "9 ranks that share ordered=8 parts"));
  t.ranks = 2, t.ordered = 0;
  assert_int_equal(vit_step(&c, t, &step, &diag), MR_ERR_CONFIG);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(any_number_of_ranks_reaches_the_same_bits),
      cmocka_unit_test(uneven_batches_reach_the_same_bits),
      cmocka_unit_test(a_moving_scale_a_skipped_step_and_an_average_are_the_same),
      cmocka_unit_test(parameters_kept_narrow_are_the_same),
      cmocka_unit_test(products_in_f8_are_the_same),
      cmocka_unit_test(updates_that_would_overflow_are_found_on_all_ranks),
      cmocka_unit_test(every_optimizer_reaches_the_same_bits),
      cmocka_unit_test(shares_are_all_parameters_and_the_largest_is_as_small_as_can_be),
      cmocka_unit_test(forward_and_backward_of_ranks_are_different_parts),
      cmocka_unit_test(ranks_with_shares_wait_once_for_the_readers_of_params),
      cmocka_unit_test(a_step_that_is_taken_back_repeats_itself),
      cmocka_unit_test(parameters_that_are_put_reach_all_ranks),
      cmocka_unit_test(ranks_that_share_a_table_of_collectives_reach_the_same_bits),
      cmocka_unit_test(ranks_that_are_alone_keep_their_shares),
      cmocka_unit_test(ranks_give_the_average_without_their_slots),
      cmocka_unit_test(a_rank_that_leaves_ends_the_step_of_the_others),
      cmocka_unit_test(a_rank_that_leaves_ends_a_step_of_shares),
      cmocka_unit_test(a_rank_takes_no_more_memory_where_there_are_more_of_them),
      cmocka_unit_test(gradients_that_leave_early_take_less_memory),
      cmocka_unit_test(a_plan_of_a_rank_is_what_its_step_takes),
      cmocka_unit_test(ranks_without_a_part_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
