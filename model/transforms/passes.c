/* The table of the compiler's passes, in the order in which they run, and running them but for
   those to skip.  Each is a file of its own and changes cost, never results; a flag of the table
   says which also run before differentiation. */
#include "model/transforms/passes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/transforms/transforms.h"

static mr_err_t fold_convert(mr_fn_t *f, mr_diag_t *diag) {
  mr_fold_convert(f);
  return mr_diag_relay(diag, f->diag.code, &f->diag);
}

static mr_err_t drop_dead(mr_fn_t *f, mr_diag_t *diag) {
  mr_dce(f);
  return MR_OK;
}

const mr_pass_t mr_passes[] = {
    {.name = "fold-constants",
     .help = "computes elementwise ops of constants",
     .run_for = mr_fold_constants},
    {.name = "sink",
     .help = "moves slices up to where they save work, and transpositions away",
     .run = mr_sink,
     .before_grad = mr_sink},
    {.name = "merge-products",
     .help = "makes products that share an operand one",
     .run = mr_merge_products,
     .before_grad = mr_merge_before_grad},
    {.name = "fold-convert",
     .help = "takes conversions into the products beside them",
     .run = fold_convert},
    {.name = "cse", .help = "computes repeated expressions once", .run = mr_cse},
    {.name = "remat",
     .help = "computes cheap values again instead of keeping them",
     .run = mr_remat},
    {.name = "recompute",
     .help = "on a device, computes plain values again where they are read from other kernels",
     .run_for = mr_recompute},
    {.name = "unshare",
     .help = "computes what sums along rows and columns read once for each, instead of keeping it",
     .run_for = mr_unshare},
    {.name = "fuse",
     .help = "makes chains of elementwise ops, and sums of them, one loop",
     .run_for = mr_fuse},
    {.name = "join",
     .help = "makes the same loop over several tensors one kernel",
     .run_for = mr_join},
    {.name = "beside",
     .help = "on a device, moves of several small tensors are one kernel",
     .run_for = mr_beside},
    {.name = "dead-code", .help = "drops what no result needs", .run = drop_dead},
    {0}};

static bool list_has(const char *skip, const char *name) {
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

static mr_err_t passes_check(const char *skip, mr_diag_t *diag) {
  while (skip && *skip) {
    size_t n = strcspn(skip, ",");
    if (!is_pass(skip, n)) {
      char all[256] = "";
      for (const mr_pass_t *p = mr_passes; p->name; p++)
        snprintf(all + strlen(all), sizeof all - strlen(all), "%s%s", p == mr_passes ? "" : ", ",
                 p->name);
      return mr_fail(diag, MR_ERR_CONFIG, "passes to skip: \"%.*s\" is not a pass; known: %s",
                     (int)n, skip, all);
    }
    skip += n + (skip[n] == ',');
  }
  return MR_OK;
}

/* Marks the equations that pass p writes with its name; returns f's origin before. */
static mr_origin_t pass_origin(const mr_pass_t *p, mr_fn_t *f) {
  mr_origin_t before = mr_origin(f);
  mr_origin_set(f, (mr_origin_t){f->scope, p->name, MR_PRECISION_NONE, NULL, NULL});
  return before;
}

mr_err_t mr_pass_run(const mr_pass_t *p, mr_fn_t *f, const mr_target_t *t, mr_diag_t *diag) {
  mr_origin_t before = pass_origin(p, f);
  mr_err_t e = p->run ? p->run(f, diag) : p->run_for(f, t, diag);
  mr_origin_set(f, before);
  return e;
}

static mr_err_t run_before_grad(const mr_pass_t *p, mr_fn_t *f, mr_diag_t *diag) {
  mr_origin_t before = pass_origin(p, f);
  mr_err_t e = p->before_grad(f, diag);
  mr_origin_set(f, before);
  return e;
}

bool mr_pass_skipped(const mr_pass_t *p, const char *skip) {
  return list_has(skip ? skip : getenv("MILLRACE_SKIP_PASSES"), p->name);
}

mr_err_t mr_passes_run(mr_fn_t *f, const mr_target_t *t, const char *skip, mr_diag_t *diag) {
  if (!skip) skip = getenv("MILLRACE_SKIP_PASSES");
  MR_TRY(passes_check(skip, diag));
  for (const mr_pass_t *p = mr_passes; p->name; p++)
    if (!mr_pass_skipped(p, skip)) MR_TRY(mr_pass_run(p, f, t, diag));
  return MR_OK;
}

mr_err_t mr_passes_before_grad(mr_fn_t *f, const char *skip, mr_diag_t *diag) {
  if (!skip) skip = getenv("MILLRACE_SKIP_PASSES");
  MR_TRY(passes_check(skip, diag));
  for (const mr_pass_t *p = mr_passes; p->name; p++)
    if (p->before_grad && !list_has(skip, p->name)) MR_TRY(run_before_grad(p, f, diag));
  return MR_OK;
}
