/* JPEG in a build without libjpeg-turbo.  Files of it are still recognised, so that a folder of
   them fails with a sentence that names the library and how to build with it, not as damaged
   pictures. */
#include "stages/decoder.h"

const mr_decoder_def_t mr_decoder_jpeg = {.name = "JPEG", .needs = "JPEG", .is = mr_is_jpeg};
