/* Which way a reader takes, and why: what the machine and the files allow, as plain facts, and a
   choice that is a function of them. */
#ifndef MR_LOADERS_READER_CHOOSE_H
#define MR_LOADERS_READER_CHOOSE_H

#include "loaders/reader.h"

enum { MR_READER_WHY = 160, MR_URING_REFUSED_MAX = 100, MR_URING_NOT_BUILT_IN = -1 };

typedef struct mr_reader_facts {
  int uring_errno;   /* mr_uring_refused */
  int direct_align;  /* bytes that O_DIRECT wants offsets and lengths to be multiples of; 0: the
                        files' file system refuses it */
  int64_t bytes;     /* of all files */
  double cached;     /* share of them that the page cache holds, [0,1], by sampling */
  int64_t available; /* bytes of memory that this process may still take; 0: unknown */
} mr_reader_facts_t;

/* Finds them out for open files. */
void mr_reader_facts(const int *fd, int n_files, mr_reader_facts_t *out);

/* The backend for data that is read once in order, or record by record at random, with the reason
   as half a sentence in why[MR_READER_WHY]. */
mr_read_way_t mr_reader_choose(const mr_reader_facts_t *f, bool once, char *why);

/* Bytes of memory that this process may still take: the machine's, or what the control group
   leaves of its limit if that is less.  0: unknown. */
int64_t mr_memory_available(void);

/* Bytes that O_DIRECT wants offsets, lengths and memory of these files to be multiples of; 0: it is
   refused. */
int mr_reader_direct_align(const int *fd, int n_files);

/* 0 if this process may use io_uring, else the kernel's errno or MR_URING_NOT_BUILT_IN. */
int mr_uring_refused(void);

/* What mr_uring_refused has told, other than 0, into text[0,n): "io_uring is refused (Operation not
   permitted)".  Returns text. */
const char *mr_uring_refused_text(int refused, char *text, size_t n);

#endif
