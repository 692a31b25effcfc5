/* The block of an index: how it is laid out, and the checks that make one from a file safe to use.
   They are made on a copy in memory, which no other process can change afterwards.
   Files are little-endian, as every machine that millrace supports is. */
#include "loaders/shards/shard_index.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/spill.h"
#include "base/trusted.h"
#include "base/xio.h"

enum {
  FIRST_ROWS = 256,
  FIRST_COLUMNS = 32,
  SLOTS_EACH = 2, /* for each column that there is room for: looking for a name is short */
  END_BYTES = 4096,
  KIND_MAX = 16,
  TEXT_MORE = 1 << 20,    /* the fault */
  UNPACKED_MAX = 1 << 28, /* bytes of a value that the file holds compressed */
};
static const char MAGIC[8] = "MRSHARD1";

typedef struct head {
  char magic[8], kind[KIND_MAX];
  mr_shard_id_t id;
  uint64_t n_records, n_parts, n_columns, n_text;
  uint64_t fault;  /* in the text; 0: none */
  uint64_t digest; /* XXH3-64 of the block with this member 0; the last one */
} head_t;

_Static_assert(sizeof(head_t) == 96 && sizeof(mr_shard_part_t) == 24 &&
                   sizeof(mr_shard_column_t) == 40 && sizeof(mr_shard_record_t) == 16,
               "the rows of the file have no padding");

struct mr_shard_draft {
  mr_spill_t record, part, text; /* rows as in mr_shard_index_t */
  size_t n_records, n_parts, n_text;
  uint32_t n_columns;
  int64_t even;  /* records that the one record stands for; 0: it is one of many */
  uint32_t most; /* columns */
  uint32_t room; /* columns for which there is memory; a power of two */
  mr_shard_column_t *column;
  uint16_t *slot; /* [SLOTS_EACH * room], by the digests of names: 1 + the column; 0: none */
};
_Static_assert(MR_SHARD_COLUMNS_WIDE < UINT16_MAX, "a slot is always free, and its number fits");

/* ---- drafts ---- */

static mr_shard_record_t *draft_records(const mr_shard_draft_t *d) { return d->record.at; }
static mr_shard_part_t *draft_parts(const mr_shard_draft_t *d) { return d->part.at; }
static char *draft_text(const mr_shard_draft_t *d) { return d->text.at; }

/* Makes room for `want` rows, and at first for some more. */
static mr_err_t draft_grow(mr_spill_t *rows, size_t want, size_t each, mr_diag_t *diag) {
  return mr_spill_grow(rows, (want > FIRST_ROWS ? want : FIRST_ROWS) * each, "an index", diag);
}

/* The slot of a column, or the free one where it would be. */
static uint16_t *draft_slot(const mr_shard_draft_t *d, const char *name, size_t n, uint32_t kind) {
  size_t most = (size_t)SLOTS_EACH * d->room;
  size_t at = (size_t)XXH3_64bits_withSeed(name, n, kind) % most;
  for (; d->slot[at]; at = (at + 1) % most) {
    const mr_shard_column_t *c = &d->column[d->slot[at] - 1u];
    const char *has = draft_text(d) + c->name;
    if (c->kind == kind && !strncmp(has, name, n) && !has[n]) break;
  }
  return &d->slot[at];
}

/* Most drafts have few columns: memory for more is taken when they come. */
static bool draft_make_room(mr_shard_draft_t *d, uint32_t room) {
  mr_shard_column_t *column = realloc(d->column, room * sizeof *column);
  if (!column) return false;
  d->column = column;
  uint16_t *slot = calloc((size_t)SLOTS_EACH * room, sizeof *slot);
  if (!slot) return false;
  free(d->slot);
  d->slot = slot, d->room = room;
  for (uint32_t c = 0; c < d->n_columns; c++) {
    const char *name = draft_text(d) + column[c].name;
    *draft_slot(d, name, strlen(name), column[c].kind) = (uint16_t)(c + 1);
  }
  return true;
}

