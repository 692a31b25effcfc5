/* One procedural picture: what the stage synthetic is made of. */
#ifndef MR_LOADERS_SYNTHETIC_DRAW_H
#define MR_LOADERS_SYNTHETIC_DRAW_H

#include <stdint.h>

#include "base/philox.h"

enum { MR_SYNTHETIC_CLASSES = 10 };

extern const char *const mr_synthetic_class[MR_SYNTHETIC_CLASSES];

/* Draws a picture of a class in [0,10) with what g gives next: dst (3,32,32) u8 CHW.  Place, size,
   colours and noise are random; the shape or texture is the class. */
void mr_synthetic_draw(mr_philox_t *g, int label, uint8_t *dst);

#endif
