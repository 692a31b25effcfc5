/* Data sets of litdata: the folder's index.json names the chunks and says what the leaves of an
   item are; chunks compressed as a whole are decompressed at first use, beside their index file. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "loaders/formats/index_json.h"
#include "loaders/formats/litdata_scan.h"
#include "loaders/shards/decompress.h"
#include "loaders/shards/shard_place.h"
#include "loaders/shards/shard_typed.h"

static const int64_t CHUNK_MOST = (int64_t)4 << 30; /* offsets in a chunk have four bytes */
enum { DEPTH_MAX = 32 };

/* An index.json being read. */
typedef struct litdata_list {
  mr_litdata_t *t;
  mr_shard_names_t *out;
  mr_index_json_t index;
  const char *codec;
  mr_litdata_leaf_t *leaf; /* [MR_LITDATA_LEAVES_MAX] of this folder */
  int n_leaves;            /* named so far */
  mr_diag_t *diag;
} litdata_list_t;

static mr_err_t bad_config(const litdata_list_t *l, const char *what) {
  return mr_fail(l->diag, MR_ERR_DATA, "%s: %s", l->index.path, what);
}

/* ---- what an item is ---- */

/* The keys of a dict, in the order of its leaves: a list, or the JSON text of one. */
static cJSON *read_keys(const cJSON *node) {
  const cJSON *type = cJSON_GetObjectItemCaseSensitive(node, "type");
  const cJSON *context = cJSON_GetObjectItemCaseSensitive(node, "context");
  bool dict = cJSON_IsString(type) && strstr(type->valuestring, "ict");
  if (!dict) return NULL;
  return cJSON_IsString(context) ? cJSON_Parse(context->valuestring)
                                 : cJSON_Duplicate(context, true);
}

/* Names the leaves below a node of torch's treespec; a leaf has no type.  False if malformed. */
static bool name_leaves(litdata_list_t *l, const cJSON *node, const char *prefix, int depth) {
  const cJSON *type = cJSON_GetObjectItemCaseSensitive(node, "type"), *child;
  const cJSON *children = cJSON_GetObjectItemCaseSensitive(node, "children_spec");
  char name[MR_SHARD_NAME_MAX];
  int i = 0;
  if (!cJSON_IsObject(node) || depth > DEPTH_MAX) return false;
  if (!cJSON_IsString(type)) {
    if (l->n_leaves == MR_LITDATA_LEAVES_MAX) return false;
    snprintf(l->leaf[l->n_leaves++].name, MR_SHARD_NAME_MAX, "%s", *prefix ? prefix : "value");
    return true;
  }
  cJSON *keys = read_keys(node);
  bool good = true;
  cJSON_ArrayForEach(child, children) {
    const cJSON *key = cJSON_GetArrayItem(keys, i);
    const char *join = *prefix ? "." : "";
    int n = cJSON_IsString(key)
                ? snprintf(name, sizeof name, "%s%s%s", prefix, join, key->valuestring)
                : snprintf(name, sizeof name, "%s%s%d", prefix, join, i);
    good = good && n < (int)sizeof name && name_leaves(l, child, name, depth + 1);
    if (!good || ++i > MR_LITDATA_LEAVES_MAX) break; /* keys are looked up one by one */
  }
  good = good && i <= MR_LITDATA_LEAVES_MAX;
  cJSON_Delete(keys);
  return good;
}

/* data_spec is the JSON text of [version, node]. */
static mr_err_t read_leaves(litdata_list_t *l, const cJSON *config) {
  const cJSON *format = cJSON_GetObjectItemCaseSensitive(config, "data_format"), *f;
  const cJSON *spec = cJSON_GetObjectItemCaseSensitive(config, "data_spec");
  cJSON *tree = cJSON_IsString(spec) ? cJSON_Parse(spec->valuestring) : NULL;
  bool good = name_leaves(l, cJSON_GetArrayItem(tree, 1), "", 0);
  int i = 0;
  cJSON_Delete(tree);
  if (!cJSON_IsArray(format) || !good || cJSON_GetArraySize(format) != l->n_leaves)
    return bad_config(l,
                      "want a \"config\" whose \"data_format\" has a format for each leaf of "
                      "\"data_spec\", at most 256");
  cJSON_ArrayForEach(f, format) {
    if (!cJSON_IsString(f)) return bad_config(l, "its \"data_format\" is malformed");
    snprintf(l->leaf[i++].format, MR_LITDATA_FORMAT_MAX, "%s", f->valuestring);
  }
  return MR_OK;
}

