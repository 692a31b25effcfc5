/* Makes the index of an ArrayRecord file by reading each of its chunks once.  The footer says where
   they are, so that a damaged chunk costs its own records only.  A file without a good footer was
   cut short or never closed: its chunks are then followed from the first one to the damage. */
#include "loaders/formats/arrayrecord_scan.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "loaders/formats/riegeli.h"
#include "loaders/formats/shard_example.h"

static const uint64_t MAGIC = 0x71930e704fdae05e;

typedef struct array_chunk {
  int64_t at, n;
} array_chunk_t;

typedef struct array_scan {
  mr_shard_file_t *file;
  mr_shard_draft_t *draft;
  mr_diag_t *fault, *diag;
  uint8_t *data; /* [cap] of a chunk */
  size_t cap;
  mr_shard_group_t group;
  uint32_t record_column, chunk_column;
  mr_example_count_t *count;
  array_chunk_t *list; /* [n_list + 1] what the footer says; the last one is the footer itself */
  int64_t n_list;
} array_scan_t;

/* A fault of the contents ends the scan with MR_END. */
#define ARRAY_FAULT(t, ...) (mr_fail((t)->fault, MR_ERR_DATA, __VA_ARGS__), MR_END)

/* ---- chunks ---- */

static mr_err_t array_room(array_scan_t *t, size_t n) {
  if (n <= t->cap) return MR_OK;
  free(t->data);
  t->cap = n + n / 2;
  t->data = malloc(t->cap);
  if (t->data) return MR_OK;
  t->cap = 0;
  return mr_no_memory(t->diag, "a chunk of %zu bytes of %s", n, t->file->path);
}

/* Reads the header of the chunk at byte `at`, and where the chunk ends.  MR_END if it is no header,
   or it leads beyond the file. */
static mr_err_t array_head(array_scan_t *t, int64_t at, mr_riegeli_head_t *head, int64_t *end) {
  uint8_t data[MR_RIEGELI_HEAD_MOST];
  int64_t stop = mr_riegeli_place(at, MR_RIEGELI_HEAD);
  if (stop < 0 || stop > t->file->size) return MR_END;
  mr_err_t e = mr_shard_file_read(t->file, at, data, (size_t)(stop - at), t->diag);
  if (e != MR_OK) return e;
  mr_riegeli_join(data, at, (size_t)(stop - at));
  if (!mr_riegeli_head(data, head)) return MR_END;
  *end = mr_riegeli_end(at, head);
  return *end < 0 || *end > t->file->size ? MR_END : MR_OK;
}

/* Opens the chunk at [at,end).  MR_END if it is damaged. */
static mr_err_t array_open(array_scan_t *t, int64_t at, int64_t end) {
  mr_diag_t why = {0};
  if (end - at > MR_SHARD_PART_MAX) return MR_END;
  MR_TRY(array_room(t, (size_t)(end - at)));
  mr_err_t e = mr_shard_file_read(t->file, at, t->data, (size_t)(end - at), t->diag);
  if (e == MR_OK) e = mr_riegeli_group(t->data, at, end - at, &t->group, &why);
  if (e == MR_ERR_DATA && why.code) return MR_END;
  return why.code ? mr_diag_relay(t->diag, e, &why) : e;
}

static const uint8_t *item_at(const mr_shard_group_t *g, int64_t i, size_t *n) {
  size_t from = i ? g->end[i - 1] : 0;
  *n = g->end[i] - from;
  return g->data + from;
}

/* Adds the n records of the chunk at [at,end), whose items are open or, of a damaged one, not. */
static mr_err_t array_add(array_scan_t *t, int64_t at, int64_t end, int64_t n, bool open) {
  for (int64_t i = 0; i < n; i++) {
    size_t size;
    MR_TRY(mr_shard_draft_record(t->draft, NULL, 0, t->diag));
    MR_TRY(mr_shard_draft_item(t->draft, t->chunk_column, at, end - at, (uint32_t)i, t->diag));
    if (!open) continue;
    const uint8_t *data = item_at(&t->group, i, &size);
    mr_shard_draft_count(t->draft, t->record_column, (int64_t)size);
    MR_TRY(mr_example_count(t->count, data, size, t->diag));
  }
  return MR_OK;
}

