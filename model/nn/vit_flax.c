/* flax's Vision Transformer, with the parameter names of the recipe.  Layers, order of parameters
   and draws are those of the recipe's code, so that its parameters load here and dropout-free
   results agree; the last block computes token 0 alone after its attention. */
#include <stdio.h>

#include "model/nn/vit_private.h"

typedef struct vit_flax_block {
  const mr_vit_config_t *c;
  int i;
  bool first; /* what is computed after attention is token 0 alone */
} block_t;

static mr_var_t *vit_flax_block(mr_nn_t *s, const void *arg, mr_var_t *x) {
  const block_t *b = arg;
  const mr_vit_config_t *c = b->c;
  int i = b->i;
  char name[40];
  snprintf(name, sizeof name, "encoder_blocks.%d", i);
  size_t mark = mr_nn_enter(s, name);
  mr_var_t *y = mr__vit_norm(s, c, "norm1", x), *from = x;
  y = mr_nn_attention(s, "attn", y, c->heads, b->first);
  x = mr_nn_residual(s, b->first ? mr_nn_first_token(s, x) : x, y);
  y = mr__vit_norm(s, c, "norm2", x);
  x = mr_nn_residual(s, x, mr_nn_mlp(s, y, c->mlp));
  mr_nn_applied_to(s, "EncoderBlock", from, x);
  mr_nn_leave(s, mark);
  return x;
}

mr_var_t *mr__vit_flax_tokens(mr_nn_t *s, const mr_vit_config_t *c, mr_var_t *images,
                              bool first_only) {
  int64_t side = c->image / c->patch, E = c->embed;
  size_t mark = mr_nn_enter(s, "patch_embed");
  mr_var_t *x = mr_nn_patch_embed(s, "conv_proj", images, c->patch, E);
  mr_nn_applied_to(s, "PatchEmbedding", images, x);
  mr_nn_leave(s, mark);
  mr_var_t *cls = mr_nn_param_of(s, "cls_token", ((mr_init_t){MR_INIT_ZEROS, 0}), 1, 1, E);
  mr_var_t *pos =
      mr_nn_param_of(s, "pos_embed", ((mr_init_t){MR_INIT_NORMAL, 1}), 1, side * side + 1, E);
  x = mr_nn_embed(s, x, cls, pos);
  for (int i = 0; i < c->layers; i++)
    x = mr_nn_remat(s, s->remat, vit_flax_block, &(block_t){c, i, first_only && i == c->layers - 1},
                    x);
  return x;
}

mr_var_t *mr__vit_flax_logits(mr_nn_t *s, const mr_vit_config_t *c, mr_var_t *tokens) {
  mr_var_t *x = mr__vit_token(s, c, tokens);
  return mr_nn_linear(s, "head", mr__vit_norm(s, c, "norm", x), c->classes);
}

mr_var_t *mr_vit_flax(mr_nn_t *s, const mr_vit_config_t *c, mr_var_t *images) {
  mr_var_t *logits = mr__vit_flax_logits(s, c, mr__vit_flax_tokens(s, c, images, !s->whole));
  mr_nn_applied_to(s, "VisionTransformer", images, logits);
  return logits;
}
