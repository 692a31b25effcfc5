/* millrace predict: what a checkpoint says of records from anywhere.  The graph is the run's line
   of records that are evaluated, with another source: so records are prepared as the run prepared
   them. A checkpoint without its run prepares them by what it says of its inputs. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "apps/cli/cli.h"
#include "apps/cli/model_arg.h"
#include "apps/cli/texts.h"
#include "apps/run/checkpoint_arg.h"
#include "apps/run/choose_graph.h"
#include "apps/run/predict_rows.h"
#include "apps/run/take_batches.h"
#include "base/clock.h"
#include "pipeline/care.h"
#include "pipeline/stage_order.h"
#include "pipeline/stage_source.h"
#include "pipeline/stage_walk.h"
#include "stages/train/inputs.h"

static const mr_flag_t predict_flags[] = {
    {"--top", "K", "Number of classes in a row, in [1, 64]; default 1."},
    {"--out", "FILE",
     "Where the rows go: FILE.jsonl, FILE.csv or FILE.npz; default a table on standard output."},
    {"--features", NULL, "Gives the model's embedding of each record instead of its prediction."},
    {"--resume", NULL, "Continues FILE.jsonl or FILE.csv behind its last whole batch."},
    {"--threads", "N", "Number of compute threads; default one per processor."},
    {"--device", "cpu[:N]|opencl[:N]|cuda[:N]", "Where the model computes; default cpu."},
    {0}};

typedef struct id_index {
  uint64_t id;
  int64_t index; /* in the source */
} id_index_t;

typedef struct job {
  const mr_args_t *args;
  mr_checkpoint_arg_t of;
  mr_found_t *found;
  mr_graph_t *g, *own; /* own: of a checkpoint alone */
  const char *batches; /* the stage before the one that predicts */
  char name[32];       /* of that one */
  char source[64];     /* of the source */
  mr_stage_t *records; /* the source itself, once the graph is settled */
  mr_predict_rows_t *rows;
  bool moved;        /* a row's place does not tell its record */
  id_index_t *of_id; /* [n_ids] sorted; heap; NULL: not needed yet */
  int64_t n_ids;
  int64_t kept, done, bad; /* records: of an earlier command, written, of these unreadable */
} job_t;

/* ---- the graph ---- */

/* Sets a source's settings as they were recognised. */
static mr_err_t place_source(job_t *j, mr_diag_t *diag) {
  const mr_stage_t *s = mr_graph_stage(j->g, j->source);
  char words[sizeof j->found->train], value[MR_FOUND_TEXT + 256], *rest = NULL;
  strcpy(words, *j->found->train ? j->found->train : "path=$data");
  for (char *w = strtok_r(words, " ", &rest); w; w = strtok_r(NULL, " ", &rest)) {
    char *eq = strchr(w, '=');
    size_t n = 0;
    *eq = 0;
    value[0] = 0;
    for (const char *at = eq + 1, *data; *at && n < sizeof value; at = data ? data + 5 : "") {
      data = strstr(at, "$data");
      n += (size_t)snprintf(value + n, sizeof value - n, "%.*s%s",
                            data ? (int)(data - at) : (int)strlen(at), at,
                            data ? j->found->data : "");
    }
    MR_TRY(mr_graph_set(j->g, s->name, w, value, diag));
  }
  return MR_OK;
}

/* Settings by which stages choose and order records, with the values that pass each record once, in
   the order of the source. */
typedef struct plain {
  const char *name, *value;
  const char *most; /* the value where the setting is no number of passes but the most records;
                       NULL: the same */
  bool cuts;        /* other values, as those below `most`, leave out records of the end alone */
  bool batches;     /* of stages that make or change batches */
} plain_t;

