/* The choice of a reader's way: plain facts about the machine and the files, and a pure function of
   them.  Implemented in reader_choose.c; mr_uring_refused in reader_uring.c, or in
   without.c in a build without liburing.  Any thread. */
#ifndef MR_LOADERS_LOCAL_READER_CHOOSE_H
#define MR_LOADERS_LOCAL_READER_CHOOSE_H

#include "loaders/local/reader.h"

enum { MR_READER_WHY = 160, MR_URING_REFUSED_MAX = 100, MR_URING_NOT_BUILT_IN = -1 };

typedef struct mr_reader_facts {
  int uring_errno;   /* mr_uring_refused */
  int direct_align;  /* as mr_reader_direct_align */
  int64_t bytes;     /* of all files */
  double cached;     /* share of the bytes in the page cache, [0,1], by sampling */
  int64_t available; /* as mr_memory_available */
} mr_reader_facts_t;

/* Collects the facts for open files. */
void mr_reader_facts(const int *fd, int n_files, mr_reader_facts_t *out);

/* Returns the way for data that is read once in order, or record by record at random; never AUTO.
   Writes the reason as half a sentence into the caller's why[MR_READER_WHY].  Cannot fail. */
mr_read_way_t mr_reader_choose(const mr_reader_facts_t *f, bool once, char *why);

/* Returns the bytes of memory that this process may still take (base/machine.h); 0 if unknown. */
int64_t mr_memory_available(void);

/* Returns the bytes of which O_DIRECT requires offsets, lengths and memory of these files to be
   multiples; 0 if a file's file system refuses O_DIRECT. */
int mr_reader_direct_align(const int *fd, int n_files);

/* Returns 0 if this process may use io_uring, else the kernel's errno or MR_URING_NOT_BUILT_IN. */
int mr_uring_refused(void);

/* Writes the result of mr_uring_refused, other than 0, as text into the caller's text[0,n):
   "io_uring is refused (Operation not permitted)".  Returns text. */
const char *mr_uring_refused_text(int refused, char *text, size_t n);

#endif
