#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "model/ir/parse_private.h"

mr_err_t mr__parse_fail(mr_parser_t *p, const char *expected) {
  int line = 1;
  for (const char *c = p->text; c < p->at; c++) line += *c == '\n';
  return mr_fail(p->diag, MR_ERR_DATA, "jaxpr, line %d: expected %s at \"%.20s\"", line, expected,
                 p->at);
}

void mr__parse_space(mr_parser_t *p) {
  while (isspace((unsigned char)*p->at)) p->at++;
}

static bool in_name(char c) { return isalnum((unsigned char)c) || c == '_'; }

bool mr__parse_is(mr_parser_t *p, const char *word) {
  mr__parse_space(p);
  size_t n = strlen(word);
  if (strncmp(p->at, word, n) != 0 || (in_name(word[n - 1]) && in_name(p->at[n]))) return false;
  p->at += n;
  return true;
}

mr_err_t mr__parse_want(mr_parser_t *p, const char *word) {
  return mr__parse_is(p, word) ? MR_OK : mr__parse_fail(p, word);
}

mr_err_t mr__parse_name(mr_parser_t *p, char name[MR_PARSE_NAME]) {
  size_t n = 0;
  mr__parse_space(p);
  while (in_name(p->at[n])) n++;
  if (n == 0 || n >= MR_PARSE_NAME) return mr__parse_fail(p, "a name");
  memcpy(name, p->at, n);
  name[n] = 0;
  p->at += n;
  return MR_OK;
}

mr_err_t mr__parse_int(mr_parser_t *p, int64_t *v) {
  char *end;
  mr__parse_space(p);
  errno = 0;
  *v = strtoll(p->at, &end, 10);
  if (end == p->at || errno) return mr__parse_fail(p, "an integer");
  p->at = end;
  return MR_OK;
}

static mr_err_t parse_dtype(mr_parser_t *p, mr_dtype_t *t) {
  char name[MR_PARSE_NAME];
  MR_TRY(mr__parse_name(p, name));
  for (int k = 0; k < MR_DTYPE_COUNT; k++)
    if (!strcmp(name, mr_dtype_name((mr_dtype_t)k))) {
      *t = (mr_dtype_t)k;
      return MR_OK;
    }
  p->at -= strlen(name);
  return mr__parse_fail(p, "a dtype such as f32");
}

/* No tensor of a text needs more elements than this. */
#define MOST_ELEMS ((int64_t)1 << 44)

mr_err_t mr__parse_aval(mr_parser_t *p, mr_aval_t *a) {
  int64_t elems = 1;
  *a = (mr_aval_t){0};
  MR_TRY(parse_dtype(p, &a->dtype));
  MR_TRY(mr__parse_want(p, "["));
  while (!mr__parse_is(p, "]")) {
    if (a->ndim) MR_TRY(mr__parse_want(p, ","));
    if (a->ndim == MR_MAX_NDIM) return mr__parse_fail(p, "at most 8 dimensions");
    int64_t *d = &a->dim[a->ndim++];
    MR_TRY(mr__parse_int(p, d));
    if (*d < 0 || (*d && elems > MOST_ELEMS / *d)) return mr__parse_fail(p, "a smaller size");
    elems *= *d ? *d : 1;
  }
  return MR_OK;
}
