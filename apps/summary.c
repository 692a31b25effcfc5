/* millrace summary: the parameter table of a model. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "apps/cli.h"
#include "model/nn/summary.h"
#include "model/nn/vit.h"

static const mr_flag_t summary_flags[] = {
    {"--variant", "flax|timm", "Names and layout of the parameters; default flax."},
    {"--layers", "N", "Encoder blocks; default 6."},
    {"--embed", "N", "Width of a token; default 384."},
    {"--mlp", "N", "Width inside a block's MLP; default 1536."},
    {"--heads", "N", "Attention heads; default 8."},
    {"--patch", "N", "Pixels along a patch; default 4."},
    {"--image", "N", "Pixels along a picture; default 32."},
    {"--classes", "N", "Classes; default 10."},
    {"--depth", "N", "Prints modules down to this depth; default 1."},
    {0}};

static mr_err_t size_flag(const mr_args_t *a, const char *flag, int *out, mr_diag_t *diag) {
  int64_t v = *out;
  MR_TRY(mr_args_int(a, flag, 1, 1 << 20, &v, diag));
  *out = (int)v;
  return MR_OK;
}

static mr_err_t settings(const mr_args_t *a, mr_vit_config_t *c, mr_diag_t *diag) {
  const char *variant = mr_args_text(a, "--variant");
  if (variant && strcmp(variant, "flax") && strcmp(variant, "timm"))
    return mr_fail(diag, MR_ERR_USAGE, "summary: --variant: \"%s\", expected flax or timm",
                   variant);
  if (variant && !strcmp(variant, "timm")) c->variant = MR_VIT_TIMM;
  const struct {
    const char *flag;
    int *out;
  } sizes[] = {{"--layers", &c->layers},  {"--embed", &c->embed}, {"--mlp", &c->mlp},
               {"--heads", &c->heads},    {"--patch", &c->patch}, {"--image", &c->image},
               {"--classes", &c->classes}};
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
    MR_TRY(size_flag(a, sizes[i].flag, sizes[i].out, diag));
  return mr_vit_check(c, diag);
}

/* 10695562 as "10,695,562". */
static void grouped(int64_t v, char text[32]) {
  char digits[24];
  int n = snprintf(digits, sizeof digits, "%" PRId64, v), at = 0;
  for (int i = 0; i < n; i++) {
    if (i && (n - i) % 3 == 0) text[at++] = ',';
    text[at++] = digits[i];
  }
  text[at] = 0;
}

static void print_table(const mr_summary_row_t *row, int n, int64_t depth) {
  printf("%-44s %14s\n", "module", "parameters");
  for (int i = 0; i < n; i++) {
    char count[32];
    if (row[i].depth > depth) continue;
    grouped(row[i].count, count);
    printf("%-44s %14s\n", row[i].name, count);
  }
}

static int summary_run(const mr_args_t *a, mr_diag_t *diag) {
  mr_vit_config_t c = mr_vit_default();
  int64_t depth = 1;
  MR_TRY(settings(a, &c, diag));
  MR_TRY(mr_args_int(a, "--depth", 0, 16, &depth, diag));
  mr_params_t params = {0};
  mr_summary_row_t *rows = NULL;
  int n = 0;
  mr_fn_t *fn = mr_vit_loss(&c, 1, false, 0, &params, diag);
  mr_err_t e = fn ? mr_summary(&params, &rows, &n, diag) : diag->code;
  if (e >= 0) print_table(rows, n, depth);
  free(rows);
  mr_fn_destroy(fn);
  mr_params_fini(&params);
  return e < 0 ? e : 0;
}

const mr_command_t mr_command_summary = {
    .name = "summary",
    .words = "[--layers N] [--embed N] ...",
    .help = "Prints the parameter table of the Vision Transformer.",
    .flags = summary_flags,
    .run = summary_run,
};
