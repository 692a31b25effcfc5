/* A step cut over a mesh: ranks that have parts of parameters and of the batch reach what one rank
   reaches, close to it, and the same bits each time. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "model/mesh/mesh.h"
#include "model/model.h"
#include "model/train/pipeline_plan.h"
#include "model/zoo/zoo.h"
#include "tests/model/vit_step.h"

enum { MOST = 24, PIXELS = 8 * 8 * 3, STEPS = 5 };

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

static vit_t small_vit(mr_dtype_t dtype) {
  vit_t c = vit_default();
  c.model.image = 8, c.model.embed = 32, c.model.mlp = 64, c.model.heads = 4, c.model.layers = 2;
  c.model.dropout = .3f, c.model.attn_drop = .2f;
  c.how.dtype = dtype, c.how.threads = 2;
  return c;
}

static mr_train_config_t config_of(int64_t batch) {
  mr_train_config_t t = mr_train_default(batch);
  t.optim.clip_norm = 0.5f;
  t.optim.only_finite = true, t.optim.dynamic.max_bad = 3;
  t.table = mr_model_find("vit")->partition;
  return t;
}

/* The end of a run: its parameters and what its steps have reported. */
typedef struct end {
  mr_params_t params;
  mr_train_out_t out[STEPS];
} end_t;

/* Runs STEPS steps on a mesh (NULL: one rank), whose parameters are read in the middle if `look`;
   `bad`, if not 0, is a step whose pictures have a NaN. */
static end_t trained(const vit_t *c, mr_train_config_t t, const char *mesh, bool look, int bad) {
  batch_t b = batch_of();
  end_t r = {0};
  mr_diag_t diag = {0};
  mr_mesh_t m;
  mr_train_step_t *step;
  if (mesh) {
    assert_int_equal(mr_mesh_parse(mesh, 0, &m, &diag), MR_OK);
    t.mesh = &m, t.ranks = mr_mesh_ranks(&m);
  }
  mr_train_want_sets(&c->how, &t.optim, &r.params);
  if (vit_params(c, 3, &r.params, &diag) < 0 || vit_step(c, t, &step, &diag) < 0)
    fail_msg("%s: %s", mesh ? mesh : "one rank", diag.text);
  for (int i = 0; i < STEPS; i++) {
    float was = b.images[PIXELS * (t.batch - 1)];
    if (i + 1 == bad) b.images[PIXELS * (t.batch - 1)] = NAN;
    if (vit_run(step, &r.params, b.images, b.labels, 1e-2f, i + 1, 5, &r.out[i], &diag) < 0)
      fail_msg("%s, step %d: %s", mesh ? mesh : "one rank", i + 1, diag.text);
    b.images[PIXELS * (t.batch - 1)] = was;
    for (int k = 0; mesh && i < 3 && k < r.params.n_sets; k++) /* ranks have parts alone */
      for (size_t e = 0; e < r.params.param[0].size; e++)
        assert_true(mr_params_read(&r.params, &r.params.set[k], 0, e) == 0);
    if (look && i == 1) {
      assert_int_equal(mr_train_step_fetch(step, &r.params, &diag), MR_OK);
      assert_int_equal(mr_train_step_put(step, &r.params, &diag), MR_OK);
    }
  }
  assert_int_equal(mr_train_step_fetch(step, &r.params, &diag), MR_OK);
  mr_train_step_destroy(step);
  free(b.images);
  return r;
}

/* Adam's first updates are +-lr whatever the gradient, so that a gradient of nearly 0 makes a
   difference of lr; few elements have one. */
