/* Finds CUDA's libraries at run time: cuBLASLt, cuDNN and NVRTC come with a toolkit, or as Python
   packages, whose folders no loader knows. */
#ifndef MR_MODEL_BACKENDS_CUDA_FIND_H
#define MR_MODEL_BACKENDS_CUDA_FIND_H

#include <stddef.h>

/* Opens the first library of names, which ends at NULL and begins with the newest version
   ("libnvrtc.so.13"), that is found in one of these, each asked for all names: the folders of
   MILLRACE_CUDA_LIBRARIES, separated by ':'; where the loader looks; /usr/local/cuda and /opt/cuda;
   the packages of the active Python environment (VIRTUAL_ENV, CONDA_PREFIX), of the user and of the
   system.  Returns dlopen's handle, which stays open until the process ends, and writes the
   library's file to path[0,n); NULL if it finds nothing, and path is then "", or if it finds files
   that cannot be loaded, and path is then the loader's reason for the first one.  Any thread; reads
   folders. */
void *mr__cuda_find(const char *const *names, char *path, size_t n);

#endif
