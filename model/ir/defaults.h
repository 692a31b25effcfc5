/* What graphs start with: the precision of f32 matrix products, after jax.lax.Precision, and the
   layout of draws by key (mr_key_layout_t, base/random.h), each with a default of the process.

   A precision applies to f32 alone: products of bf16 are exact with f32 sums and those of f64 are
   f64 at every precision. */
#ifndef MR_MODEL_IR_DEFAULTS_H
#define MR_MODEL_IR_DEFAULTS_H

#include "base/decls.h"
#include "base/err.h"
#include "base/random.h"

MR_BEGIN_DECLS

typedef enum mr_precision {
  MR_PRECISION_NONE,    /* unset: f32 stays f32, as in jax on CPU */
  MR_PRECISION_DEFAULT, /* operands rounded to bf16, f32 sums */
  MR_PRECISION_HIGH,    /* operands as two bf16 each, the three larger products, f32 sums */
  MR_PRECISION_HIGHEST  /* f32 */
} mr_precision_t;

/* Returns the static text "none", "default", "high" or "highest"; p is one of the four. */
const char *mr_precision_name(mr_precision_t p);

/* Sets *out from one of those names or of jax's others: fastest, bfloat16 (default), bfloat16_3x,
   tensorfloat32 (high), float32 (highest).  MR_ERR_CONFIG for any other text, and *out stays; the
   sentence begins with `setting` and lists the names. */
mr_err_t mr_precision_parse(const char *setting, const char *text, mr_precision_t *out,
                            mr_diag_t *diag);

/* Returns the precision with which graphs are created from now on; mr_precision_enter (fn.h)
   overrides it for one graph.  Until mr_matmul_precision_set it is what MILLRACE_MATMUL_PRECISION
   names in the environment, MR_PRECISION_NONE if that names none.  Any thread; neither fails. After
   jax_default_matmul_precision. */
mr_precision_t mr_matmul_precision(void);
void mr_matmul_precision_set(mr_precision_t p);
/* MR_ERR_CONFIG, with a sentence, if that environment variable is set but names no precision; MR_OK
   if not.  mr_compile calls it. */
mr_err_t mr_matmul_precision_check(mr_diag_t *diag);

/* Returns the layout with which graphs are created from now on; mr_key_layout_enter (fn.h)
   overrides it for one graph.  Until mr_key_layout_set, MILLRACE_THREEFRY_PARTITIONABLE in the
   environment sets it: 0 is MR_KEY_ORIGINAL, anything else MR_KEY_PARTITIONABLE.  Any thread;
   neither fails. */
mr_key_layout_t mr_key_layout(void);
void mr_key_layout_set(mr_key_layout_t layout);
/* MR_ERR_CONFIG, with a sentence, if that environment variable is set to neither 0 nor 1; MR_OK if
   not.  mr_compile calls it. */
mr_err_t mr_key_layout_check(mr_diag_t *diag);

MR_END_DECLS

#endif
