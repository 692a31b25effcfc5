/* Draws one procedural picture, for the stage synthetic. */
#ifndef MR_LOADERS_SYNTHETIC_DRAW_H
#define MR_LOADERS_SYNTHETIC_DRAW_H

#include <stdint.h>

#include "base/philox.h"

enum { MR_SYNTHETIC_CLASSES = 10 };

extern const char *const mr_synthetic_class[MR_SYNTHETIC_CLASSES];

/* Draws a picture of a class in [0,MR_SYNTHETIC_CLASSES) into dst, (3,32,32) u8 CHW, with the next
   draws of g.  The class is the shape or texture; place, size, colours and noise are random. */
void mr_synthetic_draw(mr_philox_t *g, int label, uint8_t *dst);

#endif
