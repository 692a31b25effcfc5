/* What a compiled kernel takes of a multiprocessor, read from its image: a device is not needed. */
#ifndef MR_MODEL_BACKENDS_CUDA_CUBIN_H
#define MR_MODEL_BACKENDS_CUDA_CUBIN_H

#include <stdbool.h>
#include <stddef.h>

/* Sets *registers of a thread, and *stack, bytes of local memory of a thread, which hold what
   registers could not, of the kernel of that name in image[0,n), a cubin.  false: the image is no
   cubin, as PTX, is damaged, or does not say.  Pure. */
bool mr__cubin_usage(const void *image, size_t n, const char *kernel, int *registers, int *stack);

#endif
