#include "links/wire.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the wire is little-endian, as we are");

static const char magic[4] = {'M', 'R', 'L', 'K'};

void mr__link_head(mr__link_head_t *head, mr__link_kind_t kind, uint64_t session, int64_t number,
                   size_t body, int frames) {
  *head = (mr__link_head_t){.version = MR__LINK_VERSION,
                            .kind = (uint8_t)kind,
                            .frames = (uint8_t)frames,
                            .session = session,
                            .number = number,
                            .body = (uint32_t)body};
  memcpy(head->magic, magic, sizeof magic);
}

static size_t least_body(int kind) {
  switch (kind) {
    case MR__LINK_KNOCK: return sizeof(mr__link_knock_t);
    case MR__LINK_HELLO: return sizeof(mr__link_hello_t);
    case MR__LINK_DATA: return sizeof(mr__link_data_t);
    case MR__LINK_ACK: return sizeof(mr__link_ack_t);
    default: return 0;
  }
}

bool mr__link_head_read(const void *frame, size_t n, mr__link_head_t *head, const char **why) {
  *why = "shorter than a head";
  if (n < sizeof *head) return false;
  memcpy(head, frame, sizeof *head);
  *why = "not a link's message";
  if (memcmp(head->magic, magic, sizeof magic)) return false;
  *why = "another version of the protocol";
  if (head->version != MR__LINK_VERSION) return false;
  *why = "an unknown kind";
  if (head->kind < 1 || head->kind >= MR__LINK_KIND_N || head->zero) return false;
  *why = "a body of another length than said";
  if (head->body != n - sizeof *head || head->body < least_body(head->kind)) return false;
  *why = "frames that do not belong to its kind";
  if (head->frames > (head->kind == MR__LINK_DATA ? 1 : 0)) return false;
  *why = "a number that no stream reaches";
  return head->number >= 0 && head->number <= MR_LINK_NUMBER_MAX;
}

static bool is_text(const char *text, size_t n) { return memchr(text, 0, n) != NULL; }

/* A limit is at most a window beyond the number that it is said with. */
static bool is_limit(int64_t limit, int64_t number) {
  return limit >= number && limit <= number + MR_LINK_WINDOW_MAX;
}

bool mr__link_hello_read(const void *body, size_t n, int64_t number, mr__link_hello_t *hello,
                         int64_t *word) {
  if (n < sizeof *hello) return false;
  memcpy(hello, body, sizeof *hello);
  if (!is_text(hello->name, sizeof hello->name) || !is_text(hello->host, sizeof hello->host))
    return false;
  if (hello->n_words > MR_LINK_WORDS || n != sizeof *hello + hello->n_words * sizeof *word)
    return false;
  memcpy(word, (const char *)body + sizeof *hello, hello->n_words * sizeof *word);
  for (uint32_t i = 0; i < hello->n_words; i++)
    if (word[i] < 0) return false;
  return hello->epoch >= 0 && hello->position >= 0 && hello->position <= MR_LINK_POSITION_MAX &&
         is_limit(hello->limit, number);
}

bool mr__link_ack_read(const void *body, size_t n, int64_t number, mr__link_ack_t *ack) {
  if (n != sizeof *ack) return false;
  memcpy(ack, body, sizeof *ack);
  return is_limit(ack->limit, number) && ack->committed >= 0 && ack->committed <= number;
}

size_t mr__link_payload(const mr_spec_t *spec, const mr_buf_t *b) {
  return spec->flow == MR_FLOW_BATCHES ? (size_t)b->n * mr_field_bytes(spec->field) : b->size;
}

mr__link_data_t mr__link_data_of(const mr_spec_t *spec, const mr_buf_t *b) {
  return (mr__link_data_t){.epoch = b->epoch,
                           .position = b->position,
                           .size = mr__link_payload(spec, b),
                           .first = b->first,
                           .n = b->n,
                           .flags = b->flags,
                           .n_words = spec->flow == MR_FLOW_BATCHES ? (uint32_t)spec->n_words : 0,
                           .where = MR__LINK_WHERE_PAYLOAD};
}

static char *put(char *at, const void *from, size_t n) {
  if (n) memcpy(at, from, n);
  return at + n;
}

size_t mr__link_data_write(const mr__link_data_t *d, const mr_buf_t *b, uint64_t session,
                           int64_t number, bool in_line, char *out) {
  size_t n = b->key ? (size_t)d->n : 0;
  bool known = d->where == MR__LINK_WHERE_POOL;
  char *at = put(out + sizeof(mr__link_head_t), d, sizeof *d);
  at = put(at, b->word, d->n_words * 8);
  if (!known) {
    at = put(at, b->key, n * 8);
    at = put(at, b->draw, n * 8);
    at = put(at, b->label, n * 4);
    if (in_line) at = put(at, b->data, d->size);
  }
  mr__link_head_t head;
  size_t body = (size_t)(at - out) - sizeof head;
  mr__link_head(&head, MR__LINK_DATA, session, number, body, known || in_line ? 0 : 1);
  memcpy(out, &head, sizeof head);
  return sizeof head + body;
}

