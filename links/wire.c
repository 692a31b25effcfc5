/* Messages of the protocol as bytes: writing them, and checking every length and number of those
   that come. */
#include "links/wire.h"

#include <stdio.h>
#include <string.h>

#include "base/dataset.h"

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
  if (head->frames > (head->kind == MR__LINK_DATA ? MR__LINK_FRAMES - 1 : 0)) return false;
  *why = "a number that no stream reaches";
  return head->number >= 0 && head->number <= MR_LINK_NUMBER_MAX;
}

bool mr__link_is_foreign(const void *frame, size_t n, int *kind, char *why, size_t cap) {
  mr__link_head_t head;
  if (n < offsetof(mr__link_head_t, frames)) return false;
  memcpy(&head, frame, offsetof(mr__link_head_t, frames));
  if (memcmp(head.magic, magic, sizeof magic) || head.version == MR__LINK_VERSION) return false;
  *kind = head.kind;
  snprintf(why, cap,
           "the peer speaks version %d of the links' protocol, this program version %d: run the "
           "same millrace on both ends",
           head.version, MR__LINK_VERSION);
  return true;
}

static bool wire_is_text(const char *text, size_t n) { return memchr(text, 0, n) != NULL; }

/* A limit is at most a window beyond the number in the same message. */
static bool is_limit(int64_t limit, int64_t number) {
  return limit >= number && limit <= number + MR_LINK_WINDOW_MAX;
}

