/* Replay files: written by the stage that trains, read by `millrace replay`.

   The settings of the stage travel as text and are parsed by the same rows as those of a graph, so
   that a file cannot say what a graph could not.  A file is checked before it costs memory: the
   list of parameters that its model has is compared with the tensors that it holds. */
#include "stages/train/replay.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/isa.h"
#include "base/safetensors.h"
#include "base/text.h"
#include "pipeline/opt.h"
#include "stages/train/computes.h"
#include "stages/train/trace_step.h"
#include "stages/train/train_step_private.h"

enum {
  VERSION = 1,
  NAME = 256,
  SETTINGS = 1 << 14,
  FIELDS = 2048,
  N_SETS = 4,
  META = 20,
  REPLAY_NAMES = 999
};

static const char *made_with = "";

void mr_replay_made_with(const char *text) { made_with = text; }

/* The sets of a step, as they are named in a file. */
static const struct {
  const char *name;
  mr_set_kind_t kind;
  int number;
} replay_set[N_SETS] = {{"params", MR_SET_VALUES, 0},
                        {"slot.0", MR_SET_SLOT, 0},
                        {"slot.1", MR_SET_SLOT, 1},
                        {"average", MR_SET_AVERAGE, 0}};

/* ---- settings as text ---- */

/* Those that say where a run writes and when it ends, and not what a step computes. */
static bool replay_leaves_out(const char *name) {
  static const char *const out[] = {"threads",    "pin",         "steps",      "checkpoint-every",
                                    "resume",     "watch-every", "leak-check", "device",
                                    "fit",        "replay-dir",  "on-nan",     "max-skipped",
                                    "redo-on-nan"};
  for (size_t i = 0; i < sizeof out / sizeof *out; i++)
    if (!strcmp(name, out[i])) return true;
  return false;
}

static void replay_choice_text(const char *choices, int at, char *text, size_t n) {
  while (at-- && strchr(choices, '|')) choices = strchr(choices, '|') + 1;
  snprintf(text, n, "%.*s", (int)strcspn(choices, "|"), choices);
}

/* False: a setting of this type has no text here, or its text is too long or has lines. */
static bool setting_text(const mr_opt_t *o, const char *state, char *text, size_t n) {
  const char *at = state + o->offset;
  const double *d = (const double *)(const void *)at;
  const mr_vec_t *v = (const mr_vec_t *)(const void *)at;
  const char *s;
  int len = 0;
  switch (o->type) {
    case MR_OPT_INT: len = snprintf(text, n, "%" PRId64, *(const int64_t *)(const void *)at); break;
    case MR_OPT_F64: len = mr_snprintf(text, n, "%.17g", *d); break;
    case MR_OPT_BOOL: len = snprintf(text, n, "%s", *(const bool *)at ? "true" : "false"); break;
    case MR_OPT_ENUM:
      replay_choice_text(o->choices, *(const int *)(const void *)at, text, n);
      break;
    case MR_OPT_RANGE: len = mr_snprintf(text, n, "%.17g:%.17g", d[0], d[1]); break;
    case MR_OPT_VEC3: len = mr_snprintf(text, n, "%.17g,%.17g,%.17g", d[0], d[1], d[2]); break;
    case MR_OPT_VEC:
      *text = 0;
      for (int i = 0; i < v->n; i++)
        len += mr_snprintf(text + len, n - (size_t)len, "%s%.17g", i ? "," : "", v->v[i]);
      break;
    case MR_OPT_STR:
      s = *(const char *const *)(const void *)at;
      len = snprintf(text, n, "%s", s ? s : "");
      break;
    default: return false;
  }
  return len >= 0 && (size_t)len < n && !strchr(text, '\n');
}

/* NAME=VALUE lines of all settings that a step follows from; those that fit= has chosen as chosen.
 */
