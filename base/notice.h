/* Notices: sentences for the user that report no failure but are worth knowing, such as a disk that
   is full for a while.  Libraries never print; they call mr_notice, and the program decides where
   the sentence goes. */
#ifndef MR_BASE_NOTICE_H
#define MR_BASE_NOTICE_H

#include "base/decls.h"

MR_BEGIN_DECLS

/* Receives one sentence without a newline, valid until it returns.  Any thread may call it, several
   at once too; the thread that sends the notice waits for it. */
typedef void mr_notice_fn(void *arg, const char *text);

/* Sends notices to fn, with arg, instead of standard error ("millrace: TEXT"); with NULL, to
   standard error again.  arg must live until the next call.  Call it while no graph runs. */
void mr_notice_to(mr_notice_fn *fn, void *arg);

/* Sends a notice of at most 1023 bytes; a longer one is cut.  Numbers are printed as in the C
   locale, and control characters are escaped (text.h). */
void mr_notice(const char *format, ...) __attribute__((format(printf, 1, 2)));

MR_END_DECLS

#endif