static void assert_close_end(const end_t *a, const end_t *b, const char *mesh, double loss,
                             double least) {
  for (int i = 0; i < STEPS; i++) {
    const mr_train_out_t *x = &a->out[i], *y = &b->out[i];
    if (!(fabs((double)(x->loss - y->loss)) <= loss * fabs((double)x->loss)) ||
        !(fabs((double)(x->grad_norm - y->grad_norm)) <= 20 * loss * (double)x->grad_norm) ||
        x->counted != y->counted || x->applied != y->applied || x->skipped != y->skipped)
      if (x->applied || y->applied)
        fail_msg("%s, step %d: loss %.9g, norm %.9g, %.9g records, want %.9g, %.9g and %.9g", mesh,
                 i + 1, (double)y->loss, (double)y->grad_norm, y->counted, (double)x->loss,
                 (double)x->grad_norm, x->counted);
  }
  for (int k = 0; k < a->params.n_sets; k++) {
    int64_t n = 0, far = 0;
    double most = 0;
    for (int i = 0; i < a->params.n; i++)
      for (size_t e = 0; e < a->params.param[i].size; e++) {
        double x = (double)mr_params_read(&a->params, &a->params.set[k], i, e);
        double y = (double)mr_params_read(&b->params, &b->params.set[k], i, e);
        double d = fabs(x - y) / (fabs(x) + 1e-2);
        n++, far += !(d <= 1e-2);
        if (!(d <= most)) most = d;
      }
    if ((double)far > (1 - least) * (double)n)
      fail_msg("%s: set %d: %lld of %lld elements are far, the farthest by %g", mesh, k,
               (long long)far, (long long)n, most);
  }
}

static void assert_same_end(const end_t *a, const end_t *b, const char *what) {
  for (int i = 0; i < STEPS; i++)
    if (memcmp(&a->out[i].loss, &b->out[i].loss, sizeof a->out[i].loss))
      fail_msg("%s: step %d: loss %.9g and %.9g", what, i + 1, (double)a->out[i].loss,
               (double)b->out[i].loss);
  for (int k = 0; k < a->params.n_sets; k++)
    if (memcmp(a->params.set[k].data, b->params.set[k].data,
               a->params.arena_size * mr_dtype_size(a->params.set[k].dtype)))
      fail_msg("%s: set %d differs", what, k);
}

static void check_meshes(const char *const *mesh, const vit_t *c, mr_train_config_t t, int bad,
                         double loss, double least) {
  mr_train_config_t alone = t;
  alone.pipeline.stages = 0;
  end_t one = trained(c, alone, NULL, false, bad);
  for (; *mesh; mesh++) {
    end_t many = trained(c, t, *mesh, false, bad), again = trained(c, t, *mesh, true, bad);
    assert_close_end(&one, &many, *mesh, loss, least);
    assert_same_end(&many, &again, *mesh);
    mr_params_fini(&many.params), mr_params_fini(&again.params);
  }
  mr_params_fini(&one.params);
}

static const char *const meshes[] = {"data=1,model=2", "data=2,model=2", "model=4,data=3", NULL};
static const char *const two_meshes[] = {"data=2,model=2", "batch=1,model=4", NULL};

static void ranks_with_columns_and_rows_reach_what_one_rank_reaches(void **state) {
  vit_t c = small_vit(MR_F32);
  check_meshes(meshes, &c, config_of(MOST), 0, 1e-5, .995);
}

static void products_in_bf16_are_close(void **state) {
  vit_t c = small_vit(MR_BF16);
  check_meshes(two_meshes, &c, config_of(MOST), 0, 2e-2, .5);
}

static void a_timm_vit_is_cut_too(void **state) {
  vit_t c = small_vit(MR_F32);
  c.model.variant = MR_VIT_TIMM, c.model.drop_path = .1f;
  check_meshes(two_meshes, &c, config_of(MOST), 0, 1e-5, .995);
}

static void a_step_that_is_not_finite_is_skipped_by_all(void **state) {
  vit_t c = small_vit(MR_F32);
  check_meshes(two_meshes, &c, config_of(MOST), 3, 1e-5, .995);
}

static void every_optimizer_is_cut(void **state) {
  static const char *const name[] = {"lamb", "sgd", "momentum", "adam"};
  vit_t c = small_vit(MR_F32);
  for (size_t i = 0; i < sizeof name / sizeof *name; i++) {
    mr_train_config_t t = config_of(MOST);
    t.optim = mr_optim_of(name[i]);
    t.optim.ema = i % 2 ? 0.5f : 0;
    check_meshes((const char *const[]){"data=2,model=2", NULL}, &c, t, 0, 1e-5, .99);
  }
}

