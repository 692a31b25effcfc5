/* A list in the order of use, and a treap by place: a search tree whose random priorities keep it
   shallow.  Both lie in one array of nodes. */
#include "loaders/remote/remote_pending.h"

#include <stdlib.h>

typedef struct node {
  const mr_object_t *object;
  int64_t at, size;
  int32_t unit;
  int32_t left, right; /* in the tree */
  int32_t prev, next;  /* in the list; next of free ones too */
  uint32_t priority;   /* at least that of left and right */
} node_t;

struct mr__pending {
  node_t *node; /* [cap]; moves when it grows */
  int32_t n, cap, free_nodes, root, first, last;
  int64_t bytes;
  uint32_t random;
};

mr__pending_t *mr__pending_create(void) {
  mr__pending_t *p = malloc(sizeof *p);
  if (p)
    *p = (mr__pending_t){.free_nodes = MR_PENDING_NONE,
                         .root = MR_PENDING_NONE,
                         .first = MR_PENDING_NONE,
                         .last = MR_PENDING_NONE,
                         .random = 2463534242};
  return p;
}

void mr__pending_destroy(mr__pending_t *p) {
  if (!p) return;
  free(p->node), free(p);
}

int64_t mr__pending_bytes(const mr__pending_t *p) { return p->bytes; }

static uint32_t draw_priority(mr__pending_t *p) { /* xorshift32 */
  p->random ^= p->random << 13, p->random ^= p->random >> 17, p->random ^= p->random << 5;
  return p->random;
}

/* ---- the tree ---- */

/* Whether node a lies before the place (o,at), or at it with a handle below b. */
static bool lies_before(const mr__pending_t *p, int32_t a, const mr_object_t *o, int64_t at,
                        int32_t b) {
  const node_t *x = &p->node[a];
  if (x->object != o) return (uintptr_t)x->object < (uintptr_t)o;
  return x->at != at ? x->at < at : a < b;
}

static bool is_left_of(const mr__pending_t *p, int32_t a, int32_t b) {
  return lies_before(p, a, p->node[b].object, p->node[b].at, b);
}

/* Cuts tree t into the nodes before and behind node h, which is not in it. */
static void cut_tree(mr__pending_t *p, int32_t t, int32_t h, int32_t *left, int32_t *right) {
  while (t != MR_PENDING_NONE) {
    if (is_left_of(p, t, h)) {
      *left = t, left = &p->node[t].right, t = *left;
    } else {
      *right = t, right = &p->node[t].left, t = *right;
    }
  }
  *left = *right = MR_PENDING_NONE;
}

/* The tree of both, where all of a lies before all of b. */
static void join_trees(mr__pending_t *p, int32_t a, int32_t b, int32_t *to) {
  while (a != MR_PENDING_NONE && b != MR_PENDING_NONE) {
    if (p->node[a].priority >= p->node[b].priority) {
      *to = a, to = &p->node[a].right, a = *to;
    } else {
      *to = b, to = &p->node[b].left, b = *to;
    }
  }
  *to = a != MR_PENDING_NONE ? a : b;
}

static void insert_node(mr__pending_t *p, int32_t h) {
  int32_t *at = &p->root;
  while (*at != MR_PENDING_NONE && p->node[*at].priority >= p->node[h].priority)
    at = is_left_of(p, h, *at) ? &p->node[*at].left : &p->node[*at].right;
  cut_tree(p, *at, h, &p->node[h].left, &p->node[h].right);
  *at = h;
}

static void extract_node(mr__pending_t *p, int32_t h) {
  int32_t *at = &p->root;
  while (*at != h) at = is_left_of(p, h, *at) ? &p->node[*at].left : &p->node[*at].right;
  join_trees(p, p->node[h].left, p->node[h].right, at);
}

/* ---- both ---- */

static int32_t take_node(mr__pending_t *p) {
  int32_t h = p->free_nodes;
  if (h != MR_PENDING_NONE) return p->free_nodes = p->node[h].next, h;
  if (p->n == p->cap) {
    if (p->cap > INT32_MAX / 2) return MR_PENDING_NONE;
    int32_t cap = p->cap ? 2 * p->cap : 256;
    node_t *more = realloc(p->node, (size_t)cap * sizeof *more);
    if (!more) return MR_PENDING_NONE;
    p->node = more, p->cap = cap;
  }
  return p->n++;
}

int32_t mr__pending_add(mr__pending_t *p, int32_t unit, const mr_object_t *o, int64_t at,
                        int64_t size) {
  int32_t h = take_node(p);
  if (h == MR_PENDING_NONE) return h;
  p->node[h] = (node_t){.object = o,
                        .at = at,
                        .size = size,
                        .unit = unit,
                        .prev = p->last,
                        .next = MR_PENDING_NONE,
                        .priority = draw_priority(p)};
  *(p->last == MR_PENDING_NONE ? &p->first : &p->node[p->last].next) = h;
  p->last = h, p->bytes += size;
  insert_node(p, h);
  return h;
}

void mr__pending_remove(mr__pending_t *p, int32_t h) {
  extract_node(p, h);
  node_t *x = &p->node[h];
  *(x->prev == MR_PENDING_NONE ? &p->first : &p->node[x->prev].next) = x->next;
  *(x->next == MR_PENDING_NONE ? &p->last : &p->node[x->next].prev) = x->prev;
  p->bytes -= x->size;
  x->next = p->free_nodes, p->free_nodes = h;
}

int32_t mr__pending_first(const mr__pending_t *p) {
  return p->first == MR_PENDING_NONE ? MR_PENDING_NONE : p->node[p->first].unit;
}

/* The unit of node h if it is of the object. */
static int32_t unit_of(const mr__pending_t *p, int32_t h, const mr_object_t *o) {
  return h != MR_PENDING_NONE && p->node[h].object == o ? p->node[h].unit : MR_PENDING_NONE;
}

int32_t mr__pending_from(const mr__pending_t *p, const mr_object_t *o, int64_t at) {
  int32_t best = MR_PENDING_NONE;
  for (int32_t h = p->root; h != MR_PENDING_NONE;) {
    bool before = lies_before(p, h, o, at, 0);
    if (!before) best = h;
    h = before ? p->node[h].right : p->node[h].left;
  }
  return unit_of(p, best, o);
}

int32_t mr__pending_before(const mr__pending_t *p, const mr_object_t *o, int64_t at) {
  int32_t best = MR_PENDING_NONE;
  for (int32_t h = p->root; h != MR_PENDING_NONE;) {
    bool before = lies_before(p, h, o, at, 0);
    if (before) best = h;
    h = before ? p->node[h].right : p->node[h].left;
  }
  return unit_of(p, best, o);
}
