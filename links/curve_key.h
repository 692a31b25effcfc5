/* CURVE keys in files: NAME.key holds a pair and is for its owner alone, NAME.pub holds the public
   half, for the peers.

   Each call returns MR_OK or fails with a sentence in diag. */
#ifndef MR_LINKS_CURVE_KEY_H
#define MR_LINKS_CURVE_KEY_H

#include "base/err.h"

enum { MR_CURVE_KEY_TEXT = 41 }; /* 40 letters of Z85 and a NUL */

/* Makes NAME.key (mode 0600) and NAME.pub, synced to disk.  MR_ERR_IO if either exists or cannot be
   written; MR_ERR_UNAVAILABLE if this ZeroMQ has no CURVE; MR_ERR_USAGE for a name beyond 4000
   bytes. */
mr_err_t mr_curve_key_make(const char *name, mr_diag_t *diag);

/* Reads a NAME.key.  MR_ERR_IO: unreadable; MR_ERR_CONFIG: other users can read it; MR_ERR_DATA: no
   pair of keys. */
mr_err_t mr_curve_key_read_secret(const char *file, char public_key[MR_CURVE_KEY_TEXT],
                                  char secret_key[MR_CURVE_KEY_TEXT], mr_diag_t *diag);
/* Reads a NAME.pub.  MR_ERR_IO: unreadable; MR_ERR_DATA: no public key. */
mr_err_t mr_curve_key_read_public(const char *file, char public_key[MR_CURVE_KEY_TEXT],
                                  mr_diag_t *diag);

#endif
