/* Names of the files of a sharded data set, written in one setting as WebDataset does:
   shard-{000000..000012}.tar, with steps {0..12..3}, letters {a..f} and lists {a,b} too, and
   several such names joined by "::".  Source: braceexpand, which WebDataset uses. */
#ifndef MR_LOADERS_SHARDS_SHARD_NAMES_H
#define MR_LOADERS_SHARDS_SHARD_NAMES_H

#include "base/err.h"

enum { MR_SHARDS_MAX = 1 << 16 /* files of one data set */ };

typedef struct mr_shard_names {
  char **at; /* [n] heap */
  int n;
} mr_shard_names_t;

/* Expands text into *out, in the order in which it names the files: the last brace of a name varies
   fastest.  The caller ends *out with mr_shard_names_fini, also after a failure.  MR_ERR_CONFIG for
   an empty name, a brace that is not closed or holds neither a range nor a list, or more than
   MR_SHARDS_MAX names; MR_ERR_NOMEM.  Any thread; opens no file. */
mr_err_t mr_shard_names_expand(const char *text, mr_shard_names_t *out, mr_diag_t *diag);

/* Appends a copy of one name.  MR_ERR_CONFIG for one more than MR_SHARDS_MAX; MR_ERR_NOMEM. */
mr_err_t mr_shard_names_add(mr_shard_names_t *names, const char *name, mr_diag_t *diag);
void mr_shard_names_fini(mr_shard_names_t *names); /* frees the names; zeroed is fine */

#endif