static mr_err_t settings_text(const mr_stage_t *s, char *text, mr_diag_t *diag) {
  const train_t *v = s->state;
  size_t at = 0;
  for (const mr_opt_t *o = s->def->opts; o->type != MR_OPT_END; o++) {
    char value[MR_TRAIN_RULES + 1]; /* amp-rule is the longest */
    if (replay_leaves_out(o->name)) continue;
    bool good = setting_text(o, s->state, value, sizeof value);
    if (o->type == MR_OPT_STR && !*value) continue;
    if (!strcmp(o->name, "accumulate"))
      snprintf(value, sizeof value, "%" PRId64, v->used.accumulate);
    if (!strcmp(o->name, "remat"))
      snprintf(value, sizeof value, "%s", mr_nn_remat_name(v->used.compute.remat));
    if (good) at += (size_t)snprintf(text + at, SETTINGS - at, "%s=%s\n", o->name, value);
    if (!good || at >= SETTINGS)
      return mr_fail(diag, MR_ERR_CONFIG, "setting %s cannot be kept in a replay file", o->name);
  }
  return MR_OK;
}

/* ---- writing ---- */

typedef struct writer {
  mr_st_tensor_t *tensor;
  char (*name)[NAME];
  int n;
  mr_st_meta_t meta[META];
  char number[META][MR_REPLAY_TEXT];
  int n_meta;
} writer_t;

static void write_text(writer_t *w, const char *word, const char *value) {
  w->meta[w->n_meta++] = (mr_st_meta_t){word, value};
}

