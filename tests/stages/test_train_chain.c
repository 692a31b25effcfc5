/* The whole record side of the training graph, against its parts called one by one. */
#include <math.h>

#include "loaders/loaders.h"
#include "loaders/local/image.h"
#include "loaders/orders/sampler.h"
#include "pipeline/graph/graph.h"
#include "pipeline/stage_step.h"
#include "stages/norm.h"
#include "stages/pil_picture.h"
#include "stages/stages.h"
#include "tests/stage.h"

enum { RECORDS = 100, B = 16, BATCHES = 12, IMAGE = 3072 };

/* ---- a sink that keeps everything ---- */

typedef struct kept {
  float pixel[BATCHES][B][IMAGE];
  int32_t label[BATCHES][B];
  uint64_t key[BATCHES][B], draw[BATCHES][B];
  int n;
} kept_t;

static kept_t *kept;

static mr_err_t keep_plan(mr_stage_t *s) { return MR_OK; }

static mr_err_t keep_step(mr_stage_t *s) {
  mr_buf_t *b;
  mr_err_t e = mr_pull(s, 0, &b);
  if (e != MR_OK) return e;
  int k = kept->n++;
  if (k < BATCHES && b->n == B) {
    memcpy(kept->pixel[k], b->data, sizeof kept->pixel[k]);
    memcpy(kept->label[k], b->label, sizeof kept->label[k]);
    memcpy(kept->key[k], b->key, sizeof kept->key[k]);
    memcpy(kept->draw[k], b->draw, sizeof kept->draw[k]);
  }
  mr_buf_unref(b);
  return MR_OK;
}

static const mr_opt_t no_opts[] = {{0}};
static const mr_stage_def_t mr_stage_keep = {
    .name = "keep",
    .help = "Keeps all batches for a test.",
    .in = {{"in", MR_FLOW_BATCHES, false}},
    .opts = no_opts,
    .plan = keep_plan,
    .step = &(const mr_step_def_t){.run = keep_step},
};
static const mr_stage_def_t *const keep_table[] = {&mr_stage_keep, NULL};

/* Runs text and leaves its batches in out. */
static void run_graph(const char *text, kept_t *out) {
  mr_registry_t reg = {0};
  mr_diag_t d = {0};
  mr_registry_add(&reg, mr_loaders_stages);
  mr_registry_add(&reg, mr_stages_stages);
  mr_registry_add(&reg, keep_table);
  mr_graph_t *g = mr_graph_create(&reg);
  assert_non_null(g);
  memset(out, 0, sizeof *out);
  kept = out;
  if (mr_graph_parse(g, text, NULL, 0, &d) < 0 || mr_graph_run(g, &d) < 0) fail_msg("%s", d.text);
  mr_graph_destroy(g);
}

#define TRAIN(workers)                                                                     \
  "synthetic n=100 seed=3 ! shuffle seed=12 epochs=2 ! flip ! resized-crop scale=0.9:1.0 " \
  "ratio=0.9:1.1 ! normalize preset=cifar10 ! batch 16 drop-remainder workers=" workers " ! keep"

/* Record and floats at a position, by plain functions alone. */
static void expect_record(int64_t position, float *pixel, int32_t *label, uint64_t *id) {
  static const double mean[3] = {0.4914, 0.4822, 0.4465}, std[3] = {0.2023, 0.1994, 0.2010};
  mr_sampler_conf_t conf = {.n_records = RECORDS,
                            .n_epochs = 2,
                            .shuffle = true,
                            .seeded = true,
                            .seed = 12,
                            .n_shards = 1};
  mr_sampler_t sampler;
  int64_t record;
  uint64_t key;
  assert_int_equal(mr_sampler_init(&sampler, &conf, NULL), MR_OK);
  mr_sampler_at(&sampler, position, &record, &key);
  uint8_t src[IMAGE], turned[IMAGE], cut[IMAGE], scratch[1024];
  mr_philox_t g;
  mr_philox_init(&g, (uint64_t)3 << 32 | (uint64_t)record, 1);
  *label = (int32_t)mr_philox_integers(&g, 0, 10);
  mr_synthetic_draw(&g, *label, src);
  mr_philox_init(&g, key, 0);
  bool turn = mr_philox_random(&g) < 0.5;
  for (int k = 0; k < IMAGE; k++) turned[k] = src[turn ? k / 32 * 32 + 31 - k % 32 : k];
  mr_box_t b;
  double area, aspect;
  do {
    area = 1024 * mr_philox_uniform(&g, 0.9, 1.0);
    aspect = exp(mr_philox_uniform(&g, log(0.9), log(1.1)));
  } while (!mr_crop_size(32, 32, area, aspect, &b));
  b.i = (int)mr_philox_integers(&g, 0, 33 - b.h), b.j = (int)mr_philox_integers(&g, 0, 33 - b.w);
  mr_pil_t p;
  mr_norm_t norm;
  assert_true(mr_pil_init(&p, 32, 32, false));
  mr_pil_crop(&p, turned, 3, 32, 32, b, cut, scratch);
  mr_pil_fini(&p);
  mr_norm_init(&norm, mean, std, false);
  mr_norm(&norm, cut, 1024, true, MR_F32, pixel);
  *id = (uint64_t)record;
}

