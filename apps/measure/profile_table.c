/* Sums over kernel calls under the roofline of the machine's limits, and the profile as aligned
   tables: limits, ops, scopes, and the sums by kind. */
#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "apps/measure/profile.h"

/* ---- sums ---- */

static double peak_of(const mr_profile_t *p, const mr_profile_op_t *c) {
  return c->narrow ? p->limit.bf16 : p->limit.f32;
}

/* GFLOP/s are operations per nanosecond, GB/s bytes per nanosecond. */
double mr_profile_ideal_ns(const mr_profile_t *p, const mr_profile_op_t *c) {
  double work = c->cost.flop / peak_of(p, c), traffic = c->cost.bytes / p->limit.copy;
  return work > traffic ? work : traffic;
}

mr_profile_kind_t mr_profile_kind(const mr_profile_t *p, const mr_profile_op_t *c) {
  if (c->cost.product) return MR_PROFILE_PRODUCT;
  bool memory = c->cost.bytes / p->limit.copy > c->cost.flop / peak_of(p, c);
  return memory && !c->serial ? MR_PROFILE_MEMORY : MR_PROFILE_OTHER;
}

const char *mr_profile_kind_name(mr_profile_kind_t kind) {
  static const char *const name[] = {"matrix products", "bandwidth-bound", "other"};
  return name[kind];
}

void mr_profile_add(const mr_profile_t *p, mr_profile_sum_t *sum, const mr_profile_op_t *c) {
  sum->calls++;
  sum->ns += (double)c->ns / p->runs;
  sum->flop += c->cost.flop;
  sum->bytes += c->cost.bytes;
  sum->ideal_ns += mr_profile_ideal_ns(p, c);
}

mr_profile_sum_t mr_profile_total(const mr_profile_t *p, int kind) {
  mr_profile_sum_t sum = {0};
  for (int i = 0; i < p->n; i++)
    if (kind < 0 || (int)mr_profile_kind(p, &p->call[i]) == kind)
      mr_profile_add(p, &sum, &p->call[i]);
  return sum;
}

size_t mr_profile_level(const char *scope, size_t *skip) {
  size_t n = strcspn(scope, "/.");
  while (scope[n] == '.' && isdigit((unsigned char)scope[n + 1]))
    n += 1 + strcspn(scope + n + 1, "/.");
  *skip = n + (scope[n] != 0);
  return n;
}

/* ---- tables ---- */

#define SMALL 0.001 /* share of the step; ops below share one row */

typedef struct row {
  char name[160];
  char shape[256];
  mr_profile_sum_t sum;
} row_t;

static int compare_row_times(const void *a, const void *b) {
  const row_t *x = a, *y = b;
  return x->sum.ns < y->sum.ns ? 1 : x->sum.ns > y->sum.ns ? -1 : 0;
}

static row_t *row_of(row_t *row, int *n, const char *name, const char *shape) {
  for (int i = 0; i < *n; i++)
    if (!strcmp(row[i].name, name) && !strcmp(row[i].shape, shape)) return &row[i];
  row_t *r = &row[(*n)++];
  memset(r, 0, sizeof *r);
  snprintf(r->name, sizeof r->name, "%s", name);
  snprintf(r->shape, sizeof r->shape, "%s", shape);
  return r;
}

static void profile_table_print_head(const char *what, FILE *to) {
  fprintf(to, "%-34s %5s %9s %6s %9s %9s %9s %8s %6s\n", what, "calls", "ms", "time", "GFLOP", "MB",
          "GFLOP/s", "GB/s", "limit");
}

static void profile_table_print_row(const char *name, const mr_profile_sum_t *s, double step_ns,
                                    const char *shape, FILE *to) {
  double ns = s->ns > 0 ? s->ns : 1;
  fprintf(to, "%-34.34s %5d %9.3f %5.1f%% %9.3f %9.2f %9.1f %8.1f %5.0f%%%s%s\n", name, s->calls,
          s->ns / 1e6, 100 * s->ns / step_ns, s->flop / 1e9, s->bytes / 1e6, s->flop / ns,
          s->bytes / ns, 100 * s->ideal_ns / ns, *shape ? "  " : "", shape);
}

static void print_limits(const mr_profile_limits_t *l, FILE *to) {
  fprintf(to, "limits of this machine    1 thread");
  if (l->threads > 1) fprintf(to, "   %d threads", l->threads);
  const struct {
    const char *name, *unit;
    double one, all;
  } line[] = {{"f32 multiply-add", "GFLOP/s", l->f32_one, l->f32},
              {"bf16 multiply-add", "GFLOP/s", l->bf16_one, l->bf16},
              {"copy (read + write)", "GB/s", l->copy_one, l->copy}};
  for (size_t i = 0; i < sizeof line / sizeof line[0]; i++) {
    fprintf(to, "\n  %-21s %10.1f", line[i].name, line[i].one);
    if (l->threads > 1) fprintf(to, " %11.1f", line[i].all);
    fprintf(to, " %s", line[i].unit);
  }
  fprintf(to, "\n\n");
}

