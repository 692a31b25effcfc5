/* Items are copied behind those of the same burst, because the memory of a group is used again for
   the next part.  Those of kept groups come first, before a new one replaces them. */
#include "loaders/shards/shard_groups.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "loaders/shards/codec.h"
#include "pipeline/stage.h"

enum { ALIGN = 64, WANTS_MAX = MR_BURST * MR_SHARD_PARTS_READ };

typedef struct kept_group {
  mr_shard_group_t group;
  const mr_shard_t *shard; /* where the group was; NULL: none is open */
  int64_t at;
  uint64_t used; /* the worker's clock when it was used last */
} kept_group_t;

/* Memory of one worker; used by that worker alone. */
typedef struct group_worker {
  kept_group_t kept[MR_SHARD_GROUPS_KEPT];
  uint64_t clock;
  uint8_t *room; /* [cap] items of a burst */
  size_t used, cap;
} group_worker_t;

/* A burst: its parts, each read for the first want in it, and where its items lie in the room. */
typedef struct group_burst {
  mr_shard_want_t *want; /* [n] */
  int n;
  mr_shard_want_t part[WANTS_MAX]; /* [n] of each want; all but the first of a part are passed */
  int of[WANTS_MAX];               /* the want that reads its part; KEPT: its item is there */
  size_t place[WANTS_MAX];
} group_burst_t;
enum { KEPT = -1 };

struct mr_shard_groups {
  mr_shard_group_fn *group;
  group_worker_t of_worker[MR_MAX_READERS];
};

mr_err_t mr_shard_group_room(mr_shard_group_t *g, size_t bytes, size_t items, mr_diag_t *diag) {
  g->n = 0;
  if (bytes > g->cap) {
    free(g->data);
    g->data = malloc(bytes), g->cap = g->data ? bytes : 0;
    if (!g->data) return mr_no_memory(diag, "%zu bytes of records", bytes);
  }
  if (items > g->cap_end) {
    free(g->end);
    g->end = malloc(items * sizeof *g->end), g->cap_end = g->end ? items : 0;
    if (!g->end) return mr_no_memory(diag, "%zu records", items);
  }
  return MR_OK;
}

void mr_shard_group_fini(mr_shard_group_t *g) {
  mr_codec_free(g->codec);
  free(g->data), free(g->end);
  *g = (mr_shard_group_t){0};
}

mr_err_t mr_shard_groups_open(mr_shard_groups_t **out, mr_shard_group_fn *group, mr_diag_t *diag) {
  *out = calloc(1, sizeof **out);
  if (!*out) return mr_no_memory(diag, "groups of records");
  (*out)->group = group;
  return MR_OK;
}

void mr_shard_groups_close(mr_shard_groups_t *g) {
  if (!g) return;
  for (int w = 0; w < MR_MAX_READERS; w++) {
    for (int k = 0; k < MR_SHARD_GROUPS_KEPT; k++)
      mr_shard_group_fini(&g->of_worker[w].kept[k].group);
    free(g->of_worker[w].room);
  }
  free(g);
}

static kept_group_t *find_kept(group_worker_t *l, const mr_shard_want_t *part) {
  for (int k = 0; k < MR_SHARD_GROUPS_KEPT; k++)
    if (l->kept[k].shard == part->shard && l->kept[k].at == part->at) return &l->kept[k];
  return NULL;
}

/* The memory for the next group: that of the group whose last use is the oldest or, if all take too
   much, of the largest. */
static kept_group_t *choose_kept(group_worker_t *l) {
  kept_group_t *oldest = &l->kept[0], *largest = oldest;
  size_t bytes = 0;
  for (int k = 0; k < MR_SHARD_GROUPS_KEPT; k++) {
    kept_group_t *g = &l->kept[k];
    bytes += g->group.cap;
    if (g->used < oldest->used) oldest = g;
    if (g->group.cap > largest->group.cap) largest = g;
  }
  kept_group_t *kept = bytes > MR_SHARD_GROUPS_BYTES ? largest : oldest;
  kept->shard = NULL, kept->used = ++l->clock;
  return kept;
}

