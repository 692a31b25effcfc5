/* Matrices with orthonormal rows or columns, for the initialisers of that name. */
#ifndef MR_MODEL_NN_ORTHOGONAL_H
#define MR_MODEL_NN_ORTHOGONAL_H

#include <stdint.h>

#include "base/err.h"
#include "base/threefry.h"

/* Draws a matrix (rows,cols), both positive, whose rows or columns, those of the shorter side, are
   orthonormal, uniformly among all of them: q has element (i,j) at i * cols + j, and room for all.
   The values do not depend on the number of threads.  MR_OK or MR_ERR_NOMEM.  Source:
   jax.random.orthogonal, whose values these are within rounding. */
mr_err_t mr__orthogonal(mr_key_t key, int64_t rows, int64_t cols, float *q, mr_diag_t *diag);

#endif
