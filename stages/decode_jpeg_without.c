/* JPEG in a build without libjpeg-turbo: files of it are known, and refused by name. */
#include "stages/decoder.h"

const mr_decoder_def_t mr_decoder_jpeg = {.name = "JPEG", .needs = "JPEG", .is = mr_is_jpeg};