static void slots_are_cut_along_the_batch_too(void **state) {
  vit_t c = small_vit(MR_F32);
  static const char *const name[] = {"adamw", "lamb", "momentum"};
  for (size_t i = 0; i < sizeof name / sizeof *name; i++) {
    mr_train_config_t t = config_of(MOST);
    t.optim = mr_optim_of(name[i]);
    t.optim.ema = i ? 0 : 0.5f;
    t.optim.clip_norm = 0.5f;
    t.zero = 1 + (int)i % 2;
    check_meshes(meshes, &c, t, 0, 1e-5, .99);
  }
}

static void a_bad_step_with_cut_slots_is_skipped_by_all(void **state) {
  vit_t c = small_vit(MR_F32);
  mr_train_config_t t = config_of(MOST);
  t.zero = 1;
  check_meshes(two_meshes, &c, t, 3, 1e-5, .995);
}

/* What ranks keep of slots and values between steps changes no bit on the same mesh, also where a
   step is skipped. */
static void values_are_cut_along_the_batch_with_the_same_bits(void **state) {
  static const struct {
    const char *optimizer, *mesh;
    mr_dtype_t dtype;
    int bad;
  } row[] = {{"adamw", "data=2,model=2", MR_F32, 0},
             {"lamb", "model=4,data=3", MR_F32, 3},
             {"momentum", "data=4,model=2", MR_BF16, 0}};
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    vit_t c = small_vit(row[i].dtype);
    mr_train_config_t t = config_of(MOST);
    t.optim = mr_optim_of(row[i].optimizer);
    t.optim.only_finite = true, t.optim.dynamic.max_bad = 3;
    t.optim.clip_norm = 0.5f, t.optim.ema = i ? 0 : 0.5f;
    end_t none = trained(&c, t, row[i].mesh, false, row[i].bad);
    for (t.zero = 1; t.zero <= MR_ZERO_MOST; t.zero++) {
      end_t cut = trained(&c, t, row[i].mesh, t.zero == 3, row[i].bad);
      char what[96];
      snprintf(what, sizeof what, "%s on %s, zero=%d", row[i].optimizer, row[i].mesh, t.zero);
      assert_same_end(&none, &cut, what);
      mr_params_fini(&cut.params);
    }
    mr_params_fini(&none.params);
  }
}

/* ---- stages whose ranks have parts ---- */

static mr_train_config_t config_of_stages(const vit_t *c, int stages, int64_t parts) {
  mr_train_config_t t = config_of(MOST);
  mr_loss_t l = mr_vit_loss(&c->model);
  mr_pipeline_plan_t plan;
  mr_diag_t diag = {0};
  const mr_pipeline_want_t want = {.stages = stages};
  t.ordered = parts;
  if (mr_pipeline_plan(&l, &c->how, MOST / parts, &want, &plan, &diag) < 0)
    fail_msg("%s", diag.text);
  t.pipeline = plan.cut;
  return t;
}

static const char *const stage_meshes[] = {"data=2,model=2", "data=4,model=2", "model=4,data=2",
                                           NULL};

static void stages_of_columns_and_rows_reach_what_one_rank_reaches(void **state) {
  vit_t c = small_vit(MR_F32);
  mr_train_config_t t = config_of_stages(&c, 2, 4);
  check_meshes(stage_meshes, &c, t, 0, 1e-5, .995);
  t.pipeline.kind = MR_PIPELINE_GPIPE;
  check_meshes(stage_meshes, &c, t, 0, 1e-5, .995);
}

static void stages_in_parts_skip_a_step_that_is_not_finite(void **state) {
  vit_t c = small_vit(MR_F32);
  check_meshes(stage_meshes, &c, config_of_stages(&c, 2, 8), 3, 1e-5, .995);
}

static void every_optimizer_updates_stages_in_parts(void **state) {
  static const char *const name[] = {"lamb", "sgd", "momentum"};
  vit_t c = small_vit(MR_F32);
  for (size_t i = 0; i < sizeof name / sizeof *name; i++) {
    mr_train_config_t t = config_of_stages(&c, 2, 4);
    t.optim = mr_optim_of(name[i]);
    t.optim.ema = i % 2 ? 0 : 0.5f;
    check_meshes((const char *const[]){"data=4,model=2", NULL}, &c, t, 0, 1e-5, .99);
  }
}

