/* From an expression of grain's Dataset API, as the golden vectors write it, to the text of a
   graph.

     range(11).shuffle(seed=42).batch(4)[0..6)
     IterDataset.mix([range(11),range(5)].to_iter_dataset(),weights=[1, 2])

   Every stage gets a name and is linked by it, so that any expression has a graph. */
#ifndef MR_TESTS_LOADERS_GRAIN_EXPR_H
#define MR_TESTS_LOADERS_GRAIN_EXPR_H

#include <stdbool.h>

#include "tests/vectors.h"

typedef struct expr {
  const char *at, *whole;
  char text[8192]; /* the graph so far */
  int names;
  int last;   /* name of the stage that gives the stream */
  int epochs; /* of every source */
  bool iter;  /* the stream is an IterDataset */
  bool batched, batched_iter, drop;
  int batch, rebatch, workers;
  bool rebatch_drop;
  int take; /* elements asked for by a final [0..take), 0: all */
} expr_t;

static inline void expr_bad(const expr_t *x) {
  fail_msg("%s: cannot read \"%s\"", x->whole, x->at);
}

__attribute__((format(printf, 2, 3))) static inline void expr_put(expr_t *x, const char *fmt, ...) {
  size_t n = strlen(x->text);
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(x->text + n, sizeof x->text - n, fmt, ap);
  va_end(ap);
}

static inline bool expr_eat(expr_t *x, const char *word) {
  size_t n = strlen(word);
  if (strncmp(x->at, word, n) != 0) return false;
  x->at += n;
  return true;
}

static inline void expr_must(expr_t *x, const char *word) {
  if (!expr_eat(x, word)) expr_bad(x);
}

static inline long long expr_int(expr_t *x) {
  char *end;
  long long v = strtoll(x->at, &end, 10);
  if (end == x->at) expr_bad(x);
  x->at = end;
  return v;
}

/* ", name=" or ",": what stands before a further argument. */
static inline void expr_comma(expr_t *x, const char *name) {
  expr_must(x, ",");
  while (expr_eat(x, " ")) continue;
  expr_eat(x, name);
}

/* A stage after the last one: its words. */
__attribute__((format(printf, 2, 3))) static inline void expr_stage(expr_t *x, const char *fmt,
                                                                    ...) {
  char words[512];
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(words, sizeof words, fmt, ap);
  va_end(ap);
  expr_put(x, "n%d. ! %s name=n%d\n", x->last, words, x->names);
  x->last = x->names++;
}

static inline void expr_dataset(expr_t *x);

static inline void expr_range(expr_t *x) {
  long long a = expr_int(x), b = 0;
  bool two = expr_eat(x, ",");
  if (two) b = expr_int(x);
  expr_must(x, ")");
  expr_put(x, "range %lld", a);
  if (two) expr_put(x, " stop=%lld", b);
  expr_put(x, " epochs=%d name=n%d\n", x->epochs, x->names);
  x->last = x->names++;
  x->iter = false;
}

static inline void expr_to_iter(expr_t *x, bool nones) {
  if (!x->iter && !x->batched) expr_stage(x, "to-iter-dataset%s", nones ? " allow-nones" : "");
  x->iter = true;
}

/* "[A,B,..]" and perhaps ".to_iter_dataset()" for all of them: names into part[]. */
static inline int expr_list(expr_t *x, int *part) {
  int n = 0;
  expr_must(x, "[");
  do {
    expr_dataset(x);
    part[n++] = x->last;
  } while (expr_eat(x, ","));
  expr_must(x, "]");
  if (!expr_eat(x, ".to_iter_dataset()")) return n;
  for (int i = 0; i < n; i++) {
    x->last = part[i], x->iter = false;
    expr_to_iter(x, false);
    part[i] = x->last;
  }
  return n;
}

