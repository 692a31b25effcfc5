/* Writes scalars, histograms, pictures, the confusion matrix and the settings of the run as an
   event file that TensorBoard reads while it grows. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/feature.h"
#include "base/text.h"
#include "base/xio.h"
#include "events.pb-c.h"
#include "metrics/report.h"
#include "pipeline/stage_step.h"
#include "pipeline/watch/watch.h"
#include "sinks/appender.h"
#include "sinks/picture.h"
#include "sinks/resume.h"
#include "sinks/tfrecord.h"

/* A series whose description was written: readers take that of its first value. */
typedef struct series {
  const mr_metric_def_t *def;
  const char *of; /* the stage or the split, owned by the graph or static */
} series_t;

typedef struct tensorboard {
  const char *dir;
  mr_resume_t resume;
  char path[MR_PATH_MAX];
  mr_appender_t out;
  int64_t samples; /* pictures of sample_step so far, which number their tags */
  int64_t sample_step;
  mr_sheet_t wrong; /* pictures of the evaluation in progress */
  bool said;        /* that the classes are too many for a picture */
  size_t n_described;
  series_t *described; /* heap */
} tensorboard_t;

static const mr_opt_t tensorboard_opts[] = {
    {.name = "dir",
     .hint = "logdir loggingdir path dirpath savedir",
     .type = MR_OPT_STR,
     .offset = offsetof(tensorboard_t, dir),
     .unit = "",
     .def = "tensorboard",
     .help = "Folder of the event files; it is created if it is missing.",
     .positional = 1},
    MR_RESUME_OPTS(offsetof(tensorboard_t, resume)),
    {0}};

