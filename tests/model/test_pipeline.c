/* Pipelines: tables are sound and wait as long as is known, stages by name and by cost are those
   that are expected, and steps of a pipeline have the bits of one rank. */
// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "model/train/pipeline_plan.h"
#include "tests/model/vit_step.h"

enum { BATCH = 32, PARTS = 8, PIXELS = 8 * 8 * 3, STEPS = 4, MOST_SLOTS = 2 * 8 * 32 };

/* ---- tables ---- */

static const mr_pipeline_kind_t kinds[] = {MR_PIPELINE_1F1B, MR_PIPELINE_GPIPE};

/* Every slot comes after those that it needs, and a rank does one thing at a time. */
static void check_table(mr_pipeline_kind_t kind, int p, int m) {
  mr_pipeline_slot_t slot[MOST_SLOTS];
  int ahead[8][32], back[8][32], busy[8][4 * 64] = {{0}}, n = 2 * p * m, last = 0;
  int end = mr_pipeline_table(kind, p, m, slot);
  memset(ahead, -1, sizeof ahead), memset(back, -1, sizeof back);
  for (int i = 0; i < n; i++) {
    const mr_pipeline_slot_t s = slot[i];
    int *at = s.backward ? &back[s.rank][s.part] : &ahead[s.rank][s.part];
    assert_true(*at < 0 && s.time >= last && s.time < end && !busy[s.rank][s.time]++);
    *at = last = s.time;
    if (!s.backward && s.rank) assert_in_range(ahead[s.rank - 1][s.part], 0, s.time - 1);
    if (s.backward && s.rank + 1 < p) assert_in_range(back[s.rank + 1][s.part], 0, s.time - 1);
    if (s.backward) assert_in_range(ahead[s.rank][s.part], 0, s.time - 1);
    if (s.part)
      assert_true(s.backward ? back[s.rank][s.part - 1] < s.time
                             : ahead[s.rank][s.part - 1] < s.time);
  }
  double bubble = mr_pipeline_bubble(p, n, end), want = (double)(p - 1) / m;
  if (fabs(bubble - want) > 1e-9)
    fail_msg("%d stages, %d parts: a bubble of %g, want %g", p, m, bubble, want);
  for (int r = 0; r < p; r++) {
    int most = kind == MR_PIPELINE_GPIPE || m < p - r ? m : p - r;
    assert_int_equal(mr_pipeline_held(slot, n, r), most);
  }
}

static void tables_are_sound_and_wait_a_stage_less_than_there_are_for_each_part(void **state) {
  for (int k = 0; k < 2; k++)
    for (int p = 1; p <= 8; p++)
      for (int m = 1; m <= 32; m++) check_table(kinds[k], p, m);
}

/* ---- stages ---- */

static vit_t small_vit(mr_dtype_t dtype, int layers) {
  vit_t c = vit_default();
  c.model.image = 8, c.model.embed = 32, c.model.mlp = 64, c.model.heads = 2;
  c.model.layers = layers, c.model.dropout = .3f, c.model.attn_drop = .2f;
  c.how.dtype = dtype, c.how.threads = 2;
  return c;
}

static mr_err_t plan_of(const vit_t *c, int stages, mr_pipeline_kind_t kind, const char *names,
                        mr_pipeline_plan_t *out, mr_diag_t *diag) {
  mr_loss_t l = mr_vit_loss(&c->model);
  const mr_pipeline_want_t want = {stages, kind, names};
  return mr_pipeline_plan(&l, &c->how, BATCH / PARTS, &want, out, diag);
}

static void stages_by_cost_are_even(void **state) {
  vit_t c = small_vit(MR_F32, 6);
  mr_pipeline_plan_t p;
  mr_diag_t diag = {0};
  assert_int_equal(plan_of(&c, 3, MR_PIPELINE_1F1B, NULL, &p, &diag), MR_OK);
  assert_string_equal(p.stage[0].from, "patch_embed");
  assert_string_equal(p.stage[2].to, "head");
  double all = 0, most = 0;
  for (int s = 0; s < 3; s++) {
    all += p.stage[s].flop;
    if (p.stage[s].flop > most) most = p.stage[s].flop;
    if (s < 2) assert_int_equal(p.stage[s].sent, BATCH / PARTS * 5 * 32 * sizeof(float));
  }
  assert_true(most < all / 3 * 1.3);
}

