/* Writing: the header is built with zeros as the digest, hashed together with the tensors' bytes,
   and patched with the digest.  The digest of all tells that something has changed, and those of
   the tensors, which are only read then, what.  Reading: the file is read into memory, where no
   other process can shrink or change it, cJSON parses the header, and every number is checked
   before it is used. */
#include "base/safetensors.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/machine.h"
#include "base/pace.h"
#include "base/safetensors_private.h"
#include "base/text.h"
#include "base/xio.h"

#define DIGEST_NAME "millrace.xxh3"
#define DIGEST_PREFIX "\"" DIGEST_NAME "\":\"" /* unescaped quotes cannot occur inside a string */
#define HASHES_PREFIX "\"" MR_SAFETENSORS_HASHES "\":\""
#define FORMAT_NAME "millrace.format"
enum { HEX = 16 };                          /* digits of a digest */
enum { PIECE = 16 << 20 };                  /* bytes that are hashed or written from beat to beat */
static const size_t header_max = 100 << 20; /* as in the format's reference reader */

/* Bytes of a tensor; 0 on overflow or a bad shape through *bad. */
static size_t tensor_bytes(const mr_st_tensor_t *t, int *bad) {
  size_t n = mr_dtype_size(t->dtype);
  *bad = t->ndim < 0 || t->ndim > MR_MAX_NDIM;
  for (int i = 0; !*bad && i < t->ndim; i++)
    if (t->dim[i] < 0 || __builtin_mul_overflow(n, (size_t)t->dim[i], &n)) *bad = 1;
  return *bad || n > (size_t)1 << 52 ? (*bad = 1, 0) : n; /* offsets stay exact in a double */
}

/* ---- writing ---- */

/* Writes the digest of a tensor's bytes. */
static void hash_tensor(const mr_st_tensor_t *t, char hex[HEX + 1]) {
  int bad;
  size_t bytes = tensor_bytes(t, &bad);
  snprintf(hex, HEX + 1, "%016" PRIx64,
           (uint64_t)(bytes ? XXH3_64bits(t->data, bytes) : XXH3_64bits("", 0)));
}

static int add_hashes(cJSON *m, const mr_st_tensor_t *t, int n_tensors) {
  char *text = malloc((size_t)n_tensors * HEX + 1);
  if (!text) return 0;
  *text = 0;
  for (int i = 0; i < n_tensors; i++) {
    mr_pace_beat(MR_PACE_TENSORS, i + 1, n_tensors);
    hash_tensor(&t[i], text + (size_t)i * HEX);
  }
  int good = cJSON_AddStringToObject(m, MR_SAFETENSORS_HASHES, text) != NULL;
  free(text);
  return good;
}

static int add_metadata(cJSON *root, const mr_st_tensor_t *t, int n_tensors,
                        const mr_st_meta_t *meta, int n_meta) {
  cJSON *m = cJSON_AddObjectToObject(root, "__metadata__");
  if (!m || !cJSON_AddStringToObject(m, DIGEST_NAME, "0000000000000000")) return 0;
  if (!cJSON_AddStringToObject(m, FORMAT_NAME, "1") || !add_hashes(m, t, n_tensors)) return 0;
  for (int i = 0; i < n_meta; i++)
    if (!cJSON_AddStringToObject(m, meta[i].name, meta[i].value)) return 0;
  return 1;
}

static int add_tensor(cJSON *root, const mr_st_tensor_t *t, size_t from, size_t to) {
  cJSON *o = cJSON_AddObjectToObject(root, t->name);
  if (!o || !cJSON_AddStringToObject(o, "dtype", mr_dtype_safetensors(t->dtype))) return 0;
  cJSON *shape = cJSON_AddArrayToObject(o, "shape");
  for (int i = 0; shape && i < t->ndim; i++)
    if (!cJSON_AddItemToArray(shape, cJSON_CreateNumber((double)t->dim[i]))) return 0;
  cJSON *off = cJSON_AddArrayToObject(o, "data_offsets");
  return shape && off && cJSON_AddItemToArray(off, cJSON_CreateNumber((double)from)) &&
         cJSON_AddItemToArray(off, cJSON_CreateNumber((double)to));
}

