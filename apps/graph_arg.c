#include "apps/graph_arg.h"

#include <stdlib.h>
#include <string.h>

static mr_err_t parse(const mr_args_t *a, int at, const char *text, const char *origin,
                      mr_graph_t *g, mr_diag_t *diag) {
  mr_diag_t inner = {0};
  mr_err_t e = mr_graph_parse(g, text, a->word + at + 1, a->n_words - at - 1, &inner);
  if (e >= 0) return MR_OK;
  return mr_fail(diag, e, "%s:%s", origin, inner.text);
}

mr_err_t mr_graph_from_args(const mr_args_t *a, int at, mr_graph_t **g, mr_diag_t *diag) {
  char *text;
  const char *origin;
  *g = NULL;
  for (int i = at + 1; i < a->n_words; i++)
    if (!strchr(a->word[i], '='))
      return mr_fail(diag, MR_ERR_USAGE,
                     "%s: \"%s\", expected KEY=VALUE (quote the graph as one word)",
                     a->command->name, a->word[i]);
  MR_TRY(mr_graph_text(a->word[at], &text, &origin, diag));
  *g = mr_graph_create(mr_all_stages());
  mr_err_t e = *g ? parse(a, at, text, origin, *g, diag)
                  : mr_fail(diag, MR_ERR_NOMEM, "no memory for a graph");
  free(text);
  if (e < 0) {
    mr_graph_destroy(*g);
    *g = NULL;
  }
  return e;
}
