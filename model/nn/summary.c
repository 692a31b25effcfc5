/* Counts parameters into a row for each module, as flax's table does.  There is no tree of modules:
   names have dots, a prefix that ends at one is a module, and a number behind a dot is an element
   of a list. */
#include "model/nn/params.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct table {
  mr_summary_row_t *row;
  int n;
} table_t;

static int find_row(const table_t *t, const char *name, size_t len) {
  for (int i = t->n; i-- > 0;) /* what is looked for is mostly of the last block */
    if (strlen(t->row[i].name) == len && !strncmp(t->row[i].name, name, len)) return i;
  return -1;
}

/* A new row at `at`, in the order of the table. */
static mr_summary_row_t *insert_row(table_t *t, int at, const char *name, size_t len, int depth) {
  mr_summary_row_t *r = &t->row[at];
  memmove(r + 1, r, (size_t)(t->n++ - at) * sizeof *r);
  *r = (mr_summary_row_t){.depth = depth};
  snprintf(r->name, sizeof r->name, "%.*s", (int)len, name);
  return r;
}

static void count_param(table_t *t, const mr_param_t *p) {
  int depth = 0;
  t->row[0].count += (int64_t)p->size;
  for (const char *dot = strchr(p->name, '.'); dot; dot = strchr(dot + 1, '.')) {
    depth++;
    if (isdigit((unsigned char)dot[1])) continue; /* a list */
    size_t len = (size_t)(dot - p->name);
    int at = find_row(t, p->name, len);
    if (at < 0) at = t->n, insert_row(t, at, p->name, len, depth);
    t->row[at].count += (int64_t)p->size;
  }
}

static bool is_below(const char *name, const char *module, size_t len) {
  return !len || (!strncmp(name, module, len) && (name[len] == '.' || !name[len]));
}

/* The bytes of a name before its last part; an element of a list is a part with the list's name. */
static size_t part_around(const char *name) {
  size_t n = strlen(name);
  bool list;
  do {
    size_t end = n;
    while (n && name[n] != '.') n--;
    list = n && end > n && isdigit((unsigned char)name[n + 1]);
    if (list) n--;
  } while (list);
  return n;
}

/* Adds the row of a module without parameters: behind the one that was applied before it in the
   same part of the model, or else behind the part itself. */
static void add_module(table_t *t, const mr_module_t *m, const mr_module_t *before) {
  size_t part = part_around(m->name), len = 0;
  int depth = 1, at = part ? find_row(t, m->name, part) + 1 : 1;
  for (const char *c = m->name; *c; c++) depth += *c == '.';
  if (before && is_below(before->name, m->name, part)) len = strlen(before->name);
  int last = len ? find_row(t, before->name, len) : -1;
  if (last >= 0) at = last + 1;
  if (last < 0 && at == 0) at = t->n; /* of a part without a row */
  while (last >= 0 && at < t->n && is_below(t->row[at].name, before->name, len)) at++;
  insert_row(t, at, m->name, strlen(m->name), depth);
}

/* Counts a module that draws in all rows that it is in. */
static void count_drawing(table_t *t, const char *name) {
  t->row[0].draws++;
  for (int i = 1; i < t->n; i++)
    t->row[i].draws += is_below(name, t->row[i].name, strlen(t->row[i].name));
}

static void add_modules(table_t *t, const mr_params_t *s) {
  for (int i = 0; i < s->n_module; i++) {
    const mr_module_t *m = &s->module[i];
    int at = *m->name ? find_row(t, m->name, strlen(m->name)) : 0;
    if (at < 0) add_module(t, m, i ? m - 1 : NULL);
    if (at < 0 && !strcmp(m->type, MR_MODULE_DROPOUT)) count_drawing(t, m->name);
  }
  for (int i = s->n_module; i-- > 0;) { /* the first of a name counts */
    const char *name = s->module[i].name;
    t->row[*name ? find_row(t, name, strlen(name)) : 0].module = &s->module[i];
  }
}

mr_err_t mr_summary(const mr_params_t *s, mr_summary_row_t **rows, int *n, mr_diag_t *diag) {
  size_t most = 1 + (size_t)s->n_module;
  for (int i = 0; i < s->n; i++)
    for (const char *c = s->param[i].name; *c; c++) most += *c == '.';
  table_t t = {calloc(most + 1, sizeof *t.row), 0};
  if (!t.row) return mr_no_memory(diag, "the parameter table");
  insert_row(&t, 0, "(all)", strlen("(all)"), 0);
  for (int i = 0; i < s->n; i++) count_param(&t, &s->param[i]);
  add_modules(&t, s);
  *rows = t.row, *n = t.n;
  return MR_OK;
}