/* The header with zeros as the digest, padded with spaces to 8 bytes; heap, or NULL on failure. */
static char *make_header(const mr_st_tensor_t *t, int n_tensors, const mr_st_meta_t *meta,
                         int n_meta, size_t *len) {
  cJSON *root = cJSON_CreateObject();
  size_t at = 0;
  int good = root != NULL;
  for (int i = 0, bad; good && i < n_tensors; i++) tensor_bytes(&t[i], &bad), good = !bad;
  good = good && add_metadata(root, t, n_tensors, meta, n_meta);
  for (int i = 0, bad; good && i < n_tensors; i++) {
    size_t bytes = tensor_bytes(&t[i], &bad);
    good = !bad && add_tensor(root, &t[i], at, at + bytes);
    at += bytes;
  }
  char *text = good ? cJSON_PrintUnformatted(root) : NULL;
  cJSON_Delete(root);
  if (!text) return NULL;
  size_t n = strlen(text);
  *len = (n + 7) / 8 * 8;
  char *header = malloc(*len);
  if (header) {
    memset(header, ' ', *len);
    memcpy(header, text, n);
  }
  cJSON_free(text);
  return header;
}

/* The bytes of the next piece of tensor i, behind `at` of `bytes`.  Says that the work continues.
 */
static size_t piece_of(size_t bytes, size_t at, int i, int n_tensors) {
  mr_pace_beat(MR_PACE_TENSORS, i + 1, n_tensors);
  return bytes - at < PIECE ? bytes - at : PIECE;
}

/* Writes the digest of the file into its header, and to out[HEX + 1] unless that is NULL. */
static int put_digest(char *header, size_t len, const mr_st_tensor_t *t, int n_tensors, char *out) {
  XXH3_state_t *h = XXH3_createState();
  char *digits = memmem(header, len, DIGEST_PREFIX, strlen(DIGEST_PREFIX));
  if (!h || !digits) {
    XXH3_freeState(h);
    return 0;
  }
  uint64_t len64 = len;
  XXH3_64bits_reset(h);
  XXH3_64bits_update(h, &len64, sizeof len64);
  XXH3_64bits_update(h, header, len);
  for (int i = 0, bad; i < n_tensors; i++) {
    size_t bytes = tensor_bytes(&t[i], &bad), n;
    for (size_t at = 0; at < bytes; at += n) {
      n = piece_of(bytes, at, i, n_tensors);
      XXH3_64bits_update(h, (const char *)t[i].data + at, n);
    }
  }
  char hex[HEX + 1];
  snprintf(hex, sizeof hex, "%016" PRIx64, (uint64_t)XXH3_64bits_digest(h));
  memcpy(digits + strlen(DIGEST_PREFIX), hex, HEX);
  if (out) memcpy(out, hex, sizeof hex);
  XXH3_freeState(h);
  return 1;
}

/* Gives back the pages that a tensor of an open file has alone. */
static void give_back(const mr_st_tensor_t *t) {
  int bad;
  uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), at = (uintptr_t)t->data;
  uintptr_t from = (at + page - 1) / page * page, to = (at + tensor_bytes(t, &bad)) / page * page;
  if (from < to) madvise((void *)from, to - from, MADV_DONTNEED);
}

/* How far a file is given to the disk: [0,done) is there, as far as the descriptor can tell, and
   [done,begun) is on its way. */
typedef struct behind {
  off_t done, begun;
} behind_t;

/* Whether the disk has said that it did not take bytes.  It says so once: a sync would no
   longer. */
static bool disk_lost_bytes(int done) {
  return done < 0 && errno != ESPIPE && errno != EINVAL && errno != ENOSYS && errno != EOPNOTSUPP &&
         errno != EINTR;
}

/* Has the disk begin with what has been written up to `end`, and waits for what it has begun with
   before: the sync at the end, which cannot say how far it is, has then little to do.  What a
   descriptor cannot do of this is left to the sync. */
static mr_err_t write_behind(int fd, const char *path, behind_t *b, off_t end, mr_diag_t *diag) {
  enum { WAIT = SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER };
  if (end - b->begun < PIECE) return MR_OK;
  bool lost = disk_lost_bytes(sync_file_range(fd, b->begun, end - b->begun, SYNC_FILE_RANGE_WRITE));
  if (!lost && b->begun > b->done)
    lost = disk_lost_bytes(sync_file_range(fd, b->done, b->begun - b->done, WAIT));
  *b = (behind_t){.done = b->begun, .begun = end};
  return lost ? mr_fail(diag, MR_ERR_IO, "%s: cannot write: %s", path, strerror(errno)) : MR_OK;
}

