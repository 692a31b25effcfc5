/* Sizes of memory as people write and read them.  Any thread. */
#ifndef MR_BASE_BYTES_H
#define MR_BASE_BYTES_H

#include <stddef.h>

#include "base/err.h"

/* Parses "2GiB", "1.5GB", "800MiB", "64k" or "1048576" into *out bytes: a number with an optional
   unit K, M, G or T.  The unit alone or followed by iB counts in powers of 1024, followed by B in
   powers of 1000.  MR_ERR_CONFIG, with *out unchanged, if text is no such size or lies outside
   [1,2^62) bytes; `setting` begins the sentence. */
mr_err_t mr_bytes_parse(const char *setting, const char *text, size_t *out, mr_diag_t *diag);

/* Writes "1.50 GiB", "820.3 MiB" or "512 bytes" into the caller's out[24].  Returns out; cannot *
   fail. */
const char *mr_bytes_text(size_t bytes, char *out);

#endif
