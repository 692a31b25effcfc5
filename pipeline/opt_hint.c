/* How a value that was refused may have been meant: numbers with units and separators, lists in
   brackets, other words for a choice. */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/text.h"
#include "pipeline/opt.h"

enum { VALUE_BYTES = 64 };

/* ---- numbers ---- */

typedef struct unit {
  const char *name;
  double by;
} unit_t;

/* A factor of 0 ends a table.  A unit alone counts in powers of 1024 for bytes, as mr_bytes_parse
   reads it; "m" is a million of records and a minute of seconds. */
static const unit_t plain_units[] = {{"", 1},    {"f", 1},    {"k", 1e3},       {"m", 1e6},
                                     {"g", 1e9}, {"%", 0.01}, {"million", 1e6}, {0}};
static const unit_t byte_units[] = {
    {"", 1},         {"b", 1},       {"bytes", 1},    {"kb", 1e3},     {"mb", 1e6},
    {"gb", 1e9},     {"tb", 1e12},   {"k", 0x1p10},   {"ki", 0x1p10},  {"kib", 0x1p10},
    {"m", 0x1p20},   {"mi", 0x1p20}, {"mib", 0x1p20}, {"g", 0x1p30},   {"gi", 0x1p30},
    {"gib", 0x1p30}, {"t", 0x1p40},  {"ti", 0x1p40},  {"tib", 0x1p40}, {0}};
/* In seconds. */
static const unit_t time_units[] = {{"us", 1e-6}, {"ms", 1e-3}, {"s", 1},    {"sec", 1},
                                    {"m", 60},    {"min", 60},  {"h", 3600}, {"hour", 3600},
                                    {"d", 86400}, {0}};

/* The factor of a unit's name; 0 if the table has none of it. */
static double unit_factor(const unit_t *of, const char *name) {
  while (of->by && strcasecmp(of->name, name)) of++;
  return of->by;
}

/* Seconds in the unit of a setting that is a time; 0 if it is none. */
static double seconds_of(const char *unit) {
  if (!unit) return 0;
  if (!strcmp(unit, "microseconds")) return 1e-6;
  return !strcmp(unit, "ms") ? 1e-3 : !strcmp(unit, "s") ? 1 : 0;
}

/* What a number followed by `name` is in the unit of the setting, per 1; 0: not known. */
static double factor_for(const mr_opt_t *o, const char *name) {
  double each = seconds_of(o->unit);
  if (each) return *name ? unit_factor(time_units, name) / each : 1;
  return unit_factor(o->unit && !strcmp(o->unit, "bytes") ? byte_units : plain_units, name);
}

/* Whether the commas of a text separate thousands, "1,000,000". */
static bool separates_thousands(const char *text) {
  size_t n = strspn(text, "0123456789");
  if (!n || n > 3 || text[n] != ',') return false;
  for (text += n; *text == ','; text += 4)
    if (strspn(text + 1, "0123456789") != 3) return false;
  return !*text;
}

/* Reads the number probably meant by value, ignoring "_" and accepting a unit, a decimal comma, and
   commas between thousands where a whole number is wanted. */
static bool read_number(const mr_opt_t *o, const char *value, double *out) {
  char text[VALUE_BYTES], *end;
  size_t n = 0;
  bool thousands = separates_thousands(value), whole = o->type == MR_OPT_INT;
  if (thousands && !whole && *value != '0') return false; /* 1000 or 1 */
  for (; *value && n < sizeof text - 1; value++)
    if (*value != '_' && !(thousands && whole && *value == ',')) text[n++] = *value;
  text[n] = 0;
  char *comma = whole ? NULL : strchr(text, ',');
  if (comma && comma[1] && strspn(comma + 1, "0123456789") == strlen(comma + 1)) *comma = '.';
  double v = mr_strtod(text, &end);
  if (end == text || !isfinite(v)) return false;
  end += strspn(end, " ");
  *out = v * factor_for(o, end);
  return factor_for(o, end) != 0;
}

static void number_hint(const mr_opt_t *o, const char *value, char *text, size_t n) {
  double v;
  if (!read_number(o, value, &v) || (o->lo != o->hi && (v < o->lo || v > o->hi))) return;
  if (o->type == MR_OPT_INT) {
    double whole = round(v); /* 2 ms are 2000.0000000000002 us */
    if (fabs(v - whole) > 1e-9 * fabs(whole) || fabs(v) > 1e15) return;
    v = whole;
  }
  mr_snprintf(text, n, o->type == MR_OPT_INT ? "; write %.0f" : "; write %.10g", v);
}

/* ---- choices ---- */

