/* An op and all its rules in one constant.  A transform calls the rules; it never tests names.

   A missing rule is written out: mr_no_jvp and the like fail with the op's name.  NULL is a
   forgotten rule, and the table test reports it. */
#ifndef MR_MODEL_IR_OP_H
#define MR_MODEL_IR_OP_H

#include "base/decls.h"
#include "model/ir/fn.h"
#include "model/ir/unit.h"

MR_BEGIN_DECLS

#define MR_INPLACE_OUT 4 /* outputs that may take an operand's memory */
#define MR_INPLACE_IN 8  /* operands whose memory they may take */

/* What mixed precision does with an op. */
typedef enum mr_amp {
  MR_AMP_FOLLOW, /* computes in the dtype of its inputs */
  MR_AMP_NARROW, /* may compute in bf16, which is safe and faster: products */
  MR_AMP_WIDE    /* stays in f32: reductions, losses, optimizers */
} mr_amp_t;

/* How a backend treats an op. */
typedef enum mr_op_kind {
  MR_OP_KERNEL,      /* each backend has its own rule for it */
  MR_OP_ELEMENTWISE, /* `at` computes one element */
  MR_OP_ALIAS,       /* the result has the bytes of operand 0: no memory, no call */
  MR_OP_CALL         /* replaced by its open form before a graph is lowered */
} mr_op_kind_t;

/* A value in vmap: var, and its mapped dimension (-1: none). */
typedef struct mr_batched {
  mr_var_t *var;
  int axis;
} mr_batched_t;

/* An elementwise op on one element: f computes f32, bf16 and f16 in f32, d f64, i integers and bool
   in 64 bits, wrapped to the width of the result.  f1, d1, i1 are for one operand, f2, d2, i2 for
   two; NULL: the op does not take those dtypes.  u1, u2: used for u64 in place of i1 and i2 where
   the sign matters.  Only ops with `bools` take bool, as in jax. */
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

/* A view: a slice or a transposition.  A view of op(x) may equal the op on views of its operands;
   the pass transforms/sink.c uses that. */
typedef struct mr_view {
  int ndim; /* 0: the operand as it is */
  bool transposes;
  int64_t start[MR_MAX_NDIM], limit[MR_MAX_NDIM]; /* of a slice */
  int perm[MR_MAX_NDIM];                          /* dimension i of the view is perm[i] */
} mr_view_t;

/* v: a view of e's output 0.  Fills the zeroed in[e->n_in] with the operands' views and returns
   true; false if that view of e is not e on views of its operands. */
typedef bool mr_view_rule(const mr_eqn_t *e, const mr_view_t *v, mr_view_t *in);
/* Appends e on the viewed operands in[e->n_in] to f and returns its result, owned by f; NULL on
   failure.  A NULL rule in the op's constant: e with its own attributes on in. */
typedef mr_var_t *mr_viewed_fn(mr_fn_t *f, const mr_eqn_t *e, const mr_view_t *v,
                               mr_var_t *const *in);

#define MR_SAMPLE_IN 8

/* A graph that uses one op, and the ranges [lo,hi] from which its inputs' values are drawn.  The
   tests of all ops run such graphs. */
typedef struct mr_sample {
  mr_fn_t *f;
  double lo[MR_SAMPLE_IN], hi[MR_SAMPLE_IN];
} mr_sample_t;

struct mr_call; /* exec/call.h */

/* How one backend lowers an op from outside this tree. */
typedef struct mr_op_lower {
  const char *backend; /* name of the backend */
  mr_err_t (*lower)(struct mr_call *c, mr_diag_t *diag);
} mr_op_lower_t;

