/* A per-thread cache in front of index_shuffle.h: keys of a few seeds, and whole permutations when
   they are small enough to be cheaper than single results.

   Only threads that ask for a permutation have one: as thread-local memory it would be touched by
   every thread that starts, of which a graph has one a stage. */
#include "loaders/orders/sampler.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/index_shuffle.h"

/* Entries per thread: chains with several shuffles use them in turn. */
enum { KEPT = 4 };

/* The keys of consecutive seeds; of one seed until whole permutations are computed. */
typedef struct kept {
  mr_index_shuffle_t keys[MR_SHUFFLE_TOGETHER];
  bool bijective;
  int calls; /* for the seed, before whole permutations are computed */
  int n_all; /* whole permutations in the union; 0: none */
  bool tiny; /* they are in tiny_all */
  union {
    mr_shuffled_t all[MR_SHUFFLE_TOGETHER];
    mr_shuffled_tiny_t tiny_all[MR_SHUFFLE_TINY_TOGETHER];
  };
} kept_t;

typedef struct permute_cache {
  kept_t kept[KEPT];
  kept_t *last;  /* that gave the last result; NULL: none yet */
  unsigned turn; /* of the entry to replace */
} permute_cache_t;

typedef struct asked {
  uint64_t max_index;
  uint32_t seed;
  bool bijective;
} asked_t;

/* ---- its memory ---- */

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static bool has_key;

static void make_key(void) { has_key = pthread_key_create(&key, free) == 0; }

/* A cache that is freed when the thread ends; NULL without memory for it. */
static permute_cache_t *permute_cache_make(void) {
  pthread_once(&once, make_key);
  permute_cache_t *c = has_key ? calloc(1, sizeof *c) : NULL;
  if (!c || pthread_setspecific(key, c) == 0) return c;
  free(c);
  return NULL;
}

/* ---- entries ---- */

static void init_shuffle(mr_index_shuffle_t *s, uint64_t max_index, uint32_t seed, bool bijective) {
  if (bijective)
    mr_index_shuffle_init_bijective(s, max_index, seed, MR_SHUFFLE_ROUNDS);
  else
    mr_index_shuffle_init(s, max_index, seed, MR_SHUFFLE_ROUNDS);
}

static void take_keys(kept_t *t, int n, const asked_t *a) {
  t->bijective = a->bijective, t->tiny = false, t->n_all = 0, t->calls = 0;
  for (int k = 0; k < n; k++)
    init_shuffle(&t->keys[k], a->max_index, a->seed + (uint32_t)k, a->bijective);
}

static void make_all(kept_t *t, int n) {
  mr_index_shuffle_all(t->keys, n, t->all);
  t->n_all = n;
}

/* Computes the permutations of many seeds if they are tiny; false if not possible here. */
static bool make_tiny(kept_t *t, const asked_t *a) {
  int n = MR_SHUFFLE_TINY_TOGETHER;
  if (a->max_index >= MR_SHUFFLE_TINY_MAX ||
      !mr_index_shuffle_tiny(a->max_index, a->seed, n, t->tiny_all))
    return false;
  take_keys(t, 1, a);
  t->tiny = true, t->n_all = n;
  return true;
}

static uint64_t permuted_index(const kept_t *t, uint32_t at, uint64_t i) {
  return t->tiny ? t->tiny_all[at][i] : t->all[at][i];
}

bool mr_permutes(int64_t n, bool bijective) {
  return bijective || mr_index_shuffle_is_bijection((uint64_t)n - 1);
}

/* How many seeds the wanted one lies after the entry's first; UINT32_MAX for another length. */
static uint32_t seeds_ahead(const kept_t *t, const asked_t *a) {
  const mr_index_shuffle_t *s = t->keys;
  bool same = s->rounds > 0 && s->max_index == a->max_index && t->bijective == a->bijective;
  return same ? a->seed - s->seed : UINT32_MAX;
}

static uint32_t n_seeds(const kept_t *t) { return t->n_all ? (uint32_t)t->n_all : 1; }

/* The entry that has the seed, else the one that ends just before it, else the next to replace. */
static kept_t *permute_choose(permute_cache_t *c, const asked_t *a) {
  kept_t *t = c->kept;
  for (int k = 0; k < KEPT; k++)
    if (seeds_ahead(&t[k], a) < n_seeds(&t[k])) return &t[k];
  for (int k = 0; k < KEPT; k++)
    if (seeds_ahead(&t[k], a) == n_seeds(&t[k])) return &t[k];
  return &t[c->turn++ % KEPT];
}

/* Computes a result that is not cached.  One result of a small permutation costs about as much as
   all of them.  So the second call for a seed computes the whole permutation, and the step to the
   next seed computes those of eight epochs, then, for tiny ones, of thousands. */
static uint64_t permute_find(kept_t *t, uint64_t i, const asked_t *a) {
  bool small = a->max_index < MR_SHUFFLE_ALL_MAX;
  uint32_t at = seeds_ahead(t, a);
  if (t->n_all && at == n_seeds(t)) {
    if (t->n_all > 1 && make_tiny(t, a)) return permuted_index(t, 0, i);
    take_keys(t, MR_SHUFFLE_TOGETHER, a);
    make_all(t, MR_SHUFFLE_TOGETHER);
    return permuted_index(t, 0, i);
  }
  if (at) take_keys(t, 1, a);
  if (!small || !t->calls++) return mr_index_shuffle_at(t->keys, i);
  make_all(t, 1);
  return permuted_index(t, 0, i);
}

static uint64_t permute_without(uint64_t i, const asked_t *a) {
  mr_index_shuffle_t s;
  init_shuffle(&s, a->max_index, a->seed, a->bijective);
  return mr_index_shuffle_at(&s, i);
}

uint64_t mr_permute(uint64_t i, uint64_t max_index, uint32_t seed, bool bijective) {
  static _Thread_local permute_cache_t *cache;
  const asked_t a = {max_index, seed, bijective};
  if (max_index == 0) return 0;
  if (!cache && !(cache = permute_cache_make())) return permute_without(i, &a);
  kept_t *last = cache->last;
  if (!last || seeds_ahead(last, &a) >= n_seeds(last))
    cache->last = last = permute_choose(cache, &a);
  uint32_t at = seeds_ahead(last, &a);
  if (at < (uint32_t)last->n_all) return permuted_index(last, at, i);
  return permute_find(last, i, &a);
}

int mr_permute_from(uint64_t image, uint64_t max_index, uint32_t seed, bool bijective,
                    uint64_t from[2]) {
  mr_index_shuffle_t s;
  init_shuffle(&s, max_index, seed, bijective);
  return mr_index_shuffle_from(&s, image, from);
}
