/* Blocks grow with what was taken before, so that few objects take little memory and many take few
   files. */
#include "loaders/remote/remote_pieces.h"

#include <stdlib.h>

enum { BLOCK_LEAST = 64 << 10, BLOCK_MOST = 64 << 20, ALIGN = 16 };

static mr_err_t add_piece_block(mr__pieces_t *r, size_t bytes, mr_diag_t *diag) {
  size_t size = r->n ? 2 * r->block[r->n - 1].bytes : BLOCK_LEAST;
  if (size > BLOCK_MOST) size = BLOCK_MOST;
  if (size < bytes) size = bytes;
  if (r->n == r->cap) {
    size_t cap = 2 * r->cap + 16;
    mr_spill_t *more = realloc(r->block, cap * sizeof *more);
    if (!more) return mr_no_memory(diag, "objects");
    r->block = more, r->cap = cap;
  }
  mr_spill_t block = MR_SPILL_NONE;
  MR_TRY(mr_spill_grow(&block, size, "objects", diag));
  mr_spill_settle(&block);
  r->block[r->n++] = block, r->used = 0;
  return MR_OK;
}

void *mr__pieces_take(mr__pieces_t *r, size_t bytes, mr_diag_t *diag) {
  bytes = (bytes + ALIGN - 1) / ALIGN * ALIGN;
  if ((!r->n || bytes > r->block[r->n - 1].bytes - r->used) && add_piece_block(r, bytes, diag) < 0)
    return NULL;
  void *at = (char *)r->block[r->n - 1].at + r->used;
  r->used += bytes;
  return at;
}

void mr__pieces_free(mr__pieces_t *r) {
  for (size_t i = 0; i < r->n; i++) mr_spill_free(&r->block[i]);
  free(r->block);
  *r = (mr__pieces_t){0};
}
