#include "model/transforms/passes.h"

#include <stdlib.h>
#include <string.h>

#include "model/transforms/transforms.h"

static mr_err_t fold_convert(mr_fn_t *f, mr_diag_t *diag) {
  mr_fold_convert(f);
  return f->diag.code < 0 ? mr_fail(diag, f->diag.code, "%s", f->diag.text) : MR_OK;
}

static mr_err_t drop_dead(mr_fn_t *f, mr_diag_t *diag) {
  mr_dce(f);
  return MR_OK;
}

const mr_pass_t mr_passes[] = {
    {"fold-constants", "computes elementwise ops of constants", mr_fold_constants, NULL},
    {"sink", "moves slices up to where they save work, and transpositions away", mr_sink, mr_sink},
    {"merge-products", "makes products that share an operand one", mr_merge_products,
     mr_merge_before_grad},
    {"fold-convert", "takes conversions into the products beside them", fold_convert, NULL},
    {"cse", "computes what stands there twice once", mr_cse, NULL},
    {"remat", "computes cheap values again instead of keeping them", mr_remat, NULL},
    {"fuse", "makes chains of elementwise ops, and sums of them, one loop", mr_fuse, NULL},
    {"dead-code", "drops what no result needs", drop_dead, NULL},
    {0}};

static bool lists(const char *skip, const char *name) {
  size_t n = strlen(name);
  while (skip && *skip) {
    size_t word = strcspn(skip, ",");
    if (word == n && !strncmp(skip, name, n)) return true;
    skip += word + (skip[word] == ',');
  }
  return false;
}

static bool is_pass(const char *word, size_t n) {
  for (const mr_pass_t *p = mr_passes; p->name; p++)
    if (strlen(p->name) == n && !strncmp(p->name, word, n)) return true;
  return false;
}

static mr_err_t check(const char *skip, mr_diag_t *diag) {
  while (skip && *skip) {
    size_t n = strcspn(skip, ",");
    if (!is_pass(skip, n))
      return mr_fail(diag, MR_ERR_CONFIG,
                     "passes to skip: \"%.*s\" is none; there are fold-constants, sink, "
                     "merge-products, fold-convert, cse, remat, fuse and dead-code",
                     (int)n, skip);
    skip += n + (skip[n] == ',');
  }
  return MR_OK;
}

/* What it writes says who wrote it, and asks the precision of what it stands for. */
static mr_err_t run_one(const mr_pass_t *p, mr_err_t (*run)(mr_fn_t *, mr_diag_t *), mr_fn_t *f,
                        mr_diag_t *diag) {
  mr_standing_t before = mr_standing(f);
  mr_stand(f, (mr_standing_t){f->scope, p->name, MR_PRECISION_NONE, NULL});
  mr_err_t e = run(f, diag);
  mr_stand(f, before);
  return e;
}

mr_err_t mr_passes_run(mr_fn_t *f, const char *skip, mr_diag_t *diag) {
  if (!skip) skip = getenv("MILLRACE_SKIP_PASSES");
  MR_TRY(check(skip, diag));
  for (const mr_pass_t *p = mr_passes; p->name; p++)
    if (!lists(skip, p->name)) MR_TRY(run_one(p, p->run, f, diag));
  return MR_OK;
}

mr_err_t mr_passes_before_grad(mr_fn_t *f, const char *skip, mr_diag_t *diag) {
  if (!skip) skip = getenv("MILLRACE_SKIP_PASSES");
  MR_TRY(check(skip, diag));
  for (const mr_pass_t *p = mr_passes; p->name; p++)
    if (p->before_grad && !lists(skip, p->name)) MR_TRY(run_one(p, p->before_grad, f, diag));
  return MR_OK;
}
