/* decode: encoded bytes (JPEG, PNG, WebP) to pictures, each of its own height and width, with the
   pixels that Pillow's Image.open(..).convert("RGB") gives.

   With mode=fast a JPEG picture is resized from its luma and chroma (jpeg_resized.c).

   run reads the header alone.  Pixels are decoded when the next stage asks for a box of them
   (pipeline/picture.h), so that a crop does not pay for what it cuts off. */
#include <stdio.h>

#include "base/feature.h"
#include "base/file_kind.h"
#include "pipeline/stage_map.h"
#include "stages/decoder.h"

enum { SIDE_MAX = 65535, FAST = 1 };

static const mr_decoder_def_t *const decoders[] = {&mr_decoder_jpeg, &mr_decoder_png,
                                                   &mr_decoder_webp};
enum { DECODERS = sizeof decoders / sizeof *decoders };

typedef struct decode {
  const char *field_name;
  int64_t max_pixels;
  bool orient;
  int mode, field;
} decode_t;

/* What a worker keeps: its scratch. */
typedef struct decode_worker {
  void *decoder[DECODERS]; /* NULL until a picture of the format comes */
  int which;
  mr_head_t head;             /* of the current picture */
  mr_grown_t pixels, upright; /* upright: pixels that were turned */
  mr_stage_t *s;
} decode_worker_t;

static bool decode_fits(const mr_field_t *f) {
  return f->dtype == MR_U8 && f->ragged && f->ndim == 1;
}

static mr_err_t decode_plan(mr_stage_t *s) {
  decode_t *t = s->state;
  t->field = mr_field_choose(s, t->field_name, decode_fits, "encoded bytes, u8[<=N]");
  if (t->field < 0) return (mr_err_t)t->field;
  mr_field_t *out = &s->out_spec[0].field[t->field];
  int64_t side = t->max_pixels < SIDE_MAX ? t->max_pixels : SIDE_MAX;
  s->out_spec[0] = s->in_spec[0];
  out->ragged = false, out->varies = true;
  out->layout = MR_LAYOUT_HWC, out->ndim = 3;
  out->dim[0] = out->dim[1] = side, out->dim[2] = 3;
  s->writes = (uint16_t)(1u << t->field);
  s->scratch_bytes = sizeof(decode_worker_t);
  return MR_OK;
}

static void decode_leave(mr_stage_t *s) {
  decode_worker_t *w = s->scratch;
  for (int i = 0; i < DECODERS; i++)
    if (w->decoder[i]) decoders[i]->destroy(w->decoder[i]);
  mr_grown_free(&w->pixels), mr_grown_free(&w->upright);
}

/* ---- pixels ---- */

static mr_err_t decode_part(const mr_picture_t *p, mr_box_t box, mr_part_t *out) {
  decode_worker_t *w = p->maker;
  mr_head_t head = w->head;
  mr_diag_t why = {0};
  mr_box_t from = mr_unturned_box(box, head.h, head.w, head.turned);
  mr_err_t e = decoders[w->which]->read(w->decoder[w->which], from, &w->pixels, out, &why);
  if (e >= 0 && head.turned > 1) {
    e = mr_grow(&w->upright, 3 * (size_t)box.h * (size_t)box.w, &why);
    if (e >= 0) mr_turn(out->data, out->stride, from.h, from.w, head.turned, w->upright.at);
    *out = (mr_part_t){w->upright.at, 3 * (size_t)box.w};
  }
  return mr_stage_relay(w->s, e, &why);
}

/* Instead of decode_part and a resize: mode=fast. */
static mr_err_t decode_resized(const mr_picture_t *p, const mr_scaling_t *how, uint8_t *to) {
  decode_worker_t *w = p->maker;
  mr_diag_t why = {0};
  mr_err_t e = decoders[w->which]->resized(w->decoder[w->which], how, to, &why);
  return mr_stage_relay(w->s, e, &why);
}

/* A record that skip-records= excludes may be unreadable, so it is never decoded. */
static mr_err_t black_part(const mr_picture_t *p, mr_box_t box, mr_part_t *out) {
  static const uint8_t black[3 + MR_PART_SLACK];
  *out = (mr_part_t){black, 3};
  return MR_OK;
}

/* ---- run ---- */

