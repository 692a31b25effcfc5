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
  int turned = 0;
  WebPDemuxer *demux = WebPDemux(&data);
  if (demux && WebPDemuxGetChunk(demux, "EXIF", 1, &at)) {
    turned = mr_exif_orientation(at.chunk.bytes, at.chunk.size);
    WebPDemuxReleaseChunkIterator(&at);
  }
  if (demux && !turned && WebPDemuxGetChunk(demux, "XMP ", 1, &at)) {
    turned = mr_xmp_orientation(at.chunk.bytes, at.chunk.size);
    WebPDemuxReleaseChunkIterator(&at);
  }
  WebPDemuxDelete(demux);
  return turned ? turned : 1;
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
  *head = (mr_head_t){d->h, d->w, orient ? webp_orientation(d) : 1, false};
  return MR_OK;
}

static mr_err_t webp_fail(VP8StatusCode code, mr_diag_t *diag) {
  if (code == VP8_STATUS_OUT_OF_MEMORY) return mr_no_memory(diag, "a WebP picture");
  return mr_fail(diag, MR_ERR_DATA, "WebP: is damaged or cut short");
}

/* Decodes a still picture, RGB or, with to NULL, anywhere, for the status alone. */
static VP8StatusCode webp_still(WebPData data, uint8_t *to, size_t bytes, int stride) {
  WebPDecoderConfig how;
  if (!WebPInitDecoderConfig(&how)) return VP8_STATUS_INVALID_PARAM;
  how.output.colorspace = MODE_RGB;
  how.output.is_external_memory = to != NULL;
  how.output.u.RGBA = (WebPRGBABuffer){to, stride, to ? bytes : 0};
  VP8StatusCode code = WebPDecode(data.bytes, data.size, &how);
  WebPFreeDecBuffer(&how.output);
  return code;
}

/* Why an animation has no first frame, which its decoder does not say. */
static VP8StatusCode webp_why(WebPData data) {
  WebPDemuxState state;
  WebPIterator frame;
  VP8StatusCode code = VP8_STATUS_BITSTREAM_ERROR;
  WebPDemuxer *demux = WebPDemuxPartial(&data, &state);
  if (!demux && state != WEBP_DEMUX_PARSE_ERROR) return VP8_STATUS_OUT_OF_MEMORY;
  if (demux && WebPDemuxGetFrame(demux, 1, &frame)) {
    code = webp_still(frame.fragment, NULL, 0, 0);
    WebPDemuxReleaseIterator(&frame);
  }
  WebPDemuxDelete(demux);
  return code;
}

/* The first frame, RGBA on the canvas, to RGB. */
static VP8StatusCode webp_first_frame(const webp_t *d, uint8_t *rgb) {
  WebPData data = {d->bytes, d->n};
  WebPAnimDecoderOptions how;
  uint8_t *rgba;
  int when;
  if (!WebPAnimDecoderOptionsInit(&how)) return VP8_STATUS_INVALID_PARAM;
  WebPAnimDecoder *frames = WebPAnimDecoderNew(&data, &how);
  bool good = frames && WebPAnimDecoderGetNext(frames, &rgba, &when);
  for (size_t i = 0; good && i < (size_t)d->h * (size_t)d->w; i++)
    memcpy(rgb + 3 * i, rgba + 4 * i, 3);
  WebPAnimDecoderDelete(frames);
  return good ? VP8_STATUS_OK : webp_why(data);
}

static mr_err_t webp_read(void *decoder, mr_box_t b, mr_grown_t *to, mr_part_t *out,
                          mr_diag_t *diag) {
  webp_t *d = decoder;
  size_t stride = 3 * (size_t)d->w, bytes = stride * (size_t)d->h;
  if (!d->done) {
    MR_TRY(mr_grow(to, bytes, diag));
    VP8StatusCode code = d->animated
                             ? webp_first_frame(d, to->at)
                             : webp_still((WebPData){d->bytes, d->n}, to->at, bytes, (int)stride);
    if (code != VP8_STATUS_OK) return webp_fail(code, diag);
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
