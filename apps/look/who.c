/* millrace who: lists the records of a step, or the steps that saw a record.  Both follow from the
   graph, its settings and the seed; a run stores for this which of these held when (history.h). */
#include <cjson/cJSON.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "apps/cli/cli.h"
#include "apps/cli/so_far.h"
#include "apps/look/who_fields.h"
#include "apps/run/graph_arg.h"
#include "apps/run/run_dir.h"
#include "apps/run/take_batches.h"
#include "base/dataset.h"
#include "base/text.h"
#include "pipeline/care.h"
#include "pipeline/records/lineage.h"
#include "pipeline/stage_source.h"

static const mr_flag_t who_flags[] = {
    {"--step", "N", "Lists the records of this step, from 1."},
    {"--record", "ID", "Lists the steps that saw the record of this id."},
    {"--source", "NAME", "With --record: only records of this source."},
    {"--steps", "N",
     "With --record: searches steps 1 to N; default: the steps of the run, or all steps of a "
     "finite stream."},
    {"--stage", "NAME",
     "Uses the batches of this stage; default: the last stage on the first line of batches."},
    {"--json", NULL, "Prints one line of JSON per record or step."},
    {0}};

/* The text of a record's lineage.  Its address replaces the record's key, so that it arrives with
   the batch that contains the record. */
typedef struct row {
  struct row *next;
  char *text; /* one line per source, without the slot; NULL: in object, or no memory */
  cJSON *object;
} row_t;

/* More than can be in flight: batches have at most 65536 records. */
enum { ROWS_KEPT = 1 << 20 };

typedef struct who {
  bool json;
  uint64_t record;
  const char *source;   /* NULL: any */
  row_t *rows, *newest; /* the last ROWS_KEPT; used by the thread that reports lineages until the
                           graph has ended */
  int64_t n_rows, found;
  mr_so_far_t so_far; /* of the steps that are looked through now */
} who_t;

/* ---- the records of a step ---- */

static void add_leaf(cJSON *leaves, const mr_leaf_t *leaf) {
  char file[MR_WHERE_MAX] = "";
  mr_where_t where = {.file = file, .offset = -1};
  cJSON *o = cJSON_CreateObject();
  cJSON_AddStringToObject(o, "source", leaf->source->name);
  cJSON_AddNumberToObject(o, "index", (double)leaf->index);
  if (leaf->source->def->source->where)
    leaf->source->def->source->where(leaf->source, leaf->index, &where);
  if (leaf->source->def->source->where) cJSON_AddNumberToObject(o, "id", (double)where.key);
  if (*file) cJSON_AddStringToObject(o, "file", file);
  if (where.offset >= 0) cJSON_AddNumberToObject(o, "offset", (double)where.offset);
  if (leaf->source->def->source->where && leaf->rec && leaf->rec->key != where.key)
    cJSON_AddNumberToObject(o, "replaced_by", (double)leaf->rec->key);
  cJSON_AddItemToArray(leaves, o);
}

/* The record's label; MR_LABEL_NONE if no field, or more than one, is a label. */
static int32_t label_of(const mr_lineage_t *t) {
  int f = mr_spec_label(t->spec);
  return f < 0 ? MR_LABEL_NONE : *(const int32_t *)t->rec->field[f].data;
}

/* What the record's class is called; NULL: it has no name. */
static const char *who_class_name(const mr_lineage_t *t) {
  int f = mr_spec_label(t->spec);
  const mr_classes_t *c = f < 0 ? NULL : t->spec->field[f].classes;
  int32_t label = label_of(t);
  return c && label >= 0 && label < c->n ? c->name[label] : NULL;
}

