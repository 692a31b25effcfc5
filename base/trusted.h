/* One rule for which files and folders are believed that this process has not written itself:
   caches, indexes, compiled kernels.  What another user can write could hold anything. */
#ifndef MR_BASE_TRUSTED_H
#define MR_BASE_TRUSTED_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/decls.h"
#include "base/err.h"

MR_BEGIN_DECLS

/* Who is believed beside this user and root. */
typedef struct mr_trust {
  bool group;     /* the groups of this process: their members may own and write */
  bool has_owner; /* the user `owner`, say of the data that an index describes */
  uid_t owner;
} mr_trust_t;

/* Returns NULL if what is open may be believed: a regular file or a folder, of this user, of root
   or of whom `more` (NULL: no other) names, which others may not write.  Else the reason, a
   constant: "it belongs to another user".  The path is not looked at: open it without following
   links.  Any thread. */
const char *mr_distrust(int fd, const mr_trust_t *more);

/* MR_OK if mr_distrust has no reason; else MR_ERR_UNAVAILABLE with a sentence that names the path,
   the reason and what to do. */
mr_err_t mr_trusted(int fd, const char *path, const mr_trust_t *more, mr_diag_t *diag);

/* Takes the right to write from the group and others, whatever the umask: so that this user's next
   process believes the file, or for a group from others alone.  Whether that worked. */
bool mr_trust_own(int fd, const mr_trust_t *more);

MR_END_DECLS

#endif
