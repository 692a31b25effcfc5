/* Small functions that show arithmetic, products, gradients and loops in a jaxpr, and the lookup of
   a name among them, files, and the model's functions. */
#include "apps/cli/model_arg.h"

#include <stdlib.h>
#include <string.h>

#include "base/suggest.h"
#include "base/xio.h"
#include "model/control/control.h"
#include "model/parse/parse.h"
#include "model/transforms/transforms.h"

/* ---- examples ---- */

static void example_give(mr_fn_t *f, mr_var_t *y) { mr_fn_return(f, 1, &y); }

static void trace_poly(mr_fn_t *f) {
  mr_var_t *x = mr_fn_input(f, mr_aval_scalar(MR_F32));
  mr_var_t *square = mr_lax_scale(f, 3, mr_lax_integer_pow(f, x, 2));
  mr_var_t *sum = mr_lax_add(f, square, mr_lax_scale(f, 2, x));
  example_give(f, mr_lax_add(f, sum, mr_literal(f, MR_F32, 5)));
}

static void example_dot(mr_fn_t *f) {
  mr_var_t *x = mr_fn_input(f, mr_aval_of(MR_F32, 3, 4));
  mr_var_t *y = mr_fn_input(f, mr_aval_of(MR_F32, 4, 1));
  mr_var_t *one = mr_literal(f, MR_F32, 1);
  x = mr_lax_add(f, x, one);
  y = mr_lax_add(f, y, one);
  example_give(f, mr_lax_dot(f, x, y));
}

static void trace_gelu(mr_fn_t *f) {
  mr_var_t *x = mr_fn_input(f, mr_aval_of(MR_F32, 3)), *one = mr_literal(f, MR_F32, 1);
  mr_var_t *cube = mr_lax_scale(f, 0.044715, mr_lax_integer_pow(f, x, 3));
  mr_var_t *t = mr_lax_scale(f, 0.7978845608028654, mr_lax_add(f, x, cube));
  t = mr_lax_scale(f, 0.5, mr_lax_add(f, one, mr_lax_tanh(f, t)));
  example_give(f, mr_lax_mul(f, x, t));
}

/* sum(tanh(x W)^2): a scalar, so that it has a gradient. */
static void trace_energy(mr_fn_t *f) {
  mr_var_t *x = mr_fn_input(f, mr_aval_of(MR_F32, 5));
  mr_var_t *w = mr_fn_input(f, mr_aval_of(MR_F32, 5, 4));
  mr_var_t *t = mr_lax_tanh(f, mr_lax_dot(f, x, w));
  example_give(f, mr_lax_reduce_sum(f, mr_lax_integer_pow(f, t, 2), 1, (int[]){0}));
}

/* One layer, tanh(x W), computed in bf16 with f32 input and output. */
static mr_fn_t *trace_layer(void) {
  mr_fn_t *f = mr_fn_create();
  if (!f) return NULL;
  mr_var_t *w = mr_fn_input(f, mr_aval_of(MR_F32, 16, 16));
  mr_var_t *x = mr_fn_input(f, mr_aval_of(MR_F32, 4, 16));
  mr_var_t *y = mr_lax_dot(f, mr_lax_convert(f, x, MR_BF16), mr_lax_convert(f, w, MR_BF16));
  example_give(f, mr_lax_tanh(f, mr_lax_convert(f, y, MR_F32)));
  return f;
}

/* (w, i, x) -> (i + 1, x w'). */
static mr_fn_t *example_turn(void) {
  mr_fn_t *f = mr_fn_create();
  if (!f) return NULL;
  mr_var_t *w = mr_fn_input(f, mr_aval_of(MR_F32, 16, 16));
  mr_var_t *i = mr_fn_input(f, mr_aval_scalar(MR_I32));
  mr_var_t *x = mr_fn_input(f, mr_aval_of(MR_F32, 4, 16));
  mr_var_t *y = mr_lax_dot(f, x, mr_lax_transpose(f, w, (int[]){1, 0}));
  mr_fn_return(f, 2, (mr_var_t *[]){mr_lax_add(f, i, mr_literal(f, MR_I32, 1)), y});
  return f;
}

static mr_fn_t *trace_while(void) {
  mr_fn_t *f = mr_fn_create();
  if (!f) return NULL;
  mr_var_t *i = mr_fn_input(f, mr_aval_scalar(MR_I32));
  mr_fn_input(f, mr_aval_of(MR_F32, 4, 16));
  example_give(f, mr_lax_lt(f, i, mr_literal(f, MR_I32, 3)));
  return f;
}

