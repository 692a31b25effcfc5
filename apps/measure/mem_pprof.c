/* Converts a memory report to pprof's format: the parts of a scope's path become the frames of a
   stack, and the value's equation is its leaf. */
#include "apps/measure/mem_pprof.h"

#include <stdio.h>
#include <string.h>

#include "model/call/pprof.h"
#include "model/ir/op.h"

/* Adds an object: "net/block.0.attn" with leaf "dot f32[2,3]" gives the leaf, net/block.0.attn,
   net/block.0, net/block, net. */
static void add_stack(mr_pprof_t *p, const char *scope, const char *leaf, int64_t bytes) {
  enum { DEEPEST = 32, TEXT = 512 };
  char text[DEEPEST][TEXT];
  const char *frame[DEEPEST + 1] = {leaf};
  int n = 0; /* parts of the path so far */
  snprintf(text[0], TEXT, "%s", scope);
  while (n < DEEPEST && *text[n]) {
    const char *whole = text[n];
    size_t end = strlen(whole);
    while (end && whole[end] != '/' && whole[end] != '.') end--;
    frame[++n] = whole;
    if (n < DEEPEST) snprintf(text[n], TEXT, "%.*s", (int)end, whole);
  }
  mr_pprof_add(p, n + 1, frame, bytes);
}

static void mem_pprof_add_row(mr_pprof_t *p, const mr_mem_row_t *r) {
  char leaf[MR_AVAL_TEXT + 64] = "literal", aval[MR_AVAL_TEXT];
  if (r->eqn && r->out < 0)
    snprintf(leaf, sizeof leaf, "%s scratch", r->eqn->op->name);
  else if (r->eqn)
    snprintf(leaf, sizeof leaf, "%s %s", r->eqn->op->name,
             mr_aval_text(&r->eqn->out[r->out]->aval, aval));
  add_stack(p, r->eqn ? r->eqn->scope : "", leaf, (int64_t)r->bytes);
}

mr_err_t mr_mem_pprof(const mr_mem_report_t *r, const char *path, mr_diag_t *diag) {
  mr_pprof_t *p = mr_pprof_create();
  for (int i = 0; i < r->n_row; i++)
    if (r->row[i].first <= r->peak && r->row[i].last >= r->peak) mem_pprof_add_row(p, &r->row[i]);
  return mr_pprof_save(p, "mem: --pprof", path, diag);
}