/* A stage with several inputs. */
static inline void expr_join(expr_t *x, const int *part, int n, const char *words) {
  for (int i = 0; i < n; i++) expr_put(x, "n%d. ! n%d.%c\n", part[i], x->names, 'a' + i);
  expr_put(x, "%s name=n%d\n", words, x->names);
  x->last = x->names++;
}

static inline void expr_mix(expr_t *x) {
  int part[16], n = expr_list(x, part);
  char words[256] = "mix";
  expr_comma(x, "weights=");
  if (!expr_eat(x, "null")) {
    size_t k = strcspn(x->at, "]"), to = strlen(words);
    to += (size_t)snprintf(words + to, sizeof words - to, " weights=");
    for (size_t i = 1; i < k; i++)
      if (x->at[i] != ' ') words[to++] = x->at[i];
    words[to] = 0;
    x->at += k + 1;
  }
  expr_must(x, ")");
  expr_join(x, part, n, words);
}

static inline void expr_window(expr_t *x) {
  expr_dataset(x);
  expr_comma(x, "window_size=");
  long long w = expr_int(x);
  expr_comma(x, "seed=");
  long long seed = expr_int(x);
  expr_must(x, ")");
  expr_stage(x, "window-shuffle %lld seed=%lld", w, seed);
}

static inline void expr_rebatch(expr_t *x) {
  expr_dataset(x);
  expr_comma(x, "batch_size=");
  x->rebatch = (int)expr_int(x);
  expr_comma(x, "drop_remainder=");
  x->rebatch_drop = expr_eat(x, "True");
  if (!x->rebatch_drop) expr_must(x, "False");
  expr_must(x, ")");
}

static inline void expr_base(expr_t *x) {
  int part[16], n;
  if (expr_eat(x, "range(")) {
    expr_range(x);
  } else if (expr_eat(x, "MapDataset.mix(") || expr_eat(x, "IterDataset.mix(")) {
    expr_mix(x);
  } else if (expr_eat(x, "MapDataset.concatenate(")) {
    n = expr_list(x, part);
    expr_must(x, ")");
    expr_join(x, part, n, "concatenate");
  } else if (expr_eat(x, "ZipMapDataset(")) {
    n = expr_list(x, part);
    expr_must(x, ")");
    expr_join(x, part, n, "zip");
  } else if (expr_eat(x, "WindowShuffleMapDataset(") || expr_eat(x, "WindowShuffleIterDataset(")) {
    expr_window(x);
  } else if (expr_eat(x, "RepeatIterDataset(")) {
    expr_dataset(x);
    expr_comma(x, "");
    expr_stage(x, "repeat %lld", expr_int(x));
    expr_must(x, ")");
  } else if (expr_eat(x, "LimitIterDataset(")) {
    expr_dataset(x);
    expr_comma(x, "");
    expr_stage(x, "limit %lld", expr_int(x));
    expr_must(x, ")");
  } else if (expr_eat(x, "RebatchIterDataset(")) {
    expr_rebatch(x);
  } else if (expr_eat(x, "InterleaveIterDataset(")) {
    char words[64];
    n = expr_list(x, part);
    expr_comma(x, "cycle_length=");
    snprintf(words, sizeof words, "interleave %lld", expr_int(x));
    expr_must(x, ")");
    expr_join(x, part, n, words);
  } else {
    expr_bad(x);
  }
}

/* "1000000x+integers(0,1000000)", "x:random_raw:random" or "f". */
static inline void expr_random_map(expr_t *x) {
  char f[128] = "rand mul=1000000 below=1000000", seed[64] = "";
  if (expr_eat(x, "x:random_raw:random")) {
    snprintf(f, sizeof f, "raw-random");
  } else if (!expr_eat(x, "f")) {
    long long mul = expr_int(x);
    expr_must(x, "x+integers(0,");
    snprintf(f, sizeof f, "rand mul=%lld below=%lld", mul, expr_int(x));
    expr_must(x, ")");
  }
  if (expr_eat(x, ",seed=")) snprintf(seed, sizeof seed, " seed=%lld", expr_int(x));
  expr_must(x, ")");
  expr_stage(x, "random-map%s", seed);
  expr_stage(x, "%s", f);
}