mr_shard_draft_t *mr_shard_draft_new(void) {
  mr_shard_draft_t *d = calloc(1, sizeof *d);
  if (!d) return NULL;
  d->record = d->part = d->text = MR_SPILL_NONE;
  d->most = MR_SHARD_COLUMNS_MAX;
  if (draft_grow(&d->text, 1, 1, NULL) < 0 || !draft_make_room(d, FIRST_COLUMNS))
    return mr_shard_draft_free(d), NULL;
  draft_text(d)[d->n_text++] = 0; /* place 0 means none */
  return d;
}

void mr_shard_draft_free(mr_shard_draft_t *d) {
  if (!d) return;
  mr_spill_free(&d->record), mr_spill_free(&d->part), mr_spill_free(&d->text);
  free(d->column), free(d->slot), free(d);
}

static mr_err_t draft_add_text(mr_shard_draft_t *d, const char *text, size_t n, uint64_t *place,
                               mr_diag_t *diag) {
  MR_TRY(draft_grow(&d->text, d->n_text + n + 1, 1, diag));
  *place = d->n_text;
  memcpy(draft_text(d) + d->n_text, text, n);
  draft_text(d)[d->n_text + n] = 0;
  d->n_text += n + 1;
  return MR_OK;
}

mr_err_t mr_shard_draft_record(mr_shard_draft_t *d, const char *key, size_t n, mr_diag_t *diag) {
  MR_TRY(draft_grow(&d->record, d->n_records + 1, sizeof(mr_shard_record_t), diag));
  mr_shard_record_t r = {.part = d->n_parts};
  if (key) MR_TRY(draft_add_text(d, key, n, &r.key, diag));
  draft_records(d)[d->n_records++] = r;
  return MR_OK;
}

void mr_shard_draft_widen(mr_shard_draft_t *d) { d->most = MR_SHARD_COLUMNS_WIDE; }

mr_err_t mr_shard_draft_column(mr_shard_draft_t *d, const char *name, size_t n, uint32_t kind,
                               uint32_t *column, mr_diag_t *diag) {
  if (n >= MR_SHARD_NAME_MAX || memchr(name, 0, n))
    return mr_fail(diag, MR_ERR_DATA, "a name of %zu bytes, want at most %d and no NUL", n,
                   MR_SHARD_NAME_MAX - 1);
  uint16_t *slot = draft_slot(d, name, n, kind);
  if (*slot) return *column = *slot - 1u, MR_OK;
  if (d->n_columns == d->most)
    return mr_fail(diag, MR_ERR_DATA, "more than %u different names of parts", d->most);
  if (d->n_columns == d->room) {
    if (!draft_make_room(d, 2 * d->room)) return mr_no_memory(diag, "the columns of an index");
    slot = draft_slot(d, name, n, kind);
  }
  mr_shard_column_t row = {.kind = kind};
  MR_TRY(draft_add_text(d, name, n, &row.name, diag));
  d->column[ *column = d->n_columns++] = row;
  *slot = (uint16_t)d->n_columns;
  return MR_OK;
}

void mr_shard_draft_count(mr_shard_draft_t *d, uint32_t column, int64_t size) {
  mr_shard_column_t *c = &d->column[column];
  if (!c->have || size < c->least) c->least = size;
  if (!c->have || size > c->most) c->most = size;
  c->have++;
}

void mr_shard_draft_total(mr_shard_draft_t *d, uint32_t column, int64_t have, int64_t least,
                          int64_t most) {
  mr_shard_column_t *c = &d->column[column];
  c->have = have, c->least = least, c->most = most;
}

mr_err_t mr_shard_draft_item(mr_shard_draft_t *d, uint32_t column, int64_t at, int64_t size,
                             uint32_t item, mr_diag_t *diag) {
  MR_TRY(draft_grow(&d->part, d->n_parts + 1, sizeof(mr_shard_part_t), diag));
  draft_parts(d)[d->n_parts++] =
      (mr_shard_part_t){.at = at, .size = size, .column = column, .item = item};
  mr_shard_draft_count(d, column, size);
  return MR_OK;
}

mr_err_t mr_shard_draft_part(mr_shard_draft_t *d, uint32_t column, int64_t at, int64_t size,
                             mr_diag_t *diag) {
  return mr_shard_draft_item(d, column, at, size, 0, diag);
}

void mr_shard_draft_even(mr_shard_draft_t *d, int64_t n) {
  d->even = n;
  for (uint32_t c = 0; c < d->n_columns; c++) d->column[c].have = n;
}

