/* What augmentations share: floats that were drawn, as who shows them; and for rand-augment,
   auto-augment and trivial-augment operations on pictures, each with a magnitude from a row of
   bins, as torchvision's autoaugment.py defines them for PIL pictures. */
#ifndef MR_STAGES_AUGMENT_H
#define MR_STAGES_AUGMENT_H

#include <string.h>

#include "base/text.h"
#include "pipeline/stage_map.h"
#include "stages/pil_ops.h"

/* ---- a drawn float ---- */

/* Notes a float that was drawn for change number `which` in out. */
static inline void mr_draw_note_float(mr_rec_t *out, uint32_t which, float v) {
  uint32_t bits;
  memcpy(&bits, &v, sizeof bits);
  mr_draw_note(out, (uint64_t)which << 32 | bits);
}

/* The float that was noted so. */
static inline float mr_draw_float(uint64_t what) {
  uint32_t bits = (uint32_t)what;
  float v;
  memcpy(&v, &bits, sizeof v);
  return v;
}

/* Writes "NAME VALUE" into text[0,n), with as many digits as tell floats apart. */
static inline void mr_draw_float_text(const char *name, uint64_t what, char *text, size_t n) {
  mr_snprintf(text, n, "%s %.9g", name, (double)mr_draw_float(what));
}

/* ---- operations ---- */

/* In the order in which torchvision draws them; rand-augment and trivial-augment never invert. */
typedef enum mr_augment_op {
  MR_AUGMENT_IDENTITY,
  MR_AUGMENT_SHEAR_X,
  MR_AUGMENT_SHEAR_Y,
  MR_AUGMENT_TRANSLATE_X,
  MR_AUGMENT_TRANSLATE_Y,
  MR_AUGMENT_ROTATE,
  MR_AUGMENT_BRIGHTNESS,
  MR_AUGMENT_COLOR,
  MR_AUGMENT_CONTRAST,
  MR_AUGMENT_SHARPNESS,
  MR_AUGMENT_POSTERIZE,
  MR_AUGMENT_SOLARIZE,
  MR_AUGMENT_AUTO_CONTRAST,
  MR_AUGMENT_EQUALIZE,
  MR_AUGMENT_DRAWN, /* how many operations are drawn from */
  MR_AUGMENT_INVERT = MR_AUGMENT_DRAWN,
  MR_AUGMENT_OPS
} mr_augment_op_t;

/* The largest magnitude of each operation. */
typedef struct mr_augment_space {
  double shear;           /* tangent of the angle */
  double share;           /* translation, in widths or heights of the picture; 0: in pixels */
  double pixels;          /* the same in pixels */
  double degrees, colour; /* rotation; distance of a factor of ImageEnhance from 1 */
  double bits;            /* that posterize takes away */
} mr_augment_space_t;

extern const mr_augment_space_t mr_augment_usual; /* of rand-augment and auto-augment */
extern const mr_augment_space_t mr_augment_wide;  /* of trivial-augment */

/* The part of such a stage's state that holds its pictures and how they are sampled. */
typedef struct mr_augment {
  const char *field;
  int filter; /* 0: nearest, 1: bilinear */
  mr_vec_t fill;
  mr_pixels_t in;
  mr_pil_sampling_t how;
} mr_augment_t;

/* The rows of its settings, in a state of type `state` whose mr_augment_t is `member`. */
/* clang-format off */
#define MR_AUGMENT_OPTS(state, member)                                                            \
  {.name = "filter", .type = MR_OPT_ENUM, .offset = offsetof(state, member.filter),               \
   .def = "nearest", .choices = "nearest|bilinear",                                               \
   .help = "How sheared, moved and turned pictures are sampled."},                                \
  {.name = "fill", .type = MR_OPT_VEC, .offset = offsetof(state, member.fill), .def = "0",        \
   .lo = 0, .hi = 255,                                                                            \
   .help = "Level of each channel outside of such a picture; a single number applies to all "     \
           "channels."},                                                                          \
  MR_PIXELS_OPT(state, member.field)
/* clang-format on */

/* In plan: mr_canvas_plan, and the fill.  MR_OK, or MR_ERR_SHAPE or MR_ERR_CONFIG with a sentence;
   a stage that draws needs a generator too. */
mr_err_t mr_augment_plan(mr_stage_t *s, mr_augment_t *a);

/* True if the operation has a magnitude, and if it may be negative. */
bool mr_augment_has_magnitude(mr_augment_op_t op);
bool mr_augment_is_signed(mr_augment_op_t op);

/* The magnitude of bin k in [0,bins), bins >= 2, for pictures of h x w; 0 for an operation without
   one.  It is the float that torch.linspace gives on machines with AVX2. */
float mr_augment_magnitude(const mr_augment_space_t *space, mr_augment_op_t op, int bins, int k,
                           int h, int w);

/* Applies the operation to the canvas of s->scratch and notes it in out; where magnitudes are
   signed, g decides whether this one is negative. */
void mr_augment_apply(mr_stage_t *s, const mr_augment_t *a, mr_augment_op_t op, float magnitude,
                      mr_philox_t *g, mr_rec_t *out);

/* The draw_text of such a stage: "ShearX -0.12", in torchvision's words. */
void mr_augment_draw_text(const mr_stage_t *s, uint64_t what, char *text, size_t n);

#endif
