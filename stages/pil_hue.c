/* A turn of the hue through Pillow's mode HSV, each channel of which is a byte: hue, saturation and
   value are rounded down on the way there, red, green and blue to the nearest on the way back.

   Pillow mixes float and double; the types here are the ones that give its bytes for all 2^24
   colours. */
#include <math.h>

#include "stages/pil_ops.h"

typedef struct hsv {
  uint8_t h, s, v;
} hsv_t;

static inline hsv_t hsv_from(const uint8_t *rgb) {
  int r = rgb[0], g = rgb[1], b = rgb[2];
  int most = r > g ? r : g, least = r < g ? r : g;
  most = most > b ? most : b, least = least < b ? least : b;
  if (most == least) return (hsv_t){0, 0, (uint8_t)most};
  float range = (float)(most - least), s = range / (float)most;
  float rc = (float)(most - r) / range, gc = (float)(most - g) / range,
        bc = (float)(most - b) / range, h;
  if (r == most)
    h = bc - gc;
  else if (g == most)
    h = (float)(2.0 + rc - bc);
  else
    h = (float)(4.0 + gc - rc);
  double turn = h / 6.0 + 1.0; /* at least 5/6, below 2 */
  h = (float)(turn >= 1.0 ? turn - 1.0 : turn);
  return (hsv_t){(uint8_t)(int)(h * 255.0), (uint8_t)(int)(s * 255.0), (uint8_t)most};
}

/* A level in [0,255], halves away from zero. */
static inline uint8_t nearest(float v) { return (uint8_t)(int)(v + 0.5f); }

static inline void hsv_to(hsv_t c, uint8_t *rgb) {
  if (!c.s) {
    rgb[0] = rgb[1] = rgb[2] = c.v;
    return;
  }
  float turn = (float)(c.h * 6.0 / 255.0), s = (float)(c.s / 255.0);
  int sector = (int)turn;
  float f = turn - (float)sector, v = c.v;
  uint8_t p = nearest((float)(v * (1.0 - s))), q = nearest((float)(v * (1.0 - s * f))),
          t = nearest((float)(v * (1.0 - s * (1.0 - f))));
  const uint8_t by_sector[6][3] = {{c.v, t, p}, {q, c.v, p}, {p, c.v, t},
                                   {p, q, c.v}, {t, p, c.v}, {c.v, p, q}};
  const uint8_t *out = by_sector[sector % 6];
  rgb[0] = out[0], rgb[1] = out[1], rgb[2] = out[2];
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