bool mr_is_choice(const char *list, const char *word) {
  size_t n = strlen(word);
  for (const char *at = list; n && (at = strstr(at, word)); at += n)
    if ((at == list || at[-1] == '|') && (at[n] == '|' || !at[n])) return true;
  return false;
}

/* The choice that is value but for case, '-' and '_', into word[0,VALUE_BYTES); false without
   one. */
static bool same_choice(const mr_opt_t *o, const char *value, char *word) {
  for (const char *at = o->choices; at && *at;) {
    char folded[VALUE_BYTES];
    size_t n = strcspn(at, "|"), k = 0;
    for (size_t i = 0; i < n && k < sizeof folded - 1; i++)
      if (at[i] != '-' && at[i] != '_') folded[k++] = (char)tolower((unsigned char)at[i]);
    folded[k] = 0;
    if (n < VALUE_BYTES && mr_hint_has(folded, value)) {
      memcpy(word, at, n), word[n] = 0;
      return true;
    }
    at += n + (at[n] == '|');
  }
  return false;
}

static void choice_hint(const mr_opt_t *o, const char *value, char *text, size_t n) {
  char word[VALUE_BYTES];
  if (same_choice(o, value, word)) {
    snprintf(text, n, "; write %s", word);
    return;
  }
  const mr_hint_t *row = mr_hint_find(o->values, value);
  if (!row) return;
  if (row->write && mr_is_choice(o->choices, row->write))
    snprintf(text, n, "; write %s", row->write);
  else if (row->why)
    mr_hint_text(row, "", text, n);
}

/* ---- lists ---- */

/* Writes `least` to `most` numbers separated by sep, whatever brackets and separators the value
   has, unless the setting would refuse one of them.  A single one of three counts for all three. */
static void list_hint(const mr_opt_t *o, const char *value, int least, int most, char sep,
                      char *text, size_t n) {
  double v[MR_VEC_MAX];
  int got = 0;
  for (const char *at = value; *at && got <= most;) {
    char *end;
    at += strspn(at, "()[]{}\"' ,:;x");
    if (!*at) break;
    double x = mr_strtod(at, &end);
    if (end == at || got == most || !isfinite(x)) return;
    if (o->lo != o->hi && (x < o->lo || x > o->hi)) return;
    v[got++] = x, at = end + (*end == '-');
  }
  if (got == 1 && least == 3) v[1] = v[2] = v[0], got = 3;
  if (got < least) return;
  if (sep == ':' && v[0] > v[1]) {
    double x = v[0];
    v[0] = v[1], v[1] = x;
  }
  size_t k = (size_t)snprintf(text, n, "; write ");
  for (int i = 0; i < got && k < n; i++) {
    mr_snprintf(text + k, n - k, "%.10g%c", v[i], i + 1 < got ? sep : 0);
    k += strlen(text + k);
  }
}

static void bool_hint(const char *value, char *text, size_t n) {
  static const mr_hint_t words[] = {{"true yes on t y enable enabled", "true", NULL},
                                    {"false no off f n none null disable disabled", "false", NULL},
                                    {0}};
  const mr_hint_t *row = mr_hint_find(words, value);
  if (row) snprintf(text, n, "; write %s", row->write);
}

/* True for settings joined by other characters than blanks: "1,", "128,epochs=2", "128;". */
static bool is_joined(const mr_opt_t *o, const char *value) {
  size_t n = strlen(value);
  if (n > 1 && (value[n - 1] == ',' || value[n - 1] == ';')) return true;
  return o->type != MR_OPT_VEC3 && o->type != MR_OPT_VEC && strpbrk(value, ",;") &&
         strchr(value, '=');
}

const char *mr_value_hint(const mr_opt_t *o, const char *value, char *text, size_t n) {
  if (!n) return text;
  text[0] = 0;
  if (is_joined(o, value)) {
    snprintf(text, n, "; blanks separate settings, not \",\" or \";\"");
  } else if (!*value) {
    snprintf(text, n, "; no blanks are allowed around \"=\"");
  } else if (o->type == MR_OPT_INT || o->type == MR_OPT_F64) {
    number_hint(o, value, text, n);
  } else if (o->type == MR_OPT_ENUM) {
    choice_hint(o, value, text, n);
  } else if (o->type == MR_OPT_RANGE) {
    list_hint(o, value, 2, 2, ':', text, n);
  } else if (o->type == MR_OPT_VEC3) {
    list_hint(o, value, 3, 3, ',', text, n);
  } else if (o->type == MR_OPT_VEC) {
    list_hint(o, value, 1, MR_VEC_MAX, ',', text, n);
  } else if (o->type == MR_OPT_BOOL) {
    bool_hint(value, text, n);
  }
  return text;
}
