/* The text of device kernels, written from equations in a dialect that OpenCL C and CUDA C++ both
   read.

   A kernel is a loop without its loop: each work-item computes one element, or one partial sum, by
   constants that were written into the text; or a group of items computes a row, or a tile of a
   product.  The runtime of a device puts its own definitions of
   the dialect's macros (listed at mr_kernel_prelude) before it, compiles the text and starts
   `items` work-items.  Every kernel of an equation takes the same arguments in the same order: the
   operands, the results and, if it has scratch, the scratch.

   The formulas are those of the CPU's plain kernels (base/threefry.c, base/erf.c,
   model/ops).

   Implemented in kernels.c (which kernels an equation has) and prelude.c (the functions that all
   texts share). */
#ifndef MR_MODEL_BACKENDS_KERNELS_KERNEL_H
#define MR_MODEL_BACKENDS_KERNELS_KERNEL_H

#include <stdbool.h>

#include "base/decls.h"
#include "base/err.h"
#include "model/ir/fn.h"

MR_BEGIN_DECLS

enum {
  MR_KERNELS_MAX = 8, /* kernels that one equation takes */
  /* Operands and results of a kernel: with the scratch, two arguments of 8 bytes for each are less
     than the 1024 bytes that every OpenCL device takes. */
  MR_KERNEL_ENDS = 62
};

enum { MR_KERNEL_FORM = 64, MR_KERNEL_GROUP = 256 }; /* bytes; items of a group at most */

typedef struct mr_kernel {
  char *text;    /* what follows the dialect's macros and mr_kernel_prelude; the function is `k`,
                    written "KERNEL k(" or, with groups, "KERNEL_OF(n) k(" */
  int64_t items; /* work-items, >= 1 */
  int group; /* 0: items are independent, and more of them do nothing.  Else items come in groups
                of exactly this many, at most MR_KERNEL_GROUP, and exactly `items` of them run */
  size_t shared;             /* bytes of shared arrays where that is more than 32 KiB, else 0 */
  char form[MR_KERNEL_FORM]; /* how the work is divided: "elementwise", "row of 384: 64 items" */
} mr_kernel_t;

typedef struct mr_kernels {
  mr_kernel_t kernel[MR_KERNELS_MAX]; /* run in this order, each after the one before */
  int n;                              /* 0: the equation's results are empty */
  size_t scratch_bytes;               /* of the device's memory, only during the run */
} mr_kernels_t;

/* Writes the kernels of e, whose avals are settled, into the zeroed *out.  align: bytes that the
   addresses of operands and results are multiples of in every run (mr__call_align); from 16 on a
   kernel may read several neighbours at once.  The results are the same to the bit.  MR_OK: the
   caller ends *out with mr_kernels_fini.  MR_ERR_NORULE with a sentence if no kernel computes e's
   op or dtypes, or MR_ERR_NOMEM; *out is then empty.  Pure; any thread. */
mr_err_t mr_kernels_write(const mr_eqn_t *e, size_t align, mr_kernels_t *out, mr_diag_t *diag);
void mr_kernels_fini(mr_kernels_t *k); /* frees the texts; cannot fail, empties *k */

/* Whether mr_kernels_write writes e's op, and it has at most `ends` operands and results: every
   primitive but collectives and ops that run graphs.  What is not taken is opened; most composites
   are.  Not for attention, whose kernel depends on sizes. */
bool mr_kernels_take(const mr_eqn_t *e, int ends);

/* Whether e is an attention or attention_vjp that mr_kernels_write writes, as a kernel that shares
   at most `shared` bytes in a group: bf16 or f16, at most 80 rows, heads of at most 64 in a
   multiple of 8. */
bool mr_kernels_attend(const mr_eqn_t *e, size_t shared);

/* What mr_call_t.how says of the kernels of e: static text, NULL unless e is a product. */
const char *mr_kernels_how(const mr_eqn_t *e);

/* Whether a kernel computes a loop that continues past sums of its n rows of `each` elements: all
   but those of few long rows, whose sums are made in parts.  For mr_target_t.rows. */
bool mr_kernels_rows(int64_t n, int64_t each);

/* Functions that the texts call, in the dialect; static.  The dialect's macros, which the runtime
   defines before it:
   KERNEL: what stands before a kernel's name.  ARG(n): parameter n.  PTR(type, name, n): declares
   the pointer `name` to memory of parameter n.  SPACE: the address space of such memory.  DEVICE:
   what stands before a function.  ITEM: the work-item's number.  Types i32, u32, i64, u64, u8, u16.
   For kernels with groups: KERNEL_OF(n) replaces KERNEL and sets the size of a group
   to n.  GROUP: the group's number; LANE: the item's number in its group.  LOCAL(type, name, n):
   declares, at the beginning of a kernel, an array of n elements that the items of a group share.
   BARRIER: every item of the group waits until all are there, and sees what they wrote to shared
   arrays.  At most 32 KiB are shared in one kernel, unless mr_kernel_t.shared says more.  SHARED:
   the address space of a pointer into such an array.  uint4: four words of 32 bits, x, y, z, w.
   AS_F32(u32), AS_U32(f32): the same bits.  F16_TO_F32(u16), F32_TO_F16(f32): conversions, rounded
   to nearest, ties to even.  HAS_F64: defined if the device computes in f64.

   Tiles of 16 x 16 values of 16 bits lie in shared arrays of words (u32), two values a word, in
   rows `pitch` words apart (tile.h).  tile_a(p, pitch, lane): the tile at p as the left operand of
   a product.  tile_b: as the right one.  tile_a_turned, tile_b_turned: its transpose. tile_mma(c,
   a, b, lane, f16) adds the product of two tiles, of bf16 or f16, to the 8 elements c of f32 that
   the item `lane` of a warp holds (tile_row, tile_col); all items of the warp call it, and what the
   tiles were read from stays as it is until then.  tile_pair(low, high, f16): two values of f32
   rounded to a word.  tile_fill: fills a shared array from the device's memory. WARP_BARRIER:
   BARRIER for the 32 items of a warp, which all items of the group pass.  UNROLL: before a loop
   whose counter numbers registers. The prelude computes these one by one, unless the runtime
   defines them for tensor cores, which MMA_BF16(c, a, b) says, the product m16n8k16 of PTX: then
   also MMA_F16, PAIR_BF16, LDMATRIX and LDMATRIX_TURNED (PTX's ldmatrix.x4, and with .trans),
   WARP_BARRIER and UNROLL. */
const char *mr_kernel_prelude(void);

MR_END_DECLS

#endif
