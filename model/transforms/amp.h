/* Mixed precision as a transform: which dtype each equation computes in, by rules of a policy.

   A policy is data: rows that name an op or a part of the model (a scope) and say what happens to
   the float operands there.  mr_amp writes the conversions into the graph; they carry
   by = "amp RULE", the op they were written for and the row that asked, which `explain` shows. Only
   f32, bf16 and f16 operands are converted; f64, fp8, integers and bool pass.

   Sources: jaxamp 0.0.4 (mr_amp_jaxamp gives its jaxprs equation for equation);
   Micikevicius et al., "Mixed Precision Training" (2018).

   Implemented in amp.c (the transform) and amp_policy.c (policies and their texts). */
#ifndef MR_MODEL_TRANSFORMS_AMP_H
#define MR_MODEL_TRANSFORMS_AMP_H

#include "base/decls.h"
#include "model/ir/fn.h"

MR_BEGIN_DECLS

typedef enum mr_amp_rule {
  MR_AMP_BY_CLASS, /* as the op's own class says (mr_op_def.amp): products compute, sums f32 */
  MR_AMP_COMPUTE,  /* operands converted to the compute dtype; the op gives it */
  MR_AMP_F32,      /* operands converted to f32 */
  MR_AMP_ORIGINAL, /* operands converted back to the dtypes of the function as written */
  MR_AMP_WIDEST,   /* operands converted to the widest dtype that one of them has now */
  MR_AMP_AS_IS,    /* operands as they are */
  MR_AMP_OWN,      /* operands converted as the row's function says (mr_amp_add_fn) */
  MR_AMP_RULES
} mr_amp_rule_t;
/* Returns the static text "class", "compute", "f32", "original", "follow", "as-is" or "own"; "no
   rule" for a number that is none of them. */
const char *mr_amp_rule_name(mr_amp_rule_t r);

/* A rule of one's own: writes into want[e->n_in] which of f32, bf16 and f16 each operand of e is to
   have.  Before, want holds what they have now, and for literals what the others follow; an operand
   of another dtype stays as it is, whatever is written.  e is as written, a copy with its whole
   scope, gone after the call; it calls no functions.  arg: that of mr_amp_add_fn.  Asked once for
   each equation in a transform; must give the same for the same.  If the op does not take what is
   asked, e stays as written.  A product of narrow operands sums in f32 and gives the dtype that it
   has as written, f32 after f32. */
typedef void mr_amp_own_fn(void *arg, const mr_eqn_t *e, mr_dtype_t *want);

#define MR_AMP_ROWS 48
#define MR_AMP_NAME 96

/* name: the name of an op ("exp"), or a part of a scope: one component or several that follow each
   other ("attn", "encoder_blocks.0").  Components are separated by "/" or ".".  The scope of an
   equation in a function that is called begins with the scope of the call. */
typedef struct mr_amp_row {
  char name[MR_AMP_NAME];
  mr_amp_rule_t rule;
  bool asked;         /* by mr_amp_add_text: mr_amp_unmatched looks for it */
  mr_amp_own_fn *own; /* of MR_AMP_OWN; not NULL */
  void *arg;
} mr_amp_row_t;

/* A plain value; nothing in it is owned.  Of several rows that match an equation's scope the
   outermost part wins, then the longer name, then the later row; a row that names a scope outranks
   one that names an op. */
typedef struct mr_amp_policy {
  const char *name;     /* static, "usual": said by mr_amp_row_text; NULL: "own" */
  mr_dtype_t compute;   /* MR_BF16 or MR_F16 */
  mr_amp_rule_t others; /* of an equation that no row names; not MR_AMP_OWN */
  /* Functions that equations call are rewritten too.  jit and checkpoint pass values on in the
     dtype they have; of all others (scan, while, cond, custom rules) inputs and outputs keep their
     dtypes. */
  bool enters;
  bool reuses; /* one conversion for each value and dtype; false: one for each use, as jaxamp */
  int n_rows;
  mr_amp_row_t row[MR_AMP_ROWS];
} mr_amp_policy_t;

/* The policy of training here: every op by its own class; scope amp_stop original; enters, reuses.
   Cannot fail. */
