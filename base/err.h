/* Errors: one map of codes, one sentence per failure.

   News is >= 0, failure is < 0.  A function that can fail takes a mr_diag_t (or an object that
   holds one) and writes the sentence for the user there: it names the stage, setting or file, the
   value, and what was expected.  A library function never exits and never prints: a message that is
   no failure is a notice (mr_notice) or an announcement (mr_announce), and the program decides
   where it goes. */
#ifndef MR_BASE_ERR_H
#define MR_BASE_ERR_H

#include "base/decls.h"

MR_BEGIN_DECLS

#define MR_ERR_MAP(X)                                             \
  X(OK, 0, "done")                                                \
  X(AGAIN, 1, "no data or no room yet; call again later")         \
  X(END, 2, "the stream is over")                                 \
  X(OPEN, 3, "an op is to be taken as its open form")             \
  X(ERR_USAGE, -1, "the command or the graph text is wrong")      \
  X(ERR_CONFIG, -2, "a setting is unknown or out of range")       \
  X(ERR_SHAPE, -3, "shapes or dtypes do not fit")                 \
  X(ERR_DATA, -4, "a file does not hold what it should")          \
  X(ERR_IO, -5, "the operating system refused a read or a write") \
  X(ERR_NOMEM, -6, "out of memory")                               \
  X(ERR_NORULE, -7, "an op has no rule for this transform")       \
  X(ERR_CANCEL, -8, "cancelled because another part failed")      \
  X(ERR_UNAVAILABLE, -9, "this build or machine lacks what was asked for")

/* News has one meaning everywhere.  MR_OK: done.  MR_AGAIN: nothing yet, or no room yet; the same
   call may succeed later, when another thread, process or device has done its part.  MR_END: there
   is nothing more: a stream is over or the graph stops.  MR_OPEN is of op rules alone.  Whatever
   else a call has to say (a hole, an unknown name, a lost race) is an out-parameter beside MR_OK.
   scripts/check-words.py refuses contracts that explain MR_AGAIN otherwise. */

typedef enum mr_err {
#define MR_ERR_ENUM(name, value, text) MR_##name = value,
  MR_ERR_MAP(MR_ERR_ENUM)
#undef MR_ERR_ENUM
} mr_err_t;

/* Holds the first failure.  Zero-initialise.  One thread at a time. */
typedef struct mr_diag {
  mr_err_t code;   /* MR_OK until a failure is written */
  char text[1024]; /* one sentence without a newline */
} mr_diag_t;

/* Writes code and the sentence into d and returns code, always.  The first failure wins: a diag
   that already holds one keeps it.  d may be NULL: then the sentence is dropped.  Numbers are
   printed as in the C locale, and control characters are escaped (text.h). */
mr_err_t mr_fail(mr_diag_t *d, mr_err_t code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Relay the failure e of a call that wrote its sentence into `from`: into d go e and that sentence,
   or mr_err_text(e) without one, with mr_diag_prefix behind "PREFIX: ", which says where.  As
   in mr_fail the first failure wins and d may be NULL.  Both return e, always; if e >= 0, they
   write nothing. */
mr_err_t mr_diag_relay(mr_diag_t *d, mr_err_t e, const mr_diag_t *from);
mr_err_t mr_diag_prefix(mr_diag_t *d, mr_err_t e, const mr_diag_t *from, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* Fails for want of memory: writes MR_ERR_NOMEM and "out of memory for WHAT" into d, as mr_fail
   does.  WHAT: a noun, with its size or file if the user can change them.  Returns MR_ERR_NOMEM,
   always. */
mr_err_t mr_no_memory(mr_diag_t *d, const char *what, ...) __attribute__((format(printf, 2, 3)));

/* Returns the static text of a code; "unknown error" for any other number. */
const char *mr_err_text(mr_err_t code);

/* Returns the exit status of a program that ends with code: 0 for news, 2 for a wrong input
   (ERR_USAGE, ERR_CONFIG, and ERR_SHAPE: a graph whose parts do not fit), 1 for other failures. */
int mr_err_exit(mr_err_t code);

#define MR_TRY(call)             \
  do {                           \
    mr_err_t mr_e_ = (call);     \
    if (mr_e_ < 0) return mr_e_; \
  } while (0)

/* Notices: sentences for the user that report no failure but are worth knowing, such as a disk that
   is full for a while.  scripts/check-words.py refuses libraries that print or exit.

   A receiver takes one sentence without a newline, valid until it returns.  Any thread may call it,
   several at once too; the thread that sends the notice waits for it. */
typedef void mr_notice_fn(void *arg, const char *text);

/* Sends notices to fn, with arg, instead of standard error ("millrace: TEXT"); with NULL, to
   standard error again.  arg must live until the next call.  Call it while no graph runs. */
void mr_notice_to(mr_notice_fn *fn, void *arg);

/* Sends a notice of at most 1023 bytes; a longer one is cut.  Numbers are printed as in the C
   locale, and control characters are escaped (text.h). */
void mr_notice(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Announcements: what a user needs in order to use something that a stage has started, such as
   "web: http://127.0.0.1:8080/": programs may read these lines, so they have a receiver of their
   own.  They are written and received as notices are. */
void mr_announce(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Sends announcements to fn, with arg; with NULL, as without this call, they are notices.  arg must
   live until the next call.  Call it while no graph runs. */
void mr_announce_to(mr_notice_fn *fn, void *arg);

MR_END_DECLS

#endif
