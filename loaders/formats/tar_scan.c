/* Reads the headers of an archive one after the other and skips the contents.  Nothing is unpacked,
   so a member's name is only a name: links, folders and devices are passed over, and paths that
   lead out of the archive do no harm. */
#include "loaders/formats/tar_scan.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/file_kind.h"

enum { BLOCK = 512, NAME_MAX_BYTES = 4096, EXTRA_MAX = 1 << 20 /* bytes of a pax header */ };

/* A header block.  All members are bytes: it may lie anywhere. */
typedef struct block {
  char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], sum[8], type, link[100];
  char magic[6], version[2], uname[32], gname[32], major[8], minor[8], prefix[155], rest[12];
} block_t;
_Static_assert(sizeof(block_t) == BLOCK, "a header is one block");

/* What headers before a member's own say of it. */
typedef struct extra {
  char name[NAME_MAX_BYTES];
  int64_t size;
  bool has_name, has_size;
} extra_t;

typedef struct tar {
  mr_shard_file_t *file;
  int64_t size, at; /* of the file; of the next header */
  const char *path;
  mr_shard_draft_t *draft;
  mr_diag_t *fault, *diag;
  extra_t extra;
  char key[NAME_MAX_BYTES]; /* of the last sample; "" before the first */
  uint32_t key_column;
  int n_plain;    /* members whose name has no extension */
  uint64_t *hash; /* [n_hashes] of the samples' keys, in room for has_room */
  size_t n_hashes, has_room;
} tar_t;

/* A fault of the contents: the scan ends, and what was found stays. */
#define TAR_FAULT(t, ...) (mr_fail((t)->fault, MR_ERR_DATA, __VA_ARGS__), MR_END)

/* ---- reading ---- */

/* MR_END if the file is too short or a fault is noted; MR_ERR_IO. */
static mr_err_t tar_read(tar_t *t, int64_t at, void *to, size_t n) {
  mr_err_t e = mr_shard_file_read(t->file, at, to, n, t->diag);
  return e == MR_END ? TAR_FAULT(t, "%s: ends within a header at byte %" PRId64, t->path, at) : e;
}

/* A number in octal digits, or in base 256 if the first bit is set; -1 if it is neither. */
static int64_t tar_number(const char *field, int n) {
  const uint8_t *f = (const uint8_t *)field;
  int64_t v = 0;
  int i = 0;
  if (*f & 0x80) {
    for (i = 0; i < n; i++) {
      uint8_t byte = i ? f[i] : f[i] & 0x7F;
      if (v >> 54) return -1;
      v = v << 8 | byte;
    }
    return v;
  }
  while (i < n && f[i] == ' ') i++;
  int first = i;
  for (; i < n && f[i] >= '0' && f[i] <= '7'; i++) v = v << 3 | (f[i] - '0');
  bool over = i == n || f[i] == 0;
  if (i == first) return over ? 0 : -1; /* an empty field is 0 */
  return over || f[i] == ' ' ? v : -1;
}

/* The sum counts its own field as blanks; some old programs summed signed bytes. */
static bool has_right_sum(const block_t *b) {
  const uint8_t *u = (const uint8_t *)b;
  int64_t plain = 0, with_sign = 0;
  for (int i = 0; i < BLOCK; i++) {
    bool own = i >= (int)offsetof(block_t, sum) && i < (int)offsetof(block_t, sum) + 8;
    plain += own ? ' ' : u[i];
    with_sign += own ? ' ' : (int8_t)u[i];
  }
  int64_t sum = tar_number(b->sum, sizeof b->sum);
  return sum == plain || sum == with_sign;
}

static bool is_zero_block(const block_t *b) {
  static const char zero[BLOCK];
  return !memcmp(b, zero, BLOCK);
}

/* ---- headers that describe the next member ---- */

/* The contents of a small member as a string at *text (heap, the caller frees it). */
static mr_err_t read_text(tar_t *t, int64_t at, int64_t size, char **text) {
  *text = NULL;
  if (size > EXTRA_MAX)
    return TAR_FAULT(t, "%s: a header of %" PRId64 " bytes at byte %" PRId64 ", want at most %d",
                     t->path, size, at, EXTRA_MAX);
  *text = malloc((size_t)size + 1);
  if (!*text) return mr_no_memory(t->diag, "a header of %s", t->path);
  (*text)[size] = 0;
  return tar_read(t, at, *text, (size_t)size);
}

