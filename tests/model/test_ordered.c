/* A batch in parts that are added as a tree: each record draws what it draws in the whole batch,
   and with subtrees computed apart the sums and the weights have the same bits. */
#include <math.h>

#include "model/model.h"
#include "model/train/fit.h"
#include "tests/model/vit_step.h"
#include "tests/vectors.h"

enum { PARTS = 8, MOST = 32, PIXELS = 8 * 8 * 3, STEPS = 3, OUTS = 3 /* of the loss */ };

static vit_t small_vit(mr_dtype_t dtype, int threads) {
  vit_t c = vit_default();
  c.model.image = 8, c.model.embed = 32, c.model.mlp = 64, c.model.heads = 2, c.model.layers = 2;
  c.how.dtype = dtype, c.how.threads = threads;
  return c;
}

static mr_train_config_t ordered_config(int64_t batch, int64_t parts) {
  mr_train_config_t t = mr_train_default(batch);
  t.ordered = parts;
  t.optim.clip_norm = 0.5f;
  return t;
}

typedef struct batch {
  float *images;
  int32_t labels[MOST];
} batch_t;

static batch_t batch_of(void) {
  batch_t b = {.images = aligned_alloc(64, MOST * PIXELS * sizeof(float))};
  for (int i = 0; i < MOST * PIXELS; i++) b.images[i] = (float)(i * 7919 % 1000) / 500 - 1;
  for (int i = 0; i < MOST; i++) b.labels[i] = i * 7 % 10;
  return b;
}

/* The loss of part k of t. */
static mr_fn_t *loss_of_part(const vit_t *c, const mr_train_config_t *t, int64_t k) {
  mr_loss_t l = mr_vit_loss(&c->model);
  mr_diag_t diag = {0};
  mr_params_t list = {0};
  int64_t at = mr_train_part_at(t, k);
  mr_loss_use_t use = {.batch = mr_train_part_at(t, k + 1) - at, .train = true, .first_record = at};
  mr_fn_t *f = mr_loss_fn(&l, &c->how, &use, &list, &diag);
  if (!f) fail_msg("%s", diag.text);
  mr_params_fini(&list);
  return f;
}

static mr_exec_t *compiled(const mr_fn_t *f, int threads) {
  mr_exec_t *x;
  mr_diag_t diag = {0};
  if (mr_compile(f, &(mr_compile_options_t){.threads = threads}, &x, &diag) < 0)
    fail_msg("%s", diag.text);
  return x;
}

static void **outputs_of(const mr_exec_t *x) {
  const mr_fn_t *f = mr_exec_fn(x);
  void **out = calloc((size_t)f->n_out, sizeof *out);
  for (int i = 0; i < f->n_out; i++)
    out[i] = aligned_alloc(64, (mr_aval_bytes(&f->out[i]->aval) + 63) / 64 * 64);
  return out;
}

static void free_outputs(void **out, int n) {
  for (int i = 0; i < n; i++) free(out[i]);
  free(out);
}

/* ---- draws ---- */

/* Losses of the records of part k, of all dropouts that the model has. */
static void losses_of_part(const vit_t *c, const mr_train_config_t *t, int64_t k,
                           const mr_params_t *p, const batch_t *b, float *losses) {
  mr_fn_t *f = loss_of_part(c, t, k);
  mr_exec_t *x = compiled(f, 1);
  int64_t at = mr_train_part_at(t, k), rows = mr_train_part_at(t, k + 1) - at;
  _Alignas(64) int32_t labels[MOST];
  uint64_t seed = 5;
  uint32_t step = 3;
  const void **in = calloc((size_t)f->n_in, sizeof *in);
  void **out = outputs_of(x);
  memcpy(labels, b->labels + at, (size_t)rows * sizeof *labels);
  in[0] = b->images + at * PIXELS, in[1] = labels, in[2] = &seed, in[3] = &step;
  for (int i = 0; i < p->n; i++) in[VIT_DATA + i] = values_of(p) + p->param[i].offset;
  mr_exec_run(x, in, out);
  memcpy(losses + at, out[OUTS - 1], (size_t)rows * sizeof *losses);
  free_outputs(out, f->n_out), free(in);
  mr_exec_destroy(x), mr_fn_destroy(f);
}

