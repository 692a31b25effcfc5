/* Files of tokens as one long row: what their heads say, where documents begin, and copies in
   memory.  Flat files, llm.c's with a head of 1 KiB and Megatron-LM's pairs of .bin and .idx differ
   only in the head and the size of a token.  Nothing that a file states is used before it is
   compared with the file's size. */
#include "loaders/formats/token_files.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file_kind.h"
#include "base/machine.h"
#include "base/npy.h"
#include "base/suggest.h"
#include "base/text.h"
#include "base/xio.h"
#include "loaders/local/reader.h"

enum { LOOK = 4096 /* bytes; numpy.save's head has 128 */ };
enum { LLMC_HEAD = 1024, IDX_HEAD = 34, CHUNK = 1 << 16 /* tokens looked at together */ };

int mr_token_size(mr_token_type_t type) {
  static const int size[] = {[MR_TOKEN_U16] = 2,
                             [MR_TOKEN_U32] = 4,
                             [MR_TOKEN_U8] = 1,
                             [MR_TOKEN_I32] = 4,
                             [MR_TOKEN_I64] = 8};
  return size[type];
}

int32_t mr_token_widen(mr_token_type_t type, const void *from, int64_t n, int32_t *to) {
  int32_t bits = 0;
  if (type == MR_TOKEN_U16) {
    const char *at = from;
    for (int64_t i = 0; i < n; i++) {
      uint16_t v;
      memcpy(&v, at + 2 * i, 2);
      to[i] = v;
    }
  } else if (type == MR_TOKEN_U8) {
    for (int64_t i = 0; i < n; i++) to[i] = ((const uint8_t *)from)[i];
  } else if (type == MR_TOKEN_I64) {
    const char *at = from;
    for (int64_t i = 0; i < n; i++) {
      int64_t v;
      memcpy(&v, at + 8 * i, 8);
      to[i] = v == (int32_t)v ? (int32_t)v : -1; /* negative: it does not fit */
      bits |= to[i];
    }
  } else {
    memcpy(to, from, (size_t)n * 4);
    for (int64_t i = 0; i < n; i++) bits |= to[i];
  }
  return bits;
}

/* ---- growing lists of documents ---- */

typedef struct documents {
  int64_t *at;
  size_t n, cap;
} documents_t;

/* Adds the beginning of a document; an empty one before it vanishes. */
static mr_err_t add_document(documents_t *d, int64_t at, mr_diag_t *diag) {
  if (d->n && d->at[d->n - 1] == at) return MR_OK;
  if (d->n == d->cap) {
    size_t cap = d->cap ? 2 * d->cap : 1024;
    void *more = realloc(d->at, cap * sizeof *d->at);
    if (!more) return mr_no_memory(diag, "%zu documents", cap);
    d->at = more, d->cap = cap;
  }
  d->at[d->n++] = at;
  return MR_OK;
}

/* ---- flat files ---- */

/* The end of a file lies behind what is read, unless it has become shorter. */
static mr_err_t read_span(mr_shard_file_t *in, int64_t at, void *to, size_t n, mr_diag_t *diag) {
  mr_err_t e = mr_shard_file_read(in, at, to, n, diag);
  return e == MR_END ? mr_fail(diag, MR_ERR_DATA, "%s: ends early", in->path) : e;
}

/* Whether the first n bytes are llm.c's header: its mark, and zeros behind three numbers.  Ids may
   have the bytes of the mark. */
static bool is_llmc(const uint8_t *p, size_t n) {
  int32_t mark;
  if (n < LLMC_HEAD) return false;
  memcpy(&mark, p, sizeof mark);
  for (size_t i = 3 * sizeof mark; i < LLMC_HEAD; i++)
    if (p[i]) return false;
  return mark == 20240520 || mark == 20240801;
}