static mr_err_t array_refuse(array_scan_t *t, int64_t at, uint8_t type) {
  return ARRAY_FAULT(t,
                     "%s: the chunk at byte %" PRId64
                     " is %s, want records that are not "
                     "transposed: write the file without \"transpose\"",
                     t->file->path, at, type == 't' ? "transposed" : "of an unknown type");
}

/* ---- the footer ---- */

/* The numbers of fields 1 to 3 of a message, and the bytes of its field 1.  False if malformed. */
typedef struct message {
  uint64_t number[4];
  const uint8_t *inner;
  size_t n_inner;
} message_t;

static bool message_varint(const uint8_t **at, const uint8_t *end, uint64_t *v) {
  *v = 0;
  for (int shift = 0; shift < 64 && *at < end; shift += 7) {
    uint8_t byte = *(*at)++;
    *v |= (uint64_t)(byte & 0x7F) << shift;
    if (byte < 0x80) return true;
  }
  return false;
}

static bool message_read(const uint8_t *at, size_t n, message_t *out) {
  const uint8_t *end = at + n;
  *out = (message_t){0};
  while (at < end) {
    uint64_t tag, v;
    if (!message_varint(&at, end, &tag) || !message_varint(&at, end, &v)) return false;
    uint64_t field = tag >> 3, type = tag & 7;
    if (type == 0) {
      if (field < 4) out->number[field] = v;
    } else if (type == 2 && v <= (uint64_t)(end - at)) {
      if (field == 1) out->inner = at, out->n_inner = (size_t)v;
      at += v;
    } else {
      return false;
    }
  }
  return true;
}

/* Whether the open group is a footer: each of its records but the first is of a chunk. */
static bool is_footer(const array_scan_t *t, message_t *whole) {
  message_t m;
  size_t n;
  if (t->group.n < 1) return false;
  const uint8_t *data = item_at(&t->group, 0, &n);
  return message_read(data, n, &m) && m.inner && message_read(m.inner, m.n_inner, whole) &&
         whole->number[1] == 1 && whole->number[2] == (uint64_t)(t->group.n - 1);
}

/* Takes the list of chunks from the open footer, which begins at byte `at`.  False if it cannot be
   right. */
static mr_err_t take_list(array_scan_t *t, int64_t at, bool *good) {
  message_t whole, m;
  size_t n;
  int64_t before = 0;
  uint64_t records = 0;
  *good = is_footer(t, &whole);
  if (!*good) return MR_OK;
  t->n_list = t->group.n - 1;
  t->list = malloc((size_t)t->group.n * sizeof *t->list);
  if (!t->list) return mr_no_memory(t->diag, "the chunks of %s", t->file->path);
  for (int64_t i = 0; i < t->n_list && *good; i++) {
    const uint8_t *data = item_at(&t->group, i + 1, &n);
    *good = message_read(data, n, &m) && m.number[1] > (uint64_t)before &&
            m.number[1] < (uint64_t)at && m.number[3] <= (uint64_t)t->file->size;
    if (!*good) break;
    before = (int64_t)m.number[1], records += m.number[3];
    *good = records <= (uint64_t)t->file->size;
    t->list[i] = (array_chunk_t){before, (int64_t)m.number[3]};
  }
  t->list[t->n_list] = (array_chunk_t){at, 0};
  *good = *good && records == whole.number[3];
  return MR_OK;
}

/* Finds the footer by the postscript.  t->list stays NULL without a good one. */
static mr_err_t array_footer(array_scan_t *t) {
  mr_riegeli_head_t head;
  message_t m;
  size_t n;
  bool good = false;
  int64_t end, at = t->file->size - MR_RIEGELI_BLOCK;
  if (at < MR_RIEGELI_BLOCK || at % MR_RIEGELI_BLOCK) return MR_OK;
  mr_err_t e = array_head(t, at, &head, &end);
  if (e == MR_OK) e = array_open(t, at, end);
  if (e != MR_OK) return e < 0 ? e : MR_OK;
  const uint8_t *data = t->group.n ? item_at(&t->group, 0, &n) : NULL;
  if (!data || !message_read(data, n, &m) || m.number[2] != MAGIC || m.number[1] >= (uint64_t)at)
    return MR_OK;
  at = (int64_t)m.number[1];
  e = array_head(t, at, &head, &end);
  if (e == MR_OK) e = array_open(t, at, end);
  if (e == MR_OK) e = take_list(t, at, &good);
  if (!good) free(t->list), t->list = NULL;
  return e < 0 ? e : MR_OK;
}

