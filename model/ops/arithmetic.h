/* The addition of two elements, for add and for the kernels of sums. */
#ifndef MR_MODEL_OPS_ARITHMETIC_H
#define MR_MODEL_OPS_ARITHMETIC_H

#include <stdint.h>

/* Each returns a + b and cannot fail; i2 wraps. */
float mr__add_f2(float a, float b);
double mr__add_d2(double a, double b);
int64_t mr__add_i2(int64_t a, int64_t b);

#endif