static mr_err_t read_llmc_head(const mr_shard_t *s, const int32_t *head, mr_token_file_t *f,
                               mr_diag_t *diag) {
  f->type = head[0] == 20240520 ? MR_TOKEN_U16 : MR_TOKEN_U32;
  f->head = LLMC_HEAD;
  int64_t n = (s->id.size - LLMC_HEAD) / mr_token_size(f->type);
  if (head[1] == (f->type == MR_TOKEN_U16 ? 1 : 7) && head[2] == n) return MR_OK;
  return mr_fail(diag, MR_ERR_DATA,
                 "%s: its header says version %d and %d tokens, want version %d and %" PRId64,
                 s->path, head[1], head[2], f->type == MR_TOKEN_U16 ? 1 : 7, n);
}

static bool is_control(uint32_t code) {
  return (code < ' ' && code != '\n' && code != '\r' && code != '\t') ||
         (code >= 0x7F && code < 0xA0);
}

/* Whether bytes [0,n) behind a mark of the order of bytes are UTF-16 without controls. */
static bool is_utf16(const uint8_t *p, size_t n) {
  bool little = n >= 2 && p[0] == 0xFF && p[1] == 0xFE;
  if (!little && !(n >= 2 && p[0] == 0xFE && p[1] == 0xFF)) return false;
  for (size_t i = 2; i + 1 < n; i += 2)
    if (is_control((uint32_t)p[i + little] << 8 | p[i + !little])) return false;
  return true;
}

/* Whether bytes [0,n), n <= LOOK, of which the last character may be cut, are text: UTF-8 without
   controls, or marked as text. */
static bool is_text(const uint8_t *p, size_t n) {
  enum { LEAST = 64, CUT = 3 };
  char text[LOOK + 1];
  if (n >= 3 && !memcmp(p, "\xEF\xBB\xBF", 3)) return true;
  if (n < LEAST) return false;
  if (is_utf16(p, n)) return true;
  memcpy(text, p, n), text[n] = 0;
  for (size_t i = 0; i < n;) {
    uint32_t code;
    i += mr_utf8_character(text + i, &code);
    if (code == UINT32_MAX && i + CUT > n && p[i - 1] >= 0xC2) return true;
    if (code == UINT32_MAX || is_control(code)) return false;
  }
  return true;
}

/* Refuses what is not a file of ids, by what its first bytes say.  dtype=u8 may be any bytes: of a
   file of another program, of which the first one is said, and text too. */
static mr_err_t check_is_tokens(const mr_shard_t *s, const uint8_t *p, size_t n,
                                const mr_token_files_conf_t *c, bool first, mr_diag_t *diag) {
  const mr_file_kind_t *kind = mr_file_kind_sure(p, n);
  const char *other = kind ? kind->what : NULL;
  if (c->type == MR_TOKEN_U8) {
    if (other && first) mr_notice("%s: is %s: dtype=u8 takes each byte as a token", s->path, other);
    return MR_OK;
  }
  if (other)
    return mr_fail(diag, MR_ERR_DATA, "%s: holds no token ids but is %s: %s", s->path, other,
                   kind->instead ? kind->instead : "save the ids with numpy.save");
  const char *what = mr_file_described(p, n);
  if (what && !strncmp(what, "JSON", 4))
    return mr_fail(
        diag, MR_ERR_DATA,
        "%s: holds no token ids but is %s: a tokenizer makes them of its texts; dtype=u8 "
        "takes each byte as a token",
        s->path, what);
  if (!is_text(p, n)) return MR_OK;
  return mr_fail(diag, MR_ERR_DATA,
                 "%s: holds text, want token ids: a tokenizer makes them; dtype=u8 takes each byte "
                 "as a token",
                 s->path);
}

/* ---- flat files with a header, and without ---- */

