/* A training step whose ranks are processes: loss, norms, weights and moments have the bits of a
   step without ranks. */
// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include "base/ledger.h"
#include "model/exec/device.h"
#include "tests/model/vit_step.h"
#include "tests/ranks/processes.h"

enum { BATCH = 18, PIXELS = 8 * 8 * 3, STEPS = 4 };

/* Mixes what a run reports and the sets of its parameters. */
static uint64_t hash_of(const mr_train_out_t *out, const mr_params_t *p) {
  const float said[] = {out->loss, out->grad_norm, out->param_norm};
  uint64_t h = 1;
  for (size_t i = 0; i < sizeof said; i++) h = mr_hash_mix(h, ((const unsigned char *)said)[i]);
  for (int k = 0; k < p->n_sets; k++)
    for (size_t i = 0; i < p->arena_size * mr_dtype_size(p->set[k].dtype); i++)
      h = mr_hash_mix(h, ((const unsigned char *)p->set[k].data)[i]);
  return h;
}

static mr_err_t run_steps(mr_train_config_t t, uint64_t *hash, mr_diag_t *diag) {
  vit_t c = vit_default();
  mr_params_t p = {0};
  mr_train_step_t *step = NULL;
  mr_train_out_t out = {0};
  float *images = aligned_alloc(64, BATCH * PIXELS * sizeof *images);
  _Alignas(64) int32_t labels[BATCH];
  c.model.image = 8, c.model.embed = 32, c.model.mlp = 64, c.model.heads = 2, c.model.layers = 1;
  c.model.dropout = .3f, c.how.threads = 1;
  for (int i = 0; i < BATCH * PIXELS; i++) images[i] = (float)(i * 7919 % 1000) / 500 - 1;
  for (int i = 0; i < BATCH; i++) labels[i] = i * 7 % 10;
  mr_err_t e = vit_params(&c, 3, &p, diag);
  if (e >= 0) e = vit_step(&c, t, &step, diag);
  for (int i = 0; i < STEPS && e >= 0; i++)
    e = vit_run(step, &p, images, labels, 1e-2f, i + 1, 5, &out, diag);
  if (e >= 0) *hash = hash_of(&out, &p);
  mr_train_step_destroy(step);
  mr_params_fini(&p);
  free(images);
  return e;
}

static void step_main(const ranks_t *t, int rank, mr_job_t *job, said_t *said) {
  mr_train_config_t config = mr_train_default(BATCH);
  mr_diag_t diag = {0};
  config.ordered = 8, config.optim.clip_norm = 0.5f;
  if (t->size > 1) {
    config.ranks = t->size, config.rank = rank, config.collect_ops = mr_job_collect(job);
    said->code = config.collect_ops->create(mr_device_default(), "step", rank, t->size, 600,
                                            &config.collect, &diag);
  }
  if (said->code >= 0) said->code = run_steps(config, &said->hash, &diag);
  if (config.collect) config.collect_ops->destroy(config.collect);
  snprintf(said->text, sizeof said->text, "%.300s", diag.text);
}

static void processes_that_share_a_step_reach_the_bits_of_one(void **state) {
  static const int sizes[] = {1, 2, 3, 5};
  uint64_t one = 0;
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    ranks_t t = ranks_of(sizes[i], 600);
    for (int r = 0; r < t.size; r++) start_rank(&t, r, step_main);
    for (int r = 0; r < t.size; r++) {
      said_t said = end_rank(&t, r);
      if (said.code < 0) fail_msg("rank %d of %d: %s", r, t.size, said.text);
      if (!i) one = said.hash;
      if (!one || said.hash != one) fail_msg("rank %d of %d: other bits", r, t.size);
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(processes_that_share_a_step_reach_the_bits_of_one),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
