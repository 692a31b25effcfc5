/* The text of a graph that a test writes piece by piece.  Include it after cmocka.h; a test begins
   anew by n_text = 0. */
#ifndef MR_TESTS_GRAPH_TEXT_H
#define MR_TESTS_GRAPH_TEXT_H

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static char *text;
static size_t n_text, text_room;

/* Adds a piece of less than 4096 characters. */
static inline void __attribute__((format(printf, 1, 2))) add_text(const char *fmt, ...) {
  enum { PIECE = 4096 };
  va_list a;
  if (text_room - n_text < PIECE) {
    text_room = 2 * text_room + 2 * PIECE;
    text = realloc(text, text_room);
    assert_non_null(text);
  }
  va_start(a, fmt);
  int n = vsnprintf(text + n_text, text_room - n_text, fmt, a);
  va_end(a);
  assert_true(n >= 0 && n < PIECE);
  n_text += (size_t)n;
}

#endif