static cJSON *object_of(const mr_lineage_t *t) {
  cJSON *o = cJSON_CreateObject();
  cJSON_AddNumberToObject(o, "slot", t->slot); /* who_print_row sets the final one */
  cJSON_AddNumberToObject(o, "id", (double)t->rec->key);
  if (mr_spec_label(t->spec) >= 0) cJSON_AddNumberToObject(o, "label", label_of(t));
  if (who_class_name(t)) cJSON_AddStringToObject(o, "class", who_class_name(t));
  cJSON_AddItemToObject(o, "fields", mr_who_fields_json(t->spec, t->rec));
  if (t->rec->skipped) cJSON_AddTrueToObject(o, "left_out");
  cJSON *leaves = cJSON_AddArrayToObject(o, "from"), *draws = cJSON_AddArrayToObject(o, "draws");
  for (int i = 0; i < t->n_leaves; i++) add_leaf(leaves, &t->leaf[i]);
  for (int i = 0; i < t->draws->n; i++) {
    char text[256];
    mr_draw_text(t->draws, i, text, sizeof text);
    cJSON_AddItemToArray(draws, cJSON_CreateString(text));
  }
  return o;
}

static void print_leaf(FILE *out, const mr_lineage_t *t, int i) {
  const mr_leaf_t *leaf = &t->leaf[i];
  char file[MR_WHERE_MAX] = "-", offset[32] = "";
  mr_where_t where = {.file = file, .offset = -1, .key = t->rec->key};
  if (leaf->source->def->source->where)
    leaf->source->def->source->where(leaf->source, leaf->index, &where);
  if (where.offset >= 0) snprintf(offset, sizeof offset, " @ %" PRId64, where.offset);
  char shown[MR_WHERE_MAX + 64];
  fprintf(out, "%10" PRIu64 " %5d  %-12s %10" PRId64 "  %s%s", where.key, label_of(t),
          leaf->source->name, leaf->index,
          mr_printable_cell(file, sizeof shown, shown, sizeof shown), offset);
  if (leaf->rec && leaf->rec->key != where.key)
    fprintf(out, "  (bad: %" PRIu64 " used instead)", leaf->rec->key);
  if (t->rec->skipped) fputs("  (excluded)", out);
}

static char *lines_of(const mr_lineage_t *t) {
  mr_text_out_t text;
  FILE *out = mr_text_out_open(&text);
  for (int i = 0; out && i < t->n_leaves; i++) {
    print_leaf(out, t, i);
    if (i == 0) mr_who_print_fields(out, t->spec, t->rec);
    for (int k = 0; k < t->draws->n && i == 0; k++) {
      char draw[256];
      mr_draw_text(t->draws, k, draw, sizeof draw);
      fprintf(out, "%s%s", k ? "; " : "  ", draw);
    }
    fputs("\n", out);
  }
  return mr_text_out_close(&text, out, NULL);
}

static void free_oldest(who_t *w) {
  row_t *row = w->rows;
  w->rows = row->next, w->n_rows--;
  cJSON_Delete(row->object);
  free(row->text), free(row);
}

static uint64_t note_record(void *ctx, const mr_lineage_t *t) {
  who_t *w = ctx;
  row_t *row = calloc(1, sizeof *row);
  if (!row) return 0;
  *(w->rows ? &w->newest->next : &w->rows) = row, w->newest = row;
  if (++w->n_rows > ROWS_KEPT) free_oldest(w);
  if (w->json)
    row->object = object_of(t);
  else
    row->text = lines_of(t);
  return (uint64_t)(uintptr_t)row;
}

static mr_err_t who_print_row(int slot, const row_t *row, mr_diag_t *diag) {
  char *text = row ? row->text : NULL, *save = NULL;
  if (row && row->object) {
    cJSON_SetNumberValue(cJSON_GetObjectItem(row->object, "slot"), slot);
    char *line = cJSON_PrintUnformatted(row->object);
    if (!line) return mr_no_memory(diag, "a line of the answer");
    puts(line);
    return cJSON_free(line), MR_OK;
  }
  if (!text) return mr_no_memory(diag, "a line of the answer");
  for (char *l = strtok_r(text, "\n", &save); l; l = strtok_r(NULL, "\n", &save))
    printf("%4d %s\n", slot, l);
  return MR_OK;
}

