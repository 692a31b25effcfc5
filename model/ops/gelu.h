/* What backends need to know of GELU and its backward pass.  Implemented in gelu.c. */
#ifndef MR_MODEL_OPS_GELU_H
#define MR_MODEL_OPS_GELU_H

#include "base/decls.h"

MR_BEGIN_DECLS

struct mr_eqn;

/* x Phi(x): by tanh's approximation (Hendrycks and Gimpel, 2016), or exactly. */
typedef enum mr_gelu { MR_GELU_TANH, MR_GELU_ERF } mr_gelu_t;

/* Returns the kind of e, a gelu or gelu_vjp.  Cannot fail. */
mr_gelu_t mr__gelu_kind(const struct mr_eqn *e);

MR_END_DECLS

#endif
