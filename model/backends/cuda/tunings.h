/* The tuning file: which of cuBLASLt's algorithms was measured as the fastest
   for a product, on which device, by which version.  Text, a row a line, fields
   separated by tabs:

     millrace products 1
     NVIDIA H200<tab>130100<tab>m=1152 n=8320 ...<tab>8 numbers of 16
   digits<tab>workspace<tab>ns

   For attention the version is cuDNN's, the product is "attention B=128 T=65 ...", and the first
   number is 1 if the kernel of one group a head was faster than cuDNN, else 0.

   Else the numbers are the library's own description of the algorithm, which it
   checks before it runs one.  Rows of other devices and versions are kept when
   a file is written again. */
#ifndef MR_MODEL_BACKENDS_CUDA_TUNINGS_H
#define MR_MODEL_BACKENDS_CUDA_TUNINGS_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/decls.h"
#include "base/err.h"
#include "model/backends/kernels/product.h"

MR_BEGIN_DECLS

enum {
  MR_CUDA_DEVICE_TEXT = 256,
  MR_CUDA_ALGORITHM = 8,                          /* numbers of an algorithm */
  MR_CUDA_TUNINGS_MOST = 100000,                  /* rows of a file */
  MR_CUDA_TUNINGS_BYTES = 64 << 20,               /* of a file that is read */
  MR_CUDA_TUNINGS_FILE = MR_CUDA_DEVICE_TEXT + 48 /* room for a shipped file's name */
};

typedef struct mr_cuda_tuning {
  char device[MR_CUDA_DEVICE_TEXT];
  uint64_t version; /* of cuBLASLt */
  char product[MR_PRODUCT_TEXT];
  uint64_t algorithm[MR_CUDA_ALGORITHM];
  uint64_t workspace; /* bytes */
  uint64_t ns;        /* measured time of a product */
} mr_cuda_tuning_t;

typedef struct mr_cuda_tunings {
  mr_cuda_tuning_t *row; /* [n], heap */
  size_t n, cap;
} mr_cuda_tunings_t;

/* Reads text[0,n) into the zeroed *t, which the caller ends by fini in any
   case.  MR_OK; MR_ERR_DATA, with the line and what was expected there, for any
   other text, also for a file with two rows of one product; MR_ERR_NOMEM. Pure.
 */
mr_err_t mr__cuda_tunings_parse(const char *text, size_t n, mr_cuda_tunings_t *t, mr_diag_t *diag);
void mr__cuda_tunings_fini(mr_cuda_tunings_t *t); /* cannot fail, empties *t */

/* Returns the row of a product, valid until t changes; NULL without one. */
const mr_cuda_tuning_t *mr__cuda_tunings_find(const mr_cuda_tunings_t *t, const char *device,
                                              uint64_t version, const char *product);
/* Adds a copy of row, or replaces the row of the same device, version and
   product.  MR_OK, MR_ERR_CONFIG if its texts cannot be written (a tab, a
   line's end, an empty device), or MR_ERR_NOMEM. */
mr_err_t mr__cuda_tunings_put(mr_cuda_tunings_t *t, const mr_cuda_tuning_t *row, mr_diag_t *diag);

/* Writes the name of the file that is shipped for a device and a version,
   "cuda/products/NVIDIA-H200-130100.txt", to the caller's name and returns it: characters of
   the device but letters, digits, '.' and '_' become '-'. */
const char *mr__cuda_tunings_file(const char *device, uint64_t version,
                                  char name[MR_CUDA_TUNINGS_FILE]);

/* Writes t as such a text (mr_print_fn). */
void mr__cuda_tunings_print(const void *t, FILE *to);

MR_END_DECLS

#endif
