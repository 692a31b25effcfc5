/* The index file of a folder on a server, in the format of shard files' indexes: a record for each
   file, whose key is its ETag, a newline and its path, and whose part has its time and size. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "loaders/formats/folder_remote.h"
#include "loaders/shards/shard_index.h"
#include "loaders/shards/shard_place.h"

#define KIND "folder/1"
enum { KEY_ROOM = 8192 };

static mr_shard_id_t id_of(uint64_t digest) {
  return (mr_shard_id_t){.size = INT64_MAX, .digest = digest};
}

static mr_err_t folder_take_row(const mr_shard_index_t *x, int64_t i, mr_folder_take_fn *take,
                                void *ctx, mr_diag_t *diag) {
  char etag[256];
  const mr_shard_record_t *r = mr_shard_index_row(x, i);
  const char *key = x->text + r[0].key, *line = strchr(key, '\n');
  size_t n = line ? (size_t)(line - key) : 0;
  if (!line || n >= sizeof etag || !line[1])
    return mr_fail(diag, MR_ERR_DATA, "an index of a folder is damaged");
  memcpy(etag, key, n), etag[n] = 0;
  mr_folder_state_t state = {.size = -1, .etag = etag};
  if (r[1].part > r[0].part)
    state.size = x->part[r[0].part].size, state.mtime_ns = x->part[r[0].part].at;
  return take(ctx, line + 1, line[strlen(line) - 1] == '/' ? NULL : &state, diag);
}

mr_err_t mr_folder_index_read(const char *name, const char *where, uint64_t digest,
                              const mr_trust_t *trust, mr_folder_take_fn *take, void *ctx,
                              int64_t *written_s, mr_diag_t *diag) {
  char path[MR_SHARD_PLACE_MAX];
  mr_shard_index_t x;
  mr_shard_id_t id = id_of(digest);
  struct stat st;
  mr_err_t e = MR_END;
  for (int i = 0; e == MR_END && mr_shard_place(name, where, i, path); i++) {
    mr_diag_t why = {0};
    mr_err_t got = mr_shard_index_load(path, KIND, &id, MR_KEPT_LISTING, trust, &x, &why);
    if (got >= 0) e = MR_OK;
    if (got == MR_ERR_UNAVAILABLE)
      mr_notice("%s: this listing is not used, and another one is made", why.text);
  }
  if (e != MR_OK) return e;
  *written_s = stat(path, &st) == 0 ? (int64_t)st.st_mtime : 0;
  for (int64_t i = 0; i < x.n_records && e >= 0; i++) e = folder_take_row(&x, i, take, ctx, diag);
  mr_shard_index_close(&x);
  return e;
}

/* ---- writing ---- */

static mr_err_t add_fact(mr_shard_draft_t *d, uint32_t column, const char *path, const char *end,
                         const mr_folder_state_t *state, mr_diag_t *diag) {
  char key[KEY_ROOM];
  int n = snprintf(key, sizeof key, "%s\n%s%s", state->etag, path, end);
  if (n >= (int)sizeof key) return mr_fail(diag, MR_ERR_DATA, "a path is too long");
  MR_TRY(mr_shard_draft_record(d, key, (size_t)n, diag));
  return state->size < 0 ? MR_OK
                         : mr_shard_draft_part(d, column, state->mtime_ns, state->size, diag);
}

static mr_err_t add_facts(mr_shard_draft_t *d, const mr_folder_facts_t *facts, mr_diag_t *diag) {
  const mr_folder_state_t none = {.size = -1, .etag = ""};
  uint32_t column;
  MR_TRY(mr_shard_draft_column(d, "file", 4, 0, &column, diag));
  for (int64_t i = 0; i < facts->list->n; i++) {
    mr_folder_state_t state;
    facts->state(facts->ctx, i, &state);
    MR_TRY(add_fact(d, column, mr_folder_path(facts->list, i), "", &state, diag));
  }
  for (int i = 0; i < facts->n_folders; i++)
    MR_TRY(add_fact(d, column, facts->folder[i], "/", &none, diag));
  return MR_OK;
}

void mr_folder_index_write(const char *name, const char *where, uint64_t digest,
                           const mr_trust_t *trust, const mr_folder_facts_t *facts) {
  char path[MR_SHARD_PLACE_MAX];
  mr_diag_t why = {0};
  mr_shard_index_t x = {0};
  mr_shard_id_t id = id_of(digest);
  mr_shard_draft_t *d = mr_shard_draft_new();
  mr_err_t e = d ? add_facts(d, facts, &why) : mr_no_memory(&why, "an index");
  if (e >= 0) e = mr_shard_index_make(d, KIND, &id, NULL, &x, &why);
  if (e >= 0) e = mr_shard_place_new(name, where, path, &why);
  if (e >= 0) e = mr_shard_index_save(&x, path, trust, &why);
  if (e < 0)
    mr_notice("%s: its listing is not kept: %s (index=FOLDER keeps it there)", facts->list->from,
              why.text);
  mr_shard_index_close(&x);
  mr_shard_draft_free(d);
}