/* Values of a share of a stage alone between steps change no bit either. */
static void stages_in_parts_share_their_values_with_the_same_bits(void **state) {
  vit_t c = small_vit(MR_F32);
  mr_train_config_t t = config_of_stages(&c, 2, 4);
  t.optim.ema = 0.5f;
  for (const char *const *mesh = stage_meshes; *mesh; mesh++) {
    t.zero = 0;
    end_t none = trained(&c, t, *mesh, false, 3);
    t.zero = 3;
    end_t shared = trained(&c, t, *mesh, true, 3);
    assert_same_end(&none, &shared, *mesh);
    mr_params_fini(&none.params), mr_params_fini(&shared.params);
  }
}

static void stages_that_do_not_fit_a_mesh_are_refused(void **state) {
  static const struct {
    const char *mesh, *partition, *want;
    int zero;
  } bad[] = {
      {"data=3,model=2", NULL, "of the 3 ranks along axis data of the mesh", 0},
      {"data=1,model=2", NULL, "so data=2 or a multiple", 0},
      {"ranks=2,model=2", NULL, "want another name, such as data", 0},
      {"data=2,model=2", "head.kernel=(data,model)", "head.kernel is cut along data", 0},
      {"data=16,model=2", NULL, "8 pipelines of 2 stages share 4 microbatches", 0},
  };
  vit_t c = small_vit(MR_F32);
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    mr_train_config_t t = config_of_stages(&c, 2, 4);
    mr_diag_t diag = {0};
    mr_mesh_t m;
    mr_train_step_t *step;
    assert_int_equal(mr_mesh_parse(bad[i].mesh, 0, &m, &diag), MR_OK);
    t.mesh = &m, t.ranks = mr_mesh_ranks(&m), t.partition = bad[i].partition;
    t.zero = bad[i].zero;
    assert_true(vit_step(&c, t, &step, &diag) < 0);
    if (!strstr(diag.text, bad[i].want)) fail_msg("%s: want %s", diag.text, bad[i].want);
  }
}

/* ---- what goes over the mesh ---- */

static int count_ops(const mr_fn_t *f, const char *name) {
  int n = 0;
  for (int i = 0; i < f->n_eqn; i++) n += !strcmp(f->eqn[i]->op->name, name);
  return n;
}

static mr_fn_t *step_fn(const vit_t *c, const char *mesh, int zero, mr_params_t *list) {
  mr_loss_t l = mr_vit_loss(&c->model);
  mr_train_config_t t = config_of(MOST);
  mr_diag_t diag = {0};
  mr_mesh_t m;
  mr_fn_t *f = NULL;
  assert_int_equal(mr_mesh_parse(mesh, 0, &m, &diag), MR_OK);
  t.mesh = &m, t.ranks = mr_mesh_ranks(&m), t.compute = c->how;
  t.zero = zero;
  if (mr_train_step_fn(&l, &t, list, &f, &diag) < 0) fail_msg("%s", diag.text);
  return f;
}

static void nothing_is_gathered_in_a_step(void **state) {
  vit_t c = small_vit(MR_F32);
  mr_params_t list = {0};
  mr_fn_t *f = step_fn(&c, "data=2,model=2", 0, &list);
  assert_int_equal(count_ops(f, "all_gather"), 0);
  mr_fn_destroy(f);
  mr_params_fini(&list);
}

/* A rank receives its terms of a gradient and the new values that others have made, instead of the
   whole sum; a slot is a piece of the part that the rank has of its parameter. */
static void gradients_of_cut_slots_are_scattered(void **state) {
  vit_t c = small_vit(MR_F32);
  mr_params_t list = {0};
  mr_train_config_t t = config_of(MOST);
  mr_diag_t diag = {0};
  mr_mesh_t m;
  mr_aval_t part[256], slot[256];
  int further = 0, first;
  mr_fn_t *f = step_fn(&c, "data=2,model=2", 1, &list);
  assert_int_equal(mr_mesh_parse("data=2,model=2", 0, &m, &diag), MR_OK);
  t.mesh = &m, t.ranks = mr_mesh_ranks(&m), t.zero = 1;
  assert_true(list.n <= (int)(sizeof part / sizeof *part));
  assert_int_equal(mr_train_cut_parts(&t, &list, part, NULL, &diag), MR_OK);
  assert_int_equal(mr_train_cut_slots(&t, &list, slot, &diag), MR_OK);
  first = f->n_in - (mr_optim_sets(&t.optim) - 1) * list.n;
  for (int i = 0; i < list.n; i++) {
    int64_t whole = mr_aval_elems(&part[i]), piece = mr_aval_elems(&slot[i]);
    assert_true(mr_aval_equal(&f->in[first - list.n + i]->aval, &part[i]));
    assert_true(mr_aval_equal(&f->in[first + i]->aval, &slot[i]));
    assert_true(piece == whole || 2 * piece == whole);
    further += piece != whole;
  }
  assert_int_equal(further, list.n - c.model.layers); /* but for a bias of columns in each block */
  assert_int_equal(count_ops(f, "reduce_scatter"), further);
  assert_int_equal(count_ops(f, "all_gather"), further);
  mr_fn_destroy(f);
  mr_params_fini(&list);
}