static void records_draw_what_they_draw_in_the_whole_batch(void **state) {
  batch_t b = batch_of();
  for (int timm = 0; timm < 2; timm++) {
    vit_t c = small_vit(MR_F32, 1);
    mr_params_t p = {0};
    mr_diag_t diag = {0};
    if (timm) c.model.variant = MR_VIT_TIMM, c.model.drop_path = .4f;
    c.model.dropout = .3f, c.model.attn_drop = .2f;
    if (vit_params(&c, 3, &p, &diag) < 0) fail_msg("%s", diag.text);
    for (int64_t batch = 27; batch <= MOST; batch += 5) {
      float whole[MOST], parts[MOST];
      mr_train_config_t one = ordered_config(batch, 1);
      losses_of_part(&c, &one, 0, &p, &b, whole);
      for (int64_t n = 2; n <= PARTS; n *= 2) {
        mr_train_config_t t = ordered_config(batch, n);
        for (int64_t k = 0; k < n; k++) losses_of_part(&c, &t, k, &p, &b, parts);
        for (int64_t i = 0; i < batch; i++)
          if (!(fabsf(parts[i] - whole[i]) < 1e-5f))
            fail_msg("record %d of %d in %d parts: %g, want %g", (int)i, (int)batch, (int)n,
                     (double)parts[i], (double)whole[i]);
      }
    }
    mr_params_fini(&p);
  }
  free(b.images);
}

/* ---- subtrees ---- */

typedef struct ranks {
  vit_t c;
  mr_train_config_t t;
  mr_fn_t *part[PARTS];
  mr_optim_loss_t loss;
  int each; /* parts that a rank computes */
  mr_exec_t *subtree[PARTS], *update;
  mr_params_t params;
} ranks_t;

static const bool ranks_split[VIT_DATA] = {true, true};

/* The update for gradients that are given: the step of a loss that is linear in the parameters,
   with them as factors. */
static mr_exec_t *update_of(const ranks_t *r) {
  mr_fn_t *f = mr_fn_create(), *step;
  const mr_fn_t *first = r->part[0];
  int n = r->params.n, axes[MR_MAX_NDIM] = {0, 1, 2, 3, 4, 5, 6, 7};
  mr_diag_t diag = {0};
  mr_var_t *sum = NULL;
  for (int k = 0; k < 2; k++)
    for (int i = 0; i < n; i++) mr_fn_input(f, first->in[VIT_DATA + i]->aval);
  for (int i = 0; i < n; i++) {
    mr_var_t *x = mr_lax_mul(f, f->in[i], f->in[n + i]);
    x = mr_lax_reduce_sum(f, x, x->aval.ndim, axes);
    sum = sum ? mr_lax_add(f, sum, x) : x;
  }
  mr_fn_return(f, 1, &sum);
  mr_optim_loss_t linear = {.n_data = n, .parts = 1, .part = (const mr_fn_t *[]){f}};
  if (mr_optim_step_fn(&linear, &r->t.optim, &step, &diag) < 0) fail_msg("%s", diag.text);
  mr_exec_t *x = compiled(step, 1);
  mr_fn_destroy(step), mr_fn_destroy(f);
  return x;
}

static void ranks_init(ranks_t *r, mr_dtype_t dtype, int64_t batch, int n_ranks) {
  mr_diag_t diag = {0};
  *r = (ranks_t){.c = small_vit(dtype, 1), .t = ordered_config(batch, PARTS)};
  r->each = PARTS / n_ranks;
  for (int k = 0; k < PARTS; k++) r->part[k] = loss_of_part(&r->c, &r->t, k);
  r->loss = (mr_optim_loss_t){.n_data = VIT_DATA,
                              .parts = PARTS,
                              .tree = true,
                              .part = (const mr_fn_t *const *)r->part,
                              .split = ranks_split};
  if (vit_params(&r->c, 3, &r->params, &diag) < 0) fail_msg("%s", diag.text);
  for (int k = 0; k < PARTS; k += r->each) {
    mr_fn_t *f;
    if (mr_optim_parts_fn(&r->loss, &r->t.optim, k, k + r->each, &f, &diag) < 0)
      fail_msg("%s", diag.text);
    r->subtree[k] = compiled(f, 1);
    mr_fn_destroy(f);
  }
  r->update = update_of(r);
}

static void ranks_fini(ranks_t *r) {
  for (int k = 0; k < PARTS; k++) mr_fn_destroy(r->part[k]), mr_exec_destroy(r->subtree[k]);
  mr_exec_destroy(r->update);
  mr_params_fini(&r->params);
}

static float *set_of(const mr_params_t *p, int k) { return k ? slot_of(p, k - 1) : values_of(p); }

/* Points in[3 n] at the tensors of parameters and slots. */
static void point_at_sets(const mr_params_t *p, const void **in) {
  for (int k = 0; k < 3; k++)
    for (int i = 0; i < p->n; i++) in[k * p->n + i] = set_of(p, k) + p->param[i].offset;
}