static void stages_by_name_are_those(void **state) {
  vit_t c = small_vit(MR_F32, 6);
  mr_pipeline_plan_t p;
  mr_diag_t diag = {0};
  if (plan_of(&c, 2, MR_PIPELINE_1F1B, "embed, blocks[0:3] |blocks[3:] , head", &p, &diag) < 0)
    fail_msg("%s", diag.text);
  assert_string_equal(p.stage[0].to, "encoder_blocks.2");
  assert_string_equal(p.stage[1].from, "encoder_blocks.3");
  assert_string_equal(p.stage[1].to, "head");
}

#define REST "encoder_blocks[1:2], norm, head"
#define START "patch_embed, cls_token, pos_embed, encoder_blocks[0]"
static void stages_that_cannot_be_are_refused(void **state) {
  vit_t c = small_vit(MR_F32, 2);
  const struct {
    int stages;
    const char *names, *says;
  } row[] = {
      {9, NULL, "9 stages of a model that can be cut between layers into"},
      {2, START " | encoder_block[1], norm, head", "did you mean \"encoder_blocks\""},
      {2, START " | hedd, norm", "did you mean \"head\""},
      {2, START " | norm, head", "encoder_blocks.1, between stages, is in none"},
      {2, START " | encoder_blocks, norm, head", "is in stage 0 and in stage 1"},
      {2, START " | encoder_blocks[1:3], norm, head", "0 <= FROM < TO <= 2"},
      {2, START " | head[0]", "which this is not"},
      {2, START " | encoder_blocks[4294967297], norm, head", "0 <= FROM < TO <= 2"},
      {2, START " | encoder_blocks[2147483647], norm, head", "0 <= FROM < TO <= 2"},
      {2, START " | encoder_blocks[1:4294967298], norm, head", "0 <= FROM < TO <= 2"},
      {2, START " | " REST ", blocks.9", "\"blocks.9\" is no layer"},
      {2, REST " | " START, "want layers in the order of the model"},
      {3, START " | " REST, "2 stages between \"|\", and pipeline = 3"},
      {2, START " | , head", "empty name"},
      {2,
       "patch_embed, cls_token, pos_embed, encoder_blocks.0.norm1, encoder_blocks.0.attn | "
       "encoder_blocks.0.norm2, encoder_blocks.0.linear1, encoder_blocks.0.linear2, " REST,
       NULL},
      {2,
       "patch_embed, cls_token, pos_embed, encoder_blocks.0.norm1, encoder_blocks.0.attn, "
       "encoder_blocks.0.norm2, encoder_blocks.0.linear1 | encoder_blocks.0.linear2, " REST,
       "it is inside a residual"},
  };
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    mr_pipeline_plan_t p;
    mr_diag_t diag = {0};
    mr_err_t e = plan_of(&c, row[i].stages, MR_PIPELINE_1F1B, row[i].names, &p, &diag);
    if (!row[i].says && e < 0) fail_msg("row %zu: %s", i, diag.text);
    if (row[i].says && (e != MR_ERR_CONFIG || !strstr(diag.text, row[i].says)))
      fail_msg("row %zu: %s, want \"%s\"", i, diag.text, row[i].says);
  }
}

/* ---- steps ---- */

typedef struct batch {
  float *images;
  _Alignas(64) int32_t labels[BATCH];
} batch_t;

typedef struct end {
  mr_params_t params;
  mr_train_out_t out[STEPS];
} end_t;

static mr_train_config_t config_of(void) {
  mr_train_config_t t = mr_train_default(BATCH);
  t.ordered = PARTS;
  t.optim.clip_norm = 0.5f;
  return t;
}

/* By `lines` pipelines p, or NULL for one rank.  `bad`, if not 0, is a step whose pictures have a
   NaN. */
