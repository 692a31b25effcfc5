/* The state of training as a checkpoint: packs parameters, slots, average and positions of the
   streams for the sink, and reads and checks such files.  Packing copies no tensor; it points at
   the parameters themselves, which stay unchanged until the buffer comes back. */
#include "stages/train/state.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "metrics/judged.h"
#include "stages/train/computes.h"
#include "stages/train/state_private.h"

enum { N_META = 23, TEXT = 192, NAME = MR__STATE_NAME, VERSION = 4, SLOTS_VERSION = 3 };

const char *const mr_train_stream_name[MR_TRAIN_STREAMS] = {"in", "valid"};
/* What every optimizer's slots were called up to version 2. */
static const char *const adams_slot[MR_OPTIM_SLOTS] = {"adam.m", "adam.v"};

enum { STREAMS = MR_TRAIN_STREAMS + MR_TRAIN_MORE };
static void groups_add(mr__state_sets_t *g, const char *name, mr_set_kind_t kind, int number) {
  g->of[g->n++] = (mr__state_set_t){name, kind, number};
}

mr__state_sets_t mr__state_groups(const char *optimizer, bool averaged) {
  const mr_optim_def_t *def = mr_optim_of(optimizer).def;
  mr__state_sets_t g = {0};
  groups_add(&g, "params", MR_SET_VALUES, 0);
  for (int i = 0; def && i < def->n_slots; i++) groups_add(&g, def->slot[i], MR_SET_SLOT, i);
  if (averaged) groups_add(&g, "ema", MR_SET_AVERAGE, 0);
  return g;
}

mr__state_sets_t mr__state_groups_of(const mr_params_t *params, const char *optimizer) {
  mr__state_sets_t all = mr__state_groups(optimizer, true), g = {0};
  for (int i = 0; i < all.n; i++)
    if (all.of[i].kind == MR_SET_VALUES || mr_params_set(params, all.of[i].kind, all.of[i].number))
      g.of[g.n++] = all.of[i];
  return g;
}

int mr__state_version(const mr__state_sets_t *g) {
  for (int i = 0, slots = 0; i < g->n; i++)
    if (g->of[i].kind == MR_SET_SLOT && strcmp(g->of[i].name, adams_slot[g->of[i].number]) == 0)
      if (++slots == MR_OPTIM_SLOTS) return 2;
  return SLOTS_VERSION;
}

static size_t state_align64(size_t n) { return (n + 63) / 64 * 64; }

size_t mr_train_state_bytes(const mr_params_t *params, bool averaged, int ranks) {
  size_t tensors =
      (size_t)(params->n * (MR_PARAM_SETS - !averaged)) + STREAMS + MR__COMPUTES_TENSORS;
  return state_align64(sizeof(mr_state_t)) + state_align64(N_META * sizeof(mr_st_meta_t)) +
         N_META * TEXT + MR_MODEL_TEXT + MR_JUDGED_TEXT +
         state_align64((size_t)ranks * MR_SAFETENSORS_SLICE_NAME) +
         state_align64(tensors * sizeof(mr_st_tensor_t)) + tensors * NAME +
         state_align64(STREAMS * MR_STREAM_AT_NUMBERS * sizeof(int64_t));
}

/* Memory taken piece by piece; mr_train_state_bytes computes the total. */
typedef struct cursor {
  char *at;
} cursor_t;

static void *state_take(cursor_t *c, size_t bytes) {
  void *p = c->at;
  c->at += state_align64(bytes);
  return p;
}

static void scale_text(const mr_scale_state_t *c, char text[TEXT]) {
  mr_snprintf(text, TEXT, "%.9g %d %d %d %d", (double)c->scale, c->good, c->bad, c->resets,
              c->skipped);
}

