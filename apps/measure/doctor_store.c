/* millrace doctor about servers: measures how many records a second the servers of a graph's
   sources give, and says whether that is enough for a model.

   What a cache on disk saves is estimated by Belady's rule: with a new permutation in each epoch, a
   cache of a share of the data has about that share of the reads. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "apps/measure/doctor.h"
#include "apps/run/machine_report.h"
#include "base/text.h"
#include "base/xio.h"
#include "pipeline/stage_source.h"

enum { LAST_STEPS = 50 };
#define SECONDS_EACH 1.0 /* for a number of connections */
#define SPARE 1.1        /* a server is enough if it gives this many times what the model takes */

/* The images_per_s of a line text[0,n) of metrics; 0 unless it is of a step. */
static double rate_of_line(const char *line, size_t n) {
  static const char kind[] = "{\"kind\":\"step\"", name[] = "\"images_per_s\":";
  if (n < sizeof kind - 1 || memcmp(line, kind, sizeof kind - 1)) return 0;
  const char *at = memmem(line, n, name, sizeof name - 1);
  double rate = at ? mr_strtod(at + sizeof name - 1, NULL) : 0;
  return rate > 0 && isfinite(rate) ? rate : 0;
}

/* The mean of the last steps' images_per_s in the metrics of a run; 0 without any.  Each byte is
   looked at a few times at most, however many lines are of other kinds (a sanitizer's memrchr looks
   at all that it may read). */
static double rate_of_run(const char *text, size_t n) {
  double sum = 0;
  int steps = 0;
  while (n && steps < LAST_STEPS) {
    size_t begin = n;
    while (begin && text[begin - 1] != '\n') begin--;
    double rate = rate_of_line(text + begin, n - begin);
    if (rate > 0) sum += rate, steps++;
    n = begin ? begin - 1 : 0;
  }
  return steps ? sum / steps : 0;
}

mr_err_t mr_doctor_rate(const char *given, double *rate, mr_diag_t *diag) {
  char path[MR_PATH_MAX], *end;
  void *text;
  size_t n;
  *rate = 0;
  if (!given) return MR_OK;
  *rate = mr_strtod(given, &end);
  if (end > given && !*end && *rate > 0 && isfinite(*rate)) return MR_OK;
  if (snprintf(path, sizeof path, "%s/metrics.jsonl", given) >= (int)sizeof path ||
      mr_read_file(path, (size_t)1 << 30, &text, &n, NULL) < 0)
    return mr_fail(diag, MR_ERR_USAGE,
                   "doctor: --rate %.200s: want the records a second that the model takes, or the "
                   "folder of a run with metrics.jsonl in it",
                   given);
  *rate = rate_of_run(text, n);
  free(text);
  if (*rate > 0) return MR_OK;
  return mr_fail(diag, MR_ERR_USAGE, "doctor: --rate: %s has no steps with images_per_s", path);
}

/* Records a second with a number of connections. */
static double records_of(const mr_served_t *v, int i) {
  return v->record_bytes > 0 ? v->at[i].bytes_per_s / (double)v->record_bytes : 0;
}

/* The first of the measured rows that gives this many records a second, else the fastest. */
static int first_fast_enough(const mr_served_t *v, double rate) {
  int best = 0;
  for (int i = 0; i < v->n; i++) {
    if (rate > 0 && records_of(v, i) >= rate) return i;
    if (records_of(v, i) > SPARE * records_of(v, best)) best = i;
  }
  return best;
}

/* Says what a cache must hold so that the server gives the rest fast enough. */
static void say_cache(cJSON *s, const mr_served_t *v, double gives, double rate) {
  double share = 1 - gives / (SPARE * rate), bytes = ceil(share * (double)v->bytes / 1e6) * 1e6;
  cJSON_AddNumberToObject(s, "cache_bytes", bytes);
  mr_report_say(s, "cache",
                "from the second epoch on it keeps up with cache=FOLDER cache-size=%.0fMB, %.0f %% "
                "of the data%s",
                bytes / 1e6, 100 * share, v->cached ? ", if the graph's cache is smaller" : "");
}

