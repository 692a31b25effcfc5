/* The positions of a Vision Transformer for pictures of another size: a grid of embeddings behind
   that of the class token, which stays as it is.  Any thread. */
#ifndef MR_STAGES_TRAIN_POS_EMBED_H
#define MR_STAGES_TRAIN_POS_EMBED_H

#include "base/err.h"
#include "model/ir/aval.h"

/* Whether two shapes (1,1+N,E) differ in N alone and both N are squares; *from and *to get their
   roots, the sides of the grids. */
bool mr__pos_embed_grids(const mr_aval_t *a, const mr_aval_t *b, int *from, int *to);

/* Writes to[1 + to_side^2][width] from from[1 + from_side^2][width]: cubic interpolation, that of
   torch's interpolate(mode="bicubic", antialias=True), which timm resizes its models with.
   MR_ERR_NOMEM. */
mr_err_t mr__pos_embed_resize(const float *from, int from_side, float *to, int to_side, int width,
                              mr_diag_t *diag);

/* Fills w[to][from], zeros before: how much of each place of an axis goes into a place of the new
   one. */
void mr__pos_embed_weights(double *w, int from, int to);

#endif
