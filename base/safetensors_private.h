/* An open safetensors file, shared by safetensors.c, safetensors_take.c and slices.c. */
#ifndef MR_BASE_SAFETENSORS_PRIVATE_H
#define MR_BASE_SAFETENSORS_PRIVATE_H

#include <cjson/cJSON.h>
#include <sys/stat.h>
#include <xxhash.h>

#include "base/safetensors.h"

struct mr_safetensors {
  unsigned char *map;
  size_t size;
  struct stat file; /* as it was opened */
  size_t body;      /* offset of the tensors' bytes */
  cJSON *json;
  mr_st_tensor_t *tensor; /* [n], those of its slices behind its own */
  int n;
  struct mr_safetensors **slice; /* [n_slices] */
  int n_slices;
  int readers; /* that mr_safetensors_open has given it to */
  struct mr_safetensors *next;
};

/* Reads one file as mr_safetensors_open does, without its slices. */
mr_err_t mr__safetensors_read(const char *path, mr_safetensors_t **out, mr_diag_t *diag);

/* Reads bytes [from,to) of an open file into f->map, and adds them to hash unless that is NULL.  fd
   -1: they are there.  MR_ERR_IO, or MR_ERR_DATA if the file ends before, with the path. */
mr_err_t mr__safetensors_take(const mr_safetensors_t *f, int fd, const char *path, size_t from,
                              size_t to, XXH3_state_t *hash, mr_diag_t *diag);

/* Opens the slices that f, read from path, names, and appends their tensors to its own.  MR_OK,
   also if it names none; or a failure, after which the caller closes f. */
mr_err_t mr__slices_open(mr_safetensors_t *f, const char *path, mr_diag_t *diag);

#endif
