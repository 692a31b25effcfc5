/* Lines for a terminal: its width, and text wrapped at spaces to fit.  A column is counted for each
   UTF-8 character, by its first byte.  Characters of double width and combining marks are not known
   here; a line with them is a little too long or too short. */
#include "base/text.h"

#include <stdbool.h>
#include <string.h>
#include <sys/ioctl.h>

enum { LEAST = 20 };

int mr_columns(int fd) {
  struct winsize w = {0};
  if (ioctl(fd, TIOCGWINSZ, &w) < 0 || !w.ws_col) return 0;
  return w.ws_col < LEAST ? LEAST : w.ws_col;
}

static bool begins_character(char c) { return ((unsigned char)c & 0xC0) != 0x80; }

size_t mr_fitting(const char *text, int columns) {
  size_t n = 0, at_space = 0;
  for (int used = 0; text[n]; n++) {
    if (text[n] == ' ') at_space = n;
    if (begins_character(text[n]) && ++used > columns) break;
  }
  return text[n] && at_space ? at_space : n;
}

void mr_put_wrapped(FILE *to, const char *text, int columns, int indent) {
  size_t n = columns ? mr_fitting(text, columns) : strlen(text);
  fprintf(to, "%.*s\n", (int)n, text);
  for (text += n; *(text += strspn(text, " ")); text += n) {
    n = mr_fitting(text, columns - indent);
    fprintf(to, "%*s%.*s\n", indent, "", (int)n, text);
  }
}