struct mr_op_def {
  const char *name;
  int n_in, n_out; /* -1: varies */
  /* Settles out[e->n_out] from the avals of e->in.  MR_OK, or MR_ERR_SHAPE with a sentence that
     names op and shapes (mr_shape_fail). */
  mr_err_t (*shape)(const mr_eqn_t *e, mr_aval_t *out, mr_diag_t *diag);
  /* The three that follow return MR_OK, a failure that they left in f->diag, or MR_OPEN, having
     written nothing: the transform then goes through e's open form.  They append to f; their
     results belong to f. */
  /* jvp, tangents: din[n_in] (NULL: zero) -> dout[n_out] (NULL: zero); e is an equation of f. */
  mr_err_t (*jvp)(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *din, mr_var_t **dout);
  /* vjp, cotangents: dout[n_out] (NULL: zero) -> din[n_in], zeroed before (NULL: zero); e is an
     equation of f. */
  mr_err_t (*vjp)(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *dout, mr_var_t **din);
  /* batch: in[n_in] belong to f, at least one of them mapped; e belongs to the unmapped graph. */
  mr_err_t (*batch)(mr_fn_t *f, const mr_eqn_t *e, const mr_batched_t *in, mr_batched_t *out);
  /* For ops that call functions: sets out[n_out] to whether a result may have a tangent when the
     operands in[n_in] have one.  NULL: every result of floats may, if any operand has a tangent
     (mr__eqn_moves). */
  void (*reach)(const mr_eqn_t *e, const bool *in, bool *out);
  /* For ops whose vjp rule rewrites the forward equation, and ops that call functions with such
     ops: rewrites e as its vjp rule would, when no cotangent reaches it; the vjp rule calls it too.
     Returns MR_OK or the failure in f->diag.  NULL: e stays. */
  mr_err_t (*spend)(mr_fn_t *f, mr_eqn_t *e);
  /* Whether e has been rewritten so that its open form must replace it when the transform ends
     (mr__open_spent).  NULL: never. */
  bool (*spent)(const mr_eqn_t *e);
  /* Appends e as primitives to f and sets out[n_out]; MR_OK or the failure in f->diag.  A primitive
     has mr_no_open. */
  mr_err_t (*open)(mr_fn_t *f, const mr_eqn_t *e, mr_var_t **out);
  /* Builds example k = 0, 1, ... in the empty s->f, with outputs set, and returns true; false if k
     is past the last example (sample.h).  Ranges keep clear of kinks and poles. */
  bool (*sample)(const mr_op_def_t *op, mr_sample_t *s, int k);
  mr_op_kind_t kind;
  /* For a KERNEL from outside this tree: its rule for each backend that can run it, ending at {0}.
     NULL for the ops of the table, for which backends have their own rules. */
  const mr_op_lower_t *lower;
  mr_amp_t amp;
  bool product;      /* a product of matrices, or made of products: takes attribute precision */
  mr_pointwise_t at; /* for ELEMENTWISE */
  /* Describes its loop over elements, for ops that fusion can join; NULL for every other op. */
  mr_unit_rule *unit;
  /* How slices and transpositions of its result become views of its operands (ops/rules.h); NULL:
     they do not. */
  mr_view_rule *view;
  mr_viewed_fn *viewed;
  /* Bit k of inplace[o]: output o may take the memory of input k, if both have as many bytes. */
  uint8_t inplace[MR_INPLACE_OUT];
  /* Whether output o of e may take operand k's memory; NULL: inplace alone decides. */
  bool (*reuses)(const mr_eqn_t *e, int k, int o);
  bool
      reuses_any; /* `reuses` also decides about operands and outputs that inplace has no bit for */
  bool widens;    /* attribute preferred_element_type can make output 0 f32 */
  bool cheap;     /* cheaper to compute twice than to keep: one pass over its operands */
  bool mixes;     /* with that attribute, it takes bf16 or f16 beside f32 */
  bool narrows;   /* computes in f32 and rounds output 0 to the dtype its attribute says */
  bool passes;    /* a call whose operands and results have whatever dtypes its function has */
  /* For mr_cost_of, the first of these that is set: flop, operations of a matrix product (NULL for
     every other op); body, the attribute with the function whose ops are counted; moves, no
     arithmetic, as the op only moves elements; flop_each, operations for each element of the
     largest operand or result, 0 meaning one. */
  double (*flop)(const mr_eqn_t *e);
  double flop_each;
  const char *body;
  bool moves;
  bool own_rule;     /* its author gave derivatives that differ from those of its open form */
  bool shares_names; /* its function is printed with the names of the values around it */
  bool draws;        /* draws by key, in the layout of its attribute partitionable (ops/random.c) */
  bool collective;   /* communicates over the mapped axis named by its attribute axis_name */
};

/* Writes "scope: op in0 in1 ...: why (axes=(1,))" into diag, with the inputs' avals and the
   attributes that are numbers, and returns MR_ERR_SHAPE.  For shape rules; diag may be NULL. */
mr_err_t mr_shape_fail(const mr_eqn_t *e, mr_diag_t *diag, const char *why);

MR_END_DECLS

#endif
