/* Choosing a graph: pictures with classes go to a Vision Transformer of 64 patches, x with y or
   classes to a perceptron.  Sizes follow the data; a tenth of the records is held back where no
   others are for validation.  What the data do not say is asked for by the
   name of its setting. */
#include "apps/run/choose_graph.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "apps/cli/cli.h"
#include "apps/run/take_batches.h"
#include "base/text.h"
#include "stages/decoder.h"

enum { LOOKS = 64, LABELS_MOST = 200000, CHOSEN_MAPS = 1024 };

/* ---- looking ---- */

typedef struct look {
  mr_records_seen_t *seen;
  int side[LOOKS], n_sides;
  int64_t top; /* largest label */
} look_t;

static const mr_decoder_def_t *decoder_of(const uint8_t *bytes, size_t n) {
  static const mr_decoder_def_t *const all[] = {&mr_decoder_jpeg, &mr_decoder_png,
                                                &mr_decoder_webp};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    if (all[i]->is(bytes, n)) return all[i];
  return NULL;
}

/* The shorter side of a picture by its header; 0: it has none that can be read. */
static int side_of(const mr_decoder_def_t *d, const uint8_t *bytes, size_t n) {
  mr_head_t head = {0};
  void *decoder = d->create ? d->create() : NULL;
  bool good = decoder && d->begin(decoder, bytes, n, false, &head, NULL) >= 0;
  if (d->destroy) d->destroy(decoder);
  return !good ? 0 : head.h < head.w ? head.h : head.w;
}

static bool is_bytes(const mr_field_t *f) {
  return f->dtype == MR_U8 && f->ragged && f->ndim == 1 && !f->label;
}

static bool is_pixels(const mr_field_t *f) {
  return f->varies || (f->ndim == 3 && !f->ragged && (f->layout != MR_LAYOUT_NONE));
}

/* Takes a field whose bytes are picture files as the image, and notes their sizes. */
static void look_at_bytes(look_t *l, int f, const mr_buf_t *b) {
  const mr_buf_field_t *v = &b->field[f];
  for (int i = 0; i < b->n && l->n_sides < LOOKS; i++) {
    const uint8_t *bytes = (const uint8_t *)v->data + v->offset[i];
    size_t n = (size_t)(v->offset[i + 1] - v->offset[i]);
    const mr_decoder_def_t *d = decoder_of(bytes, n);
    int side = d ? side_of(d, bytes, n) : 0;
    if (!d || (l->seen->image >= 0 && l->seen->image != f)) continue;
    l->seen->image = f, l->seen->encoded = true;
    if (side) l->side[l->n_sides++] = side;
  }
}

static mr_err_t look_at_batch(void *ctx, const mr_spec_t *spec, int64_t step, const mr_buf_t *b,
                              mr_diag_t *diag) {
  look_t *l = ctx;
  for (int f = 0; f < spec->n_fields; f++)
    if (is_bytes(&spec->field[f])) look_at_bytes(l, f, b);
  return MR_OK;
}

/* The names of some classes, as a text. */
static void write_classes(const mr_classes_t *c, char *text, size_t n) {
  size_t at = 0;
  text[0] = 0;
  for (int i = 0; c && i < c->n && at + 64 < n; i++) {
    char name[64];
    mr_printable_cell(c->name[i], sizeof name - 1, name, sizeof name);
    at += (size_t)snprintf(text + at, n - at, "%s%s", i ? ", " : "", name);
    if (i == 9 && c->n > 10) {
      snprintf(text + at, n - at, ", ...");
      return;
    }
  }
}

