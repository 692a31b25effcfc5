/* A plug-in with a loss: the binary cross-entropy of each class on its own, added up over the
   classes (Wightman et al., "ResNet strikes back", 2021), which allows several right classes.

   cc -O2 -shared -fPIC bce.c $(pkg-config --cflags millrace-plugin) -o bce.so
   millrace train --plugin ./bce.so loss=bce label-smoothing=0.1 */
#include <millrace.h>

/* Of a logit z and its target t: (z + |z|) / 2 - t z + log(1 + e^-|z|), which no z makes infinite
   and whose slope is right at 0 too. */
static mr_var_t *bce_losses(mr_fn_t *f, mr_var_t *logits, mr_var_t *targets) {
  mr_var_t *size = mr_lax_abs(f, logits);
  mr_var_t *tail = mr_lax_log1p(f, mr_lax_exp(f, mr_lax_neg(f, size)));
  mr_var_t *above = mr_lax_scale(f, .5, mr_lax_add(f, logits, size));
  mr_var_t *terms = mr_lax_add(f, mr_lax_sub(f, above, mr_lax_mul(f, targets, logits)), tail);
  return mr_lax_reduce_sum(f, terms, 1, (int[]){1});
}

static const mr_class_loss_def_t bce = {
    .name = "bce",
    .help = "The binary cross-entropy of each class on its own, added up.",
    .losses = bce_losses,
};

static const mr_class_loss_def_t *const losses[] = {&bce, NULL};

const mr_plugin_t mr_plugin = {MR_PLUGIN_BUILT_FOR, .name = "bce", .losses = losses};