/* NumPy's name of an array's type, "f4", into name[4]. */
static const char *type_of_array(const mr_npy_t *a, char name[4]) {
  bool is_signed = a->size <= 2 ? a->is_signed : a->dtype == MR_I32 || a->dtype == MR_I64;
  bool is_float = a->dtype == MR_F16 || a->dtype == MR_F32 || a->dtype == MR_F64;
  char kind = is_float ? 'f' : a->dtype == MR_BOOL ? 'b' : is_signed ? 'i' : 'u';
  snprintf(name, 4, "%c%u", kind, (unsigned)a->size % 10);
  return name;
}

/* The ids of an .npy file, (N,) or rows of them, one after the other. */
static mr_err_t read_npy_head(const mr_shard_t *s, const uint8_t *p, size_t n, mr_token_file_t *f,
                              mr_diag_t *diag) {
  mr_npy_t a;
  size_t head;
  char name[4];
  MR_TRY(mr_npy_header(s->path, p, n, &a, &head, diag));
  bool whole = a.dtype == MR_U8 || a.dtype == MR_I32 || a.dtype == MR_U32 || a.dtype == MR_I64 ||
               a.dtype == MR_U64;
  if (!whole || a.swapped || a.fortran ||
      (a.dtype == MR_I32 && (a.size == 1 || (a.size == 2 && a.is_signed))))
    return mr_fail(diag, MR_ERR_DATA,
                   "%s: holds an array of %s%s%s, want ids as u1, u2, u4, i4, i8 or u8 in C order: "
                   "a.astype(\"u4\") in NumPy makes them",
                   s->path, a.swapped ? "big-endian " : "", a.fortran ? "Fortran-ordered " : "",
                   type_of_array(&a, name));
  f->type = a.size == 1         ? MR_TOKEN_U8
            : a.size == 2       ? MR_TOKEN_U16
            : a.size == 8       ? MR_TOKEN_I64
            : a.dtype == MR_I32 ? MR_TOKEN_I32
                                : MR_TOKEN_U32;
  f->head = (int64_t)head;
  return mr_npy_check_size(s->path, &a, (size_t)s->id.size - head, diag);
}

static mr_err_t read_flat_head(const mr_shard_t *s, mr_shard_file_t *in,
                               const mr_token_files_conf_t *c, mr_token_file_t *f,
                               mr_diag_t *diag) {
  int32_t head[3] = {0};
  uint8_t first[LOOK] = {0};
  size_t n = s->id.size < (int64_t)sizeof first ? (size_t)s->id.size : sizeof first;
  f->type = c->type;
  if (n) MR_TRY(read_span(in, 0, first, n, diag));
  if (n >= LLMC_HEAD) memcpy(head, first, sizeof head);
  if (n > 8 && !memcmp(first, "\x93NUMPY", 6))
    MR_TRY(read_npy_head(s, first, n, f, diag));
  else if (is_llmc(first, n))
    MR_TRY(read_llmc_head(s, head, f, diag));
  else
    MR_TRY(check_is_tokens(s, first, n, c, !f->first, diag));
  int64_t bytes = s->id.size - f->head;
  f->n = bytes / mr_token_size(f->type);
  if (bytes % mr_token_size(f->type) == 0) return MR_OK;
  return mr_fail(diag, MR_ERR_DATA, "%s: %" PRId64 " bytes, want a multiple of %d (dtype=)",
                 s->path, bytes, mr_token_size(f->type));
}

/* Documents end behind each eos. */
static mr_err_t find_eos(mr_shard_file_t *in, const mr_token_file_t *f, int64_t eos, documents_t *d,
                         mr_diag_t *diag) {
  int width = mr_token_size(f->type);
  uint8_t *raw = malloc((size_t)CHUNK * 12);
  int32_t *token = (int32_t *)(raw + (size_t)CHUNK * 8);
  mr_err_t e = raw ? MR_OK : mr_no_memory(diag, "the scan of %s", in->path);
  for (int64_t at = 0; at < f->n && e >= 0;) {
    int64_t n = f->n - at < CHUNK ? f->n - at : CHUNK;
    e = read_span(in, f->head + at * width, raw, (size_t)(n * width), diag);
    if (e < 0) break;
    mr_token_widen(f->type, raw, n, token);
    for (int64_t i = 0; i < n && e >= 0; i++)
      if (token[i] == eos && at + i + 1 < f->n) e = add_document(d, f->first + at + i + 1, diag);
    at += n;
  }
  free(raw);
  return e;
}

