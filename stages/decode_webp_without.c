/* WebP in a build without libwebp: files of it are known, and refused by name. */
#include "stages/decoder.h"

const mr_decoder_def_t mr_decoder_webp = {.name = "WebP", .needs = "WEBP", .is = mr_is_webp};
