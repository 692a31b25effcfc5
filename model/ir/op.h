/* An op and all its rules in one constant.  A transform asks the rule; none looks at names.

   "Has none" is written: mr_no_jvp and its sisters fail with the op's name.  NULL is a forgotten
   rule, and the table test says so. */
#ifndef MR_MODEL_IR_OP_H
#define MR_MODEL_IR_OP_H

#include "base/decls.h"
#include "model/ir/fn.h"
#include "model/ir/unit.h"

MR_BEGIN_DECLS

#define MR_INPLACE_OUT 4 /* outputs that may take an operand's memory */

/* What mixed precision does with an op. */
typedef enum mr_amp {
  MR_AMP_FOLLOW, /* computes in the dtype of its inputs */
  MR_AMP_NARROW, /* bf16 is safe and faster: products */
  MR_AMP_WIDE    /* keep f32: reductions, losses, optimizers */
} mr_amp_t;

/* What an op is to a backend. */
typedef enum mr_op_kind {
  MR_OP_KERNEL,      /* backends have a rule for it of their own */
  MR_OP_ELEMENTWISE, /* `at` says what it computes */
  MR_OP_ALIAS,       /* the result has the bytes of operand 0: no memory, no call */
  MR_OP_CALL         /* written as what its open rule says before a graph is lowered */
} mr_op_kind_t;

/* A value in vmap: var, and which of its dimensions is mapped (-1: none). */
typedef struct mr_batched {
  mr_var_t *var;
  int axis;
} mr_batched_t;

/* What an elementwise op computes for one element: in f32 for f32 and bf16, in f64, in 64-bit
   integers (wrapped to the width of the result) for integers and bool.  f1, d1, i1 for one
   operand, f2, d2, i2 for two; NULL: not for such dtypes.  u1, u2: what u64 is given in place of i1
   and i2, whose sign it has not, where that matters.  Bool is taken by ops that say so alone, as in
   jax. */
typedef struct mr_pointwise {
  float (*f1)(float x);
  double (*d1)(double x);
  int64_t (*i1)(int64_t x);
  float (*f2)(float a, float b);
  double (*d2)(double a, double b);
  int64_t (*i2)(int64_t a, int64_t b);
  uint64_t (*u1)(uint64_t x);
  uint64_t (*u2)(uint64_t a, uint64_t b);
  bool bools;
} mr_pointwise_t;

/* A view: a slice or a transposition.  op(x) seen through one may be the op on views of its
   operands; the pass transforms/sink.c asks. */
typedef struct mr_view {
  int ndim; /* 0: the operand as it is */
  bool transposes;
  int64_t start[MR_MAX_NDIM], limit[MR_MAX_NDIM]; /* of a slice */
  int perm[MR_MAX_NDIM];                          /* dimension i of the view is perm[i] */
} mr_view_t;

/* v: of e's output 0.  Fills the zeroed in[e->n_in]; false: e lets no such view through. */
typedef bool mr_view_rule(const mr_eqn_t *e, const mr_view_t *v, mr_view_t *in);
/* e on views of its operands, appended to f; NULL in the op's table: with e's own attributes. */
typedef mr_var_t *mr_viewed_fn(mr_fn_t *f, const mr_eqn_t *e, const mr_view_t *v,
                               mr_var_t *const *in);

#define MR_SAMPLE_IN 8

/* A graph that shows one op at work, with the range its inputs' values are drawn from: what tests
   of all ops run on. */
typedef struct mr_sample {
  mr_fn_t *f;
  double lo[MR_SAMPLE_IN], hi[MR_SAMPLE_IN];
} mr_sample_t;

struct mr_call; /* exec/call.h */

/* How one backend lowers an op that it does not know itself. */
typedef struct mr_op_lower {
  const char *backend; /* its name */
  mr_err_t (*lower)(struct mr_call *c, mr_diag_t *diag);
} mr_op_lower_t;

