/* One rule for which files and folders are believed that this process has not written itself:
   caches, indexes, compiled kernels.  What another user can write could hold anything.  A reader
   names the kind of its file, a row of one table; tests/apps/test_trusted.c walks the table,
   and fails for a kind that it does not attack. */
#ifndef MR_BASE_TRUSTED_H
#define MR_BASE_TRUSTED_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/decls.h"
#include "base/err.h"

MR_BEGIN_DECLS

/* What is believed. */
typedef enum mr_kept {
  MR_KEPT_BLOCKS,  /* a cache's folders, its objects, its number of bytes, its list of peers */
  MR_KEPT_INDEX,   /* where the records of a file or object lie */
  MR_KEPT_LISTING, /* which objects a folder on a server has */
  MR_KEPT_SHARD,   /* a decompressed shard, its check, and the list of its states */
  MR_KEPT_KERNEL,  /* compiled kernels and their folder */
  MR_KEPT_TUNING,  /* measured algorithms */
  MR_KEPT_ADDRESS, /* the address and the token that a page keeps */
  MR_KEPT_PLUGIN,  /* code; plugins/file.c looks at the folders above it too */
  MR_KEPTS
} mr_kept_t;

typedef struct mr_kept_def {
  const char *name;  /* of such files, for people */
  bool group, owner; /* whether mr_trust_t may name a group, or an owner */
  bool secret;       /* others may not read it either */
  bool folders;      /* the folders too are asked; else each file is, whenever it is opened, and a
                        folder that others may write only lets them remove it */
} mr_kept_def_t;

extern const mr_kept_def_t mr_kept_defs[MR_KEPTS];

/* Who is believed beside this user and root, where the kind allows it. */
typedef struct mr_trust {
  bool group;     /* the groups of this process: their members may own and write */
  bool has_owner; /* the user `owner`, say of the data that an index describes */
  uid_t owner;
} mr_trust_t;

/* Returns NULL if what is open may be believed: a regular file or a folder, of this user, of root
   or of whom `more` (NULL: no other) names, which others may not write, nor read if it is secret.
   Else the reason, a constant: "it belongs to another user".  The path is not looked at: open it
   without following links.  Any thread. */
const char *mr_distrust(int fd, mr_kept_t kind, const mr_trust_t *more);

/* The same for the state of what is open. */
struct stat;
const char *mr_distrust_state(const struct stat *st, mr_kept_t kind, const mr_trust_t *more);

/* MR_OK if mr_distrust has no reason; else MR_ERR_UNAVAILABLE with a sentence that names the path,
   the reason and what to do. */
mr_err_t mr_trusted(int fd, const char *path, mr_kept_t kind, const mr_trust_t *more,
                    mr_diag_t *diag);

/* Takes the right to write from the group and others, whatever the umask: so that this user's next
   process believes the file, or for a group from others alone.  Whether that worked. */
bool mr_trust_own(int fd, const mr_trust_t *more);

MR_END_DECLS

#endif