/* ---- Megatron's index ---- */

static bool idx_name(const char *bin, char out[MR_PATH_MAX]) {
  size_t n = strlen(bin);
  if (n < 4 || n >= MR_PATH_MAX || strcmp(bin + n - 4, ".bin") != 0) return false;
  memcpy(out, bin, n + 1);
  memcpy(out + n - 4, ".idx", 4);
  return true;
}

/* Finds the indexes beside remote files, before the first file is read: peers serve the objects
   that are known by then. */
static mr_err_t find_idx(mr_token_files_t *t, mr_diag_t *diag) {
  char url[MR_PATH_MAX];
  for (int i = 0; i < t->shards->n; i++) {
    const mr_shard_t *s = &t->shards->shard[i];
    if (s->url && idx_name(s->url, url))
      MR_TRY(mr_remote_find(t->shards->remote, url, &t->file[i].idx, diag));
  }
  return MR_OK;
}

/* Reads the index beside a file into *data (heap, the caller frees it); NULL if it is missing. */
static mr_err_t read_idx_bytes(const mr_token_files_t *t, const mr_shard_t *s, void **data,
                               size_t *size, char path[MR_PATH_MAX], mr_diag_t *diag) {
  const mr_object_t *o = t->file[s - t->shards->shard].idx;
  *data = NULL;
  if (!s->url) {
    if (!idx_name(s->path, path) || access(path, F_OK)) return MR_OK;
    return mr_read_file(path, (size_t)1 << 40, data, size, diag);
  }
  if (!o) return MR_OK;
  *size = (size_t)o->size, *data = malloc(*size + 1);
  if (!*data) return mr_no_memory(diag, "%s, %zu bytes", o->name, *size);
  snprintf(path, MR_PATH_MAX, "%s", o->name);
  mr_remote_want_t want = {o, 0, o->size, *data};
  return mr_remote_load(t->shards->remote, &want, true, diag);
}

static bool idx_type(uint8_t code, mr_token_type_t *type) {
  switch (code) {
    case 1: *type = MR_TOKEN_U8; return true;
    case 4: *type = MR_TOKEN_I32; return true;
    case 8: *type = MR_TOKEN_U16; return true;
    default: return false;
  }
}

/* The rows of an index in memory; nothing in it is aligned. */
typedef struct idx {
  const char *path;
  const uint8_t *length, *pointer, *document; /* i32[n], i64[n], i64[m] */
  uint64_t n, m;
} idx_t;

static int64_t i64_at(const uint8_t *row, uint64_t i) {
  int64_t v;
  memcpy(&v, row + 8 * i, 8);
  return v;
}

static int32_t i32_at(const uint8_t *row, uint64_t i) {
  int32_t v;
  memcpy(&v, row + 4 * i, 4);
  return v;
}

