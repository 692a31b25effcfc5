/* The tensor graph: a function as a list of equations over values that are assigned once (SSA),
   in the manner of a jaxpr.

   A fn owns everything in it (vars, eqns, attributes, names); all of it lives until
   mr_fn_destroy.  Building never returns half a result: a call that fails leaves its sentence in
   f->diag, returns NULL, and calls that are given a NULL var return NULL too, so that a builder
   may look at f->diag once at its end.  Without memory for a graph's description it has failed in
   the same way (MR_ERR_NOMEM).  One thread at a time.  Source: the notation and its rules are jax's
   jaxprs. */
#ifndef MR_MODEL_IR_FN_H
#define MR_MODEL_IR_FN_H

#include "base/decls.h"
#include "base/err.h"
#include "model/ir/attr.h"
#include "model/ir/aval.h"
#include "model/ir/key_layout.h"
#include "model/ir/mem.h"

MR_BEGIN_DECLS

typedef struct mr_op_def mr_op_def_t;
typedef struct mr_eqn mr_eqn_t;

typedef struct mr_var {
  mr_aval_t aval;
  mr_eqn_t *def;          /* the equation that assigns it; NULL: an input or a literal */
  int id;                 /* in [0,f->n_var): index into side tables */
  const struct mr_fn *fn; /* f: the function whose value it is */
  bool literal;
  double value;  /* of a literal, already rounded to its dtype */
  int64_t whole; /* of a literal of an integer dtype or bool: its bits, which value may round */
  bool live;     /* mr_dce's own mark */
} mr_var_t;

struct mr_eqn {
  const mr_op_def_t *op;
  int n_in, n_out, n_attr;
  mr_var_t **in, **out;
  mr_attr_t *attr;   /* sorted by name */
  const char *scope; /* "vit/encoder_blocks.0/attn", "" outside any scope */
  const char *by; /* the transform or pass that wrote it, "" for what a builder did; lives as long
                     as the program */
  const mr_op_def_t *of; /* the op of the equation for which it did, or NULL */
};

typedef struct mr_fn {
  mr_diag_t diag;
  int n_in, n_out, n_eqn, n_var;
  mr_var_t **in, **out;
  mr_eqn_t **eqn; /* in an order in which they can run */
  const char *scope;
  mr_precision_t precision; /* asked of products that are appended and do not say themselves */
  mr_key_layout_t keys;     /* of draws that are appended */
  const char *by;           /* who appends, and for which op: see mr_eqn */
  const mr_op_def_t *of;
  mr_mem_t mem;
  int cap_in, cap_eqn;
  struct mr_fn **child; /* [n_child] the functions its equations call */
  int n_child, cap_child;
  /* While reverse mode sweeps: by var id, in [0,n_wanted), whose cotangents it wants; those of
     newer vars are wanted (mr__wants, build.h). */
  const bool *wanted;
  int n_wanted;
  const char *axis_name; /* of the dimension that vmap is mapping into this graph, or NULL */
  int64_t axis_size;
  bool of_reserve; /* f itself lies in the reserve (mem.h) */
} mr_fn_t;

/* Empty, of the caller.  Without memory one that has failed; NULL only if the reserve is used up.
 */
mr_fn_t *mr_fn_create(void);
void mr_fn_destroy(mr_fn_t *f); /* NULL is fine */

mr_var_t *mr_fn_input(mr_fn_t *f, mr_aval_t aval); /* appends an input; NULL: mr_aval_wrong */
/* Sets the outputs; MR_ERR_SHAPE or an earlier failure if one is NULL. */
mr_err_t mr_fn_return(mr_fn_t *f, int n, mr_var_t *const *out);

/* A constant scalar of dtype (MR_F32, MR_BF16, MR_F64, MR_I32, MR_U32, MR_BOOL); value is rounded
   to f32 and bf16 and must be one of an integer dtype's.  NULL only without memory. */
mr_var_t *mr_literal(mr_fn_t *f, mr_dtype_t dtype, double value);
/* The same of an integer dtype or bool, exactly: bits are the number's, of u64 too. */
mr_var_t *mr_literal_whole(mr_fn_t *f, mr_dtype_t dtype, int64_t bits);
/* The number of literal v, of whatever function, as a literal of f. */
mr_var_t *mr_literal_like(mr_fn_t *f, mr_dtype_t dtype, const mr_var_t *v);

