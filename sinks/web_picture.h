/* The newest pictures of a run, which pages request by number.  They are kept as pixels and encoded
   as PNG on request, since most are never requested.  Any thread may call. */
#ifndef MR_SINKS_WEB_PICTURE_H
#define MR_SINKS_WEB_PICTURE_H

#include <pthread.h>

#include "metrics/metrics.h"

enum { MR_WEB_PICTURES = 512 };

typedef struct mr_web_pictures {
  pthread_mutex_t lock;
  bool ready;
  mr_picture_t *kept; /* [MR_WEB_PICTURES], heap */
  uint64_t next;      /* number of the next picture; the newest MR_WEB_PICTURES are kept */
} mr_web_pictures_t;

bool mr_web_pictures_init(mr_web_pictures_t *w); /* false without memory */
void mr_web_pictures_fini(mr_web_pictures_t *w); /* all zero is fine */

/* Keeps a copy of a picture, in place of the oldest if full, and returns its number, from 0. */
uint64_t mr_web_pictures_add(mr_web_pictures_t *w, const mr_picture_t *p);

/* Returns the picture of a number as a PNG of *n bytes, heap, which the caller frees.  NULL if the
   text is no number, if that picture is no longer or not yet there, or without memory or libpng. */
void *mr_web_pictures_png(mr_web_pictures_t *w, const char *number, size_t *n);

#endif