/* ---- the file ---- */

static mr_err_t scan_listed_chunk(array_scan_t *t, const array_chunk_t *c) {
  mr_riegeli_head_t head = {0};
  int64_t end = c[1].at;
  mr_err_t e = array_head(t, c->at, &head, &end);
  if (e < 0) return e;
  if (e == MR_OK && head.type != 'r') return array_refuse(t, c->at, head.type);
  bool good = e == MR_OK && head.n_records == c->n && end <= c[1].at;
  if (!good) end = c[1].at;
  if (good) e = array_open(t, c->at, end);
  if (e < 0) return e;
  if (good && e == MR_OK && t->group.n == c->n) return array_add(t, c->at, end, c->n, true);
  return array_add(t, c->at, end, c->n, false);
}

static mr_err_t fail_cut_short(array_scan_t *t) {
  return ARRAY_FAULT(t, "%s: has no list of chunks at its end: it was cut short, or not closed",
                     t->file->path);
}

/* Adds the chunk at *at and moves to the next. */
static mr_err_t scan_next(array_scan_t *t, int64_t *at) {
  mr_riegeli_head_t head;
  message_t whole;
  int64_t begin = *at;
  if (begin == t->file->size) return fail_cut_short(t);
  mr_err_t e = array_head(t, begin, &head, at);
  if (e == MR_END)
    return ARRAY_FAULT(t, "%s: is damaged, or ends within the chunk at byte %" PRId64,
                       t->file->path, begin);
  if (e < 0) return e;
  if (head.type == 't' || (head.type != 'r' && head.n_records))
    return array_refuse(t, begin, head.type);
  if (head.type != 'r') return MR_OK;
  e = array_open(t, begin, *at);
  if (e == MR_OK && is_footer(t, &whole)) return fail_cut_short(t);
  return e < 0 ? e : array_add(t, begin, *at, head.n_records, e == MR_OK);
}

static mr_err_t scan_chunks(array_scan_t *t) {
  mr_riegeli_head_t head;
  int64_t at = 0;
  mr_err_t e = array_head(t, 0, &head, &at);
  if (e == MR_END || (e == MR_OK && head.type != 's'))
    return ARRAY_FAULT(t, "%s: is not an ArrayRecord file", t->file->path);
  if (e == MR_OK) e = array_footer(t);
  for (int64_t i = 0; t->list && i < t->n_list && e == MR_OK; i++)
    e = scan_listed_chunk(t, &t->list[i]);
  while (!t->list && e == MR_OK) e = scan_next(t, &at);
  return e;
}

mr_err_t mr_arrayrecord_scan(mr_shard_file_t *file, mr_shard_draft_t *draft, mr_diag_t *fault,
                             mr_diag_t *diag) {
  array_scan_t t = {.file = file, .draft = draft, .fault = fault, .diag = diag};
  t.count = mr_example_count_new(draft);
  mr_err_t e = t.count ? MR_OK : mr_no_memory(diag, "an index of %s", file->path);
  if (e >= 0)
    e = mr_shard_draft_column(draft, "__record__", 10, MR_COLUMN_RECORD, &t.record_column, diag);
  if (e >= 0)
    e = mr_shard_draft_column(draft, "__chunk__", 9, MR_COLUMN_CHUNK, &t.chunk_column, diag);
  if (e >= 0) e = scan_chunks(&t);
  mr_example_count_free(t.count);
  mr_shard_group_fini(&t.group);
  free(t.data), free(t.list);
  return e < 0 ? e : MR_OK;
}