static void write_word(writer_t *w, const char *word, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static void write_word(writer_t *w, const char *word, const char *format, ...) {
  char *to = w->number[w->n_meta];
  va_list ap;
  va_start(ap, format);
  mr_vsnprintf(to, MR_REPLAY_TEXT, format, ap);
  va_end(ap);
  write_text(w, word, to);
}

static void write_bits(writer_t *w, const char *word, float v) {
  uint32_t bits;
  memcpy(&bits, &v, sizeof bits);
  write_word(w, word, "%08" PRIx32, bits);
}

static mr_st_tensor_t *write_tensor(writer_t *w, const char *group, const char *name,
                                    mr_dtype_t dtype, const void *data) {
  snprintf(w->name[w->n], NAME, "%s%s%s", group, *name ? "/" : "", name);
  w->tensor[w->n] = (mr_st_tensor_t){.name = w->name[w->n], .dtype = dtype, .data = data};
  return &w->tensor[w->n++];
}

static void write_rows(mr_st_tensor_t *t, int64_t rows, const mr_aval_t *record) {
  t->ndim = 1 + record->ndim, t->dim[0] = rows;
  for (int d = 0; d < record->ndim; d++) t->dim[1 + d] = record->dim[d];
}

/* Names of fields are bounded (spec.h), so that eight lines fit. */
static void write_batch(writer_t *w, const mr__traced_step_t *t, char fields[FIELDS]) {
  const mr_aval_t one = mr_aval_scalar(MR_F32);
  size_t at = 0;
  *fields = 0;
  for (int i = 0; i < t->loss->n_fields; i++) {
    const mr_model_field_t *f = &t->loss->field[i];
    write_rows(write_tensor(w, "field", f->name, f->aval.dtype, t->field[i]), t->config.batch,
               &f->aval);
    at += (size_t)snprintf(fields + at, FIELDS - at, "%s %" PRId64 " %s\n", f->name, f->classes,
                           f->layout);
  }
  if (t->loss->masked)
    write_rows(write_tensor(w, "counts", "", MR_F32, t->field[t->loss->n_fields]), t->config.batch,
               &one);
  write_rows(write_tensor(w, "records", "", MR_U64, t->record), t->n_records, &one);
}

static void write_sets(writer_t *w, const mr_params_t *params) {
  for (int k = 0; k < N_SETS; k++) {
    const mr_param_set_t *set = mr_params_set(params, replay_set[k].kind, replay_set[k].number);
    for (int i = 0; set && i < params->n; i++) {
      const mr_aval_t *a = &params->param[i].aval;
      mr_st_tensor_t *t = write_tensor(w, replay_set[k].name, params->param[i].name, set->dtype,
                                       mr_params_at(params, set, i));
      t->ndim = a->ndim;
      memcpy(t->dim, a->dim, sizeof t->dim);
    }
  }
}

static int threads_of(const train_t *v) {
  if (v->team.threads) return (int)v->team.threads;
  return mr_exec_backend(mr_train_step_exec(v->step))->threads();
}

static mr_err_t replay_path(const char *folder, int64_t step, int k, char path[MR_PATH_MAX],
                            mr_diag_t *diag) {
  char number[16] = "";
  if (k > 1) snprintf(number, sizeof number, "-%d", k);
  int n = snprintf(path, MR_PATH_MAX, "%s%snan-%06" PRId64 "%s.safetensors", folder,
                   *folder ? "/" : "", step, number);
  if (n < MR_PATH_MAX) return MR_OK;
  return mr_fail(diag, MR_ERR_IO, "%.64s...: the path is too long", folder);
}

/* Gives f the first name that is free: a link, unlike a rename, replaces no file of another run. */
static mr_err_t replay_name(mr_newfile_t *f, const char *folder, int64_t step,
                            char path[MR_PATH_MAX], mr_diag_t *diag) {
  mr_err_t e = MR_OK;
  for (int k = 1; k <= REPLAY_NAMES; k++) {
    if ((e = replay_path(folder, step, k, path, diag)) < 0) break;
    if (link(f->tmp, path) == 0) {
      mr_newfile_drop(f);
      return mr_sync_parent(path, diag);
    }
    if (errno == EEXIST || access(path, F_OK) == 0) continue;
    strcpy(f->path, path); /* a file system without links */
    return mr_newfile_commit(f, diag);
  }
  mr_newfile_drop(f);
  return e < 0 ? e
               : mr_fail(diag, MR_ERR_IO, "%s: this file and %d before it are there", path,
                         REPLAY_NAMES - 1);
}

mr_err_t mr__replay_folder(const char *folder, mr_diag_t *diag) {
  char path[MR_PATH_MAX];
  MR_TRY(replay_path(folder, INT64_MAX, REPLAY_NAMES, path, diag));
  if (*folder) MR_TRY(mr_make_folder(folder, diag));
  return mr_folder_writable(*folder ? folder : ".", diag);
}

static mr_err_t replay_write_all(writer_t *w, const mr_stage_t *s, const char *folder,
                                 const mr__traced_step_t *t, const mr_train_out_t *r,
                                 char path[MR_PATH_MAX], mr_diag_t *diag) {
  const mr_scale_state_t *c = &t->scale;
  const char *skip = getenv("MILLRACE_SKIP_PASSES");
  char settings[SETTINGS], fields[FIELDS];
  MR_TRY(settings_text(s, settings, diag));
  write_batch(w, t, fields);
  write_sets(w, t->params);
  w->n += mr__computes_pack(&t->fp8, &w->tensor[w->n]);
  write_word(w, "millrace.replay", "%d", VERSION);
  write_text(w, "millrace.settings", settings);
  write_text(w, "millrace.fields", fields);
  write_word(w, "millrace.stage", "%s", s->name);
  write_word(w, "millrace.step", "%" PRId64, t->in.step);
  write_word(w, "millrace.seed", "%" PRIu64, t->in.seed);
  write_bits(w, "millrace.lr", t->in.lr);
  write_bits(w, "millrace.loss", r->loss);
  write_bits(w, "millrace.grad_norm", r->grad_norm);
  write_word(w, "millrace.scale", "%.9g %d %d %d %d", (double)c->scale, c->good, c->bad, c->resets,
             c->skipped);
  write_word(w, "millrace.isa", "%s", mr_isa_name(mr_isa()));
  write_word(w, "millrace.threads", "%d", threads_of(s->state));
  write_word(w, "millrace.keys", "%d", (int)mr_key_layout());
  write_word(w, "millrace.precision", "%d", (int)mr_matmul_precision());
  write_word(w, "millrace.skip", "%.200s", skip ? skip : "");
  write_word(w, "millrace.made_with", "%.250s", made_with);
  if (t->config.compute.device && !t->config.compute.device->host)
    write_word(w, "millrace.device", "%s", t->config.compute.device->name);
  mr_newfile_t f;
  MR_TRY(replay_path(folder, t->in.step, 1, path, diag));
  MR_TRY(mr_safetensors_begin(&f, path, w->tensor, w->n, w->meta, w->n_meta, diag));
  return replay_name(&f, folder, t->in.step, path, diag);
}

mr_err_t mr__replay_save(const mr_stage_t *s, const char *folder, const mr__traced_step_t *t,
                         const mr_train_out_t *r, char path[MR_PATH_MAX], mr_diag_t *diag) {
  size_t most = (size_t)(t->loss->n_fields + 2 + N_SETS * t->params->n) + MR__COMPUTES_TENSORS;
  writer_t *w = calloc(1, sizeof *w);
  mr_err_t e = MR_ERR_NOMEM;
  if (w) w->tensor = calloc(most, sizeof *w->tensor), w->name = calloc(most, sizeof *w->name);
  if (w && w->tensor && w->name)
    e = replay_write_all(w, s, folder, t, r, path, diag);
  else
    mr_no_memory(diag, "a replay file of step %" PRId64, t->in.step);
  if (w) free(w->tensor), free(w->name);
  free(w);
  return e;
}

/* ---- reading ---- */

/* What MILLRACE_MATMUL_PRECISION and MILLRACE_THREEFRY_PARTITIONABLE choose. */
typedef struct defaults {
  mr_precision_t precision;
  mr_key_layout_t keys;
} defaults_t;

/* Sets the process's defaults; returns those until now. */
static defaults_t replay_defaults(defaults_t d) {
  defaults_t before = {mr_matmul_precision(), mr_key_layout()};
  mr_matmul_precision_set(d.precision);
  mr_key_layout_set(d.keys);
  return before;
}

struct mr_replay {
  const char *path; /* while it is opened */
  mr_safetensors_t *file;
  mr_stage_t stage; /* a stage that is in no graph: its state holds settings, and the model's */
  char *words, *field_words; /* settings and names of fields point here */
  mr_model_t model;
  mr_params_t params;
  void *field[MR_LOSS_FIELDS + 1]; /* 64-aligned copies; the mask behind the fields */
  uint64_t *record;
  mr__traced_step_t step;
  defaults_t defaults; /* of the run */
  mr_replay_report_t reported;
};

static const char *replay_text(const mr_replay_t *r, const char *word, mr_diag_t *diag) {
  char name[64];
  snprintf(name, sizeof name, "millrace.%s", word);
  const char *text = mr_safetensors_meta(r->file, name);
  if (!text) mr_fail(diag, MR_ERR_DATA, "%s: metadata %s is missing", r->path, name);
  return text;
}

static mr_err_t replay_number(const mr_replay_t *r, const char *word, int base, uint64_t most,
                              uint64_t *out, mr_diag_t *diag) {
  const char *text = replay_text(r, word, diag);
  char *end = NULL;
  if (!text) return MR_ERR_DATA;
  bool digits = (*text >= '0' && *text <= '9') || (base == 16 && *text >= 'a' && *text <= 'f');
  *out = digits ? strtoull(text, &end, base) : 0;
  if (digits && !*end && *out <= most) return MR_OK;
  return mr_fail(diag, MR_ERR_DATA,
                 "%s: metadata millrace.%s is \"%.40s\", want a whole number up to %" PRIu64,
                 r->path, word, text, most);
}

static mr_err_t replay_bits(const mr_replay_t *r, const char *word, float *out, mr_diag_t *diag) {
  uint64_t n;
  MR_TRY(replay_number(r, word, 16, UINT32_MAX, &n, diag));
  uint32_t bits = (uint32_t)n;
  memcpy(out, &bits, sizeof bits);
  return MR_OK;
}

static mr_err_t replay_word(const mr_replay_t *r, const char *word, char *to, size_t n,
                            mr_diag_t *diag) {
  const char *text = replay_text(r, word, diag);
  if (!text) return MR_ERR_DATA;
  if (strlen(text) < n) return strcpy(to, text), MR_OK;
  return mr_fail(diag, MR_ERR_DATA, "%s: metadata millrace.%s has %zu bytes, want less than %zu",
                 r->path, word, strlen(text), n);
}

static mr_err_t read_scale(mr_replay_t *r, mr_diag_t *diag) {
  mr_scale_state_t *c = &r->step.scale;
  const char *text = replay_text(r, "scale", diag);
  if (!text) return MR_ERR_DATA;
  bool good =
      mr_sscanf(text, "%f %d %d %d %d", &c->scale, &c->good, &c->bad, &c->resets, &c->skipped) == 5;
  if (good && c->scale == mr_scale_state_start(c->scale).scale && c->good >= 0 && c->skipped >= 0)
    return MR_OK;
  return mr_fail(diag, MR_ERR_DATA,
                 "%s: metadata millrace.scale is \"%.60s\", want a scale and four counts", r->path,
                 text);
}

static mr_err_t read_reported(mr_replay_t *r, mr_diag_t *diag) {
  mr_replay_report_t *t = &r->reported;
  uint64_t version, step, threads, keys, precision;
  if (!mr_safetensors_meta(r->file, "millrace.replay"))
    return mr_fail(
        diag, MR_ERR_DATA,
        "%s: not a replay file: metadata millrace.replay is missing; on-nan=trace writes "
        "such files",
        r->path);
  MR_TRY(replay_number(r, "replay", 10, INT32_MAX, &version, diag));
  if (version != VERSION)
    return mr_fail(diag, MR_ERR_DATA,
                   "%s: a replay file of version %" PRIu64
                   ", want %d; the millrace that wrote it "
                   "reads it",
                   r->path, version, VERSION);
  MR_TRY(replay_number(r, "step", 10, UINT32_MAX, &step, diag));
  MR_TRY(replay_number(r, "seed", 10, UINT64_MAX, &t->seed, diag));
  MR_TRY(replay_number(r, "threads", 10, MR_THREADS_MAX, &threads, diag));
  MR_TRY(replay_number(r, "keys", 10, 1, &keys, diag));
  MR_TRY(replay_number(r, "precision", 10, MR_PRECISION_HIGHEST, &precision, diag));
  t->step = (int64_t)step, t->threads = (int64_t)threads;
  MR_TRY(replay_bits(r, "lr", &t->lr, diag));
  MR_TRY(replay_bits(r, "loss", &t->loss, diag));
  MR_TRY(replay_bits(r, "grad_norm", &t->grad_norm, diag));
  MR_TRY(replay_word(r, "stage", t->stage, sizeof t->stage, diag));
  MR_TRY(replay_word(r, "isa", t->isa, sizeof t->isa, diag));
  MR_TRY(replay_word(r, "made_with", t->made_with, sizeof t->made_with, diag));
  strcpy(t->device, "cpu");
  if (mr_safetensors_meta(r->file, "millrace.device"))
    MR_TRY(replay_word(r, "device", t->device, sizeof t->device, diag));
  r->defaults = (defaults_t){(mr_precision_t)precision, (mr_key_layout_t)keys};
  return read_scale(r, diag);
}

/* The definition that the line "model=NAME" chooses, which settings then are of. */
static mr_err_t choose_def(mr_replay_t *r, mr_diag_t *diag) {
  char hint[256] = "";
  const char *at = strncmp(r->words, "model=", 6) ? strstr(r->words, "\nmodel=") : r->words;
  if (at) at += *at == '\n';
  size_t n = at ? strcspn(at + 6, "\n") : 0;
  if (at && n < sizeof r->reported.model) memcpy(r->reported.model, at + 6, n);
  if (*r->reported.model)
    r->stage.def = mr_stage_train_step.choose(r->reported.model, hint, sizeof hint);
  if (r->stage.def) return MR_OK;
  return mr_fail(diag, MR_ERR_DATA, "%s: a step of model \"%s\", which is unknown here%s", r->path,
                 r->reported.model, hint);
}

static const mr_opt_t *replay_opt(const mr_stage_def_t *def, const char *name) {
  for (const mr_opt_t *o = def->opts; o->type != MR_OPT_END; o++)
    if (!strcmp(o->name, name)) return o;
  return NULL;
}

static mr_err_t set_line(mr_replay_t *r, char *line, mr_diag_t *diag) {
  char *value = strchr(line, '=');
  if (value) *value++ = 0;
  const mr_opt_t *o = value && !replay_leaves_out(line) ? replay_opt(r->stage.def, line) : NULL;
  if (!o)
    return mr_fail(diag, MR_ERR_DATA,
                   "%s: metadata millrace.settings has \"%.60s\", which is no "
                   "setting of a step",
                   r->path, line);
  return mr_opt_set(o, r->stage.state, r->path, value, diag);
}

static mr_err_t read_settings(mr_replay_t *r, mr_diag_t *diag) {
  const char *text = replay_text(r, "settings", diag);
  char *rest = NULL;
  if (!text) return MR_ERR_DATA;
  if (strlen(text) >= SETTINGS)
    return mr_fail(diag, MR_ERR_DATA, "%s: metadata millrace.settings is too long", r->path);
  if (!(r->words = strdup(text))) return mr_no_memory(diag, "replay file %s", r->path);
  MR_TRY(choose_def(r, diag));
  const mr_stage_def_t *def = r->stage.def;
  r->stage.name = r->path, r->stage.diag = diag;
  if (!(r->stage.state = calloc(1, def->state_sz)))
    return mr_no_memory(diag, "replay file %s", r->path);
  for (const mr_opt_t *o = def->opts; o->type != MR_OPT_END; o++)
    if (o->def) MR_TRY(mr_opt_set(o, r->stage.state, r->path, o->def, diag));
  for (char *l = strtok_r(r->words, "\n", &rest); l; l = strtok_r(NULL, "\n", &rest))
    MR_TRY(set_line(r, l, diag));
  MR_TRY(mr__train_plan_scale(&r->stage));
  return mr_train_amp_plan(&r->stage, &((train_t *)r->stage.state)->amp);
}

static mr_err_t bad_tensor(const mr_replay_t *r, const char *name, mr_diag_t *diag) {
  return mr_fail(diag, MR_ERR_DATA,
                 "%s: tensor %s is missing or not of the shape that the step has", r->path, name);
}

/* A line "NAME CLASSES LAYOUT", and the tensor field/NAME. */
static mr_err_t replay_read_field(mr_replay_t *r, char *line, mr_model_field_t *f,
                                  mr_diag_t *diag) {
  char name[NAME], *rest = NULL, *end = NULL;
  const char *word = strtok_r(line, " ", &rest), *classes = strtok_r(NULL, " ", &rest);
  f->layout = strtok_r(NULL, " ", &rest);
  f->name = word, f->layout = f->layout ? f->layout : "";
  f->classes = classes ? strtoll(classes, &end, 10) : -1;
  snprintf(name, sizeof name, "field/%.200s", word ? word : "");
  const mr_st_tensor_t *t = mr_safetensors_find(r->file, name);
  bool good = word && classes && !*end && f->classes >= 0 && f->classes <= 1 << 20 && t &&
              t->ndim >= 1 && t->dim[0] >= 1 && t->dim[0] <= 1 << 20 &&
              (!r->step.config.batch || r->step.config.batch == t->dim[0]);
  if (!good) return bad_tensor(r, name, diag);
  r->step.config.batch = t->dim[0];
  f->aval = mr_aval(t->dtype, t->ndim - 1, t->dim + 1);
  return MR_OK;
}

static mr_err_t plan_model(mr_replay_t *r, mr_diag_t *diag) {
  mr_model_field_t field[MR_LOSS_FIELDS];
  const char *text = replay_text(r, "fields", diag);
  char *rest = NULL;
  int n = 0;
  mr_diag_t why = {0};
  if (!text) return MR_ERR_DATA;
  char *words = strdup(text);
  if (!words) return mr_no_memory(diag, "replay file %s", r->path);
  mr_err_t e = MR_OK;
  for (char *l = strtok_r(words, "\n", &rest); e >= 0 && l; l = strtok_r(NULL, "\n", &rest))
    e = n < MR_LOSS_FIELDS ? replay_read_field(r, l, &field[n++], diag)
                           : bad_tensor(r, "field", diag);
  r->field_words = words; /* its names are there */
  if (e < 0) return e;
  e = mr_model_plan(&r->model, mr__train_model_of(&r->stage), mr__train_model_state(&r->stage), n,
                    field, &why);
  return e < 0 ? mr_diag_prefix(diag, MR_ERR_DATA, &why, "%s", r->path) : MR_OK;
}

/* A copy of a tensor, aligned as a step takes it; the caller frees it.  NULL, with a sentence in
   diag, if it is not (B, record) or without memory. */
static void *replay_copy_rows(const mr_replay_t *r, const char *name, const mr_aval_t *record,
                              mr_diag_t *diag) {
  const mr_st_tensor_t *t = mr_safetensors_find(r->file, name);
  int64_t B = r->step.config.batch;
  size_t bytes = (size_t)B * mr_aval_bytes(record);
  if (!t || t->dtype != record->dtype || t->ndim != 1 + record->ndim || t->dim[0] != B ||
      memcmp(t->dim + 1, record->dim, (size_t)record->ndim * sizeof *t->dim))
    return bad_tensor(r, name, diag), NULL;
  void *to = aligned_alloc(64, (bytes + 64) / 64 * 64);
  if (!to) return mr_no_memory(diag, "the batch of %s", r->path), NULL;
  return memcpy(to, t->data, bytes);
}

static mr_err_t read_batch(mr_replay_t *r, mr_diag_t *diag) {
  const mr_loss_t *l = &r->model.plan.loss;
  const mr_aval_t one = mr_aval_scalar(MR_F32);
  char name[NAME];
  for (int i = 0; i < l->n_fields; i++) {
    snprintf(name, sizeof name, "field/%.200s", l->field[i].name);
    if (!(r->field[i] = replay_copy_rows(r, name, &l->field[i].aval, diag))) return diag->code;
  }
  if (l->masked && !(r->field[l->n_fields] = replay_copy_rows(r, "counts", &one, diag)))
    return diag->code;
  const mr_st_tensor_t *t = mr_safetensors_find(r->file, "records");
  if (!t || t->dtype != MR_U64 || t->ndim != 1 || t->dim[0] > r->step.config.batch)
    return bad_tensor(r, "records", diag);
  r->reported.n_records = (int)t->dim[0];
  if (!(r->record = calloc((size_t)t->dim[0] + 1, sizeof *r->record)))
    return mr_no_memory(diag, "the batch of %s", r->path);
  memcpy(r->record, t->data, (size_t)t->dim[0] * sizeof *r->record);
  return MR_OK;
}

/* Tensor i of a set; to is without its arena to check the file alone. */
static mr_err_t replay_read_tensor(const mr_replay_t *r, int which, int i, const mr_param_set_t *to,
                                   mr_diag_t *diag) {
  const mr_param_t *p = &r->params.param[i];
  char name[NAME];
  snprintf(name, sizeof name, "%s/%.200s", replay_set[which].name, p->name);
  const mr_st_tensor_t *t = mr_safetensors_find(r->file, name);
  if (!t || t->ndim != p->aval.ndim || (to && t->dtype != to->dtype) ||
      memcmp(t->dim, p->aval.dim, (size_t)t->ndim * sizeof *t->dim))
    return bad_tensor(r, name, diag);
  if (!to) return MR_OK;
  mr_aval_t a = p->aval;
  a.dtype = to->dtype;
  memcpy(mr_params_at(&r->params, to, i), t->data, mr_aval_bytes(&a));
  return MR_OK;
}

static mr_err_t read_params(mr_replay_t *r, mr_diag_t *diag) {
  const mr_loss_t *l = &r->model.plan.loss;
  bool averaged = r->step.config.optim.ema > 0;
  mr_diag_t why = {0};
  mr_train_want_sets(&r->step.config.compute, &r->params);
  mr_err_t e = mr_loss_params_list(l, &r->params, &why);
  if (e < 0) return mr_diag_prefix(diag, e, &why, "%s", r->path);
  for (int k = 0; k < N_SETS - !averaged; k++)
    for (int i = 0; i < r->params.n; i++) MR_TRY(replay_read_tensor(r, k, i, NULL, diag));
  if (averaged) mr_params_want(&r->params, MR_SET_AVERAGE, 0, MR_F32);
  if ((e = mr_params_alloc(&r->params, &why)) < 0)
    return mr_diag_prefix(diag, e, &why, "%s", r->path);
  for (int k = 0; k < N_SETS - !averaged; k++) {
    const mr_param_set_t *to = mr_params_set(&r->params, replay_set[k].kind, replay_set[k].number);
    for (int i = 0; i < r->params.n; i++) MR_TRY(replay_read_tensor(r, k, i, to, diag));
  }
  return MR_OK;
}

/* The state of fp8, if the step has one. */
static mr_err_t read_fp8(mr_replay_t *r, mr_diag_t *diag) {
  int history = r->step.config.compute.fp8.history;
  if (!history) return MR_OK;
  return mr__computes_load_fp8(r->file, r->path, history, &r->step.fp8, diag);
}

static mr_err_t replay_read(mr_replay_t *r, mr_diag_t *diag) {
  MR_TRY(mr_safetensors_open(r->path, &r->file, diag));
  MR_TRY(read_reported(r, diag));
  MR_TRY(read_settings(r, diag));
  MR_TRY(plan_model(r, diag));
  MR_TRY(mr_train_amp_plan(&r->stage, &((train_t *)r->stage.state)->amp));
  int64_t B = r->step.config.batch;
  r->reported.batch = B;
  r->step.config = mr__train_config(r->stage.state, B);
  const mr_train_config_t *c = &r->step.config;
  if (c->accumulate < 1 || B % c->accumulate)
    return mr_fail(diag, MR_ERR_DATA,
                   "%s: accumulate=%" PRId64 " does not divide a batch of %" PRId64, r->path,
                   c->accumulate, B);
  MR_TRY(read_batch(r, diag));
  MR_TRY(read_fp8(r, diag));
  return read_params(r, diag);
}

mr_err_t mr_replay_open(const char *path, mr_replay_t **out, mr_diag_t *diag) {
  mr_replay_t *r = calloc(1, sizeof *r);
  if (!r) return mr_no_memory(diag, "replay file %s", path);
  r->path = path;
  mr_err_t e = replay_read(r, diag);
  mr_safetensors_close(r->file);
  r->file = NULL, r->path = NULL, r->stage.name = r->reported.stage, r->stage.diag = NULL;
  if (e < 0) return mr_replay_close(r), e;
  r->reported.record = r->record;
  r->step.loss = &r->model.plan.loss, r->step.params = &r->params;
  r->step.field = (const void *const *)r->field;
  r->step.in =
      (mr_train_in_t){.step = r->reported.step, .seed = r->reported.seed, .lr = r->reported.lr};
  r->step.record = r->record, r->step.n_records = r->reported.n_records;
  *out = r;
  return MR_OK;
}

void mr_replay_close(mr_replay_t *r) {
  if (!r) return;
  for (int i = 0; i < MR_LOSS_FIELDS + 1; i++) free(r->field[i]);
  free(r->record), free(r->step.fp8.scale);
  mr_params_fini(&r->params);
  free(r->stage.state);
  free(r->words), free(r->field_words);
  free(r);
}

const mr_replay_report_t *mr_replay_report(const mr_replay_t *r) { return &r->reported; }

void mr_replay_set_device(mr_replay_t *r, const mr_backend_t *device) {
  r->step.config.compute.device = device;
}

static mr__traced_step_t replay_traced_step(const mr_replay_t *r, int threads) {
  mr__traced_step_t t = r->step;
  t.config.compute.threads = threads ? threads : (int)r->reported.threads;
  return t;
}

mr_err_t mr_replay_run(mr_replay_t *r, int threads, mr_train_out_t *out, mr_diag_t *diag) {
  mr__traced_step_t t = replay_traced_step(r, threads);
  mr_train_step_t *step = NULL;
  defaults_t before = replay_defaults(r->defaults);
  mr_err_t e = mr__traced_compile(&t, false, &step, diag);
  replay_defaults(before);
  if (e >= 0) e = mr__traced_run(&t, step, out, diag);
  mr_train_step_destroy(step);
  return e;
}

mr_err_t mr_replay_trace(mr_replay_t *r, int threads, FILE *list, mr_traced_t *out,
                         mr_diag_t *diag) {
  mr__traced_step_t t = replay_traced_step(r, threads);
  defaults_t before = replay_defaults(r->defaults);
  mr_err_t e = mr__trace_step(&t, list, out, diag);
  replay_defaults(before);
  return e;
}
