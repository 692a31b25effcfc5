/* Encoded pictures: a decoder fails for every box or for none, and a box has the pixels of the
 * whole. */
#include "stages/decoder.h"

#include "tests/fuzz/fuzz.h"

enum { PIXELS_MAX = 1 << 18, FORMATS = 3 };

static const mr_decoder_def_t *const formats[FORMATS] = {&mr_decoder_jpeg, &mr_decoder_png,
                                                         &mr_decoder_webp};

static void compare(const mr_decoder_def_t *def, void *d, mr_head_t head, const uint8_t *data,
                    size_t n) {
  static mr_grown_t whole, one;
  mr_part_t all, part;
  mr_diag_t diag = {0};
  mr_box_t full = {.h = head.h, .w = head.w}, b = {.h = 1, .w = 1};
  if (n > 8) b.h = 1 + data[n - 3] % head.h, b.w = 1 + data[n - 4] % head.w;
  if (n > 8) b.i = data[n - 5] % (head.h - b.h + 1), b.j = data[n - 6] % (head.w - b.w + 1);
  mr_err_t e = def->read(d, full, &whole, &all, &diag);
  if (e < 0) fuzz_need(*diag.text, "a sentence");
  if (e < 0 || def != &mr_decoder_jpeg) { /* the others decode whole pictures */
    fuzz_need(e >= 0 || def->read(d, b, &one, &part, &diag) < 0, "the same end for a box");
    return;
  }
  fuzz_need(def->read(d, b, &one, &part, &diag) >= 0, "the same end for a box");
  for (int y = 0; y < b.h; y++)
    fuzz_need(!memcmp(part.data + (size_t)y * part.stride,
                      all.data + (size_t)(b.i + y) * all.stride + 3 * (size_t)b.j, 3 * (size_t)b.w),
              "the pixels of the whole");
  static uint8_t small[64 * 64 * 3];
  mr_scaling_t how = {.from = b, .h = 1 + (int)(n % 64), .w = 1 + (int)(n / 3 % 64)};
  how.out = (mr_box_t){.h = how.h, .w = how.w};
  if (head.resizes) fuzz_need(def->resized(d, &how, small, &diag) >= 0, "the same end resized");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  static void *made[FORMATS];
  for (int i = 0; i < FORMATS; i++) {
    mr_head_t head;
    mr_diag_t diag = {0};
    if (!formats[i]->is(data, n)) continue;
    if (!made[i]) made[i] = formats[i]->create();
    mr_err_t e = formats[i]->begin(made[i], data, n, true, &head, &diag);
    if (e < 0) fuzz_need(*diag.text, "a sentence");
    if (e < 0) continue;
    fuzz_need(head.h >= 1 && head.w >= 1 && head.turned >= 1 && head.turned <= 8, "a sane head");
    if ((int64_t)head.h * head.w <= PIXELS_MAX) compare(formats[i], made[i], head, data, n);
  }
  int turned = mr_exif_orientation(data, n), by_xmp = mr_xmp_orientation(data, n);
  fuzz_need(turned >= 0 && turned <= 8 && by_xmp >= 0 && by_xmp <= 8, "an orientation or none");
  return 0;
}
