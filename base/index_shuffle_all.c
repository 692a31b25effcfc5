/* All results of a small permutation at once.

   The block has 16 bits even for ten records, so that walking one by one takes thousands of steps
   for each.  Here many walks go side by side, a byte of a vector each, from one of MARKS values to
   the next one: where all of these go, the few wanted are found in no time.  A lane whose walk is
   over gets the next. */
#include <assert.h>
#include <string.h>

#include "base/index_shuffle_private.h"

/* WIDTH: what every x86-64 and ARM machine has in a register.  A step is a long row of operations,
   each of which waits for the one before: several registers go through it together. */
enum { MARKS = MR__MARKS, WIDTH = 16, VECTORS = 3, LANES = WIDTH * VECTORS };
enum { STEPS = 16 /* before lanes are looked at */ };

typedef uint8_t bytes_t __attribute__((vector_size(WIDTH)));

typedef union lanes {
  bytes_t v[VECTORS];
  uint8_t lane[LANES];
  uint64_t eight[LANES / 8];
} lanes_t;

typedef struct walks {
  lanes_t left, right;   /* halves of the values */
  lanes_t fresh, done;   /* 255 or 0: stands at the mark it begins at; has come to one */
  uint16_t begun[LANES]; /* the mark a lane has begun at; MARKS: none is left for it */
  int next, over;
} walks_t;

/* Simon's round function in 8 bits, where rotating by 8 changes nothing; true compares as -1. */
static inline bytes_t rotl1(bytes_t x) { return x + x - (bytes_t)(x >= 128); }

static inline bytes_t simon_f(bytes_t x) {
  bytes_t once = rotl1(x);
  return (once & x) ^ rotl1(once);
}

static inline bytes_t at_mark(bytes_t left) { return (bytes_t)(left < MARKS / 256); }

/* Inlined, so that the usual number of rounds is a constant. */
static inline __attribute__((always_inline)) void advance(const mr_index_shuffle_t *s, walks_t *w,
                                                          int rounds) {
  bytes_t left[VECTORS], right[VECTORS], done[VECTORS], key[MR_SHUFFLE_ROUNDS_MAX];
  for (int i = 0; i < rounds; i++) key[i] = (bytes_t){0} + (uint8_t)s->key[i];
  for (int k = 0; k < VECTORS; k++) {
    left[k] = w->left.v[k], right[k] = w->right.v[k];
    done[k] = at_mark(left[k]) & ~w->fresh.v[k];
  }
  for (int step = 0; step < STEPS; step++)
    for (int k = 0; k < VECTORS; k++) {
      bytes_t l = left[k], r = right[k];
      for (int i = 0; i < rounds; i += 2) {
        l ^= simon_f(r) ^ key[i];
        r ^= simon_f(l) ^ key[i + 1];
      }
      left[k] = (left[k] & done[k]) | (l & ~done[k]);
      right[k] = (right[k] & done[k]) | (r & ~done[k]);
      done[k] = at_mark(left[k]);
    }
  for (int k = 0; k < VECTORS; k++)
    w->left.v[k] = left[k], w->right.v[k] = right[k], w->done.v[k] = done[k];
  memset(&w->fresh, 0, sizeof w->fresh);
}

static void begin(walks_t *w, int i) {
  w->begun[i] = (uint16_t)w->next;
  if (w->next == MARKS) return;
  w->left.lane[i] = (uint8_t)(w->next >> 8), w->right.lane[i] = (uint8_t)w->next;
  w->fresh.lane[i] = 255;
  w->next++;
}

/* About one lane in five is done.  Of a done lane each bit is set: the lowest is kept, and the
   first lane is the lowest byte (x86-64 and ARM are little-endian). */
static void collect(walks_t *w, uint16_t *goes) {
  for (int g = 0; g < LANES / 8; g++)
    for (uint64_t m = w->done.eight[g] & UINT64_C(0x0101010101010101); m; m &= m - 1) {
      int i = 8 * g + __builtin_ctzll(m) / 8;
      if (w->begun[i] == MARKS) continue;
      goes[w->begun[i]] = (uint16_t)(w->left.lane[i] << 8 | w->right.lane[i]);
      w->over++;
      begin(w, i);
    }
}

static void walk_between_marks(const mr_index_shuffle_t *s, uint16_t *goes) {
  walks_t w;
  memset(&w, 0, sizeof w);
  for (int i = 0; i < LANES; i++) begin(&w, i);
  while (w.over < MARKS) {
    if (s->rounds == MR_SHUFFLE_ROUNDS)
      advance(s, &w, MR_SHUFFLE_ROUNDS);
    else
      advance(s, &w, s->rounds);
    collect(&w, goes);
  }
}

static void walk_to_results(uint64_t max_index, const uint16_t *goes, uint16_t *to) {
  for (uint64_t i = 0; i <= max_index; i++) {
    uint64_t v = i;
    do v = goes[v];
    while (v > max_index);
    to[i] = (uint16_t)v;
  }
}

void mr_index_shuffle_all(const mr_index_shuffle_t *s, int n, mr_shuffled_t *to) {
  mr__goes_t goes[MR_SHUFFLE_TOGETHER];
  assert(n >= 1 && n <= MR_SHUFFLE_TOGETHER);
  for (int i = 0; i < n; i++) assert(s[i].half == 8 && s[i].max_index < MARKS);
  if (s->rounds == MR_SHUFFLE_ROUNDS && mr__index_shuffle_has_wide())
    mr__index_shuffle_wide(s, n, goes);
  else
    for (int i = 0; i < n; i++) walk_between_marks(&s[i], goes[i]);
  for (int i = 0; i < n; i++) walk_to_results(s[i].max_index, goes[i], to[i]);
}