static inline void expr_batch(expr_t *x) {
  x->batch = (int)expr_int(x);
  x->batched = true, x->batched_iter = x->iter;
  if (expr_eat(x, ",drop_remainder=")) x->drop = expr_eat(x, "True") || !expr_eat(x, "False");
  expr_must(x, ")");
}

/* After a batch, the workers of mp_prefetch make batches of their own where the batch is that of an
   IterDataset; elsewhere they take whole batches in turn, which is the order without workers. */
static inline void expr_prefetch(expr_t *x) {
  expr_eat(x, "num_workers=");
  int n = (int)expr_int(x);
  expr_must(x, ")");
  if (!x->batched) expr_stage(x, "mp-prefetch %d", n);
  if (x->batched_iter) x->workers = n;
}

static inline void expr_shuffle(expr_t *x) {
  char seed[64] = "";
  if (expr_eat(x, "seed=")) snprintf(seed, sizeof seed, " seed=%lld", expr_int(x));
  expr_must(x, ")");
  expr_stage(x, "shuffle%s", seed);
}

static inline bool expr_method(expr_t *x) {
  if (expr_eat(x, ".shuffle(")) {
    expr_shuffle(x);
  } else if (expr_eat(x, ".repeat(")) {
    long long n = expr_int(x);
    bool reseed = !expr_eat(x, ",reseed_each_epoch=False");
    expr_must(x, ")");
    expr_stage(x, "repeat %lld%s", n, reseed ? "" : " reseed-each-epoch=false");
  } else if (expr_eat(x, ".seed(")) {
    expr_stage(x, "seed %lld", expr_int(x));
    expr_must(x, ")");
  } else if (expr_eat(x, ".filter(x%")) {
    expr_stage(x, "keep-if mod=%lld", expr_int(x));
    expr_must(x, ")");
  } else if (expr_eat(x, ".random_map(")) {
    expr_random_map(x);
  } else if (expr_eat(x, ".to_iter_dataset(")) {
    expr_to_iter(x, expr_eat(x, "allow_nones=True"));
    expr_must(x, ")");
  } else if (expr_eat(x, ".batch(")) {
    expr_batch(x);
  } else if (expr_eat(x, ".mp_prefetch(")) {
    expr_prefetch(x);
  } else if (expr_eat(x, "[0..")) {
    x->take = (int)expr_int(x);
    expr_must(x, ")");
  } else if (*x->at == '[') {
    size_t n = strcspn(x->at, "]");
    expr_stage(x, "slice %.*s", (int)(n - 1), x->at + 1);
    x->at += n + 1;
  } else {
    return false;
  }
  return true;
}

static inline void expr_dataset(expr_t *x) {
  expr_base(x);
  while (expr_method(x)) continue;
}

/* Reads an expression; its graph ends in a batch called "batch", or in "rebatch".  Where elements
   past the first epoch are asked for, all sources go round often enough. */
static inline void expr_read(expr_t *x, const char *text) {
  for (int pass = 0; pass < 2; pass++) {
    int epochs = pass ? x->take + 1 : 1;
    *x = (expr_t){.at = text, .whole = text, .epochs = epochs};
    expr_dataset(x);
    if (*x->at && *x->at != ' ') expr_bad(x);
    if (!x->take) break;
  }
  expr_put(x, "n%d. ! batch %d name=batch", x->last, x->batched ? x->batch : 1);
  if (x->drop) expr_put(x, " drop-remainder");
  if (x->workers) expr_put(x, " order=grain-workers loader-workers=%d", x->workers);
  if (x->rebatch)
    expr_put(x, " ! rebatch %d%s name=rebatch", x->rebatch,
             x->rebatch_drop ? " drop-remainder" : "");
}

#endif