static void say_verdict(cJSON *s, const mr_served_t *v, double rate) {
  int i = first_fast_enough(v, SPARE * rate);
  double gives = records_of(v, i);
  cJSON_AddNumberToObject(s, "records_per_s", round(gives));
  cJSON_AddNumberToObject(s, "connections", v->at[i].connections);
  if (rate <= 0) {
    mr_report_say(s, "verdict",
                  "gives %.0f records/s with connections=%d; --rate says what a model takes", gives,
                  v->at[i].connections);
    return;
  }
  bool keeps_up = gives >= SPARE * rate;
  cJSON_AddNumberToObject(s, "model_records_per_s", round(rate));
  cJSON_AddBoolToObject(s, "keeps_up", keeps_up);
  mr_report_say(s, "verdict", "gives %.0f records/s, the model takes %.0f: %s; connections=%d",
                gives, rate,
                keeps_up        ? "keeps up"
                : gives >= rate ? "barely keeps up"
                                : "the server limits",
                v->at[i].connections);
  if (!keeps_up) say_cache(s, v, gives, rate);
}

/* What is read once does not have to keep up: says how long it takes. */
static void say_load(cJSON *s, const mr_served_t *v) {
  int i = first_fast_enough(v, 0);
  double rate = v->at[i].bytes_per_s, time = rate > 0 ? (double)v->bytes / rate : 0;
  cJSON_AddNumberToObject(s, "load_bytes", (double)v->bytes);
  cJSON_AddNumberToObject(s, "load_s", round(1e3 * time) / 1e3);
  cJSON_AddNumberToObject(s, "connections", v->at[i].connections);
  mr_report_say(s, "verdict",
                "is read once, at the start, and kept in memory: %.1f MB in about %.3g s with "
                "connections=%d; the steps read nothing from it",
                (double)v->bytes / 1e6, time, v->at[i].connections);
}

/* A container that keeps several records in a chunk reads the whole chunk for one of them, as a
   shuffled order of a large set does; in the order of the file a chunk is read once. */
static void say_chunks(cJSON *s, const mr_served_t *v, double rate) {
  double each = v->bytes > 0 ? (double)v->record_bytes * (double)v->records / (double)v->bytes : 0;
  if (each < 2) return;
  double gives = each * records_of(v, first_fast_enough(v, SPARE * rate));
  cJSON_AddNumberToObject(s, "records_per_chunk", round(each));
  cJSON_AddNumberToObject(s, "records_per_s_in_file_order", round(gives));
}

void mr_doctor_store(cJSON *report, mr_stage_t *s, double rate) {
  mr_served_t v = {0};
  char name[96];
  mr_diag_t why = {0};
  mr_stage_t own = *s;
  own.diag = &why;
  if (!s->def->source->measure) return;
  mr_err_t e = s->def->source->measure(&own, SECONDS_EACH, &v);
  if (e == MR_END) return;
  snprintf(name, sizeof name, "servers of %s", s->name);
  cJSON *section = cJSON_AddObjectToObject(report, name);
  if (e < 0) {
    mr_report_say(section, "verdict", "cannot be measured: %s", why.text);
    return;
  }
  cJSON_AddNumberToObject(section, "latency_ms", round(1e6 * v.latency_s) / 1000);
  if (!v.once) cJSON_AddNumberToObject(section, "bytes_per_record", (double)v.record_bytes);
  for (int i = 0; i < v.n; i++) {
    snprintf(name, sizeof name, "mb_per_s_with_%d", v.at[i].connections);
    cJSON_AddNumberToObject(section, name, round(v.at[i].bytes_per_s / 1e5) / 10);
  }
  if (v.once) return say_load(section, &v);
  say_verdict(section, &v, rate);
  say_chunks(section, &v, rate);
}
