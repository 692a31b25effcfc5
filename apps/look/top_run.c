/* What top knows of a run, and how it reads as lines of text.  Records are parsed into one fixed
   state, where a long history of losses is thinned to every second one when it is full; nothing
   here draws, so that tests read the lines. */
#include "apps/look/top_run.h"

#include <cjson/cJSON.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "apps/run/run_info.h"
#include "base/text.h"

static double top_run_number(const cJSON *j, const char *name, double otherwise) {
  const cJSON *v = cJSON_GetObjectItemCaseSensitive(j, name);
  if (cJSON_IsNull(v)) return NAN; /* JSON has no NaN */
  return cJSON_IsNumber(v) ? v->valuedouble : otherwise;
}

static int64_t top_run_whole(const cJSON *j, const char *name, int64_t otherwise) {
  double v = top_run_number(j, name, (double)otherwise);
  return v >= 0 && v < 1e15 ? (int64_t)v : otherwise;
}

static void keep_line(mr_top_t *t, const char *text) {
  if (t->n_lines == MR_TOP_LINES) memmove(t->line[0], t->line[1], sizeof t->line[0] * --t->n_lines);
  mr_printable_cell(text, sizeof t->line[0], t->line[t->n_lines++], sizeof t->line[0]);
}

/* Keeps a loss.  When the array is full, every second loss is kept, then every fourth, and so
   on. */
static void keep_loss(mr_top_t *t, double loss) {
  if (t->seen++ % t->n_each) return;
  if (t->n_losses == MR_TOP_LOSSES) {
    for (int i = 0; i < MR_TOP_LOSSES / 2; i++) t->losses[i] = t->losses[2 * i];
    t->n_losses /= 2, t->n_each *= 2;
  }
  t->losses[t->n_losses++] = loss;
}

/* Keeps the numbers that a stage reports of itself, as a line: "  cutout  cut share 0.25". */
static void take_reported(mr_top_t *t, const cJSON *stage) {
  static const char *const usual[] = {"busy",  "starved",  "blocked",  "queue",
                                      "items", "released", "committed"};
  char line[MR_TOP_LINE], name[128];
  int at = 0;
  const cJSON *one;
  mr_printable_cell(stage->string, 64, name, sizeof name);
  at = snprintf(line, sizeof line, "%-16.64s", name);
  int named = at;
  cJSON_ArrayForEach(one, stage) {
    bool is_usual = false;
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++)
      is_usual |= !strcmp(one->string, usual[i]);
    if (is_usual || !(cJSON_IsNumber(one) || cJSON_IsNull(one)) || at > MR_TOP_LINE - 96) continue;
    mr_printable_cell(one->string, 64, name, sizeof name);
    for (char *c = name; *c; c++) *c = *c == '_' ? ' ' : *c;
    at += mr_snprintf(line + at, sizeof line - (size_t)at, "  %.64s %.6g", name,
                      cJSON_IsNumber(one) ? one->valuedouble : NAN);
  }
  char(*more)[MR_TOP_LINE] =
      at > named ? realloc(t->reported, (size_t)(t->n_reported + 1) * sizeof *more) : NULL;
  if (!more) return;
  t->reported = more;
  memcpy(t->reported[t->n_reported++], line, sizeof line);
}

static mr_top_stage_t *top_add_stage(mr_top_t *t) {
  if (t->n_stages == t->room_stages) {
    int room = t->room_stages ? 2 * t->room_stages : 16;
    mr_top_stage_t *more = realloc(t->stage, (size_t)room * sizeof *more);
    if (!more) return NULL;
    t->stage = more, t->room_stages = room;
  }
  return &t->stage[t->n_stages++];
}

/* Whether a record measures the stage; else it has what the stage reports of itself alone. */
static bool has_measurements(const cJSON *stage) {
  return cJSON_HasObjectItem(stage, "busy") || cJSON_HasObjectItem(stage, "released");
}

