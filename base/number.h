/* Numbers as text, with a decimal point whatever locale the host program has set, so that settings
   and files mean the same everywhere.  setlocale would change the whole host program, so each call
   uses the C locale in its own thread and restores the thread's locale before it returns. */
#ifndef MR_BASE_NUMBER_H
#define MR_BASE_NUMBER_H

#include <stdarg.h>
#include <stdio.h>

/* Each does what the libc function without mr_ does in the C locale, with the same arguments and
   results, and returns what that returns.  Any format with %e, %f, %g or %a must go through these;
   mr_fail and mr_notice do so already. */
double mr_strtod(const char *text, char **end);
int mr_vsnprintf(char *to, size_t n, const char *fmt, va_list ap)
    __attribute__((format(printf, 3, 0)));
int mr_snprintf(char *to, size_t n, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
int mr_fprintf(FILE *to, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
int mr_printf(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
int mr_sscanf(const char *text, const char *fmt, ...) __attribute__((format(scanf, 2, 3)));

#endif
