/* PNG in a build without libpng: files of it are known, and refused by name. */
#include "stages/decoder.h"

const mr_decoder_def_t mr_decoder_png = {.name = "PNG", .needs = "PNG", .is = mr_is_png};
