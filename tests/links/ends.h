/* Both ends of a link for tests: a sender of numbered batches and a receiver that checks them. */
#ifndef MR_TESTS_LINKS_ENDS_H
#define MR_TESTS_LINKS_ENDS_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "links/link.h"

enum { ENDS_BATCH = 4, ENDS_WIDTH = 6000 };

static const char *const ends_class[] = {"cat", "dog", "ship"};
static const mr_dataset_t ends_dataset = {"test", 3, ends_class};

/* Batches of 4 records of n bytes. */
static inline mr_spec_t ends_spec(int64_t n) {
  return (mr_spec_t){
      .flow = MR_FLOW_BATCHES,
      .n_fields = 2,
      .field = {{.name = "image", .dtype = MR_U8, .ndim = 1, .dim = {n}}, mr_field_of_label(3)},
      .batch = ENDS_BATCH,
      .n_records = 4000,
      .n_batches = 1000,
      .dataset = &ends_dataset};
}

/* Makes b the buffer of this number; position counts records, so that a stream can start anywhere.
 */
static inline void ends_fill(mr_buf_t *b, const mr_spec_t *spec, int64_t number) {
  b->size = mr_spec_bytes(spec);
  b->n = ENDS_BATCH, b->epoch = number / 1000, b->position = (number + 1) * ENDS_BATCH;
  memset(b->data, (int)(number % 251), ENDS_BATCH * mr_field_bytes(spec->field));
  for (int i = 0; i < b->n; i++) {
    b->key[i] = (uint64_t)(number * ENDS_BATCH + i);
    b->draw[i] = b->key[i] * 3;
    b->label[i] = (int32_t)(b->key[i] % 3);
    b->excluded[i] = 0;
  }
}

/* The buffer of this number; NULL if the pool has none left. */
static inline mr_buf_t *ends_make(mr_pool_t *pool, const mr_spec_t *spec, int64_t number) {
  mr_buf_t *b = mr_pool_get(pool);
  if (b) ends_fill(b, spec, number);
  return b;
}

/* Whether b is the buffer of this number, whole. */
static inline bool ends_is(const mr_buf_t *b, const mr_spec_t *spec, int64_t number) {
  const unsigned char *at = b->data;
  if (b->seq != number || b->size != mr_spec_bytes(spec) || b->n != ENDS_BATCH) return false;
  if (b->epoch != number / 1000 || b->position != (number + 1) * ENDS_BATCH) return false;
  for (size_t i = 0; i < ENDS_BATCH * mr_field_bytes(spec->field); i++)
    if (at[i] != number % 251) return false;
  for (int i = 0; i < b->n; i++)
    if (b->key[i] != (uint64_t)(number * ENDS_BATCH + i) || b->draw[i] != b->key[i] * 3 ||
        b->label[i] != (int32_t)(b->key[i] % 3) || b->excluded[i])
      return false;
  return true;
}

/* Makes and sends what there is room for, up to number total, then ends. */
static inline void ends_send(mr_link_t *l, mr_pool_t *pool, const mr_spec_t *spec, int64_t *next,
                             int64_t total) {
  while (*next < total && mr_link_room(l)) {
    mr_buf_t *b = ends_make(pool, spec, *next);
    if (!b) return;
    mr_link_send(l, b);
    ++*next;
  }
  if (*next == total) mr_link_end(l);
}

#endif
