/* A device that is described in a file instead of being there, so that a step can be planned for it
   on any machine.  Text: a name and its value a line; empty lines, and lines that begin with '#',
   are comments:

     millrace device 1
     name NVIDIA H200
     compute-capability 9.0
     processors 132
     memory 141000000000
     cublaslt 130100
     cudnn 91900
     f32-gflops 67000
     bf16-gflops 989000
     copy-gbs 4800
*/
#ifndef MR_MODEL_BACKENDS_CUDA_DESCRIBED_H
#define MR_MODEL_BACKENDS_CUDA_DESCRIBED_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/decls.h"
#include "base/err.h"
#include "model/backends/cuda/tunings.h"

MR_BEGIN_DECLS

enum { MR_CUDA_DESCRIBED_BYTES = 1 << 16 }; /* of a file that is read */

typedef struct mr_cuda_described {
  char name[MR_CUDA_DEVICE_TEXT]; /* as CUDA names it */
  uint64_t major, minor;          /* compute capability */
  uint64_t processors;            /* streaming multiprocessors */
  uint64_t memory;                /* bytes */
  uint64_t cublaslt, cudnn;       /* versions, as the libraries count; 0: not there */
  double f32_gflops, bf16_gflops; /* limits: GFLOP/s in f32, and of products in bf16 */
  double copy_gbs;                /* GB/s of copies, reads and writes */
} mr_cuda_described_t;

/* Reads text[0,n) into *d.  MR_OK; MR_ERR_DATA for any other text, with the line or the missing
   name, *d then undefined.  Pure. */
mr_err_t mr__cuda_described_parse(const char *text, size_t n, mr_cuda_described_t *d,
                                  mr_diag_t *diag);
/* Writes *d as such a text (mr_print_fn). */
void mr__cuda_described_print(const void *d, FILE *to);

/* Reads the description `what`: a file if it contains a '/', else the name of a shipped one
   (base/share.h), "NVIDIA-H200".  MR_OK; MR_ERR_CONFIG if it is not there; MR_ERR_IO, MR_ERR_DATA
   and MR_ERR_NOMEM as reading and parsing it fail.  The sentence names the file. */
mr_err_t mr__cuda_described_read(const char *what, mr_cuda_described_t *d, mr_diag_t *diag);

MR_END_DECLS

#endif
