/* The reader of graph text: words (text_word.c), settings and variables (text_setting.c), chains
   and blocks (text.c).  The grammar is in graph.h. */
#ifndef MR_PIPELINE_TEXT_TEXT_PRIVATE_H
#define MR_PIPELINE_TEXT_TEXT_PRIVATE_H

#include "pipeline/graph/graph_private.h"

enum { MR_WORD_MAX = 65536 }; /* bytes of a word with its final NUL */

typedef struct mr__word {
  char text[MR_WORD_MAX]; /* quotes removed */
  size_t name_n;          /* length before the first unquoted '=', 0: not NAME=VALUE, or a URL */
  bool quoted, bang, end, line_start;
  mr__pos_t pos;
} mr__word_t;

/* One end of an edge: a node, or a name to resolve. */
typedef struct mr__end {
  int node;                /* -1: by name */
  const char *name, *port; /* port NULL: the first */
  mr__pos_t pos;
} mr__end_t;

typedef struct mr__end_link {
  mr__end_t from, to;
} mr__end_link_t;

typedef struct mr__text_parser {
  mr_graph_t *g;
  mr_diag_t *diag;
  const char *at, *line_start;
  int line;
  bool fresh_line; /* only blanks since the line began */
  int process;     /* the current block, from 1; 0: none */
  mr__word_t word; /* the current word */
  mr__end_link_t *link;
  int n_links, cap_links;
} mr__text_parser_t;

/* The current place in the text. */
mr__pos_t mr__text_here(const mr__text_parser_t *p);
/* Fails with the position before the sentence; returns code. */
__attribute__((format(printf, 4, 5))) mr_err_t mr__text_wrong(mr__text_parser_t *p, mr_err_t code,
                                                              mr__pos_t pos, const char *fmt, ...);
/* Reads the next word into p->word.  MR_ERR_USAGE: a quote is not closed, a word is too long. */
mr_err_t mr__text_next(mr__text_parser_t *p);
/* Reads the word that begins at p->at; it is empty if white space begins there.  Fails as above. */
mr_err_t mr__text_word(mr__text_parser_t *p, mr__word_t *w);
/* Length of x if the word is "x." or "x.port", else 0. */
size_t mr__word_reference(const mr__word_t *w);
/* The same after "!", where the port may have a name in two parts: "x.valid.dogs". */
size_t mr__word_destination(const mr__word_t *w);
bool mr__word_is(const mr__word_t *w, const char *text);
/* True for a word, other than a stage or a reference, that ends a chain. */
bool mr__word_begins_other(const mr__word_t *w);

/* After the word "let": NAME = VALUE up to the end of the line. */
mr_err_t mr__text_let(mr__text_parser_t *p);
/* NAME=VALUE in p->word. */
mr_err_t mr__text_setting(mr__text_parser_t *p, mr__node_t *node);
/* Reads all that follows the name of a stage. */
mr_err_t mr__text_settings(mr__text_parser_t *p, mr__node_t *node);

#endif
