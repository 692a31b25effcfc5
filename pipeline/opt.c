/* Parses the text of a setting by its type, checks the range, and describes what was expected.
   Each type has one parser, for graph text, flags and checkpoints alike, and a value that is
   refused leaves the state as it was. */
#include "pipeline/opt.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

static bool opt_within(const mr_opt_t *o, double v) {
  return o->lo == o->hi || (v >= o->lo && v <= o->hi);
}

/* True if the default is no value of the range: a word, such as -1, for the setting's absence. */
static bool default_is_outside(const mr_opt_t *o) {
  return (o->type == MR_OPT_INT || o->type == MR_OPT_F64) && o->def &&
         !opt_within(o, mr_strtod(o->def, NULL));
}

/* True for a value of the range, and for the default although it is outside, since graph texts
   and checkpoints write it; a number between them means nothing. */
static bool opt_in_range(const mr_opt_t *o, double v) {
  return opt_within(o, v) || (default_is_outside(o) && v == mr_strtod(o->def, NULL));
}

/* Describes the values of a setting, for a sentence. */
static void want_text(const mr_opt_t *o, char *text, size_t n) {
  static const char *const kind[] = {[MR_OPT_INT] = "a whole number",
                                     [MR_OPT_F64] = "a number",
                                     [MR_OPT_BOOL] = "true or false",
                                     [MR_OPT_STR] = "a text",
                                     [MR_OPT_SECRET] = "a text",
                                     [MR_OPT_ENUM] = "one of",
                                     [MR_OPT_RANGE] = "LOW:HIGH, two numbers in order",
                                     [MR_OPT_VEC3] = "three numbers A,B,C",
                                     [MR_OPT_VEC] = "one to four numbers A,B,.."};
  const char *unit = o->unit ? o->unit : "", *gap = *unit ? " of " : "";
  if (o->type == MR_OPT_ENUM)
    snprintf(text, n, "one of %s", o->choices);
  else if (o->lo == o->hi || o->type == MR_OPT_BOOL || o->type == MR_OPT_STR ||
           o->type == MR_OPT_SECRET)
    snprintf(text, n, "%s%s%s", kind[o->type], gap, unit);
  else
    mr_snprintf(text, n, "%s in [%.15g,%.15g]%s%s%s%s", kind[o->type], o->lo, o->hi, gap, unit,
                default_is_outside(o) ? ", or " : "", default_is_outside(o) ? o->def : "");
}

/* Parses a number that must be followed by stop; neither NaN nor infinite. */
static bool opt_number(const char *text, char stop, const char **rest, double *out) {
  char *end;
  if (!*text || *text == ' ' || *text == '\t' || *text == '\n') return false;
  errno = 0;
  double v = mr_strtod(text, &end);
  if (end == text || *end != stop || !isfinite(v)) return false;
  *out = v, *rest = stop ? end + 1 : end;
  return true;
}

static bool parse_int(const mr_opt_t *o, const char *text, void *at) {
  char *end;
  if (!(*text == '-' || *text == '+' || (*text >= '0' && *text <= '9'))) return false;
  errno = 0;
  long long v = strtoll(text, &end, 10);
  if (end == text || *end || errno || !opt_in_range(o, (double)v)) return false;
  *(int64_t *)at = v;
  return true;
}

/* Parses n numbers separated by sep, each in range. */
static bool parse_numbers(const mr_opt_t *o, const char *text, int n, char sep, double *at) {
  double v[MR_VEC_MAX];
  for (int i = 0; i < n; i++)
    if (!opt_number(text, i + 1 < n ? sep : 0, &text, &v[i]) || !opt_in_range(o, v[i]))
      return false;
  memcpy(at, v, (size_t)n * sizeof *v);
  return true;
}

static bool parse_vec(const mr_opt_t *o, const char *text, mr_vec_t *at) {
  mr_vec_t v = {.n = 1};
  for (const char *c = text; *c; c++) v.n += *c == ',';
  if (v.n > MR_VEC_MAX || !parse_numbers(o, text, v.n, ',', v.v)) return false;
  return *at = v, true;
}

static bool parse_bool(const char *text, bool *at) {
  static const char *const yes[] = {"true", "yes", "on", "1"}, *const no[] = {"false", "no", "off",
                                                                              "0"};
  for (int i = 0; i < 4; i++) {
    if (!strcmp(text, yes[i])) return *at = true, true;
    if (!strcmp(text, no[i])) return *at = false, true;
  }
  return false;
}

static bool parse_enum(const mr_opt_t *o, const char *text, int *at) {
  size_t n = strlen(text);
  int k = 0;
  for (const char *c = o->choices; c; k++) {
    const char *bar = strchr(c, '|');
    size_t len = bar ? (size_t)(bar - c) : strlen(c);
    if (len == n && !memcmp(c, text, n)) return *at = k, true;
    c = bar ? bar + 1 : NULL;
  }
  return false;
}

static bool opt_parse(const mr_opt_t *o, const char *text, void *at) {
  switch (o->type) {
    case MR_OPT_INT: return parse_int(o, text, at);
    case MR_OPT_F64: return parse_numbers(o, text, 1, 0, at);
    case MR_OPT_BOOL: return parse_bool(text, at);
    case MR_OPT_STR:
    case MR_OPT_SECRET: return *(const char **)at = text, true;
    case MR_OPT_ENUM: return parse_enum(o, text, at);
    case MR_OPT_VEC3: return parse_numbers(o, text, 3, ',', at);
    case MR_OPT_VEC: return parse_vec(o, text, at);
    case MR_OPT_RANGE: {
      double v[2];
      if (!parse_numbers(o, text, 2, ':', v) || v[0] > v[1]) return false;
      memcpy(at, v, sizeof v);
      return true;
    }
    case MR_OPT_END: break;
  }
  return false;
}

mr_err_t mr_opt_set(const mr_opt_t *opt, void *state, const char *who, const char *text,
                    mr_diag_t *diag) {
  char want[256], hint[MR_HINT_MAX];
  if (opt_parse(opt, text, (char *)state + opt->offset)) return MR_OK;
  want_text(opt, want, sizeof want);
  return mr_fail(diag, MR_ERR_CONFIG, "%s: setting %s = \"%.200s\": want %s%s", who, opt->name,
                 text, want, mr_value_hint(opt, text, hint, sizeof hint));
}