static mr_err_t report_step(void *ctx, const mr_spec_t *spec, int64_t step, const mr_buf_t *b,
                            mr_diag_t *diag) {
  const who_t *w = ctx;
  char field[160];
  if (!w->json) {
    printf("step %" PRId64 ", epoch %" PRId64 ": %d records", step, b->epoch + 1, b->n);
    for (int f = 0; b->n && f < spec->n_fields; f++) {
      mr_field_text(&spec->field[f], 0, field, sizeof field);
      printf("%s%s", f ? ", " : " of ", field);
    }
    puts(b->n ? "" : ", skipped by skip-steps");
    if (b->n)
      printf("%4s %10s %5s  %-12s %10s  %s\n", "slot", "id", "label", "source", "index",
             "file @ offset, and what was drawn");
  }
  for (int i = 0; i < b->n; i++)
    MR_TRY(who_print_row(i, (const row_t *)(uintptr_t)b->key[i], diag));
  return MR_OK;
}

static int who_step(const mr_args_t *a, int64_t step, mr_diag_t *diag) {
  who_t w = {.json = mr_args_text(a, "--json") != NULL};
  mr_graph_of_steps_t of;
  mr_batches_t want = {
      .stage = mr_args_text(a, "--stage"), .first = step, .n = 1, .take = report_step, .ctx = &w};
  MR_TRY(mr_graph_of_step(a, 0, step, want.stage, &of, diag));
  want.data = of.data;
  mr_graph_lineage(of.g, note_record, &w, false);
  mr_err_t e = mr_take_batches(of.g, &want, diag);
  while (w.rows) free_oldest(&w);
  mr_graph_destroy(of.g);
  free(of.data);
  if (e >= 0) mr_note_step_ahead(a, 0, step);
  return e;
}

/* ---- the steps of a record ---- */

enum { SEEN = 1, LEFT_OUT };

/* SEEN or LEFT_OUT if one of the record's sources has the requested id, else 0. */
static uint64_t is_record(void *ctx, const mr_lineage_t *t) {
  const who_t *w = ctx;
  char file[MR_WHERE_MAX];
  for (int i = 0; i < t->n_leaves; i++) {
    mr_where_t where = {.file = file};
    mr_stage_t *s = t->leaf[i].source;
    if ((w->source && strcmp(w->source, s->name)) || !s->def->source->where) continue;
    s->def->source->where(s, t->leaf[i].index, &where);
    if (where.key == w->record) return mr_care_leaves_out(s, where.key) ? LEFT_OUT : SEEN;
  }
  return 0;
}

static void say_walk(void *ctx, const char *why) {
  who_t *w = ctx;
  w->so_far = mr_so_far_begin("who: at step", w->so_far.first, w->so_far.of);
  mr_notice("who: each step is looked through, as %s", why);
}

static void print_place(who_t *w, int64_t step, int64_t epoch, int slot, bool left_out) {
  w->found++;
  printf(w->json ? "{\"step\":%" PRId64 ",\"epoch\":%" PRId64 ",\"slot\":%d%s}\n"
                 : "step %" PRId64 ", epoch %" PRId64 ", slot %d%s\n",
         step, epoch, slot,
         !left_out ? ""
         : w->json ? ",\"left_out\":true"
                   : "  (excluded)");
}

static mr_err_t look_at_place(void *ctx, const mr_found_place_t *f, mr_diag_t *diag) {
  who_t *w = ctx;
  bool left_out = mr_care_leaves_out(f->source, w->record);
  print_place(w, f->number + 1, f->epoch + 1, f->slot, left_out);
  return MR_OK;
}

static mr_err_t look_in(void *ctx, const mr_spec_t *spec, int64_t step, const mr_buf_t *b,
                        mr_diag_t *diag) {
  who_t *w = ctx;
  for (int i = 0; i < b->n; i++) {
    if (b->key[i]) print_place(w, step, b->epoch + 1, i, b->key[i] == LEFT_OUT);
  }
  mr_so_far(&w->so_far, step); /* steps that are looked through one by one can be many */
  return MR_OK;
}

static mr_err_t who_check_sources(const mr_graph_t *g, const char *source, mr_diag_t *diag) {
  if (source && !mr_graph_stage(g, source))
    return mr_fail(diag, MR_ERR_USAGE, "who: --source: no stage is called \"%s\"", source);
  for (int i = 0; i < mr_graph_n_stages(g); i++) {
    const mr_stage_t *s = mr_graph_stage_at(g, i);
    if (s->def->source && !s->def->source->where)
      return mr_fail(
          diag, MR_ERR_UNAVAILABLE,
          "who: --record: the source %s cannot tell its records' ids without reading them",
          s->name);
  }
  return MR_OK;
}

