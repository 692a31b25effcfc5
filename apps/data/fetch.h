/* Downloads: a file is written to PATH.part, resumed where it stopped, and renamed to its name only
   when its digest is right.  Implemented in fetch.c and unpack.c; only in builds with libcurl and
   libarchive. */
#ifndef MR_APPS_DATA_FETCH_H
#define MR_APPS_DATA_FETCH_H

#include <stdint.h>

#include "base/err.h"

/* Fetches an http or https url to path.  md5: 32 lower-case hex digits of the whole file; max: most
   bytes it may have.  Blocks; reports progress on standard error; retries an interrupted connection
   a few times.  MR_ERR_IO: the bytes received stay in PATH.part for the next call.  MR_ERR_DATA:
   the digest is wrong, and PATH.part is removed, or the file is larger than max.  MR_ERR_NOMEM,
   MR_ERR_UNAVAILABLE. */
mr_err_t mr_fetch_file(const char *url, const char *path, const char *md5, int64_t max,
                       mr_diag_t *diag);

/* MR_OK if the file at path has this digest, MR_ERR_DATA if not, MR_ERR_IO if it cannot be read,
   MR_ERR_NOMEM or MR_ERR_UNAVAILABLE without MD5. */
mr_err_t mr_check_md5(const char *path, const char *md5, mr_diag_t *diag);

/* Unpacks cifar-10-binary.tar.gz into folder, which must not exist and appears whole or not at all.
   MR_ERR_DATA for an entry that is not one of CIFAR-10's eight files, has another size, is a link
   or occurs twice, and for a missing one; MR_ERR_IO, MR_ERR_NOMEM. */
mr_err_t mr_unpack_cifar10(const char *archive, const char *folder, mr_diag_t *diag);

#endif