static mr_err_t read_config(litdata_list_t *l, const cJSON *config) {
  const cJSON *codec = cJSON_GetObjectItemCaseSensitive(config, "compression");
  const cJSON *level = cJSON_GetObjectItemCaseSensitive(config, "compression_level");
  const cJSON *loader = cJSON_GetObjectItemCaseSensitive(config, "item_loader");
  const cJSON *secret = cJSON_GetObjectItemCaseSensitive(config, "encryption");
  if (secret && !cJSON_IsNull(secret)) return bad_config(l, "its chunks are encrypted");
  if (cJSON_IsString(loader) && strcmp(loader->valuestring, "PyTreeLoader"))
    return mr_fail(l->diag, MR_ERR_DATA, "%s: was written for %.60s, want PyTreeLoader",
                   l->index.path, loader->valuestring);
  if (cJSON_IsString(level) && strcmp(level->valuestring, "chunk"))
    return mr_fail(l->diag, MR_ERR_DATA,
                   "%s: has compression_level=\"%.20s\", want no compression, or "
                   "compression_level=\"chunk\"",
                   l->index.path, level->valuestring);
  l->codec = cJSON_IsString(codec) ? codec->valuestring : "";
  if (*l->codec && strcmp(l->codec, "zstd") && strncmp(l->codec, "zstd:", 5))
    return mr_fail(l->diag, MR_ERR_DATA, "%s: is compressed by %.20s, want zstd", l->index.path,
                   l->codec);
  return read_leaves(l, config);
}

/* ---- chunks ---- */

static mr_err_t list_chunk(litdata_list_t *l, const cJSON *chunk) {
  mr_litdata_t *t = l->t;
  char path[MR_PATH_MAX];
  const cJSON *name = cJSON_GetObjectItemCaseSensitive(chunk, "filename");
  const cJSON *items = cJSON_GetObjectItemCaseSensitive(chunk, "chunk_size");
  mr_litdata_chunk_t *c = &t->chunk[t->n_chunks];
  if (!mr_index_json_path(&l->index, name, path) || !cJSON_IsNumber(items) ||
      items->valuedouble < 0 || items->valuedouble > UINT32_MAX)
    return bad_config(l, "a chunk lacks a \"filename\" in the same folder, or a \"chunk_size\"");
  *c = (mr_litdata_chunk_t){.items = (int64_t)items->valuedouble};
  if (*l->codec) strcpy(c->codec, "zstd");
  MR_TRY(mr_shard_names_add(l->out, path, l->diag));
  t->n_chunks++;
  return MR_OK;
}

/* The leaves of all folders must be the same. */
static mr_err_t take_leaves(litdata_list_t *l) {
  mr_litdata_t *t = l->t;
  size_t bytes = (size_t)l->n_leaves * sizeof *l->leaf;
  if (t->n_leaves && (t->n_leaves != l->n_leaves || memcmp(t->leaf, l->leaf, bytes) != 0))
    return bad_config(l, "its items have other leaves than those of the folders before it");
  memcpy(t->leaf, l->leaf, bytes);
  t->n_leaves = l->n_leaves;
  snprintf(t->index_kind, sizeof t->index_kind, "litdata/4-%05x",
           (unsigned)(XXH3_64bits(t->leaf, bytes) & 0xFFFFF));
  return MR_OK;
}