/* What a rank gives for the parts from `from` on. */
static void **run_subtree(const ranks_t *r, int from, const batch_t *b, int64_t number) {
  mr_exec_t *x = r->subtree[from];
  int64_t at = mr_train_part_at(&r->t, from), rows = mr_train_part_at(&r->t, from + r->each) - at;
  _Alignas(64) int32_t labels[MOST];
  uint64_t seed = 5;
  uint32_t step = (uint32_t)number;
  float lr = 1e-3f, t = (float)number;
  const void **in = calloc((size_t)mr_exec_fn(x)->n_in, sizeof *in);
  void **out = outputs_of(x);
  memcpy(labels, b->labels + at, (size_t)rows * sizeof *labels);
  const void *data[] = {b->images + at * PIXELS, labels, &seed, &step, &lr, &t};
  memcpy(in, data, sizeof data);
  point_at_sets(&r->params, in + VIT_DATA + 2);
  mr_exec_run(x, in, out);
  free(in);
  return out;
}

/* The sum of parts [from,to), added here where no rank has both halves. */
static void **sum_of_parts(const ranks_t *r, int from, int to, const batch_t *b, int64_t number) {
  if (to - from == r->each) return run_subtree(r, from, b, number);
  int half = (from + to) / 2, n_out = OUTS + r->params.n;
  void **left = sum_of_parts(r, from, half, b, number);
  void **right = sum_of_parts(r, half, to, b, number);
  for (int i = 0; i < n_out; i++) {
    int64_t n = i ? 0 : 1;
    if (i >= OUTS) n = mr_aval_elems(&r->part[0]->in[VIT_DATA + i - OUTS]->aval);
    for (int64_t j = 0; j < n; j++) ((float *)left[i])[j] += ((const float *)right[i])[j];
  }
  free_outputs(right, n_out);
  return left;
}

/* A step of the ranks; returns loss and norm. */
static void ranks_step(ranks_t *r, const batch_t *b, int64_t number, float reported[2]) {
  int n = r->params.n;
  float lr = 1e-3f, t = (float)number;
  void **sum = sum_of_parts(r, 0, PARTS, b, number), **out = outputs_of(r->update);
  const void **in = calloc((size_t)mr_exec_fn(r->update)->n_in, sizeof *in);
  for (int i = 0; i < n; i++) in[i] = sum[OUTS + i];
  in[n] = &lr, in[n + 1] = &t;
  point_at_sets(&r->params, in + n + 2);
  mr_exec_run(r->update, in, out);
  for (int k = 0; k < 3; k++)
    for (int i = 0; i < n; i++)
      memcpy(set_of(&r->params, k) + r->params.param[i].offset, out[2 + k * n + i],
             r->params.param[i].size * sizeof(float));
  reported[0] = *(float *)sum[0], reported[1] = *(float *)out[1];
  free_outputs(out, 2 + 3 * n), free_outputs(sum, OUTS + n), free(in);
}

static void assert_same_sets(const mr_params_t *a, const mr_params_t *b) {
  for (int k = 0; k < 3; k++)
    for (int i = 0; i < a->n; i++)
      if (memcmp(set_of(a, k) + a->param[i].offset, set_of(b, k) + b->param[i].offset,
                 a->param[i].size * sizeof(float)) != 0)
        fail_msg("set %d: tensor %s differs", k, a->param[i].name);
}

/* The steps of one process with two threads beside those of ranks with one, each of which has a
   subtree. */
static void steps_of_ranks_have_the_bits_of_one_process(mr_dtype_t dtype, int64_t batch) {
  batch_t b = batch_of();
  vit_t c = small_vit(dtype, 2);
  mr_params_t params = {0};
  mr_train_step_t *step;
  mr_train_out_t out[STEPS];
  mr_diag_t diag = {0};
  if (vit_params(&c, 3, &params, &diag) < 0 ||
      vit_step(&c, ordered_config(batch, PARTS), &step, &diag) < 0)
    fail_msg("%s", diag.text);
  for (int i = 0; i < STEPS; i++)
    if (vit_run(step, &params, b.images, b.labels, 1e-3f, i + 1, 5, &out[i], &diag) < 0)
      fail_msg("%s", diag.text);
  for (int n = 1; n <= PARTS; n *= 2) {
    ranks_t r;
    ranks_init(&r, dtype, batch, n);
    for (int i = 0; i < STEPS; i++) {
      float reported[2];
      ranks_step(&r, &b, i + 1, reported);
      if (reported[0] != out[i].loss || reported[1] != out[i].grad_norm)
        fail_msg("%d ranks, step %d: loss %.9g and norm %.9g, want %.9g and %.9g", n, i + 1,
                 (double)reported[0], (double)reported[1], (double)out[i].loss,
                 (double)out[i].grad_norm);
    }
    assert_same_sets(&params, &r.params);
    ranks_fini(&r);
  }
  mr_train_step_destroy(step);
  mr_params_fini(&params);
  free(b.images);
}

