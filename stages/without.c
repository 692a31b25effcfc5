/* Decoders in a build without their library.  Files of the format are still recognised, so that a
   folder of them fails with a sentence that names the library and how to build with it, not as
   damaged pictures.  MR_WITHOUT_X is defined where mr_needs (cmake/features.cmake) finds X
   missing. */
#include "stages/decoder.h"

#if defined(MR_WITHOUT_JPEG)
const mr_decoder_def_t mr_decoder_jpeg = {
    .name = "JPEG",
    .needs = "JPEG",
    .is = mr_is_jpeg,
};
#endif

#if defined(MR_WITHOUT_PNG)
const mr_decoder_def_t mr_decoder_png = {
    .name = "PNG",
    .needs = "PNG",
    .is = mr_is_png,
};
#endif

#if defined(MR_WITHOUT_WEBP)
const mr_decoder_def_t mr_decoder_webp = {
    .name = "WebP",
    .needs = "WEBP",
    .is = mr_is_webp,
};
#endif