/* A value comes before each pass that reads it, in the dtype in which it is read, and nothing of it
   is kept in between. */
static void cut_values_come_before_each_pass(void **state) {
  vit_t c = small_vit(MR_BF16);
  mr_params_t list = {0};
  mr_train_config_t t = config_of(MOST);
  mr_diag_t diag = {0};
  mr_mesh_t m;
  mr_aval_t part[256], slot[256];
  int further = 0, narrow = 0, wide = 0;
  mr_fn_t *f = step_fn(&c, "data=2,model=2", 3, &list);
  assert_int_equal(mr_mesh_parse("data=2,model=2", 0, &m, &diag), MR_OK);
  t.mesh = &m, t.ranks = mr_mesh_ranks(&m), t.zero = 3;
  assert_int_equal(mr_train_cut_parts(&t, &list, part, NULL, &diag), MR_OK);
  assert_int_equal(mr_train_cut_slots(&t, &list, slot, &diag), MR_OK);
  int first = f->n_in - mr_optim_sets(&t.optim) * list.n;
  for (int i = 0; i < list.n; i++) {
    assert_true(mr_aval_equal(&part[i], &slot[i]));
    assert_true(mr_aval_equal(&f->in[first + i]->aval, &part[i]));
    assert_true(
        mr_aval_equal(&f->out[f->n_out - mr_optim_sets(&t.optim) * list.n + i]->aval, &part[i]));
    further += mr_aval_elems(&part[i]) < mr_aval_elems(&list.param[i].aval);
  }
  for (int i = 0; i < f->n_eqn; i++) {
    const mr_eqn_t *e = f->eqn[i];
    if (strcmp(e->op->name, "all_gather")) continue;
    narrow += e->in[0]->aval.dtype == MR_BF16, wide += e->in[0]->aval.dtype == MR_F32;
  }
  /* The backward pass reads scales, and kernels but the first, once more; kernels come in bf16.  A
     bias of columns in each block cannot be cut further. */
  int blocks = c.model.layers, kernels = 2 + 6 * blocks, scales = 2 * blocks + 1;
  assert_int_equal(further, list.n);
  assert_true(narrow >= 2 * kernels - 1);
  assert_int_equal(narrow + wide, list.n - blocks + kernels - 1 + scales);
  mr_fn_destroy(f);
  mr_params_fini(&list);
}

/* ---- bad input ---- */

static void a_mesh_that_does_not_fit_is_refused_with_the_numbers(void **state) {
  static const struct {
    const char *mesh, *partition;
    int batch, heads;
    const char *want;
  } bad[] = {
      {"data=2,model=3", NULL, MOST, 4, "does not divide among the 3 ranks of model"},
      {"data=5,model=2", NULL, MOST, 4,
       "24 records does not divide among the 5 ranks of axis data"},
      {"data=2,model=2", "*.linear1.kernel=(None,modl)", MOST, 4, "did you mean \"model\"?"},
      {"data=2,model=2", "*.linear1.kernel=(model)", MOST, 4,
       "1 entry for an array of 2 dimensions"},
      {"data=2,model=2", "*.linear9.kernel=(None,model)", MOST, 4, "did you mean \"*.linear"},
      {"data=2,tensor=2", NULL, MOST, 4, "has no axis \"model\""},
      {"data=2,model=2", "*=P()", MOST, 4, "axis model of the mesh has 2 ranks and cuts no"},
      {"data=2,model=2", "head.bias=[B,P(sum)]", MOST, 4, "does not lie as terms of a sum"},
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    vit_t c = small_vit(MR_F32);
    c.model.heads = bad[i].heads;
    mr_train_config_t t = config_of(bad[i].batch);
    mr_diag_t diag = {0};
    mr_mesh_t m;
    mr_train_step_t *step;
    assert_int_equal(mr_mesh_parse(bad[i].mesh, 0, &m, &diag), MR_OK);
    t.mesh = &m, t.ranks = mr_mesh_ranks(&m), t.partition = bad[i].partition;
    assert_true(vit_step(&c, t, &step, &diag) < 0);
    if (!strstr(diag.text, bad[i].want)) fail_msg("%s: want %s", diag.text, bad[i].want);
  }
}

