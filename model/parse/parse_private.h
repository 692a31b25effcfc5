/* The parts of the jaxpr reader: words and numbers (lex), attributes, equations, and what jax
   writes otherwise than this tree (jax). */
#ifndef MR_MODEL_PARSE_PRIVATE_H
#define MR_MODEL_PARSE_PRIVATE_H

#include "model/parse/parse.h"

#define MR_PARSE_NAME 64
/* Functions within functions: each costs stack. */
#define MR_PARSE_DEPTH 200
/* A function that `let` has named is read again where it is called, so a short text could grow
   without bound: what all such calls may cost, in bytes of their texts and a charge for each. */
#define MR_PARSE_BYTES ((size_t)1 << 26)
#define MR_PARSE_CALL 4096
#define MR_PARSE_ATTRS 32

typedef struct mr_parse_let {
  char name[MR_PARSE_NAME];
  const char *fn; /* "{ lambda ...", in the text */
} mr_parse_let_t;

typedef struct mr_parser {
  const char *text, *at;
  const char *equation; /* where the one that is emitted began */
  mr_diag_t *diag;
  int depth;
  size_t bytes; /* of the calls of named functions so far */
  mr_parse_let_t *let;
  int n_let, cap_let;
} mr_parser_t;

typedef struct mr_parse_binder {
  char name[MR_PARSE_NAME];
  mr_aval_t aval;
} mr_parse_binder_t;

/* An equation as it was read.  attr's functions are of the line until it ends. */
typedef struct mr_parse_line {
  char op[MR_PARSE_NAME];
  int n_out, cap_out, n_in, cap_in, n_attr;
  mr_parse_binder_t *out;
  mr_var_t **in;
  mr_attr_t attr[MR_PARSE_ATTRS];
} mr_parse_line_t;

/* MR_ERR_DATA "line 3: expected what". */
mr_err_t mr__parse_fail(mr_parser_t *p, const char *expected);
mr_err_t mr__parse_no_memory(mr_parser_t *p);
void mr__parse_space(mr_parser_t *p);
/* Letters, digits and '_'. */
bool mr__parse_in_name(char c);
/* Takes the word if it stands here (after white space). */
bool mr__parse_is(mr_parser_t *p, const char *word);
mr_err_t mr__parse_want(mr_parser_t *p, const char *word);
/* Of mr__parse_in_name, at least one. */
mr_err_t mr__parse_name(mr_parser_t *p, char name[MR_PARSE_NAME]);
/* "-3", "np.int64(-3)" */
mr_err_t mr__parse_int(mr_parser_t *p, int64_t *v);
mr_err_t mr__parse_aval(mr_parser_t *p, mr_aval_t *a);
/* "name:f32[3]", "_:f32[]" */
mr_err_t mr__parse_binder(mr_parser_t *p, mr_parse_binder_t *b);
/* Whether "2.0:", "-inf:", "True:" stands here: a constant, and no name of a result. */
bool mr__parse_at_literal(mr_parser_t *p);
/* "2.0:f32[]", "7:u64[]", "True:bool[]": MR_ERR_DATA too where the dtype cannot hold the number. */
mr_err_t mr__parse_literal(mr_parser_t *p, mr_fn_t *g, mr_var_t **v);
/* One "name=value" into *a, whose names and texts g owns.  What is no value of this tree's ops
   becomes a text. */
mr_err_t mr__parse_attr(mr_parser_t *p, mr_fn_t *g, mr_attr_t *a);
/* "{ lambda ... }", or the name of one that `let` has named. */
mr_err_t mr__parse_fn(mr_parser_t *p, mr_fn_t **out);
/* Whether a name that `let` has given stands here. */
const mr_parse_let_t *mr__parse_at_let(mr_parser_t *p);

mr_attr_t *mr__parse_find(mr_parse_line_t *l, const char *name); /* NULL if it has none */
/* Rewrites what jax says otherwise: operands that repeat along sizes of 1, attributes that hold
   nothing here. */
void mr__parse_jax_fit(mr_fn_t *g, mr_parse_line_t *l);
/* Emits the line if its op is one of jax's that here is written with other ops: out[n_out] and
 *done = true.  Failures are in g->diag too. */
mr_err_t mr__parse_jax(mr_parser_t *p, mr_fn_t *g, mr_parse_line_t *l, mr_var_t **out, bool *done);

#endif
