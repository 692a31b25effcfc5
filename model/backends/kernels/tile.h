/* Which item of a warp (32 neighbouring items of a group) holds which element of a tile of 16 x 16,
   and where it reads it, as PTX lays out mma.m16n8k16 and ldmatrix.x4.  The functions are both C,
   for tests, and text in the dialect of kernel.h, from one list. */
#ifndef MR_MODEL_BACKENDS_KERNELS_TILE_H
#define MR_MODEL_BACKENDS_KERNELS_TILE_H

/* tile_row, tile_col: element j of [0,8) that an item holds of a sum; elements 2 i and 2 i + 1 are
   neighbours in one row.
   near_row, near_col, far_row, far_col: the first of the 8 values that an item's address points at
   when a tile is loaded.  Items 0 to 7 point at the rows of the first of four 8 x 8 matrices, the
   next 8 at those of the second, and so on.  "near": the second matrix is the lower left one;
   "far": it is the upper right one. */
#define MR_TILE_INDICES(X)                                                                         \
  X(tile_row, (int lane, int j), lane / 4 + j / 2 % 2 * 8)                                         \
  X(tile_col, (int lane, int j), lane % 4 * 2 + j % 2 + j / 4 * 8)                                 \
  X(near_row, (int lane), lane % 16)                                                               \
  X(near_col, (int lane), lane / 16 * 8)                                                           \
  X(far_row, (int lane), lane % 8 + lane / 16 * 8)                                                 \
  X(far_col, (int lane), lane / 8 % 2 * 8)                                                         \
  /* Words of 32 bits from one row of `n` 16-bit values to the next, n a multiple of 16.  The 4 */ \
  /* words behind a row move the next one to other banks, and are room for a row's sums. */        \
  X(tile_pitch, (int n), n / 2 + 4)

#define MR_TILE_C(name, args, value) \
  static inline int mr__##name args { return value; }
MR_TILE_INDICES(MR_TILE_C)
#undef MR_TILE_C

#define MR_TILE_TEXT(name, args, value) "DEVICE int " #name #args " { return " #value "; }\n"

#endif