static void pack_meta(const char *model, const mr_train_progress_t *p,
                      const mr__state_sets_t *groups, mr_state_t *s, char *text, char *model_text,
                      char *judged) {
  const struct {
    const char *name;
    int64_t value;
  } number[] = {{"millrace.step", p->step},
                {"millrace.images", p->images},
                {"millrace.epoch", p->epoch},
                {"millrace.position", p->stream[0].position},
                {"millrace.seed", (int64_t)p->seed},
                {"millrace.unvalidated", p->unvalidated},
                {"millrace.version", p->slices ? VERSION : mr__state_version(groups)}};
  int n = 0;
  for (; n < (int)(sizeof number / sizeof *number); n++, text += TEXT) {
    snprintf(text, TEXT, "%" PRId64, number[n].value);
    s->meta[n] = (mr_st_meta_t){number[n].name, text};
  }
  snprintf(text, TEXT, "%016" PRIx64, p->ledger);
  s->meta[n++] = (mr_st_meta_t){"millrace.ledger", text};
  snprintf(model_text, MR_MODEL_TEXT, "%s", model);
  s->meta[n++] = (mr_st_meta_t){"millrace.model", model_text};
  snprintf(text + 2 * TEXT, TEXT, "%s", p->origin);
  s->meta[n++] = (mr_st_meta_t){"millrace.data", text + 2 * TEXT};
  snprintf(text + 3 * TEXT, TEXT, "%s", p->optimizer);
  s->meta[n++] = (mr_st_meta_t){"millrace.optimizer", text + 3 * TEXT};
  mr_snprintf(text + 4 * TEXT, TEXT, "%.9g", (double)p->ema);
  if (p->ema > 0) s->meta[n++] = (mr_st_meta_t){"millrace.ema", text + 4 * TEXT};
  snprintf(text + 8 * TEXT, TEXT, "%" PRId64, p->ema_after);
  if (p->ema > 0 && p->ema_after)
    s->meta[n++] = (mr_st_meta_t){"millrace.ema_after", text + 8 * TEXT};
  scale_text(&p->scale, text + 5 * TEXT);
  if (p->scale.scale > 0) s->meta[n++] = (mr_st_meta_t){"millrace.loss_scale", text + 5 * TEXT};
  snprintf(text + 6 * TEXT, TEXT, "%s", p->computes);
  if (*p->computes) s->meta[n++] = (mr_st_meta_t){"millrace.computes", text + 6 * TEXT};
  snprintf(text + 7 * TEXT, TEXT, "%016" PRIx64, p->fp8_rules);
  if (p->fp8.n && p->fp8_rules)
    s->meta[n++] = (mr_st_meta_t){"millrace.fp8_rules", text + 7 * TEXT};
  mr_snprintf(text + 9 * TEXT, TEXT, "%.17g %" PRId64 " %" PRId64, p->best.value, p->best.step,
              p->best.misses);
  if (p->best.known && p->best_by) {
    s->meta[n++] = (mr_st_meta_t){"millrace.best", text + 9 * TEXT};
    s->meta[n++] = (mr_st_meta_t){MR_TRAIN_BEST_BY, p->best_by};
  }
  snprintf(judged, MR_JUDGED_TEXT, "%s", p->judged ? p->judged : "");
  if (*judged) s->meta[n++] = (mr_st_meta_t){MR_STATE_JUDGED, judged};
  if (p->inputs) s->meta[n++] = (mr_st_meta_t){"millrace.inputs", p->inputs};
  if (p->no_decay && strcmp(p->no_decay, "none"))
    s->meta[n++] = (mr_st_meta_t){MR_TRAIN_NO_DECAY, p->no_decay};
  s->n_meta = n;
}

static int pack_streams(const mr_train_progress_t *p, mr_st_tensor_t *t, char *name,
                        cursor_t *cur) {
  int64_t *to = state_take(cur, (size_t)STREAMS * MR_STREAM_AT_NUMBERS * sizeof *to);
  int n_streams = 0;
  for (int i = 0; i < STREAMS; i++) {
    const mr_train_more_t *more = i < MR_TRAIN_STREAMS ? NULL : &p->more[i - MR_TRAIN_STREAMS];
    if (more ? !more->name[0] : !p->stream_known[i]) continue;
    int n = mr_stream_at_pack(more ? &more->at : &p->stream[i], to);
    snprintf(name, NAME, "stream/%s", more ? more->name : mr_train_stream_name[i]);
    *t = (mr_st_tensor_t){.name = name, .dtype = MR_I64, .ndim = 1, .dim = {n}, .data = to};
    t++, name += NAME, to += n, n_streams++;
  }
  return n_streams;
}

