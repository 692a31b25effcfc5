/* The messages that a page opened later is sent first.  They grow to a limit of messages and of
   bytes and are then thinned: every second step of their older half goes, and everything else
   stays, as far as the limit of bytes allows it.  Messages are counted by reference, because slow
   pages still send from them after they have left the log. */
#include "sinks/web_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

mr_web_message_t *mr_web_message(const char *event, const char *text) {
  size_t room = strlen(text) + (event ? strlen(event) : 0) + sizeof "event: \ndata: \n\n";
  mr_web_message_t *m = malloc(sizeof *m + room);
  if (!m) return NULL;
  m->refs = 1, m->stays = false;
  m->n = (size_t)snprintf(m->text, room, "%s%s%sdata: %s\n\n", event ? "event: " : "",
                          event ? event : "", event ? "\n" : "", text);
  return m;
}

void mr_web_message_unref(mr_web_message_t *m) {
  if (m && --m->refs == 0) free(m);
}

/* Drops every second message of the older half that does not stay, or of all there.  False: there
   was none. */
static bool thin_out(mr_web_log_t *l, bool all) {
  size_t kept = 0, before = l->n;
  bool turn = false;
  for (size_t i = 0; i < l->n; i++) {
    bool goes = i < l->n / 2 && (all || !l->message[i]->stays) && (turn = !turn);
    if (goes)
      l->bytes -= l->message[i]->n, mr_web_message_unref(l->message[i]);
    else
      l->message[kept++] = l->message[i];
  }
  l->n = kept;
  l->thinned += kept < before;
  return kept < before;
}

static bool web_log_make_room(mr_web_log_t *l) {
  if (l->n == MR_WEB_LOG_MAX) thin_out(l, false);
  if (l->n < l->cap) return true;
  if (l->n == MR_WEB_LOG_MAX) return false; /* none could be dropped */
  size_t cap = l->cap ? 2 * l->cap : 256;
  mr_web_message_t **more = realloc(l->message, cap * sizeof(mr_web_message_t *));
  if (!more) return false;
  l->message = more, l->cap = cap;
  return true;
}

void mr_web_log_add(mr_web_log_t *l, const char *text, bool stays) {
  mr_web_message_t *m = web_log_make_room(l) ? mr_web_message(NULL, text) : NULL;
  if (!m) return;
  while (l->bytes + m->n > MR_WEB_LOG_BYTES && (thin_out(l, false) || thin_out(l, true))) continue;
  m->stays = stays;
  l->bytes += m->n;
  l->message[l->n++] = m;
}

void mr_web_log_fini(mr_web_log_t *l) {
  for (size_t i = 0; i < l->n; i++) mr_web_message_unref(l->message[i]);
  free(l->message);
  *l = (mr_web_log_t){0};
}
