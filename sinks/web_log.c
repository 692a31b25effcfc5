#include "sinks/web_log.h"

#include <stdlib.h>

static void thin_out(mr_web_log_t *l) {
  size_t kept = 0;
  bool turn = false;
  for (size_t i = 0; i < l->n; i++) {
    bool goes = i < l->n / 2 && !l->message[i].stays && (turn = !turn);
    if (goes)
      free(l->message[i].text);
    else
      l->message[kept++] = l->message[i];
  }
  l->n = kept;
  l->thinned++;
}

static bool make_room(mr_web_log_t *l) {
  if (l->n == MR_WEB_LOG_MAX) thin_out(l);
  if (l->n < l->cap) return true;
  if (l->n == MR_WEB_LOG_MAX) return false; /* nothing may go */
  size_t cap = l->cap ? 2 * l->cap : 256;
  mr_web_message_t *more = realloc(l->message, cap * sizeof *more);
  if (!more) return false;
  l->message = more, l->cap = cap;
  return true;
}

void mr_web_log_add(mr_web_log_t *l, char *text, bool stays) {
  if (!text) return;
  if (make_room(l))
    l->message[l->n++] = (mr_web_message_t){text, stays};
  else
    free(text);
}

void mr_web_log_fini(mr_web_log_t *l) {
  for (size_t i = 0; i < l->n; i++) free(l->message[i].text);
  free(l->message);
  *l = (mr_web_log_t){0};
}
