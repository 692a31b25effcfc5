/* millrace explain --array: draws how one array lies on a mesh of ranks.  Nothing is compiled: the
   shape is written there, or is a parameter's of the model. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "apps/cli/model_arg.h"
#include "apps/look/explain.h"
#include "apps/look/mesh_arg.h"
#include "base/suggest.h"
#include "base/text.h"
#include "model/mesh/placement_draw.h"

typedef struct array_shape {
  int ndim;
  int64_t dim[MR_MAX_NDIM];
} array_shape_t;

/* Parses "384x1536" in text[0,n). */
static mr_err_t parse_array_sizes(const char *text, size_t n, array_shape_t *s, mr_diag_t *diag) {
  const char *at = text, *end = text + n;
  while (at < end && s->ndim < MR_MAX_NDIM) {
    int64_t size = 0;
    const char *first = at;
    for (; at < end && *at >= '0' && *at <= '9' && size <= INT32_MAX; at++)
      size = 10 * size + (*at - '0');
    if (at == first || size < 1 || size > INT32_MAX) break;
    s->dim[s->ndim++] = size;
    if (at == end) return MR_OK;
    if (*at++ != 'x') break;
  }
  return mr_fail(diag, MR_ERR_USAGE,
                 "explain: --array %.*s: expected at most %d sizes from 1, as 384x1536, or a "
                 "parameter's name",
                 n > 100 ? 100 : (int)n, text, MR_MAX_NDIM);
}

/* How parameter number i of a list lies by the rules of a step on the mesh. */
static mr_err_t find_placement(const mr_args_t *a, const mr_model_job_t *job, const mr_mesh_t *m,
                               const mr_params_t *list, int i, mr_placement_t *p, mr_diag_t *diag) {
  const mr_train_config_t t = {
      .mesh = m, .partition = mr_args_text(a, "--partition"), .table = mr_mesh_arg_table(job, m)};
  mr_placement_t *at = calloc((size_t)list->n + 1, sizeof *at);
  mr_diag_t why = {0};
  mr_err_t e = at ? mr_train_cut_parts(&t, list, NULL, at, &why) : mr_no_memory(&why, "placements");
  if (e >= 0) *p = at[i];
  free(at);
  return mr_diag_prefix(diag, e == MR_ERR_CONFIG ? MR_ERR_USAGE : e, &why, "explain: --array");
}

/* The shape of a parameter of the model that the flags describe, and unless p is NULL how it lies
   on the mesh by the rules of a step. */
static mr_err_t find_param_shape(const mr_args_t *a, const char *name, const mr_mesh_t *m,
                                 array_shape_t *s, mr_placement_t *p, mr_diag_t *diag) {
  const mr_loss_use_t use = {.batch = 1};
  mr_model_job_t job;
  mr_params_t params = {0};
  mr_fn_t *fn = NULL;
  char near[160];
  mr_suggest_t like = {.word = name};
  const mr_param_t *found = NULL;
  mr_err_t e = mr_model_arg(a, a->n_words, &job, diag);
  if (e >= 0 && !(fn = mr_loss_fn(&job.model.plan.loss, &job.train.compute, &use, &params, diag)))
    e = diag->code;
  for (int i = 0; e >= 0 && i < params.n; i++) {
    mr_suggest_offer(&like, params.param[i].name);
    if (!strcmp(params.param[i].name, name)) found = &params.param[i];
  }
  if (found) {
    s->ndim = found->aval.ndim;
    memcpy(s->dim, found->aval.dim, sizeof s->dim);
    if (p) e = find_placement(a, &job, m, &params, (int)(found - params.param), p, diag);
  } else if (e >= 0) {
    e = mr_fail(diag, MR_ERR_USAGE,
                "explain: --array %.100s: the model has no parameter of that name%s", name,
                like.best ? mr_suggest_text(&like, near, sizeof near)
                          : "; `millrace summary --depth 9` lists them");
  }
  mr_fn_destroy(fn);
  mr_params_fini(&params);
  mr_model_job_fini(&job);
  return e;
}

static void print_array_shape(const array_shape_t *s, const mr_placement_t *p, const mr_mesh_t *m) {
  for (int d = 0; d < s->ndim; d++)
    printf("%s%" PRId64, d ? "x" : "", s->dim[d] / (p ? mr_placement_parts(p, m, d) : 1));
}

static mr_err_t print_array(const array_shape_t *s, const mr_placement_t *p, const mr_mesh_t *m,
                            mr_diag_t *diag) {
  char mesh[MR_MESH_TEXT], text[MR_PLACEMENT_TEXT];
  int parts = 1;
  for (int d = 0; d < s->ndim; d++) parts *= mr_placement_parts(p, m, d);
  print_array_shape(s, NULL, m);
  printf(" as %s on the mesh %s: ", mr_placement_text(p, m, s->ndim, text), mr_mesh_text(m, mesh));
  print_array_shape(s, p, m);
  printf(" on each rank, %d part%s on %d rank%s each\n", parts, parts == 1 ? "" : "s",
         mr_mesh_ranks(m) / parts, mr_mesh_ranks(m) / parts == 1 ? "" : "s");
  for (int a = 0; a < m->n; a++)
    if (p->partial >> a & 1) printf("along %s the ranks hold terms of a sum\n", m->name[a]);
  return mr_placement_draw(p, m, s->ndim, s->dim, mr_columns(STDOUT_FILENO), stdout, diag);
}

mr_err_t mr_explain_array(const mr_args_t *a, mr_diag_t *diag) {
  const char *text = mr_args_text(a, "--array"), *equals = text ? strchr(text, '=') : NULL;
  array_shape_t s = {0};
  mr_mesh_t m;
  mr_placement_t p;
  mr_diag_t why = {0};
  if (!text) {
    MR_TRY(mr_mesh_arg(a, &m, diag));
    return mr_explain_mesh(a, a->n_words ? a->word[0] : "step", &m, diag);
  }
  if (mr_args_text(a, "--json"))
    return mr_fail(diag, MR_ERR_USAGE, "explain: --json: expected no --array beside it");
  if (a->n_words)
    return mr_fail(diag, MR_ERR_USAGE, "explain: %s: expected no function beside --array",
                   a->word[0]);
  bool sizes = *text >= '0' && *text <= '9';
  if (equals == text || (!equals && (sizes || !*text)))
    return mr_fail(diag, MR_ERR_USAGE,
                   "explain: --array %.100s: expected SHAPE=PLACEMENT, NAME=PLACEMENT or NAME, as "
                   "384x1536=(None,model)",
                   text);
  char *name = equals ? strndup(text, (size_t)(equals - text)) : strdup(text);
  if (!name) return mr_no_memory(diag, "the name of an array");
  mr_err_t e = mr_mesh_arg(a, &m, diag);
  if (e >= 0 && sizes)
    e = parse_array_sizes(text, (size_t)(equals - text), &s, diag);
  else if (e >= 0)
    e = find_param_shape(a, name, &m, &s, equals ? NULL : &p, diag);
  if (e >= 0 && equals &&
      (mr_placement_parse(name, equals + 1, &m, s.ndim, &p, &why) < 0 ||
       mr_placement_fits(name, &p, &m, s.ndim, s.dim, &why) < 0))
    e = mr_diag_prefix(diag, MR_ERR_USAGE, &why, "explain: --array");
  free(name);
  return e < 0 ? e : print_array(&s, &p, &m, diag);
}
