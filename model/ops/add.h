/* The rules of add, which add_any (the sum of two cotangents) shares. */
#ifndef MR_MODEL_OPS_ADD_H
#define MR_MODEL_OPS_ADD_H

#include "model/ops/op.h"

float mr__add_f2(float a, float b);
double mr__add_d2(double a, double b);
int64_t mr__add_i2(int64_t a, int64_t b);
mr_err_t mr__add_jvp(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *din, mr_var_t **dout);
mr_err_t mr__add_vjp(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *dout, mr_var_t **din);

#endif
