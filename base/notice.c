/* One receiver for the whole process; without one, notices go to standard error. */
#include "base/notice.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/text.h"

enum { NOTICE_MAX = 1024 };

static mr_notice_fn *receiver;
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