static const plain_t plain_settings[] = {
    {.name = "epochs", .value = "1"},
    {.name = "first", .value = "0", .cuts = true},
    {.name = "n", .value = "1", .most = "1000000000000000"},
    {.name = "shuffle", .value = "false"},
    {.name = "shard", .value = ""},
    {.name = "range", .value = ":"},
    {.name = "window-size", .value = "1"},
    {.name = "num-workers", .value = "1"},
    {.name = "label", .value = ""},
    {.name = "field", .value = ""},
    {.name = "key", .value = "0:1.9e19"},
    {.name = "modulo", .value = "0"},
    {.name = "p", .value = "1"},
    {.name = "invert", .value = "false"},
    {.name = "drop-remainder", .value = "false", .cuts = true},
    {.name = "drop-remainder", .value = "false", .cuts = true, .batches = true},
    {.name = "order", .value = "stream", .batches = true},
    {.name = "host", .value = "", .batches = true},
    {.name = "skip-steps", .value = "", .batches = true}};
enum { PLAIN = sizeof plain_settings / sizeof *plain_settings };

static const char *plain_value(const plain_t *p, const mr_opt_t *o) {
  return p->most && !o->length ? p->most : p->value;
}

/* Whether a stage says which records come when. */
static bool chooses_records(const mr_stage_def_t *d) { return d->order || d->filter || d->walk; }

/* A stage's setting of this row; NULL: it has none. */
static const mr_opt_t *plain_setting(const mr_stage_def_t *d, const plain_t *p) {
  bool asked = p->batches ? d->out[0].flow == MR_FLOW_BATCHES : chooses_records(d);
  return asked ? mr_stage_def_opt(d, p->name) : NULL;
}

/* All records once, in order, bad ones included, also where the run evaluated fewer of its own, or
   those in another order. */
static mr_err_t take_all_records(job_t *j, mr_diag_t *diag) {
  const mr_stage_def_t *def = mr_graph_stage(j->g, j->source)->def;
  bool own_test = j->found->kind == MR_KIND_CIFAR10 || j->found->kind == MR_KIND_CIFAR100;
  const char *const set[][2] = {{"split", own_test ? "test" : "all"},
                                {"holdout", "0"},
                                {"skip-records", ""},
                                {"on-bad", "skip-replace"}};
  for (size_t i = 0; i < sizeof set / sizeof *set; i++)
    if (mr_stage_def_opt(def, set[i][0]))
      MR_TRY(mr_graph_set(j->g, j->source, set[i][0], set[i][1], diag));
  for (const char *s = j->batches; s; s = mr_graph_before(j->g, s, 0)) {
    const mr_stage_def_t *d = mr_graph_stage(j->g, s)->def;
    for (int i = 0; i < PLAIN; i++) {
      const mr_opt_t *o = plain_setting(d, &plain_settings[i]);
      if (o) MR_TRY(mr_graph_set(j->g, s, o->name, plain_value(&plain_settings[i], o), diag));
    }
  }
  return MR_OK;
}

/* Whether a stage may give records elsewhere than in the place that they have in the source: *name
   is the setting by which it does, NULL: none. */
static bool moves_records(const mr_graph_t *g, const char *stage, const char **name) {
  const mr_stage_def_t *d = mr_graph_stage(g, stage)->def;
  bool known = !chooses_records(d) || (d->order && d->order->taken == mr_taken_in_place) ||
               (d->walk && d->walk->one_each);
  *name = NULL;
  for (int i = 0; i < PLAIN; i++) {
    const plain_t *p = &plain_settings[i];
    const mr_opt_t *o = plain_setting(d, p);
    if (!o) continue;
    known = true;
    const char *value = mr_graph_setting(g, stage, o->name);
    if (p->cuts || (p->most && !o->length)) continue;
    if (strcmp(value ? value : "", p->value) != 0) return *name = o->name, true;
  }
  return !known;
}

/* Finds whether the place of a row tells its record.  Where it does not, the record's own id does,
   which is another one's if that took the place of a bad one: so a bad one fails then, unless the
   command line says otherwise. */