static mr_err_t take_name(tar_t *t, const char *name, size_t n) {
  if (n >= sizeof t->extra.name)
    return TAR_FAULT(t, "%s: a name of %zu bytes at byte %" PRId64 ", want at most %zu", t->path, n,
                     t->at, sizeof t->extra.name - 1);
  memcpy(t->extra.name, name, n), t->extra.name[n] = 0;
  t->extra.has_name = true;
  return MR_OK;
}

static mr_err_t bad_pax(tar_t *t) {
  return TAR_FAULT(t, "%s: the pax header at byte %" PRId64 " is damaged", t->path, t->at);
}

/* One "LENGTH NAME=VALUE\n". */
static mr_err_t take_pax_row(tar_t *t, const char *name, size_t n_name, const char *value,
                             size_t n) {
  if (n_name == 4 && !memcmp(name, "path", 4)) return take_name(t, value, n);
  if (n_name >= 10 && !memcmp(name, "GNU.sparse", 10))
    return TAR_FAULT(t, "%s: holds a sparse member at byte %" PRId64 ", want archives without",
                     t->path, t->at);
  if (n_name != 4 || memcmp(name, "size", 4)) return MR_OK;
  if (n < 1 || n > 18 || strspn(value, "0123456789") != n) return bad_pax(t);
  t->extra.size = strtoll(value, NULL, 10);
  t->extra.has_size = true;
  return MR_OK;
}

static mr_err_t take_pax(tar_t *t, const char *text, size_t size) {
  for (size_t at = 0; at < size;) {
    char *end;
    if (text[at] < '0' || text[at] > '9') return bad_pax(t);
    unsigned long long n = strtoull(text + at, &end, 10);
    const char *name = end + 1;
    if (*end != ' ' || n > size - at || n < (size_t)(name - (text + at)) + 2 ||
        text[at + n - 1] != '\n')
      return bad_pax(t);
    const char *stop = text + at + n - 1, *equals = memchr(name, '=', (size_t)(stop - name));
    if (!equals) return bad_pax(t);
    mr_err_t e =
        take_pax_row(t, name, (size_t)(equals - name), equals + 1, (size_t)(stop - equals - 1));
    if (e != MR_OK) return e;
    at += n;
  }
  return MR_OK;
}

/* A GNU long name, or a pax header. */
static mr_err_t take_extra(tar_t *t, char type, int64_t at, int64_t size) {
  char *text;
  mr_err_t e = read_text(t, at, size, &text);
  if (e == MR_OK)
    e = type == 'L' ? take_name(t, text, strlen(text)) : take_pax(t, text, (size_t)size);
  free(text);
  return e;
}

/* ---- members ---- */

/* The name of a member, from the headers before it or its own, into name[NAME_MAX_BYTES]. */
static void tar_name_of(const extra_t *extra, const block_t *b, char *name) {
  bool posix = !memcmp(b->magic, "ustar", 6); /* GNU's own magic has no prefix */
  if (extra->has_name)
    memcpy(name, extra->name, NAME_MAX_BYTES);
  else if (posix && b->prefix[0])
    snprintf(name, NAME_MAX_BYTES, "%.155s/%.100s", b->prefix, b->name);
  else
    snprintf(name, NAME_MAX_BYTES, "%.100s", b->name);
}

/* Whether the name is of a folder that WebDataset keeps for itself, "__meta__/x". */
static bool is_meta(const char *name) {
  size_t n = strcspn(name, "/");
  return n >= 4 && !memcmp(name, "__", 2) && !memcmp(name + n - 2, "__", 2);
}

/* Cuts "dir/key.ext" at the first dot behind the last slash.  False for a name without one, and for
   one that begins with a dot (a hidden file, such as those of macOS). */
