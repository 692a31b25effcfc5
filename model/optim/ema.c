/* The average of weights over time. */
#include "model/optim/optim.h"

mr_var_t *mr_optim_ema(mr_fn_t *f, float decay, mr_var_t *average, mr_var_t *p) {
  double d = (double)decay;
  return mr_lax_add(f, mr_lax_scale(f, d, average), mr_lax_scale(f, 1 - d, p));
}
