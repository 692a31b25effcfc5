/* Numbers in the C locale whatever locale the host program has set.  Each function switches its own
   thread to the C locale around one libc call: setlocale would change the host's other threads, and
   parsers or printers of our own would have to repeat libc's exact rounding. */
#include "base/text.h"

#include <locale.h>
#include <stdlib.h>

/* Enters the C locale in this thread and returns the one before; glibc allocates nothing for it. */
static locale_t enter_c_locale(void) {
  locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
  return c ? uselocale(c) : (locale_t)0;
}

static void number_leave(locale_t outer) {
  if (outer) uselocale(outer);
}

double mr_strtod(const char *text, char **end) {
  locale_t outer = enter_c_locale();
  double v = strtod(text, end);
  number_leave(outer);
  return v;
}

int mr_vsnprintf(char *to, size_t n, const char *fmt, va_list ap) {
  locale_t outer = enter_c_locale();
  int len = vsnprintf(to, n, fmt, ap);
  number_leave(outer);
  return len;
}

int mr_snprintf(char *to, size_t n, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  int len = mr_vsnprintf(to, n, fmt, ap);
  va_end(ap);
  return len;
}

static int number_print(FILE *to, const char *fmt, va_list ap) {
  locale_t outer = enter_c_locale();
  int len = vfprintf(to, fmt, ap);
  number_leave(outer);
  return len;
}

int mr_fprintf(FILE *to, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  int len = number_print(to, fmt, ap);
  va_end(ap);
  return len;
}

int mr_printf(const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  int len = number_print(stdout, fmt, ap);
  va_end(ap);
  return len;
}

int mr_sscanf(const char *text, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  locale_t outer = enter_c_locale();
  int n = vsscanf(text, fmt, ap);
  number_leave(outer);
  va_end(ap);
  return n;
}
