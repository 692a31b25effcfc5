/* What an addition gives for one element, which sums of many share. */
#ifndef MR_MODEL_OPS_ARITHMETIC_H
#define MR_MODEL_OPS_ARITHMETIC_H

#include <stdint.h>

float mr__add_f2(float a, float b);
double mr__add_d2(double a, double b);
int64_t mr__add_i2(int64_t a, int64_t b);

#endif
