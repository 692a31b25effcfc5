/* Text of a jaxpr: what is read prints, and is read again as the same; it can be planned. */
#include "model/model.h"
#include "tests/fuzz/fuzz.h"

static char *text_of(const mr_fn_t *f) {
  char *text = mr_fn_text(f);
  fuzz_need(text != NULL, "memory");
  return text;
}

static void check_again(const char *text) {
  mr_fn_t *f = NULL;
  mr_diag_t diag = {0};
  if (mr_fn_parse(text, &f, &diag) < 0) {
    fprintf(stderr, "%s\n%s\n", text, diag.text);
    fuzz_need(0, "a printed function does not come back");
  }
  char *again = text_of(f);
  if (strcmp(again, text)) fprintf(stderr, "%s\nand again:\n%s\n", text, again);
  fuzz_need(strcmp(again, text) == 0, "a printed function comes back as another");
  free(again);
  mr_fn_destroy(f);
}

/* Elements of all values: kernels of huge ones are planned, but lowering loops may fill tables. */
static bool is_small(const mr_fn_t *f) {
  for (int i = 0; i < f->n_eqn; i++)
    for (int k = 0; k < f->eqn[i]->n_out; k++)
      if (mr_aval_elems(&f->eqn[i]->out[k]->aval) > 1 << 20) return false;
  return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  if (n > 8192) return 0;
  char *text = malloc(n + 1);
  memcpy(text, data, n);
  text[n] = 0;
  mr_fn_t *f = NULL;
  mr_diag_t diag = {0};
  mr_err_t e = mr_fn_parse(text, &f, &diag);
  fuzz_need(e < 0 ? !f && *diag.text : f != NULL, "an answer");
  if (e >= 0) {
    char *printed = text_of(f);
    check_again(printed);
    free(printed);
    mr_exec_t *x = NULL;
    const mr_compile_options_t plan = {.plan_only = true, .threads = 1};
    diag = (mr_diag_t){0};
    if (is_small(f) && mr_compile(f, &plan, &x, &diag) >= 0) mr_exec_destroy(x);
    mr_fn_destroy(f);
  }
  free(text);
  return 0;
}