/* Copies what the source says of its records. */
static bool look_at_source(void *ctx, const mr_graph_t *g) {
  mr_records_seen_t *seen = ((look_t *)ctx)->seen;
  const mr_stage_t *s = mr_graph_stage_at(g, 0);
  seen->spec = s->out_spec[0];
  seen->spec.dataset = NULL;
  seen->label = mr_spec_label(&seen->spec);
  if (seen->label == -2) seen->label = mr_spec_find(&seen->spec, "label");
  if (seen->label >= 0) {
    seen->n_classes = mr_spec_classes(&s->out_spec[0], seen->label);
    write_classes(seen->spec.field[seen->label].classes, seen->classes, sizeof seen->classes);
  }
  for (int f = 0; f < seen->spec.n_fields; f++) {
    seen->spec.field[f].classes = NULL;
    if (seen->image < 0 && is_pixels(&seen->spec.field[f])) seen->image = f;
  }
  return true;
}

static mr_err_t look_at_labels(void *ctx, const mr_spec_t *spec, int64_t step, const mr_buf_t *b,
                               mr_diag_t *diag) {
  look_t *l = ctx;
  for (int i = 0; i < b->n && b->label; i++)
    if (b->label[i] > l->top) l->top = b->label[i];
  return MR_OK;
}

/* Where a source's records are, as it was recognised; "" if the settings say it anew. */
static const char *source_place(const char *recognised, const char *settings) {
  char name[64];
  snprintf(name, sizeof name, " %.*s=", (int)strcspn(recognised, "="), recognised);
  return strstr(settings, name) ? "" : recognised;
}

/* Runs a graph over the training records; more: what follows in its format. */
static mr_err_t run_look(const char *format, const mr_found_t *f, const char *settings,
                         const char *more, const mr_batches_t *want, mr_diag_t *diag) {
  char place[4608], text[MR_FOUND_TEXT + sizeof place + 512];
  snprintf(place, sizeof place, "%s %s", source_place(f->train, settings), settings);
  int n = snprintf(text, sizeof text, mr_let_data_text, f->data);
  snprintf(text + n, sizeof text - (size_t)n, format, mr_kind_texts[f->kind].stage, place, more);
  mr_graph_t *g = mr_graph_create(mr_all_stages());
  if (!g) return mr_no_memory(diag, "a graph");
  mr_err_t e = mr_graph_parse(g, text, NULL, 0, diag);
  if (e >= 0) e = mr_take_batches(g, want, diag);
  mr_graph_destroy(g);
  return e;
}

static int by_side(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }

/* Finds the number of classes from the labels. */
static mr_err_t count_classes(const mr_found_t *f, const char *settings, look_t *l,
                              mr_diag_t *diag) {
  mr_records_seen_t *seen = l->seen;
  const char *label = seen->spec.field[seen->label].name;
  if (seen->spec.n_records > LABELS_MOST)
    return mr_fail(diag, MR_ERR_USAGE,
                   "%.200s: %s does not say how many classes there are, and its %" PRId64
                   " labels are too many to read: want classes=N",
                   f->data, label, seen->spec.n_records);
  mr_batches_t want = {.first = 1, .take = look_at_labels, .ctx = l};
  MR_TRY(run_look(mr_look_labels_text, f, settings, label, &want, diag));
  seen->n_classes = l->top + 1, seen->counted = true;
  return MR_OK;
}

/* Whether a source takes ten classes where no one says how many: here the data say it. */
static bool has_usual_classes(const mr_found_t *f, const char *settings) {
  bool labels = strstr(source_place(f->train, settings), "labels=") || strstr(settings, " labels=");
  return f->kind == MR_KIND_NPY && labels && !strstr(settings, " classes=") &&
         !strstr(settings, " names=");
}

mr_err_t mr_see(const mr_found_t *f, const char *settings, mr_records_seen_t *out,
                mr_diag_t *diag) {
  look_t l = {.seen = out, .top = -1};
  char most[4608];
  bool usual = has_usual_classes(f, settings);
  snprintf(most, sizeof most, "%s%s", settings, usual ? mr_most_classes_text : "");
  *out = (mr_records_seen_t){.image = -1, .label = -1};
  mr_batches_t want = {.first = 1, .take = look_at_batch, .ctx = &l, .ready = look_at_source};
  MR_TRY(run_look(mr_look_text, f, most, "", &want, diag));
  if (usual) out->n_classes = 0;
  qsort(l.side, (size_t)l.n_sides, sizeof *l.side, by_side);
  out->side = l.n_sides ? l.side[l.n_sides / 2] : 0;
  return out->label >= 0 && !out->n_classes ? count_classes(f, most, &l, diag) : MR_OK;
}