static bool cut_name(char *name, char **ext) {
  char *slash = strrchr(name, '/'), *base = slash ? slash + 1 : name, *dot = strchr(base, '.');
  if (!dot || dot == base || !dot[1] || is_meta(name)) return false;
  *dot = 0, *ext = dot + 1;
  for (char *c = *ext; *c; c++) *c = (char)tolower((unsigned char)*c);
  return true;
}

static bool sample_has(const tar_t *t, uint32_t column) {
  for (int64_t i = 0; i < mr_shard_draft_parts(t->draft); i++)
    if (mr_shard_draft_column_of(t->draft, i) == column) return true;
  return false;
}

static mr_err_t begin_sample(tar_t *t, const char *key) {
  snprintf(t->key, sizeof t->key, "%s", key);
  size_t n = strlen(key);
  if (t->n_hashes == t->has_room) {
    size_t room = t->has_room ? 2 * t->has_room : 256;
    uint64_t *more = realloc(t->hash, room * sizeof *more);
    if (!more) return mr_no_memory(t->diag, "the keys of %s", t->path);
    t->hash = more, t->has_room = room;
  }
  t->hash[t->n_hashes++] = XXH3_64bits(key, n);
  MR_TRY(mr_shard_draft_record(t->draft, key, n, t->diag));
  mr_shard_draft_count(t->draft, t->key_column, (int64_t)n);
  return MR_OK;
}

/* Notes a text in the index, once. */
static mr_err_t tar_note(tar_t *t, uint32_t kind, const char *text) {
  uint32_t column;
  mr_err_t e = mr_shard_draft_column(t->draft, text, strlen(text), kind, &column, NULL);
  return e == MR_ERR_NOMEM ? mr_no_memory(t->diag, "the scan of %s", t->path) : MR_OK;
}

static int order_hashes(const void *a, const void *b) {
  uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return (x > y) - (x < y);
}

/* Notes that samples which lie apart have one key, of which tar.c finds out. */
static mr_err_t tar_note_same(tar_t *t) {
  bool same = false;
  if (t->n_hashes) qsort(t->hash, t->n_hashes, sizeof *t->hash, order_hashes);
  for (size_t i = 1; i < t->n_hashes && !same; i++) same = t->hash[i] == t->hash[i - 1];
  return same ? tar_note(t, MR_TAR_SAME, "\tsame keys") : MR_OK;
}

/* Notes a member that would be part of a sample, had it contents of its own. */
static mr_err_t tar_note_left(tar_t *t, char type, char *name) {
  char *ext, text[MR_SHARD_NAME_MAX];
  if (type == '5' || !cut_name(name, &ext)) return MR_OK; /* folders */
  if (type == '1' || type == '2')
    snprintf(text, sizeof text, "%.60s\ta sample has it as a %s link, without contents", ext,
             type == '1' ? "hard" : "symbolic");
  else if (type == '3' || type == '4' || type == '6')
    snprintf(text, sizeof text, "%.60s\ta sample has it as a %s, without contents", ext,
             type == '6' ? "pipe" : "device");
  else
    snprintf(text, sizeof text, "%.60s\ta sample has it as a member of an unknown type", ext);
  return tar_note(t, MR_TAR_LEFT, text);
}

/* Notes the first files whose names say of no sample which member of it they are. */
static mr_err_t tar_note_plain(tar_t *t, const char *name) {
  enum { NAMED = 3 };
  const char *slash = strrchr(name, '/'), *base = slash ? slash + 1 : name;
  char text[MR_SHARD_NAME_MAX];
  if (*base == '.' || !*base || is_meta(name) || t->n_plain++ >= NAMED) return MR_OK;
  snprintf(text, sizeof text, "%.60s\ta name without an extension is of no sample", base);
  return tar_note(t, MR_TAR_LEFT, text);
}

