/* Downloads: a file comes by way of PATH.part, goes on where it stopped, and appears under its
   name only when its digest is right. */
#ifndef MR_APPS_FETCH_H
#define MR_APPS_FETCH_H

#include <stdint.h>

#include "base/err.h"

/* Fetches an http or https url to path.  md5: 32 lower-case hex digits of the whole file.  max:
   bytes it may have.  Progress goes to standard error.  Blocks; a cut connection is tried again a
   few times.  MR_ERR_IO: what has come stays in PATH.part for the next call.  MR_ERR_DATA: the
   digest is another; then nothing stays. */
mr_err_t mr_fetch_file(const char *url, const char *path, const char *md5, int64_t max,
                       mr_diag_t *diag);

/* MR_OK if the file at path has this digest, MR_ERR_DATA if not. */
mr_err_t mr_check_md5(const char *path, const char *md5, mr_diag_t *diag);

/* Unpacks cifar-10-binary.tar.gz: its files to folder, which must not exist and appears whole or
   not at all.  An entry that is not one of the eight of CIFAR-10, has another size, is a link or
   stands twice is refused: MR_ERR_DATA. */
mr_err_t mr_unpack_cifar10(const char *archive, const char *folder, mr_diag_t *diag);

#endif
