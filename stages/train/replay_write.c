/* Replay files as the stage that trains writes them.

   The settings of the stage travel as text and are parsed by the same rows as those of a graph, so
   that a file cannot say what a graph could not. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/isa.h"
#include "base/text.h"
#include "pipeline/opt.h"
#include "stages/train/computes.h"
#include "stages/train/replay_private.h"
#include "stages/train/train_step_private.h"

enum { META = 20, REPLAY_NAMES = 999 };

static const char *made_with = "";

void mr_replay_made_with(const char *text) { made_with = text; }

const mr__replay_set_t mr__replay_set[MR__REPLAY_SETS] = {{"params", MR_SET_VALUES, 0},
                                                          {"slot.0", MR_SET_SLOT, 0},
                                                          {"slot.1", MR_SET_SLOT, 1},
                                                          {"average", MR_SET_AVERAGE, 0}};

/* ---- settings as text ---- */

bool mr__replay_leaves_out(const char *name) {
  static const char *const out[] = {"threads",
                                    "pin",
                                    "steps",
                                    "checkpoint-every",
                                    "resume",
                                    "watch-every",
                                    "leak-check",
                                    "device",
                                    "fit",
                                    "replay-dir",
                                    "on-nan",
                                    "max-skipped",
                                    "redo-on-nan",
                                    "pipeline",
                                    "microbatches",
                                    "stages",
                                    "pipeline-schedule",
                                    "partition"};
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

/* NAME=VALUE lines of all settings that a step of one rank follows from: those that fit= has chosen
   as chosen, and ordered= as a mesh or a pipeline sets it. */
static mr_err_t settings_text(const mr_stage_t *s, char *text, mr_diag_t *diag) {
  const train_t *v = s->state;
  size_t at = 0;
  for (const mr_opt_t *o = s->def->opts; o->type != MR_OPT_END; o++) {
    char value[MR_TRAIN_RULES + 1]; /* amp-rule is the longest */
    if (mr__replay_leaves_out(o->name)) continue;
    bool good = setting_text(o, s->state, value, sizeof value);
    if (o->type == MR_OPT_STR && !*value) continue;
    if (!strcmp(o->name, "accumulate"))
      snprintf(value, sizeof value, "%" PRId64, v->used.accumulate);
    if (!strcmp(o->name, "remat"))
      snprintf(value, sizeof value, "%s", mr_nn_remat_name(v->used.compute.remat));
    if (good)
      at += (size_t)snprintf(text + at, MR__REPLAY_SETTINGS - at, "%s=%s\n", o->name, value);
    if (!good || at >= MR__REPLAY_SETTINGS)
      return mr_fail(diag, MR_ERR_CONFIG, "setting %s cannot be kept in a replay file", o->name);
  }
  return MR_OK;
}

/* ---- tensors and text ---- */

typedef struct writer {
  mr_st_tensor_t *tensor;
  char (*name)[MR__REPLAY_NAME];
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
  snprintf(w->name[w->n], MR__REPLAY_NAME, "%s%s%s", group, *name ? "/" : "", name);
  w->tensor[w->n] = (mr_st_tensor_t){.name = w->name[w->n], .dtype = dtype, .data = data};
  return &w->tensor[w->n++];
}

static void write_rows(mr_st_tensor_t *t, int64_t rows, const mr_aval_t *record) {
  t->ndim = 1 + record->ndim, t->dim[0] = rows;
  for (int d = 0; d < record->ndim; d++) t->dim[1 + d] = record->dim[d];
}

/* Names of fields are bounded (spec.h), so that eight lines fit. */
static void write_batch(writer_t *w, const mr__traced_step_t *t, char fields[MR__REPLAY_FIELDS]) {
  const mr_aval_t one = mr_aval_scalar(MR_F32);
  size_t at = 0;
  *fields = 0;
  for (int i = 0; i < t->loss->n_fields; i++) {
    const mr_model_field_t *f = &t->loss->field[i];
    write_rows(write_tensor(w, "field", f->name, f->aval.dtype, t->field[i]), t->config.batch,
               &f->aval);
    at += (size_t)snprintf(fields + at, MR__REPLAY_FIELDS - at, "%s %" PRId64 " %s\n", f->name,
                           f->classes, f->layout);
  }
  if (t->loss->masked)
    write_rows(write_tensor(w, "counts", "", MR_F32, t->field[t->loss->n_fields]), t->config.batch,
               &one);
  write_rows(write_tensor(w, "records", "", MR_U64, t->record), t->n_records, &one);
}

static void write_sets(writer_t *w, const mr_params_t *params) {
  for (int k = 0; k < MR__REPLAY_SETS; k++) {
    const mr_param_set_t *set =
        mr_params_set(params, mr__replay_set[k].kind, mr__replay_set[k].number);
    for (int i = 0; set && i < params->n; i++) {
      const mr_aval_t *a = &params->param[i].aval;
      mr_st_tensor_t *t = write_tensor(w, mr__replay_set[k].name, params->param[i].name, set->dtype,
                                       mr_params_at(params, set, i));
      t->ndim = a->ndim;
      memcpy(t->dim, a->dim, sizeof t->dim);
    }
  }
}

static int threads_of(const train_t *v) {
  if (v->team.threads) return (int)v->team.threads;
  return mr_device_threads(mr_exec_device(mr_train_step_exec(v->step)));
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
  char settings[MR__REPLAY_SETTINGS], fields[MR__REPLAY_FIELDS];
  MR_TRY(settings_text(s, settings, diag));
  write_batch(w, t, fields);
  write_sets(w, t->params);
  w->n += mr__computes_pack(&t->fp8, &w->tensor[w->n]);
  write_word(w, "millrace.replay", "%d", MR__REPLAY_VERSION);
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
  if (t->config.compute.device && !t->config.compute.device->backend->host)
    write_word(w, "millrace.device", "%s", t->config.compute.device->backend->name);
  if (t->config.optim.ema_after > 0)
    write_word(w, "millrace.ema_after", "%.0f", (double)t->config.optim.ema_after);
  mr_newfile_t f;
  MR_TRY(replay_path(folder, t->in.step, 1, path, diag));
  MR_TRY(mr_safetensors_begin(&f, path, w->tensor, w->n, w->meta, w->n_meta, diag));
  return replay_name(&f, folder, t->in.step, path, diag);
}

mr_err_t mr__replay_save(const mr_stage_t *s, const char *folder, const mr__traced_step_t *t,
                         const mr_train_out_t *r, char path[MR_PATH_MAX], mr_diag_t *diag) {
  size_t most =
      (size_t)(t->loss->n_fields + 2 + MR__REPLAY_SETS * t->params->n) + MR__COMPUTES_TENSORS;
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