static mr_err_t find_order(job_t *j, mr_diag_t *diag) {
  const char *name, *asked = NULL;
  for (const char *s = j->batches; s && !j->moved; s = mr_graph_before(j->g, s, 0)) {
    j->moved = moves_records(j->g, s, &name);
    if (j->moved)
      mr_notice(
          "predict: %s%s%s may leave out, repeat or reorder records: rows come as it gives them", s,
          name ? "." : "", name ? name : "");
  }
  for (int i = 2; i < j->args->n_words && !asked; i++) asked = strstr(j->args->word[i], "on-bad=");
  if (!j->moved || asked || !mr_stage_def_opt(mr_graph_stage(j->g, j->source)->def, "on-bad"))
    return MR_OK;
  return mr_graph_set(j->g, j->source, "on-bad", "fail", diag);
}

/* The line of the run's records that are evaluated, with the source that was recognised. */
static mr_err_t line_of_run(job_t *j, const char *line, mr_diag_t *diag) {
  j->g = j->of.graph, j->batches = line;
  MR_TRY(mr_graph_only(j->g, line, diag));
  const mr_stage_t *s = mr_line_source(j->g, line);
  if (!s)
    return mr_fail(diag, MR_ERR_USAGE,
                   "predict: the run's records come from several sources; use a graph of your own "
                   "with the stage predict");
  MR_TRY(mr_graph_swap(j->g, s->def->name, mr_kind_texts[j->found->kind].stage, diag));
  s = mr_line_source(j->g, line); /* one without a name of its own is called anew */
  snprintf(j->source, sizeof j->source, "%s", s->name);
  return MR_OK;
}

/* The settings of normalize for a field; "" if it is not normalised. */
static void write_normal(const mr_field_t *f, char *text, size_t n) {
  text[0] = 0;
  if (f->std[0] > 0)
    snprintf(text, n, "mean=%.9g,%.9g,%.9g std=%.9g,%.9g,%.9g", (double)f->mean[0],
             (double)f->mean[1], (double)f->mean[2], (double)f->std[0], (double)f->std[1],
             (double)f->std[2]);
}

/* The maps that make a record's picture what the checkpoint's model takes. */
static void write_maps(const mr_records_seen_t *seen, const mr_field_t *image, char *maps,
                       size_t n) {
  const mr_field_t *f = seen->image >= 0 ? &seen->spec.field[seen->image] : NULL;
  char normal[160];
  size_t at = 0;
  maps[0] = 0;
  if (!f || !image) return;
  int side = (int)image->dim[image->layout == MR_LAYOUT_CHW];
  int axis = f->layout == MR_LAYOUT_CHW;
  bool other = seen->encoded || f->varies || f->dim[axis] != side || f->dim[axis + 1] != side;
  if (strcmp(f->name, image->name) != 0)
    at += (size_t)snprintf(maps + at, n - at, mr_rename_text, f->name, image->name);
  if (seen->encoded) at += (size_t)snprintf(maps + at, n - at, "%s", mr_decode_text);
  if (other) at += (size_t)snprintf(maps + at, n - at, mr_resize_text, side * 8 / 7, side);
  write_normal(image, normal, sizeof normal);
  if (*normal && f->dtype == MR_U8) snprintf(maps + at, n - at, mr_normal_of_text, normal);
}

/* A graph for a checkpoint without a run, or of a run that evaluates nothing. */
static mr_err_t line_alone(job_t *j, mr_diag_t *diag) {
  mr_train_inputs_t in;
  mr_records_seen_t seen;
  char maps[1024], text[2048], settings[4096];
  bool taken[MR_WORDS_MAX] = {0}; /* all of them are set in the graph too */
  const mr_field_t *image = NULL;
  MR_TRY(mr_source_settings(j->found->kind, j->args->word + 2, j->args->n_words - 2, taken,
                            settings, sizeof settings, diag));
  MR_TRY(mr_see(j->found, settings, &seen, diag));
  MR_TRY(mr_train_inputs_read(j->of.path, &in, diag));
  for (int i = 0; i < in.spec.n_fields && !image; i++)
    if (in.spec.field[i].layout != MR_LAYOUT_NONE) image = &in.spec.field[i];
  write_maps(&seen, image, maps, sizeof maps);
  mr_train_inputs_fini(&in);
  snprintf(text, sizeof text, mr_unlabelled_text, mr_kind_texts[j->found->kind].stage, maps);
  if (!(j->g = j->own = mr_graph_create(mr_all_stages()))) return mr_no_memory(diag, "the graph");
  MR_TRY(mr_graph_parse(j->g, text, NULL, 0, diag));
  (void)mr_graph_batches(j->g, &j->batches);
  const mr_stage_t *s = mr_line_source(j->g, j->batches);
  snprintf(j->source, sizeof j->source, "%s", s->name);
  return MR_OK;
}

