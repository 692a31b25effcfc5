/* Data sets of MosaicML Streaming: the folder's index.json names the shard files, their sizes
   and digests; compressed shard files are decompressed at first use, beside their index file. */
#include <cjson/cJSON.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/xio.h"
#include "loaders/formats/index_json.h"
#include "loaders/formats/mds_scan.h"
#include "loaders/shards/decompress.h"
#include "loaders/shards/shard_place.h"
#include "loaders/shards/shard_typed.h"

enum { CODEC_MAX = 16 };

/* What index.json says of one shard. */
typedef struct mds_file {
  int64_t bytes;
  mr_file_digest_t digest;
  bool packed; /* only the compressed file is there */
  char codec[CODEC_MAX];
  mr_compressed_t compressed;
} mds_file_t;

typedef struct mds {
  mr_shard_source_t source;
  mds_file_t *file; /* [n_files], during plan */
  int n_files;
  bool noted; /* a notice about digests that cannot be checked has been sent */
} mds_t;

/* ---- index.json ---- */

/* A list of shards being read. */
typedef struct mds_list {
  mds_t *t;
  mr_shard_names_t *out;
  mr_index_json_t index;
  mr_diag_t *diag;
} mds_list_t;

static mr_err_t bad_index(const mds_list_t *l, int shard, const char *what) {
  return mr_fail(l->diag, MR_ERR_DATA, "%s: shard %d: %s", l->index.path, shard, what);
}

static bool read_bytes(const cJSON *data, int64_t *bytes) {
  const cJSON *n = cJSON_GetObjectItemCaseSensitive(data, "bytes");
  bool good = cJSON_IsNumber(n) && n->valuedouble >= 0 && n->valuedouble <= 1e15;
  *bytes = good ? (int64_t)n->valuedouble : 0;
  return good;
}

/* Takes the first digest that can be checked here. */
static void read_digest(mds_list_t *l, const cJSON *data, mr_file_digest_t *out) {
  const cJSON *hashes = cJSON_GetObjectItemCaseSensitive(data, "hashes"), *h;
  cJSON_ArrayForEach(h, hashes) {
    if (*out->name || !h->string || !cJSON_IsString(h) || !mr_file_digest_known(h->string) ||
        strlen(h->valuestring) >= sizeof out->text)
      continue;
    snprintf(out->name, sizeof out->name, "%s", h->string);
    snprintf(out->text, sizeof out->text, "%s", h->valuestring);
  }
  if (*out->name || !cJSON_GetArraySize(hashes) || l->t->noted) return;
  l->t->noted = true;
  mr_notice("%s: its digests (%.40s) are not checked; only xxh32, xxh64, xxh3_64 and xxh128 are",
            l->index.path, hashes->child->string ? hashes->child->string : "without a name");
}

static bool file_path(const mds_list_t *l, const cJSON *data, char out[MR_PATH_MAX]) {
  return mr_index_json_path(&l->index, cJSON_GetObjectItemCaseSensitive(data, "basename"), out);
}

static mr_err_t list_shard(mds_list_t *l, const cJSON *shard, int number) {
  mds_t *t = l->t;
  mds_file_t *f = &t->file[t->n_files];
  char raw[MR_PATH_MAX], packed[MR_PATH_MAX];
  const cJSON *format = cJSON_GetObjectItemCaseSensitive(shard, "format");
  const cJSON *raw_data = cJSON_GetObjectItemCaseSensitive(shard, "raw_data");
  const cJSON *zip_data = cJSON_GetObjectItemCaseSensitive(shard, "zip_data");
  const cJSON *codec = cJSON_GetObjectItemCaseSensitive(shard, "compression");
  if (!cJSON_IsString(format) || strcmp(format->valuestring, "mds"))
    return bad_index(l, number, "want \"format\": \"mds\"");
  if (!read_bytes(raw_data, &f->bytes) || !file_path(l, raw_data, raw))
    return bad_index(l, number,
                     "want \"raw_data\" with \"bytes\" and a \"basename\" in the same folder");
  read_digest(l, raw_data, &f->digest);
  if (cJSON_IsObject(zip_data) && (l->index.remote || access(raw, F_OK) != 0)) {
    if (!read_bytes(zip_data, &f->compressed.packed) || !file_path(l, zip_data, packed) ||
        !cJSON_IsString(codec))
      return bad_index(l, number, "want \"compression\" and \"zip_data\" of a compressed shard");
    snprintf(f->codec, sizeof f->codec, "%.*s", (int)strcspn(codec->valuestring, ":"),
             codec->valuestring);
    f->packed = true;
    f->compressed.unpacked = f->bytes, f->compressed.unpacked_digest = f->digest;
    read_digest(l, zip_data, &f->compressed.packed_digest);
  }
  MR_TRY(mr_shard_names_add(l->out, f->packed ? packed : raw, l->diag));
  t->n_files++;
  return MR_OK;
}

