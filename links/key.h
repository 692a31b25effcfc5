/* CURVE keys in files: NAME.key holds a pair and belongs to its owner alone, NAME.pub holds the
   public half, for the peers. */
#ifndef MR_LINKS_KEY_H
#define MR_LINKS_KEY_H

#include "base/err.h"

enum { MR_KEY_TEXT = 41 }; /* 40 letters of Z85 and a NUL */

/* Makes NAME.key (mode 0600) and NAME.pub.  Neither may exist already: MR_ERR_IO. */
mr_err_t mr_key_make(const char *name, mr_diag_t *diag);

/* Reads a NAME.key, which nobody but its owner may read. */
mr_err_t mr_key_read_secret(const char *file, char public_key[MR_KEY_TEXT],
                            char secret_key[MR_KEY_TEXT], mr_diag_t *diag);
/* Reads a NAME.pub. */
mr_err_t mr_key_read_public(const char *file, char public_key[MR_KEY_TEXT], mr_diag_t *diag);

#endif
