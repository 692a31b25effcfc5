/* What torchvision's AutoAugment family shares: the operations, their magnitudes by bin, and the
   check of their settings.  The formulas keep torchvision's steps, f32 where it has f32, since a
   magnitude that differs in its last bit changes pixels. */
#include "stages/augment.h"

#include <math.h>

const mr_augment_space_t mr_augment_usual = {
    .shear = 0.3, .share = 150.0 / 331.0, .degrees = 30, .colour = 0.9, .bits = 4};
const mr_augment_space_t mr_augment_wide = {
    .shear = 0.99, .pixels = 32, .degrees = 135, .colour = 0.99, .bits = 6};

static const char *const op_name[MR_AUGMENT_OPS] = {
    [MR_AUGMENT_IDENTITY] = "Identity",
    [MR_AUGMENT_SHEAR_X] = "ShearX",
    [MR_AUGMENT_SHEAR_Y] = "ShearY",
    [MR_AUGMENT_TRANSLATE_X] = "TranslateX",
    [MR_AUGMENT_TRANSLATE_Y] = "TranslateY",
    [MR_AUGMENT_ROTATE] = "Rotate",
    [MR_AUGMENT_BRIGHTNESS] = "Brightness",
    [MR_AUGMENT_COLOR] = "Color",
    [MR_AUGMENT_CONTRAST] = "Contrast",
    [MR_AUGMENT_SHARPNESS] = "Sharpness",
    [MR_AUGMENT_POSTERIZE] = "Posterize",
    [MR_AUGMENT_SOLARIZE] = "Solarize",
    [MR_AUGMENT_AUTO_CONTRAST] = "AutoContrast",
    [MR_AUGMENT_EQUALIZE] = "Equalize",
    [MR_AUGMENT_INVERT] = "Invert",
};

mr_err_t mr_augment_plan(mr_stage_t *s, mr_augment_t *a) {
  MR_TRY(mr_canvas_plan(s, a->field, &a->in));
  if (a->fill.n != 1 && a->fill.n != a->in.C)
    return mr_stage_fail(s, MR_ERR_CONFIG,
                         "setting fill: %d numbers for pictures of %d channel%s, want one for "
                         "each, or one for all",
                         a->fill.n, a->in.C, a->in.C == 1 ? "" : "s");
  a->how.bilinear = a->filter == 1;
  for (int c = 0; c < 3; c++)
    a->how.fill[c] = (uint8_t)a->fill.v[a->fill.n == 1 || c >= a->in.C ? 0 : c];
  return MR_OK;
}

bool mr_augment_has_magnitude(mr_augment_op_t op) {
  return op >= MR_AUGMENT_SHEAR_X && op <= MR_AUGMENT_SOLARIZE;
}

bool mr_augment_is_signed(mr_augment_op_t op) {
  return op >= MR_AUGMENT_SHEAR_X && op <= MR_AUGMENT_SHARPNESS;
}

/* Element k of n from 0 to `end` or, falling, from 1 to 0; the second half is counted from the
   end. */
static float linspace_at(double first, double last, int n, int k) {
  float from = (float)first, to = (float)last, step = (to - from) / (float)(n - 1);
  return k < n / 2 ? fmaf(step, (float)k, from) : fmaf(-step, (float)(n - 1 - k), to);
}

float mr_augment_magnitude(const mr_augment_space_t *space, mr_augment_op_t op, int bins, int k,
                           int h, int w) {
  double most = 0;
  switch (op) {
    case MR_AUGMENT_SHEAR_X:
    case MR_AUGMENT_SHEAR_Y: most = space->shear; break;
    case MR_AUGMENT_TRANSLATE_X: most = space->pixels + space->share * w; break;
    case MR_AUGMENT_TRANSLATE_Y: most = space->pixels + space->share * h; break;
    case MR_AUGMENT_ROTATE: most = space->degrees; break;
    case MR_AUGMENT_BRIGHTNESS:
    case MR_AUGMENT_COLOR:
    case MR_AUGMENT_CONTRAST:
    case MR_AUGMENT_SHARPNESS: most = space->colour; break;
    case MR_AUGMENT_POSTERIZE: return nearbyintf(8 - (float)k / (float)((bins - 1) / space->bits));
    case MR_AUGMENT_SOLARIZE: return linspace_at(1, 0, bins, k);
    default: return 0;
  }
  return linspace_at(0, most, bins, k);
}

static double degrees_of(double tangent) { return atan(tangent) * (180 / M_PI); }

static void augment_canvas(mr_canvas_t *c, mr_augment_op_t op, double v,
                           const mr_pil_sampling_t *how) {
  switch (op) {
    case MR_AUGMENT_SHEAR_X: mr_pil_shear(c, degrees_of(v), 0, 0, 0, how); break;
    case MR_AUGMENT_SHEAR_Y: mr_pil_shear(c, 0, degrees_of(v), 0, 0, how); break;
    case MR_AUGMENT_TRANSLATE_X: mr_pil_translate(c, (int)v, 0, how); break;
    case MR_AUGMENT_TRANSLATE_Y: mr_pil_translate(c, 0, (int)v, how); break;
    case MR_AUGMENT_ROTATE: mr_pil_rotate(c, v, how); break;
    case MR_AUGMENT_BRIGHTNESS: mr_pil_brightness(c, 1 + v); break;
    case MR_AUGMENT_COLOR: mr_pil_saturation(c, 1 + v); break;
    case MR_AUGMENT_CONTRAST: mr_pil_contrast(c, 1 + v); break;
    case MR_AUGMENT_SHARPNESS: mr_pil_sharpness(c, 1 + v); break;
    case MR_AUGMENT_POSTERIZE: mr_pil_posterize(c, (int)v); break;
    case MR_AUGMENT_SOLARIZE: mr_pil_solarize(c, 255 * v); break;
    case MR_AUGMENT_AUTO_CONTRAST: mr_pil_autocontrast(c); break;
    case MR_AUGMENT_EQUALIZE: mr_pil_equalize(c); break;
    case MR_AUGMENT_INVERT: mr_pil_invert(c); break;
    default: break; /* identity */
  }
}

/* The sign of a magnitude is drawn, and noted with it: the ledger covers what was done. */
void mr_augment_apply(mr_stage_t *s, const mr_augment_t *a, mr_augment_op_t op, float magnitude,
                      mr_philox_t *g, mr_rec_t *out) {
  if (mr_augment_is_signed(op) && mr_philox_random(g) <= 0.5) magnitude = -magnitude;
  mr_draw_note_float(out, op, magnitude);
  augment_canvas(s->scratch, op, magnitude, &a->how);
}

void mr_augment_draw_text(const mr_stage_t *s, uint64_t what, char *text, size_t n) {
  mr_augment_op_t op = (mr_augment_op_t)(what >> 32);
  if (op >= MR_AUGMENT_OPS)
    mr_snprintf(text, n, "%llu", (unsigned long long)what);
  else if (mr_augment_has_magnitude(op))
    mr_draw_float_text(op_name[op], what, text, n);
  else
    mr_snprintf(text, n, "%s", op_name[op]);
}
