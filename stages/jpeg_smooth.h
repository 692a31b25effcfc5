/* Progressive JPEG files that lack scans, or whose last scan is cut short: what their blocks lack
   is estimated from the blocks around them, as libjpeg-turbo 3 does by default, whose pixels are
   Pillow's.  Releases of libjpeg differ in that, so that it is done here, on the coefficients: they
   are read by libjpeg, changed, and written as a baseline file, which every release decodes alike.
 */
#ifndef MR_STAGES_JPEG_SMOOTH_H
#define MR_STAGES_JPEG_SMOOTH_H

#include <stdbool.h>
#include <stdio.h>

/* after stdio.h */
#include <jpeglib.h>

enum { MR_JPEG_SMOOTH_PARTS = 4, MR_JPEG_SMOOTH_BITS = 10 };

/* Which bits the scans have given, noted while libjpeg reads them; zeroed before the first. */
typedef struct mr_jpeg_known {
  int scan; /* the last one noted */

  /* [component][number in a scan's order] Bits that are not given yet, -1: all of them.  Now, and
     before the component's last scan. */
  int now[MR_JPEG_SMOOTH_PARTS][MR_JPEG_SMOOTH_BITS];
  int before[MR_JPEG_SMOOTH_PARTS][MR_JPEG_SMOOTH_BITS];

  bool cut;           /* the last scan noted ended early: */
  JDIMENSION cut_row; /* in this row of MCUs */
} mr_jpeg_known_t;

/* Notes the scan that c reads; to be called between any two calls of jpeg_consume_input. */
void mr_jpeg_known_scan(mr_jpeg_known_t *k, const struct jpeg_decompress_struct *c);

/* Notes that the bytes of the scan that c reads have come to an end. */
void mr_jpeg_known_cut(mr_jpeg_known_t *k, const struct jpeg_decompress_struct *c);

/* Estimates what the blocks in coef (of jpeg_read_coefficients) lack.  False if libjpeg cannot
   write them as a baseline file (a coefficient is too large, say), and then some may be changed.
   Fails by c's error_exit. */
bool mr_jpeg_smooth(j_decompress_ptr c, jvirt_barray_ptr *coef, const mr_jpeg_known_t *k);

#endif
