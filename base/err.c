/* Errors: texts of the codes, and the one function that fills a diag. */
#include "base/err.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/text.h"

mr_err_t mr_fail(mr_diag_t *d, mr_err_t code, const char *fmt, ...) {
  if (!d || d->code < 0) return code;
  d->code = code;
  char text[sizeof d->text];
  va_list ap;
  va_start(ap, fmt);
  mr_vsnprintf(text, sizeof text, fmt, ap);
  va_end(ap);
  mr_printable(text, d->text, sizeof d->text); /* it may contain names from files and peers */
  return code;
}

const char *mr_err_text(mr_err_t code) {
  switch (code) {
#define MR_ERR_CASE(name, value, text) \
  case MR_##name: return text;
    MR_ERR_MAP(MR_ERR_CASE)
#undef MR_ERR_CASE
  }
  return "unknown error";
}

int mr_err_exit(mr_err_t code) {
  if (code >= 0) return 0;
  return code == MR_ERR_USAGE || code == MR_ERR_CONFIG || code == MR_ERR_SHAPE ? 2 : 1;
}