mr_amp_policy_t mr_amp_usual(mr_dtype_t compute);
/* jaxamp's default_amp_policy: add, sub, dot_general, conv_general_dilated compute; exp, log, mul,
   div f32; all else and scope amp_stop original; functions that are called run as written.  jaxamp
   knows primitives alone: composites of this tree (linear, gelu, layer_norm ...) run original.
   Cannot fail. */
mr_amp_policy_t mr_amp_jaxamp(mr_dtype_t compute);
/* No rows, everything as is: a start for a policy of one's own.  Cannot fail. */
mr_amp_policy_t mr_amp_empty(mr_dtype_t compute);
/* Appends the row name = rule.  MR_ERR_CONFIG with the sentence in diag for an empty or too long
   name, for MR_AMP_OWN, and beyond MR_AMP_ROWS rows. */
mr_err_t mr_amp_add(mr_amp_policy_t *p, const char *name, mr_amp_rule_t rule, mr_diag_t *diag);
/* Appends the row name = own(arg, ...); arg must live as long as p is used.  MR_ERR_CONFIG for a
   NULL own, an empty or too long name, and beyond MR_AMP_ROWS rows. */
mr_err_t mr_amp_add_fn(mr_amp_policy_t *p, const char *name, mr_amp_own_fn *own, void *arg,
                       mr_diag_t *diag);
/* Appends the rows of a text, "head=f32, attn=compute, exp=original".  MR_ERR_CONFIG as
   mr_amp_add, and for what is not NAME=RULE; p then holds the rows before it. */
mr_err_t mr_amp_add_text(mr_amp_policy_t *p, const char *text, mr_diag_t *diag);

/* Writes into text[0,size) which row of p decides what happens to e, whose whole scope is `scope`
   (e->scope, or what mr_scope_within makes of it in a function that is called), and returns text:
   "amp-rule head=f32" for a row of mr_amp_add_text, "amp=jaxamp, mul=f32" for one of the policy's
   own, "amp=usual, others=class" if no row names e, and "amp=usual, calls=original" for an equation
   that calls functions.  Cut if it does not fit; size >= 1.  Cannot fail. */
const char *mr_amp_row_text(const mr_amp_policy_t *p, const mr_eqn_t *e, const char *scope,
                            char *text, size_t size);

/* Returns the first row of p from mr_amp_add_text that decides for no equation: it matches none of
   f and, if p enters functions, of those that f calls, by the whole scope.  Its name is likely
   misspelled.  The row belongs to p.  NULL if every row matches. */
const mr_amp_row_t *mr_amp_unmatched(const mr_amp_policy_t *p, const mr_fn_t *f);

/* Calls take for each equation e of f, or of the functions that it calls, for which row, one from
   mr_amp_add_text, asks compute, although its op neither takes p->compute nor can give it: e stays
   as it is written.  take gets a copy of e with the whole scope, gone after the call.  f: as
   written, in f32.  Without memory some may be missing. */
typedef void mr_amp_unfit_fn(void *arg, const mr_amp_row_t *row, const mr_eqn_t *e);
void mr_amp_each_unfit(const mr_amp_policy_t *p, const mr_fn_t *f, mr_amp_unfit_fn *take,
                       void *arg);

/* Equations that follow in f keep the dtypes as written (scope amp_stop), under policies that have
   that row.  Returns the outer scope, for mr_scope_leave; it lives as long as f. */
const char *mr_amp_stop(mr_fn_t *f);

/* *out: f under the policy, with f's inputs, and outputs converted back to f's dtypes; the caller
   destroys it; f stays as it was.  Before or after grad, vmap and the other transforms.
   MR_ERR_CONFIG for a compute dtype that is neither bf16 nor f16 and for a rule MR_AMP_OWN without
   a function, of a row or of the others; MR_ERR_NOMEM; no *out then. */
mr_err_t mr_amp(const mr_fn_t *f, const mr_amp_policy_t *policy, mr_fn_t **out, mr_diag_t *diag);
/* The same, with the same failures, and now[f->n_var], by the ids of f's vars: the dtype that each
   has in *out, or, of an input that all its readers convert, the dtype that they read. */
mr_err_t mr_amp_dtypes(const mr_fn_t *f, const mr_amp_policy_t *policy, mr_dtype_t *now,
                       mr_fn_t **out, mr_diag_t *diag);

MR_END_DECLS

#endif
