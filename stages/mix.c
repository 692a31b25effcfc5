/* Mixing the records of a batch.  What a batch draws is a function of the seed, the epoch and the
   keys of its records, so that it does not depend on where a run was resumed: the generator is
   numpy's Philox(key=[seed + tag * 2^32, h]), where h is FNV-1a over the epoch and the keys, a word
   at a time.

   The record before one is the nearest that counts, so that a hole or an excluded record is neither
   mixed nor mixed into others. */
#include "stages/mix.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/dataset.h"
#include "pipeline/stage_map.h"

enum { CLASSES_MAX = 1 << 20 };
static const uint64_t FNV_PRIME = 0x100000001B3;

static bool mix_takes_any(const mr_field_t *f) {
  return !f->ragged && f->ndim == 3 && f->layout != MR_LAYOUT_NONE;
}

static bool mix_takes_floats(const mr_field_t *f) {
  return mix_takes_any(f) && (f->dtype == MR_F32 || f->dtype == MR_BF16);
}

static bool mix_takes_label(const mr_field_t *f) {
  return f->label || (f->dtype == MR_F32 && f->ndim == 1 && !f->ragged && f->n_classes > 0);
}

static mr_err_t mix_plan_classes(mr_stage_t *s) {
  mr_mix_t *t = s->state;
  const mr_spec_t *in = &s->in_spec[0];
  const mr_field_t *f = &in->field[t->label];
  int64_t known = mr_spec_classes(in, t->label);
  t->rows = !f->label;
  if (t->rows) known = f->dim[0];
  if (!known && !t->classes)
    return mr_stage_fail(s, MR_ERR_CONFIG,
                         "field %s does not say how many classes there are; set classes=N",
                         f->name);
  if (known && t->classes && t->classes != known)
    return mr_stage_fail(s, MR_ERR_CONFIG,
                         "setting classes = %" PRId64 ": field %s has %" PRId64 " classes",
                         t->classes, f->name, known);
  t->classes = known ? known : t->classes;
  return MR_OK;
}

mr_err_t mr_mix_plan(mr_stage_t *s, bool floats) {
  mr_mix_t *t = s->state;
  const mr_spec_t *in = &s->in_spec[0];
  if (in->part)
    return mr_stage_fail(
        s, MR_ERR_CONFIG,
        "the input is one host's slices of batches, so the mix would depend on the "
        "number of hosts; put gather before this stage");
  if (!(t->alpha > 0))
    return mr_stage_fail(s, MR_ERR_CONFIG, "setting alpha = %g: want more than 0", t->alpha);
  t->picture = mr_field_choose(
      s, t->field, floats ? mix_takes_floats : mix_takes_any,
      floats ? "pictures of f32 or bf16, which normalize makes" : "pictures in CHW or HWC");
  if (t->picture < 0) return (mr_err_t)t->picture;
  t->label = mr_field_choose(s, t->label_name, mix_takes_label, "a label, or rows of one-hot");
  if (t->label < 0) return (mr_err_t)t->label;
  MR_TRY(mix_plan_classes(s));
  const mr_field_t *f = &in->field[t->picture];
  bool hwc = f->layout == MR_LAYOUT_HWC;
  t->planes = hwc ? 1 : (int)f->dim[0];
  t->H = (int)f->dim[hwc ? 0 : 1], t->W = (int)f->dim[hwc ? 1 : 2];
  t->pixel = mr_dtype_size(f->dtype) * (size_t)(hwc ? f->dim[2] : 1);
  s->out_spec[0] = *in;
  mr_field_t *row = &s->out_spec[0].field[t->label];
  row->dtype = MR_F32, row->label = false, row->ndim = 1, row->dim[0] = t->classes;
  row->n_classes = (int)t->classes;
  return MR_OK;
}

/* Up to 1 by Johnk's method, above by Cheng's BB (1978). */
double mr_beta(mr_philox_t *g, double alpha) {
  double scale = 1 / sqrt(alpha);
  for (;;) {
    double u = mr_philox_random(g), v = mr_philox_random(g);
    if (alpha <= 1) {
      double x = pow(u, 1 / alpha), y = pow(v, 1 / alpha);
      if (!(x + y <= 1 && u + v > 0)) continue;
      if (x > 0 && y > 0) return x / (x + y);
      double log_x = log(u) / alpha, log_y = log(v) / alpha; /* both powers may underflow */
      double most = log_x > log_y ? log_x : log_y;
      return exp(log_x - most - log(exp(log_x - most) + exp(log_y - most)));
    }
    if (!(u > 0 && v > 0)) continue;
    double odds = scale * log(u / (1 - u)), w = alpha * exp(odds);
    double r = (alpha + 1 / scale) * odds - log(4);
    if (r + 2 * alpha * log(2 * alpha / (alpha + w)) >= log(u * u * v)) return w / (alpha + w);
  }
}

static mr_mix_draw_t mix_draw(const mr_mix_t *t, const mr_mix_kind_t *kind, const mr_buf_t *b) {
  mr_philox_t g;
  mr_mix_draw_t d = {.own = 1};
  uint64_t h = (UINT64_C(0xCBF29CE484222325) ^ (uint64_t)b->epoch) * FNV_PRIME;
  for (int i = 0; i < b->n; i++) h = (h ^ b->key[i]) * FNV_PRIME;
  mr_philox_init(&g, (uint64_t)t->seed + ((uint64_t)kind->tag << 32), h);
  if (t->p < 1 && !(mr_philox_random(&g) < t->p)) return d;
  d.own = (float)mr_beta(&g, t->alpha);
  kind->draw(t, d.own, &g, &d);
  return d;
}

