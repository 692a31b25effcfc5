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

/* Mixes what a run reports and the first sets of its parameters. */
static uint64_t hash_of(const mr_train_out_t *out, const mr_params_t *p, int sets) {
  const float said[] = {out->loss, out->grad_norm, out->param_norm};
  uint64_t h = 1;
  for (size_t i = 0; i < sizeof said; i++) h = mr_hash_mix(h, ((const unsigned char *)said)[i]);
  for (int k = 0; k < sets; k++)
    for (size_t i = 0; i < p->arena_size * mr_dtype_size(p->set[k].dtype); i++)
      h = mr_hash_mix(h, ((const unsigned char *)p->set[k].data)[i]);
  return h;
}

static int zero_of_job; /* before its ranks are forked */
static int zero_of_one; /* a single rank is compared with those of such a job that are not rank 0 */

/* How many sets a rank other than 0 has whole: slots are its share alone from zero=1 on, values
   from 3 on.  What it has of them rank 0's hash is made of. */
static int whole_sets(const mr_train_config_t *t, const mr_params_t *p) {
  int zero = zero_of_one ? zero_of_one : t->rank ? zero_of_job : 0;
  return zero >= 3 ? 0 : zero ? 1 : p->n_sets;
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
  if (e >= 0) e = mr_train_step_whole(step, &p, diag);
  if (e >= 0) *hash = hash_of(&out, &p, whole_sets(&t, &p));
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
    config.ranks = t->size, config.rank = rank, config.zero = zero_of_job;
    config.collect_ops = mr_job_collect(job);
    said->code = config.collect_ops->create(mr_device_default(), "step", rank, t->size, 600,
                                            &config.collect, &diag);
  }
  if (said->code >= 0) said->code = run_steps(config, &said->hash, &diag);
  if (config.collect) config.collect_ops->destroy(config.collect);
  snprintf(said->text, sizeof said->text, "%.300s", diag.text);
}

/* Runs a job; rank 0's hash in *first, those of all others, which must be the same, in *rest. */
static void run_job(int size, uint64_t *first, uint64_t *rest) {
  ranks_t t = ranks_of(size, 600);
  for (int r = 0; r < t.size; r++) start_rank(&t, r, step_main);
  for (int r = 0; r < t.size; r++) {
    said_t said = end_rank(&t, r);
    if (said.code < 0) fail_msg("rank %d of %d: %s", r, t.size, said.text);
    if (r > 1 && said.hash != *rest) fail_msg("rank %d of %d: other bits", r, t.size);
    *(r ? rest : first) = said.hash;
  }
}

static void processes_that_share_a_step_reach_the_bits_of_one(void **state) {
  uint64_t one[MR_ZERO_MOST + 1], first, rest;
  for (zero_of_one = 0; zero_of_one <= MR_ZERO_MOST; zero_of_one++)
    run_job(1, &one[zero_of_one], NULL);
  zero_of_one = 0;
  for (zero_of_job = 0; zero_of_job <= MR_ZERO_MOST; zero_of_job++)
    for (int size = 2; size <= 5; size++) {
      run_job(size, &first, &rest);
      if (first != one[0] || rest != one[zero_of_job])
        fail_msg("%d ranks, zero=%d: other bits", size, zero_of_job);
    }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(processes_that_share_a_step_reach_the_bits_of_one),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
