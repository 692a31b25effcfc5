/* The contents of data, for millrace inspect. */
#ifndef MR_APPS_LOOK_INSPECT_DATA_H
#define MR_APPS_LOOK_INSPECT_DATA_H

#include "base/err.h"

/* Prints the contents of the file at path, or of each known file in the folder: an .npy array, the
   records of CIFAR-10 or CIFAR-100, or the tensors of a safetensors file; else what mr_recognise
   finds at that path or URL, with its fields and classes.  word[0,n): NAME=VALUE, source= and
   settings of that source, as `millrace train PATH` takes them; with any of them all is seen
   through the source.  MR_ERR_USAGE for another word; MR_ERR_DATA with the path if nothing is known
   of it or it is damaged; MR_ERR_IO, MR_ERR_NOMEM; failures of its source. */
mr_err_t mr_inspect_data(const char *path, const char *const *word, int n, mr_diag_t *diag);

#endif