int64_t mr_shard_draft_parts(const mr_shard_draft_t *d) {
  return d->n_records ? (int64_t)(d->n_parts - draft_records(d)[d->n_records - 1].part) : 0;
}

uint32_t mr_shard_draft_column_of(const mr_shard_draft_t *d, int64_t i) {
  return draft_parts(d)[draft_records(d)[d->n_records - 1].part + (uint64_t)i].column;
}

/* ---- the block ---- */

static uint64_t digest_of(const head_t *h, size_t bytes) {
  head_t zeroed = *h;
  zeroed.digest = 0;
  XXH3_state_t *state = XXH3_createState();
  if (!state) return 0; /* a wrong digest: a new index is made */
  XXH3_64bits_reset(state);
  XXH3_64bits_update(state, &zeroed, sizeof zeroed);
  XXH3_64bits_update(state, h + 1, bytes - sizeof *h);
  uint64_t digest = XXH3_64bits_digest(state);
  XXH3_freeState(state);
  return digest;
}

/* Sets the pointers into a block whose head gives its true size. */
static void point_into(mr_shard_index_t *x) {
  const head_t *h = x->block;
  x->n_records = (int64_t)h->n_records, x->n_columns = (uint32_t)h->n_columns;
  x->record = (const mr_shard_record_t *)(h + 1);
  x->part = (const mr_shard_part_t *)(x->record + h->n_records + 1);
  x->column = (const mr_shard_column_t *)(x->part + h->n_parts);
  x->text = (const char *)(x->column + h->n_columns);
  x->fault = h->fault ? x->text + h->fault : NULL;
}

/* Takes the memory of a block. */
static mr_err_t take_block(mr_shard_index_t *x, size_t bytes, mr_diag_t *diag) {
  mr_spill_t memory = MR_SPILL_NONE;
  MR_TRY(mr_spill_grow(&memory, bytes, "an index", diag));
  mr_spill_settle(&memory);
  *x = (mr_shard_index_t){.block = memory.at, .bytes = bytes, .memory = memory};
  return MR_OK;
}

mr_err_t mr_shard_index_make(const mr_shard_draft_t *d, const char *kind, const mr_shard_id_t *id,
                             const char *fault, mr_shard_index_t *out, mr_diag_t *diag) {
  *out = (mr_shard_index_t){0};
  size_t n_fault = fault ? strlen(fault) + 1 : 0;
  head_t h = {.id = *id,
              .n_records = d->n_records,
              .n_parts = d->n_parts,
              .n_columns = d->n_columns,
              .n_text = d->n_text + n_fault,
              .fault = fault ? d->n_text : 0};
  memcpy(h.magic, MAGIC, sizeof h.magic);
  snprintf(h.kind, sizeof h.kind, "%s", kind);
  size_t bytes = sizeof h + (d->n_records + 1) * sizeof(mr_shard_record_t) +
                 d->n_parts * sizeof(mr_shard_part_t) + d->n_columns * sizeof *d->column + h.n_text;
  MR_TRY(take_block(out, bytes, diag));
  head_t *block = out->block;
  *block = h;
  point_into(out);
  if (d->n_records)
    memcpy((void *)out->record, d->record.at, d->n_records * sizeof(mr_shard_record_t));
  ((mr_shard_record_t *)out->record)[d->n_records] = (mr_shard_record_t){.part = d->n_parts};
  if (d->n_parts) memcpy((void *)out->part, d->part.at, d->n_parts * sizeof(mr_shard_part_t));
  memcpy((void *)out->column, d->column, d->n_columns * sizeof *d->column);
  memcpy((void *)out->text, d->text.at, d->n_text);
  if (fault) memcpy((char *)out->text + d->n_text, fault, n_fault);
  block->digest = digest_of(block, bytes);
  out->even = d->even > 0;
  if (out->even) out->n_records = d->even;
  return MR_OK;
}

/* Whether the counts of the head are those of a block of this size, of a file as large as it says:
   each record, each part and each byte of a key takes at least one byte there. */
