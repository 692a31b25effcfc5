/* Parcels in memory, and which heads are well formed: a head comes from another process, and no
   field of it is used before it was checked here. */
#include "ranks/wire.h"

#include <stdlib.h>
#include <string.h>

typedef struct own_parcel {
  _Alignas(16) mr__parcel_t parcel;
  _Alignas(16) mr__head_t head;
  char data[];
} own_parcel_t;

static void drop_own_parcel(mr__parcel_t *p) { free(p); }

mr__parcel_t *mr__parcel_new(size_t bytes) {
  own_parcel_t *p = malloc(sizeof *p + bytes);
  if (!p) return NULL;
  p->head = (mr__head_t){.magic = MR__PARCEL_MAGIC, .bytes = bytes};
  p->parcel = (mr__parcel_t){.head = &p->head, .data = p->data, .drop = drop_own_parcel};
  return &p->parcel;
}

bool mr__head_is_good(const void *data, size_t n, int size) {
  mr__head_t h;
  if (n < sizeof h) return false;
  memcpy(&h, data, sizeof h);
  return h.magic == MR__PARCEL_MAGIC && h.kind >= MR__PARCEL_JOIN && h.kind <= MR__PARCEL_OPENING &&
         h.from < (uint32_t)size && h.bytes == n - sizeof h && memchr(h.id, 0, sizeof h.id);
}