/* A rank's plan lists its parts, and takes what the step of one takes. */
static void assert_plan_has_parts(int stages, int zero) {
  vit_t c = small_vit(MR_F32);
  mr_train_config_t t = stages ? config_of_stages(&c, stages, 4) : config_of(MOST);
  mr_loss_t l = mr_vit_loss(&c.model);
  mr_params_t list = {0}, whole = {0};
  mr_diag_t diag = {0};
  mr_mesh_t m;
  mr_exec_t *x = NULL;
  mr_train_step_t *step;
  mr_aval_t part[256];
  assert_int_equal(mr_mesh_parse("data=2,model=2", 0, &m, &diag), MR_OK);
  t.mesh = &m, t.ranks = mr_mesh_ranks(&m), t.compute = c.how, t.zero = zero;
  if (mr_train_step_plan_rank(&l, &t, &list, &x, &diag) < 0 || vit_step(&c, t, &step, &diag) < 0 ||
      vit_params(&c, 3, &whole, &diag) < 0)
    fail_msg("%s", diag.text);
  assert_int_equal(mr_exec_peak_bytes(x), mr_exec_peak_bytes(mr_train_step_exec(step)));
  assert_true(whole.n == list.n && whole.n < (int)(sizeof part / sizeof *part));
  assert_int_equal(mr_train_cut_parts(&t, &whole, part, NULL, &diag), MR_OK);
  for (int i = 0; i < list.n; i++) assert_int_equal(list.param[i].size, mr_aval_elems(&part[i]));
  assert_true(list.arena_size < whole.arena_size);
  mr_train_step_destroy(step);
  mr_exec_destroy(x);
  mr_params_fini(&list);
  mr_params_fini(&whole);
}

static void a_plan_of_a_rank_has_its_parts(void **state) {
  assert_plan_has_parts(0, 0);
  assert_plan_has_parts(0, 3);
  assert_plan_has_parts(2, 0);
  assert_plan_has_parts(2, 3);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(ranks_with_columns_and_rows_reach_what_one_rank_reaches),
      cmocka_unit_test(products_in_bf16_are_close),
      cmocka_unit_test(a_timm_vit_is_cut_too),
      cmocka_unit_test(a_step_that_is_not_finite_is_skipped_by_all),
      cmocka_unit_test(every_optimizer_is_cut),
      cmocka_unit_test(slots_are_cut_along_the_batch_too),
      cmocka_unit_test(a_bad_step_with_cut_slots_is_skipped_by_all),
      cmocka_unit_test(values_are_cut_along_the_batch_with_the_same_bits),
      cmocka_unit_test(stages_of_columns_and_rows_reach_what_one_rank_reaches),
      cmocka_unit_test(stages_in_parts_skip_a_step_that_is_not_finite),
      cmocka_unit_test(every_optimizer_updates_stages_in_parts),
      cmocka_unit_test(stages_in_parts_share_their_values_with_the_same_bits),
      cmocka_unit_test(stages_that_do_not_fit_a_mesh_are_refused),
      cmocka_unit_test(nothing_is_gathered_in_a_step),
      cmocka_unit_test(gradients_of_cut_slots_are_scattered),
      cmocka_unit_test(cut_values_come_before_each_pass),
      cmocka_unit_test(a_plan_of_a_rank_has_its_parts),
      cmocka_unit_test(a_mesh_that_does_not_fit_is_refused_with_the_numbers),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
