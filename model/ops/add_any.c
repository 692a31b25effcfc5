#include "model/ops/add.h"

#include "model/ops/lax.h"
#include "model/ops/rules.h"

mr_var_t *mr_lax_add_any(mr_fn_t *f, mr_var_t *a, mr_var_t *b) {
  return mr_emit1(f, &mr_op_add_any, 2, (mr_var_t *[]){a, b}, 0, NULL);
}

const mr_op_def_t mr_op_add_any = {
    .at = {.f2 = mr__add_f2, .d2 = mr__add_d2, .i2 = mr__add_i2, .lane = MR_LANE_ADD},
    MR_RULES_PRIMITIVE,
    .jvp = mr__add_jvp,
    .batch = mr_batch_pointwise,
    .sample = mr_sample_binary,
    .name = "add_any",
    .n_in = 2,
    .n_out = 1,
    .shape = mr_shape_pointwise,
    .vjp = mr__add_vjp,
    .amp = MR_AMP_FOLLOW,
    .cpu = mr_cpu_pointwise,
    .unit = mr_unit_pointwise,
    .view = mr_view_each,
    .inplace = {3},
    .mixes = true,
};
