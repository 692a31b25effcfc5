/* Sizes of memory as people write and read them. */
#ifndef MR_BASE_BYTES_H
#define MR_BASE_BYTES_H

#include <stddef.h>

#include "base/err.h"

/* "2GiB", "1.5GB", "800MiB", "64k", "1048576": a number above 0 with K, M, G or T, alone or with iB
   (powers of 1024; alone too) or B (powers of 1000).  MR_ERR_CONFIG; `setting` begins the
   sentence. */
mr_err_t mr_bytes_parse(const char *setting, const char *text, size_t *out, mr_diag_t *diag);

/* "1.50 GiB", "820.3 MiB", "512 bytes" into out[24]; returns out. */
const char *mr_bytes_text(size_t bytes, char *out);

#endif