static void pack_tensors(const mr_params_t *params, const mr_train_progress_t *p,
                         const mr__state_sets_t *groups, mr_state_t *s, cursor_t *cur) {
  size_t most = (size_t)(params->n * groups->n) + STREAMS + MR__COMPUTES_TENSORS;
  s->tensor = state_take(cur, most * sizeof *s->tensor);
  char *name = state_take(cur, most * NAME);
  mr_st_tensor_t *t = s->tensor;
  for (int k = 0; k < groups->n; k++) {
    const mr_param_set_t *set = mr_params_set(params, groups->of[k].kind, groups->of[k].number);
    for (int i = 0; i < params->n; i++) {
      if (p->slices && mr__state_is_sliced(p, set) && (i < p->own[0] || i >= p->own[1])) continue;
      const mr_param_t *q = &params->param[i];
      snprintf(name, NAME, "%s/%s", groups->of[k].name, q->name);
      *t = (mr_st_tensor_t){.name = name,
                            .dtype = set->dtype,
                            .ndim = q->aval.ndim,
                            .data = mr_params_at(params, set, i)};
      memcpy(t->dim, q->aval.dim, sizeof t->dim);
      t++, name += NAME;
    }
  }
  int n = pack_streams(p, t, name, cur);
  s->n_tensors = (int)(t - s->tensor) + n + mr__computes_pack(&p->fp8, t + n);
}

size_t mr_train_state_pack(const mr_params_t *params, const char *model,
                           const mr_train_progress_t *p, const char *of, bool last, void *mem) {
  cursor_t cur = {mem};
  mr_state_t *s = state_take(&cur, sizeof *s);
  *s = (mr_state_t){.step = p->step, .last = last, .of = of};
  for (int i = 0; i < MR_STATE_STREAMS; i++)
    s->taken[i] = i < MR_TRAIN_STREAMS && p->stream_known[i] ? p->stream[i].number : -1;
  s->meta = state_take(&cur, N_META * sizeof *s->meta);
  char *text = state_take(&cur, (size_t)N_META * TEXT);
  mr__state_sets_t groups = mr__state_groups_of(params, p->optimizer);
  char *model_text = state_take(&cur, MR_MODEL_TEXT);
  pack_meta(model, p, &groups, s, text, model_text, state_take(&cur, MR_JUDGED_TEXT));
  if (p->slices) {
    char *index = state_take(&cur, strlen(p->slices) + 1);
    strcpy(index, p->slices);
    s->meta[s->n_meta++] = (mr_st_meta_t){MR_SAFETENSORS_SLICES, index};
  }
  pack_tensors(params, p, &groups, s, &cur);
  return (size_t)(cur.at - (char *)mem);
}

/* Loads tensor i of a set; only checks it if `to` is NULL or has no arena. */
static mr_err_t load_tensor(const mr_safetensors_t *f, const char *path, const char *prefix,
                            const mr_params_t *params, int i, const mr_param_set_t *to,
                            mr_diag_t *diag) {
  const mr_param_t *q = &params->param[i];
  char name[NAME], want[MR_AVAL_TEXT], have[MR_AVAL_TEXT];
  mr_aval_t aval = q->aval;
  if (to) aval.dtype = to->dtype;
  snprintf(name, sizeof name, "%s/%s", prefix, q->name);
  const mr_st_tensor_t *t = mr_safetensors_find(f, name);
  if (!t) return mr_fail(diag, MR_ERR_DATA, "%s: tensor %s is missing", path, name);
  bool same = t->dtype == aval.dtype && t->ndim == aval.ndim &&
              !memcmp(t->dim, aval.dim, (size_t)t->ndim * sizeof *t->dim);
  const mr_aval_t held = mr_aval(t->dtype, t->ndim, t->dim);
  if (!same)
    return mr_fail(
        diag, MR_ERR_DATA,
        "%s: tensor %s is %s, want %s: another model, or another param-dtype=, master= or "
        "slot-dtype=",
        path, name, mr_aval_text(&held, have), mr_aval_text(&aval, want));
  if (to && to->data) memcpy(mr_params_at(params, to, i), t->data, mr_aval_bytes(&aval));
  return MR_OK;
}

mr_err_t mr__state_find_model(const mr_safetensors_t *f, const char *path, const char **text,
                              mr_diag_t *diag) {
  *text = mr_safetensors_meta(f, "millrace.model");
  if (*text) return MR_OK;
  return mr_fail(
      diag, MR_ERR_DATA,
      "%s: not a checkpoint of train-step: metadata millrace.model is missing; weights of "
      "another library, or exported ones, begin a run: train from=%s",
      path, path);
}

