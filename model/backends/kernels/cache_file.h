/* The file of a compiled program in the kernel cache (cache.h): a header, then the image.

     char     magic[8]   "mrkernel"
     uint32_t version    1
     uint32_t zero
     uint64_t key[2]     what the image was compiled from
     uint64_t bytes      of the image
     uint64_t sum[2]     of the header's members above and of the image
     image

   Numbers are in the machine's order: a file of a machine of the other order has a version that is
   not 1.  The sum tells damage; it does not protect from an attacker, the folder's owner does. */
#ifndef MR_MODEL_BACKENDS_KERNELS_CACHE_FILE_H
#define MR_MODEL_BACKENDS_KERNELS_CACHE_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "base/decls.h"

MR_BEGIN_DECLS

enum {
  MR_KERNEL_VERSION = 1,
  MR_KERNEL_HEADER = 56,               /* bytes */
  MR_KERNEL_IMAGE_MOST = 64 * 1048576, /* bytes of an image that is kept */
};

typedef enum mr_kernel_file {
  MR_KERNEL_WHOLE,
  MR_KERNEL_DAMAGED, /* this version wrote it, but not as it is now */
  MR_KERNEL_FOREIGN, /* another version or another program wrote it */
} mr_kernel_file_t;

/* Reads the file data[0,n) that should hold the image of key.  MR_KERNEL_WHOLE: *image points into
   data.  Otherwise *why is a static text that says what is wrong.  Pure. */
mr_kernel_file_t mr_kernel_file_read(const void *data, size_t n, const uint64_t key[2],
                                     const void **image, size_t *bytes, const char **why);

/* Writes the header of such a file.  Pure. */
void mr_kernel_file_header(const uint64_t key[2], const void *image, size_t bytes,
                           unsigned char out[MR_KERNEL_HEADER]);

MR_END_DECLS

#endif
