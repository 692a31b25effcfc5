/* The newest pictures for the page, in a ring and by number.  One is copied under the lock and
   encoded outside it, so that the training side never waits for PNG; a number that the ring has
   overwritten is simply missing. */
#include "sinks/web_private.h"

#include <ctype.h>
#include <stdlib.h>

#include "sinks/picture.h"

bool mr_web_pictures_init(mr_web_pictures_t *w) {
  w->kept = calloc(MR_WEB_PICTURES, sizeof *w->kept);
  w->ready = w->kept && pthread_mutex_init(&w->lock, NULL) == 0;
  return w->ready;
}

void mr_web_pictures_fini(mr_web_pictures_t *w) {
  if (w->ready) pthread_mutex_destroy(&w->lock);
  free(w->kept);
  *w = (mr_web_pictures_t){0};
}

uint64_t mr_web_pictures_add(mr_web_pictures_t *w, const mr_picture_t *p) {
  pthread_mutex_lock(&w->lock);
  w->kept[w->next % MR_WEB_PICTURES] = *p;
  uint64_t number = w->next++;
  pthread_mutex_unlock(&w->lock);
  return number;
}

void *mr_web_pictures_png(mr_web_pictures_t *w, const char *number, size_t *n) {
  char *end;
  mr_picture_t p;
  if (!isdigit((unsigned char)*number)) return NULL; /* strtoull takes signs and spaces */
  uint64_t i = strtoull(number, &end, 10);
  if (*end) return NULL;
  pthread_mutex_lock(&w->lock);
  bool there = i < w->next && w->next - i <= MR_WEB_PICTURES;
  if (there) p = w->kept[i % MR_WEB_PICTURES];
  pthread_mutex_unlock(&w->lock);
  return there ? mr_png_of(p.rgb, p.width, p.height, n) : NULL;
}