/* ---- choosing ---- */

typedef struct chosen {
  const char *path;
  const mr_found_t *found;
  mr_records_seen_t seen;
  char settings[4096];                         /* of every source */
  char train[CHOSEN_MAPS], valid[CHOSEN_MAPS]; /* maps */
  char step[64];                               /* settings of the step */
  bool model;                                  /* the user names it */
} chosen_t;

static void append_map(char *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void append_map(char *text, const char *format, ...) {
  size_t n = strlen(text);
  va_list args;
  va_start(args, format);
  vsnprintf(text + n, CHOSEN_MAPS - n, format, args);
  va_end(args);
}

/* Both lines have this map. */
#define BOTH(c, ...) (append_map((c)->train, __VA_ARGS__), append_map((c)->valid, __VA_ARGS__))

/* Gives a field the name that models take. */
static void call_field(chosen_t *c, int f, const char *name) {
  const char *was = c->seen.spec.field[f].name;
  if (strcmp(was, name) != 0) BOTH(c, mr_rename_text, was, name);
}

/* The smallest side of a patch that divides a picture into at most 10 x 10. */
static int patch_of(int side) {
  for (int p = 1; p < side; p++)
    if (side % p == 0 && side / p <= 10) return p;
  return side;
}

/* Pictures of any size become squares of one, by the size that most have at least. */
static int choose_square(chosen_t *c, int side) {
  int to = side < 48 ? 32 : side < 112 ? 64 : 128;
  append_map(c->train, mr_crop_text, to);
  append_map(c->train, "%s", mr_vary_text);
  append_map(c->valid, mr_resize_text, to * 8 / 7, to);
  return to;
}

static mr_err_t choose_for_pictures(chosen_t *c, mr_diag_t *diag) {
  const mr_field_t *f = &c->seen.spec.field[c->seen.image];
  int axis = f->layout == MR_LAYOUT_CHW ? 1 : 0, h = (int)f->dim[axis], w = (int)f->dim[axis + 1];
  int channels = (int)(axis ? f->dim[0] : f->dim[2]), side = h < w ? h : w;
  bool any = c->seen.encoded || f->varies, rgb = any || channels == 3;
  call_field(c, c->seen.image, "image");
  call_field(c, c->seen.label, "label");
  if (c->seen.encoded) BOTH(c, "%s", mr_decode_text);
  if (any || (rgb && h != w))
    side = choose_square(c, c->seen.encoded ? c->seen.side : f->varies ? 128 : side);
  else if (h != w)
    return mr_fail(diag, MR_ERR_USAGE,
                   "%s: pictures of %d x %d pixels and %d channels: want model=mlp, or a graph of "
                   "your own that resizes them",
                   c->path, h, w, channels);
  else if (rgb && f->dtype == MR_U8)
    append_map(c->train, "%s", mr_vary_text);
  if (f->dtype == MR_U8) BOTH(c, "%s", rgb ? mr_normal_rgb_text : mr_normal_text);
  if (!c->model) snprintf(c->step, sizeof c->step, mr_step_vit_text, patch_of(side));
  return MR_OK;
}

/* The field of numbers that a perceptron takes; -1: none or several. */
static int numbers_of(const mr_spec_t *spec) {
  int x = mr_spec_find(spec, "x"), only = -1, n = 0;
  for (int f = 0; f < spec->n_fields; f++)
    if (spec->field[f].dtype == MR_F32 && spec->field[f].ndim > 0 && !spec->field[f].ragged &&
        strcmp(spec->field[f].name, "y") != 0)
      only = f, n++;
  return x >= 0 ? x : n == 1 ? only : -1;
}

static mr_err_t ask_for_fields(const chosen_t *c, mr_diag_t *diag) {
  char names[512];
  mr_spec_names(&c->seen.spec, names, sizeof names);
  return mr_fail(diag, MR_ERR_USAGE,
                 "%s: its records have the fields %s, which do not say what to learn from what; "
                 "want fields= with a label and an image, or with x and y (`millrace inspect %s` "
                 "shows how), and classes= if the label does not say how many",
                 c->path, names, mr_kind_texts[c->found->kind].stage);
}

/* Numbers have to be f32; a source whose fields say as what they are read can make them that. */
static mr_err_t check_number(const chosen_t *c, int f, mr_diag_t *diag) {
  const mr_field_t *field = &c->seen.spec.field[f];
  if (field->dtype == MR_F32 || c->model) return MR_OK;
  return mr_fail(diag, MR_ERR_USAGE,
                 "%s: its field %s is %s, want f32: where a member is read as another type, it is "
                 "named behind the field, as in fields=size:x:f32 (`millrace inspect %s`)",
                 c->path, field->name, mr_dtype_name(field->dtype),
                 mr_kind_texts[c->found->kind].stage);
}

static mr_err_t choose_maps(chosen_t *c, mr_diag_t *diag) {
  int x = numbers_of(&c->seen.spec), y = mr_spec_find(&c->seen.spec, "y");
  if (c->found->kind == MR_KIND_TOKENS) {
    if (c->model) return MR_OK;
    return mr_fail(
        diag, MR_ERR_USAGE,
        "%s: tokens, which no model of this program learns: want model=NAME of a plug-in "
        "(--plugin FILE.so), which takes the fields tokens and targets",
        c->path);
  }
  if (c->seen.image >= 0 && c->seen.label >= 0) return choose_for_pictures(c, diag);
  if (x < 0 || (y < 0 && c->seen.label < 0)) return c->model ? MR_OK : ask_for_fields(c, diag);
  MR_TRY(check_number(c, x, diag));
  if (y >= 0) MR_TRY(check_number(c, y, diag));
  call_field(c, x, "x");
  if (y < 0) call_field(c, c->seen.label, "label");
  if (!c->model) snprintf(c->step, sizeof c->step, "%s", mr_step_mlp_text);
  return MR_OK;
}

/* Says in a few words what was found. */
static void describe_found(const chosen_t *c, char *text, size_t n) {
  const mr_records_seen_t *s = &c->seen;
  size_t at = (size_t)snprintf(text, n, "%s, %" PRId64 " records for training",
                               mr_kind_texts[c->found->kind].called, s->spec.n_records);
  if (s->encoded && at < n)
    at += (size_t)snprintf(text + at, n - at, ", pictures of %d pixels", s->side);
  if (s->n_classes && at < n) snprintf(text + at, n - at, ", %" PRId64 " classes", s->n_classes);
}

/* Writes the line of a part: valid in each epoch, test at the end. */
static void write_part(FILE *f, const chosen_t *c, const char *part, const char *settings) {
  fprintf(f, mr_chosen_valid_text, mr_kind_texts[c->found->kind].stage, part, settings,
          !strcmp(part, "test"), c->valid, part, part);
}

static void write_chosen(FILE *f, const chosen_t *c) {
  const mr_found_t *found = c->found;
  char what[256], data[MR_FOUND_TEXT + 8], more[MR_FOUND_TEXT + 32] = "", place[4608];
  int64_t n = c->seen.spec.n_records, held = *found->valid ? 0 : n / 10 > 5000 ? 5000 : n / 10;
  if (!held && !*found->valid) held = 1;
  int64_t batch = 128, epochs = n ? 40000 / n : 1;
  while (batch > 1 && batch * 8 > n - held) batch /= 2;
  epochs = epochs < 1 ? 1 : epochs > 20 ? 20 : epochs;
  describe_found(c, what, sizeof what);
  snprintf(data, sizeof data, "\"%s\"", found->data);
  if (*found->valid_data)
    snprintf(more, sizeof more, "let valid_data = \"%s\"\n", found->valid_data);
  fprintf(f, mr_chosen_head_text, c->path, what, data, more, (int)epochs, (int)batch);
  char split[64] = "";
  if (held) snprintf(split, sizeof split, " split=train holdout=%" PRId64, held);
  snprintf(place, sizeof place, "%s%s%s", source_place(found->train, c->settings), c->settings,
           split);
  fprintf(f, mr_chosen_train_text, mr_kind_texts[found->kind].stage, place, c->train, c->step);
  if (held) snprintf(split, sizeof split, " split=valid holdout=%" PRId64, held);
  snprintf(place, sizeof place, "%s%s%s",
           source_place(held ? found->train : found->valid, c->settings), c->settings, split);
  write_part(f, c, "valid", place);
  snprintf(place, sizeof place, "%s%s", found->test, c->settings);
  if (*found->test) write_part(f, c, "test", place);
  fputs(mr_chosen_tail_text, f);
}

mr_err_t mr_source_settings(mr_kind_t kind, const char *const *word, int n, bool *taken, char *text,
                            size_t size, mr_diag_t *diag) {
  const mr_stage_def_t *def = mr_registry_find(mr_all_stages(), mr_kind_texts[kind].stage);
  size_t at = 0;
  text[0] = 0;
  for (int i = 0; i < n; i++) {
    char name[64];
    size_t k = strcspn(word[i], "=");
    snprintf(name, sizeof name, "%.*s", (int)k, word[i]);
    if (!word[i][k] || !mr_stage_def_opt(def, name)) continue;
    if (strpbrk(word[i] + k, "\"$\n"))
      return mr_fail(diag, MR_ERR_USAGE, "%s: want a value without quotes and dollar signs", name);
    taken[i] = true;
    at += (size_t)snprintf(text + at, size - at, " %s=\"%s\"", name, word[i] + k + 1);
    if (at >= size) return mr_fail(diag, MR_ERR_USAGE, "%s: the settings are too long", name);
  }
  return MR_OK;
}

/* Moves the settings of the source from the words to the graph. */
static mr_err_t take_settings(chosen_t *c, const char *const *word, int n, bool *taken,
                              mr_diag_t *diag) {
  for (int i = 0; i < n; i++) c->model |= !strncmp(word[i], "model=", 6);
  return mr_source_settings(c->found->kind, word, n, taken, c->settings, sizeof c->settings, diag);
}

mr_err_t mr_choose_graph(const char *path, const mr_found_t *f, const char *const *word, int n,
                         bool *taken, char **text, mr_diag_t *diag) {
  chosen_t *c = calloc(1, sizeof *c);
  mr_text_out_t out;
  *text = NULL;
  if (!c) return mr_no_memory(diag, "a graph");
  c->path = path, c->found = f;
  mr_err_t e = take_settings(c, word, n, taken, diag);
  if (e >= 0) e = mr_see(f, c->settings, &c->seen, diag);
  if (e >= 0 && c->seen.spec.n_records < 2)
    e = mr_fail(diag, MR_ERR_DATA, "%s: holds %" PRId64 " records, want at least 2", path,
                c->seen.spec.n_records);
  if (e >= 0) e = choose_maps(c, diag);
  if (e >= 0 && c->seen.counted)
    snprintf(c->settings + strlen(c->settings), sizeof c->settings - strlen(c->settings),
             " classes=%" PRId64, c->seen.n_classes);
  FILE *to = e >= 0 ? mr_text_out_open(&out) : NULL;
  if (to) write_chosen(to, c);
  if (e >= 0) *text = mr_text_out_close(&out, to, NULL);
  free(c);
  return e >= 0 && !*text ? mr_no_memory(diag, "a graph") : e;
}
