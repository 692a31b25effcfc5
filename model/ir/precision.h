/* How exactly f32 matrix products are computed, after jax.lax.Precision.

   Products of bf16 are exact in f32 sums and those of f64 are f64, whatever is asked. */
#ifndef MR_MODEL_IR_PRECISION_H
#define MR_MODEL_IR_PRECISION_H

#include "base/decls.h"
#include "base/err.h"

MR_BEGIN_DECLS

typedef enum mr_precision {
  MR_PRECISION_NONE,    /* nothing is asked: f32 stays f32, as in jax on CPU */
  MR_PRECISION_DEFAULT, /* operands rounded to bf16, f32 sums */
  MR_PRECISION_HIGH,    /* operands as two bf16 each, the three larger products, f32 sums */
  MR_PRECISION_HIGHEST  /* f32 */
} mr_precision_t;

/* "none", "default", "high", "highest". */
const char *mr_precision_name(mr_precision_t p);

/* Those names, or jax's others: fastest, bfloat16 (default), bfloat16_3x, tensorfloat32 (high),
   float32 (highest).  MR_ERR_CONFIG lists them; `setting` begins the sentence. */
mr_err_t mr_precision_parse(const char *setting, const char *text, mr_precision_t *out,
                            mr_diag_t *diag);

/* What graphs that are created from now on ask of their products unless they say otherwise
   (mr_precision_enter).  At first what the environment's MILLRACE_MATMUL_PRECISION says, else
   none.  Any thread.  After jax_default_matmul_precision. */
mr_precision_t mr_matmul_precision(void);
void mr_matmul_precision_set(mr_precision_t p);
/* MR_ERR_CONFIG if the environment's word is not one. */
mr_err_t mr_matmul_precision_check(mr_diag_t *diag);

MR_END_DECLS

#endif