/* durable: the caller syncs the file, which is empty at first. */
static mr_err_t write_parts(int fd, const char *path, const char *header, size_t len,
                            const mr_st_tensor_t *t, int n_tensors, bool once, bool durable,
                            mr_diag_t *diag) {
  uint64_t len64 = len;
  MR_TRY(mr_write_all(fd, &len64, sizeof len64, path, diag));
  MR_TRY(mr_write_all(fd, header, len, path, diag));
  off_t end = (off_t)(sizeof len64 + len);
  behind_t behind = {0};
  for (int i = 0, bad; i < n_tensors; i++) {
    size_t bytes = tensor_bytes(&t[i], &bad), n;
    for (size_t at = 0; at < bytes; at += n) {
      n = piece_of(bytes, at, i, n_tensors);
      MR_TRY(mr_write_all(fd, (const char *)t[i].data + at, n, path, diag));
      end += (off_t)n;
      if (durable) MR_TRY(write_behind(fd, path, &behind, end, diag));
    }
    if (once) give_back(&t[i]);
  }
  mr_pace_beat(MR_PACE_TENSORS, n_tensors, n_tensors);
  return MR_OK;
}

/* Makes the whole header; heap. */
static mr_err_t header_of(const char *path, const mr_st_tensor_t *t, int n_tensors,
                          const mr_st_meta_t *meta, int n_meta, char **header, size_t *len,
                          char *hex, mr_diag_t *diag) {
  *header = make_header(t, n_tensors, meta, n_meta, len);
  if (*header && put_digest(*header, *len, t, n_tensors, hex)) return MR_OK;
  free(*header);
  *header = NULL;
  return mr_no_memory(diag, "the header of %s, %d tensors", path, n_tensors);
}

mr_err_t mr_safetensors_digest(const char *path, const mr_st_tensor_t *t, int n_tensors,
                               const mr_st_meta_t *meta, int n_meta,
                               char hex[MR_SAFETENSORS_HEX + 1], mr_diag_t *diag) {
  char *header;
  size_t len;
  MR_TRY(header_of(path, t, n_tensors, meta, n_meta, &header, &len, hex, diag));
  free(header);
  return MR_OK;
}

mr_err_t mr_safetensors_write_fd(int fd, const char *path, const mr_st_tensor_t *t, int n_tensors,
                                 const mr_st_meta_t *meta, int n_meta, bool once, mr_diag_t *diag) {
  char *header;
  size_t len;
  MR_TRY(header_of(path, t, n_tensors, meta, n_meta, &header, &len, NULL, diag));
  mr_err_t e = write_parts(fd, path, header, len, t, n_tensors, once, false, diag);
  free(header);
  return e;
}

mr_err_t mr_safetensors_begin(mr_newfile_t *f, const char *path, const mr_st_tensor_t *t,
                              int n_tensors, const mr_st_meta_t *meta, int n_meta,
                              mr_diag_t *diag) {
  char *header;
  size_t len;
  MR_TRY(header_of(path, t, n_tensors, meta, n_meta, &header, &len, NULL, diag));
  mr_err_t e = mr_newfile_open(f, path, diag);
  if (e >= 0) {
    e = write_parts(f->fd, path, header, len, t, n_tensors, false, true, diag);
    if (e < 0)
      mr_newfile_drop(f);
    else
      e = mr_newfile_sync(f, diag);
  }
  free(header);
  return e;
}

mr_err_t mr_safetensors_write(const char *path, const mr_st_tensor_t *t, int n_tensors,
                              const mr_st_meta_t *meta, int n_meta, mr_diag_t *diag) {
  mr_newfile_t f;
  MR_TRY(mr_safetensors_begin(&f, path, t, n_tensors, meta, n_meta, diag));
  return mr_newfile_commit(&f, diag);
}

/* ---- reading ---- */

/* Reads a JSON number that is an integer in [0,2^53]; 0 if it is not. */
static int safetensors_whole(const cJSON *j, uint64_t *out) {
  if (!cJSON_IsNumber(j) || !(j->valuedouble >= 0 && j->valuedouble <= 9007199254740992.0))
    return 0;
  *out = (uint64_t)j->valuedouble;
  return (double)*out == j->valuedouble;
}

static int dtype_of(const cJSON *j, mr_dtype_t *out) {
  if (!cJSON_IsString(j)) return 0;
  for (int t = 0; t < MR_DTYPE_COUNT; t++)
    if (!strcmp(j->valuestring, mr_dtype_safetensors((mr_dtype_t)t))) {
      *out = (mr_dtype_t)t;
      return 1;
    }
  return 0;
}