static mr_err_t decode_which(mr_stage_t *s, const uint8_t *bytes, size_t n, int *which) {
  for (*which = 0; *which < DECODERS; ++*which)
    if (decoders[*which]->is(bytes, n)) break;
  char hint[MR_FILE_HINT];
  if (*which == DECODERS)
    return mr_stage_fail(
        s, MR_ERR_DATA, "a file of %zu bytes is neither JPEG, PNG nor WebP%s", n,
        mr_file_kind_hint(bytes, n < MR_FILE_LOOK ? n : MR_FILE_LOOK, hint, sizeof hint));
  const mr_decoder_def_t *d = decoders[*which];
  char what[64];
  snprintf(what, sizeof what, "%s: a %s file", s->name, d->name);
  return mr_built_in(d->needs) ? MR_OK : mr_without(s->diag, what, d->needs);
}

static mr_err_t decode_begin(mr_stage_t *s, const uint8_t *bytes, size_t n) {
  const decode_t *t = s->state;
  decode_worker_t *w = s->scratch;
  mr_diag_t why = {0};
  MR_TRY(decode_which(s, bytes, n, &w->which));
  const mr_decoder_def_t *d = decoders[w->which];
  if (!w->decoder[w->which]) w->decoder[w->which] = d->create();
  if (!w->decoder[w->which]) return mr_stage_no_memory(s, "a decoder");
  mr_err_t e = d->begin(w->decoder[w->which], bytes, n, t->orient, &w->head, &why);
  if (e < 0) return mr_stage_relay(s, e, &why);
  int64_t pixels = (int64_t)w->head.h * w->head.w;
  if (pixels <= t->max_pixels) return MR_OK;
  return mr_stage_fail(s, MR_ERR_DATA,
                       "%s: a picture of %d x %d is of %lld pixels, want at most max-pixels=%lld",
                       d->name, w->head.w, w->head.h, (long long)pixels, (long long)t->max_pixels);
}

static mr_err_t decode_map(mr_stage_t *s, const mr_rec_t *in, mr_rec_t *out) {
  const decode_t *t = s->state;
  decode_worker_t *w = s->scratch;
  const mr_value_t *from = &in->field[t->field];
  mr_picture_t *p = out->field[t->field].data;
  if (in->skipped) return *p = (mr_picture_t){1, 1, 3, w, black_part, NULL}, MR_OK;
  MR_TRY(decode_begin(s, from->data, (size_t)from->rows));
  w->s = s;
  bool lies = w->head.turned >= 5;
  bool fast = t->mode == FAST && w->head.resizes && w->head.turned == 1;
  *p = (mr_picture_t){lies ? w->head.w : w->head.h, lies ? w->head.h : w->head.w, 3, w, decode_part,
                      fast ? decode_resized : NULL};
  return MR_OK;
}

static const mr_opt_t decode_opts[] = {
    {.name = "max-pixels",
     .type = MR_OPT_INT,
     .offset = offsetof(decode_t, max_pixels),
     .unit = "pixels",
     .def = "89478485",
     .lo = 1,
     .hi = 4294836225.0,
     .help = "Most pixels of a picture; one with more is a bad record and takes no memory."},
    {.name = "mode",
     .type = MR_OPT_ENUM,
     .offset = offsetof(decode_t, mode),
     .def = "exact",
     .choices = "exact|fast",
     .help =
         "exact: Pillow's pixels; fast: a resize behind it reads the colours of JPEG files at "
         "their own resolution, which is faster and changes pixels a little (docs/pictures.md)."},
    {.name = "orient",
     .type = MR_OPT_BOOL,
     .offset = offsetof(decode_t, orient),
     .def = "false",
     .help = "Turns pictures upright by their EXIF orientation, as Pillow's exif_transpose does."},
    {.name = "field",
     .type = MR_OPT_STR,
     .offset = offsetof(decode_t, field_name),
     .help = "Field of the encoded bytes; needed where several fields could be encoded bytes."},
    {0}};

static const mr_hint_t decode_words[] = {
    {"caps capsfilter", NULL,
     "no stage is needed: `millrace graph` prints the shapes, which follow from the stages"},
    {"decodeimage decodejpeg decodepng imread jpegdec pngdec simplergbimagedecoder",
     "folder DIR ! decode", NULL},
    {"videoconvert", NULL,
     "no stage is needed: pictures are RGB, and normalize makes floats of them"},
    {0}};

const mr_stage_def_t mr_stage_decode = {
    .name = "decode",
    .hint = decode_words,
    .help = "Decodes JPEG, PNG and WebP files to RGB pictures, each of its own size.",
    .in = {{"in", MR_FLOW_RECORDS, false}},
    .out = {{"out", MR_FLOW_RECORDS, false}},
    .opts = decode_opts,
    .state_sz = sizeof(decode_t),
    .plan = decode_plan,
    .map = &(const mr_map_def_t){.run = decode_map, .leave = decode_leave},
};
