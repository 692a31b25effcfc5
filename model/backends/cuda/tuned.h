/* The tuning files of a process: the user's own, which MILLRACE_TUNE=1 writes, and the one that
   comes with the program for the device and the library's version.  Each is read once; one that is
   damaged, or of another device or version, is left as it is and reported once. */
#ifndef MR_MODEL_BACKENDS_CUDA_TUNED_H
#define MR_MODEL_BACKENDS_CUDA_TUNED_H

#include <stdbool.h>

#include "model/backends/cuda/tunings.h"

MR_BEGIN_DECLS

/* Whether MILLRACE_TUNE=1 asks for measurements. */
bool mr__cuda_tuned_asked(void);

/* Copies the row of a product in the user's file, MILLRACE_TUNING or millrace/products.txt in the
   user's cache, to *row.  false: it has none, or MILLRACE_TUNING=off.  Any thread; the first call
   reads the file. */
bool mr__cuda_tuned_own(const char *device, uint64_t version, const char *product,
                        mr_cuda_tuning_t *row);

/* The same for the shipped file (base/share.h), whose name is that of
   mr__cuda_tunings_file.  false: it has none.  Any thread; the first call for a device and version
   reads the file. */
bool mr__cuda_tuned_shipped(const char *device, uint64_t version, const char *product,
                            mr_cuda_tuning_t *row);

/* Keeps a measured row for this process, and writes the user's file whole, unless it was damaged or
   MILLRACE_TUNING=off.  A file that cannot be written is reported once.  Any thread. */
void mr__cuda_tuned_put(const mr_cuda_tuning_t *row);

MR_END_DECLS

#endif