static mr_err_t list_chunks(litdata_list_t *l) {
  mr_litdata_t *t = l->t;
  const cJSON *chunks = cJSON_GetObjectItemCaseSensitive(l->index.json, "chunks"), *chunk;
  int n = cJSON_GetArraySize(chunks);
  if (!cJSON_IsArray(chunks) || !n)
    return bad_config(l, "is not an index.json of litdata: it has no \"chunks\"");
  MR_TRY(read_config(l, cJSON_GetObjectItemCaseSensitive(l->index.json, "config")));
  MR_TRY(take_leaves(l));
  mr_litdata_chunk_t *more = realloc(t->chunk, (size_t)(t->n_chunks + n) * sizeof *more);
  if (!more) return mr_no_memory(l->diag, "%d chunks", n);
  t->chunk = more;
  cJSON_ArrayForEach(chunk, chunks) MR_TRY(list_chunk(l, chunk));
  return MR_OK;
}

static mr_err_t litdata_folder(mr_litdata_t *t, const char *name, mr_shard_names_t *out,
                               mr_diag_t *diag) {
  litdata_list_t l = {.t = t, .out = out, .diag = diag};
  l.leaf = calloc(MR_LITDATA_LEAVES_MAX, sizeof *l.leaf);
  if (!l.leaf) return mr_no_memory(diag, "an index");
  mr_err_t e = mr_index_json_read(&l.index, name, &t->source.remote, diag);
  if (e >= 0) e = list_chunks(&l);
  mr_index_json_fini(&l.index);
  free(l.leaf);
  return e;
}

static mr_err_t litdata_list_files(mr_shard_source_t *s, mr_shard_names_t *out, mr_diag_t *diag) {
  mr_shard_names_t folders;
  mr_err_t e = mr_shard_names_expand(s->files, &folders, diag);
  for (int i = 0; i < folders.n && e >= 0; i++)
    e = litdata_folder((mr_litdata_t *)s, folders.at[i], out, diag);
  mr_shard_names_fini(&folders);
  return e;
}

static mr_err_t litdata_prepare(const void *ctx, int i, mr_shard_file_t *file,
                                const mr_shard_id_t *id, char **other, mr_diag_t *diag) {
  const mr_litdata_t *t = ctx;
  mr_compressed_t c = {
      .codec = t->chunk[i].codec, .packed = -1, .unpacked = -1, .most = CHUNK_MOST};
  uint32_t n;
  if (*c.codec)
    return mr_decompress(
        file, id, mr_shard_where(t->source.index, file->object != NULL, t->source.remote.cache), &c,
        other, diag);
  mr_err_t e = mr_shard_file_read(file, 0, &n, sizeof n, diag);
  if (e < 0 || (e == MR_OK && n == t->chunk[i].items)) return e;
  return mr_fail(diag, MR_ERR_DATA,
                 "%s: is not a chunk of litdata with the %" PRId64 " items that index.json says",
                 file->path, t->chunk[i].items);
}

/* ---- the stage ---- */

static const mr_shard_kind_t litdata_kind = {.name = "litdata",
                                             .scan = mr_litdata_scan,
                                             .settle = mr__typed_settle,
                                             .unpack = mr__typed_unpack,
                                             .list = litdata_list_files,
                                             .prepare = litdata_prepare};

static mr_err_t litdata_plan(mr_stage_t *s) {
  mr_litdata_t *t = s->state;
  t->n_chunks = t->n_leaves = 0;
  t->kind = litdata_kind;
  t->kind.index = t->index_kind;
  mr_err_t e = mr__shard_source_plan(s, &t->kind);
  free(t->chunk);
  t->chunk = NULL;
  return e;
}

static const mr_opt_t litdata_opts[] = {
    MR_SHARD_OPTS("Folder with an index.json; several are joined by \"::\".",
                  "Leaves, and the fields they become: image,class:label; AS is label, for whole "
                  "numbers.  By default every leaf that can be a field."),
    {0}};

static const mr_hint_t litdata_words[] = {{"lightningdata optimizeddataset", "litdata DIR", NULL},
                                          {0}};

const mr_stage_def_t mr_stage_litdata = {
    .name = "litdata",
    .hint = litdata_words,
    .help = "Reads the items of litdata's chunks, in any order.",
    .opts = litdata_opts,
    .state_sz = sizeof(mr_litdata_t),
    .plan = litdata_plan,
    MR_SHARD_HOOKS,
};