static void print_ops(const mr_profile_t *p, row_t *row, double step_ns, FILE *to) {
  int n = 0, shown = 0;
  mr_profile_sum_t all = mr_profile_total(p, -1), rest = {0};
  for (int i = 0; i < p->n; i++)
    mr_profile_add(p, &row_of(row, &n, p->call[i].op, p->call[i].shape)->sum, &p->call[i]);
  qsort(row, (size_t)n, sizeof *row, compare_row_times);
  profile_table_print_head("op", to);
  for (; shown < n && row[shown].sum.ns > SMALL * step_ns; shown++)
    profile_table_print_row(row[shown].name, &row[shown].sum, step_ns, row[shown].shape, to);
  for (int i = shown; i < n; i++) {
    const mr_profile_sum_t *s = &row[i].sum;
    rest.calls += s->calls, rest.ns += s->ns, rest.ideal_ns += s->ideal_ns;
    rest.flop += s->flop, rest.bytes += s->bytes;
  }
  if (shown < n) profile_table_print_row("smaller ones", &rest, step_ns, "", to);
  profile_table_print_row("all ops", &all, step_ns, "", to);
  fputc('\n', to);
}

static const char no_scope[] = "(no scope)";

/* Collects a row for every level of every scope path, forward and backward pass together. */
static int collect_scopes(const mr_profile_t *p, row_t *row) {
  int n = 0;
  for (int i = 0; i < p->n; i++) {
    const char *scope = p->call[i].scope;
    size_t skip, end = 0;
    if (!*scope) mr_profile_add(p, &row_of(row, &n, no_scope, "")->sum, &p->call[i]);
    for (const char *s = scope; *s; s += skip) {
      char path[160];
      end = (size_t)(s - scope) + mr_profile_level(s, &skip);
      snprintf(path, sizeof path, "%.*s", (int)end, scope);
      mr_profile_add(p, &row_of(row, &n, path, "")->sum, &p->call[i]);
    }
  }
  return n;
}

static int profile_table_by_name(const void *a, const void *b) {
  return strcmp(((const row_t *)a)->name, ((const row_t *)b)->name);
}

static void print_scopes(const mr_profile_t *p, row_t *row, double step_ns, FILE *to) {
  int n = collect_scopes(p, row);
  qsort(row, (size_t)n, sizeof *row, profile_table_by_name);
  profile_table_print_head("scope", to);
  for (int i = 0; i < n; i++) {
    char name[256];
    const char *last = row[i].name;
    int depth = 0;
    size_t skip;
    for (const char *s = last; row[i].name != no_scope && *s; s += skip, depth++) {
      last = s;
      mr_profile_level(s, &skip);
    }
    snprintf(name, sizeof name, "%*s%s", depth > 1 ? 2 * (depth - 1) : 0, "", last);
    profile_table_print_row(name, &row[i].sum, step_ns, "", to);
  }
  fputc('\n', to);
}

static void print_kinds(const mr_profile_t *p, double step_ns, FILE *to) {
  mr_profile_sum_t all = mr_profile_total(p, -1);
  profile_table_print_head("where the time goes", to);
  for (int k = MR_PROFILE_PRODUCT; k <= MR_PROFILE_OTHER; k++) {
    mr_profile_sum_t s = mr_profile_total(p, k);
    if (k == MR_PROFILE_OTHER) s.ns += step_ns - all.ns; /* between kernels */
    profile_table_print_row(mr_profile_kind_name((mr_profile_kind_t)k), &s, step_ns, "", to);
  }
  fprintf(to, "\n%d step%s of %.1f ms; ops %.1f ms of it (%.1f %%); at the limits %.1f ms\n",
          p->runs, p->runs == 1 ? "" : "s", step_ns / 1e6, all.ns / 1e6, 100 * all.ns / step_ns,
          all.ideal_ns / 1e6);
  fprintf(to, "between steps (batches, metrics): %.2f ms a step (%.1f %%)\n",
          (double)p->outside_ns / p->runs / 1e6,
          100 * (double)p->outside_ns / (double)(p->outside_ns + p->wall_ns));
}

void mr_profile_table(const mr_profile_t *p, FILE *to) {
  size_t most = 1;
  for (int i = 0; i < p->n; i++) {
    most += 2;
    for (const char *c = p->call[i].scope; *c; c++) most += *c == '/' || *c == '.';
  }
  row_t *row = calloc(most, sizeof *row);
  double step_ns = (double)p->wall_ns / p->runs;
  if (!row) return;
  print_limits(&p->limit, to);
  print_ops(p, row, step_ns, to);
  print_scopes(p, row, step_ns, to);
  print_kinds(p, step_ns, to);
  fputs(
      "limit: the shortest time that these limits allow, over the time taken; above 100 % where\n"
      "operands were still in a cache, as bytes count as if all came from memory.\n",
      to);
  free(row);
}