static end_t trained(const vit_t *c, mr_train_config_t t, const mr_pipeline_t *p, int lines,
                     int bad) {
  batch_t b = {.images = aligned_alloc(64, BATCH * PIXELS * sizeof(float))};
  end_t r = {0};
  mr_diag_t diag = {0};
  mr_train_step_t *step;
  for (int i = 0; i < BATCH * PIXELS; i++) b.images[i] = (float)(i * 7919 % 1000) / 500 - 1;
  for (int i = 0; i < BATCH; i++) b.labels[i] = i * 7 % 10;
  if (p) t.pipeline = *p, t.ranks = p->stages * lines;
  mr_train_want_sets(&c->how, &t.optim, &r.params);
  if (vit_params(c, 3, &r.params, &diag) < 0 || vit_step(c, t, &step, &diag) < 0)
    fail_msg("%d stages: %s", t.ranks, diag.text);
  for (int i = 0; i < STEPS; i++) {
    float was = b.images[0];
    if (i + 1 == bad) b.images[0] = NAN;
    if (vit_run(step, &r.params, b.images, b.labels, 1e-2f, i + 1, 5, &r.out[i], &diag) < 0)
      fail_msg("%d stages, step %d: %s", t.ranks, i + 1, diag.text);
    b.images[0] = was;
  }
  mr_train_step_destroy(step);
  free(b.images);
  return r;
}

static void assert_same_end(const end_t *a, const end_t *b, int stages) {
  for (int i = 0; i < STEPS; i++) {
    const mr_train_out_t *x = &a->out[i], *y = &b->out[i];
    const float u[] = {x->loss, x->grad_norm, x->param_norm, x->loss_scale, (float)x->metric[0]};
    const float v[] = {y->loss, y->grad_norm, y->param_norm, y->loss_scale, (float)y->metric[0]};
    if (memcmp(u, v, sizeof u) || x->applied != y->applied || x->skipped != y->skipped)
      fail_msg("%d stages, step %d: loss %.9g, norm %.9g, want %.9g and %.9g", stages, i + 1,
               (double)y->loss, (double)y->grad_norm, (double)x->loss, (double)x->grad_norm);
  }
  for (int k = 0; k < a->params.n_sets; k++) {
    const mr_param_set_t *x = &a->params.set[k], *y = &b->params.set[k];
    if (memcmp(x->data, y->data, a->params.arena_size * mr_dtype_size(x->dtype)) != 0)
      fail_msg("%d stages: set %d differs", stages, k);
  }
}

/* Pipelines of `stages`, `lines` of them, by kinds[kind]. */
static void same_as(const end_t *one, const vit_t *c, mr_train_config_t t, int stages, int lines,
                    int kind, int bad) {
  mr_pipeline_plan_t p;
  mr_diag_t diag = {0};
  if (plan_of(c, stages, kinds[kind], NULL, &p, &diag) < 0) fail_msg("%s", diag.text);
  end_t many = trained(c, t, &p.cut, lines, bad);
  assert_same_end(one, &many, stages * lines);
  mr_params_fini(&many.params);
}

static void same_as_one_rank(const vit_t *c, mr_train_config_t t, int most, int bad) {
  end_t one = trained(c, t, NULL, 1, bad);
  for (int stages = 2; stages <= most; stages++)
    for (int k = 0; k < 2; k++) {
      t.zero = k ? 3 : 0; /* no rank has values of another stage */
      same_as(&one, c, t, stages, 1, k, bad);
    }
  mr_params_fini(&one.params);
}

static void any_number_of_stages_reaches_the_bits_of_one_rank(void **state) {
  vit_t c = small_vit(MR_F32, 4);
  same_as_one_rank(&c, config_of(), 5, 0);
}

static void narrow_products_recomputed_blocks_and_a_moving_scale_are_the_same(void **state) {
  vit_t c = small_vit(MR_BF16, 3);
  mr_train_config_t t = config_of();
  c.how.remat = MR_NN_REMAT_FULL;
  t.ordered = 4;
  t.optim.dynamic = mr_loss_scale_usual();
  t.optim.dynamic.start = 1024, t.optim.dynamic.patience = 2, t.optim.dynamic.max_bad = 3;
  t.optim.only_finite = true;
  t.optim.ema = 0.9f;
  same_as_one_rank(&c, t, 3, 2);
}

/* Uneven parts, a part a pipeline, and more ranks of a stage than it has parameters are among
   them. */
static void pipelines_that_share_a_batch_reach_the_bits_of_one_rank(void **state) {
  static const int row[][2] = {{2, 2}, {2, 3}, {3, 2}, {2, 8}, {4, 2}};
  vit_t c = small_vit(MR_F32, 4);
  mr_train_config_t t = config_of();
  end_t one = trained(&c, t, NULL, 1, 0);
  for (size_t i = 0; i < sizeof row / sizeof *row; i++)
    for (t.zero = 0; t.zero <= 3; t.zero += 3)
      same_as(&one, &c, t, row[i][0], row[i][1], (int)i % 2, 0);
  mr_params_fini(&one.params);
}