static mr_err_t list_index(mds_list_t *l, const cJSON *json) {
  mds_t *t = l->t;
  const cJSON *shards = cJSON_GetObjectItemCaseSensitive(json, "shards"), *shard;
  int n = cJSON_GetArraySize(shards), number = 0;
  if (cJSON_GetObjectItemCaseSensitive(json, "chunks"))
    return mr_fail(l->diag, MR_ERR_DATA, "%s: is an index of litdata: want stage litdata",
                   l->index.path);
  if (!cJSON_IsArray(shards) || !n)
    return mr_fail(l->diag, MR_ERR_DATA, "%s: is not an MDS index.json: it has no \"shards\"",
                   l->index.path);
  mds_file_t *more = realloc(t->file, ((size_t)t->n_files + (size_t)n) * sizeof *more);
  if (!more) return mr_no_memory(l->diag, "%d shards", n);
  t->file = more;
  memset(more + t->n_files, 0, (size_t)n * sizeof *more);
  cJSON_ArrayForEach(shard, shards) MR_TRY(list_shard(l, shard, number++));
  return MR_OK;
}

static mr_err_t list_folder(mds_t *t, const char *name, mr_shard_names_t *out, mr_diag_t *diag) {
  mds_list_t l = {.t = t, .out = out, .diag = diag};
  mr_err_t e = mr_index_json_read(&l.index, name, &t->source.remote, diag);
  if (e >= 0) e = list_index(&l, l.index.json);
  mr_index_json_fini(&l.index);
  return e;
}

static mr_err_t mds_list_files(mr_shard_source_t *s, mr_shard_names_t *out, mr_diag_t *diag) {
  mr_shard_names_t folders;
  mr_err_t e = mr_shard_names_expand(s->files, &folders, diag);
  for (int i = 0; i < folders.n && e >= 0; i++)
    e = list_folder((mds_t *)s, folders.at[i], out, diag);
  mr_shard_names_fini(&folders);
  return e;
}

/* ---- shards ---- */

static mr_err_t mds_prepare(const void *ctx, int i, mr_shard_file_t *file, const mr_shard_id_t *id,
                            char **other, mr_diag_t *diag) {
  const mds_t *t = ctx;
  mds_file_t *f = &t->file[i];
  f->compressed.codec = f->codec;
  if (f->packed)
    return mr_decompress(
        file, id, mr_shard_where(t->source.index, file->object != NULL, t->source.remote.cache),
        &f->compressed, other, diag);
  if (file->size == f->bytes) return MR_OK;
  return mr_fail(diag, MR_ERR_DATA, "%s: has %" PRId64 " bytes, but index.json says %" PRId64,
                 file->path, file->size, f->bytes);
}

static mr_err_t mds_verify(const void *ctx, int i, int fd, const char *path, mr_diag_t *diag) {
  const mds_file_t *f = &((const mds_t *)ctx)->file[i];
  return f->packed ? MR_OK : mr_file_digest_check(fd, path, &f->digest, diag);
}

static const mr_shard_kind_t mds_kind = {.name = "mds",
                                         .index = "mds/3",
                                         .scan = mr_mds_scan,
                                         .settle = mr__typed_settle,
                                         .unpack = mr__typed_unpack,
                                         .list = mds_list_files,
                                         .prepare = mds_prepare,
                                         .verify = mds_verify};

static mr_err_t mds_plan(mr_stage_t *s) {
  mds_t *t = s->state;
  t->n_files = 0;
  mr_err_t e = mr__shard_source_plan(s, &mds_kind);
  free(t->file);
  t->file = NULL;
  return e;
}

static const mr_opt_t mds_opts[] = {
    MR_SHARD_OPTS("Folder with an index.json; several are joined by \"::\".",
                  "Columns, and the fields they become: jpeg:image,class:label; AS is label, for "
                  "whole numbers, or bytes, for numbers as text.  By default every column that "
                  "can be a field."),
    {0}};

static const mr_hint_t mds_words[] = {
    {"streamingdataset mosaicml streaming", "mds DIR", "stage \"mds\" reads MosaicML's shards"},
    {0}};

const mr_stage_def_t mr_stage_mds = {
    .name = "mds",
    .hint = mds_words,
    .help = "Reads the samples of MosaicML Streaming's shards, in any order.",
    .opts = mds_opts,
    .state_sz = sizeof(mds_t),
    .plan = mds_plan,
    MR_SHARD_HOOKS,
};
