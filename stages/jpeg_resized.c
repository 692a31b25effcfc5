/* A resized part of a JPEG picture without its pixels: luma and chroma are resized each from its
   own resolution, and only the result becomes RGB.  Chroma is then not upsampled first, and the
   colours of the pixels between are not computed.

   The same on every machine: the samples are libjpeg's by either decoder, and each step below has
   one result. */
#include "stages/jpeg_resized.h"

#include <string.h>

#include "stages/jpeg.h"

bool mr_jpeg_has_planes(const struct jpeg_decompress_struct *c) {
  const jpeg_component_info *p = c->comp_info;
  if (c->num_components == 1) return c->jpeg_color_space == JCS_GRAYSCALE;
  if (c->num_components != 3 || c->jpeg_color_space != JCS_YCbCr) return false;
  int across = p->h_samp_factor, down = p->v_samp_factor;
  for (int i = 1; i < 3; i++)
    if (p[i].h_samp_factor != 1 || p[i].v_samp_factor != 1) return false;
  return (across == 1 && down == 1) || (across == 2 && (down == 1 || down == 2));
}

void mr_jpeg_resizer_free(mr_jpeg_resizer_t *r) {
  mr_resampler_free(&r->resampler);
  for (int i = 0; i < MR_JPEG_PLANES; i++) mr_grown_free(&r->plane[i]);
}

/* Where the samples of pixels [out,out+n) of `size` are, which pixels [from,from+whole) become, in
   a plane of `samples`, each of `each` pixels. */
static mr_span_t resized_span(int from, int whole, int size, int out, int n, int each,
                              int samples) {
  mr_span_t s = {.scale = (double)whole / size / each, .lo = from / each, .n = n};
  s.begin = (double)from / each + out * s.scale;
  s.hi = (from + whole + each - 1) / each;
  if (s.hi > samples) s.hi = samples;
  return s;
}

mr_err_t mr_jpeg_resized(mr_jpeg_resizer_t *r, const mr_jpeg_planes_t *p, const mr_scaling_t *how,
                         uint8_t *to, mr_diag_t *diag) {
  size_t w = (size_t)how->out.w, h = (size_t)how->out.h;
  const uint8_t *at[MR_JPEG_PLANES] = {NULL};
  for (int i = 0; i < p->n; i++) {
    const mr_jpeg_plane_t *s = &p->plane[i];
    mr_span_t down =
        resized_span(how->from.i, how->from.h, how->h, how->out.i, how->out.h, s->down, s->h);
    mr_span_t across =
        resized_span(how->from.j, how->from.w, how->w, how->out.j, how->out.w, s->across, s->w);
    MR_TRY(mr_grow(&r->plane[i], w * h, diag));
    MR_TRY(mr_resample_plane(&r->resampler, &down, &across, s->samples, s->top, s->left,
                             r->plane[i].at, diag));
    at[i] = r->plane[i].at;
  }
  if (p->n == 3) return mr_jpeg_rgb(at[0], at[1], at[2], (int)(w * h), to), MR_OK;
  for (size_t k = 0; k < w * h; k++) memset(to + 3 * k, at[0][k], 3);
  return MR_OK;
}