/* Takes n bytes off the front of what is left. */
static const char *cut(const char **at, size_t *left, size_t n) {
  const char *part = *at;
  if (n > *left) return NULL;
  *at += n, *left -= n;
  return part;
}

static bool cut_arrays(const char **at, size_t *left, size_t n, mr__link_parts_t *p) {
  p->key = cut(at, left, n * 8);
  p->draw = cut(at, left, n * 8);
  p->label = cut(at, left, n * 4);
  return p->key && p->draw && p->label;
}

bool mr__link_labels_fit(const void *label, int n, const mr_spec_t *spec) {
  int classes = spec->dataset ? spec->dataset->n_classes : INT32_MAX; /* not yet by the field */
  for (int i = 0; i < n; i++) {
    int32_t v;
    memcpy(&v, (const char *)label + (size_t)i * sizeof v, sizeof v);
    if (v < -1 || v >= classes) return false;
  }
  return true;
}

/* Of batches the payload is that of n records: stages read as many. */
static bool numbers_fit(const mr__link_data_t *d, const mr_spec_t *spec) {
  bool batches = spec->flow == MR_FLOW_BATCHES;
  if (d->epoch < 0 || d->epoch > MR_LINK_NUMBER_MAX || d->position < 0 ||
      d->position > MR_LINK_POSITION_MAX || d->flags & ~(uint32_t)MR_BUF_EPOCH_END)
    return false;
  if (d->n < 0 || d->first < 0 || d->first > INT32_MAX - d->n) return false;
  if (!batches) return d->size <= mr_spec_bytes(spec) && !d->n_words;
  return d->n <= spec->batch && d->n_words == (uint32_t)spec->n_words &&
         d->size == (size_t)d->n * mr_field_bytes(spec->field);
}

bool mr__link_data_read(const void *body, size_t n, int frames, const mr_spec_t *spec,
                        mr__link_data_t *data, mr__link_parts_t *parts) {
  const char *at = body;
  size_t left = n;
  memset(parts, 0, sizeof *parts);
  const char *fixed = cut(&at, &left, sizeof *data);
  if (!fixed) return false;
  memcpy(data, fixed, sizeof *data);
  bool batches = spec->flow == MR_FLOW_BATCHES;
  if (!numbers_fit(data, spec) || data->where > MR__LINK_WHERE_POOL) return false;
  parts->word = cut(&at, &left, data->n_words * 8);
  if (!parts->word) return false;
  if (data->where == MR__LINK_WHERE_POOL) return !frames && !left;
  if (batches && !cut_arrays(&at, &left, (size_t)data->n, parts)) return false;
  if (batches && !mr__link_labels_fit(parts->label, data->n, spec)) return false;
  if (frames) return !left; /* the caller compares size with the frame's */
  parts->payload = at;
  return left == data->size;
}

/* ---- specs ---- */

typedef struct spec_wire {
  uint8_t flow, dtype, layout, ndim, sequential, holes, has_dataset, part;
  int64_t dim[MR_MAX_NDIM]; /* of a batch: B, then those of its first field */
  char name[MR_FIELD_NAME]; /* of that field; the other one is the label */
  int64_t n_records, n_batches, n_epochs;
  int32_t n_words, n_classes;
  float mean[3], std[3];
} spec_wire_t;

enum { CLASSES_MAX = 1000, SPEC_BYTES_MAX = 1 << 30 };

static bool put_text(char *out, size_t cap, size_t *at, const char *text) {
  size_t n = strlen(text) + 1;
  if (n > cap - *at) return false;
  memcpy(out + *at, text, n);
  *at += n;
  return true;
}

bool mr__link_carries(const mr_spec_t *spec) {
  if (spec->flow == MR_FLOW_BYTES) return true;
  return spec->flow == MR_FLOW_BATCHES && spec->n_fields == 2 && !spec->field[0].ragged &&
         spec->field[1].label && spec->field[0].ndim < MR_MAX_NDIM;
}

