/* A ring of states in one piece of memory.  States are copied by nothing: a run reads one and
   writes the next, so that undoing runs is a matter of counting. */
#include "model/train/train_fp8.h"

#include <stdlib.h>
#include <string.h>

static size_t fp8_ring_scales(const mr__fp8_ring_t *r) {
  return ((size_t)r->n * MR_FP8_TENSORS + 15) / 16 * 16; /* of 64 bytes, as arrays of a run are */
}

static size_t fp8_ring_stride(const mr__fp8_ring_t *r) {
  size_t history = (size_t)r->history * (size_t)r->n * MR_FP8_TENSORS;
  return fp8_ring_scales(r) + (history + 15) / 16 * 16;
}

mr_err_t mr__fp8_ring_init(mr__fp8_ring_t *r, const mr_fn_t *f, int first, mr_diag_t *diag) {
  const mr_aval_t *history = &f->in[first + 1]->aval;
  *r = (mr__fp8_ring_t){.history = (int)history->dim[0], .n = (int)history->dim[1]};
  size_t bytes = (MR_TRAIN_RING + 1) * fp8_ring_stride(r) * sizeof *r->mem;
  r->mem = aligned_alloc(64, bytes);
  if (!r->mem) return mr_no_memory(diag, "the state of fp8");
  memset(r->mem, 0, bytes);
  mr_train_fp8_t s = mr__fp8_ring_at(r, 0);
  for (int i = 0; i < s.n * MR_FP8_TENSORS; i++) s.scale[i] = 1;
  return MR_OK;
}

mr_train_fp8_t mr__fp8_ring_at(const mr__fp8_ring_t *r, int64_t run) {
  mr_train_fp8_t s = {.n = r->n, .history = r->history};
  if (!r->mem) return s;
  s.scale = r->mem + (size_t)(run % (MR_TRAIN_RING + 1)) * fp8_ring_stride(r);
  s.amax = s.scale + fp8_ring_scales(r);
  return s;
}

void mr__fp8_ring_bind(const mr__fp8_ring_t *r, int64_t run, const void **in, void **out) {
  mr_train_fp8_t now = mr__fp8_ring_at(r, run), next = mr__fp8_ring_at(r, run + 1);
  in[0] = now.scale, in[1] = now.amax;
  out[0] = next.scale, out[1] = next.amax;
}

void mr__fp8_ring_fini(mr__fp8_ring_t *r) {
  free(r->mem);
  *r = (mr__fp8_ring_t){0};
}