/* Opens the group of a part that has been read. */
static mr_err_t open_group(mr_shard_groups_t *g, group_worker_t *l, const mr_shard_want_t *part,
                           kept_group_t **out, mr_diag_t *diag) {
  mr_diag_t why = {0};
  kept_group_t *kept = *out = choose_kept(l);
  mr_err_t e = g->group(part->data, part->at, part->size, &kept->group, &why);
  if (e == MR_ERR_DATA)
    return mr_fail(diag, e, "%s: the chunk at byte %" PRId64 " %s", part->shard->path, part->at,
                   why.text);
  if (e < 0) return mr_diag_relay(diag, e, &why);
  kept->shard = part->shard, kept->at = part->at;
  return MR_OK;
}

/* Room behind what is used for an item, which may move the room. */
static mr_err_t grow_room(group_worker_t *l, size_t more, mr_diag_t *diag) {
  size_t want = l->used + more;
  if (want <= l->cap) return MR_OK;
  size_t cap = (want + want / 2) / ALIGN * ALIGN + ALIGN;
  uint8_t *room = aligned_alloc(ALIGN, cap);
  if (!room) return mr_no_memory(diag, "%zu bytes of records", cap);
  if (l->used) memcpy(room, l->room, l->used);
  free(l->room);
  l->room = room, l->cap = cap;
  return MR_OK;
}

/* Copies the item of want i of the burst into the room. */
static mr_err_t copy_item(group_worker_t *l, const kept_group_t *kept, group_burst_t *b, int i,
                          mr_diag_t *diag) {
  mr_shard_want_t *w = &b->want[i];
  const mr_shard_group_t *g = &kept->group;
  if (w->item >= g->n)
    return mr_fail(diag, MR_ERR_DATA,
                   "%s: the chunk at byte %" PRId64 " has %" PRId64
                   " records, want more than %" PRIu32,
                   w->shard->path, w->at, g->n, w->item);
  size_t from = w->item ? g->end[w->item - 1] : 0, size = g->end[w->item] - from;
  size_t room = (size + 2 * ALIGN - 1) / ALIGN * ALIGN; /* and at least 64 zeros behind it */
  MR_TRY(grow_room(l, room, diag));
  if (size) memcpy(l->room + l->used, g->data + from, size);
  memset(l->room + l->used + size, 0, room - size);
  b->place[i] = l->used, l->used += room;
  w->size = (int64_t)size;
  return MR_OK;
}

/* Copies the items of kept groups, and finds out for which wants a part is read. */
static mr_err_t sort_burst(group_worker_t *l, group_burst_t *b, mr_diag_t *diag) {
  for (int i = 0; i < b->n; i++) {
    const mr_shard_want_t *w = &b->want[i];
    kept_group_t *kept = find_kept(l, w);
    int k = i - 1; /* most likely the record before is in the same part */
    while (!kept && k >= 0 && (b->part[k].shard != w->shard || b->part[k].at != w->at)) k--;
    b->part[i] = *w;
    b->of[i] = kept ? KEPT : k < 0 ? i : b->of[k];
    b->part[i].pass = b->of[i] != i;
    if (!kept) continue;
    kept->used = ++l->clock;
    MR_TRY(copy_item(l, kept, b, i, diag));
  }
  return MR_OK;
}

mr_err_t mr_shard_groups_fetch(mr_shard_groups_t *g, mr_shard_reads_t *r, int worker,
                               mr_shard_want_t *want, int n, mr_diag_t *diag) {
  assert(worker >= 0 && worker < MR_MAX_READERS && n <= WANTS_MAX);
  group_worker_t *l = &g->of_worker[worker];
  group_burst_t b;
  b.want = want, b.n = n;
  l->used = 0;
  MR_TRY(sort_burst(l, &b, diag));
  MR_TRY(mr_shard_reads_fetch(r, worker, b.part, n, diag));
  for (int k = 0; k < n; k++) {
    kept_group_t *kept;
    if (b.part[k].pass) continue;
    MR_TRY(open_group(g, l, &b.part[k], &kept, diag));
    for (int i = k; i < n; i++)
      if (b.of[i] == k) MR_TRY(copy_item(l, kept, &b, i, diag));
  }
  for (int i = 0; i < n; i++) want[i].data = l->room + b.place[i];
  return MR_OK;
}