/* Looks through the steps from `first` on that have the settings of that step, at most to
   `steps` (0: no limit); *last: the last of them. */
static mr_err_t look_through_part(const mr_args_t *a, who_t *w, int64_t first, int64_t steps,
                                  int64_t *last, mr_diag_t *diag) {
  mr_graph_of_steps_t of;
  mr_batches_t want = {
      .stage = mr_args_text(a, "--stage"),
      .first = first,
      .take = look_in,
      .ctx = w,
      .find = {.key = w->record, .source = w->source, .found = look_at_place, .ctx = w},
      .walks = say_walk};
  MR_TRY(mr_graph_of_step(a, 0, first, want.stage, &of, diag));
  *last = of.last;
  int64_t end = steps && steps < of.last ? steps : of.last;
  if (end < INT64_MAX) want.n = end - first + 1;
  w->so_far = mr_so_far_begin("who: at step", first, end < INT64_MAX ? end : 0);
  want.data = of.data;
  mr_err_t e = who_check_sources(of.g, w->source, diag);
  if (e >= 0) mr_graph_lineage(of.g, is_record, w, true);
  if (e >= 0) e = mr_take_batches(of.g, &want, diag);
  mr_so_far_end(&w->so_far);
  mr_graph_destroy(of.g);
  free(of.data);
  return e;
}

static int who_record(const mr_args_t *a, const char *record, int64_t steps, mr_diag_t *diag) {
  char *end;
  who_t w = {.json = mr_args_text(a, "--json") != NULL, .source = mr_args_text(a, "--source")};
  w.record = *record >= '0' && *record <= '9' ? strtoull(record, &end, 10) : 0;
  if (*record < '0' || *record > '9' || *end)
    return mr_fail(diag, MR_ERR_USAGE, "who: --record: \"%s\", expected an id", record);
  for (int64_t first = 1, last = 0; last < INT64_MAX && (!steps || first <= steps);
       first = last < INT64_MAX ? last + 1 : last)
    MR_TRY(look_through_part(a, &w, first, steps, &last, diag));
  if (!w.json && !w.found) puts("no step saw it");
  return 0;
}

/* ---- the command ---- */

/* Sets *steps to --steps, or to the steps in the metrics of the run word[0]; 0 if it is no run. */
static mr_err_t count_steps_done(const mr_args_t *a, int64_t *steps, mr_diag_t *diag) {
  bool given = mr_args_text(a, "--steps") != NULL;
  *steps = 0;
  if (given) return mr_args_int(a, "--steps", 1, INT64_C(1) << 53, steps, diag);
  return mr_run_dir_steps(a->word[0], steps, diag);
}

static int who_run(const mr_args_t *a, mr_diag_t *diag) {
  const char *record = mr_args_text(a, "--record");
  int64_t step = 0, steps = 0;
  MR_TRY(mr_args_settings(a, 1, diag));
  if ((mr_args_text(a, "--step") != NULL) == (record != NULL))
    return mr_fail(diag, MR_ERR_USAGE, "who: give one of --step N and --record ID");
  MR_TRY(mr_args_int(a, "--step", 1, INT64_C(1) << 53, &step, diag));
  if (!record) return who_step(a, step, diag);
  MR_TRY(count_steps_done(a, &steps, diag));
  return who_record(a, record, steps, diag);
}

const mr_command_t mr_command_who = {
    .name = "who",
    .words = "RUN|GRAPH|FILE --step N | --record ID [NAME=VALUE...]",
    .help = "Lists the records of a step with their draws, or the steps that saw a record.",
    .more =
        "\n"
        "It follows from the graph, its settings and the seed.  RUN is a run's folder, whose "
        "history "
        "says\n"
        "which settings held at each step.",
    .flags = who_flags,
    .min_words = 1,
    .max_words = MR_WORDS_MAX,
    .run = who_run,
};