static bool has_true_size(const head_t *h, size_t bytes) {
  uint64_t limit =
      bytes / sizeof(mr_shard_record_t); /* no count can be larger: nothing overflows */
  if (h->n_records >= limit || h->n_parts > limit || h->n_columns > MR_SHARD_COLUMNS_WIDE ||
      h->n_text > bytes || h->n_text < 1 || h->fault >= h->n_text)
    return false;
  uint64_t size = h->id.size < 0 ? 0 : (uint64_t)h->id.size;
  uint64_t more = TEXT_MORE + h->n_columns * MR_SHARD_NAME_MAX; /* names of columns, the fault */
  uint64_t keys = h->n_text > more ? h->n_text - more : 0;
  /* Halved, since twice the size may be more than 64 bits hold: a folder's index has the largest.
   */
  if (h->n_records > size || h->n_parts > size || (keys + 1) / 2 > size) return false;
  return bytes == sizeof *h + (h->n_records + 1) * sizeof(mr_shard_record_t) +
                      h->n_parts * sizeof(mr_shard_part_t) +
                      h->n_columns * sizeof(mr_shard_column_t) + h->n_text;
}

/* Whether every place and number in the rows lies where it must, so that users need no checks. */
static bool has_good_rows(const mr_shard_index_t *x) {
  const head_t *h = x->block;
  bool in_file[MR_SHARD_COLUMNS_WIDE] = {0}; /* the column has parts, whose sizes it counts */
  if (x->text[h->n_text - 1] || x->text[0]) return false;
  for (uint64_t i = 0; i <= h->n_records; i++) {
    uint64_t before = i ? x->record[i - 1].part : 0;
    if (x->record[i].part < before || x->record[i].part > h->n_parts ||
        x->record[i].key >= h->n_text)
      return false;
  }
  if (x->record[0].part || x->record[h->n_records].part != h->n_parts) return false;
  for (uint64_t i = 0; i < h->n_parts; i++) {
    const mr_shard_part_t *p = &x->part[i];
    if (p->at < 0 || p->size < 0 || p->at > h->id.size || p->size > h->id.size - p->at ||
        p->column >= h->n_columns || p->size > x->column[p->column].most ||
        p->size < x->column[p->column].least)
      return false;
    in_file[p->column] = true;
  }
  for (uint64_t c = 0; c < h->n_columns; c++) {
    const mr_shard_column_t *k = &x->column[c];
    int64_t most = in_file[c] || h->id.size > UNPACKED_MAX ? h->id.size : UNPACKED_MAX;
    if (k->name >= h->n_text || strlen(x->text + k->name) >= MR_SHARD_NAME_MAX || k->have < 0 ||
        k->have > h->id.size || k->least < 0 || k->most < k->least || k->most > most)
      return false;
  }
  return true;
}

/* NULL if a head fits a block of this size, of this kind and state of the shard. */
static const char *wrong_with_head(const head_t *h, size_t bytes, const char *kind,
                                   const mr_shard_id_t *id) {
  if (bytes < sizeof *h || memcmp(h->magic, MAGIC, sizeof h->magic)) return "is not an index file";
  if (strncmp(h->kind, kind, sizeof h->kind)) return "is an index of another kind";
  if (memcmp(&h->id, id, sizeof *id)) return "is of another state of the file";
  return has_true_size(h, bytes) ? NULL : "is damaged";
}

/* ---- files ---- */

static mr_err_t read_index_bytes(int fd, const char *path, void *to, size_t n, mr_diag_t *diag) {
  for (size_t have = 0; have < n;) {
    ssize_t got = pread(fd, (char *)to + have, n - have, (off_t)have);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return mr_fail(diag, MR_ERR_IO, "%s: cannot be read: %s", path, strerror(errno));
    if (got == 0) return mr_fail(diag, MR_ERR_DATA, "%s: has become shorter", path);
    have += (size_t)got;
  }
  return MR_OK;
}

/* Allocates no more than the head accounts for.  The head is checked again in the block, because
   the file may have changed between the two reads. */
