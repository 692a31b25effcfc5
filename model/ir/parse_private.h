/* The parts of the jaxpr reader: words and numbers (lex), attributes, equations. */
#ifndef MR_MODEL_IR_PARSE_PRIVATE_H
#define MR_MODEL_IR_PARSE_PRIVATE_H

#include "model/ir/parse.h"

#define MR_PARSE_NAME 64
#define MR_PARSE_DEPTH 16

typedef struct mr_parser {
  const char *text, *at;
  mr_diag_t *diag;
  int depth;
} mr_parser_t;

/* MR_ERR_DATA "line 3: expected what". */
mr_err_t mr__parse_fail(mr_parser_t *p, const char *expected);
void mr__parse_space(mr_parser_t *p);
/* Takes the word if it stands here (after white space). */
bool mr__parse_is(mr_parser_t *p, const char *word);
mr_err_t mr__parse_want(mr_parser_t *p, const char *word);
/* Letters, digits, '_' and '.', at least one. */
mr_err_t mr__parse_name(mr_parser_t *p, char name[MR_PARSE_NAME]);
mr_err_t mr__parse_int(mr_parser_t *p, int64_t *v);
mr_err_t mr__parse_aval(mr_parser_t *p, mr_aval_t *a);
/* One "name=value" into *a, whose names and texts g owns. */
mr_err_t mr__parse_attr(mr_parser_t *p, mr_fn_t *g, mr_attr_t *a);
/* "{ lambda ... }" */
mr_err_t mr__parse_fn(mr_parser_t *p, mr_fn_t **out);

#endif
