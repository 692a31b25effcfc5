/* WebP by libwebp.  A picture is decoded whole when its first box is asked for.  Of an animation
   the first frame is taken, drawn on the canvas. */
#include <stdlib.h>
#include <string.h>
#include <webp/decode.h>
#include <webp/demux.h>

#include "stages/decoder.h"

enum { SIDE_MAX = 65535 };

typedef struct webp {
  const uint8_t *bytes;
  size_t n;
  int h, w;
  bool animated, done;
} webp_t;

static void *webp_create(void) { return calloc(1, sizeof(webp_t)); }
static void webp_destroy(void *decoder) { free(decoder); }

static int webp_orientation(const webp_t *d) {
  WebPData data = {d->bytes, d->n};
  WebPChunkIterator at;
  int turned = 1;
  WebPDemuxer *demux = WebPDemux(&data);
  if (demux && WebPDemuxGetChunk(demux, "EXIF", 1, &at)) {
    turned = mr_exif_orientation(at.chunk.bytes, at.chunk.size);
    WebPDemuxReleaseChunkIterator(&at);
  }
  WebPDemuxDelete(demux);
  return turned;
}

static mr_err_t webp_begin(void *decoder, const uint8_t *bytes, size_t n, bool orient,
                           mr_head_t *head, mr_diag_t *diag) {
  webp_t *d = decoder;
  WebPBitstreamFeatures f;
  VP8StatusCode code = WebPGetFeatures(bytes, n, &f);
  if (code == VP8_STATUS_OUT_OF_MEMORY) return mr_no_memory(diag, "a WebP");
  if (code != VP8_STATUS_OK || f.width < 1 || f.height < 1)
    return mr_fail(diag, MR_ERR_DATA, "WebP: the header is %s",
                   code == VP8_STATUS_NOT_ENOUGH_DATA ? "cut short" : "damaged");
  if (f.width > SIDE_MAX || f.height > SIDE_MAX) /* of an animation's canvas */
    return mr_fail(diag, MR_ERR_DATA, "WebP: %d x %d pixels, want at most %d on a side", f.width,
                   f.height, SIDE_MAX);
  *d = (webp_t){bytes, n, f.height, f.width, f.has_animation, false};
  *head = (mr_head_t){d->h, d->w, orient ? webp_orientation(d) : 1};
  return MR_OK;
}

/* The first frame, RGBA on the canvas, to RGB. */
static bool webp_first_frame(const webp_t *d, uint8_t *rgb) {
  WebPData data = {d->bytes, d->n};
  WebPAnimDecoderOptions how;
  uint8_t *rgba;
  int when;
  if (!WebPAnimDecoderOptionsInit(&how)) return false;
  WebPAnimDecoder *frames = WebPAnimDecoderNew(&data, &how);
  bool good = frames && WebPAnimDecoderGetNext(frames, &rgba, &when);
  for (size_t i = 0; good && i < (size_t)d->h * (size_t)d->w; i++)
    memcpy(rgb + 3 * i, rgba + 4 * i, 3);
  WebPAnimDecoderDelete(frames);
  return good;
}

static mr_err_t webp_read(void *decoder, mr_box_t b, mr_grown_t *to, mr_part_t *out,
                          mr_diag_t *diag) {
  webp_t *d = decoder;
  size_t stride = 3 * (size_t)d->w, bytes = stride * (size_t)d->h;
  if (!d->done) {
    MR_TRY(mr_grow(to, bytes, diag));
    bool good = d->animated ? webp_first_frame(d, to->at)
                            : WebPDecodeRGBInto(d->bytes, d->n, to->at, bytes, (int)stride) != NULL;
    if (!good) return mr_fail(diag, MR_ERR_DATA, "WebP: is damaged or cut short");
  }
  d->done = true;
  *out = (mr_part_t){to->at + (size_t)b.i * stride + 3 * (size_t)b.j, stride};
  return MR_OK;
}

const mr_decoder_def_t mr_decoder_webp = {
    .name = "WebP",
    .needs = "WEBP",
    .is = mr_is_webp,
    .create = webp_create,
    .destroy = webp_destroy,
    .begin = webp_begin,
    .read = webp_read,
};
