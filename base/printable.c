/* Text made safe to show: decodes UTF-8 and escapes each character that a terminal would act on.
   Names of files, classes and peers go through it, since one with an escape sequence could clear
   the screen and one with a newline could pass for a message of its own.  It is no quoting: what it
   writes is for people, and not meant to be read back. */
#include "base/text.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

size_t mr_utf8_character(const char *text, uint32_t *code) {
  const unsigned char *s = (const unsigned char *)text;
  size_t n = *s < 0x80 ? 1 : *s >= 0xC2 && *s < 0xE0 ? 2 : *s >= 0xE0 && *s < 0xF0 ? 3 : 4;
  static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
  uint32_t c = n == 1 ? *s : *s & (0xFFu >> (n + 1));
  bool good = *s < 0x80 || (*s >= 0xC2 && *s <= 0xF4);
  for (size_t i = 1; good && i < n; i++) {
    good = (s[i] & 0xC0) == 0x80; /* false for the terminating 0 */
    c = c << 6 | (s[i] & 0x3F);
  }
  good = good && c >= least[n] && c <= 0x10FFFF && !(c >= 0xD800 && c <= 0xDFFF);
  *code = good ? c : UINT32_MAX;
  return good ? n : 1;
}

static bool is_obeyed(uint32_t c) {
  return c < 0x20 || (c >= 0x7F && c < 0xA0) || (c >= 0x202A && c <= 0x202E) ||
         (c >= 0x2066 && c <= 0x2069) || c == 0x2028 || c == 0x2029 || c == UINT32_MAX;
}

char *mr_printable_cell(const char *text, size_t most, char *to, size_t size) {
  static const char hex[] = "0123456789abcdef";
  size_t at = 0, len;
  uint32_t c;
  for (const unsigned char *s = (const unsigned char *)text; *s && most; s += len, most--) {
    len = 1;
    if (*s >= 0x20 && *s < 0x7F) { /* nearly all of most texts */
      if (at + 1 >= size) break;
      to[at++] = (char)*s;
      continue;
    }
    len = mr_utf8_character((const char *)s, &c);
    bool plain = !is_obeyed(c);
    size_t need = plain ? len : 4 * len;
    if (at + need >= size) break;
    for (size_t i = 0; i < len; i++) {
      if (plain) {
        to[at++] = (char)s[i];
        continue;
      }
      to[at++] = '\\', to[at++] = 'x';
      to[at++] = hex[s[i] >> 4], to[at++] = hex[s[i] & 15];
    }
  }
  to[at] = 0;
  return to;
}

/* A number at least as small as that of the first characters that are plain ASCII, of n: eight at
   once, as a byte below ' ', of 0x7F or above sets its highest bit in one of three sums. */
static size_t plain_at_first(const char *text, size_t n) {
  const uint64_t each = UINT64_C(0x0101010101010101);
  uint64_t x;
  size_t i = 0;
  for (; i + sizeof x <= n; i += sizeof x) {
    memcpy(&x, text + i, sizeof x);
    if ((x | (x - each * ' ') | (x + each)) & each * 0x80) break;
  }
  return i;
}

char *mr_printable(const char *text, char *to, size_t size) {
  size_t n = plain_at_first(text, strnlen(text, size - 1));
  memcpy(to, text, n);
  mr_printable_cell(text + n, SIZE_MAX, to + n, size - n);
  return to;
}
