/* Pillow's operations behind the augmentations, against what torchvision makes of the same pictures
   (tests/golden/augment.py). */
#include "base/text.h"
#include "stages/pil_ops.h"
#include "tests/random.h"
#include "tests/vectors.h"

static uint32_t crc32_of_pixels(const uint8_t *p, size_t n) {
  uint32_t crc = ~0u;
  for (size_t i = 0; i < n; i++) {
    crc ^= p[i];
    for (int k = 0; k < 8; k++) crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320u : 0);
  }
  return ~crc;
}

/* A canvas with memory of exactly the picture's size. */
static mr_canvas_t canvas_of(int h, int w, int C) {
  mr_canvas_t c = {.h = h, .w = w, .C = C};
  c.at = malloc(mr_canvas_size(&c)), c.spare = malloc(mr_canvas_size(&c));
  assert_true(c.at && c.spare);
  return c;
}

static void canvas_drop(mr_canvas_t *c) { free(c->at), free(c->spare); }

static void paint_formula(mr_canvas_t *c, bool flat) {
  uint8_t *to = c->at;
  for (uint32_t y = 0; y < (uint32_t)c->h; y++)
    for (uint32_t x = 0; x < (uint32_t)c->w; x++)
      for (uint32_t k = 0; k < (uint32_t)c->C; k++) {
        uint32_t v = (y * 7919 + x * 104729 + k * 31337 + 12345) * 2654435761u >> 24;
        *to++ = (uint8_t)(flat ? v / 8 + 60 : v);
      }
}

static const char *const names[] = {"brightness", "contrast",     "saturation",  "sharpness",
                                    "hue",        "grey",         "posterize",   "solarize",
                                    "invert",     "autocontrast", "equalize",    "rotate",
                                    "shear-x",    "shear-y",      "translate-x", "translate-y"};
enum { OPS = sizeof names / sizeof *names };

static int op_named(const char *name) {
  for (int k = 0; k < OPS; k++)
    if (!strcmp(names[k], name)) return k;
  fail_msg("%s", name);
  return -1;
}

static void run_op(int op, mr_canvas_t *c, double v, const mr_pil_sampling_t *how) {
  switch (op) {
    case 0: mr_pil_brightness(c, v); break;
    case 1: mr_pil_contrast(c, v); break;
    case 2: mr_pil_saturation(c, v); break;
    case 3: mr_pil_sharpness(c, v); break;
    case 4: mr_pil_hue(c, v); break;
    case 5: mr_pil_grey(c); break;
    case 6: mr_pil_posterize(c, (int)v); break;
    case 7: mr_pil_solarize(c, v); break;
    case 8: mr_pil_invert(c); break;
    case 9: mr_pil_autocontrast(c); break;
    case 10: mr_pil_equalize(c); break;
    case 11: mr_pil_rotate(c, v, how); break;
    case 12: mr_pil_shear(c, v, 0, 0, 0, how); break;
    case 13: mr_pil_shear(c, 0, v, 0, 0, how); break;
    case 14: mr_pil_translate(c, (int)v, 0, how); break;
    default: mr_pil_translate(c, 0, (int)v, how);
  }
}

static void operations_give_pillows_bytes(void **state) {
  FILE *f = vectors_open("augment.txt");
  char line[256], name[32], number[64];
  int rows = 0, seen[OPS] = {0};
  while (vectors_line(f, line, sizeof line)) {
    int h, w, C, flat, bilinear, fill[3];
    uint32_t want;
    assert_int_equal(sscanf(line, "%31s %d %d %d %d %63s %d %d %d %d %x", name, &h, &w, &C, &flat,
                            number, &bilinear, fill, fill + 1, fill + 2, &want),
                     11);
    mr_canvas_t c = canvas_of(h, w, C);
    paint_formula(&c, flat);
    mr_pil_sampling_t how = {bilinear, {(uint8_t)fill[0], (uint8_t)fill[1], (uint8_t)fill[2]}};
    int op = op_named(name);
    run_op(op, &c, mr_strtod(number, NULL), &how);
    if (crc32_of_pixels(c.at, mr_canvas_size(&c)) != want) fail_msg("%s", line);
    canvas_drop(&c);
    seen[op]++, rows++;
  }
  fclose(f);
  for (int k = 0; k < OPS; k++) assert_true(seen[k] >= 40);
  vectors_met(rows, 50 * OPS);
}

/* A picture of one grey in three channels is the picture of one channel, for every operation but
   hue, and no operation leaves its memory: the sanitizers see to that. */
static void grey_pictures_have_the_same_levels_in_both_modes(void **state) {
  round_t r = round_first(300);
  while (round_next(&r)) {
    int h = 1 + draw(&r, 40), w = 1 + draw(&r, 40), op = draw(&r, OPS);
    mr_canvas_t one = canvas_of(h, w, 1), three = canvas_of(h, w, 3);
    uint8_t level = (uint8_t)draw(&r, 256);
    mr_pil_sampling_t how = {draw(&r, 2), {level, level, level}};
    for (int k = 0; k < h * w; k++) {
      one.at[k] = (uint8_t)draw(&r, 256);
      memset(three.at + 3 * k, one.at[k], 3);
    }
    double v = draw(&r, 4000) / 1000.0 - (op > 10 ? 2 : 0);
    if (op == 4) v = 0.25 * (draw(&r, 5) - 2);
    if (op == 6) v = 1 + draw(&r, 8);
    if (op == 7) v *= 64;
    if (op > 10) v *= op > 13 ? 20 : op == 11 ? 90 : 22;
    run_op(op, &one, v, &how), run_op(op, &three, v, &how);
    for (int k = 0; k < 3 * h * w; k++)
      round_check(&r, one.at[k / 3] == three.at[k], "%s %g of %dx%d, byte %d", names[op], v, h, w,
                  k);
    canvas_drop(&one), canvas_drop(&three);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(operations_give_pillows_bytes),
      cmocka_unit_test(grey_pictures_have_the_same_levels_in_both_modes),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
