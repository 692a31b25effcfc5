/* Numbers as text, with a decimal point whatever locale the host program has set: settings, files
   and what other programs read must mean the same everywhere.  A library that calls setlocale would
   change its host, so these take the C locale for the length of one call, in their own thread. */
#ifndef MR_BASE_NUMBER_H
#define MR_BASE_NUMBER_H

#include <stdarg.h>
#include <stdio.h>

/* As the function of libc behind mr_, arguments and results alike, in the C locale.  Any format
   with %e, %f, %g or %a goes through these; mr_fail does so by itself. */
double mr_strtod(const char *text, char **end);
int mr_vsnprintf(char *to, size_t n, const char *fmt, va_list ap)
    __attribute__((format(printf, 3, 0)));
int mr_snprintf(char *to, size_t n, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
int mr_fprintf(FILE *to, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
int mr_printf(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
int mr_sscanf(const char *text, const char *fmt, ...) __attribute__((format(scanf, 2, 3)));

#endif