/* Appends an equation and settles its outputs by the op's shape rule.  in and attr are copied.
   n_out: the op's, or for an op whose count varies, as its header says.  NULL on failure. */
mr_eqn_t *mr_emit(mr_fn_t *f, const mr_op_def_t *op, int n_in, mr_var_t *const *in, int n_attr,
                  const mr_attr_t *attr, int n_out);
/* The same for an op with one output: that output. */
mr_var_t *mr_emit1(mr_fn_t *f, const mr_op_def_t *op, int n_in, mr_var_t *const *in, int n_attr,
                   const mr_attr_t *attr);

/* The same op, attributes and scope as e, which may belong to another fn, on in[e->n_in]; NULL as
   mr_emit. */
mr_eqn_t *mr_emit_like(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *in);

/* Equations that follow carry the scope "outer/name"; name is copied.  Returns what mr_scope_leave
   takes.  Source: jax.named_scope. */
const char *mr_scope_enter(mr_fn_t *f, const char *name);
/* outer: what the mr_scope_enter that is left returned. */
void mr_scope_leave(mr_fn_t *f, const char *outer);

/* Products that follow are computed so, whatever the process's default (precision.h); printed as
   their attribute precision.  Returns what mr_precision_leave takes.  Source:
   jax.default_matmul_precision. */
mr_precision_t mr_precision_enter(mr_fn_t *f, mr_precision_t p);
void mr_precision_leave(mr_fn_t *f, mr_precision_t outer);
/* What e asks; MR_PRECISION_NONE for what is no product. */
mr_precision_t mr_precision_of(const mr_eqn_t *e);

/* Draws by key that follow are laid out so, whatever the process's default (key_layout.h); printed
   as partitionable=False where it is not jax's default.  Returns what mr_key_layout_leave takes. */
mr_key_layout_t mr_key_layout_enter(mr_fn_t *f, mr_key_layout_t layout);
void mr_key_layout_leave(mr_fn_t *f, mr_key_layout_t outer);

/* Where f stands: what equations that are appended take beside their operands. */
typedef struct mr_standing {
  const char *scope, *by;
  mr_precision_t precision;
  const mr_op_def_t *of;
} mr_standing_t;
/* Where f stands now, and back there. */
mr_standing_t mr_standing(const mr_fn_t *f);
void mr_stand(mr_fn_t *f, mr_standing_t s);
/* What follows is written `by` somebody (a text that lives as long as the program) for e: it takes
   e's scope, whose text must live as long as f, and asks e's precision. */
void mr_stand_at(mr_fn_t *f, const mr_eqn_t *e, const char *by);

const mr_attr_t *mr_attr_find(const mr_eqn_t *e, const char *name); /* NULL if it has none */
const mr_attr_t *mr_attr_get(const mr_eqn_t *e, const char *name);  /* it must have it */
/* Sets or adds an attribute of an equation of f. */
void mr_attr_set(mr_fn_t *f, mr_eqn_t *e, mr_attr_t attr);

/* Gives e, an equation of f, copies of the functions in attr for those it has under that name, and
   results more[n] after its own: what the new functions give beyond the old ones.  For rules that
   keep values for later.  A failure of copying is in f->diag too. */
mr_err_t mr_eqn_widen(mr_fn_t *f, mr_eqn_t *e, mr_attr_t attr, int n, const mr_aval_t *more);

/* The function that attribute name of e holds; e must have it. */
const mr_fn_t *mr_attr_called(const mr_eqn_t *e, const char *name);

/* Prints f as jax.make_jaxpr's result prints (names a, b, ... in order; "_" for what nobody uses);
   mr_fn_parse (parse.h) reads it back.  MR_ERR_NOMEM: memory ran out and part of the text is
   missing. Errors of `to` are the caller's to look for. */
mr_err_t mr_fn_print(const mr_fn_t *f, FILE *to);
/* The same as heap text the caller frees; NULL without memory. */
char *mr_fn_text(const mr_fn_t *f);

/* Prints f as a graph in DOT's language (graphviz): a box an equation, grouped by scope; edges
   carry shapes. */
void mr_fn_dot(const mr_fn_t *f, FILE *to);

MR_END_DECLS

#endif