static mr_err_t add_predict(job_t *j, mr_diag_t *diag) {
  const mr_args_t *a = j->args;
  const char *threads = mr_args_text(a, "--threads"), *device = mr_args_text(a, "--device");
  char text[64];
  strcpy(j->name, "predict");
  for (int i = 2; mr_graph_stage(j->g, j->name); i++)
    snprintf(j->name, sizeof j->name, "predict%d", i);
  snprintf(text, sizeof text, mr_predict_text, j->name);
  MR_TRY(mr_graph_parse(j->g, text, NULL, 0, diag));
  MR_TRY(mr_graph_link(j->g, j->batches, NULL, j->name, NULL, diag));
  MR_TRY(mr_graph_set(j->g, j->name, "checkpoint", j->of.path, diag));
  if (mr_args_text(a, "--features")) MR_TRY(mr_graph_set(j->g, j->name, "features", "true", diag));
  if (threads) MR_TRY(mr_graph_set(j->g, j->name, "threads", threads, diag));
  return device ? mr_graph_set(j->g, j->name, "device", device, diag) : MR_OK;
}

/* The precision of the run's step. */
static mr_err_t keep_precision(job_t *j, const char *const value[], mr_diag_t *diag) {
  static const char *const name[] = {"dtype", "amp", "amp-rule", "param-dtype", "matmul-precision"};
  for (int i = 0; i < 5; i++)
    if (value[i] && *value[i]) MR_TRY(mr_graph_set(j->g, j->name, name[i], value[i], diag));
  return MR_OK;
}

static mr_err_t build_line(job_t *j, mr_diag_t *diag) {
  static const char *const name[] = {"dtype", "amp", "amp-rule", "param-dtype", "matmul-precision"};
  const mr_args_t *a = j->args;
  const char *line = NULL, *value[5] = {NULL};
  if (j->of.graph) {
    line = mr_checkpoint_line(&j->of, "test");
    if (!line) line = mr_checkpoint_line(&j->of, "valid");
    for (int i = 0; i < 5; i++) value[i] = mr_graph_setting(j->of.graph, j->of.step, name[i]);
  }
  MR_TRY(line ? line_of_run(j, line, diag) : line_alone(j, diag));
  MR_TRY(place_source(j, diag));
  MR_TRY(take_all_records(j, diag));
  for (int i = 2; i < a->n_words; i++)
    if (strncmp(a->word[i], "source=", 7)) MR_TRY(mr_graph_override(j->g, a->word[i], diag));
  MR_TRY(find_order(j, diag));
  MR_TRY(add_predict(j, diag));
  return keep_precision(j, value, diag);
}

/* ---- rows ---- */

/* Finds the source; false if the file has the rows of all of its records. */
static bool predict_ready(void *ctx, const mr_graph_t *g) {
  job_t *j = ctx;
  j->records = mr_graph_stage(g, j->source);
  int64_t n = j->records ? j->records->out_spec[0].n_records : 0;
  return !j->kept || !n || j->kept < n;
}

static int compare_ids(const void *a, const void *b) {
  const id_index_t *x = a, *y = b;
  int order = (x->id > y->id) - (x->id < y->id);
  return order ? order : (x->index > y->index) - (x->index < y->index);
}

