/* The tensor graph: a function as a list of equations over values that are assigned once (SSA),
   in the manner of a jaxpr.

   A fn owns everything in it (vars, eqns, attributes, names, copies of the functions that it
   calls): every pointer that is returned here lives until mr_fn_destroy, unless its line says
   otherwise.  A fn has failed once f->diag holds a sentence.  A call that fails leaves its sentence
   there and returns NULL; mr_emit on a failed fn or with a NULL operand returns NULL too, so that a
   builder checks f->diag once, at its end.  Codes: MR_ERR_SHAPE for shapes, dtypes and counts that
   do not fit, MR_ERR_NOMEM without memory for the graph's description.  Nothing blocks.  One thread
   at a time for one fn.

   fn.c implements this header, but for print.c (mr_fn_print, mr_fn_text, mr_fn_each_text), dot.c
   (mr_fn_dot) and inline.c (mr_inline, mr_fn_copy, mr__mapped, mr__copy_eqn). Source: the notation
   and its rules are jax's jaxprs. */
#ifndef MR_MODEL_IR_FN_H
#define MR_MODEL_IR_FN_H

#include "base/decls.h"
#include "base/err.h"
#include "model/ir/attr.h"
#include "model/ir/aval.h"
#include "model/ir/mem.h"

MR_BEGIN_DECLS

typedef struct mr_op_def mr_op_def_t;
typedef struct mr_eqn mr_eqn_t;

typedef struct mr_var {
  mr_aval_t aval;
  mr_eqn_t *def;          /* the equation that assigns it; NULL: an input or a literal */
  int id;                 /* in [0,f->n_var): index into side tables */
  const struct mr_fn *fn; /* f, the function that it belongs to */
  bool literal;
  double value;  /* of a literal, already rounded to its dtype */
  int64_t whole; /* of a literal of an integer dtype or bool: its bits, which value may round */
  bool live;     /* mr_dce's own mark */
} mr_var_t;

struct mr_eqn {
  const mr_op_def_t *op;
  int n_in, n_out, n_attr;
  mr_var_t **in, **out;
  mr_attr_t *attr;       /* sorted by name */
  const char *scope;     /* "vit/encoder_blocks.0/attn", "" outside any scope; of an equation in a
                            function that is called: within the scope of its call */
  const char *by;        /* static: the transform or pass that wrote it, "" for a builder */
  const mr_op_def_t *of; /* op of the equation that it was written for, or NULL */
  const char *row; /* of a conversion by mr_amp, and of what transforms make of it: the policy's row
                      that asked for it (mr_amp_row_text); else NULL */
};

typedef struct mr_fn {
  mr_diag_t diag;
  int n_in, n_out, n_eqn, n_var;
  mr_var_t **in, **out;
  mr_eqn_t **eqn; /* [n_eqn], each after those that compute its operands */
  const char *scope;
  mr_precision_t precision; /* given to appended products that have none of their own */
  mr_key_layout_t keys;     /* of draws that are appended */
  const char *by;           /* for appended equations, as are `of` and `row`: see mr_eqn */
  const mr_op_def_t *of;
  const char *row;
  mr_mem_t mem;
  int cap_in, cap_eqn;
  struct mr_fn **child; /* [n_child] the functions that its equations call */
  int n_child, cap_child;
  /* During a reverse sweep: by var id in [0,n_wanted), whether the var's cotangent is needed. Those
     of newer vars are (mr__wants, build.h). */
  const bool *wanted;
  int n_wanted;
  const char *axis_name; /* of the dimension that vmap is mapping into this graph, or NULL */
  int64_t axis_size;
  bool of_reserve; /* f itself is memory of the reserve (mem.h) */
} mr_fn_t;

/* Returns an empty fn, which the caller destroys.  Without memory it returns one that has failed
   with MR_ERR_NOMEM; NULL only if the reserve (mem.h) is used up too. */
mr_fn_t *mr_fn_create(void);
void mr_fn_destroy(mr_fn_t *f); /* NULL is fine */

/* Appends an input and returns it, a var that belongs to f, also if f has failed before.  NULL,
   with a sentence, if mr_aval_wrong(aval) or without memory. */
