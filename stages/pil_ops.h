/* Pillow's operations on pixels, byte for byte: those that torchvision's augmentations of PIL
   pictures consist of.

   Each changes a canvas of one channel (mode L) or three (mode RGB).  None fails or allocates; one
   thread at a time per canvas. */
#ifndef MR_STAGES_PIL_OPS_H
#define MR_STAGES_PIL_OPS_H

#include "stages/canvas.h"

/* ---- pil_blend.c: ImageEnhance.  The factor is finite; 1 changes nothing ---- */
void mr_pil_brightness(mr_canvas_t *c, double factor);
void mr_pil_contrast(mr_canvas_t *c, double factor);
void mr_pil_saturation(mr_canvas_t *c, double factor); /* ImageEnhance.Color */
void mr_pil_sharpness(mr_canvas_t *c, double factor);
void mr_pil_grey(mr_canvas_t *c); /* convert("L"), in all channels */

/* pil_hue.c: turns the hue by factor of a full turn, in [-0.5,0.5], by way of mode HSV, as
   torchvision's adjust_hue does; mode L stays. */
void mr_pil_hue(mr_canvas_t *c, double factor);

/* ---- pil_tone.c: tables of 256 levels (ImageOps) ---- */
void mr_pil_posterize(mr_canvas_t *c, int bits); /* [1,8] */
void mr_pil_solarize(mr_canvas_t *c, double threshold);
void mr_pil_invert(mr_canvas_t *c);
void mr_pil_autocontrast(mr_canvas_t *c);
void mr_pil_equalize(mr_canvas_t *c);

/* ---- pil_affine.c: Image.transform(AFFINE) and Image.rotate ---- */

/* How pixels between those of the picture are found, and those outside it. */
typedef struct mr_pil_sampling {
  bool bilinear; /* false: nearest */
  uint8_t fill[3];
} mr_pil_sampling_t;

/* Pixel (x, y) of the result is that at (m[0] x + m[1] y + m[2], m[3] x + m[4] y + m[5]) of the
   picture, of which both stay below 32,768. */
void mr_pil_affine(mr_canvas_t *c, const double *m, const mr_pil_sampling_t *how);
/* Counter-clockwise by an angle in degrees, finite, about the middle; the size stays. */
void mr_pil_rotate(mr_canvas_t *c, double angle, const mr_pil_sampling_t *how);
/* torchvision's F.affine without rotation and scale: shears in degrees about (cx, cy), and a
   translation in pixels. */
void mr_pil_shear(mr_canvas_t *c, double shear_x, double shear_y, double cx, double cy,
                  const mr_pil_sampling_t *how);
void mr_pil_translate(mr_canvas_t *c, int x, int y, const mr_pil_sampling_t *how);

#endif
