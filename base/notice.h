/* Notices: sentences for the person who runs the program about what is worth knowing and is no
   failure, such as a disk that is full for a while.  Libraries never print; they call mr_notice,
   and the program decides where the sentence goes. */
#ifndef MR_BASE_NOTICE_H
#define MR_BASE_NOTICE_H

#include "base/decls.h"

MR_BEGIN_DECLS

/* Receives one sentence without a newline, valid until it returns.  Called by any thread, by
   several at once too; the thread that has the notice waits for it. */
typedef void mr_notice_fn(void *arg, const char *text);

/* Sends notices to fn, with arg, instead of standard error ("millrace: TEXT"); NULL: standard error
   again.  Call it while no graph runs. */
void mr_notice_to(mr_notice_fn *fn, void *arg);

/* A notice of at most 1023 bytes; a longer one is cut. Numbers are printed as in the C locale. */
void mr_notice(const char *format, ...) __attribute__((format(printf, 1, 2)));

MR_END_DECLS

#endif