/* Five layers of one matrix by scan, then three iterations by while. */
static void trace_layers(mr_fn_t *f) {
  mr_fn_t *step = trace_layer(), *back = example_turn(), *more = trace_while();
  mr_var_t *w = mr_fn_input(f, mr_aval_of(MR_F32, 16, 16));
  mr_var_t *in[] = {w, mr_fn_input(f, mr_aval_of(MR_F32, 4, 16)), NULL}, *y[2] = {NULL};
  mr_scan_t s = {.length = 5, .n_consts = 1, .n_carry = 1};
  if (step && back && more && mr_lax_scan(f, step, &s, in, &in[2]) >= 0) {
    in[1] = mr_literal(f, MR_I32, 0);
    mr_lax_while(f, more, 0, back, 1, in, y);
  }
  if (y[1]) example_give(f, y[1]);
  mr_fn_destroy(step), mr_fn_destroy(back), mr_fn_destroy(more);
}

typedef struct example {
  const char *name;
  void (*build)(
      mr_fn_t *f); /* adds inputs and one output; input 0 is f32; failures are in f->diag */
} example_t;

static const example_t examples[] = {{"poly", trace_poly},     {"dot", example_dot},
                                     {"gelu", trace_gelu},     {"energy", trace_energy},
                                     {"layers", trace_layers}, {0}};

/* ---- names ---- */

static const example_t *named_fn_find(const char *name) {
  for (const example_t *e = examples; e->name; e++)
    if (!strcmp(e->name, name)) return e;
  return NULL;
}

static mr_err_t build_example(const example_t *e, mr_fn_t **out, mr_diag_t *diag) {
  mr_fn_t *f = *out = mr_fn_create();
  if (!f) return mr_no_memory(diag, "a graph");
  e->build(f);
  return mr_diag_relay(diag, f->diag.code, &f->diag);
}

static bool is_file(const char *word) {
  size_t n = strlen(word);
  return strchr(word, '/') || (n > 6 && !strcmp(word + n - 6, ".jaxpr"));
}

static mr_err_t read_fn(const char *path, mr_fn_t **out, mr_diag_t *diag) {
  void *text;
  size_t n;
  mr_diag_t why = {0};
  MR_TRY(mr_read_file(path, MR_JAXPR_BYTES_MAX, &text, &n, diag));
  mr_err_t e = mr_fn_parse(text, out, &why);
  free(text);
  return mr_diag_prefix(diag, e, &why, "%s", path);
}

/* Replaces *f by its value and gradient. */
static mr_err_t named_fn_differentiate(const char *command, const char *word, mr_fn_t **f,
                                       mr_diag_t *diag) {
  mr_fn_t *g = NULL;
  if ((*f)->n_in < 1 || (*f)->n_out != 1 || (*f)->out[0]->aval.ndim)
    return mr_fail(diag, MR_ERR_USAGE, "%s: --grad: %s gives no scalar; poly and energy do",
                   command, word);
  mr_err_t e = mr_value_and_grad(*f, 1, (int[]){0}, &g, diag);
  mr_fn_destroy(*f);
  *f = g;
  return e;
}

/* Fails with the nearest known word. */
static mr_err_t named_fn_unknown(const char *command, const char *word, mr_diag_t *diag) {
  char near[80];
  mr_suggest_t s = {.word = word};
  for (const example_t *e = examples; e->name; e++) mr_suggest_offer(&s, e->name);
  mr_suggest_offer(&s, "loss"), mr_suggest_offer(&s, "grad"), mr_suggest_offer(&s, "step");
  return mr_fail(diag, MR_ERR_USAGE, "%s: unknown function \"%s\"%s; its --help lists them",
                 command, word, mr_suggest_text(&s, near, sizeof near));
}

mr_err_t mr_named_fn(const mr_args_t *a, const char *word, mr_fn_t **out, mr_diag_t *diag) {
  const char *command = a->command->name;
  const example_t *e = named_fn_find(word);
  bool grad = mr_args_text(a, "--grad") != NULL;
  if (e || is_file(word)) {
    if (a->n_words > 1)
      return mr_fail(diag, MR_ERR_USAGE, "%s: one word too many, \"%s\": %s is no model", command,
                     a->word[1], word);
    MR_TRY(e ? build_example(e, out, diag) : read_fn(word, out, diag));
    return grad ? named_fn_differentiate(command, word, out, diag) : MR_OK;
  }
  if (strcmp(word, "loss") && strcmp(word, "grad") && strcmp(word, "step"))
    return named_fn_unknown(command, word, diag);
  if (grad)
    return mr_fail(diag, MR_ERR_USAGE, "%s: --grad is for examples and files; use `%s grad`",
                   command, command);
  mr_model_job_t job;
  mr_params_t params = {0};
  mr_err_t err = mr_model_arg(a, 1, &job, diag);
  *out = err < 0 ? NULL : mr_model_fn(word, &job, &params, diag);
  mr_params_fini(&params);
  mr_model_job_fini(&job);
  return *out ? MR_OK : diag->code;
}
