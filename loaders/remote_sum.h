/* Checksums that servers give, computed over what they sent. */
#ifndef MR_LOADERS_REMOTE_SUM_H
#define MR_LOADERS_REMOTE_SUM_H

#include "loaders/remote_private.h"

/* Returns whether data[0,n) has this checksum; true for MR_SUM_NONE and for a kind that this
   libcrypto refuses (MD5 under FIPS).  Any thread. */
bool mr__remote_sum_ok(const mr_remote_sum_t *sum, const void *data, size_t n);

#endif
