/* The newest pictures of a run, for pages that ask for one by its number.  They are kept as they
   came and become a PNG when asked for: most are never looked at.  Any thread may call. */
#ifndef MR_SINKS_WEB_PICTURE_H
#define MR_SINKS_WEB_PICTURE_H

#include <pthread.h>

#include "metrics/metrics.h"

enum { MR_WEB_PICTURES = 512 };

typedef struct mr_web_pictures {
  pthread_mutex_t lock;
  bool ready;
  mr_picture_t *kept; /* [MR_WEB_PICTURES], heap */
  uint64_t next;      /* number of the next; the newest MR_WEB_PICTURES are there */
} mr_web_pictures_t;

bool mr_web_pictures_init(mr_web_pictures_t *w); /* false without memory */
void mr_web_pictures_fini(mr_web_pictures_t *w); /* all zero is fine */

/* Keeps a copy and tells its number. */
uint64_t mr_web_pictures_add(mr_web_pictures_t *w, const mr_picture_t *p);

/* The picture of a number as PNG (heap) of *n bytes; NULL: text is no number, or that picture is
   gone or still to come. */
void *mr_web_pictures_png(mr_web_pictures_t *w, const char *number, size_t *n);

#endif
