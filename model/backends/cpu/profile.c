/* Where the time of an executable goes, op by op. */
#include <stdlib.h>
#include <string.h>

#include "model/backends/cpu/exec_private.h"
#include "model/ops/op.h"

typedef struct row {
  const char *op;
  char shape[2 * MR_AVAL_TEXT];
  int64_t ns;
  int calls;
} row_t;

void mr_exec_profile(mr_exec_t *x, bool on) {
  x->profile = on;
  x->runs = 0;
  memset(x->ns, 0, (size_t)x->fn->n_eqn * sizeof *x->ns);
}

static int slower(const void *a, const void *b) {
  const row_t *x = a, *y = b;
  return x->ns < y->ns ? 1 : x->ns > y->ns ? -1 : 0;
}

static int collect(const mr_exec_t *x, row_t *row, int64_t *total) {
  int n = 0;
  for (int i = 0; i < x->fn->n_eqn; i++) {
    const mr_eqn_t *e = x->fn->eqn[i];
    if (!x->call[i].run) continue;
    char a[MR_AVAL_TEXT], b[MR_AVAL_TEXT];
    row_t r = {.op = e->op->name, .ns = x->ns[i], .calls = 1};
    snprintf(r.shape, sizeof r.shape, "%s -> %s", mr_aval_text(&e->in[0]->aval, a),
             mr_aval_text(&e->out[0]->aval, b));
    int k = 0;
    while (k < n && (row[k].op != r.op || strcmp(row[k].shape, r.shape) != 0)) k++;
    if (k == n) {
      row[n++] = r;
    } else {
      row[k].ns += r.ns;
      row[k].calls++;
    }
    *total += x->ns[i];
  }
  return n;
}

void mr_exec_profile_print(const mr_exec_t *x, FILE *to) {
  row_t *row = calloc((size_t)x->fn->n_eqn + 1, sizeof *row);
  int64_t total = 0;
  if (!row) return;
  int n = x->runs ? collect(x, row, &total) : 0;
  if (n) qsort(row, (size_t)n, sizeof *row, slower);
  for (int i = 0; i < n; i++)
    fprintf(to, "%-28s %5d calls %9.3f ms %5.1f %%  %s\n", row[i].op, row[i].calls,
            (double)row[i].ns / 1e6 / (double)x->runs, 100.0 * (double)row[i].ns / (double)total,
            row[i].shape);
  if (n) fprintf(to, "%-28s %11s %9.3f ms\n", "all", "", (double)total / 1e6 / (double)x->runs);
  free(row);
}