bool mr__link_hello_read(const void *body, size_t n, int64_t number, mr__link_hello_t *hello,
                         int64_t *word) {
  if (n < sizeof *hello) return false;
  memcpy(hello, body, sizeof *hello);
  if (!wire_is_text(hello->name, sizeof hello->name) ||
      !wire_is_text(hello->host, sizeof hello->host))
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

/* ---- buffers ---- */

size_t mr__link_field_bytes(const mr_spec_t *spec, const mr_buf_t *b, int f) {
  if (spec->flow != MR_FLOW_BATCHES) return b->size;
  const int64_t *offset = b->field[f].offset;
  return offset ? (size_t)offset[b->n] * mr_field_row(&spec->field[f])
                : (size_t)b->n * mr_field_bytes(&spec->field[f]);
}

mr__link_data_t mr__link_data_of(const mr_spec_t *spec, const mr_buf_t *b, size_t in_line) {
  mr__link_data_t d = {.epoch = b->epoch,
                       .position = b->position,
                       .first = b->first,
                       .n = b->n,
                       .flags = b->flags,
                       .n_words = spec->flow == MR_FLOW_BATCHES ? (uint32_t)spec->n_words : 0,
                       .where = MR__LINK_WHERE_PAYLOAD};
  for (int f = 0; f < spec->n_fields; f++) {
    size_t bytes = mr__link_field_bytes(spec, b, f);
    d.size += bytes;
    if (bytes > in_line) d.apart |= UINT32_C(1) << f;
  }
  return d;
}

static bool is_apart(const mr__link_data_t *d, int f) { return d->apart >> f & 1; }

size_t mr__link_first_bytes(const mr__link_data_t *d, const mr_spec_t *spec, const mr_buf_t *b) {
  size_t n = spec->flow == MR_FLOW_BATCHES ? (size_t)d->n : 0;
  size_t bytes = sizeof(mr__link_head_t) + sizeof *d + d->n_words * 8 + n * 17;
  for (int f = 0; f < spec->n_fields; f++) {
    if (spec->field[f].ragged) bytes += (n + 1) * 8;
    if (!is_apart(d, f)) bytes += mr__link_field_bytes(spec, b, f);
  }
  return bytes;
}

size_t mr__link_first_max(const mr_spec_t *spec) {
  size_t n = spec->flow == MR_FLOW_BATCHES ? (size_t)spec->batch : 0;
  size_t bytes = sizeof(mr__link_head_t) + sizeof(mr__link_data_t) + (size_t)spec->n_words * 8;
  return bytes + n * 17 + (size_t)spec->n_fields * ((n + 1) * 8 + MR__LINK_INLINE);
}

static char *wire_put(char *at, const void *from, size_t n) {
  if (n) memcpy(at, from, n);
  return at + n;
}

static char *put_records(char *at, const mr__link_data_t *d, const mr_spec_t *spec,
                         const mr_buf_t *b) {
  size_t n = (size_t)d->n;
  at = wire_put(at, b->key, n * 8);
  at = wire_put(at, b->draw, n * 8);
  for (int f = 0; f < spec->n_fields; f++)
    if (spec->field[f].ragged) at = wire_put(at, b->field[f].offset, (n + 1) * 8);
  return wire_put(at, b->excluded, n);
}

size_t mr__link_data_write(const mr__link_data_t *d, const mr_spec_t *spec, const mr_buf_t *b,
                           uint64_t session, int64_t number, char *out) {
  bool batches = spec->flow == MR_FLOW_BATCHES, known = d->where == MR__LINK_WHERE_POOL;
  int frames = 0;
  char *at = wire_put(out + sizeof(mr__link_head_t), d, sizeof *d);
  at = wire_put(at, b->word, d->n_words * 8);
  if (!known && batches) at = put_records(at, d, spec, b);
  for (int f = 0; !known && f < spec->n_fields; f++) {
    const void *from = batches ? b->field[f].data : b->data;
    if (is_apart(d, f))
      frames++;
    else
      at = wire_put(at, from, mr__link_field_bytes(spec, b, f));
  }
  mr__link_head_t head;
  size_t body = (size_t)(at - out) - sizeof head;
  mr__link_head(&head, MR__LINK_DATA, session, number, body, frames);
  memcpy(out, &head, sizeof head);
  return sizeof head + body;
}

/* ---- buffers, checked ---- */

/* Takes n bytes off the front of the remaining ones; NULL if there are fewer. */
static const char *wire_take(const char **at, size_t *left, size_t n) {
  const char *part = *at;
  if (n > *left) return NULL;
  *at += n, *left -= n;
  return part;
}

/* The number of classes of a label field: those it names, its own number or, for the only label,
   the dataset's; the least of them. */
static int wire_classes_of(const mr_spec_t *spec, int f) {
  int own = spec->field[f].n_classes ? spec->field[f].n_classes : INT32_MAX;
  if (spec->field[f].classes && spec->field[f].classes->n < own) own = spec->field[f].classes->n;
  int named = spec->dataset && spec->dataset->n_classes && mr_spec_label(spec) == f
                  ? spec->dataset->n_classes
                  : INT32_MAX;
  return own < named ? own : named;
}

bool mr__link_labels_fit(const void *label, int n, const mr_spec_t *spec, int f) {
  int classes = wire_classes_of(spec, f);
  for (int i = 0; i < n; i++) {
    int32_t v;
    memcpy(&v, (const char *)label + (size_t)i * sizeof v, sizeof v);
    if (v < MR_LABEL_NONE || v >= classes) return false;
  }
  return true;
}

bool mr__link_offsets_fit(const void *offset, int n, const mr_field_t *field, int64_t *rows) {
  int64_t at, was = 0;
  for (int i = 0; i <= n; i++) {
    memcpy(&at, (const char *)offset + (size_t)i * sizeof at, sizeof at);
    if (at < was || at - was > (i ? field->dim[0] : 0)) return false;
    was = at;
  }
  *rows = was;
  return true;
}

static bool numbers_fit(const mr__link_data_t *d, const mr_spec_t *spec) {
  if (d->epoch < 0 || d->epoch > MR_LINK_NUMBER_MAX || d->position < 0 ||
      d->position > MR_LINK_POSITION_MAX || d->flags & ~(uint32_t)MR_BUF_EPOCH_END)
    return false;
  if (d->n < 0 || d->first < 0 || d->first > INT32_MAX - d->n) return false;
  if (d->where > MR__LINK_WHERE_POOL || d->apart >> spec->n_fields || d->zero) return false;
  if (d->size > mr_spec_bytes(spec)) return false;
  if (spec->flow != MR_FLOW_BATCHES) return !d->n_words;
  return d->n <= spec->batch && d->n_words == (uint32_t)spec->n_words;
}

/* Splits off keys, draws, offsets and marks; the offsets give the sizes of ragged fields. */
static bool cut_records(const char **at, size_t *left, const mr__link_data_t *d,
                        const mr_spec_t *spec, mr__link_parts_t *p) {
  size_t n = (size_t)d->n;
  p->key = wire_take(at, left, n * 8);
  p->draw = wire_take(at, left, n * 8);
  for (int f = 0; f < spec->n_fields; f++) {
    const mr_field_t *field = &spec->field[f];
    int64_t rows;
    p->bytes[f] = n * mr_field_bytes(field);
    if (!field->ragged) continue;
    p->offset[f] = wire_take(at, left, (n + 1) * 8);
    if (!p->offset[f] || !mr__link_offsets_fit(p->offset[f], d->n, field, &rows)) return false;
    p->bytes[f] = (size_t)rows * mr_field_row(field);
  }
  p->excluded = wire_take(at, left, n);
  return p->key && p->draw && p->excluded;
}

bool mr__link_data_read(const void *body, size_t n, int n_frames, const mr_spec_t *spec,
                        mr__link_data_t *data, mr__link_parts_t *parts) {
  const char *at = body;
  size_t left = n, size = 0;
  memset(parts, 0, sizeof *parts);
  const char *fixed = wire_take(&at, &left, sizeof *data);
  if (!fixed) return false;
  memcpy(data, fixed, sizeof *data);
  if (!numbers_fit(data, spec)) return false;
  parts->word = wire_take(&at, &left, data->n_words * 8);
  if (!parts->word) return false;
  if (data->where == MR__LINK_WHERE_POOL) return !n_frames && !left;
  bool batches = spec->flow == MR_FLOW_BATCHES;
  if (batches && !cut_records(&at, &left, data, spec, parts)) return false;
  if (!batches) parts->bytes[0] = data->size;
  for (int f = 0; f < spec->n_fields; f++) {
    size += parts->bytes[f];
    if (is_apart(data, f))
      n_frames--;
    else if (!(parts->value[f] = wire_take(&at, &left, parts->bytes[f])))
      return false;
    if (spec->field[f].label && parts->value[f] &&
        !mr__link_labels_fit(parts->value[f], data->n, spec, f))
      return false;
  }
  return !left && !n_frames && size == data->size;
}