static mr_err_t parse_idx(const uint8_t *data, size_t size, idx_t *x, mr_token_file_t *f,
                          mr_diag_t *diag) {
  uint64_t version;
  if (size < IDX_HEAD || memcmp(data, "MMIDIDX\0\0", 9) != 0)
    return mr_fail(diag, MR_ERR_DATA, "%s: is not an index of Megatron-LM", x->path);
  memcpy(&version, data + 9, 8), memcpy(&x->n, data + 18, 8), memcpy(&x->m, data + 26, 8);
  if (version != 1 || !idx_type(data[17], &f->type))
    return mr_fail(diag, MR_ERR_DATA,
                   "%s: version %" PRIu64
                   ", tokens of type %d, want version 1 and type 1 (u8), 4 "
                   "(i32) or 8 (u16)",
                   x->path, version, data[17]);
  uint64_t rows = (size - IDX_HEAD) / 8; /* no count can be larger: nothing overflows below */
  if (x->n > rows || x->m > rows || IDX_HEAD + 12 * x->n + 8 * x->m > size)
    return mr_fail(diag, MR_ERR_DATA,
                   "%s: ends before its %" PRIu64 " sequences and %" PRIu64 " documents", x->path,
                   x->n, x->m);
  x->length = data + IDX_HEAD, x->pointer = x->length + 4 * x->n;
  x->document = x->pointer + 8 * x->n;
  return MR_OK;
}

/* Sequences must follow each other without gaps, as Megatron writes them; documents begin at
   sequences. */
static mr_err_t take_idx(const idx_t *x, const mr_shard_t *s, mr_token_file_t *f, documents_t *d,
                         mr_diag_t *diag) {
  int64_t tokens = 0, width = mr_token_size(f->type);
  uint64_t next = 0;
  for (uint64_t i = 0; i <= x->n; i++) {
    for (; d && next < x->m && i64_at(x->document, next) == (int64_t)i; next++)
      if (i < x->n) MR_TRY(add_document(d, f->first + tokens, diag));
    if (i == x->n) break;
    int32_t n = i32_at(x->length, i);
    if (n < 0 || i64_at(x->pointer, i) != tokens * width)
      return mr_fail(diag, MR_ERR_DATA,
                     "%s: sequence %" PRIu64 " has %d tokens from byte %" PRId64
                     " on, want sequences that follow each other, here from byte %" PRId64,
                     x->path, i, n, i64_at(x->pointer, i), tokens * width);
    tokens += n;
  }
  if (d && next != x->m)
    return mr_fail(diag, MR_ERR_DATA,
                   "%s: document %" PRIu64 " begins at sequence %" PRId64
                   ", want ascending numbers up to %" PRIu64,
                   x->path, next, i64_at(x->document, next), x->n);
  int64_t end = x->m ? i64_at(x->document, x->m - 1) : 0;
  if (x->n && (!x->m || i64_at(x->document, 0) != 0 || end != (int64_t)x->n))
    return mr_fail(diag, MR_ERR_DATA,
                   "%s: its documents go from sequence %" PRId64 " to %" PRId64
                   ", want all, 0 to %" PRIu64 ": the index was cut or joined wrongly",
                   x->path, x->m ? i64_at(x->document, 0) : 0, end, x->n);
  f->n = tokens;
  if (s->id.size == tokens * width) return MR_OK;
  return mr_fail(diag, MR_ERR_DATA, "%s: %" PRId64 " bytes, and %s wants %" PRId64, s->path,
                 s->id.size, x->path, tokens * width);
}

/* Takes what the index beside a file says; *found: there is one. */
static mr_err_t read_idx(const mr_token_files_t *t, const mr_shard_t *s, mr_token_file_t *f,
                         documents_t *d, bool *found, mr_diag_t *diag) {
  void *data;
  size_t size = 0;
  char path[MR_PATH_MAX];
  idx_t x = {.path = path};
  mr_err_t e = read_idx_bytes(t, s, &data, &size, path, diag);
  *found = data;
  if (e >= 0 && data) e = parse_idx(data, size, &x, f, diag);
  if (e >= 0 && data) e = take_idx(&x, s, f, d, diag);
  free(data);
  return e;
}

/* ---- opening ---- */

