/* Expands the first brace of a name into its words and each result again, until no brace is left.
   Work is bounded by the number of names, because each brace gives at least one. */
#include "loaders/shard_names.h"

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
                 "\"%.200s\": want a range {000..012} or a list {a,b} between braces, at most %d "
                 "of them",
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

/* Numbers have the width of the longer bound if one of them begins with 0. */
static mr_err_t expand_range(expansion_t *x, const char *name, size_t head, const char *from,
                             const char *dots, const char *close, int depth) {
  char number[32];
  size_t a = (size_t)(dots - from), b = (size_t)(close - dots - 2);
  int64_t first = strtoll(from, NULL, 10), last = strtoll(dots + 2, NULL, 10);
  bool padded = (a > 1 && from[0] == '0') || (b > 1 && dots[2] == '0');
  int width = padded ? (int)(a > b ? a : b) : 1, step = first <= last ? 1 : -1;
  if ((last - first) * step >= MR_SHARDS_MAX)
    return mr_fail(x->diag, MR_ERR_CONFIG, "\"%.200s\": more than %d files", x->whole,
                   MR_SHARDS_MAX);
  for (int64_t i = first;; i += step) {
    int n = snprintf(number, sizeof number, "%0*" PRId64, width, i);
    MR_TRY(expand_with(x, name, head, number, (size_t)n, close + 1, depth));
    if (i == last) return MR_OK;
  }
}

static mr_err_t expand_braces(expansion_t *x, const char *name, int depth) {
  const char *open = strpbrk(name, "{}");
  if (!open) return mr_shard_names_add(x->out, name, x->diag);
  const char *close = strpbrk(open + 1, "{}");
  if (*open == '}' || !close || *close == '{' || depth >= BRACES_MAX) return bad_brace(x);
  const char *word = open + 1, *dots = strstr(word, "..");
  size_t head = (size_t)(open - name);
  if (dots && dots < close && is_number(word, (size_t)(dots - word)) &&
      is_number(dots + 2, (size_t)(close - dots - 2)))
    return expand_range(x, name, head, word, dots, close, depth);
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