static mr_err_t read_tensor(const mr_safetensors_t *f, const char *path, const cJSON *j,
                            mr_st_tensor_t *t, mr_diag_t *diag) {
  t->name = j->string;
  if (!dtype_of(cJSON_GetObjectItemCaseSensitive(j, "dtype"), &t->dtype))
    return mr_fail(diag, MR_ERR_DATA, "%s: tensor %s has no known dtype", path, t->name);
  const cJSON *shape = cJSON_GetObjectItemCaseSensitive(j, "shape"), *d;
  int good = cJSON_IsArray(shape) && cJSON_GetArraySize(shape) <= MR_MAX_NDIM, bad;
  cJSON_ArrayForEach(d, shape) {
    uint64_t v;
    if (!good || !(good = safetensors_whole(d, &v))) break;
    t->dim[t->ndim++] = (int64_t)v;
  }
  size_t bytes = tensor_bytes(t, &bad);
  if (!good || bad)
    return mr_fail(diag, MR_ERR_DATA, "%s: tensor %s has a shape that is not valid", path, t->name);
  const cJSON *off = cJSON_GetObjectItemCaseSensitive(j, "data_offsets");
  uint64_t from, to;
  if (!cJSON_IsArray(off) || cJSON_GetArraySize(off) != 2 ||
      !safetensors_whole(off->child, &from) || !safetensors_whole(off->child->next, &to) ||
      from > to || to > f->size - f->body)
    return mr_fail(diag, MR_ERR_DATA, "%s: tensor %s lies outside the file", path, t->name);
  if (to - from != bytes)
    return mr_fail(diag, MR_ERR_DATA, "%s: tensor %s has %llu bytes, its shape wants %zu", path,
                   t->name, (unsigned long long)(to - from), bytes);
  t->data = f->map + f->body + from;
  return MR_OK;
}

size_t mr_safetensors_bytes(const mr_st_tensor_t *t) {
  int bad;
  return tensor_bytes(t, &bad);
}

static int by_place(const void *a, const void *b) {
  const mr_st_tensor_t *x = a, *y = b;
  if (x->data != y->data) return (const char *)x->data < (const char *)y->data ? -1 : 1;
  size_t m = mr_safetensors_bytes(x),
         n = mr_safetensors_bytes(y); /* empty ones first: they share an offset with the next */
  return (m > n) - (m < n);
}