static void ranks_with_subtrees_reach_the_same_weights(void **state) {
  steps_of_ranks_have_the_bits_of_one_process(MR_F32, MOST);
  steps_of_ranks_have_the_bits_of_one_process(MR_BF16, MOST);
}

static void uneven_parts_reach_the_same_weights(void **state) {
  steps_of_ranks_have_the_bits_of_one_process(MR_F32, 27);
}

/* ---- one step in parts and in one ---- */

static mr_params_t trained(int64_t batch, int64_t parts, mr_train_out_t *out) {
  batch_t b = batch_of();
  vit_t c = small_vit(MR_F32, 1);
  mr_train_config_t t = ordered_config(batch, parts);
  mr_params_t p = {0};
  mr_train_step_t *step;
  mr_diag_t diag = {0};
  t.optim = mr_optim_of("sgd");
  if (vit_params(&c, 3, &p, &diag) < 0 || vit_step(&c, t, &step, &diag) < 0 ||
      vit_run(step, &p, b.images, b.labels, 0.1f, 1, 5, out, &diag) < 0)
    fail_msg("%s", diag.text);
  mr_train_step_destroy(step);
  free(b.images);
  return p;
}

/* Dropout included: accumulate= draws other masks. */
static void a_step_in_ordered_parts_is_close_to_that_of_the_whole_batch(void **state) {
  for (int64_t batch = 27; batch <= MOST; batch += 5) {
    mr_train_out_t one, out;
    mr_params_t whole = trained(batch, 0, &one);
    for (int64_t n = 1; n <= PARTS; n *= 2) {
      mr_params_t p = trained(batch, n, &out);
      if (!(fabsf(out.loss - one.loss) < 1e-5f) ||
          !(fabsf(out.grad_norm - one.grad_norm) < 1e-4f * one.grad_norm))
        fail_msg("%d parts: loss %g and norm %g, want %g and %g", (int)n, (double)out.loss,
                 (double)out.grad_norm, (double)one.loss, (double)one.grad_norm);
      for (size_t i = 0; i < p.arena_size; i++)
        assert_true(fabsf(values_of(&p)[i] - values_of(&whole)[i]) < 1e-5f);
      mr_params_fini(&p);
    }
    mr_params_fini(&whole);
  }
}

/* ---- settings ---- */

static void settings_that_do_not_fit_are_refused(void **state) {
  static const struct {
    int64_t batch, ordered, accumulate;
    const char *says;
  } bad[] = {
      {32, 6, 1, "ordered: 6, want a power of two in [1,256], or 0 for none"},
      {1024, 512, 1, "ordered: 512, want a power of two in [1,256], or 0 for none"},
      {32, -8, 1, "ordered: -8, want a power of two in [1,256], or 0 for none"},
      {4, 8, 1, "ordered: 8 parts of a batch of 4 records, want at most a part a record"},
      {32, 8, 2, "accumulate: 2 beside ordered=8, which splits the batch too; want one of them"},
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    mr_diag_t diag = {0};
    vit_t c = small_vit(MR_F32, 1);
    mr_train_config_t t = ordered_config(bad[i].batch, bad[i].ordered);
    mr_train_step_t *step = NULL;
    t.accumulate = bad[i].accumulate;
    assert_int_equal(vit_step(&c, t, &step, &diag), MR_ERR_CONFIG);
    assert_string_equal(diag.text, bad[i].says);
  }
}

static void fit_does_not_choose_parts_that_are_set(void **state) {
  mr_diag_t diag = {0};
  vit_t c = small_vit(MR_F32, 1);
  mr_loss_t l = mr_vit_loss(&c.model);
  mr_train_config_t t = ordered_config(MOST, PARTS);
  mr_fit_t choice;
  t.compute = c.how;
  assert_int_equal(mr_fit_at(&l, true, &t, (size_t)1 << 30, 10, &choice, &diag), MR_ERR_CONFIG);
  assert_non_null(strstr(diag.text, "ordered=8"));
}

static void uneven_parts_are_those_of_array_split(void **state) {
  mr_train_config_t t = ordered_config(27, 8);
  static const int64_t at[] = {0, 4, 8, 12, 15, 18, 21, 24, 27};
  for (int k = 0; k <= 8; k++) assert_int_equal(mr_train_part_at(&t, k), at[k]);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(settings_that_do_not_fit_are_refused),
      cmocka_unit_test(fit_does_not_choose_parts_that_are_set),
      cmocka_unit_test(uneven_parts_are_those_of_array_split),
      cmocka_unit_test(records_draw_what_they_draw_in_the_whole_batch),
      cmocka_unit_test(a_step_in_ordered_parts_is_close_to_that_of_the_whole_batch),
      cmocka_unit_test(ranks_with_subtrees_reach_the_same_weights),
      cmocka_unit_test(uneven_parts_reach_the_same_weights),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
