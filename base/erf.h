/* The error function in f32 and its inverse, as XLA's CPU backend computes them (jax.lax.erf,
   erf_inv), so that draws computed through them equal JAX's.  Any thread; no call fails.

   Source: Eigen's rational approximation of erf (generic_fast_erf_float), which XLA adopted; M.
   Giles, "Approximating the erfinv function" (GPU Computing Gems, 2011). */
#ifndef MR_BASE_ERF_H
#define MR_BASE_ERF_H

/* Beyond this |x| the result is 1 or -1: the formula would leave [-1,1]. */
#define MR_ERF_LIMIT 3.7439211627767994f

/* erf(x) = x P(s) / Q(s), s = x^2, |x| <= MR_ERF_LIMIT.  The caller passes fma(a, b, c) = a b + c,
   so that vector kernels can pass their own. */
#define MR_ERF_P(fma, s)                                                                          \
  fma(fma(fma(fma(0.00022905065861350646f, s, 0.0034082910107109506f), s, 0.050955695062380861f), \
          s, 0.18520832239976145f),                                                               \
      s, 1.128379143519084f)
#define MR_ERF_Q(fma, s)                                                            \
  fma(fma(fma(fma(fma(fma(-1.1791602954361697e-7f, s, 0.000023547966471313185f), s, \
                      0.0010179625278914885f),                                      \
                  s, 0.014070470171167667f),                                        \
              s, 0.11098505178285362f),                                             \
          s, 0.49746925110067538f),                                                 \
      s, 1.0f)

/* Returns erf(x) within 3 ulp for every x; NaN for NaN.  The bits equal those of jax.lax.erf of a
   scalar, except that JAX treats denormals as 0.  For arrays XLA uses the formula up to 3.8325 and
   exceeds 1. */
float mr_erf(float x);

/* Returns the inverse of erf for x in [-1,1], within 2 ulp of jax.lax.erf_inv; +-infinity for +-1,
   NaN outside.  It uses plain products and sums: fused ones would be closer to JAX, but would
   change the last bit of every weight that earlier versions drew. */
float mr_erfinv(float x);

#endif
