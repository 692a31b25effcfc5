/* A state says where a stream resumes and of which stream it is: one short text for each stage, of
   the settings that decide what batches hold, as far as they are not the usual ones.  What only
   says how, from where or how long (pipeline/graph/stream_settings.h) is no part of it. */
#include "pull/state.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/shown.h"
#include "base/text.h"
#include "pipeline/graph/stream_settings.h"

enum { VERSION = 2 /* 1 had no "version" */, VALUE_MAX = 48, STAGE_TEXT = 512 };

/* ---- reading ---- */

static bool state_whole(const cJSON *o, const char *name, int64_t *out) {
  const cJSON *v = cJSON_GetObjectItemCaseSensitive(o, name);
  if (!cJSON_IsNumber(v) || !(v->valuedouble >= 0 && v->valuedouble <= 9e15)) return false;
  *out = (int64_t)v->valuedouble;
  return true;
}

static bool state_words(const cJSON *words, mr_stream_at_t *at) {
  int n = cJSON_GetArraySize(words);
  if (!cJSON_IsArray(words) || n > MR_STREAM_WORDS_MAX) return false;
  for (int i = 0; i < n; i++) {
    const char *text = cJSON_GetStringValue(cJSON_GetArrayItem(words, i));
    char *end = NULL;
    errno = 0;
    at->word[i] = text ? strtoll(text, &end, 10) : 0;
    if (!text || end == text || *end || errno) return false;
  }
  at->n_words = n;
  return true;
}

static bool state_ledger(const cJSON *o, mr_stream_state_t *st) {
  const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(o, "ledger"));
  if (!text || strlen(text) != 16 || strspn(text, "0123456789abcdef") != 16) return false;
  memcpy(st->ledger, text, sizeof st->ledger);
  return true;
}

static mr_err_t state_parse(const cJSON *o, mr_stream_state_t *st, mr_diag_t *diag) {
  int64_t version;
  const cJSON *stages = cJSON_GetObjectItemCaseSensitive(o, "stages");
  if (cJSON_GetObjectItemCaseSensitive(o, "version") &&
      !(state_whole(o, "version", &version) && version >= 1 && version <= VERSION))
    return mr_fail(diag, MR_ERR_DATA,
                   "a state of another version, want at most %d; use a newer millrace", VERSION);
  st->by_number = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(o, "by_number"));
  if (!o || !state_whole(o, "step", &st->at.number) ||
      (!st->by_number && !state_whole(o, "position", &st->at.position)) || !state_ledger(o, st) ||
      !state_words(cJSON_GetObjectItemCaseSensitive(o, "words"), &st->at))
    return mr_fail(diag, MR_ERR_DATA, "is not the state of a stream");
  if (!state_whole(o, "records", &st->records)) st->records = 0;
  if (!cJSON_IsArray(stages)) return MR_OK;
  st->stages = cJSON_PrintUnformatted(stages);
  return st->stages ? MR_OK : mr_no_memory(diag, "the state of a stream");
}

mr_err_t mr_stream_state_read(const char *text, size_t n, mr_stream_state_t *st, mr_diag_t *diag) {
  *st = (mr_stream_state_t){0};
  cJSON *o = cJSON_ParseWithLength(text, n);
  mr_err_t e = state_parse(o, st, diag);
  cJSON_Delete(o);
  return e;
}

void mr_stream_state_free(mr_stream_state_t *st) {
  free(st->stages);
  st->stages = NULL;
}

/* ---- which stream ---- */

/* Whether two texts mean one number: 0.5 and 0.50. */
static bool same_number(const mr_opt_t *o, const char *a, const char *b) {
  char *a_end, *b_end;
  if (o->type != MR_OPT_INT && o->type != MR_OPT_F64) return false;
  double x = mr_strtod(a, &a_end), y = mr_strtod(b, &b_end);
  return a_end != a && b_end != b && !*a_end && !*b_end && x == y;
}

/* Appends " NAME=VALUE" of a setting that is not the usual one; a long value as its beginning and a
   hash of it. */
static void add_setting(char *text, size_t size, const mr_opt_t *o, const char *value) {
  char number[32], *end;
  size_t n = strlen(text);
  double v = mr_strtod(value, &end);
  if ((o->type == MR_OPT_INT || o->type == MR_OPT_F64) && end != value && !*end) {
    mr_snprintf(number, sizeof number, "%.17g", v);
    value = number;
  }
  char *shown = mr_shown(o, value);
  if (!shown) return;
  if (strlen(shown) > VALUE_MAX)
    snprintf(text + n, size - n, " %s=%.16s..%016" PRIx64, o->name, shown,
             (uint64_t)XXH3_64bits(shown, strlen(shown)));
  else
    snprintf(text + n, size - n, " %s=%s", o->name, shown);
  free(shown);
}

static void stage_text(const mr_graph_t *g, const mr_stage_t *s, char *text, size_t n) {
  snprintf(text, n, "%s", s->def->name);
  for (const mr_opt_t *o = s->def->opts; o && o->name; o++) {
    const char *value = mr_graph_setting(g, s->name, o->name);
    if (!value || o->type == MR_OPT_SECRET || mr_setting_is_means(o->name) ||
        mr_setting_is_length(s->def, o->name) || mr_setting_is_place(s->def, o))
      continue;
    if (o->def && (!strcmp(o->def, value) || same_number(o, o->def, value))) continue;
    add_setting(text, n, o, value);
  }
}

