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

static void take_stages(mr_top_t *t, const cJSON *all) {
  const cJSON *one;
  t->n_stages = 0;
  cJSON_ArrayForEach(one, all) {
    if (t->n_stages == MR_TOP_STAGES) break;
    mr_top_stage_t *st = &t->stage[t->n_stages++];
    mr_printable_cell(one->string ? one->string : "", sizeof st->name, st->name, sizeof st->name);
    st->busy = top_run_number(one, "busy", 0), st->starved = top_run_number(one, "starved", 0);
    st->blocked = top_run_number(one, "blocked", 0), st->queue = top_run_number(one, "queue", 0);
    st->released = top_run_whole(one, "released", -1),
    st->committed = top_run_whole(one, "committed", -1);
  }
}

/* Takes the measured numbers; one that a record does not have keeps its last value. */
static void take_measured(mr_top_t *t, const cJSON *j) {
  const struct {
    const char *name;
    double *at;
  } row[] = {{"step_p50_s", &t->p50},       {"step_p90_s", &t->p90},
             {"step_p99_s", &t->p99},       {"cpu_cores", &t->cpu},
             {"rss_bytes", &t->rss},        {"disk_free_bytes", &t->disk},
             {"disk_read_bytes", &t->read}, {"disk_written_bytes", &t->written},
             {"telemetry_lost", &t->lost},  {"publish_dropped", &t->dropped},
             {"gpu_busy", &t->gpu},         {"gpu_memory_bytes", &t->gpu_memory},
             {"remote_bytes", &t->remote},  {"cache_hit_rate", &t->hits},
             {"gpu_watts", &t->gpu_watts},  {"gpu_celsius", &t->gpu_celsius}};
  for (size_t i = 0; i < sizeof row / sizeof *row; i++)
    *row[i].at = top_run_number(j, row[i].name, *row[i].at);
}

static void take_step(mr_top_t *t, const cJSON *j) {
  t->loss = top_run_number(j, "loss", t->loss);
  if (cJSON_HasObjectItem(j, "loss")) mr_judged_text(j, "  ", t->judged, sizeof t->judged);
  t->rate = top_run_number(j, "images_per_s", t->rate), t->lr = top_run_number(j, "lr", t->lr);
  t->grad_norm = top_run_number(j, "grad_norm", t->grad_norm);
  t->param_norm = top_run_number(j, "param_norm", t->param_norm);
  t->loss_scale = top_run_number(j, "loss_scale", t->loss_scale);
  t->skipped = top_run_number(j, "skipped_steps", t->skipped);
  keep_loss(t, t->loss);
}

static void take_record(mr_top_t *t, const char *text) {
  cJSON *j = cJSON_Parse(text);
  const char *kind = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(j, "kind"));
  char line[128], judged[96];
  if (!kind || cJSON_HasObjectItem(j, "picture")) return cJSON_Delete(j);
  t->step = top_run_whole(j, "step", t->step);
  t->total = top_run_whole(j, "total_steps", t->total);
  t->epoch = top_run_whole(j, "epoch", t->epoch);
  take_measured(t, j);
  if (cJSON_HasObjectItem(j, "stages")) take_stages(t, cJSON_GetObjectItem(j, "stages"));
  if (!strcmp(kind, "step")) {
    take_step(t, j);
    t->note[0] = 0;
  } else if (!strcmp(kind, "final")) {
    const char *note = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(j, "note"));
    note = note && *note ? note : "finished";
    mr_printable_cell(note, sizeof t->note, t->note, sizeof t->note);
  } else {
    mr_judged_text(j, ", ", judged, sizeof judged);
    snprintf(line, sizeof line, "%s at step %" PRId64 ": loss %.4f%s", kind, t->step,
             top_run_number(j, "loss", NAN), judged);
    keep_line(t, line);
  }
  cJSON_Delete(j);
}

void mr_top_forget(mr_top_t *t) {
  *t = (mr_top_t){.where = t->where, .feed = t->feed, .n_each = 1};
  t->loss = t->rate = t->p50 = t->p90 = t->p99 = NAN;
  t->lr = t->grad_norm = t->param_norm = t->loss_scale = NAN;
  t->cpu = t->rss = t->disk = t->read = t->written = t->lost = NAN;
  t->dropped = t->skipped = 0;
  t->remote = t->hits = NAN;
  t->gpu = t->gpu_memory = t->gpu_watts = t->gpu_celsius = NAN;
}

bool mr_top_drain(mr_top_t *t) {
  bool again = false, any = false;
  for (char *text; (text = mr_top_feed_next(t->feed, &again)) || again; any = true) {
    if (again) mr_top_forget(t);
    if (text) take_record(t, text);
    free(text);
  }
  return any;
}

/* ---- text ---- */

const char mr_top_narrow_head[] = "stage            busy starv block   wait";

int mr_top_head_text(const mr_top_t *t, char text[MR_TOP_HEAD_LINES][256]) {
  int n = 0;
  char of[32] = ""; /* empty for an endless stream */
  if (t->total > 0) snprintf(of, sizeof of, "/%" PRId64, t->total);
  snprintf(text[n++], sizeof *text,
           "step %" PRId64 "%s  epoch %" PRId64
           "  loss %.4f%s  %.1f images/s  step p50 %.3f s, p90 %.3f s, p99 %.3f s",
           t->step, of, t->epoch, t->loss, t->judged, t->rate, t->p50, t->p90, t->p99);
  snprintf(text[n++], sizeof *text,
           "learning rate %.3g  gradient norm %.4g  parameter norm %.4g  loss scale %g", t->lr,
           t->grad_norm, t->param_norm, t->loss_scale);
  if (t->skipped > 0)
    snprintf(text[n++], sizeof *text, "steps skipped as not finite: %.0f", t->skipped);
  snprintf(text[n++], sizeof *text,
           "CPU %.2f cores  memory %.0f MB  disk free %.1f GB, read %.1f MB, written %.1f MB  "
           "lost records %.0f",
           t->cpu, t->rss / 1e6, t->disk / 1e9, t->read / 1e6, t->written / 1e6, t->lost);
  if (!isnan(t->remote)) {
    int at = snprintf(text[n], sizeof *text, "from servers %.1f MB", t->remote / 1e6);
    if (!isnan(t->hits))
      snprintf(text[n] + at, sizeof *text - (size_t)at, "  cache hits %.1f %%", 100 * t->hits);
    n++;
  }
  if (t->dropped > 0)
    snprintf(text[n++], sizeof *text, "missed by slow subscribers: %.0f", t->dropped);
  if (!isnan(t->gpu) || !isnan(t->gpu_memory))
    snprintf(text[n++], sizeof *text, "GPU %.0f %% busy  memory %.0f MB  %.0f W  %.0f C",
             100 * t->gpu, t->gpu_memory / 1e6, t->gpu_watts, t->gpu_celsius);
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