size_t mr__link_spec_write(const mr_spec_t *spec, void *out, size_t cap) {
  const mr_dataset_t *d = spec->dataset;
  const mr_field_t *field = spec->field;
  bool batches = spec->flow == MR_FLOW_BATCHES;
  if (cap < sizeof(spec_wire_t) || !mr__link_carries(spec)) return 0;
  spec_wire_t w = {.flow = (uint8_t)spec->flow,
                   .dtype = (uint8_t)field->dtype,
                   .layout = (uint8_t)field->layout,
                   .ndim = (uint8_t)(field->ndim + batches),
                   .sequential = spec->sequential,
                   .holes = spec->holes,
                   .has_dataset = d != NULL,
                   .part = spec->part,
                   .n_records = spec->n_records,
                   .n_batches = spec->n_batches,
                   .n_epochs = spec->n_epochs,
                   .n_words = spec->n_words,
                   .n_classes = d ? d->n_classes : 0};
  w.dim[0] = spec->batch;
  memcpy(w.dim + batches, field->dim, (size_t)field->ndim * sizeof *w.dim);
  memcpy(w.name, field->name, sizeof w.name);
  memcpy(w.mean, field->mean, sizeof w.mean);
  memcpy(w.std, field->std, sizeof w.std);
  size_t at = sizeof w;
  memcpy(out, &w, sizeof w);
  if (d && !put_text(out, cap, &at, d->origin ? d->origin : "")) return 0;
  for (int i = 0; d && i < d->n_classes; i++)
    if (!put_text(out, cap, &at, d->class_name[i])) return 0;
  return at;
}

/* One block: the dataset, the pointers to its names, the names. */
static mr_dataset_t *read_names(const char *text, size_t n, int n_classes) {
  size_t strings = 0;
  for (size_t i = 0; i < n; i++) strings += !text[i];
  if (n_classes < 0 || n_classes > CLASSES_MAX || strings != (size_t)n_classes + 1 || text[n - 1])
    return NULL;
  mr_dataset_t *d = malloc(sizeof *d + (size_t)n_classes * sizeof(char *) + n);
  if (!d) return NULL;
  const char **name = (const char **)(d + 1);
  char *copy = (char *)(name + n_classes);
  memcpy(copy, text, n);
  *d = (mr_dataset_t){copy, n_classes, name};
  for (int i = 0; i < n_classes; i++) name[i] = copy += strlen(copy) + 1;
  return d;
}

static bool spec_is_sane(const spec_wire_t *w) {
  if (w->flow != MR_FLOW_BATCHES && w->flow != MR_FLOW_BYTES) return false;
  if (w->dtype >= MR_DTYPE_COUNT || w->layout > MR_LAYOUT_HWC || w->ndim > MR_MAX_NDIM)
    return false;
  if (w->flow == MR_FLOW_BATCHES && (w->ndim < 1 || w->dim[0] < 1)) return false;
  if (!memchr(w->name, 0, sizeof w->name) || !mr_field_name_ok(w->name)) return false;
  if (w->flow == MR_FLOW_BATCHES && !strcmp(w->name, "label")) return false;
  if (w->n_words < 0 || w->n_words > MR_LINK_WORDS) return false;
  if (w->n_records < 0 || w->n_batches < 0 || w->n_epochs < 0) return false;
  uint64_t bytes = 8;
  for (int i = 0; i < w->ndim; i++) {
    if (w->dim[i] < 0 || w->dim[i] > SPEC_BYTES_MAX) return false;
    bytes *= (uint64_t)w->dim[i];
    if (bytes > SPEC_BYTES_MAX * UINT64_C(8)) return false;
  }
  return true;
}

bool mr__link_spec_read(const void *in, size_t n, mr_spec_t *spec, void **names) {
  spec_wire_t w;
  *names = NULL;
  if (n < sizeof w) return false;
  memcpy(&w, in, sizeof w);
  if (!spec_is_sane(&w)) return false;
  bool batches = w.flow == MR_FLOW_BATCHES;
  *spec = (mr_spec_t){.flow = w.flow,
                      .n_fields = batches ? 2 : 1,
                      .field = {{.dtype = w.dtype, .layout = w.layout, .ndim = w.ndim - batches},
                                mr_field_of_label(w.n_classes)},
                      .batch = batches ? w.dim[0] : 0,
                      .n_records = w.n_records,
                      .n_batches = w.n_batches,
                      .n_epochs = w.n_epochs,
                      .sequential = w.sequential,
                      .holes = w.holes,
                      .part = w.part,
                      .n_words = w.n_words};
  mr_field_t *field = spec->field;
  memcpy(field->name, w.name, sizeof w.name);
  memcpy(field->dim, w.dim + batches, (size_t)field->ndim * sizeof *w.dim);
  memcpy(field->mean, w.mean, sizeof w.mean);
  memcpy(field->std, w.std, sizeof w.std);
  if (!batches) memset(&spec->field[1], 0, sizeof spec->field[1]);
  if (!w.has_dataset) return n == sizeof w;
  if (n == sizeof w) return false;
  *names = read_names((const char *)in + sizeof w, n - sizeof w, w.n_classes);
  spec->dataset = *names;
  return *names != NULL;
}

bool mr__link_spec_same(const mr_spec_t *a, const mr_spec_t *b) {
  return a->flow == b->flow && a->batch == b->batch && mr_spec_alike(a, b) &&
         a->n_records == b->n_records && a->n_batches == b->n_batches &&
         a->n_epochs == b->n_epochs && a->n_words == b->n_words &&
         (a->dataset ? a->dataset->n_classes : 0) == (b->dataset ? b->dataset->n_classes : 0);
}
