/* What a data file holds, for millrace inspect. */
#ifndef MR_APPS_INSPECT_DATA_H
#define MR_APPS_INSPECT_DATA_H

#include "base/err.h"

/* Prints what the file at path holds, or each file that is known in the folder: an .npy array, the
   records of CIFAR-10 or CIFAR-100, the tensors of a safetensors file.  MR_ERR_DATA with the path
   if it is nothing of these or not whole. */
mr_err_t mr_inspect_data(const char *path, mr_diag_t *diag);

#endif