/* What reads a file from front to back; end_stream ends it. */
static mr_err_t begin_stream(const mr_token_files_t *t, const mr_shard_t *s, mr_shard_file_t *out,
                             mr_diag_t *diag) {
  *out = (mr_shard_file_t){.path = s->path,
                           .size = s->id.size,
                           .fd = -1,
                           .remote = t->shards->remote,
                           .object = s->object};
  char hint[160];
  if (s->object) return MR_OK;
  out->fd = open(s->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (out->fd >= 0) return MR_OK;
  int reason = errno;
  return mr_fail(diag, MR_ERR_IO, "%s: cannot be opened: %s%s", s->path, strerror(reason),
                 mr_path_hint(s->path, hint, sizeof hint));
}

static void end_stream(mr_shard_file_t *in) {
  mr_shard_file_fini(in);
  if (in->fd >= 0) close(in->fd);
}

static mr_err_t open_token_file(mr_token_files_t *t, int i, const mr_token_files_conf_t *c,
                                documents_t *d, mr_diag_t *diag) {
  const mr_shard_t *s = &t->shards->shard[i];
  mr_token_file_t *f = &t->file[i];
  bool found;
  f->first = t->n;
  if (d) MR_TRY(add_document(d, t->n, diag)); /* a file begins a document */
  MR_TRY(read_idx(t, s, f, d, &found, diag));
  if (!found) {
    mr_shard_file_t in;
    MR_TRY(begin_stream(t, s, &in, diag));
    mr_err_t e = read_flat_head(s, &in, c, f, diag);
    if (e >= 0 && d && c->eos >= 0) e = find_eos(&in, f, c->eos, d, diag);
    end_stream(&in);
    MR_TRY(e);
  }
  t->n += f->n;
  return MR_OK;
}

static mr_err_t open_token_files(mr_token_files_t *t, const mr_token_files_conf_t *c,
                                 mr_diag_t *diag) {
  documents_t d = {0};
  mr_shards_conf_t conf = {.files = c->names, .remote = c->remote};
  MR_TRY(mr_shards_open(&t->shards, &conf, diag));
  t->file = calloc((size_t)t->shards->n, sizeof *t->file);
  if (!t->file) return mr_no_memory(diag, "%d files", t->shards->n);
  mr_err_t e = find_idx(t, diag);
  for (int i = 0; i < t->shards->n && e >= 0; i++)
    e = open_token_file(t, i, c, c->documents ? &d : NULL, diag);
  if (e >= 0 && c->documents) e = add_document(&d, t->n, diag);
  t->document = d.at, t->n_documents = (int64_t)d.n - 1;
  MR_TRY(e);
  return t->n ? MR_OK : mr_fail(diag, MR_ERR_DATA, "%s: no tokens", t->shards->shard[0].path);
}

mr_err_t mr_token_files_open(mr_token_files_t **out, const mr_token_files_conf_t *conf,
                             mr_diag_t *diag) {
  mr_token_files_t *t = *out = calloc(1, sizeof *t);
  if (!t) return mr_no_memory(diag, "the files");
  mr_err_t e = open_token_files(t, conf, diag);
  if (e >= 0) return MR_OK;
  mr_token_files_close(t);
  *out = NULL;
  return e;
}

void mr_token_files_close(mr_token_files_t *t) {
  if (!t) return;
  for (int i = 0; t->file && i < t->shards->n; i++) free(t->file[i].kept);
  mr_shards_close(t->shards);
  free(t->file), free(t->document), free(t->wide), free(t);
}

/* Reads n bytes of a file in large requests. */
static mr_err_t read_kept(const mr_token_files_t *t, const mr_shard_t *s, int64_t at, size_t n,
                          uint8_t *to, mr_diag_t *diag) {
  mr_reader_conf_t conf = {.path = (const char *const *)&s->path, .n_files = 1, .once = true};
  mr_remote_want_t want = {s->object, at, (int64_t)n, to};
  mr_reader_t *r;
  if (s->object) return mr_remote_load(t->shards->remote, &want, true, diag);
  mr_err_t e = mr_reader_open(&r, &conf, diag);
  if (e >= 0) e = mr_reader_read_big(r, 0, at, n, to, diag);
  mr_reader_close(r);
  return e;
}

mr_err_t mr_token_files_keep(mr_token_files_t *t, mr_diag_t *diag) {
  for (int i = 0; i < t->shards->n; i++) {
    mr_token_file_t *f = &t->file[i];
    const mr_shard_t *s = &t->shards->shard[i];
    size_t bytes = (size_t)(f->n * mr_token_size(f->type));
    if (f->kept || !bytes) continue;
    f->kept = mr_pages_alloc(bytes);
    if (!f->kept) return mr_no_memory(diag, "%s, %zu bytes", s->path, bytes);
    mr_err_t e = read_kept(t, s, f->head, bytes, f->kept, diag);
    if (e < 0) free(f->kept), f->kept = NULL;
    MR_TRY(e);
  }
  return MR_OK;
}

/* Reads a file by pieces, which stay in the second-level cache until they are widened. */
static mr_err_t widen_file(mr_token_files_t *t, int i, mr_reader_t *r, mr_shard_file_t *in,
                           uint8_t *piece, mr_diag_t *diag) {
  const mr_token_file_t *f = &t->file[i];
  int width = mr_token_size(f->type);
  for (int64_t at = 0; at < f->n;) {
    int64_t n = f->n - at < CHUNK ? f->n - at : CHUNK;
    int32_t *to = t->wide + f->first + at;
    int64_t from = f->head + at * width;
    MR_TRY(r ? mr_reader_read_big(r, 0, from, (size_t)(n * width), piece, diag)
             : read_span(in, from, piece, (size_t)(n * width), diag));
    t->wide_bits |= mr_token_widen(f->type, piece, n, to);
    for (int64_t k = 0; k < n; k++) t->wide_most = to[k] > t->wide_most ? to[k] : t->wide_most;
    at += n;
  }
  return MR_OK;
}

mr_err_t mr_token_files_widen(mr_token_files_t *t, mr_diag_t *diag) {
  size_t bytes = (size_t)t->n * sizeof *t->wide;
  uint8_t *piece = malloc((size_t)CHUNK * 8);
  if (!t->wide) t->wide = mr_pages_alloc(bytes);
  mr_err_t e = t->wide && piece ? MR_OK : mr_no_memory(diag, "%zu bytes of tokens", bytes);
  for (int i = 0; i < t->shards->n && e >= 0; i++) {
    const mr_shard_t *s = &t->shards->shard[i];
    mr_reader_conf_t conf = {.path = (const char *const *)&s->path, .n_files = 1, .once = true};
    mr_reader_t *r = NULL;
    mr_shard_file_t in = {.fd = -1};
    e = s->object ? begin_stream(t, s, &in, diag) : mr_reader_open(&r, &conf, diag);
    if (e >= 0) e = widen_file(t, i, r, &in, piece, diag);
    mr_reader_close(r);
    mr_shard_file_fini(&in);
  }
  free(piece);
  return e;
}

int64_t mr_token_files_bytes(const mr_token_files_t *t) {
  int64_t bytes = 0;
  for (int i = 0; i < t->shards->n; i++) bytes += t->file[i].n * mr_token_size(t->file[i].type);
  return bytes;
}

/* ---- finding ---- */

int mr_token_files_find(const mr_token_files_t *t, int64_t at) {
  int low = 0, high = t->shards->n;
  while (high - low > 1) {
    int middle = low + (high - low) / 2;
    if (t->file[middle].first <= at)
      low = middle;
    else
      high = middle;
  }
  return low; /* the last file that begins at or before at, so never an empty one */
}

int64_t mr_token_files_document(const mr_token_files_t *t, int64_t at) {
  int64_t low = 0, high = t->n_documents;
  while (high - low > 1) {
    int64_t middle = low + (high - low) / 2;
    if (t->document[middle] <= at)
      low = middle;
    else
      high = middle;
  }
  return low;
}
