/* The kernel of a patch embedding for patches of another size.  Any thread. */
#ifndef MR_STAGES_TRAIN_PATCH_RESIZE_H
#define MR_STAGES_TRAIN_PATCH_RESIZE_H

#include <stdint.h>

#include "base/err.h"

/* Writes to[n][to_side][to_side] from from[n][from_side][from_side]: timm's resample_patch_embed.
   The new kernel gives for a patch that was resized (as mr__pos_embed_resize does) what the old one
   gives for the patch, or where that cannot be, what is nearest to it.  MR_ERR_NOMEM. */
mr_err_t mr__patch_resize(const float *from, int from_side, float *to, int to_side, int64_t n,
                          mr_diag_t *diag);

#endif