static mr_err_t tar_add_member(tar_t *t, char *name, bool described, int64_t at, int64_t size) {
  char *ext;
  uint32_t column;
  mr_diag_t why = {0};
  if (!cut_name(name, &ext)) return tar_note_plain(t, name);
  mr_err_t e = mr_shard_draft_column(t->draft, ext, strlen(ext), MR_TAR_MEMBER, &column, &why);
  if (e == MR_ERR_DATA)
    return TAR_FAULT(
        t, "%s: member %.200s.%.100s at byte %" PRId64 ": %s%s", t->path, name, ext, t->at,
        why.text, strchr(ext, '.') ? ": a name is cut at its first dot, as WebDataset does" : "");
  if (e < 0) return mr_diag_relay(t->diag, e, &why);
  if (!*t->key || strcmp(t->key, name) != 0) MR_TRY(begin_sample(t, name));
  if (sample_has(t, column))
    return TAR_FAULT(t, "%s: a second member %.200s.%.100s at byte %" PRId64 ", want one of a name",
                     t->path, name, ext, t->at);
  return mr_shard_draft_item(t->draft, column, at, size, described, t->diag);
}

/* ---- the archive ---- */

/* What lies behind the first zero block: zeros to the end.  Anything else is of an archive that
   continues, of which no program agrees whether it counts.  Many more zeros than tar writes are
   what a download leaves that has stopped. */
static mr_err_t check_tar_end(tar_t *t) {
  enum { CHUNK = 1 << 18, RECORD = 20 * BLOCK };
  static const uint8_t zero[BLOCK];
  uint8_t *chunk = malloc(CHUNK);
  mr_err_t e = chunk ? MR_OK : mr_no_memory(t->diag, "the end of %s", t->path);
  for (int64_t at = t->at; at < t->size && e == MR_OK;) {
    int64_t n = t->size - at < CHUNK ? t->size - at : CHUNK;
    e = tar_read(t, at, chunk, (size_t)n);
    for (int64_t i = 0; i < n && e == MR_OK; i += BLOCK) {
      size_t some = n - i < BLOCK ? (size_t)(n - i) : BLOCK;
      if (!memcmp(chunk + i, zero, some)) continue;
      e = TAR_FAULT(t,
                    "%s: continues at byte %" PRId64 " behind its end mark at byte %" PRId64
                    ": it is several archives joined, or a download with a hole; unpack it "
                    "(tar --ignore-zeros) and pack it again",
                    t->path, at + i, t->at);
    }
    at += n;
  }
  free(chunk);
  int64_t padded = (t->at + 2 * BLOCK + RECORD - 1) / RECORD * RECORD;
  char text[MR_SHARD_NAME_MAX] = "";
  if (t->size > padded)
    snprintf(text, sizeof text,
             "its last %" PRId64
             " bytes are zeros, more than tar writes behind an archive: if a download stopped, "
             "samples are missing",
             t->size - t->at);
  else if (t->size - t->at < 2 * BLOCK)
    snprintf(text, sizeof text, "has half an end mark: if it was cut, samples are missing");
  if (e == MR_OK && *text) e = tar_note(t, MR_TAR_NOTE, text);
  return e == MR_OK ? MR_END : e;
}

/* Describes bytes that are no header: a compressed archive is the usual cause. */
static mr_err_t no_header(tar_t *t, const block_t *b) {
  const mr_file_kind_t *kind = t->at ? NULL : mr_file_kind(b, sizeof *b);
  if (kind && kind->packer)
    return TAR_FAULT(t,
                     "%s: is compressed by %s, and compressed archives cannot be read at "
                     "random: unpack it with %s first",
                     t->path, kind->packer, kind->unpack);
  if (kind) {
    const char *instead = kind->instead ? kind->instead : kind->usual;
    return TAR_FAULT(t, "%s: is no tar archive but %s%s%s", t->path, kind->what,
                     instead ? ": " : "", instead ? instead : "");
  }
  return TAR_FAULT(t, "%s: no tar header at byte %" PRId64 ", or a damaged one", t->path, t->at);
}

static bool is_regular(const block_t *b, const char *name) {
  size_t n = strlen(name);
  if (b->type == '\0') return n && name[n - 1] != '/'; /* an old archive's folder */
  return b->type == '0' || b->type == '7';
}