/* Takes the stages of a record; those of a record that measures none stay. */
static void take_stages(mr_top_t *t, const cJSON *all) {
  const cJSON *one;
  bool measured = false;
  t->n_reported = 0;
  cJSON_ArrayForEach(one, all) {
    measured |= has_measurements(one);
    take_reported(t, one);
  }
  if (!measured) return;
  t->n_stages = 0;
  cJSON_ArrayForEach(one, all) {
    mr_top_stage_t *st = has_measurements(one) ? top_add_stage(t) : NULL;
    if (!st) continue;
    mr_printable_cell(one->string ? one->string : "", sizeof st->name, st->name, sizeof st->name);
    st->busy = top_run_number(one, "busy", 0), st->starved = top_run_number(one, "starved", 0);
    st->blocked = top_run_number(one, "blocked", 0), st->queue = top_run_number(one, "queue", 0);
    st->released = top_run_whole(one, "released", -1),
    st->committed = top_run_whole(one, "committed", -1);
  }
}

/* Takes millrace's own numbers; one that a record does not have keeps its last value. */
static void take_numbers(mr_top_t *t, const cJSON *j, bool of_step) {
  for (int i = 0; i < MR_METRICS_N; i++) {
    const mr_metric_def_t *d = &mr_metric_table[i];
    if (of_step || d->role == MR_METRIC_MACHINE)
      t->value[i] = top_run_number(j, d->name, t->value[i]);
  }
  if (!of_step) return;
  if (cJSON_HasObjectItem(j, MR_METRIC_OWN(LOSS)->name))
    mr_judged_text(j, "  ", t->judged, sizeof t->judged);
  keep_loss(t, t->value[MR_METRIC_ID_LOSS]);
}

static void take_record(mr_top_t *t, const char *text) {
  cJSON *j = cJSON_Parse(text);
  const char *kind = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(j, "kind"));
  char line[512], judged[400];
  if (!kind || cJSON_HasObjectItem(j, "picture")) return cJSON_Delete(j);
  t->step = top_run_whole(j, "step", t->step);
  t->total = top_run_whole(j, "total_steps", t->total);
  t->epoch = top_run_whole(j, "epoch", t->epoch);
  take_numbers(t, j, !strcmp(kind, "step"));
  if (cJSON_HasObjectItem(j, "stages")) take_stages(t, cJSON_GetObjectItem(j, "stages"));
  if (!strcmp(kind, "step")) {
    t->note[0] = 0;
  } else if (!strcmp(kind, "final")) {
    const char *note = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(j, "note"));
    note = note && *note ? note : "finished";
    mr_printable_cell(note, sizeof t->note, t->note, sizeof t->note);
  } else {
    mr_judged_text(j, ", ", judged, sizeof judged);
    snprintf(line, sizeof line, "%.60s at step %" PRId64 ": loss %.4f%s", kind, t->step,
             top_run_number(j, MR_METRIC_OWN(LOSS)->name, NAN), judged);
    keep_line(t, line);
  }
  cJSON_Delete(j);
}

void mr_top_forget(mr_top_t *t) {
  mr_top_fini(t);
  *t = (mr_top_t){.where = t->where, .feed = t->feed, .n_each = 1};
  for (int i = 0; i < MR_METRICS_N; i++) t->value[i] = NAN;
}

void mr_top_fini(mr_top_t *t) {
  free(t->stage), free(t->reported);
  t->stage = NULL, t->reported = NULL, t->n_stages = t->room_stages = t->n_reported = 0;
}

bool mr_top_drain(mr_top_t *t) {
  bool again = false, any = false;
  int n = 0;
  for (char *text; n < MR_TOP_BURST && ((text = mr_top_feed_next(t->feed, &again)) || again);
       any = true, n++) {
    if (again) mr_top_forget(t);
    if (text) take_record(t, text);
    free(text);
  }
  return any;
}

