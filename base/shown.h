/* What may be shown of a setting: the one way in which its value becomes text for a person, a page,
   a file that others can read, or a message. */
#ifndef MR_BASE_SHOWN_H
#define MR_BASE_SHOWN_H

#include "base/opt.h"

MR_BEGIN_DECLS

/* Returns text as it may be shown (heap, the caller frees it): "(hidden)" for a secret that is
   given, a URL without user, password, query and fragment, and "(hidden)" for a list with such
   parts, in which nothing shows where a password ends.  Other text as it is.  opt NULL: a text
   whose setting is not known, as one that is no secret.  NULL if text is NULL or without memory.
   Any thread. */
char *mr_shown(const mr_opt_t *opt, const char *text);

/* Returns one URL without user, password, query and fragment (heap, the caller frees it).  The key
   of an s3 URL may hold "?", "#" and "@" and stays as it is.  What has no "SCHEME://" is copied.
   NULL without memory.  Any thread. */
char *mr_shown_url(const char *url);

/* Takes user, password, query and fragment out of every URL in a sentence, in place; what follows a
   URL is a blank or a quote.  Addresses of ZeroMQ and of files have no such parts.  Any thread. */
void mr_hide_access(char *text);

MR_END_DECLS

#endif
