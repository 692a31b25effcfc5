/* The two halves of each variant, shared by vit.c, vit_flax.c and vit_timm.c. */
#ifndef MR_MODEL_NN_VIT_PRIVATE_H
#define MR_MODEL_NN_VIT_PRIVATE_H

#include "model/nn/vit.h"

/* tokens: images -> the tokens (B,N+1,E) of the last block, or with first_only token 0 alone,
   (B,1,E), which is all that the last block then computes after its attention.  logits: of these
   tokens.  Both as mr_vit_forward_features and mr_vit_forward_head, with s as it is. */
mr_var_t *mr__vit_flax_tokens(mr_nn_t *s, const mr_vit_config_t *c, mr_var_t *images,
                              bool first_only);
mr_var_t *mr__vit_flax_logits(mr_nn_t *s, const mr_vit_config_t *c, mr_var_t *tokens);
mr_var_t *mr__vit_timm_tokens(mr_nn_t *s, const mr_vit_config_t *c, mr_var_t *images,
                              bool first_only);
mr_var_t *mr__vit_timm_logits(mr_nn_t *s, const mr_vit_config_t *c, mr_var_t *tokens);
/* The normalization of c's variant and settings. */
mr_var_t *mr__vit_norm(mr_nn_t *s, const mr_vit_config_t *c, const char *name, mr_var_t *x);
/* Token 0 of tokens (B,T,E), as rows (B,E), in the dtype of tokens.  NULL for NULL and for another
   shape, with the sentence in s->f->diag. */
mr_var_t *mr__vit_token(mr_nn_t *s, const mr_vit_config_t *c, mr_var_t *tokens);

#endif
