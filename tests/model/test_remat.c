/* Values computed twice instead of kept, and memory lent between executables: the same bits. */
#include "model/model.h"
#include "model/ops/op.h"
#include "tests/vectors.h"

enum { B = 16 };

static mr_vit_config_t small_model(void) {
  mr_vit_config_t c = mr_vit_default();
  c.embed = 64, c.mlp = 256, c.heads = 4, c.layers = 5, c.dtype = MR_F32;
  return c;
}

typedef struct run {
  mr_params_t params;
  float loss, *logits;
  size_t peak;
  int dropouts;
} run_t;

static float *pictures(void) {
  float *x = aligned_alloc(64, B * 3072 * sizeof *x);
  for (int i = 0; i < B * 3072; i++) x[i] = (float)(i * 7919 % 1000) / 500 - 1;
  return x;
}

/* Those within fused loops too. */
static int count(const mr_fn_t *f, const char *op) {
  int n = 0;
  for (int i = 0; i < f->n_eqn; i++) {
    const mr_attr_t *body = mr_attr_find(f->eqn[i], "jaxpr");
    n += body ? count(body->fn, op) : !strcmp(f->eqn[i]->op->name, op);
  }
  return n;
}

/* The graph that mr_train_step_create compiles, with or without remat; parameters into p. */
static mr_exec_t *compiled(bool keep, mr_params_t *p) {
  mr_diag_t diag = {0};
  mr_vit_config_t c = small_model();
  mr_train_config_t adamw = mr_train_default(B);
  if (mr_vit_params(&c, 3, p, &diag) < 0) fail_msg("%s", diag.text);
  mr_params_t list = {0};
  mr_fn_t *loss = mr_vit_loss(&c, B, true, 0, &list, &diag), *f = NULL;
  const mr_fn_t *parts[] = {loss};
  mr_optim_loss_t whole = {MR_VIT_N_DATA, 1, parts, NULL};
  if (!loss || mr_optim_step_fn(&whole, &adamw.optim, &f, &diag) < 0) fail_msg("%s", diag.text);
  mr_exec_t *x;
  if (mr_compile(f, &(mr_compile_options_t){.skip = keep ? "remat" : ""}, &x, &diag) < 0)
    fail_msg("%s", diag.text);
  mr_fn_destroy(f);
  mr_fn_destroy(loss);
  mr_params_fini(&list);
  return x;
}

/* A step of it. */
static run_t train(bool keep) {
  run_t r = {0};
  mr_exec_t *x = compiled(keep, &r.params);
  const mr_fn_t *f = mr_exec_fn(x);
  int n = r.params.n;
  const void **in = calloc((size_t)f->n_in, sizeof *in);
  void **out = calloc((size_t)f->n_out, sizeof *out);
  float *images = pictures(), lr = 1e-3f, t = 1, norm;
  int32_t labels[B];
  uint64_t seed = 5;
  uint32_t step = 1;
  for (int i = 0; i < B; i++) labels[i] = i % 10;
  float *fresh = aligned_alloc(64, 3 * r.params.arena_size * sizeof *fresh), losses[B];
  r.logits = malloc(B * 10 * sizeof *r.logits);
  const void *data[] = {images, labels, &seed, &step, &lr, &t};
  memcpy(in, data, sizeof data);
  void *head[] = {&r.loss, r.logits, losses, &norm};
  memcpy(out, head, sizeof head);
  float *const arena[] = {r.params.p, r.params.m, r.params.v};
  for (int k = 0; k < 3; k++)
    for (int i = 0; i < n; i++) {
      size_t at = r.params.param[i].offset;
      in[6 + k * n + i] = arena[k] + at,
                     out[4 + k * n + i] = fresh + (size_t)k * r.params.arena_size + at;
    }
  mr_exec_run(x, in, out);
  for (int k = 0; k < 3; k++)
    for (int i = 0; i < n; i++) {
      const mr_param_t *q = &r.params.param[i];
      memcpy(arena[k] + q->offset, out[4 + k * n + i], q->size * sizeof(float));
    }
  r.peak = mr_exec_peak_bytes(x), r.dropouts = count(f, "dropout");
  free(in), free(out), free(images), free(fresh);
  mr_exec_destroy(x);
  return r;
}

static void computing_twice_changes_no_bit_and_needs_less(void **state) {
  run_t kept = train(true), twice = train(false);
  assert_memory_equal(&kept.loss, &twice.loss, sizeof kept.loss);
  assert_memory_equal(kept.logits, twice.logits, B * 10 * sizeof(float));
  size_t bytes = kept.params.arena_size * sizeof(float);
  assert_memory_equal(kept.params.p, twice.params.p, bytes);
  assert_memory_equal(kept.params.m, twice.params.m, bytes);
  assert_memory_equal(kept.params.v, twice.params.v, bytes);
  assert_true(twice.dropouts > kept.dropouts);
  if (!(twice.peak < kept.peak - kept.peak / 5))
    fail_msg("%zu bytes against %zu", twice.peak, kept.peak);
  mr_params_fini(&kept.params), mr_params_fini(&twice.params);
  free(kept.logits), free(twice.logits);
}

static void evaluation_in_lent_memory_says_the_same(void **state) {
  mr_vit_config_t c = small_model();
  mr_train_config_t adamw = mr_train_default(B);
  mr_params_t p = {0};
  mr_diag_t diag = {0};
  mr_train_step_t *step;
  mr_eval_step_t *own, *lent;
  if (mr_vit_params(&c, 3, &p, &diag) < 0 || mr_train_step_create(&c, &adamw, &step, &diag) < 0 ||
      mr_eval_step_create(&c, B, NULL, &own, &diag) < 0 ||
      mr_eval_step_create(&c, B, step, &lent, &diag) < 0)
    fail_msg("%s", diag.text);
  float *images = pictures();
  int32_t labels[B] = {0};
  const float *logits[2], *losses;
  mr_train_out_t out;
  for (int round = 1; round <= 2; round++) {
    assert_int_equal(mr_train_step_run(step, &p, images, labels, 1e-3f, round, 1, &out, &diag),
                     MR_OK);
    mr_eval_step_run(own, &p, images, labels, &logits[0], &losses, &diag);
    mr_eval_step_run(lent, &p, images, labels, &logits[1], &losses, &diag);
    assert_memory_equal(logits[0], logits[1], B * 10 * sizeof(float));
  }
  mr_eval_step_destroy(lent), mr_eval_step_destroy(own);
  mr_train_step_destroy(step);
  mr_params_fini(&p);
  free(images);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(computing_twice_changes_no_bit_and_needs_less),
      cmocka_unit_test(evaluation_in_lent_memory_says_the_same),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
