/* The parts of the parser: words and numbers (parse_lex.c), attributes (parse_attr.c), equations
   and functions (parse.c), and the ops that jax prints and this tree lacks (parse_jax.c).  A
   function that returns mr_err_t returns MR_OK, MR_ERR_DATA or MR_ERR_NOMEM, with the sentence in
   p->diag.  "Next" is the text at p->at, after white space. */
#ifndef MR_MODEL_PARSE_PRIVATE_H
#define MR_MODEL_PARSE_PRIVATE_H

#include "model/parse/parse.h"

#define MR_PARSE_NAME 64
/* The most functions within functions; each level uses stack. */
#define MR_PARSE_DEPTH 200
/* The limit for calls of functions named by `let`.  Each call reads the function's text again, so
   without a limit a short text could grow without bound.  A call costs the bytes of that text and
   MR_PARSE_CALL. */
#define MR_PARSE_BYTES ((size_t)1 << 26)
#define MR_PARSE_CALL 4096
#define MR_PARSE_ATTRS 32

typedef struct mr_parse_let {
  char name[MR_PARSE_NAME];
  const char *fn; /* "{ lambda ...", in the text */
} mr_parse_let_t;

typedef struct mr_parser {
  const char *text, *at;
  const char *equation; /* the beginning of the present equation */
  mr_diag_t *diag;
  int depth;
  size_t bytes; /* cost of the calls of named functions so far */
  mr_parse_let_t *let;
  int n_let, cap_let;
} mr_parser_t;

typedef struct mr_parse_binder {
  char name[MR_PARSE_NAME];
  mr_aval_t aval;
} mr_parse_binder_t;

/* An equation as it was read.  The functions in attr belong to the line until its end. */
typedef struct mr_parse_line {
  char op[MR_PARSE_NAME];
  int n_out, cap_out, n_in, cap_in, n_attr;
  mr_parse_binder_t *out;
  mr_var_t **in;
  bool *plain; /* [n_in]: a constant whose text has no dtype, as in jax 0.3 */
  mr_attr_t attr[MR_PARSE_ATTRS];
} mr_parse_line_t;

/* Returns MR_ERR_DATA, with "line 3: expected ..." in p->diag. */
mr_err_t mr__parse_fail(mr_parser_t *p, const char *expected);
mr_err_t mr__parse_no_memory(mr_parser_t *p);
void mr__parse_space(mr_parser_t *p); /* skips white space */
/* Whether c may be in a name: a letter, a digit or '_'. */
bool mr__parse_in_name(char c);
/* Consumes the word if it is next, and returns whether it was.  mr__parse_want fails if not. */
bool mr__parse_is(mr_parser_t *p, const char *word);
mr_err_t mr__parse_want(mr_parser_t *p, const char *word);
/* Reads at least one and fewer than MR_PARSE_NAME characters of mr__parse_in_name. */
mr_err_t mr__parse_name(mr_parser_t *p, char name[MR_PARSE_NAME]);
/* "-3", "np.int64(-3)" */
mr_err_t mr__parse_int(mr_parser_t *p, int64_t *v);
mr_err_t mr__parse_aval(mr_parser_t *p, mr_aval_t *a);
/* "name:f32[3]", "_:f32[]" */
mr_err_t mr__parse_binder(mr_parser_t *p, mr_parse_binder_t *b);
/* Whether a constant is next ("2.0:", "-inf:", "True:") and not the name of a result; *plain: it
   has no dtype behind it, "2.0", "-inf", and then it may be the name of a value. */
bool mr__parse_at_literal(mr_parser_t *p, bool *plain);
/* "2.0:f32[]", "7:u64[]", "True:bool[]".  MR_ERR_DATA also if the dtype cannot hold the
   number. */
mr_err_t mr__parse_literal(mr_parser_t *p, mr_fn_t *g, mr_var_t **v);
/* A constant without its dtype: f32, i32 or bool, as it is written. */
mr_err_t mr__parse_plain(mr_parser_t *p, mr_fn_t *g, mr_var_t **v);
/* Reads one "name=value" into *a, whose names and texts belong to g.  A value that no op of this
   tree has becomes a text. */
mr_err_t mr__parse_attr(mr_parser_t *p, mr_fn_t *g, mr_attr_t *a);
/* "{ lambda ... }", or the name of a function from a `let`.  The caller destroys *out. */
mr_err_t mr__parse_fn(mr_parser_t *p, mr_fn_t **out);
/* The `let` whose name is next; NULL: another text is.  Belongs to p. */
const mr_parse_let_t *mr__parse_at_let(mr_parser_t *p);

mr_attr_t *mr__parse_find(mr_parse_line_t *l,
                          const char *name); /* of l; NULL: l does not have it */
/* Adapts a line of jax: broadcasts operands of size 1, and drops attributes without meaning
   here. */
void mr__parse_jax_fit(mr_fn_t *g, mr_parse_line_t *l);
/* Gives the plain constants of a line the dtype that its op wants. */
mr_err_t mr__parse_jax_plain(mr_parser_t *p, mr_fn_t *g, mr_parse_line_t *l);
/* Emits the line if its op is one of jax's that is written with other ops here: fills out[n_out]
   and sets *done.  A failure is in g->diag too. */
mr_err_t mr__parse_jax(mr_parser_t *p, mr_fn_t *g, mr_parse_line_t *l, mr_var_t **out, bool *done);
/* The same for an op over named axes, as jax and as this tree print it. */
mr_err_t mr__parse_jax_over_axes(mr_parser_t *p, mr_fn_t *g, mr_parse_line_t *l, mr_var_t **out,
                                 bool *done);

#endif
