/* The kernel cache: a folder of compiled programs, so that a second run compiles nothing.

   The folder is $MILLRACE_KERNELS, else $XDG_CACHE_HOME/millrace/kernels, else
   $HOME/.cache/millrace/kernels; MILLRACE_KERNELS=off: none.  It has a file for each program
   (cache_file.h), named by a hash of all that the program depends on.  Files appear whole, under
   temporary names first, so that any number of processes may use a folder; the files that were read
   longest ago are removed when all exceed MR_KERNEL_CACHE_BYTES.

   A cache never fails a run.  What it cannot read or write costs the compiler's time, and a notice
   says each kind of trouble once a process.  The folder and its files must belong to this user, and
   others must not be able to write there, since a driver runs what it is given.

   All calls may come from any thread. */
#ifndef MR_MODEL_BACKENDS_KERNELS_CACHE_H
#define MR_MODEL_BACKENDS_KERNELS_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/decls.h"

MR_BEGIN_DECLS

#define MR_KERNEL_CACHE_BYTES ((int64_t)256 << 20)

/* A program in the cache. */
typedef struct mr_kernel_entry {
  uint64_t key[2];
  bool left; /* its file is another version's or program's and must stay: put does nothing */
} mr_kernel_entry_t;

/* The entry of a program that depends on part[0,n): its text, the compiler's flags and version, the
   device.  Parts of different lengths do not run together. */
mr_kernel_entry_t mr_kernel_entry(const char *const *part, size_t n);

/* Reads the program's image into *image, which the caller frees.  False: it lacks one that can be
   used, so that the caller compiles it and calls put. */
bool mr_kernel_cache_get(mr_kernel_entry_t *e, void **image, size_t *bytes);

/* Keeps an image, in the place of a damaged or refused one too. */
void mr_kernel_cache_put(const mr_kernel_entry_t *e, const void *image, size_t bytes);

/* Says, once, that the driver does not take the image that get has read.  The caller compiles the
   program and calls put. */
void mr_kernel_cache_refused(const mr_kernel_entry_t *e, const char *why);

/* Writes the folder's name to path[0,n), whether it exists or not; *named: MILLRACE_KERNELS names
   it. False: the cache is off, or no variable gives a folder. */
bool mr_kernel_cache_folder(char *path, size_t n, bool *named);

MR_END_DECLS

#endif