/* Reads a whole number of the metadata, in [0,2^62) if decimal. */
static mr_err_t load_number(const mr_safetensors_t *f, const char *path, const char *word, int base,
                            uint64_t *out, mr_diag_t *diag) {
  char name[64], *end = NULL;
  snprintf(name, sizeof name, "millrace.%s", word);
  const char *text = mr_safetensors_meta(f, name), *model;
  if (!text) MR_TRY(mr__state_find_model(f, path, &model, diag));
  *out = text ? strtoull(text, &end, base) : 0;
  if (!text || end == text || *end || text[0] == '-' || (base == 10 && *out >> 62))
    return mr_fail(diag, MR_ERR_DATA, "%s: metadata %s is %s, want a whole number", path, name,
                   text ? text : "missing");
  return MR_OK;
}

static mr_err_t state_check_version(const mr_safetensors_t *f, const char *path, mr_diag_t *diag) {
  uint64_t version = 1;
  if (!mr_safetensors_meta(f, "millrace.version")) return MR_OK;
  MR_TRY(load_number(f, path, "version", 10, &version, diag));
  if (version >= 1 && version <= VERSION) return MR_OK;
  return mr_fail(diag, MR_ERR_DATA,
                 "%s: a checkpoint of version %" PRIu64
                 ", want at most %d; a newer millrace reads it",
                 path, version, VERSION);
}

/* Reads the state of a stream from a tensor; false if the tensor holds no such state. */
static bool unpack_stream(const mr_st_tensor_t *t, mr_stream_at_t *at) {
  int64_t number[MR_STREAM_AT_NUMBERS];
  if (t->dtype != MR_I64 || t->ndim != 1 || t->dim[0] > MR_STREAM_AT_NUMBERS) return false;
  memcpy(number, t->data, (size_t)t->dim[0] * sizeof *number);
  return mr_stream_at_unpack(at, number, t->dim[0]);
}

static mr_err_t load_more_streams(const mr_safetensors_t *f, const char *path,
                                  mr_train_progress_t *p, mr_diag_t *diag) {
  static const char prefix[] = "stream/valid.";
  int n = 0;
  for (int i = 0; i < mr_safetensors_count(f) && n < MR_TRAIN_MORE; i++) {
    const mr_st_tensor_t *t = mr_safetensors_at(f, i);
    const char *name = t->name + strlen("stream/");
    if (strncmp(t->name, prefix, sizeof prefix - 1) || strlen(name) > MR_IN_NAME_MAX) continue;
    if (!unpack_stream(t, &p->more[n].at))
      return mr_fail(diag, MR_ERR_DATA, "%s: tensor %s is not the state of a stream", path,
                     t->name);
    snprintf(p->more[n].name, sizeof p->more[n].name, "%s", name);
    n++;
  }
  return MR_OK;
}

/* In a file of version 1, only the training stream's position is known. */
static mr_err_t load_streams(const mr_safetensors_t *f, const char *path, int64_t position,
                             mr_train_progress_t *p, mr_diag_t *diag) {
  p->stream[0] = (mr_stream_at_t){.position = position, .number = p->step};
  p->stream_known[0] = true;
  for (int i = 0; i < MR_TRAIN_STREAMS; i++) {
    char name[NAME];
    snprintf(name, sizeof name, "stream/%s", mr_train_stream_name[i]);
    const mr_st_tensor_t *t = mr_safetensors_find(f, name);
    if (!t) continue;
    if (!unpack_stream(t, &p->stream[i]))
      return mr_fail(diag, MR_ERR_DATA, "%s: tensor %s is not the state of a stream", path, name);
    p->stream_known[i] = true;
  }
  return load_more_streams(f, path, p, diag);
}

/* Decay and beginning of the average, if the file has one. */
static mr_err_t load_average(const mr_safetensors_t *f, const char *path, mr_train_progress_t *p,
                             mr_diag_t *diag) {
  const char *decay = mr_safetensors_meta(f, "millrace.ema");
  uint64_t after = 0;
  if (!decay) return MR_OK;
  if (mr_sscanf(decay, "%f", &p->ema) != 1 || !(p->ema > 0 && p->ema < 1))
    return mr_fail(diag, MR_ERR_DATA,
                   "%s: metadata millrace.ema is \"%.100s\", want a decay in (0,1)", path, decay);
  if (mr_safetensors_meta(f, "millrace.ema_after"))
    MR_TRY(load_number(f, path, "ema_after", 10, &after, diag));
  p->ema_after = (int64_t)after;
  return MR_OK;
}