/* The record before i that counts, around the batch; i itself if there is no other. */
static int mix_partner(const mr_buf_t *b, int i) {
  int k = i;
  do k = (k ? k : b->n) - 1;
  while (k != i && b->excluded[k]);
  return k;
}

static void mix_copy_field(const mr_field_t *f, const mr_buf_field_t *from, int n,
                           mr_buf_field_t *to) {
  size_t bytes = (size_t)n * mr_field_bytes(f);
  if (f->ragged) {
    memcpy(to->offset, from->offset, ((size_t)n + 1) * sizeof *to->offset);
    bytes = (size_t)from->offset[n] * mr_field_row(f);
  }
  memcpy(to->data, from->data, bytes);
}

/* Adds `share` of the row of record i to out. */
static mr_err_t mix_add_label(mr_stage_t *s, const mr_buf_t *b, int i, float share, float *out) {
  const mr_mix_t *t = s->state;
  size_t C = (size_t)t->classes;
  const float *row = (const float *)b->field[t->label].data + (size_t)i * C;
  if (t->rows) {
    for (size_t c = 0; c < C; c++) out[c] += row[c] * share;
    return MR_OK;
  }
  int32_t label = ((const int32_t *)b->field[t->label].data)[i];
  if (label == MR_LABEL_NONE) return MR_OK;
  if (label < 0 || label >= t->classes)
    return mr_stage_fail(s, MR_ERR_DATA,
                         "record %" PRIu64 " has label %d, want a class in [0,%" PRId64 ")",
                         b->key[i], label, t->classes);
  out[label] += share;
  return MR_OK;
}

static mr_err_t mix_records(mr_stage_t *s, const mr_mix_kind_t *kind, const mr_mix_draw_t *d,
                            const mr_buf_t *b, mr_buf_t *out) {
  const mr_mix_t *t = s->state;
  const mr_field_t *f = &s->in_spec[0].field[t->picture];
  size_t size = mr_field_bytes(f), C = (size_t)t->classes;
  const uint8_t *from = b->field[t->picture].data;
  uint8_t *to = out->field[t->picture].data;
  uint64_t note;
  memcpy(&note, &d->own, sizeof note);
  for (int i = 0; i < b->n; i++) {
    float *row = (float *)out->field[t->label].data + (size_t)i * C;
    int other = b->excluded[i] || d->own == 1 ? i : mix_partner(b, i);
    mr_rec_t rec = {.draw = b->draw[i]};
    memset(row, 0, C * sizeof *row);
    out->key[i] = b->key[i], out->excluded[i] = b->excluded[i];
    if (d->own != 1) mr_draw_note(&rec, note);
    out->draw[i] = rec.draw;
    if (other == i)
      memcpy(to + (size_t)i * size, from + (size_t)i * size, size);
    else
      kind->mix(t, f->dtype, d, from + (size_t)i * size, from + (size_t)other * size,
                to + (size_t)i * size);
    if (b->excluded[i]) continue;
    if (other != i) MR_TRY(mix_add_label(s, b, other, (float)(1 - d->own), row));
    MR_TRY(mix_add_label(s, b, i, other == i ? 1 : (float)d->own, row));
  }
  return MR_OK;
}

mr_err_t mr_mix_step(mr_stage_t *s, const mr_mix_kind_t *kind) {
  const mr_mix_t *t = s->state;
  const mr_spec_t *in = &s->in_spec[0];
  mr_buf_t *b, *out;
  mr_err_t e = mr_fresh(s, 0, &out);
  if (e != MR_OK) return e;
  e = mr_pull(s, 0, &b);
  if (e != MR_OK) return mr_buf_unref(out), e;
  mr_mix_draw_t d = mix_draw(t, kind, b);
  out->epoch = b->epoch, out->position = b->position, out->first = b->first, out->n = b->n;
  out->flags = b->flags;
  if (in->n_words) memcpy(out->word, b->word, (size_t)in->n_words * sizeof *b->word);
  for (int f = 0; f < in->n_fields; f++)
    if (f != t->picture && f != t->label)
      mix_copy_field(&in->field[f], &b->field[f], b->n, &out->field[f]);
  e = mix_records(s, kind, &d, b, out);
  mr_buf_unref(b);
  if (e != MR_OK) return mr_buf_unref(out), e;
  out->size = mr_buf_bytes(&s->out_spec[0], out, out->n);
  return mr_push(s, 0, out);
}

const mr_opt_t mr_mix_opts[] = {
    {.name = "alpha",
     .type = MR_OPT_F64,
     .offset = offsetof(mr_mix_t, alpha),
     .def = "1",
     .lo = 0,
     .hi = 1000,
     .positional = 1,
     .help = "Both parameters of the beta distribution from which a record's own share is drawn."},
    {.name = "p",
     .type = MR_OPT_F64,
     .offset = offsetof(mr_mix_t, p),
     .def = "1",
     .hi = 1,
     .help = "Probability that a batch is mixed; labels always become rows."},
    {.name = "classes",
     .type = MR_OPT_INT,
     .offset = offsetof(mr_mix_t, classes),
     .def = "0",
     .lo = 0,
     .hi = CLASSES_MAX,
     .help = "Number of classes; 0: that of the input."},
    {.name = "seed",
     .type = MR_OPT_INT,
     .offset = offsetof(mr_mix_t, seed),
     .def = "0",
     .lo = 0,
     .hi = 4294967295.,
     .help = "Seed of the draws, which are a function of it, the epoch and the records."},
    {.name = "label",
     .type = MR_OPT_STR,
     .offset = offsetof(mr_mix_t, label_name),
     .help = "Field of the labels; needed where several fields could be labels."},
    {.name = "field",
     .type = MR_OPT_STR,
     .offset = offsetof(mr_mix_t, field),
     .help = "Field of the pictures; needed where several fields could be pictures."},
    {0}};
