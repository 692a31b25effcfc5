/* Expands the first brace of a name into its words and each result again, until no brace is left.
   Work is bounded by the number of names, because each brace gives at least one. */
#include "loaders/shards/shard_names.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/xio.h"

enum { DIGITS_MAX = 18, BRACES_MAX = 16 };

/* One name on its way: what precedes the next brace is final. */
typedef struct expansion {
  mr_shard_names_t *out;
  const char *whole; /* the name as given, for sentences */
  mr_diag_t *diag;
} expansion_t;

mr_err_t mr_shard_names_add(mr_shard_names_t *o, const char *name, mr_diag_t *diag) {
  if (o->n == MR_SHARDS_MAX)
    return mr_fail(diag, MR_ERR_CONFIG, "\"%.200s\": more than %d files", name, MR_SHARDS_MAX);
  if (!(o->n & (o->n - 1))) { /* grows at powers of two */
    void *more = realloc(o->at, (size_t)(o->n ? 2 * o->n : 1) * sizeof *o->at);
    if (!more) return mr_no_memory(diag, "the names of files");
    o->at = more;
  }
  o->at[o->n] = strdup(name);
  if (!o->at[o->n]) return mr_no_memory(diag, "the names of files");
  o->n++;
  return MR_OK;
}

static mr_err_t bad_brace(const expansion_t *x) {
  return mr_fail(x->diag, MR_ERR_CONFIG,
                 "\"%.200s\": want a range {000..012}, {0..12..3} or {a..f}, or a list {a,b} "
                 "between braces, at most %d of them",
                 x->whole, BRACES_MAX);
}

static mr_err_t expand_braces(expansion_t *x, const char *name, int depth);

/* Expands head, word and tail joined. */
static mr_err_t expand_with(expansion_t *x, const char *name, size_t head, const char *word,
                            size_t n, const char *tail, int depth) {
  char joined[MR_PATH_MAX];
  int len = snprintf(joined, sizeof joined, "%.*s%.*s%s", (int)head, name, (int)n, word, tail);
  if (len >= (int)sizeof joined)
    return mr_fail(x->diag, MR_ERR_CONFIG, "\"%.200s\": names of %d bytes, want at most %d",
                   x->whole, len, MR_PATH_MAX - 1);
  return expand_braces(x, joined, depth + 1);
}

static bool is_number(const char *s, size_t n) {
  for (size_t i = 0; i < n; i++)
    if (s[i] < '0' || s[i] > '9') return false;
  return n > 0 && n <= DIGITS_MAX;
}

/* A range between braces: two bounds, and perhaps a step behind another "..". */
typedef struct range {
  int64_t first, last, step; /* step >= 1 */
  int width;                 /* of numbers; 0: first and last are letters */
} range_t;

/* Numbers have the width of the longer bound if one of them begins with 0. */
static bool range_bounds(const char *from, size_t a, const char *to, size_t b, range_t *r) {
  bool padded = (a > 1 && from[0] == '0') || (b > 1 && to[0] == '0');
  r->width = padded ? (int)(a > b ? a : b) : 1;
  if (is_number(from, a) && is_number(to, b)) {
    r->first = strtoll(from, NULL, 10), r->last = strtoll(to, NULL, 10);
    return true;
  }
  if (a != 1 || b != 1 || !isalpha((unsigned char)*from) || !isalpha((unsigned char)*to))
    return false;
  r->first = *from, r->last = *to, r->width = 0;
  return !isupper((unsigned char)*from) == !isupper((unsigned char)*to);
}

/* Whether word, which ends at close, is a range. */
static bool range_parse(const char *word, const char *close, range_t *r) {
  const char *dots = strstr(word, ".."), *end = close;
  if (!dots || dots >= close) return false;
  const char *to = dots + 2, *more = strstr(to, "..");
  r->step = 1;
  if (more && more < close) {
    if (!is_number(more + 2, (size_t)(close - more - 2))) return false;
    r->step = strtoll(more + 2, NULL, 10), end = more;
  }
  return r->step > 0 && range_bounds(word, (size_t)(dots - word), to, (size_t)(end - to), r);
}

static mr_err_t expand_range(expansion_t *x, const char *name, size_t head, const range_t *r,
                             const char *close, int depth) {
  char text[32];
  int64_t distance = r->first <= r->last ? r->last - r->first : r->first - r->last;
  if (distance / r->step >= MR_SHARDS_MAX)
    return mr_fail(x->diag, MR_ERR_CONFIG, "\"%.200s\": more than %d files", x->whole,
                   MR_SHARDS_MAX);
  for (int64_t k = 0; k <= distance / r->step; k++) {
    int64_t i = r->first + (r->first <= r->last ? k : -k) * r->step;
    int n = r->width ? snprintf(text, sizeof text, "%0*" PRId64, r->width, i)
                     : snprintf(text, sizeof text, "%c", (char)i);
    MR_TRY(expand_with(x, name, head, text, (size_t)n, close + 1, depth));
  }
  return MR_OK;
}

static mr_err_t expand_braces(expansion_t *x, const char *name, int depth) {
  const char *open = strpbrk(name, "{}");
  if (!open) return mr_shard_names_add(x->out, name, x->diag);
  const char *close = strpbrk(open + 1, "{}");
  if (*open == '}' || !close || *close == '{' || depth >= BRACES_MAX) return bad_brace(x);
  const char *word = open + 1;
  size_t head = (size_t)(open - name);
  range_t r;
  if (range_parse(word, close, &r)) return expand_range(x, name, head, &r, close, depth);
  if (!memchr(word, ',', (size_t)(close - word))) return bad_brace(x);
  for (;;) {
    size_t n = strcspn(word, ",}");
    MR_TRY(expand_with(x, name, head, word, n, close + 1, depth));
    if (word[n] == '}') return MR_OK;
    word += n + 1;
  }
}

mr_err_t mr_shard_names_expand(const char *text, mr_shard_names_t *out, mr_diag_t *diag) {
  char name[MR_PATH_MAX];
  const char *whole = text;
  *out = (mr_shard_names_t){0};
  for (;;) {
    const char *end = strstr(text, "::");
    size_t n = end ? (size_t)(end - text) : strlen(text);
    if (!n)
      return mr_fail(diag, MR_ERR_CONFIG,
                     "\"%.200s\": the name of a file is empty, want names joined by \"::\"", whole);
    if (n >= sizeof name)
      return mr_fail(diag, MR_ERR_CONFIG,
                     "\"%.200s\": the name of a file has %zu bytes, want at most %d", whole, n,
                     MR_PATH_MAX - 1);
    memcpy(name, text, n), name[n] = 0;
    MR_TRY(expand_braces(&(expansion_t){out, name, diag}, name, 0));
    if (!end) return MR_OK;
    text = end + 2;
  }
}

void mr_shard_names_fini(mr_shard_names_t *names) {
  for (int i = 0; i < names->n; i++) free(names->at[i]);
  free(names->at);
  *names = (mr_shard_names_t){0};
}
