/* Policies of mixed precision: rows of names and rules, and the two that people use.  A row names
   an op or a scope; rows of a setting are appended and marked, so that one that matches nothing can
   be reported.  Which row wins, and what it does to a graph, is amp.c's. */
#include <stdio.h>
#include <string.h>

#include "model/ir/op.h"
#include "model/transforms/amp.h"

const char *mr_amp_rule_name(mr_amp_rule_t r) {
  static const char *const names[] = {"class",  "compute", "f32", "original",
                                      "follow", "as-is",   "own"};
  return r < MR_AMP_RULES ? names[r] : "no rule";
}

/* name[n] */
static mr_err_t amp_check_name(const char *name, size_t n, mr_diag_t *diag) {
  if (n && n < MR_AMP_NAME) return MR_OK;
  return mr_fail(
      diag, MR_ERR_CONFIG,
      "amp: name \"%.*s\" has %zu characters, want the name of an op or scope with [1,%d]",
      n < 40 ? (int)n : 40, name, n, MR_AMP_NAME - 1);
}

static mr_err_t amp_policy_append(mr_amp_policy_t *p, const char *name, mr_amp_rule_t rule,
                                  mr_diag_t *diag) {
  size_t n = strlen(name);
  MR_TRY(amp_check_name(name, n, diag));
  if (p->n_rows == MR_AMP_ROWS)
    return mr_fail(diag, MR_ERR_CONFIG, "amp: no room for %s=%s, a policy has at most %d rows",
                   name, mr_amp_rule_name(rule), MR_AMP_ROWS);
  mr_amp_row_t *row = &p->row[p->n_rows++];
  memcpy(row->name, name, n + 1);
  row->rule = rule;
  return MR_OK;
}

mr_err_t mr_amp_add(mr_amp_policy_t *p, const char *name, mr_amp_rule_t rule, mr_diag_t *diag) {
  if (rule == MR_AMP_OWN)
    return mr_fail(diag, MR_ERR_CONFIG,
                   "amp: %.*s=own: want a function, which mr_amp_add_fn takes with it", MR_AMP_NAME,
                   name);
  return amp_policy_append(p, name, rule, diag);
}

mr_err_t mr_amp_add_fn(mr_amp_policy_t *p, const char *name, mr_amp_own_fn *own, void *arg,
                       mr_diag_t *diag) {
  if (!own)
    return mr_fail(diag, MR_ERR_CONFIG, "amp: %.*s=own: the function is NULL, want one",
                   MR_AMP_NAME, name);
  MR_TRY(amp_policy_append(p, name, MR_AMP_OWN, diag));
  p->row[p->n_rows - 1].own = own, p->row[p->n_rows - 1].arg = arg;
  return MR_OK;
}

/* One "NAME=RULE" of n characters, spaces around it allowed. */
static mr_err_t amp_policy_add_piece(mr_amp_policy_t *p, const char *text, size_t n,
                                     mr_diag_t *diag) {
  char name[MR_AMP_NAME], rule[16];
  while (n && *text == ' ') text++, n--;
  while (n && text[n - 1] == ' ') n--;
  const char *is = memchr(text, '=', n);
  size_t nk = is ? (size_t)(is - text) : 0, nr = is ? n - nk - 1 : 0;
  while (nk && text[nk - 1] == ' ') nk--;
  while (nr && text[n - nr] == ' ') nr--;
  if (is && nk >= sizeof name) return amp_check_name(text, nk, diag);
  if (nk && nr && nr < sizeof rule) {
    memcpy(name, text, nk), name[nk] = 0;
    memcpy(rule, text + n - nr, nr), rule[nr] = 0;
    for (int r = 0; r < MR_AMP_OWN; r++) /* a function has no text */
      if (!strcmp(rule, mr_amp_rule_name((mr_amp_rule_t)r))) {
        MR_TRY(mr_amp_add(p, name, (mr_amp_rule_t)r, diag));
        p->row[p->n_rows - 1].asked = true;
        return MR_OK;
      }
  }
  return mr_fail(
      diag, MR_ERR_CONFIG,
      "amp: \"%.*s\", want NAME=RULE: the name of an op or a scope, and class, compute, f32, "
      "original, follow or as-is",
      n < 60 ? (int)n : 60, text);
}

mr_err_t mr_amp_add_text(mr_amp_policy_t *p, const char *text, mr_diag_t *diag) {
  while (*text) {
    size_t n = strcspn(text, ",");
    if (strspn(text, " ") < n) MR_TRY(amp_policy_add_piece(p, text, n, diag));
    text += n + (text[n] == ',');
  }
  return MR_OK;
}

static void amp_policy_rows(mr_amp_policy_t *p, mr_amp_rule_t rule, const char *const *name) {
  mr_diag_t none = {0};
  for (; *name; name++) mr_amp_add(p, *name, rule, &none); /* they are short and few */
}

mr_amp_policy_t mr_amp_empty(mr_dtype_t compute) {
  return (mr_amp_policy_t){.name = "empty", .compute = compute, .others = MR_AMP_AS_IS};
}

mr_amp_policy_t mr_amp_usual(mr_dtype_t compute) {
  mr_amp_policy_t p = {.name = "usual",
                       .compute = compute,
                       .others = MR_AMP_BY_CLASS,
                       .enters = true,
                       .reuses = true};
  amp_policy_rows(&p, MR_AMP_ORIGINAL, (const char *const[]){"amp_stop", NULL});
  return p;
}

mr_amp_policy_t mr_amp_jaxamp(mr_dtype_t compute) {
  mr_amp_policy_t p = {.name = "jaxamp", .compute = compute, .others = MR_AMP_ORIGINAL};
  amp_policy_rows(&p, MR_AMP_ORIGINAL, (const char *const[]){"amp_stop", NULL});
  amp_policy_rows(&p, MR_AMP_COMPUTE,
                  (const char *const[]){"add", "sub", "dot_general", "conv_general_dilated", NULL});
  amp_policy_rows(&p, MR_AMP_F32, (const char *const[]){"exp", "log", "mul", "div", NULL});
  return p;
}

const char *mr_amp_stop(mr_fn_t *f) { return mr_scope_enter(f, "amp_stop"); }