static void a_graph_gives_what_its_parts_give(void **state) {
  kept_t *k = malloc(sizeof *k);
  run_graph(TRAIN("1"), k);
  assert_int_equal(k->n, BATCHES); /* 6 whole batches of each epoch's 100 records */
  for (int b = 0; b < BATCHES; b++)
    for (int i = 0; i < B; i++) {
      float pixel[IMAGE];
      int32_t label;
      uint64_t id;
      expect_record(b / 6 * RECORDS + b % 6 * B + i, pixel, &label, &id);
      assert_int_equal(k->label[b][i], label);
      assert_int_equal(k->key[b][i], id);
      if (memcmp(k->pixel[b][i], pixel, sizeof pixel)) fail_msg("batch %d record %d", b, i);
      assert_true(k->draw[b][i] != 0);
    }
  free(k);
}

static void workers_do_not_change_a_byte(void **state) {
  kept_t *one = malloc(sizeof *one), *three = malloc(sizeof *three);
  run_graph(TRAIN("1"), one);
  run_graph(TRAIN("3"), three);
  assert_memory_equal(one, three, sizeof *one);
  free(one), free(three);
}

static void a_swap_of_cifar10_for_synthetic_keeps_the_split(void **state) {
  mr_registry_t reg = {0};
  mr_diag_t d = {0};
  mr_registry_add(&reg, mr_loaders_stages);
  mr_registry_add(&reg, mr_stages_stages);
  mr_registry_add(&reg, keep_table);
  mr_graph_t *g = mr_graph_create(&reg);
  const char *text =
      "cifar10 name=data path=/nonexistent split=valid split-seed=3 ! sequential "
      "! normalize preset=cifar10 ! batch 250 name=b ! keep";
  if (mr_graph_parse(g, text, NULL, 0, &d) < 0) fail_msg("%s", d.text);
  assert_int_equal(mr_graph_swap(g, "cifar10", "synthetic", &d), MR_OK);
  if (mr_graph_settle(g, &d) < 0) fail_msg("%s", d.text);
  assert_int_equal(mr_graph_stage(g, "data")->out_spec[0].n_records, 1000);
  assert_int_equal(mr_graph_stage(g, "b")->out_spec[0].n_batches, 4);
  mr_graph_destroy(g);
}

static void a_missing_folder_stops_the_graph_with_one_sentence(void **state) {
  mr_registry_t reg = {0};
  mr_diag_t d = {0};
  mr_registry_add(&reg, mr_loaders_stages);
  mr_registry_add(&reg, mr_stages_stages);
  mr_registry_add(&reg, keep_table);
  mr_graph_t *g = mr_graph_create(&reg);
  assert_int_equal(
      mr_graph_parse(g, "cifar10 path=/nonexistent ! shuffle ! normalize ! batch 8 ! keep", NULL, 0,
                     &d),
      MR_OK);
  assert_int_equal(mr_graph_run(g, &d), MR_ERR_IO);
  assert_string_equal(
      d.text, "cifar10: path=/nonexistent: the folder cannot be read: No such file or directory");
  mr_graph_destroy(g);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_graph_gives_what_its_parts_give),
      cmocka_unit_test(workers_do_not_change_a_byte),
      cmocka_unit_test(a_swap_of_cifar10_for_synthetic_keeps_the_split),
      cmocka_unit_test(a_missing_folder_stops_the_graph_with_one_sentence),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