/* ---- text ---- */

const char mr_top_narrow_head[] = "stage            busy starv block   wait";

#define NOW(id) (t->value[MR_METRIC_ID_##id])

int mr_top_head_text(const mr_top_t *t, char text[MR_TOP_HEAD_LINES][MR_TOP_LINE]) {
  int n = 0;
  char of[32] = ""; /* empty for an endless stream */
  if (t->total > 0) snprintf(of, sizeof of, "/%" PRId64, t->total);
  snprintf(text[n++], sizeof *text,
           "step %" PRId64 "%s  epoch %" PRId64
           "  loss %.4f%s  %.1f images/s  step p50 %.3f s, p90 %.3f s, p99 %.3f s",
           t->step, of, t->epoch, NOW(LOSS), t->judged, NOW(IMAGES_PER_S), NOW(STEP_P50_S),
           NOW(STEP_P90_S), NOW(STEP_P99_S));
  snprintf(text[n++], sizeof *text,
           "learning rate %.3g  gradient norm %.4g  parameter norm %.4g  loss scale %g", NOW(LR),
           NOW(GRAD_NORM), NOW(PARAM_NORM), NOW(LOSS_SCALE));
  if (NOW(SKIPPED_STEPS) > 0)
    snprintf(text[n++], sizeof *text, "steps skipped as not finite: %.0f", NOW(SKIPPED_STEPS));
  snprintf(text[n++], sizeof *text,
           "CPU %.2f cores  memory %.0f MB  disk free %.1f GB, read %.1f MB, written %.1f MB  "
           "lost records %.0f",
           NOW(CPU_CORES), NOW(RSS_BYTES) / 1e6, NOW(DISK_FREE_BYTES) / 1e9,
           NOW(DISK_READ_BYTES) / 1e6, NOW(DISK_WRITTEN_BYTES) / 1e6, NOW(TELEMETRY_LOST));
  if (!isnan(NOW(REMOTE_BYTES))) {
    int at = snprintf(text[n], sizeof *text, "from servers %.1f MB", NOW(REMOTE_BYTES) / 1e6);
    if (!isnan(NOW(CACHE_HIT_RATE)))
      snprintf(text[n] + at, sizeof *text - (size_t)at, "  cache hits %.1f %%",
               100 * NOW(CACHE_HIT_RATE));
    n++;
  }
  if (NOW(PUBLISH_DROPPED) > 0)
    snprintf(text[n++], sizeof *text, "missed by slow subscribers: %.0f", NOW(PUBLISH_DROPPED));
  if (!isnan(NOW(GPU_BUSY)) || !isnan(NOW(GPU_MEMORY_BYTES)))
    snprintf(text[n++], sizeof *text, "GPU %.0f %% busy  memory %.0f MB  %.0f W  %.0f C",
             100 * NOW(GPU_BUSY), NOW(GPU_MEMORY_BYTES) / 1e6, NOW(GPU_WATTS), NOW(GPU_CELSIUS));
  return n;
}

void mr_top_stage_text(const mr_top_stage_t *st, int columns, char *text, size_t n) {
  if (columns && columns < MR_TOP_STAGE_COLUMNS) {
    snprintf(text, n, "%-15.15s %4.0f%% %4.0f%% %4.0f%% %6.1f", st->name, 100 * st->busy,
             100 * st->starved, 100 * st->blocked, st->queue);
    return;
  }
  snprintf(text, n, "%-16.16s %5.1f%% busy %5.1f%% starved %5.1f%% blocked %6.1f waiting", st->name,
           100 * st->busy, 100 * st->starved, 100 * st->blocked, st->queue);
}

bool mr_top_link_text(const mr_top_stage_t *st, char *text, size_t n) {
  if (st->released < 0) return false;
  snprintf(text, n, "%-16.16s released up to %" PRId64 ", committed up to %" PRId64, st->name,
           st->released, st->committed);
  return true;
}