/* Refuses a text that scale_text would not have written. */
static mr_err_t load_scale(const mr_safetensors_t *f, const char *path, mr_scale_state_t *c,
                           mr_diag_t *diag) {
  const char *text = mr_safetensors_meta(f, "millrace.loss_scale");
  char again[TEXT];
  if (!text) return MR_OK;
  bool good =
      mr_sscanf(text, "%f %d %d %d %d", &c->scale, &c->good, &c->bad, &c->resets, &c->skipped) == 5;
  scale_text(c, again);
  good = good && !strcmp(text, again) && c->scale == mr_scale_state_start(c->scale).scale;
  if (good && c->good >= 0 && c->bad >= 0 && c->resets >= 0 && c->skipped >= 0) return MR_OK;
  return mr_fail(diag, MR_ERR_DATA,
                 "%s: metadata millrace.loss_scale is \"%.100s\", want a scale and four counts",
                 path, text);
}

/* The best evaluation, if the file has one. */
static mr_err_t load_best(const mr_safetensors_t *f, const char *path, mr_train_best_t *b,
                          mr_diag_t *diag) {
  const char *text = mr_safetensors_meta(f, "millrace.best");
  int used = 0;
  if (!text) return MR_OK;
  b->known = mr_sscanf(text, "%lf %" SCNd64 " %" SCNd64 "%n", &b->value, &b->step, &b->misses,
                       &used) == 3 &&
             !text[used] && isfinite(b->value) && b->step >= 0 && b->misses >= 0;
  if (b->known) return MR_OK;
  return mr_fail(diag, MR_ERR_DATA,
                 "%s: metadata millrace.best is \"%.100s\", want a value and two counts", path,
                 text);
}

static const char *optimizer_of(const mr_safetensors_t *f) {
  const char *name = mr_safetensors_meta(f, "millrace.optimizer");
  return name ? name : "adamw";
}

static mr_err_t load_progress(const mr_safetensors_t *f, const char *path, mr_train_progress_t *p,
                              mr_diag_t *diag) {
  const char *word[] = {"step", "images", "position", "epoch", "seed", "unvalidated"};
  uint64_t n[6];
  MR_TRY(state_check_version(f, path, diag));
  for (int i = 0; i < 6; i++) MR_TRY(load_number(f, path, word[i], 10, &n[i], diag));
  *p = (mr_train_progress_t){.step = (int64_t)n[0],
                             .images = (int64_t)n[1],
                             .epoch = (int64_t)n[3],
                             .seed = n[4],
                             .unvalidated = n[5] != 0};
  MR_TRY(load_streams(f, path, (int64_t)n[2], p, diag));
  MR_TRY(load_number(f, path, "ledger", 16, &p->ledger, diag));
  MR_TRY(load_scale(f, path, &p->scale, diag));
  MR_TRY(load_average(f, path, p, diag));
  MR_TRY(load_best(f, path, &p->best, diag));
  const char *origin = mr_safetensors_meta(f, "millrace.data");
  snprintf(p->origin, sizeof p->origin, "%s", origin ? origin : "");
  snprintf(p->optimizer, sizeof p->optimizer, "%s", optimizer_of(f));
  const char *computes = mr_safetensors_meta(f, "millrace.computes");
  snprintf(p->computes, sizeof p->computes, "%s", computes ? computes : "");
  const char *rules = mr_safetensors_meta(f, "millrace.fp8_rules");
  p->fp8_rules = rules ? strtoull(rules, NULL, 16) : 0;
  return MR_OK;
}

mr_err_t mr_train_state_progress(const char *path, mr_train_progress_t *p, mr_diag_t *diag) {
  mr_safetensors_t *f = NULL;
  MR_TRY(mr_safetensors_open(path, &f, diag));
  mr_err_t e = load_progress(f, path, p, diag);
  mr_safetensors_close(f);
  return e;
}

mr_err_t mr_train_state_text(const char *path, const char *name, char *text, size_t n,
                             mr_diag_t *diag) {
  mr_safetensors_t *f = NULL;
  MR_TRY(mr_safetensors_open(path, &f, diag));
  const char *there = mr_safetensors_meta(f, name);
  bool fits = there && strlen(there) < n;
  if (fits) strcpy(text, there);
  if (!fits) *text = 0;
  mr_safetensors_close(f);
  return MR_OK;
}

mr_err_t mr_train_state_model(const char *path, char *text, mr_diag_t *diag) {
  mr_safetensors_t *f = NULL;
  const char *model;
  MR_TRY(mr_safetensors_open(path, &f, diag));
  mr_err_t e = mr__state_find_model(f, path, &model, diag);
  if (e >= 0 && strlen(model) >= MR_MODEL_TEXT)
    e = mr_fail(diag, MR_ERR_DATA, "%s: metadata millrace.model has %zu bytes, want at most %d",
                path, strlen(model), MR_MODEL_TEXT - 1);
  if (e >= 0) strcpy(text, model);
  mr_safetensors_close(f);
  return e;
}