static double wall_time(void) {
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* ---- events ---- */

static void tensorboard_put(mr_stage_t *s, Tb__Event *e, int64_t step) {
  tensorboard_t *t = s->state;
  e->has_wall_time = 1, e->wall_time = wall_time();
  e->has_step = 1, e->step = step;
  size_t n = tb__event__get_packed_size(e);
  uint8_t *record = malloc(MR_TFRECORD_HEAD + n + MR_TFRECORD_TAIL);
  if (record) {
    tb__event__pack(e, record + MR_TFRECORD_HEAD);
    mr_tfrecord_frame(record, n);
  }
  mr_appender_add(&t->out, s, record, MR_TFRECORD_HEAD + n + MR_TFRECORD_TAIL);
  free(record);
}

/* Counts a record that could not be built without memory. */
static void count_lost(mr_stage_t *s) {
  mr_appender_add(&((tensorboard_t *)s->state)->out, s, NULL, 0);
}

/* Values collected for one event. */
typedef struct values {
  size_t n, room;
  Tb__SummaryValue *value; /* [n] heap, with tags that are heap */
  bool lost;               /* memory ran out */
} values_t;

/* Appends a value with a tag and returns it, until the next one is added; NULL without memory. */
__attribute__((format(printf, 2, 3))) static Tb__SummaryValue *tensorboard_add_value(
    values_t *v, const char *fmt, ...) {
  va_list ap;
  char *tag = NULL;
  if (v->n == v->room) {
    size_t room = v->room ? 2 * v->room : 64;
    Tb__SummaryValue *more = realloc(v->value, room * sizeof *more);
    if (!more) return v->lost = true, NULL;
    v->value = more, v->room = room;
  }
  va_start(ap, fmt);
  int k = vasprintf(&tag, fmt, ap);
  va_end(ap);
  if (k < 0) return v->lost = true, NULL;
  Tb__SummaryValue *x = &v->value[v->n++];
  tb__summary_value__init(x);
  x->tag = tag;
  return x;
}

/* Writes the values as one event and frees them. */
static void tensorboard_put_values(mr_stage_t *s, values_t *v, int64_t step) {
  Tb__SummaryValue **list = calloc(v->n + 1, sizeof *list);
  Tb__Summary summary = TB__SUMMARY__INIT;
  Tb__Event e = TB__EVENT__INIT;
  for (size_t i = 0; list && i < v->n; i++) list[i] = &v->value[i];
  summary.n_value = v->n, summary.value = list;
  e.what_case = TB__EVENT__WHAT_SUMMARY, e.summary = &summary;
  if (!list || v->lost)
    count_lost(s);
  else if (v->n)
    tensorboard_put(s, &e, step);
  for (size_t i = 0; i < v->n; i++) free(v->value[i].tag);
  free(list), free(v->value);
}

/* ---- numbers ---- */

static void set_scalar(Tb__SummaryValue *value, double x) {
  if (value)
    value->value_case = TB__SUMMARY_VALUE__VALUE_SIMPLE_VALUE, value->simple_value = (float)x;
}

/* What a metric means and its unit, for the first value of a series. */
typedef struct about {
  Tb__Metadata meta;
  Tb__PluginData plugin;
  char *text; /* heap */
} about_t;

/* Whether the series has not been described yet; it is then taken for described.  False if there is
   nothing to say. */
static bool describes_first(tensorboard_t *t, const mr_metric_def_t *def, const char *of,
                            values_t *v) {
  if (!def->help && !def->unit) return false;
  for (size_t i = 0; i < t->n_described; i++)
    if (t->described[i].def == def && !strcmp(t->described[i].of, of)) return false;
  series_t *more = realloc(t->described, (t->n_described + 1) * sizeof *more);
  if (!more) return v->lost = true, false;
  t->described = more;
  more[t->n_described++] = (series_t){def, of};
  return true;
}

static void describe_metric(about_t *a, const mr_metric_def_t *def, Tb__SummaryValue *x,
                            values_t *v) {
  bool unit = def->unit && *def->unit, help = def->help && *def->help;
  if (!x || asprintf(&a->text, "%s%s%s%s%s", help ? def->help : "", help && unit ? " " : "",
                     unit ? "Unit: " : "", unit ? def->unit : "", unit ? "." : "") < 0) {
    a->text = NULL, v->lost = true;
    return;
  }
  tb__metadata__init(&a->meta), tb__plugin_data__init(&a->plugin);
  a->plugin.plugin_name = (char *)"scalars", a->meta.plugin_data = &a->plugin;
  a->meta.summary_description = a->text;
  x->metadata = &a->meta;
}

static void put_numbers(mr_stage_t *s, const mr_report_t *r) {
  tensorboard_t *t = s->state;
  values_t v = {0};
  about_t *about = calloc(r->n_numbers + 1, sizeof *about);
  v.lost = !about;
  for (size_t i = 0; about && i < r->n_numbers; i++) {
    const mr_number_t *m = &r->number[i];
    const char *of = m->stage ? m->stage : mr_report_split(r);
    Tb__SummaryValue *x =
        tensorboard_add_value(&v, "%s%s/%s", m->stage ? "stages/" : "", of, m->def->name);
    set_scalar(x, m->value);
    if (describes_first(t, m->def, of, &v)) describe_metric(&about[i], m->def, x, &v);
  }
  for (size_t i = 0; i < r->n_stages; i++) {
    const mr_stage_use_t *st = &r->stage[i];
    set_scalar(tensorboard_add_value(&v, "stages/%s/busy", st->name), st->busy);
    set_scalar(tensorboard_add_value(&v, "stages/%s/starved", st->name), st->starved);
    set_scalar(tensorboard_add_value(&v, "stages/%s/blocked", st->name), st->blocked);
    set_scalar(tensorboard_add_value(&v, "stages/%s/queue", st->name), st->queue);
    if (!st->link) continue;
    set_scalar(tensorboard_add_value(&v, "stages/%s/released", st->name), (double)st->released);
    set_scalar(tensorboard_add_value(&v, "stages/%s/committed", st->name), (double)st->committed);
  }
  tensorboard_put_values(s, &v, r->step);
  for (size_t i = 0; about && i < r->n_numbers; i++) free(about[i].text);
  free(about);
}

/* ---- pictures ---- */

/* Writes a picture tagged WHAT/OF and frees png.  png NULL: it could not be built, and the record
   is lost.  about: the description shown beside it, or NULL. */
static void put_picture(mr_stage_t *s, void *png, size_t n, int width, int height, int64_t step,
                        const char *what, const char *of, const char *about) {
  values_t v = {.lost = !png};
  Tb__Image image = TB__IMAGE__INIT;
  Tb__PluginData plugin = TB__PLUGIN_DATA__INIT;
  Tb__Metadata meta = TB__METADATA__INIT;
  Tb__SummaryValue *x = tensorboard_add_value(&v, "%s/%s", what, of);
  image.has_width = image.has_height = image.has_colorspace = image.has_encoded_image_string = 1;
  image.width = width, image.height = height, image.colorspace = 3;
  image.encoded_image_string = (ProtobufCBinaryData){n, png};
  plugin.plugin_name = (char *)"images", meta.plugin_data = &plugin;
  meta.summary_description = (char *)(uintptr_t)about;
  if (x) x->value_case = TB__SUMMARY_VALUE__VALUE_IMAGE, x->image = &image;
  if (x && about) x->metadata = &meta;
  tensorboard_put_values(s, &v, step);
  free(png);
}

/* A tag keeps one picture per step, so each picture of a step has its own tag. */
static void put_samples(mr_stage_t *s, const mr_report_t *r) {
  tensorboard_t *t = s->state;
  if (r->step != t->sample_step) t->samples = 0, t->sample_step = r->step;
  for (size_t i = 0; i < r->n_pictures; i++) {
    const mr_picture_t *p = &r->picture[i];
    char number[24];
    size_t n = 0;
    snprintf(number, sizeof number, "%" PRId64, t->samples++);
    void *png = mr_png_of(p->rgb, p->width, p->height, &n);
    put_picture(s, png, n, p->width, p->height, r->step, "samples", number, NULL);
  }
}

/* The description of a sheet with the names of its classes; heap, NULL without memory. */
static char *sheet_about(const mr_report_t *r, int n_classes) {
  mr_text_out_t text;
  FILE *out = mr_text_out_open(&text);
  if (out) fputs("A row for each true class, a column for each guess: ", out);
  for (int i = 0; out && i < n_classes; i++) {
    char name[256];
    bool known = r->dataset && i < r->dataset->n_classes;
    fprintf(out, "%s%s", i ? ", " : "",
            known ? mr_printable(r->dataset->class_name[i], name, sizeof name) : "?");
  }
  return mr_text_out_close(&text, out, NULL);
}

/* Writes the sheet of mistakes when the evaluation's report of numbers arrives: the pictures come
   before it, and only it says which records were evaluated. */
static void put_wrong(mr_stage_t *s, const mr_report_t *r) {
  tensorboard_t *t = s->state;
  size_t n = 0;
  if (!t->wrong.n_classes || t->wrong.step != r->step ||
      strcmp(t->wrong.split, mr_report_split(r)) != 0)
    return;
  int width = t->wrong.width, height = t->wrong.height, C = t->wrong.n_classes;
  char *about = sheet_about(r, C);
  void *png = mr_sheet_png(&t->wrong, &n);
  put_picture(s, png, n, width, height, r->step, "wrong", mr_report_split(r), about);
  free(about);
}

static void tensorboard_put_confusion(mr_stage_t *s, const mr_report_t *r) {
  tensorboard_t *t = s->state;
  int side;
  size_t n = 0;
  if (r->n_classes > MR_SHEET_CLASSES && !t->said) {
    mr_notice(
        "%s: %" PRId64 " classes: no sheet of wrong pictures, which shows at most %d%s", s->name,
        r->n_classes, MR_SHEET_CLASSES,
        r->n_classes > MR_CONFUSION_CLASSES ? ", and no picture of the confusion matrix" : "");
    t->said = true;
  }
  if (r->n_classes > MR_CONFUSION_CLASSES) return;
  void *png = mr_png_of_confusion(r, &side, &n);
  put_picture(s, png, n, side, side, r->step, "confusion", mr_report_split(r), NULL);
}

/* ---- histograms ---- */

static void put_histogram(mr_stage_t *s, const mr_histogram_t *h, int64_t step) {
  values_t v = {0};
  Tb__Histogram histo = TB__HISTOGRAM__INIT;
  double limit[MR_HISTOGRAM_BINS], count[MR_HISTOGRAM_BINS];
  if (!h->n) return;
  for (int i = 0; i < MR_HISTOGRAM_BINS; i++) {
    limit[i] = h->min + (h->max - h->min) * (i + 1) / MR_HISTOGRAM_BINS;
    count[i] = h->count[i];
  }
  Tb__SummaryValue *x = tensorboard_add_value(&v, "%s", h->name);
  histo.has_min = histo.has_max = histo.has_num = histo.has_sum = histo.has_sum_squares = 1;
  histo.min = h->min, histo.max = h->max, histo.num = (double)h->n;
  histo.sum = h->sum, histo.sum_squares = h->sum_squares;
  histo.n_bucket_limit = histo.n_bucket = MR_HISTOGRAM_BINS;
  histo.bucket_limit = limit, histo.bucket = count;
  if (x) x->value_case = TB__SUMMARY_VALUE__VALUE_HISTO, x->histo = &histo;
  tensorboard_put_values(s, &v, step);
}

/* ---- settings ---- */

static void put_plugin(mr_stage_t *s, const char *tag, Tb__HparamsData *data) {
  values_t v = {0};
  uint8_t *content = malloc(tb__hparams_data__get_packed_size(data));
  Tb__PluginData plugin = TB__PLUGIN_DATA__INIT;
  Tb__Metadata meta = TB__METADATA__INIT;
  if (!content) return count_lost(s);
  Tb__SummaryValue *x = tensorboard_add_value(&v, "%s", tag);
  plugin.plugin_name = (char *)"hparams", plugin.has_content = 1;
  plugin.content = (ProtobufCBinaryData){tb__hparams_data__pack(data, content), content};
  meta.plugin_data = &plugin;
  if (x) x->metadata = &meta;
  set_scalar(x, 0);
  tensorboard_put_values(s, &v, 0);
  free(content);
}

typedef struct hparam {
  Tb__HparamEntry entry;
  Tb__HparamValue value;
  char name[160]; /* STAGE.SETTING */
  char *text;     /* its value; heap */
} hparam_t;

/* Takes text over. */
static void set_hparam(hparam_t *h, const char *stage, const mr_opt_t *o, char *text) {
  Tb__HparamEntry *e = &h->entry;
  Tb__HparamValue *v = &h->value;
  snprintf(h->name, sizeof h->name, "%s.%s", stage, o->name);
  tb__hparam_entry__init(e), tb__hparam_value__init(v);
  e->key = h->name, e->value = v, h->text = text;
  if (o->type == MR_OPT_INT || o->type == MR_OPT_F64)
    v->kind_case = TB__HPARAM_VALUE__KIND_NUMBER_VALUE, v->number_value = mr_strtod(text, NULL);
  else if (o->type == MR_OPT_BOOL)
    v->kind_case = TB__HPARAM_VALUE__KIND_BOOL_VALUE, v->bool_value = text[0] == 't';
  else
    v->kind_case = TB__HPARAM_VALUE__KIND_STRING_VALUE, v->string_value = text;
}

/* Whether a stage shows or stores results; an experiment does not vary its settings. */
static bool is_sink(const mr_stage_def_t *def) {
  return def->in[0].name && (!def->out[0].name || def->in[0].flow == MR_FLOW_METRICS);
}

/* Fills h[most], or counts if it is NULL; returns how many settings there are. */
static size_t each_setting(const mr_stage_t *s, hparam_t *h, size_t most) {
  size_t n = 0;
  for (int i = 0; i < mr_watch_n_stages(s); i++) {
    const mr_stage_def_t *def = mr_watch_def(s, i);
    for (const mr_opt_t *o = def->opts; !is_sink(def) && o && o->type != MR_OPT_END; o++) {
      char *text = mr_watch_setting(s, i, o->name);
      if (!text || n == most) {
        free(text);
        continue;
      }
      if (h)
        set_hparam(&h[n], mr_watch_name(s, i), o, text);
      else
        free(text);
      n++;
    }
  }
  return n;
}

static void put_settings(mr_stage_t *s) {
  size_t n = each_setting(s, NULL, SIZE_MAX);
  hparam_t *h = calloc(n + 1, sizeof *h);
  Tb__HparamEntry **list = calloc(n + 1, sizeof *list);
  if (h && list) {
    n = each_setting(s, h, n);
    for (size_t i = 0; i < n; i++) list[i] = &h[i].entry;
    Tb__HparamsData data = TB__HPARAMS_DATA__INIT;
    Tb__SessionStart start = TB__SESSION_START__INIT;
    start.n_hparams = n, start.hparams = list;
    start.has_start_time_secs = 1, start.start_time_secs = wall_time();
    data.has_version = 1, data.version = 0;
    data.data_case = TB__HPARAMS_DATA__DATA_SESSION_START, data.session_start = &start;
    put_plugin(s, "_hparams_/session_start_info", &data);
  } else {
    count_lost(s);
  }
  for (size_t i = 0; h && i < n; i++) free(h[i].text);
  free(h), free(list);
}

static void put_end(mr_stage_t *s) {
  Tb__HparamsData data = TB__HPARAMS_DATA__INIT;
  Tb__SessionEnd end = TB__SESSION_END__INIT;
  end.has_status = 1, end.status = 1;
  end.has_end_time_secs = 1, end.end_time_secs = wall_time();
  data.has_version = 1, data.version = 0;
  data.data_case = TB__HPARAMS_DATA__DATA_SESSION_END, data.session_end = &end;
  put_plugin(s, "_hparams_/session_end_info", &data);
}

/* ---- the stage ---- */

static mr_err_t tensorboard_plan(mr_stage_t *s) {
  const tensorboard_t *t = s->state;
  if (!t->dir || !t->dir[0] || strlen(t->dir) > MR_PATH_MAX - 400)
    return mr_stage_fail(s, MR_ERR_CONFIG, "dir: expected the name of a folder");
  return MR_OK;
}

/* Names the file by the time: readers take the files of a folder in the order of their names. */
static void name_file(tensorboard_t *t) {
  char host[256] = "";
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  gethostname(host, sizeof host - 1);
  snprintf(t->path, sizeof t->path, "%s/events.out.tfevents.%010lld.%09ld.%s", t->dir,
           (long long)now.tv_sec, now.tv_nsec, host);
}

/* Writes the start of a session.  Readers then discard the earlier run's events beyond the
   checkpoint, or all earlier events if the run starts anew. */
static void put_start(mr_stage_t *s) {
  const tensorboard_t *t = s->state;
  Tb__Event version = TB__EVENT__INIT, restart = TB__EVENT__INIT;
  Tb__SessionLog log = TB__SESSION_LOG__INIT;
  version.what_case = TB__EVENT__WHAT_FILE_VERSION;
  version.file_version = (char *)"brain.Event:2";
  tensorboard_put(s, &version, 0);
  log.has_status = 1, log.status = 1;
  restart.what_case = TB__EVENT__WHAT_SESSION_LOG, restart.session_log = &log;
  tensorboard_put(s, &restart, t->resume.step + 1);
}

/* Reports the steps before the resume that earlier event files lack.  The files stay as they are;
   this run's file follows them. */
static mr_err_t look_back(mr_stage_t *s, mr_diag_t *diag) {
  const tensorboard_t *t = s->state;
  mr_reported_steps_t steps = {0};
  mr_err_t e = mr_event_steps(t->dir, &steps, diag);
  if (e >= 0) mr_reported_steps_say_missing(&steps, s, t->dir, 1, t->resume.step);
  mr_reported_steps_fini(&steps);
  return e;
}

static mr_err_t tensorboard_open(mr_stage_t *s) {
  tensorboard_t *t = s->state;
  mr_diag_t diag = {0};
  name_file(t);
  mr_err_t e = t->resume.step >= 0 ? look_back(s, &diag) : MR_OK;
  if (e >= 0) e = mr_appender_open(&t->out, s, t->path, false, &diag);
  if (e < 0) return mr_stage_relay(s, e, &diag);
  put_start(s);
  put_settings(s);
  return MR_OK;
}

static void put_pictures(mr_stage_t *s, const mr_report_t *r) {
  tensorboard_t *t = s->state;
  if (mr_report_is_numbers(r) && r->n_classes > 0) tensorboard_put_confusion(s, r);
  if (r->kind == MR_REPORT_SAMPLE) put_samples(s, r);
  if (r->kind == MR_REPORT_WRONG && !mr_sheet_add(&t->wrong, r)) count_lost(s);
  if (r->kind == MR_REPORT_VALID || r->kind == MR_REPORT_TEST) put_wrong(s, r);
}

static void tensorboard_put_report(mr_stage_t *s, const mr_report_t *r) {
  if (mr_report_is_numbers(r)) put_numbers(s, r);
  if (mr_built_in("PNG")) put_pictures(s, r);
  if (r->kind == MR_REPORT_FINAL) put_end(s);
  if (r->kind == MR_REPORT_MARK) mr_appender_mark(&((tensorboard_t *)s->state)->out, s, r);
  if (r->kind == MR_REPORT_HISTOGRAMS)
    for (size_t i = 0; i < r->n_histograms; i++) put_histogram(s, &r->histogram[i], r->step);
}

static mr_err_t tensorboard_step(mr_stage_t *s) {
  mr_buf_t *b[MR_BURST];
  size_t k = mr_take(s, 0, b, MR_BURST);
  for (size_t i = 0; i < k; i++) {
    tensorboard_put_report(s, b[i]->data);
    mr_buf_unref(b[i]);
  }
  return k ? MR_OK : mr_idle(s);
}

static void tensorboard_close(mr_stage_t *s) {
  tensorboard_t *t = s->state;
  mr_appender_close(&t->out, s);
  mr_sheet_fini(&t->wrong);
  free(t->described);
}

static mr_err_t tensorboard_verdict(mr_stage_t *s) {
  return mr_appender_verdict(&((const tensorboard_t *)s->state)->out, s);
}

static void tensorboard_report(mr_stage_t *s, char *text, size_t n) {
  const tensorboard_t *t = s->state;
  char lost[48];
  mr_appender_lost_text(&t->out, lost, sizeof lost);
  mr_snprintf(text, n, "%" PRId64 " events in %s%s%s", t->out.written, t->path, lost,
              mr_built_in("PNG") ? "" : "; no pictures: this build is without libpng");
}

static const mr_hint_t tensorboard_words[] = {
    {"summarywriter tensorboardlogger tensorboardcallback", "tensorboard dir=DIR", NULL}, {0}};

const mr_stage_def_t mr_stage_tensorboard = {
    .name = "tensorboard",
    .hint = tensorboard_words,
    .help = "Writes metrics, histograms, pictures and settings as TensorBoard event files.",
    .in = {{.name = "metrics", .flow = MR_FLOW_METRICS, .lossy = true}},
    .opts = tensorboard_opts,
    .state_sz = sizeof(tensorboard_t),
    .plan = tensorboard_plan,
    .open = tensorboard_open,
    .close = tensorboard_close,
    .step = &(const mr_step_def_t){.run = tensorboard_step},
    .verdict = tensorboard_verdict,
    .report = tensorboard_report,
};
