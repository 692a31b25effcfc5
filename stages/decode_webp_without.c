/* WebP in a build without libwebp.  Files of it are still recognised, so that a folder of them
   fails with a sentence that names the library and how to build with it, not as damaged pictures.
   */
#include "stages/decoder.h"

const mr_decoder_def_t mr_decoder_webp = {.name = "WebP", .needs = "WEBP", .is = mr_is_webp};