static int by_text(const void *a, const void *b) {
  return strcmp(cJSON_GetStringValue(*(cJSON *const *)a), cJSON_GetStringValue(*(cJSON *const *)b));
}

/* A line for each stage, but for those that change no batch (ledger), in an order that does not
   depend on that of the text.  NULL without memory. */
static cJSON *stream_stages(const mr_graph_t *g) {
  int n = mr_graph_n_stages(g), k = 0;
  cJSON *list = cJSON_CreateArray(), **line = calloc((size_t)n + 1, sizeof *line);
  bool whole = list && line;
  for (int i = 0; i < n && whole; i++) {
    char text[STAGE_TEXT];
    const mr_stage_t *s = mr_graph_stage_at(g, i);
    if (s->def->role == MR_ROLE_LEDGER || (s->def->step && !s->def->out[0].name)) continue;
    stage_text(g, s, text, sizeof text);
    whole = (line[k] = cJSON_CreateString(text)) != NULL;
    k += whole;
  }
  if (line) qsort(line, (size_t)k, sizeof *line, by_text);
  for (int i = 0; i < k; i++) cJSON_AddItemToArray(list, line[i]);
  free(line);
  if (whole) return list;
  cJSON_Delete(list);
  return NULL;
}

/* The first line of a that b lacks, counting equal ones; NULL: none. */
static const char *missing_from(const cJSON *a, const cJSON *b) {
  const cJSON *x, *y;
  cJSON_ArrayForEach(x, a) {
    int have = 0, want = 0;
    const char *text = cJSON_GetStringValue(x);
    if (!text) return "(no text)";
    cJSON_ArrayForEach(y, a) want += cJSON_IsString(y) && !strcmp(y->valuestring, text);
    cJSON_ArrayForEach(y, b) have += cJSON_IsString(y) && !strcmp(y->valuestring, text);
    if (have < want) return text;
  }
  return NULL;
}

static mr_err_t compare_stages(const cJSON *was, const cJSON *now, mr_diag_t *diag) {
  char a[256], b[256];
  const char *lost = missing_from(was, now), *fresh = missing_from(now, was);
  if (!lost && !fresh) return MR_OK;
  if (lost) mr_printable(lost, a, sizeof a);
  if (fresh) mr_printable(fresh, b, sizeof b);
  if (lost && fresh)
    return mr_fail(diag, MR_ERR_DATA,
                   "the state is of another stream: it had \"%s\", this one has \"%s\"; begin "
                   "without it, or open the graph that it is of",
                   a, b);
  return mr_fail(diag, MR_ERR_DATA,
                 "the state is of another stream: it had %s\"%s\"; begin without it, or open the "
                 "graph that it is of",
                 lost ? "" : "no ", lost ? a : b);
}

mr_err_t mr_stream_state_fits(const mr_graph_t *g, const mr_spec_t *spec,
                              const mr_stream_state_t *st, mr_diag_t *diag) {
  if (st->records && spec->n_records && st->records != spec->n_records)
    return mr_fail(diag, MR_ERR_DATA,
                   "the state is of another stream: it had %" PRId64
                   " records an epoch, this one has %" PRId64,
                   st->records, spec->n_records);
  if (!st->stages) return MR_OK;
  cJSON *was = cJSON_Parse(st->stages), *now = stream_stages(g);
  mr_err_t e =
      was && now ? compare_stages(was, now, diag) : mr_no_memory(diag, "the state of a stream");
  cJSON_Delete(was), cJSON_Delete(now);
  return e;
}

/* ---- writing ---- */

/* Words are strings, because a JSON number has 53 bits. */
mr_err_t mr_stream_state_write(const mr_graph_t *g, const mr_spec_t *spec, const mr_stream_at_t *at,
                               bool by_number, uint64_t ledger, char **text, mr_diag_t *diag) {
  mr_text_out_t out;
  cJSON *stages = stream_stages(g);
  char *list = stages ? cJSON_PrintUnformatted(stages) : NULL;
  cJSON_Delete(stages);
  FILE *f = list ? mr_text_out_open(&out) : NULL;
  *text = NULL;
  if (f) {
    fprintf(f, "{\"version\":%d,\"step\":%" PRId64 ",\"ledger\":\"%016" PRIx64 "\",\"words\":[",
            VERSION, at->number, ledger);
    for (int i = 0; i < at->n_words; i++)
      fprintf(f, "%s\"%" PRId64 "\"", i ? "," : "", at->word[i]);
    if (by_number)
      fputs("],\"by_number\":true", f);
    else
      fprintf(f, "],\"position\":%" PRId64, at->position);
    fprintf(f, ",\"records\":%" PRId64 ",\"stages\":%s}", spec->n_records, list);
    *text = mr_text_out_close(&out, f, NULL);
  }
  free(list);
  return *text ? MR_OK : mr_no_memory(diag, "the state of a stream");
}