/* Asks the source for the ids of all of its records. */
static mr_err_t list_ids(job_t *j, mr_diag_t *diag) {
  static char file[MR_WHERE_MAX];
  j->n_ids = j->records->out_spec[0].n_records;
  j->of_id = malloc((size_t)j->n_ids * sizeof *j->of_id + 1);
  if (!j->of_id) return mr_no_memory(diag, "the ids of %" PRId64 " records", j->n_ids);
  for (int64_t i = 0; i < j->n_ids; i++) {
    mr_where_t where = {.file = file, .offset = -1};
    j->records->def->source->where(j->records, i, &where);
    j->of_id[i] = (id_index_t){where.key, i};
  }
  qsort(j->of_id, (size_t)j->n_ids, sizeof *j->of_id, compare_ids);
  return MR_OK;
}

/* The index of the source's record with an id, -1: none.  Of several, the first. */
static mr_err_t index_of_id(job_t *j, uint64_t id, int64_t *index, mr_diag_t *diag) {
  const mr_source_def_t *source = j->records->def->source;
  if (source->index_of) return *index = source->index_of(j->records, id), MR_OK;
  if (!j->of_id) MR_TRY(list_ids(j, diag));
  const id_index_t want = {.id = id, .index = -1}; /* before all of that id */
  int64_t lo = 0, hi = j->n_ids;
  while (lo < hi) {
    int64_t mid = lo + (hi - lo) / 2;
    if (compare_ids(&j->of_id[mid], &want) < 0)
      lo = mid + 1;
    else
      hi = mid;
  }
  *index = lo < j->n_ids && j->of_id[lo].id == id ? j->of_id[lo].index : -1;
  return MR_OK;
}

/* Names row i of a batch, at `place` of the stream.  A record in its place whose id is another's
   stands for a bad one. */
static mr_err_t name_row(job_t *j, int64_t place, const mr_buf_t *b, int i, char *file,
                         mr_predict_row_t *row, mr_diag_t *diag) {
  mr_where_t where = {.file = file, .offset = -1};
  int64_t index = place;
  *row = (mr_predict_row_t){.id = b->key[i] & ~MR_KEY_SKIPPED, .offset = -1};
  row->bad = b->excluded[i];
  file[0] = 0;
  if (!j->records || !mr_says_where(j->records->def)) return MR_OK;
  if (j->moved) MR_TRY(index_of_id(j, row->id, &index, diag));
  if (index < 0) return MR_OK;
  j->records->def->source->where(j->records, index, &where);
  row->bad |= where.key != row->id;
  row->id = where.key, row->file = file, row->offset = where.offset;
  return MR_OK;
}

static mr_err_t write_batch_rows(void *ctx, const mr_spec_t *spec, int64_t step, const mr_buf_t *b,
                                 mr_diag_t *diag) {
  static char file[MR_WHERE_MAX];
  job_t *j = ctx;
  int f = spec->n_fields - 1;
  const mr_field_t *field = &spec->field[f];
  for (int i = 0; i < b->n; i++) {
    mr_predict_row_t row;
    MR_TRY(name_row(j, (step - 1) * spec->batch + i, b, i, file, &row, diag));
    row.n = field->dim[0];
    row.value = (const float *)b->field[f].data + (size_t)i * (size_t)row.n;
    MR_TRY(mr_predict_rows_add(j->rows, field, f > 0, &row, diag));
    j->done++, j->bad += row.bad;
    if (row.bad)
      mr_notice("predict: record %" PRIu64 " of %s cannot be read", row.id,
                row.file ? row.file : "the source");
  }
  return mr_predict_rows_flush(j->rows, diag);
}

/* Relays a failure.  Where records do not fit a stage before the model, it says first what the
   checkpoint's model takes, as that stage does not know it. */
static mr_err_t relay_with_fields(const job_t *j, mr_err_t e, const mr_diag_t *why,
                                  mr_diag_t *diag) {
  mr_train_inputs_t in;
  char text[512] = "", field[128];
  size_t n = 0;
  if (e != MR_ERR_SHAPE || strstr(why->text, "takes the field")) return mr_diag_relay(diag, e, why);
  if (mr_train_inputs_read(j->of.path, &in, NULL) >= 0)
    for (int f = 0; f < in.spec.n_fields && n < sizeof text; f++) {
      if (in.spec.field[f].label) continue;
      mr_field_text(&in.spec.field[f], 0, field, sizeof field);
      n += (size_t)snprintf(text + n, sizeof text - n, "%s%s", n ? ", " : "", field);
    }
  mr_train_inputs_fini(&in);
  if (!n) return mr_diag_relay(diag, e, why);
  return mr_diag_prefix(diag, e, why, "the model of %s takes the field %s", j->of.path, text);
}

