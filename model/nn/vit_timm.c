/* timm's Vision Transformer: joined qkv, stochastic depth, PyTorch's layouts and names, so that a
   state_dict of timm loads without conversion.  Only what differs from flax's is written here; both
   use the same layers of nn/. */
#include <stdio.h>

#include "model/nn/vit_private.h"

typedef struct vit_timm_block {
  const mr_vit_config_t *c;
  int i;
  bool first; /* what is computed after attention is token 0 alone */
} block_t;

static mr_var_t *vit_timm_block(mr_nn_t *s, const void *arg, mr_var_t *x) {
  const block_t *b = arg;
  const mr_vit_config_t *c = b->c;
  int i = b->i;
  char name[40];
  snprintf(name, sizeof name, "blocks.%d", i);
  float drop = s->train && c->layers > 1 ? c->drop_path * (float)i / (float)(c->layers - 1) : 0;
  size_t mark = mr_nn_enter(s, name);
  mr_var_t *y = mr__vit_norm(s, c, "norm1", x), *from = x;
  y = mr_nn_attention_timm(s, "attn", y, c->heads, b->first);
  y = mr_nn_drop_path(s, y, drop);
  x = mr_nn_residual(s, b->first ? mr_nn_first_token(s, x) : x, y);
  y = mr__vit_norm(s, c, "norm2", x);
  y = mr_nn_mlp_timm(s, "mlp", y, c->mlp);
  x = mr_nn_residual(s, x, mr_nn_drop_path(s, y, drop));
  mr_nn_applied_to(s, "Block", from, x);
  mr_nn_leave(s, mark);
  return x;
}

mr_var_t *mr__vit_timm_tokens(mr_nn_t *s, const mr_vit_config_t *c, mr_var_t *images,
                              bool first_only) {
  int64_t side = c->image / c->patch, E = c->embed;
  mr_init_t trunc = {MR_INIT_TRUNC_NORMAL, .02f};
  mr_var_t *cls = mr_nn_param_of(s, "cls_token", trunc, 1, 1, E);
  mr_var_t *pos = mr_nn_param_of(s, "pos_embed", trunc, 1, side * side + 1, E);
  size_t mark = mr_nn_enter(s, "patch_embed");
  mr_var_t *x = mr_nn_patch_embed_timm(s, "proj", images, c->patch, E);
  mr_nn_applied_to(s, "PatchEmbed", images, x);
  mr_nn_leave(s, mark);
  x = mr_nn_embed(s, x, cls, pos);
  for (int i = 0; i < c->layers; i++)
    x = mr_nn_remat(s, s->remat, vit_timm_block, &(block_t){c, i, first_only && i == c->layers - 1},
                    x);
  return x;
}

mr_var_t *mr__vit_timm_logits(mr_nn_t *s, const mr_vit_config_t *c, mr_var_t *tokens) {
  mr_var_t *x = mr__vit_norm(s, c, "norm", mr__vit_token(s, c, tokens));
  return mr_nn_linear_timm(s, "head", x, c->classes);
}

mr_var_t *mr_vit_timm(mr_nn_t *s, const mr_vit_config_t *c, mr_var_t *images) {
  mr_var_t *logits = mr__vit_timm_logits(s, c, mr__vit_timm_tokens(s, c, images, !s->whole));
  mr_nn_applied_to(s, "VisionTransformer", images, logits);
  return logits;
}
