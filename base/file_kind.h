/* What a file is, by its first bytes: for the sentence that refuses a file of another kind. */
#ifndef MR_BASE_FILE_KIND_H
#define MR_BASE_FILE_KIND_H

#include <stddef.h>

#include "base/decls.h"

MR_BEGIN_DECLS

typedef struct mr_file_kind {
  const char *what;   /* "a Parquet file"; of a packed one "packed by gzip" */
  const char *packer; /* "gzip"; NULL: it is not packed */
  const char *unpack; /* the program that unpacks it, "gunzip"; NULL: it is not packed */
} mr_file_kind_t;

/* Returns the kind of a file that begins with bytes[n], static, or NULL if it is none of those
   known here: the marks of all of them are unlikely in numbers and in text.  Any thread. */
const mr_file_kind_t *mr_file_kind(const void *bytes, size_t n);

MR_END_DECLS

#endif
