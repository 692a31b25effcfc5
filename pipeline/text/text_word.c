/* The words of graph text: separated by blanks and comments, with quotes as in a shell, and each
   with its line and column.  The parser reads one word ahead and knows of it only its text, whether
   it was quoted, and whether it begins a line or is a "!". */
#include <stdarg.h>
#include <string.h>

#include "pipeline/text/text_private.h"

mr__pos_t mr__text_here(const mr__text_parser_t *p) {
  return (mr__pos_t){p->line, (int)(p->at - p->line_start) + 1};
}

mr_err_t mr__text_wrong(mr__text_parser_t *p, mr_err_t code, mr__pos_t pos, const char *fmt, ...) {
  char text[700], at[32];
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(text, sizeof text, fmt, ap);
  va_end(ap);
  return mr_fail(p->diag, code, "%s%s", mr__pos_text(pos, at, sizeof at), text);
}

static void skip_newline(mr__text_parser_t *p) {
  p->line++, p->line_start = ++p->at, p->fresh_line = true;
}

static void skip_blanks(mr__text_parser_t *p) {
  for (;; p->at++) {
    while (*p->at == '\n') skip_newline(p);
    if (*p->at == '#') p->at += strcspn(p->at, "\n");
    if (*p->at == '\n') {
      skip_newline(p), p->at--;
      continue;
    }
    if (!*p->at || !strchr(" \t\r", *p->at)) return;
  }
}

static bool word_char(char c) { return c && !strchr(" \t\r\n!", c); }

/* Appends the quoted piece that begins at p->at to w, at *n. */
static mr_err_t read_quoted(mr__text_parser_t *p, mr__word_t *w, size_t *n) {
  mr__pos_t open = mr__text_here(p);
  char quote = *p->at++;
  w->quoted = true;
  for (; *p->at && *p->at != quote; p->at++) {
    if (*p->at == '\n')
      return mr__text_wrong(p, MR_ERR_USAGE, open, "the quote %c is not closed", quote);
    if (*p->at == '\\' && quote == '"' && (p->at[1] == '"' || p->at[1] == '\\')) p->at++;
    if (*n + 1 >= MR_WORD_MAX)
      return mr__text_wrong(p, MR_ERR_USAGE, open, "a word has more than %d characters",
                            MR_WORD_MAX - 1);
    w->text[(*n)++] = *p->at;
  }
  if (!*p->at) return mr__text_wrong(p, MR_ERR_USAGE, open, "the quote %c is not closed", quote);
  p->at++;
  return MR_OK;
}

mr_err_t mr__text_word(mr__text_parser_t *p, mr__word_t *w) {
  size_t n = 0;
  w->pos = mr__text_here(p), w->name_n = 0, w->quoted = false;
  while (word_char(*p->at)) {
    if (*p->at == '"' || *p->at == '\'') {
      MR_TRY(read_quoted(p, w, &n));
      continue;
    }
    if (*p->at == '=' && !w->name_n && n && !w->quoted && !memmem(w->text, n, "://", 3))
      w->name_n = n; /* that of a URL's query names no setting */
    if (n + 1 >= MR_WORD_MAX)
      return mr__text_wrong(p, MR_ERR_USAGE, w->pos, "a word has more than %d characters",
                            MR_WORD_MAX - 1);
    w->text[n++] = *p->at++;
  }
  w->text[n] = 0;
  return MR_OK;
}

mr_err_t mr__text_next(mr__text_parser_t *p) {
  mr__word_t *w = &p->word;
  skip_blanks(p);
  w->line_start = p->fresh_line, p->fresh_line = false;
  w->end = !*p->at, w->bang = *p->at == '!';
  w->pos = mr__text_here(p), w->name_n = 0, w->quoted = false, w->text[0] = 0;
  if (w->end) return MR_OK;
  if (w->bang) return p->at++, MR_OK;
  return mr__text_word(p, w);
}

static size_t name_span(const char *s) {
  return strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-");
}

size_t mr__word_reference(const mr__word_t *w) {
  size_t n = name_span(w->text);
  if (w->quoted || w->name_n || !n || w->text[n] != '.') return 0;
  size_t m = name_span(w->text + n + 1);
  return w->text[n + 1 + m] ? 0 : n;
}

size_t mr__word_destination(const mr__word_t *w) {
  size_t n = name_span(w->text), at = n;
  if (w->quoted || w->name_n || !n || w->text[n] != '.') return 0;
  while (w->text[at] == '.') at += 1 + name_span(w->text + at + 1);
  return w->text[at] ? 0 : n;
}

bool mr__word_is(const mr__word_t *w, const char *text) {
  return !w->quoted && !strcmp(w->text, text);
}

bool mr__word_begins_other(const mr__word_t *w) {
  return mr__word_is(w, "}") ||
         (w->line_start &&
          (mr__word_is(w, "let") || mr__word_is(w, "process") || mr__word_is(w, "plugin")));
}
