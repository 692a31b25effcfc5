/* Errors: texts of the codes, and the one function that fills a diag.  Notices: one receiver for
   the whole process; without one they go to standard error. */
#include "base/err.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/text.h"

enum { NOTICE_MAX = 1024 };

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

static mr_notice_fn *receiver; /* NULL: standard error */
static void *receiver_arg;

void mr_notice_to(mr_notice_fn *fn, void *arg) { receiver = fn, receiver_arg = arg; }

void mr_notice(const char *format, ...) {
  char text[NOTICE_MAX], shown[NOTICE_MAX];
  va_list ap;
  va_start(ap, format);
  mr_vsnprintf(text, sizeof text, format, ap);
  va_end(ap);
  mr_printable(text, shown, sizeof shown); /* it may contain names from files and peers */
  if (receiver)
    receiver(receiver_arg, shown);
  else
    fprintf(stderr, "millrace: %s\n", shown);
}
