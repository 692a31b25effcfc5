/* A turn of the hue through Pillow's mode HSV, each channel of which is a byte: hue, saturation and
   value are rounded down on the way there, red, green and blue to the nearest on the way back.

   Pillow mixes float and double; the types here are the ones that give its bytes for all 2^24
   colours. */
#include <math.h>

#include "stages/pil_ops.h"

typedef struct hsv {
  uint8_t h, s, v;
} hsv_t;

/* Of Pillow's three quotients (most - channel) / range, that of the largest channel is 0 and that
   of the smallest 1, so that one division remains. */
static inline hsv_t hsv_from(const uint8_t *rgb) {
  int r = rgb[0], g = rgb[1], b = rgb[2];
  int most = r > g ? r : g, least = r < g ? r : g;
  most = most > b ? most : b, least = least < b ? least : b;
  if (most == least) return (hsv_t){0, 0, (uint8_t)most};
  float range = (float)(most - least), s = range / (float)most, h;
  float middle = (float)(2 * most + least - r - g - b) / range;
  if (r == most)
    h = b == least ? 1 - middle : middle - 1;
  else if (g == most)
    h = b == least ? 1 + middle : 3 - middle;
  else
    h = r == least ? 3 + middle : 5 - middle;
  double turn = h / 6.0 + 1.0; /* at least 5/6, below 2 */
  h = (float)(turn >= 1.0 ? turn - 1.0 : turn);
  return (hsv_t){(uint8_t)(int)(h * 255.0), (uint8_t)(int)(s * 255.0), (uint8_t)most};
}

/* A level in [0,255], halves away from zero. */
static inline uint8_t nearest_level(float v) { return (uint8_t)(int)(v + 0.5f); }

/* In an even sector of the turn the second channel rises, in an odd one it falls. */
static inline void hsv_to(hsv_t c, uint8_t *rgb) {
  float turn = (float)(c.h * 6.0 / 255.0), s = (float)(c.s / 255.0);
  int sector = (int)turn;
  float f = turn - (float)sector, v = c.v;
  double part = sector & 1 ? 1.0 - s * f : 1.0 - s * (1.0 - f);
  uint8_t p = nearest_level((float)(v * (1.0 - s))), between = nearest_level((float)(v * part));
  switch (c.s ? sector % 6 : 6) {
    case 0: rgb[0] = c.v, rgb[1] = between, rgb[2] = p; break;
    case 1: rgb[0] = between, rgb[1] = c.v, rgb[2] = p; break;
    case 2: rgb[0] = p, rgb[1] = c.v, rgb[2] = between; break;
    case 3: rgb[0] = p, rgb[1] = between, rgb[2] = c.v; break;
    case 4: rgb[0] = between, rgb[1] = p, rgb[2] = c.v; break;
    case 5: rgb[0] = c.v, rgb[1] = p, rgb[2] = between; break;
    default: rgb[0] = rgb[1] = rgb[2] = c.v; /* no saturation */
  }
}

void mr_pil_hue(mr_canvas_t *c, double factor) {
  if (c->C == 1) return;
  int turn = (int)(factor * 255);
  for (uint8_t *p = c->at, *end = p + mr_canvas_size(c); p < end; p += 3) {
    hsv_t x = hsv_from(p);
    x.h = (uint8_t)(x.h + turn);
    hsv_to(x, p);
  }
}