static void pipelines_that_share_a_batch_skip_the_same_steps_and_have_the_same_scale(void **state) {
  vit_t c = small_vit(MR_BF16, 3);
  mr_train_config_t t = config_of();
  t.ordered = 4;
  t.optim.dynamic = mr_loss_scale_usual();
  t.optim.dynamic.start = 1024, t.optim.dynamic.patience = 2, t.optim.dynamic.max_bad = 3;
  t.optim.only_finite = true;
  t.optim.ema = 0.9f;
  end_t one = trained(&c, t, NULL, 1, 2);
  for (int lines = 2; lines <= 4; lines++) {
    t.zero = lines == 2 ? 0 : 3;
    same_as(&one, &c, t, 2, lines, lines % 2, 2);
  }
  mr_params_fini(&one.params);
}

/* Every parameter is in the share of one rank, which has its stage. */
static void ranks_of_a_stage_share_its_parameters(void **state) {
  vit_t c = small_vit(MR_F32, 4);
  mr_loss_t l = mr_vit_loss(&c.model);
  mr_pipeline_plan_t p;
  mr_params_t list = {0};
  mr_diag_t diag = {0};
  assert_int_equal(plan_of(&c, 3, MR_PIPELINE_1F1B, NULL, &p, &diag), MR_OK);
  assert_int_equal(mr_loss_params_list(&l, &list, &diag), MR_OK);
  for (int lines = 1; lines <= 8; lines++) {
    mr_train_config_t t = config_of();
    int next = 0;
    t.pipeline = p.cut, t.ranks = 3 * lines;
    for (t.rank = 0; t.rank < t.ranks; t.rank++) {
      int from, to, stage = t.rank / lines;
      mr_train_share_of(&t, &list, &from, &to);
      assert_true(from == next && from <= to);
      if (from < to) assert_true(p.cut.first[stage] <= from && to <= p.cut.first[stage + 1]);
      int sets = mr_optim_sets(&t.optim); /* with zero=3 the values are of the share too */
      assert_int_equal(mr_train_step_in_place(&t, &list), list.n + (sets - 1) * (to - from));
      t.zero = 3;
      assert_int_equal(mr_train_step_in_place(&t, &list), sets * (to - from));
      t.zero = 0;
      next = to;
    }
    assert_int_equal(next, list.n);
  }
  mr_params_fini(&list);
}

static void steps_that_do_not_fit_a_pipeline_are_refused(void **state) {
  vit_t c = small_vit(MR_F32, 2);
  mr_pipeline_plan_t p;
  mr_diag_t diag = {0};
  assert_int_equal(plan_of(&c, 2, MR_PIPELINE_1F1B, NULL, &p, &diag), MR_OK);
  const struct {
    int ranks;
    int64_t batch, ordered;
    const char *says;
  } row[] = {{3, BATCH, 8, "2 stages of 3 ranks"},
             {6, BATCH, 2, "3 pipelines of 2 stages share 2 microbatches"},
             {2, 30, 8, "8 microbatches do not divide the batch of 30 records: 6 left over"}};
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    mr_train_config_t t = mr_train_default(row[i].batch);
    diag = (mr_diag_t){0};
    t.ordered = row[i].ordered, t.ranks = row[i].ranks, t.pipeline = p.cut;
    assert_int_equal(mr_train_parts_check(&t, &diag), MR_ERR_CONFIG);
    if (!strstr(diag.text, row[i].says)) fail_msg("%s, want \"%s\"", diag.text, row[i].says);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(tables_are_sound_and_wait_a_stage_less_than_there_are_for_each_part),
      cmocka_unit_test(stages_by_cost_are_even),
      cmocka_unit_test(stages_by_name_are_those),
      cmocka_unit_test(stages_that_cannot_be_are_refused),
      cmocka_unit_test(any_number_of_stages_reaches_the_bits_of_one_rank),
      cmocka_unit_test(narrow_products_recomputed_blocks_and_a_moving_scale_are_the_same),
      cmocka_unit_test(pipelines_that_share_a_batch_reach_the_bits_of_one_rank),
      cmocka_unit_test(pipelines_that_share_a_batch_skip_the_same_steps_and_have_the_same_scale),
      cmocka_unit_test(ranks_of_a_stage_share_its_parameters),
      cmocka_unit_test(steps_that_do_not_fit_a_pipeline_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