mr_var_t *mr_fn_input(mr_fn_t *f, mr_aval_t aval);
/* Sets the outputs to a copy of out[n], n >= 0, in place of earlier ones.  MR_ERR_SHAPE if one is
   NULL or of another fn, f's earlier failure if it has one, MR_ERR_NOMEM. */
mr_err_t mr_fn_return(mr_fn_t *f, int n, mr_var_t *const *out);

/* Each returns a new constant scalar of dtype, which belongs to f, also if f has failed before;
   NULL only if the reserve (mem.h) is used up.
   mr_literal: value is rounded to a narrow float; an integer dtype must hold it exactly.
   mr_literal_whole: exact, of an integer dtype or bool; bits are the number's, for u64 too.
   mr_literal_like: the number of literal v, which may belong to another fn. */
mr_var_t *mr_literal(mr_fn_t *f, mr_dtype_t dtype, double value);
mr_var_t *mr_literal_whole(mr_fn_t *f, mr_dtype_t dtype, int64_t bits);
mr_var_t *mr_literal_like(mr_fn_t *f, mr_dtype_t dtype, const mr_var_t *v);
/* Whether both are literals of one dtype and number, compared by bits: -0 is not 0. */
bool mr_literal_same(const mr_var_t *a, const mr_var_t *b);

/* Appends an equation, settles its outputs by the op's shape rule and returns it; f owns it.  in
   and attr are copied, and so are functions that attributes hold; names and texts of attributes are
   not.  n_out is the op's number of outputs, or the caller's choice where that varies.  NULL if f
   has failed before, if an operand is NULL or of another fn, if counts or the shape rule refuse,
   and without memory; f has then failed. */
mr_eqn_t *mr_emit(mr_fn_t *f, const mr_op_def_t *op, int n_in, mr_var_t *const *in, int n_attr,
                  const mr_attr_t *attr, int n_out);
/* mr_emit for an op with one output; returns that output, owned by f, or NULL on failure. */
mr_var_t *mr_emit1(mr_fn_t *f, const mr_op_def_t *op, int n_in, mr_var_t *const *in, int n_attr,
                   const mr_attr_t *attr);

/* mr_emit with e's op and scope and copies of its attributes, texts included, on in[e->n_in]; e may
   belong to another fn.  Returns the new equation, owned by f; NULL on mr_emit's failures. */
mr_eqn_t *mr_emit_like(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *in);

/* Equations that follow carry the scope "outer/name"; name is copied.  Returns the outer scope, for
   mr_scope_leave; it lives as long as f.  Without memory f fails.  Source:
   jax.named_scope. */
const char *mr_scope_enter(mr_fn_t *f, const char *name);
/* outer: what the matching mr_scope_enter returned. */
void mr_scope_leave(mr_fn_t *f, const char *outer);

/* Returns the whole scope of an equation with scope `inner` in a function that an equation with
   scope `outer` calls: "outer/inner", which belongs to m; or inner or outer itself where the other
   adds nothing: it is empty, or inner begins with outer's components, since a function that was
   traced within outer may have it already.  NULL only as mr_mem_take. */
const char *mr_scope_within(mr_mem_t *m, const char *outer, const char *inner);

/* Products that follow are computed with precision p instead of the process's default
   (defaults.h); it is printed as their attribute precision.  Returns the precision until now, for
   mr_precision_leave; cannot fail.  Source: jax.default_matmul_precision. */
mr_precision_t mr_precision_enter(mr_fn_t *f, mr_precision_t p);
void mr_precision_leave(mr_fn_t *f, mr_precision_t outer);
/* Returns e's attribute precision; MR_PRECISION_NONE if it has none. */
mr_precision_t mr_precision_of(const mr_eqn_t *e);

/* Draws by key that follow use this layout instead of the process's default (defaults.h);
   MR_KEY_ORIGINAL is printed as partitionable=False.  Returns the layout until now, for
   mr_key_layout_leave; cannot fail. */
mr_key_layout_t mr_key_layout_enter(mr_fn_t *f, mr_key_layout_t layout);
void mr_key_layout_leave(mr_fn_t *f, mr_key_layout_t outer);

