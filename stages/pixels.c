/* What picture stages share: finding the field with the pictures in a spec, reading its size,
   channels and layout, and converting between interleaved pixels and planes.  A stage that needs
   pictures of one size refuses varying ones here, with the stages that would help. */
#include "stages/pixels.h"

#include <stdio.h>
#include <string.h>

enum { SIZE_MAX_SIDE = 16384 };

static bool is_grey(const mr_field_t *f) { return f->ndim == 2; }

static bool could_vary(const mr_field_t *f) {
  return f->dtype == MR_U8 && !f->ragged &&
         (is_grey(f) || (f->ndim == 3 && f->layout != MR_LAYOUT_NONE));
}

static bool could_be(const mr_field_t *f) { return could_vary(f) && !f->varies; }

/* For a stage that takes pictures of one size: MR_ERR_SHAPE if the field's differ. */
static mr_err_t refuse_varying(mr_stage_t *s, const char *field) {
  const mr_spec_t *in = &s->in_spec[0];
  for (int f = 0; f < in->n_fields; f++)
    if (in->field[f].varies && (!field || !strcmp(field, in->field[f].name)))
      return mr_stage_fail(
          s, MR_ERR_SHAPE,
          "takes pictures of one size, and those of field %s differ; put "
          "resized-crop SIZE, center-crop SIZE, pad-crop SIZE or resize HxW before it",
          in->field[f].name);
  return MR_OK;
}

mr_err_t mr_pixels_plan_field(mr_stage_t *s, int at, int channels_max, int side_max,
                              mr_pixels_t *out) {
  const mr_field_t *in = &s->in_spec[0].field[at];
  bool grey = is_grey(in), hwc = in->layout == MR_LAYOUT_HWC;
  int64_t C = grey ? 1 : in->dim[hwc ? 2 : 0];
  int h_at = grey || hwc ? 0 : 1;
  bool large = !in->varies && (in->dim[h_at] > side_max || in->dim[h_at + 1] > side_max);
  if (C > channels_max)
    return mr_stage_fail(s, MR_ERR_SHAPE, "field %s: pictures of %lld channels, want at most %d",
                         in->name, (long long)C, channels_max);
  if (large)
    return mr_stage_fail(s, MR_ERR_SHAPE, "field %s: pictures of %lld x %lld, want sides up to %d",
                         in->name, (long long)in->dim[h_at], (long long)in->dim[h_at + 1],
                         side_max);
  *out = (mr_pixels_t){.field = at,
                       .C = (int)C,
                       .H = in->varies ? 0 : (int)in->dim[h_at],
                       .W = in->varies ? 0 : (int)in->dim[h_at + 1],
                       .hwc = hwc && C > 1,
                       .h_at = h_at,
                       .varies = in->varies};
  s->writes = (uint16_t)(1u << at);
  return MR_OK;
}

static const char wanted[] = "u8 pictures in CHW or HWC, or without channels (H,W)";

mr_err_t mr_pixels_plan(mr_stage_t *s, const char *field, int channels_max, int side_max,
                        mr_pixels_t *out) {
  MR_TRY(refuse_varying(s, field));
  int at = mr_field_choose(s, field, could_be, wanted);
  return at < 0 ? (mr_err_t)at : mr_pixels_plan_field(s, at, channels_max, side_max, out);
}

mr_err_t mr_pixels_plan_any(mr_stage_t *s, const char *field, int channels_max, int side_max,
                            mr_pixels_t *out) {
  int at = mr_field_choose(s, field, could_vary, wanted);
  return at < 0 ? (mr_err_t)at : mr_pixels_plan_field(s, at, channels_max, side_max, out);
}

void mr_pixels_size(const mr_pixels_t *px, const mr_value_t *v, int *h, int *w) {
  const mr_picture_t *p = v->data;
  *h = px->varies ? p->h : px->H, *w = px->varies ? p->w : px->W;
}

mr_err_t mr_pixels_part(mr_stage_t *s, const mr_pixels_t *px, const mr_value_t *v, int plane,
                        mr_box_t b, mr_grown_t *copy, mr_part_t *out) {
  if (px->varies) return mr_picture_part(v->data, b, out);
  size_t each = (size_t)mr_pixels_each(px), row = each * (size_t)px->W, bytes = each * (size_t)b.w;
  const uint8_t *from = (const uint8_t *)v->data + (size_t)(plane * px->H + b.i) * row;
  MR_TRY(mr_grow(copy, bytes * (size_t)b.h, s->diag));
  for (int y = 0; y < b.h; y++)
    memcpy(copy->at + (size_t)y * bytes, from + (size_t)y * row + (size_t)b.j * each, bytes);
  *out = (mr_part_t){copy->at, bytes};
  return MR_OK;
}

mr_err_t mr_pixels_sides(mr_stage_t *s, const char *text, int *h, int *w) {
  int end = 0, fields = text ? sscanf(text, "%6d%nx%6d%n", h, &end, w, &end) : 0;
  if (fields == 1) *w = 0;
  bool good = fields >= 1 && !text[end] && strspn(text, "0123456789x") == strlen(text) && *h >= 1 &&
              *h <= SIZE_MAX_SIDE && (fields == 1 || (*w >= 1 && *w <= SIZE_MAX_SIDE));
  if (good) return MR_OK;
  return mr_stage_fail(s, MR_ERR_CONFIG,
                       "setting size = %s: want N or HxW, such as 224 or 224x320, sides in [1,%d]",
                       text ? text : "", SIZE_MAX_SIDE);
}

/* C is a constant where these are inlined. */
static inline __attribute__((always_inline)) void pixels_split(const uint8_t *src, int stride,
                                                               int H, int W, int C, uint8_t *dst) {
  for (int y = 0; y < H; y++, src += stride)
    for (int c = 0; c < C; c++)
      for (int x = 0; x < W; x++) dst[(c * H + y) * W + x] = src[x * C + c];
}

static inline __attribute__((always_inline)) void pixels_join(const uint8_t *src, int n, int C,
                                                              uint8_t *dst) {
  for (int k = 0; k < n; k++)
    for (int c = 0; c < C; c++) dst[k * C + c] = src[c * n + k];
}

void mr_pixels_split(const uint8_t *src, int stride, int H, int W, int C, uint8_t *dst) {
  switch (C) {
    case 1: pixels_split(src, stride, H, W, 1, dst); break;
    case 3: pixels_split(src, stride, H, W, 3, dst); break;
    case 4: pixels_split(src, stride, H, W, 4, dst); break;
    default: pixels_split(src, stride, H, W, C, dst);
  }
}

void mr_pixels_join(const uint8_t *src, int H, int W, int C, uint8_t *dst) {
  switch (C) {
    case 1: pixels_join(src, H * W, 1, dst); break;
    case 3: pixels_join(src, H * W, 3, dst); break;
    case 4: pixels_join(src, H * W, 4, dst); break;
    default: pixels_join(src, H * W, C, dst);
  }
}