static mr_err_t predict_all(job_t *j, mr_diag_t *diag) {
  const char *out = mr_args_text(j->args, "--out");
  bool resume = mr_args_text(j->args, "--resume") != NULL;
  int64_t top = 1, batch;
  double from = mr_now_s();
  long cores = sysconf(_SC_NPROCESSORS_ONLN);
  MR_TRY(mr_args_int(j->args, "--top", 1, 64, &top, diag));
  MR_TRY(mr_predict_rows_open(out, top, resume, &j->rows, diag));
  const mr_stage_t *made = mr_graph_stage(j->g, j->batches);
  const char *size = mr_graph_setting(j->g, made->name, "size");
  batch = size ? strtoll(size, NULL, 10) : 0;
  if (resume && batch > 0) MR_TRY(mr_predict_rows_keep(j->rows, batch, &j->kept, diag));
  mr_batches_t want = {.stage = j->name,
                       .first = batch > 0 ? j->kept / batch + 1 : 1,
                       .take = write_batch_rows,
                       .ready = predict_ready,
                       .ctx = j,
                       .workers = cores < 1    ? 1
                                  : cores > 16 ? 16
                                               : (int)cores};
  mr_diag_t why = {0};
  MR_TRY(relay_with_fields(j, mr_take_batches(j->g, &want, &why), &why, diag));
  double s = mr_now_s() - from;
  fprintf(stderr, "millrace: %" PRId64 " records in %.1f s, %.0f a second", j->done, s,
          (double)j->done / (s > 0 ? s : 1));
  if (j->bad) fprintf(stderr, "; %" PRId64 " cannot be read", j->bad);
  fputs("\n", stderr);
  return MR_OK;
}

static const char *source_word(const mr_args_t *a) {
  for (int i = 2; i < a->n_words; i++)
    if (!strncmp(a->word[i], "source=", 7)) return a->word[i] + 7;
  return NULL;
}

static int predict_run(const mr_args_t *a, mr_diag_t *diag) {
  job_t j = {.args = a, .found = malloc(sizeof *j.found)};
  if (!j.found) return mr_no_memory(diag, "a graph");
  j.found->list[0] = 0;
  mr_err_t e = mr_args_settings(a, 2, diag);
  if (e >= 0) e = mr_device_named(a, diag);
  if (e >= 0) e = mr_checkpoint_arg(a->word[0], NULL, NULL, 0, &j.of, diag);
  if (e >= 0)
    e = mr_recognise_unlabelled(a->word[1], source_word(a), a->word + 2, a->n_words - 2, j.found,
                                diag);
  if (e >= 0) e = build_line(&j, diag);
  if (e >= 0) e = predict_all(&j, diag);
  e = mr_predict_rows_close(j.rows, e, diag);
  mr_graph_destroy(j.own);
  free(j.of_id);
  mr_checkpoint_arg_fini(&j.of);
  if (*j.found->list) unlink(j.found->list);
  free(j.found);
  return e;
}

static const mr_hint_t predict_words[] = {{"infer inference classify", "predict", NULL}, {0}};

const mr_command_t mr_command_predict = {
    .name = "predict",
    .hint = predict_words,
    .words = "RUN|CHECKPOINT PATH [NAME=VALUE...]",
    .help = "Says what a trained model predicts for each record of any data.",
    .more =
        "\nPATH is data as for `millrace train PATH`, or pictures without folders of classes.  "
        "Rows are in the\norder of the records, each with its file or id.  The checkpoint's run "
        "prepares the records;\nNAME=VALUE changes a setting of its graph.",
    .flags = predict_flags,
    .min_words = 2,
    .max_words = MR_WORDS_MAX,
    .run = predict_run,
};
