/* All results of a small permutation at once.

   The block has 16 bits even for ten records, so that walking one by one takes thousands of steps
   for each.  Here many walks go side by side, a byte of a vector each, from one of MARKS values to
   the next one: where all of these go, the few wanted are found in no time.  A lane whose walk is
   over gets the next. */
#include <assert.h>
#include <string.h>

#include "base/index_shuffle.h"

/* LANES: what every x86-64 and ARM machine has in a register; wider ones gain a third. */
enum { MARKS = MR_SHUFFLE_ALL_MAX, LANES = 16, STEPS = 16 /* before lanes are looked at */ };
_Static_assert(MARKS % 256 == 0, "a value is a mark by its upper byte alone");

typedef uint8_t bytes_t __attribute__((vector_size(LANES)));

typedef union lanes {
  bytes_t v;
  uint8_t lane[LANES];
} lanes_t;

typedef struct walks {
  lanes_t left, right;   /* halves of the values */
  lanes_t fresh, done;   /* 255 or 0: stands at the mark it begins at; has come to one */
  uint16_t begun[LANES]; /* the mark a lane has begun at; MARKS: none is left for it */
  int next, over;
} walks_t;

/* Simon's round function in 8 bits, where rotating by 8 changes nothing; a true comparison is -1.
 */
static inline bytes_t rotl1(bytes_t x) { return x + x - (bytes_t)(x >= 128); }

static inline bytes_t simon_f(bytes_t x) {
  bytes_t once = rotl1(x);
  return (once & x) ^ rotl1(once);
}

static inline bytes_t at_mark(bytes_t left) { return (bytes_t)(left < MARKS / 256); }

static void advance(const mr_index_shuffle_t *s, walks_t *w) {
  bytes_t left = w->left.v, right = w->right.v, done = at_mark(left) & ~w->fresh.v;
  for (int step = 0; step < STEPS; step++) {
    bytes_t l = left, r = right;
    for (int i = 0; i < s->rounds; i += 2) {
      l ^= simon_f(r) ^ (uint8_t)s->key[i];
      r ^= simon_f(l) ^ (uint8_t)s->key[i + 1];
    }
    left = (left & done) | (l & ~done), right = (right & done) | (r & ~done);
    done = at_mark(left);
  }
  w->left.v = left, w->right.v = right, w->done.v = done;
  memset(&w->fresh, 0, sizeof w->fresh);
}

static void begin(walks_t *w, int i) {
  w->begun[i] = (uint16_t)w->next;
  if (w->next == MARKS) return;
  w->left.lane[i] = (uint8_t)(w->next >> 8), w->right.lane[i] = (uint8_t)w->next;
  w->fresh.lane[i] = 255;
  w->next++;
}

static void collect(walks_t *w, uint16_t *goes) {
  for (int i = 0; i < LANES; i++) {
    if (!w->done.lane[i] || w->begun[i] == MARKS) continue;
    goes[w->begun[i]] = (uint16_t)(w->left.lane[i] << 8 | w->right.lane[i]);
    w->over++;
    begin(w, i);
  }
}

void mr_index_shuffle_all(const mr_index_shuffle_t *s, uint16_t *to) {
  uint16_t goes[MARKS];
  walks_t w;
  assert(s->half == 8 && s->max_index < MARKS);
  memset(&w, 0, sizeof w);
  for (int i = 0; i < LANES; i++) begin(&w, i);
  while (w.over < MARKS) {
    advance(s, &w);
    collect(&w, goes);
  }
  for (uint64_t i = 0; i <= s->max_index; i++) {
    uint64_t v = i;
    do v = goes[v];
    while (v > s->max_index);
    to[i] = (uint16_t)v;
  }
}