static mr_err_t check_model(const mr_safetensors_t *f, const char *path, const char *want,
                            mr_diag_t *diag) {
  const char *model;
  MR_TRY(mr__state_find_model(f, path, &model, diag));
  if (strcmp(model, want))
    return mr_fail(diag, MR_ERR_DATA,
                   "%s: a checkpoint of another model: it holds \"%s\", the graph says \"%s\"",
                   path, model, want);
  return MR_OK;
}

static bool has_average(const mr_safetensors_t *f) {
  return mr_safetensors_meta(f, "millrace.ema") != NULL;
}

mr_err_t mr_train_state_averaged(const char *path, bool *out, mr_diag_t *diag) {
  mr_safetensors_t *f = NULL;
  MR_TRY(mr_safetensors_open(path, &f, diag));
  *out = has_average(f);
  mr_safetensors_close(f);
  return MR_OK;
}

/* Whether a tensor belongs to a group. */
static bool state_is_of(const char *name, const char *group) {
  size_t n = strlen(group);
  return !strncmp(name, group, n) && name[n] == '/';
}

/* What a file calls a group: up to version 2, slots had the names of Adam's. */
static const char *file_calls(const mr_safetensors_t *f, const mr__state_set_t *g) {
  if (g->kind != MR_SET_SLOT) return g->name;
  for (int i = 0; i < mr_safetensors_count(f); i++)
    if (state_is_of(mr_safetensors_at(f, i)->name, g->name)) return g->name;
  return adams_slot[g->number];
}

mr_err_t mr_train_state_kept(const char *path, mr_compute_t *c, mr_diag_t *diag) {
  mr_safetensors_t *f = NULL;
  MR_TRY(mr_safetensors_open(path, &f, diag));
  mr__state_sets_t groups = mr__state_groups(optimizer_of(f), false);
  for (int k = 0; k < groups.n; k++) groups.of[k].name = file_calls(f, &groups.of[k]);
  for (int i = 0; i < mr_safetensors_count(f); i++) {
    const mr_st_tensor_t *t = mr_safetensors_at(f, i);
    if (t->dtype != MR_BF16 && t->dtype != MR_F16) continue;
    if (state_is_of(t->name, "params")) c->values = t->dtype;
    for (int k = 0; k < groups.n; k++)
      if (groups.of[k].kind == MR_SET_SLOT && state_is_of(t->name, groups.of[k].name))
        c->slots = t->dtype;
  }
  mr_safetensors_close(f);
  return MR_OK;
}

/* A new average begins as the parameters. */
static mr_err_t load_tensors(const mr_safetensors_t *f, const char *path, const mr_params_t *params,
                             mr_diag_t *diag) {
  mr__state_sets_t groups = mr__state_groups_of(params, optimizer_of(f));
  for (int k = 0; k < groups.n; k++) {
    const mr__state_set_t *g = &groups.of[k];
    const char *from = g->kind == MR_SET_AVERAGE && !has_average(f) ? "params" : file_calls(f, g);
    const mr_param_set_t *to = mr_params_set(params, g->kind, g->number);
    for (int i = 0; i < params->n; i++) MR_TRY(load_tensor(f, path, from, params, i, to, diag));
  }
  return MR_OK;
}

mr_err_t mr_train_state_check(const char *path, const char *model, const mr_params_t *params,
                              mr_diag_t *diag) {
  mr_safetensors_t *f = NULL;
  MR_TRY(mr_safetensors_open(path, &f, diag));
  mr_err_t e = check_model(f, path, model, diag);
  if (e >= 0) e = load_tensors(f, path, params, diag);
  mr_safetensors_close(f);
  return e;
}

mr_err_t mr_train_state_load(const char *path, const char *model, mr_params_t *params,
                             mr_train_progress_t *p, mr_diag_t *diag) {
  mr_safetensors_t *f = NULL;
  MR_TRY(mr_safetensors_open(path, &f, diag));
  mr_err_t e = check_model(f, path, model, diag);
  if (e >= 0) e = load_tensors(f, path, params, diag);
  if (e >= 0) e = load_progress(f, path, p, diag);
  mr_safetensors_close(f);
  return e;
}
