/* Batches of random fields: sets of names, dtypes, dimensions and raggedness from a generator,
   values from the number of the buffer, so that the bytes of any of them can be computed at any
   time.
 */
#ifndef MR_TESTS_LINKS_SOME_FIELDS_H
#define MR_TESTS_LINKS_SOME_FIELDS_H

#include "base/dataset.h"
#include "pipeline/buffer.h"
#include "tests/random.h"

static inline mr_field_t some_field(round_t *r, int f) {
  static const int width[] = {1, 3, 40, 700};
  mr_field_t field = {.dtype = (mr_dtype_t)draw(r, MR_DTYPE_COUNT), .ndim = draw(r, 4)};
  if (one_in(r, 5)) field = mr_field_of_label(one_in(r, 2) ? 0 : 7);
  snprintf(field.name, sizeof field.name, "f%d%s", f, one_in(r, 3) ? ".of_a-long_name" : "");
  for (int i = 0; i < field.ndim; i++) field.dim[i] = width[draw(r, i ? 2 : 4)];
  field.ragged = field.ndim && one_in(r, 3);
  if (field.ndim == 3) field.layout = (mr_layout_t)draw(r, 3);
  return field;
}

static inline mr_spec_t some_spec(round_t *r) {
  mr_spec_t spec = {.flow = MR_FLOW_BATCHES,
                    .n_fields = 1 + draw(r, one_in(r, 4) ? MR_FIELDS_MAX : 5),
                    .batch = 1 + draw(r, 9),
                    .n_records = 4000,
                    .n_batches = 1000,
                    .n_words = draw(r, 3)};
  for (int f = 0; f < spec.n_fields; f++) spec.field[f] = some_field(r, f);
  return spec;
}

/* Everything of a batch but data, cap, refs and pool. */
static inline void some_fill(const mr_spec_t *spec, int64_t number, mr_buf_t *b) {
  round_t r = {.x = (uint64_t)number * 77 + (uint64_t)spec->n_fields};
  b->n = one_in(&r, 4) ? draw(&r, (int)spec->batch + 1) : (int)spec->batch;
  b->epoch = number / 1000, b->position = (number + 1) * spec->batch, b->first = draw(&r, 3);
  b->flags = one_in(&r, 5) ? MR_BUF_EPOCH_END : 0;
  for (int i = 0; i < b->n; i++) {
    b->key[i] = round_bits(&r), b->draw[i] = round_bits(&r), b->excluded[i] = one_in(&r, 6);
  }
  for (int i = 0; i < spec->n_words; i++) b->word[i] = draw(&r, 1000);
  for (int f = 0; f < spec->n_fields; f++) {
    const mr_field_t *field = &spec->field[f];
    int64_t *offset = b->field[f].offset;
    uint8_t *data = b->field[f].data;
    if (offset) offset[0] = 0;
    for (int i = 0; offset && i < b->n; i++)
      offset[i + 1] = offset[i] + (one_in(&r, 4) ? 0 : draw(&r, (int)field->dim[0] + 1));
    size_t bytes =
        offset ? (size_t)offset[b->n] * mr_field_row(field) : (size_t)b->n * mr_field_bytes(field);
    for (size_t i = 0; i < bytes && !field->label; i++) data[i] = (uint8_t)round_bits(&r);
    for (int i = 0; i < b->n && field->label; i++)
      ((int32_t *)(void *)data)[i] = b->excluded[i] ? MR_LABEL_NONE : draw(&r, 7);
  }
  b->size = mr_buf_bytes(spec, b, b->n);
}

/* NULL, or what of b is not as in want. */
static inline const char *some_differs(const mr_spec_t *spec, const mr_buf_t *b,
                                       const mr_buf_t *want) {
  size_t n = (size_t)want->n;
  if (b->n != want->n || b->size != want->size || b->first != want->first) return "sizes";
  if (b->epoch != want->epoch || b->position != want->position || b->flags != want->flags)
    return "numbers";
  if (memcmp(b->key, want->key, n * 8) || memcmp(b->draw, want->draw, n * 8)) return "keys";
  if (memcmp(b->excluded, want->excluded, n)) return "marks";
  if (spec->n_words && memcmp(b->word, want->word, (size_t)spec->n_words * 8)) return "words";
  for (int f = 0; f < spec->n_fields; f++) {
    const mr_buf_field_t *v = &b->field[f], *w = &want->field[f];
    size_t bytes = w->offset ? (size_t)w->offset[n] * mr_field_row(&spec->field[f])
                             : n * mr_field_bytes(&spec->field[f]);
    if (w->offset && (!v->offset || memcmp(v->offset, w->offset, (n + 1) * 8))) return "offsets";
    if (memcmp(v->data, w->data, bytes)) return spec->field[f].name;
  }
  for (int f = spec->n_fields; f < MR_FIELDS_MAX; f++)
    if (b->field[f].data) return "fields that are none";
  if ((void *)b->data != b->field[0].data) return "data";
  int label = mr_spec_label(spec);
  return (void *)b->label != (label < 0 ? NULL : b->field[label].data) ? "label" : NULL;
}

#endif