static mr_err_t read_index(int fd, const char *path, const char *kind, const mr_shard_id_t *id,
                           mr_shard_index_t *out, mr_diag_t *diag) {
  struct stat st;
  head_t head = {0};
  if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
    return mr_fail(diag, MR_ERR_IO, "%s: is not a regular file", path);
  size_t bytes = (size_t)st.st_size;
  MR_TRY(read_index_bytes(fd, path, &head, bytes < sizeof head ? bytes : sizeof head, diag));
  const char *wrong = wrong_with_head(&head, bytes, kind, id);
  if (wrong) return mr_fail(diag, MR_ERR_DATA, "%s: %s", path, wrong);
  MR_TRY(take_block(out, bytes, diag));
  MR_TRY(read_index_bytes(fd, path, out->block, bytes, diag));
  wrong = wrong_with_head(out->block, bytes, kind, id);
  if (!wrong && ((head_t *)out->block)->digest != digest_of(out->block, bytes))
    wrong = "is damaged";
  if (!wrong) {
    point_into(out);
    if (!has_good_rows(out)) wrong = "is damaged";
  }
  return wrong ? mr_fail(diag, MR_ERR_DATA, "%s: %s", path, wrong) : MR_OK;
}

mr_err_t mr_shard_index_load(const char *path, const char *kind, const mr_shard_id_t *id,
                             mr_kept_t kept, const mr_trust_t *trust, mr_shard_index_t *out,
                             mr_diag_t *diag) {
  *out = (mr_shard_index_t){0};
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
  if (fd < 0 && errno == ELOOP)
    return mr_fail(diag, MR_ERR_UNAVAILABLE, "%s: it is a link, want a regular file", path);
  if (fd < 0) return mr_fail(diag, MR_ERR_IO, "%s: cannot be opened: %s", path, strerror(errno));
  mr_err_t e = mr_trusted(fd, path, kept, trust, diag);
  if (e >= 0) e = read_index(fd, path, kind, id, out, diag);
  close(fd);
  if (e < 0) mr_shard_index_close(out);
  return e;
}

mr_err_t mr_shard_index_save(const mr_shard_index_t *x, const char *path, const mr_trust_t *trust,
                             mr_diag_t *diag) {
  mr_newfile_t f;
  MR_TRY(mr_newfile_open_own(&f, path, diag));
  mr_trust_own(f.fd, trust);
  mr_err_t e = mr_write_all(f.fd, x->block, x->bytes, path, diag);
  if (e < 0) return mr_newfile_drop(&f), e;
  return mr_newfile_commit_unsynced(&f, diag);
}

void mr_shard_index_close(mr_shard_index_t *x) {
  if (x->block) mr_spill_free(&x->memory);
  *x = (mr_shard_index_t){0};
}

mr_err_t mr_shard_id_of(int fd, const char *path, mr_shard_id_t *id, mr_diag_t *diag) {
  uint8_t ends[2 * END_BYTES];
  struct stat st;
  if (fstat(fd, &st) < 0) return mr_fail(diag, MR_ERR_IO, "%s: %s", path, strerror(errno));
  if (!S_ISREG(st.st_mode)) return mr_fail(diag, MR_ERR_IO, "%s: is not a regular file", path);
  off_t last = st.st_size > END_BYTES ? st.st_size - END_BYTES : 0;
  ssize_t a = pread(fd, ends, END_BYTES, 0);
  ssize_t b = a < 0 ? -1 : pread(fd, ends + a, END_BYTES, last);
  if (b < 0) return mr_fail(diag, MR_ERR_IO, "%s: cannot be read: %s", path, strerror(errno));
  *id = (mr_shard_id_t){.size = st.st_size,
                        .mtime_ns = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec,
                        .digest = XXH3_64bits(ends, (size_t)(a + b))};
  return MR_OK;
}

mr_err_t mr_shard_id_for_index(int fd, const char *path, mr_shard_id_t *id, mr_diag_t *diag) {
  struct stat st;
  if (fstat(fd, &st) < 0) return mr_fail(diag, MR_ERR_IO, "%s: %s", path, strerror(errno));
  const uint64_t place[] = {(uint64_t)st.st_ino, (uint64_t)st.st_ctim.tv_sec,
                            (uint64_t)st.st_ctim.tv_nsec};
  id->digest = XXH3_64bits_withSeed(place, sizeof place, id->digest);
  return MR_OK;
}

void mr_shard_id_of_object(const mr_object_t *object, mr_shard_id_t *id) {
  *id = (mr_shard_id_t){.size = object->size,
                        .mtime_ns = object->mtime_ns,
                        .digest = XXH3_64bits_withSeed(object->etag, strlen(object->etag),
                                                       mr_remote_query(object->url))};
}
