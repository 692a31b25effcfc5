/* What a file is, by its first bytes: for the sentence that refuses a file of another kind. */
#ifndef MR_BASE_FILE_KIND_H
#define MR_BASE_FILE_KIND_H

#include <stddef.h>

#include "base/decls.h"

MR_BEGIN_DECLS

typedef struct mr_file_kind {
  const char *what;    /* "a Parquet file"; of a packed one "packed by gzip" */
  const char *packer;  /* "gzip"; NULL: it is not packed */
  const char *unpack;  /* the program that unpacks it, "gunzip"; NULL: it is not packed */
  const char *instead; /* what to do whatever was wanted: "unpack it first (gunzip)", "stage tar
                          reads it"; NULL: that depends on what was wanted */
  const char *usual;   /* of these: what to do where the caller knows nothing better, "write it as
                          CSV (pandas: to_csv), which stage table reads"; NULL: nothing is */
} mr_file_kind_t;

/* Returns the kind of a file that begins with bytes[n], a static text, or NULL for any other kind
   than those known here: for a file that is refused, or that no mark can begin otherwise.  Any
   thread. */
const mr_file_kind_t *mr_file_kind(const void *bytes, size_t n);
/* The same for a file that would be read otherwise: what follows a short mark is looked at, too, as
   far as n goes, since ids of tokens, or the name of a column, may be its letters. */
const mr_file_kind_t *mr_file_kind_sure(const void *bytes, size_t n);

/* Returns what a file is that begins with bytes[n], or is no longer: the kind's `what`, or "JSON
   lines", "JSON" or "text"; static.  Text is of a kind that mr_file_kind_sure knows alone.  NULL:
   something else, or too few bytes to tell.  For readers of files that are no text. */
const char *mr_file_described(const void *bytes, size_t n);

enum {
  MR_FILE_LOOK = 512, /* bytes of a file that are enough for all of these */
  MR_FILE_HINT = 200  /* and of a sentence's end */
};

/* Writes the end of a sentence that refuses such a file into the caller's text[size], size > 0,
   MR_FILE_HINT for all of it: "; it is an .npy file: stage npy reads it", "; it is packed by gzip:
   unpack it first (gunzip)"; "" if it is not described. Returns text. */
const char *mr_file_kind_hint(const void *bytes, size_t n, char *text, size_t size);
/* The same of the file at path; "" too if it is no regular file that can be read. */
const char *mr_file_hint(const char *path, char *text, size_t size);

MR_END_DECLS

#endif
