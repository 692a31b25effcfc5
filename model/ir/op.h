/* An op and all its rules in one constant.  A transform calls the rules; it never tests names.

   A missing rule is written out: mr_no_jvp and the like fail with the op's name.  NULL is a
   forgotten rule, and the table test reports it. */
#ifndef MR_MODEL_IR_OP_H
#define MR_MODEL_IR_OP_H

#include "base/decls.h"
#include "model/ir/fn.h"
#include "model/ir/shard.h"
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
  MR_OP_ELEMENTWISE, /* `cpu` and `device` compute one element */
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
struct mr_side; /* ops/operands.h */

/* How one backend lowers an op from outside this tree. */
typedef struct mr_op_lower {
  const char *backend; /* name of the backend */
  mr_err_t (*lower)(struct mr_call *c, mr_diag_t *diag);
} mr_op_lower_t;

/* Derivatives.  jvp and vjp return MR_OK, a failure that they left in f->diag, or MR_OPEN, having
   written nothing: the transform then goes through e's open form.  They append to f; their results
   belong to f. */
typedef struct mr_op_ad {
  /* Tangents: din[n_in] (NULL: zero) -> dout[n_out] (NULL: zero); e is an equation of f. */
  mr_err_t (*jvp)(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *din, mr_var_t **dout);
  /* Cotangents: dout[n_out] (NULL: zero) -> din[n_in], zeroed before (NULL: zero); e is an equation
     of f. */
  mr_err_t (*vjp)(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *dout, mr_var_t **din);
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
  bool own_rule; /* its author gave derivatives that differ from those of its open form */
} mr_op_ad_t;

/* What passes may do with it. */
typedef struct mr_op_fuse {
  /* Describes its loop over elements, for ops that fusion can join; NULL for every other op. */
  mr_unit_rule *unit;
  /* How slices and transpositions of its result become views of its operands (ops/rules.h); NULL:
     they do not. */
  mr_view_rule *view;
  mr_viewed_fn *viewed;
  /* For an op that is itself a view of operand 0: sets the zeroed *v; false if this one is none. */
  bool (*is_view)(const mr_eqn_t *e, mr_view_t *v);
  /* For a product of operands 0 and 1, whose result has the batch dimensions, then the free ones of
     either: sets their dimensions.  Operand 2, if there is one, is added to each row. */
  void (*sides)(const mr_eqn_t *e, struct mr_side *a, struct mr_side *b);
  bool apart; /* its result is another value than that of an equal equation */
} mr_op_fuse_t;

/* Which operands' memory its results may take. */
typedef struct mr_op_reuse {
  uint8_t
      of[MR_INPLACE_OUT]; /* bit k of of[o]: output o that of input k, if both have as many bytes */
  /* Whether output o of e may take operand k's memory; NULL: `of` alone decides. */
  bool (*may)(const mr_eqn_t *e, int k, int o);
  bool any; /* `may` also decides about operands and outputs that `of` has no bit for */
} mr_op_reuse_t;

/* Its dtypes under mixed precision. */
typedef struct mr_op_amp {
  mr_amp_t how;
  bool widens;  /* attribute preferred_element_type can make output 0 f32 */
  bool mixes;   /* with that attribute, it takes bf16 or f16 beside f32 */
  bool narrows; /* computes in f32 and rounds output 0 to the dtype its attribute says */
  bool passes;  /* a call whose operands and results have whatever dtypes its function has */
} mr_op_amp_t;

/* What it costs.  For mr_cost_of, the first that is set of: flop, operations of a matrix product
   (NULL for every other op); body, the attribute with the function whose ops are counted; moves, no
   arithmetic, as the op only moves elements; each, operations for each element of the largest
   operand or result, 0 meaning one. */
typedef struct mr_op_cost {
  double (*flop)(const mr_eqn_t *e);
  const char *body;
  bool moves;
  double each;
  bool product;   /* a product of matrices, or made of products: takes attribute precision */
  bool cheap;     /* cheaper to compute twice than to keep: one pass over its operands */
  bool unbounded; /* calls its functions a number of times that is not known before */
} mr_op_cost_t;

/* For ELEMENTWISE: the device's formula of operands a and b, an expression in the language of
   kernels (backends/kernels) with the functions of their prelude, computed in the type T.  It must
   give what `cpu` does, but for the last bits of functions such as exp. */
typedef struct mr_op_device {
  const char *real;  /* for floats; NULL: not for them */
  const char *f64;   /* for f64 alone; NULL: real */
  const char *whole; /* for integers and bool; NULL: not for them */
} mr_op_device_t;

struct mr_op_def {
  const char *name;
  int n_in, n_out; /* -1: varies */
  mr_op_kind_t kind;
  /* Settles out[e->n_out] from the avals of e->in.  MR_OK, or MR_ERR_SHAPE with a sentence that
     names op and shapes (mr_shape_fail). */
  mr_err_t (*shape)(const mr_eqn_t *e, mr_aval_t *out, mr_diag_t *diag);
  /* vmap: in[n_in] belong to f, at least one of them mapped; e belongs to the unmapped graph.
     Returns as ad.jvp does. */
  mr_err_t (*batch)(mr_fn_t *f, const mr_eqn_t *e, const mr_batched_t *in, mr_batched_t *out);
  /* Appends e as primitives to f and sets out[n_out]; MR_OK or the failure in f->diag.  A primitive
     has mr_no_open. */
  mr_err_t (*open)(mr_fn_t *f, const mr_eqn_t *e, mr_var_t **out);
  /* Builds example k = 0, 1, ... in the empty s->f, with outputs set, and returns true; false if k
     is past the last example (sample.h).  Ranges keep clear of kinks and poles. */
  bool (*sample)(const mr_op_def_t *op, mr_sample_t *s, int k);
  mr_op_ad_t ad;
  mr_op_fuse_t fuse;
  mr_op_reuse_t reuse;
  mr_op_amp_t amp;
  mr_op_cost_t cost;
  mr_pointwise_t cpu;    /* for ELEMENTWISE: one element, in C */
  mr_op_device_t device; /* for ELEMENTWISE: the same, as text */
  mr_op_shard_t shard;   /* how it may be cut over several devices */
  /* For a KERNEL from outside this tree: its rule for each backend that can run it, ending at {0}.
     NULL for the ops of the table, for which backends have their own rules. */
  const mr_op_lower_t *lower;
  /* What its attributes mean. */
  bool shares_names; /* its function is printed with the names of the values around it */
  bool draws;        /* draws by key, in the layout of its attribute partitionable (ops/random.c) */
  bool collective;   /* communicates over the mapped axis named by its attribute axis_name */
};

/* The attribute of a collective in one of several graphs that differ: its number among those of
   its graph. */
#define MR_TURN "turn"
/* Whether another rank waits for e, of a graph that is not this one: e stays although nothing may
   read its result. */
bool mr_eqn_is_awaited(const mr_eqn_t *e);

/* Writes "scope: op in0 in1 ...: why (axes=(1,))" into diag, with the inputs' avals and the
   attributes that are numbers, and returns MR_ERR_SHAPE.  For shape rules; diag may be NULL. */
mr_err_t mr_shape_fail(const mr_eqn_t *e, mr_diag_t *diag, const char *why);

MR_END_DECLS

#endif
