/* Suggestions for misspelt words and for paths that cannot be opened.  A word is near if few
   letters are missing, added, changed or swapped for its length; a path is explained by what is
   there instead: a folder, or a packed file. */
#include "base/suggest.h"
#include "base/file_kind.h"

#include <ctype.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { WORD_MAX = 63 };

static size_t least_of_three(size_t a, size_t b, size_t c) {
  size_t m = a < b ? a : b;
  return m < c ? m : c;
}

/* Optimal string alignment over three rolling rows. */
size_t mr_edit_distance(const char *a, const char *b) {
  size_t na = strlen(a), nb = strlen(b);
  if (na > WORD_MAX || nb > WORD_MAX) return na > nb ? na : nb;
  uint8_t row[3][WORD_MAX + 1];
  for (size_t j = 0; j <= nb; j++) row[0][j] = (uint8_t)j;
  for (size_t i = 1; i <= na; i++) {
    uint8_t *now = row[i % 3], *before = row[(i + 2) % 3], *older = row[(i + 1) % 3];
    now[0] = (uint8_t)i;
    for (size_t j = 1; j <= nb; j++) {
      size_t d =
          least_of_three(before[j] + 1u, now[j - 1] + 1u, before[j - 1] + (a[i - 1] != b[j - 1]));
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && older[j - 2] + 1u < d)
        d = older[j - 2] + 1u;
      now[j] = (uint8_t)d;
    }
  }
  return row[na % 3][nb];
}

/* Copies word in lower case with '-' for '_', cut where it is too long for mr_edit_distance. */
static const char *suggest_fold(const char *word, char *out) {
  size_t n = 0;
  for (; word[n] && n <= WORD_MAX; n++)
    out[n] = word[n] == '_' ? '-' : (char)tolower((unsigned char)word[n]);
  out[n] = 0;
  return out;
}

void mr_suggest_offer(mr_suggest_t *s, const char *candidate) {
  char word[WORD_MAX + 2], other[WORD_MAX + 2];
  size_t d = mr_edit_distance(suggest_fold(s->word, word), suggest_fold(candidate, other)),
         most = strlen(candidate) / 3;
  if (d > (most ? most : 1) || d >= strlen(candidate)) return;
  if (!s->best || d < s->distance) s->best = candidate, s->distance = d;
}

const char *mr_suggest_text(const mr_suggest_t *s, char *text, size_t n) {
  if (!n) return text;
  text[0] = 0;
  if (s->best) snprintf(text, n, "; did you mean \"%s\"?", s->best);
  return text;
}

const char *mr_path_hint(const char *path, char *text, size_t n) {
  static const char *const packed[] = {".gz", ".tar.gz", ".tgz", ".zip", ".xz", ".zst", ".bz2"};
  char other[4096];
  struct stat st;
  if (!n) return text;
  text[0] = 0;
  if (path[0] == '~') {
    snprintf(text, n, "; \"~\" is not expanded here: write the whole path");
    return text;
  }
  if (strstr(path, "://")) {
    snprintf(text, n, "; URLs begin with http://, https://, s3:// or file://");
    return text;
  }
  if (stat(path, &st) == 0) {
    size_t len = strlen(path);
    for (size_t i = 0; S_ISREG(st.st_mode) && i < sizeof packed / sizeof *packed; i++)
      if (len > strlen(packed[i]) && !strcmp(path + len - strlen(packed[i]), packed[i])) {
        snprintf(text, n, "; it is packed: unpack it first");
        return text;
      }
    if (S_ISDIR(st.st_mode)) snprintf(text, n, "; it is a folder");
    if (S_ISREG(st.st_mode) && !*mr_file_hint(path, text, n)) snprintf(text, n, "; it is a file");
    return text;
  }
  for (size_t i = 0; i < sizeof packed / sizeof *packed; i++) {
    if (snprintf(other, sizeof other, "%s%s", path, packed[i]) >= (int)sizeof other) continue;
    if (stat(other, &st) == 0) {
      snprintf(text, n, "; %s%s is there: unpack it first", path, packed[i]);
      return text;
    }
  }
  if (strpbrk(path, "*?[")) snprintf(text, n, "; names hold no patterns, but ranges {000..012}");
  return text;
}
