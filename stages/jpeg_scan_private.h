/* What the walks over the scans of baseline (jpeg_scan.c) and progressive files (jpeg_passes.c)
   share. */
#ifndef MR_STAGES_JPEG_SCAN_PRIVATE_H
#define MR_STAGES_JPEG_SCAN_PRIVATE_H

#include "stages/jpeg.h"
#include "stages/jpeg_scan.h"

#if defined(__x86_64__)
/* A Huffman table as a file gives it. */
typedef struct jpeg_table {
  bool given;
  uint8_t count[17], symbol[256];
} jpeg_table_t;

enum { JPEG_TABLES = 4, JPEG_DC = 0, JPEG_AC = 1 };

struct mr_jpeg_scan {
  mr_jpeg_part_t part[MR_JPEG_PARTS];
  mr_jpeg_huff_t dc[MR_JPEG_PARTS], ac[2];
  int n, mcus_across, mcus_down;
  mr_grown_t plain, samples, scratch;
  mr_jpeg_block_t block[2];
  /* the scan's bytes that are left */
  const uint8_t *at, *end;
  int marker; /* that ended the last segment; 0: none did */
  /* of progressive files */
  mr_jpeg_huff_t runs;
  jpeg_table_t table[2][JPEG_TABLES]; /* DC, AC: as of the scan that is read */
  mr_jpeg_store_t store[MR_JPEG_PARTS];
  mr_grown_t coefs, seen;
};

/* MCUs: from the first to the one behind the last. */
typedef struct scan_window {
  int top, bottom, left, right;
} scan_window_t;

/* The bytes between two restart markers. */
typedef struct scan_segment {
  mr_jpeg_bits_t in;
  const uint8_t *limit; /* their end */
  int interval;         /* MCUs of a segment; 0: one segment is all */
  int left;             /* of these; 0: a segment begins here, negative: all */
  int restarts;
} scan_segment_t;

/* Begins the next segment.  False for damaged bytes. */
bool mr__jpeg_segment_begin(mr_jpeg_scan_t *s, scan_segment_t *g);

/* Counts n MCUs that have been decoded.  False if they had not enough bytes, or the segment has
   more of them. */
bool mr__jpeg_segment_passed(scan_segment_t *g, int n);

/* Memory for the coefficients of a progressive file; MR_OK or MR_ERR_NOMEM. */
mr_err_t mr__jpeg_passes_memory(mr_jpeg_scan_t *s, const scan_window_t *w, mr_diag_t *diag);

/* Decodes the scans of a progressive file as far as the window needs them, and its samples.  False
   for what libjpeg must decode. */
bool mr__jpeg_passes(mr_jpeg_scan_t *s, const struct jpeg_decompress_struct *c,
                     const scan_window_t *w);
#endif
#endif