static int safetensors_by_name(const void *a, const void *b) {
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static mr_err_t safetensors_check_names(const cJSON *object, const char *path, mr_diag_t *diag) {
  int n = cJSON_GetArraySize(object), at = 0;
  const char **name = malloc(sizeof *name * (size_t)(n + 1));
  if (!name) return mr_no_memory(diag, "the header of %s", path);
  const cJSON *j;
  cJSON_ArrayForEach(j, object) name[at++] = j->string;
  qsort(name, (size_t)n, sizeof *name, safetensors_by_name);
  mr_err_t e = MR_OK;
  for (int i = 1; i < n && e >= 0; i++)
    if (!strcmp(name[i - 1], name[i]))
      e = mr_fail(diag, MR_ERR_DATA, "%s: the name %s occurs twice", path, name[i]);
  free(name);
  return e;
}

/* Checks that the tensors fill the body from its first byte to its last without holes or
   overlaps. */
static mr_err_t check_cover(const mr_safetensors_t *f, const char *path, mr_diag_t *diag) {
  const unsigned char *at = f->map + f->body;
  for (int i = 0; i < f->n; i++) {
    if (f->tensor[i].data != at)
      return mr_fail(diag, MR_ERR_DATA, "%s: a hole or an overlap before tensor %s", path,
                     f->tensor[i].name);
    at += mr_safetensors_bytes(&f->tensor[i]);
  }
  if (at != f->map + f->size)
    return mr_fail(diag, MR_ERR_DATA, "%s: %zu bytes at the end belong to no tensor", path,
                   (size_t)(f->map + f->size - at));
  return MR_OK;
}

static mr_err_t read_tensors(mr_safetensors_t *f, const char *path, mr_diag_t *diag) {
  MR_TRY(safetensors_check_names(f->json, path, diag));
  f->tensor = calloc((size_t)cJSON_GetArraySize(f->json) + 1, sizeof *f->tensor);
  if (!f->tensor) return mr_no_memory(diag, "the header of %s", path);
  const cJSON *j;
  cJSON_ArrayForEach(j, f->json) {
    if (!strcmp(j->string, "__metadata__")) continue;
    if (!cJSON_IsObject(j))
      return mr_fail(diag, MR_ERR_DATA, "%s: %s is not a tensor", path, j->string);
    MR_TRY(read_tensor(f, path, j, &f->tensor[f->n++], diag));
  }
  qsort(f->tensor, (size_t)f->n, sizeof *f->tensor, by_place);
  return check_cover(f, path, diag);
}

static mr_err_t read_metadata(const mr_safetensors_t *f, const char *path, int *ours,
                              mr_diag_t *diag) {
  const cJSON *m = cJSON_GetObjectItemCaseSensitive(f->json, "__metadata__"), *j;
  *ours = 0;
  if (!m) return MR_OK;
  if (!cJSON_IsObject(m)) return mr_fail(diag, MR_ERR_DATA, "%s: bad __metadata__", path);
  MR_TRY(safetensors_check_names(m, path, diag));
  cJSON_ArrayForEach(j, m) {
    if (!cJSON_IsString(j))
      return mr_fail(diag, MR_ERR_DATA, "%s: metadata %s is not text", path, j->string);
    *ours |= !strncmp(j->string, "millrace.", 9);
  }
  return MR_OK;
}

/* Whether the file has its digest if the hashes of its tensors are those of their bytes: then the
   tensors are whole.  digits: offset of the digest's. */
static bool has_damaged_hashes(const mr_safetensors_t *f, size_t digits) {
  const char *digest = mr_safetensors_meta(f, DIGEST_NAME),
             *said = mr_safetensors_meta(f, MR_SAFETENSORS_HASHES);
  char hex[HEX + 1] = "";
  XXH3_state_t *h = XXH3_createState();
  unsigned char *header = malloc(f->body), *at = NULL;
  if (header) {
    memcpy(header, f->map, f->body);
    at = memmem(header, f->body, HASHES_PREFIX, strlen(HASHES_PREFIX));
  }
  if (at) at += strlen(HASHES_PREFIX);
  if (h && at && (size_t)(header + f->body - at) > strlen(said) &&
      !memcmp(at, said, strlen(said))) {
    for (int i = 0; i < f->n; i++) hash_tensor(&f->tensor[i], hex), memcpy(at + i * HEX, hex, HEX);
    memset(header + digits, '0', HEX);
    XXH3_64bits_reset(h);
    XXH3_64bits_update(h, header, f->body);
    XXH3_64bits_update(h, f->map + f->body, f->size - f->body);
    snprintf(hex, sizeof hex, "%016" PRIx64, (uint64_t)XXH3_64bits_digest(h));
  }
  free(header), XXH3_freeState(h);
  return !strcmp(hex, digest);
}

/* Fails with the tensors whose bytes have not the hash that the file says, if there are any.
   digits: offset of the digest's. */
static mr_err_t refuse_tensors(const mr_safetensors_t *f, const char *path, size_t digits,
                               mr_diag_t *diag) {
  enum { NAMED = 4 };
  const char *said = mr_safetensors_meta(f, MR_SAFETENSORS_HASHES);
  char names[512] = "", hex[HEX + 1];
  int damaged = 0;
  if (!said || strlen(said) != (size_t)f->n * HEX) return MR_OK;
  for (int i = 0; i < f->n; i++) {
    hash_tensor(&f->tensor[i], hex);
    if (!memcmp(hex, said + (size_t)i * HEX, HEX)) continue;
    size_t at = strlen(names);
    if (damaged++ < NAMED)
      snprintf(names + at, sizeof names - at, "%s%.120s", at ? ", " : "", f->tensor[i].name);
  }
  if (!damaged) return MR_OK;
  if (has_damaged_hashes(f, digits))
    return mr_fail(diag, MR_ERR_DATA,
                   "%s: the hash that it has of %s%s is damaged: it changed since it was written; "
                   "the tensors are whole",
                   path, names, damaged > NAMED ? ", ..." : "");
  if (damaged == 1)
    return mr_fail(diag, MR_ERR_DATA, "%s: tensor %s is damaged: it changed since it was written",
                   path, names);
  return mr_fail(diag, MR_ERR_DATA,
                 "%s: %d tensors are damaged, they changed since they were written: %s%s", path,
                 damaged, names, damaged > NAMED ? ", ..." : "");
}

/* What a file's bytes are hashed to while they are read.  hash NULL: the file has no digest. */
typedef struct digest {
  XXH3_state_t *hash;
  size_t digits; /* offset of the digest's own, which count as zeros */
} digest_t;

/* Begins with the header.  A file with any metadata "millrace.*" must carry the digest; otherwise
   one changed byte in the digest's own name would disable the check. */
static mr_err_t digest_begin(const mr_safetensors_t *f, const char *path, digest_t *d,
                             mr_diag_t *diag) {
  const char *said = mr_safetensors_meta(f, DIGEST_NAME);
  unsigned char *at = memmem(f->map, f->body, DIGEST_PREFIX, strlen(DIGEST_PREFIX));
  if (!said || !at || strlen(said) != HEX)
    return mr_fail(diag, MR_ERR_DATA, "%s: its digest is missing or damaged", path);
  at += strlen(DIGEST_PREFIX);
  /* JSON has other spellings of the name, so the bytes found may belong to another string. */
  if (f->map + f->body - at < HEX || memcmp(at, said, HEX) != 0)
    return mr_fail(diag, MR_ERR_DATA, "%s: its digest is not written as millrace writes it", path);
  *d = (digest_t){XXH3_createState(), (size_t)(at - f->map)};
  if (!d->hash) return mr_no_memory(diag, "the header of %s", path);
  XXH3_64bits_reset(d->hash);
  XXH3_64bits_update(d->hash, f->map, d->digits);
  XXH3_64bits_update(d->hash, "0000000000000000", HEX);
  XXH3_64bits_update(d->hash, at + HEX, f->body - d->digits - HEX);
  return MR_OK;
}

static mr_err_t digest_end(const mr_safetensors_t *f, const char *path, const digest_t *d,
                           mr_diag_t *diag) {
  const char *said = mr_safetensors_meta(f, DIGEST_NAME);
  char hex[HEX + 1];
  snprintf(hex, sizeof hex, "%016" PRIx64, (uint64_t)XXH3_64bits_digest(d->hash));
  if (!strcmp(hex, said)) return MR_OK;
  MR_TRY(refuse_tensors(f, path, d->digits, diag));
  return mr_fail(diag, MR_ERR_DATA, "%s: changed since it was written: digest %s, expected %s",
                 path, hex, said);
}

/* Whether no process can change the file any more: it is in memory, and sealed. */
static bool is_sealed(int fd) {
  static const int want = F_SEAL_SHRINK | F_SEAL_WRITE;
  int seals = fcntl(fd, F_GET_SEALS);
  return seals >= 0 && (seals & want) == want;
}

static mr_err_t check_room(size_t size, const char *path, mr_diag_t *diag) {
  char file[24], have[24];
  size_t room;
  if (mr_machine_has(size, &room)) return MR_OK;
  return mr_no_memory(diag,
                      "%s: its %s are read as a whole, and this process may still take %s: want "
                      "more memory, or the checkpoint of a smaller model",
                      path, mr_bytes_text(size, file), mr_bytes_text(room, have));
}

/* Gives f memory for the bytes of an open file.  *fd is -1 if they are there: it was sealed. */
static mr_err_t map_bytes(mr_safetensors_t *f, int *fd, const char *path, mr_diag_t *diag) {
  bool sealed = is_sealed(*fd);
  if (!sealed) MR_TRY(check_room(f->size, path, diag));
  int how = sealed ? MAP_PRIVATE : MAP_PRIVATE | MAP_ANONYMOUS;
  void *map =
      mmap(NULL, f->size, sealed ? PROT_READ : PROT_READ | PROT_WRITE, how, sealed ? *fd : -1, 0);
  if (map == MAP_FAILED) return mr_no_memory(diag, "%s, %zu bytes", path, f->size);
  f->map = map;
  if (sealed) close(*fd), *fd = -1;
  return MR_OK;
}

/* size: of the file, at least 8. */
static mr_err_t check_length(uint64_t len, size_t size, const char *path, mr_diag_t *diag) {
  if (len >= 2 && len <= header_max && len <= size - 8) return MR_OK;
  return mr_fail(diag, MR_ERR_DATA,
                 "%s: a header of %llu bytes in a file of %zu: cut short or not safetensors", path,
                 (unsigned long long)len, size);
}

/* Sets f->body from the first 8 bytes. */
static mr_err_t read_length(mr_safetensors_t *f, const char *path, mr_diag_t *diag) {
  uint64_t len;
  memcpy(&len, f->map, sizeof len);
  MR_TRY(check_length(len, f->size, path, diag));
  f->body = 8 + (size_t)len;
  return MR_OK;
}

/* Of f only the bytes up to f->body need be there. */
static mr_err_t read_header(mr_safetensors_t *f, const char *path, mr_diag_t *diag) {
  const char *text = (const char *)f->map + 8, *end = NULL;
  size_t len = f->body - 8;
  f->json = cJSON_ParseWithLengthOpts(text, len, &end, 0);
  if (f->json)
    while (end < text + len && *end == ' ') end++;
  if (!cJSON_IsObject(f->json) || end != text + len)
    return mr_fail(diag, MR_ERR_DATA, "%s: the header is not one JSON object", path);
  return MR_OK;
}

/* Reads the bytes of a file up to the end of its header into memory, as f->map. */
static mr_err_t load_head(mr_safetensors_t *f, FILE *in, const char *path, mr_diag_t *diag) {
  uint64_t len;
  struct stat st;
  if (fstat(fileno(in), &st) < 0 || fread(&len, sizeof len, 1, in) != 1)
    return mr_fail(diag, MR_ERR_DATA, "%s: is too short for a safetensors file", path);
  f->size = (size_t)st.st_size;
  MR_TRY(check_length(len, f->size, path, diag));
  if (!(f->map = malloc(sizeof len + (size_t)len)))
    return mr_no_memory(diag, "the header of %s", path);
  memcpy(f->map, &len, sizeof len), f->body = sizeof len + (size_t)len;
  if (fread(f->map + sizeof len, 1, (size_t)len, in) == len) return MR_OK;
  return mr_fail(diag, MR_ERR_DATA, "%s: was cut while it was read", path);
}

mr_err_t mr_safetensors_sliced(const char *path, bool *sliced, mr_diag_t *diag) {
  mr_safetensors_t f = {0};
  FILE *in = mr_open_regular(path);
  *sliced = false;
  if (!in) return mr_fail(diag, MR_ERR_IO, "%s: cannot open: %s", path, mr_open_reason(errno));
  mr_err_t e = load_head(&f, in, path, diag);
  if (e >= 0) e = read_header(&f, path, diag);
  if (e >= 0) *sliced = mr_safetensors_meta(&f, MR_SAFETENSORS_SLICES) != NULL;
  fclose(in), cJSON_Delete(f.json), free(f.map);
  return e;
}

/* The header first, which says what the digest is, then the tensors' bytes. */
static mr_err_t read_header_and_bytes(mr_safetensors_t *f, int fd, const char *path,
                                      mr_diag_t *diag) {
  digest_t digest = {.hash = NULL};
  int ours;
  MR_TRY(mr__safetensors_take(f, fd, path, 0, 8, NULL, diag));
  MR_TRY(read_length(f, path, diag));
  MR_TRY(mr__safetensors_take(f, fd, path, 8, f->body, NULL, diag));
  MR_TRY(read_header(f, path, diag));
  MR_TRY(read_tensors(f, path, diag));
  MR_TRY(read_metadata(f, path, &ours, diag));
  if (ours) MR_TRY(digest_begin(f, path, &digest, diag));
  mr_err_t e = mr__safetensors_take(f, fd, path, f->body, f->size, digest.hash, diag);
  if (e >= 0 && ours) e = digest_end(f, path, &digest, diag);
  XXH3_freeState(digest.hash);
  return e;
}

static mr_err_t read_file(mr_safetensors_t *f, const char *path, mr_diag_t *diag) {
  struct stat st;
  mr_err_t e = MR_OK;
  int fd = mr_open_regular_fd(path);
  if (fd < 0) return mr_fail(diag, MR_ERR_IO, "%s: cannot open: %s", path, mr_open_reason(errno));
  if (fstat(fd, &st) < 0) {
    e = mr_fail(diag, MR_ERR_IO, "%s: cannot read: %s", path, strerror(errno));
  } else if (st.st_size < 10) {
    e = mr_fail(diag, MR_ERR_DATA, "%s: %lld bytes are too few for a safetensors file", path,
                (long long)st.st_size);
  } else {
    f->size = (size_t)st.st_size, f->file = st;
    e = map_bytes(f, &fd, path, diag);
  }
  if (e >= 0) e = read_header_and_bytes(f, fd, path, diag);
  if (fd >= 0) close(fd);
  return e;
}

mr_err_t mr__safetensors_read(const char *path, mr_safetensors_t **out, mr_diag_t *diag) {
  *out = NULL;
  mr_safetensors_t *f = calloc(1, sizeof *f);
  if (!f) return mr_no_memory(diag, "the header of %s", path);
  mr_err_t e = read_file(f, path, diag);
  if (e < 0) {
    mr_safetensors_close(f);
    return e;
  }
  *out = f;
  return MR_OK;
}

static bool is_same_file(const struct stat *a, const struct stat *b) {
  return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
         a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec &&
         a->st_ctim.tv_sec == b->st_ctim.tv_sec && a->st_ctim.tv_nsec == b->st_ctim.tv_nsec;
}

/* Whether path leads to another file than that which was read: a run has written a newer one. */
static bool leads_elsewhere(const mr_safetensors_t *f, const char *path) {
  struct stat st;
  return stat(path, &st) == 0 && !is_same_file(&st, &f->file);
}

/* ---- files that are open, which their readers share ---- */

static pthread_mutex_t open_lock = PTHREAD_MUTEX_INITIALIZER;
static mr_safetensors_t *open_files; /* under the lock, as their readers and next */

/* The open file that path leads to, for one reader more; NULL: none is open. */
static mr_safetensors_t *share_open(const char *path) {
  struct stat st;
  mr_safetensors_t *f = NULL;
  if (stat(path, &st) < 0) return NULL;
  pthread_mutex_lock(&open_lock);
  for (f = open_files; f && !is_same_file(&st, &f->file);) f = f->next;
  if (f) f->readers++;
  pthread_mutex_unlock(&open_lock);
  return f;
}

static mr_safetensors_t *share_from_now(mr_safetensors_t *f) {
  pthread_mutex_lock(&open_lock);
  f->readers = 1, f->next = open_files, open_files = f;
  pthread_mutex_unlock(&open_lock);
  return f;
}

/* Whether f has no reader any more. */
static bool leave_shared(mr_safetensors_t *f) {
  pthread_mutex_lock(&open_lock);
  bool last = f->readers <= 1;
  mr_safetensors_t **at = &open_files;
  while (*at && *at != f) at = &(*at)->next;
  if (last && *at) *at = f->next;
  if (!last) f->readers--;
  pthread_mutex_unlock(&open_lock);
  return last;
}

/* A run that is at work may remove a checkpoint's slices between its first file and them. */
mr_err_t mr_safetensors_open(const char *path, mr_safetensors_t **out, mr_diag_t *diag) {
  enum { TRIES = 8 };
  mr_safetensors_t *f = NULL;
  mr_err_t e = MR_OK;
  bool newer = true;
  if ((*out = share_open(path))) return MR_OK;
  for (int i = 0; i < TRIES && newer; i++) {
    mr_diag_t why = {0};
    e = mr__safetensors_read(path, &f, &why);
    if (e >= 0) e = mr__slices_open(f, path, &why);
    if (e >= 0) return *out = share_from_now(f), MR_OK;
    newer = e == MR_ERR_IO && f && leads_elsewhere(f, path);
    mr_safetensors_close(f);
    if (i == TRIES - 1 || !newer) mr_diag_relay(diag, e, &why);
  }
  return e;
}

void mr_safetensors_close(mr_safetensors_t *f) {
  if (!f || !leave_shared(f)) return;
  for (int i = 0; i < f->n_slices; i++) mr_safetensors_close(f->slice[i]);
  free(f->slice);
  if (f->map) munmap(f->map, f->size);
  cJSON_Delete(f->json);
  free(f->tensor);
  free(f);
}

int mr_safetensors_count(const mr_safetensors_t *f) { return f->n; }

const mr_st_tensor_t *mr_safetensors_at(const mr_safetensors_t *f, int i) {
  return i >= 0 && i < f->n ? &f->tensor[i] : NULL;
}

const mr_st_tensor_t *mr_safetensors_find(const mr_safetensors_t *f, const char *name) {
  for (int i = 0; i < f->n; i++)
    if (!strcmp(f->tensor[i].name, name)) return &f->tensor[i];
  return NULL;
}

const char *mr_safetensors_meta(const mr_safetensors_t *f, const char *name) {
  const cJSON *m = cJSON_GetObjectItemCaseSensitive(f->json, "__metadata__");
  return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(m, name));
}

int mr_safetensors_files(const mr_safetensors_t *f) { return 1 + f->n_slices; }

bool mr_safetensors_meta_at(const mr_safetensors_t *f, int i, mr_st_meta_t *out) {
  const cJSON *m = cJSON_GetObjectItemCaseSensitive(f->json, "__metadata__");
  const cJSON *at = i >= 0 ? cJSON_GetArrayItem(m, i) : NULL;
  if (!at) return false;
  *out = (mr_st_meta_t){at->string, at->valuestring};
  return true;
}