struct mr_op_def {
  const char *name;
  int n_in, n_out; /* -1: varies */
  /* Settles out[e->n_out] from the avals of e->in; the sentence names op and shapes. */
  mr_err_t (*shape)(const mr_eqn_t *e, mr_aval_t *out, mr_diag_t *diag);
  /* The three that follow may answer MR_OPEN and have written nothing: the transform then takes e
     as its open rule writes it, and goes through that. */
  /* Tangents: din[n_in] (NULL: zero) -> dout[n_out], emitted into f, where e itself stands. */
  mr_err_t (*jvp)(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *din, mr_var_t **dout);
  /* Cotangents: dout[n_out] (NULL: zero) -> din[n_in], zeroed before (NULL: zero), in f. */
  mr_err_t (*vjp)(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *dout, mr_var_t **din);
  mr_err_t (*batch)(mr_fn_t *f, const mr_eqn_t *e, const mr_batched_t *in, mr_batched_t *out);
  /* out[n_out]: which results may have a tangent when the operands in[n_in] have one, of an op that
     calls functions.  NULL: every result of floats, if an operand has one (mr__eqn_moves). */
  void (*reach)(const mr_eqn_t *e, const bool *in, bool *out);
  /* What becomes of e where reverse mode goes through it, of an op whose vjp rule changes what runs
     forth, or that calls functions in which such ops may be: the sweep asks it where no cotangent
     comes, and such a vjp rule asks itself.  NULL: e stays. */
  mr_err_t (*spend)(mr_fn_t *f, mr_eqn_t *e);
  /* Whether that has been done and e now stands for its open form, which a transform writes in its
     place at its end.  NULL: never. */
  bool (*spent)(const mr_eqn_t *e);
  /* A composite as primitives; a primitive says mr_no_open. */
  mr_err_t (*open)(mr_fn_t *f, const mr_eqn_t *e, mr_var_t **out);
  /* Builds example k = 0, 1, ... in the empty s->f, with outputs set; false: there is no such
     (see sample.h).  Ranges keep clear of kinks and poles. */
  bool (*sample)(const mr_op_def_t *op, mr_sample_t *s, int k);
  mr_op_kind_t kind;
  /* Of a KERNEL from outside this tree: its rule for each backend that can run it, ends at {0}.
     Backends have rules of their own for the ops of the table; NULL. */
  const mr_op_lower_t *lower;
  mr_amp_t amp;
  bool product;      /* a product of matrices, or made of such: what `precision` is asked of */
  mr_pointwise_t at; /* of ELEMENTWISE */
  /* What its loop over elements is, of the ops that fusion can join; NULL for every other op. */
  mr_unit_rule *unit;
  /* How it lets slices and transpositions through; NULL: it does not (ops/view.h). */
  mr_view_rule *view;
  mr_viewed_fn *viewed;
  /* Bit k of inplace[o]: output o may take the memory of input k (same bytes). */
  uint8_t inplace[MR_INPLACE_OUT];
  /* Whether output o of e may take operand k's memory; NULL: inplace says it all. */
  bool (*reuses)(const mr_eqn_t *e, int k, int o);
  bool widens; /* output 0 may be asked in f32 by the attribute preferred_element_type */
  bool cheap;  /* rather computed twice than kept: one pass over its operands */
  bool mixes;  /* with the same attribute, it takes bf16 beside f32 */
  /* For mr_cost_of: arithmetic of a matrix product, NULL for every other op; else how much an
     element of the largest operand costs, 0 meaning one operation; or nothing, as it only moves. */
  double (*flop)(const mr_eqn_t *e);
  double flop_each;
  /* Or what the ops of the function in this attribute cost; NULL: it calls none. */
  const char *body;
  bool moves;
  bool own_rule;     /* its derivatives are not those of its open form: an author has given them */
  bool shares_names; /* its function is printed with the names of the values around it */
  bool draws;        /* by key, as its attribute partitionable says if it has one (key.h) */
  bool collective;   /* speaks over the mapped axis that its attribute axis_name names */
};

/* "scope: op in0 in1 ...: why (axes=(1,))" with the inputs' avals and the attributes that are
   numbers; returns MR_ERR_SHAPE. */
mr_err_t mr_shape_fail(const mr_eqn_t *e, mr_diag_t *diag, const char *why);

MR_END_DECLS

#endif
