/* A hash table of kernels' texts, open addressing: a graph has a thousand kernels, most of which
   have the text of another one. */
#include "model/backends/kernels/texts.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

static uint32_t *texts_slot(const mr_kernel_texts_t *t, uint64_t hash, const char *text) {
  size_t at = hash & (t->slots - 1);
  while (t->slot[at]) {
    const mr_kernel_kept_t *k = &t->kept[t->slot[at] - 1];
    if (k->hash == hash && !strcmp(k->text, text)) break;
    at = (at + 1) & (t->slots - 1);
  }
  return &t->slot[at];
}

/* Makes room for one text more. */
static bool texts_grow(mr_kernel_texts_t *t) {
  if (t->n < t->cap) return true;
  size_t cap = t->cap ? 2 * t->cap : 256;
  mr_kernel_kept_t *more = realloc(t->kept, cap * sizeof *more);
  if (more) t->kept = more;
  uint32_t *slot = calloc(2 * cap, sizeof *slot);
  if (!more || !slot) return free(slot), false;
  free(t->slot);
  t->cap = cap, t->slot = slot, t->slots = 2 * cap;
  for (size_t i = 0; i < t->n; i++) *texts_slot(t, more[i].hash, more[i].text) = (uint32_t)i + 1;
  return true;
}

bool mr_kernel_texts_add(mr_kernel_texts_t *t, const char *text, size_t *index) {
  uint64_t hash = XXH3_64bits(text, strlen(text));
  if (!texts_grow(t)) return false;
  uint32_t *slot = texts_slot(t, hash, text);
  if (!*slot) {
    char *own = strdup(text);
    if (!own) return false;
    t->kept[t->n] = (mr_kernel_kept_t){hash, own, NULL};
    *slot = (uint32_t)++t->n;
  }
  *index = *slot - 1;
  return true;
}

void mr_kernel_texts_fini(mr_kernel_texts_t *t) {
  for (size_t i = 0; i < t->n; i++) free(t->kept[i].text);
  free(t->kept);
  free(t->slot);
  *t = (mr_kernel_texts_t){0};
}
