/* Counts parameters into a row for each module, as flax's table does.  There is no tree of modules:
   names have dots, a prefix that ends at one is a module, and a number behind a dot is an element
   of a list. */
#include "model/nn/params.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void count_into(mr_summary_row_t *rows, int *n, const char *name, size_t len, int depth,
                       int64_t count) {
  for (int i = 0; i < *n; i++)
    if (strlen(rows[i].name) == len && !strncmp(rows[i].name, name, len)) {
      rows[i].count += count;
      return;
    }
  mr_summary_row_t *r = &rows[(*n)++];
  snprintf(r->name, sizeof r->name, "%.*s", (int)len, name);
  r->depth = depth;
  r->count = count;
}

static void count_param(mr_summary_row_t *rows, int *n, const mr_param_t *t) {
  int depth = 0;
  rows[0].count += (int64_t)t->size;
  for (const char *dot = strchr(t->name, '.'); dot; dot = strchr(dot + 1, '.')) {
    bool is_list = isdigit((unsigned char)dot[1]);
    if (!is_list) count_into(rows, n, t->name, (size_t)(dot - t->name), depth, (int64_t)t->size);
    depth += !is_list;
  }
}

static const mr_module_t *find_module(const mr_params_t *s, const char *name) {
  for (int i = 0; i < s->n_module; i++)
    if (!strcmp(s->module[i].name, name)) return &s->module[i];
  return NULL;
}

mr_err_t mr_summary(const mr_params_t *s, mr_summary_row_t **rows, int *n, mr_diag_t *diag) {
  size_t most = 1;
  for (int i = 0; i < s->n; i++)
    for (const char *c = s->param[i].name; *c; c++) most += *c == '.';
  *rows = calloc(most, sizeof **rows);
  if (!*rows) return mr_no_memory(diag, "the parameter table");
  snprintf((*rows)[0].name, sizeof(*rows)[0].name, "(all)");
  *n = 1;
  for (int i = 0; i < s->n; i++) count_param(*rows, n, &s->param[i]);
  for (int i = 0; i < *n; i++) (*rows)[i].module = find_module(s, i ? (*rows)[i].name : "");
  return MR_OK;
}
