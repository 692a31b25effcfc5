/* Weights and indices of a pass in the form that the fast paths for any size need: in blocks of 16
   pixels, taps in pairs, each weight split into a high and a low half so that 16-bit products lose
   nothing.  Made once for each size; the plain path's table stays the reference. */
#include <stdlib.h>

#include "stages/pil_resize.h"

/* Most bytes between the first and the last tap of n neighbouring pixels, in groups of n. */
static int widest_taps(const mr_pil_pass_t *t, int out, int n) {
  int most = 0;
  for (int b = 0; b < (out + 15) / 16; b++)
    for (int at = mr__pil_any_at(b, out), k = 0; k < 16; k += n) {
      int reach = t->first[at + k + n - 1] - t->first[at + k] + 2;
      if (reach > most) most = reach;
    }
  return most;
}

static bool any_alloc(mr_pil_any_t *a) {
  size_t blocks = (size_t)a->blocks, weights = blocks * (size_t)a->pairs * 32;
  a->high = calloc(weights, sizeof *a->high);
  a->low = calloc(weights, sizeof *a->low);
  a->pick = calloc(blocks, 64);
  a->pick_near = calloc(blocks, 32);
  return a->high && a->low && a->pick && a->pick_near;
}

static void any_weights(const mr_pil_pass_t *t, int out, mr_pil_any_t *a) {
  for (int b = 0; b < a->blocks; b++)
    for (int k = 0; k < 16 * 2 * a->pairs; k++) {
      int x = mr__pil_any_at(b, out) + k / 2 % 16, tap = k / 32 * 2 + k % 2;
      int32_t q = tap < t->count[x] ? 4 * t->q[x * t->taps + tap] : 0;
      a->high[b * 32 * a->pairs + k] = (int16_t)(q >> 12);
      a->low[b * 32 * a->pairs + k] = (int16_t)(q & 4095);
    }
}

static void any_places(const mr_pil_pass_t *t, int out, mr_pil_any_t *a) {
  for (int b = 0; b < a->blocks; b++)
    for (int k = 0; k < 32; k++) {
      int at = mr__pil_any_at(b, out), x = at + k / 2;
      a->pick[64 * b + 2 * k] = (uint8_t)(t->first[x] - t->first[at] + k % 2);
      if (a->near)
        a->pick_near[32 * b + k] = (uint8_t)(t->first[x] - t->first[at + k / 16 * 8] + k % 2);
    }
}

bool mr__pil_any_init(mr_pil_pass_t *t, int out) {
  mr_pil_any_t *a = t->any = calloc(1, sizeof *a);
  if (!a) return false;
  for (int x = 0; x < out; x++)
    if (t->count[x] > 2 * a->pairs) a->pairs = (t->count[x] + 1) / 2;
  a->blocks = (out + 15) / 16;
  a->narrow = widest_taps(t, out, 16) <= 64;
  a->near = widest_taps(t, out, 8) <= 16;
  if (!any_alloc(a)) return false;
  any_weights(t, out, a);
  any_places(t, out, a);
  return true;
}

void mr__pil_any_free(mr_pil_any_t *a) {
  if (!a) return;
  free(a->high), free(a->low), free(a->pick), free(a->pick_near);
  free(a);
}
