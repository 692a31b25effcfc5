/* Errors: texts of the codes, and the calls that fill a diag.  Notices and announcements: a
   receiver each for the whole process; without one they go to standard error.

   Whatever is written here becomes one line: names in it may come from files and peers, and a
   newline in one could pass for a message of its own.  A URL loses what gives access: only the
   address of a page that a run serves is announced with its token. */
#include "base/err.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/shown.h"
#include "base/text.h"

enum { NOTICE_MAX = 1024 };

/* Cuts what is too long. */
static void write_failure(mr_diag_t *d, mr_err_t code, const char *before, const char *fmt,
                          va_list ap, const char *after) {
  char text[sizeof d->text];
  size_t n = strlen(before);
  memcpy(text, before, n);
  int len = mr_vsnprintf(text + n, sizeof text - n, fmt, ap);
  n = len < 0 ? n : n + (size_t)len < sizeof text ? n + (size_t)len : sizeof text - 1;
  text[n] = 0;
  strncat(text + n, after, sizeof text - 1 - n);
  d->code = code;
  mr_hide_access(text);
  mr_printable(text, d->text, sizeof d->text);
}

mr_err_t mr_fail(mr_diag_t *d, mr_err_t code, const char *fmt, ...) {
  if (!d || d->code < 0) return code;
  va_list ap;
  va_start(ap, fmt);
  write_failure(d, code, "", fmt, ap, "");
  va_end(ap);
  return code;
}

mr_err_t mr_no_memory(mr_diag_t *d, const char *what, ...) {
  if (!d || d->code < 0) return MR_ERR_NOMEM;
  va_list ap;
  va_start(ap, what);
  write_failure(d, MR_ERR_NOMEM, "out of memory for ", what, ap, "");
  va_end(ap);
  return MR_ERR_NOMEM;
}

static const char *sentence_of(mr_err_t e, const mr_diag_t *from) {
  return *from->text ? from->text : mr_err_text(e);
}

mr_err_t mr_diag_relay(mr_diag_t *d, mr_err_t e, const mr_diag_t *from) {
  return e < 0 ? mr_fail(d, e, "%s", sentence_of(e, from)) : e;
}

mr_err_t mr_diag_prefix(mr_diag_t *d, mr_err_t e, const mr_diag_t *from, const char *fmt, ...) {
  char after[sizeof from->text + 2];
  if (e >= 0 || !d || d->code < 0) return e;
  memcpy(after, ": ", sizeof ": ");
  va_list ap;
  va_start(ap, fmt);
  write_failure(d, e, "", fmt, ap, strcat(after, sentence_of(e, from)));
  va_end(ap);
  return e;
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

/* Where notices, or announcements, go. */
typedef struct receiver {
  mr_notice_fn *fn; /* NULL: the default */
  void *arg;
} receiver_t;

static receiver_t of_notices, of_announcements;

void mr_notice_to(mr_notice_fn *fn, void *arg) { of_notices = (receiver_t){fn, arg}; }

void mr_announce_to(mr_notice_fn *fn, void *arg) { of_announcements = (receiver_t){fn, arg}; }

static void send_line(const receiver_t *to, bool whole, const char *format, va_list ap) {
  char text[NOTICE_MAX], shown[NOTICE_MAX];
  mr_vsnprintf(text, sizeof text, format, ap);
  if (!whole) mr_hide_access(text);
  mr_printable(text, shown, sizeof shown); /* it may contain names from files and peers */
  if (to->fn)
    to->fn(to->arg, shown);
  else
    fprintf(stderr, "millrace: %s\n", shown);
}

void mr_notice(const char *format, ...) {
  va_list ap;
  va_start(ap, format);
  send_line(&of_notices, false, format, ap);
  va_end(ap);
}

void mr_announce(const char *format, ...) {
  va_list ap;
  va_start(ap, format);
  send_line(of_announcements.fn ? &of_announcements : &of_notices, true, format, ap);
  va_end(ap);
}
