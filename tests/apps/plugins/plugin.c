/* The plug-ins of test_plugin.c: one text, compiled once for each word of CASE.  `whole` is as it
   should be, every other one has one fault. */
#include <millrace.h>

#define whole 0
#define wrong_abi 1
#define other_size 2
#define missing_symbol 3
#define stage_clash 4
#define op_clash 5
#define bad_setting 6
#define no_rule 7
#define own_library 8
#define bad_name 9
#define idle_stage 10
#define not_a_plugin 12
#define model_clash 13
#define no_loss 14
#define model_setting 15
#define second 11 /* as `whole`, under another name: its stages clash with those of `whole` */

typedef struct tint {
  int64_t add;
} tint_t;

static mr_err_t tint_plan(mr_stage_t *s) {
  const mr_field_t *data = &s->in_spec[0].field[0];
  if (data->dtype != MR_U8)
    return mr_stage_fail(s, MR_ERR_SHAPE, "want records of u8, got %s", mr_dtype_name(data->dtype));
  s->out_spec[0] = s->in_spec[0];
  s->writes = 1;
  return MR_OK;
}

static mr_err_t tint_map(mr_stage_t *s, const mr_rec_t *in, mr_rec_t *out) {
  const tint_t *t = s->state;
  const uint8_t *from = in->field[0].data;
  uint8_t *to = out->field[0].data;
  for (size_t i = 0, n = mr_field_bytes(&s->in_spec[0].field[0]); i < n; i++)
    to[i] = (uint8_t)(from[i] + t->add);
  return MR_OK;
}

static const mr_map_def_t tint_kind = {.run = tint_map};

static const mr_opt_t tint_opts[] = {
    {.name = "add",
     .type = MR_OPT_INT,
     .offset = CASE == bad_setting ? sizeof(tint_t) : offsetof(tint_t, add),
     .def = "1",
     .lo = 0,
     .hi = 255,
     .help = "What is added to each byte.",
     .positional = 1},
    {0}};

static const mr_stage_def_t tint = {
    .name = CASE == stage_clash ? "flip" : "tint",
    .help = "Adds a number to each byte.",
    .in = {{"in", MR_FLOW_RECORDS, false}},
    .out = {{"out", MR_FLOW_RECORDS, false}},
    .opts = tint_opts,
    .state_sz = sizeof(tint_t),
    .plan = tint_plan,
    .map = CASE == idle_stage ? NULL : &tint_kind,
};

static float twice_f32(float x) { return 2 * x; }
static double twice_f64(double x) { return 2 * x; }

static mr_err_t twice_vjp(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *dout, mr_var_t **din) {
  din[0] = mr_lax_scale(f, 2, dout[0]);
  return mr_rule_done(f);
}

static const mr_op_def_t twice = {
    MR_RULES_POINTWISE,
    .name = CASE == op_clash ? "tanh" : "twice",
    .n_in = 1,
    .n_out = 1,
    .shape = mr_shape_floats,
    .sample = mr_sample_unary,
    .ad = {.jvp = mr_jvp_symmetric, .vjp = CASE == no_rule ? NULL : twice_vjp},
    .reuse = {.of = {1}},
    .amp = {MR_AMP_FOLLOW},
    .cpu = {.f1 = twice_f32, .d1 = twice_f64},
};

/* The same, defined by other ops alone. */
static mr_err_t doubled_open(mr_fn_t *f, const mr_eqn_t *e, mr_var_t **out) {
  out[0] = mr_lax_add(f, e->in[0], e->in[0]);
  return mr_rule_done(f);
}

static const mr_op_def_t doubled = {
    .name = "doubled",
    .n_in = 1,
    .n_out = 1,
    .shape = mr_shape_floats,
    .batch = mr_batch_pointwise,
    .open = doubled_open,
    .kind = MR_OP_CALL,
    .sample = mr_sample_unary,
    .ad = {.jvp = mr_jvp_open, .vjp = mr_vjp_open},
    .shard = {mr_shard_open},
};

/* A model that is listed, and never traced. */
typedef struct flat {
  int64_t width;
} flat_t;

static mr_err_t flat_plan(void *state, mr_model_plan_t *p, mr_diag_t *diag) {
  if (!mr_model_take(p, "image", diag)) return MR_ERR_SHAPE;
  mr_model_reports(p, "mean_error");
  return MR_OK;
}

static mr_err_t flat_loss(const void *state, mr_nn_t *s, mr_var_t *const *field,
                          mr_loss_out_t *out) {
  return mr_fail(&s->f->diag, MR_ERR_UNAVAILABLE, "no test traces this model");
}

static mr_err_t flat_metrics(const void *state, mr_fn_t *f, mr_var_t *const *field,
                             mr_var_t *const *out, mr_loss_report_t *reported) {
  return mr_fail(&f->diag, MR_ERR_UNAVAILABLE, "no test traces this model");
}

static const mr_opt_t flat_opts[] = {{.name = "width",
                                      .type = MR_OPT_INT,
                                      .offset = CASE == model_setting ? 4 : offsetof(flat_t, width),
                                      .def = "1",
                                      .help = "Width of the layer."},
                                     {0}};

static const mr_model_def_t flat = {
    .name = CASE == model_clash ? "vit" : "flat",
    .help = "A linear model.",
    .opts = flat_opts,
    .state_sz = sizeof(flat_t),
    .plan = flat_plan,
    .loss = CASE == no_loss ? NULL : flat_loss,
    .metrics = flat_metrics,
};

#if CASE == missing_symbol
mr_err_t mr_of_a_later_version(void);
mr_err_t later(void);
mr_err_t later(void) { return mr_of_a_later_version(); }
#endif

#if CASE == own_library /* as if it were linked with the library */
const mr_stage_def_t *mr_registry_find(const mr_registry_t *reg, const char *name) { return NULL; }
#endif

static const mr_stage_def_t *const stages[] = {&tint, NULL};
static const mr_op_def_t *const ops[] = {&twice, &doubled, NULL};
static const mr_model_def_t *const models[] = {&flat, NULL};

#if CASE == wrong_abi
#undef MR_PLUGIN_BUILT_FOR
#define MR_PLUGIN_BUILT_FOR \
  MR_PLUGIN_ABI + 1, { 0 }
#elif CASE == other_size
#undef MR_PLUGIN_BUILT_FOR
#define MR_PLUGIN_BUILT_FOR \
  MR_PLUGIN_ABI, { sizeof(mr_stage_def_t) + 8 }
#endif

#if CASE == not_a_plugin
#define mr_plugin of_another_name
extern const mr_plugin_t of_another_name;
#endif

const mr_plugin_t mr_plugin = {
    MR_PLUGIN_BUILT_FOR,
    .name = CASE == bad_name ? "two words" : CASE == second ? "second" : "whole",
    .stages = stages,
    .ops = ops,
    .models = models,
};