/* The fields of f that appended equations take over. */
typedef struct mr_origin {
  const char *scope, *by;
  mr_precision_t precision;
  const mr_op_def_t *of;
  const char *row;
} mr_origin_t;
/* Returns those fields, whose texts f or the program keeps; mr_origin_set sets them again. */
mr_origin_t mr_origin(const mr_fn_t *f);
void mr_origin_set(mr_fn_t *f, mr_origin_t s);
/* Marks what follows as written for e by the transform or pass `by`, a static text: equations take
   e's scope and row, texts that must live as long as f, and products take e's precision. */
void mr_origin_from(mr_fn_t *f, const mr_eqn_t *e, const char *by);

/* Returns e's attribute of that name, which belongs to e and stays valid until an attribute is
   added to e (mr_attr_set).  find: NULL if e has none.  get: e must have it (asserted). */
const mr_attr_t *mr_attr_find(const mr_eqn_t *e, const char *name);
const mr_attr_t *mr_attr_get(const mr_eqn_t *e, const char *name);
/* Sets e's attribute of attr.name, or adds it; e is an equation of f.  Name, text and functions are
   borrowed, not copied.  Without memory e stays as it is and f fails. */
void mr_attr_set(mr_fn_t *f, mr_eqn_t *e, mr_attr_t attr);

/* Replaces the functions in e's attribute of attr.name by copies of those in attr, and appends
   outputs of the avals more[n] to e's own: what the new functions return beyond the old ones.  For
   rules that keep values for later.  Returns MR_OK, or the failure that it left in f->diag. */
mr_err_t mr_eqn_widen(mr_fn_t *f, mr_eqn_t *e, mr_attr_t attr, int n, const mr_aval_t *more);

/* Returns the function in e's attribute of that name, which must be an MR_ATTR_FN (asserted).  It
   belongs to e's fn and lives as long as that. */
const mr_fn_t *mr_attr_called(const mr_eqn_t *e, const char *name);

/* Prints f as jax.make_jaxpr's result prints: names a, b, ... in order, "_" for unused results.
   mr_fn_parse (parse.h) reads it back.  Returns MR_OK, or MR_ERR_NOMEM if memory ran out and part
   of the text is missing.  Write errors are left in `to`, for the caller to check. */
mr_err_t mr_fn_print(const mr_fn_t *f, FILE *to);
/* Returns the same text on the heap, for the caller to free; NULL without memory. */
char *mr_fn_text(const mr_fn_t *f);
/* Passes the text of each of the equations [0,n), on one line and with the names that mr_fn_print
   gives, to take, which may not keep it.  Returns MR_OK, or MR_ERR_NOMEM after some of them. */
typedef void mr_eqn_text_fn(void *arg, int i, const char *text);
mr_err_t mr_fn_each_text(const mr_fn_t *f, int n, mr_eqn_text_fn *take, void *arg);

/* Prints f as a graph in DOT's language (graphviz): one box for each equation, grouped by scope,
   and the aval of each value on its edges.  Write errors are left in `to`. */
void mr_fn_dot(const mr_fn_t *f, FILE *to);

/* Appends f's equations to g, with in[f->n_in], vars of g with the avals of f's inputs, in place of
   the inputs; out[f->n_out] become the results, vars of g.  The equations' scopes lie within g's
   scope (mr_scope_within), as those of a call would.  Source: jax's eval_jaxpr.  Returns MR_OK, or
   the failure that it left in g->diag: f's own if f failed while it was traced, as in every
   transform, MR_ERR_NOMEM, or mr_emit's. */
mr_err_t mr_inline(mr_fn_t *g, const mr_fn_t *f, mr_var_t *const *in, mr_var_t **out);
/* Returns a copy of f, which the caller destroys.  NULL on mr_inline's failures, with the sentence
   in diag. */
mr_fn_t *mr_fn_copy(const mr_fn_t *f, mr_diag_t *diag);

/* map[id of another graph's var] is the var of g that takes its place.
   mr__mapped: returns map[v->id], which belongs to g.  A literal without an entry is created in g
   and entered; NULL for any other var without an entry.
   mr__copy_eqn: appends a copy of e to g on the mapped operands and enters its outputs; returns
   MR_OK or the failure in g->diag. */
mr_var_t *mr__mapped(mr_fn_t *g, mr_var_t **map, const mr_var_t *v);
mr_err_t mr__copy_eqn(mr_fn_t *g, const mr_eqn_t *e, mr_var_t **map);

MR_END_DECLS

#endif