/* One header with what follows it.  MR_END at the end of the archive and at a fault. */
static mr_err_t tar_step(tar_t *t) {
  block_t b;
  char name[NAME_MAX_BYTES];
  if (t->at == t->size && t->at) { /* as some write it */
    MR_TRY(tar_note(t, MR_TAR_NOTE,
                    "has no end mark: if it was cut between two members, samples are missing"));
    return MR_END;
  }
  mr_err_t e = tar_read(t, t->at, &b, sizeof b);
  if (e != MR_OK) return e;
  if (is_zero_block(&b)) return check_tar_end(t);
  if (!has_right_sum(&b)) return no_header(t, &b);
  bool describes = b.type == 'x' || b.type == 'L';
  int64_t size = tar_number(b.size, sizeof b.size), body = t->at + BLOCK;
  if (!describes && t->extra.has_size) size = t->extra.size;
  if (strchr("12345 6", b.type) && b.type) size = 0; /* links, devices, folders, pipes */
  if (size < 0)
    return TAR_FAULT(t,
                     "%s: the header at byte %" PRId64
                     " has a size that is not valid: the archive is cut short or damaged",
                     t->path, t->at);
  if (size > t->size - body)
    return TAR_FAULT(t,
                     "%s: the member at byte %" PRId64 " has %" PRId64 " bytes, and %" PRId64
                     " are left: the archive is cut short or damaged",
                     t->path, t->at, size, t->size - body);
  if (b.type == 'S' || b.type == 'M')
    return TAR_FAULT(t, "%s: holds a %s member at byte %" PRId64 ", want archives without", t->path,
                     b.type == 'S' ? "sparse" : "split", t->at);
  if (describes) {
    e = take_extra(t, b.type, body, size);
  } else if (b.type != 'g' && b.type != 'K') {
    tar_name_of(&t->extra, &b, name);
    bool described = t->extra.has_name || t->extra.has_size;
    t->extra = (extra_t){0};
    if (is_regular(&b, name))
      e = tar_add_member(t, name, described, body, size);
    else if (b.type)
      e = tar_note_left(t, b.type, name);
  }
  int64_t padded = (size + BLOCK - 1) / BLOCK * BLOCK;
  t->at = padded < t->size - body ? body + padded : t->size;
  return e;
}

/* Of a member that headers before its own describe (p->item), its own has no name or size that
   could be compared. */
mr_err_t mr_tar_check_head(const uint8_t *head, const char *key, const char *member,
                           const mr_shard_part_t *p, mr_diag_t *diag) {
  static const extra_t none;
  block_t b;
  char name[NAME_MAX_BYTES], *ext = name;
  memcpy(&b, head, sizeof b);
  tar_name_of(&none, &b, name);
  if (!has_right_sum(&b) || !(p->item || is_regular(&b, name)))
    return mr_fail(diag, MR_ERR_DATA, "no header of a file stands before byte %" PRId64, p->at);
  if (p->item) return MR_OK;
  int64_t size = tar_number(b.size, sizeof b.size);
  if (!cut_name(name, &ext) || strcmp(name, key) != 0 || strcmp(ext, member) != 0)
    return mr_fail(diag, MR_ERR_DATA, "the header before byte %" PRId64 " is of %.200s%s%.100s",
                   p->at, name, ext == name ? "" : ".", ext == name ? "" : ext);
  if (size != p->size)
    return mr_fail(diag, MR_ERR_DATA,
                   "the header before byte %" PRId64 " has %" PRId64 " bytes, its index %" PRId64,
                   p->at, size, p->size);
  return MR_OK;
}

mr_err_t mr_tar_scan(mr_shard_file_t *file, mr_shard_draft_t *draft, mr_diag_t *fault,
                     mr_diag_t *diag) {
  tar_t *t = calloc(1, sizeof *t);
  if (!t) return mr_no_memory(diag, "the scan of %s", file->path);
  t->file = file, t->size = file->size, t->path = file->path;
  t->draft = draft, t->fault = fault, t->diag = diag;
  mr_err_t e = mr_shard_draft_column(draft, "__key__", 7, MR_TAR_KEY, &t->key_column, diag);
  while (e == MR_OK) e = tar_step(t);
  if (e >= 0) e = tar_note_same(t);
  free(t->hash);
  free(t);
  return e < 0 ? e : MR_OK;
}
