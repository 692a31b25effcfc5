/* Matching classes by name.  Lists may be long (ImageNet-21k), so names are found by hashing; a
   name that occurs twice in a list is no name to match by, and is refused where matching is needed.
 */
#include "base/classes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/same_name.h"
#include "base/text.h"

enum { LIST_TEXT = 300 /* bytes of a list in a sentence */, NAME_TEXT = 100 };

bool mr_classes_same(const mr_classes_t *a, const mr_classes_t *b) {
  if (!a || !b) return a == b;
  if (a->n != b->n) return false;
  for (int i = 0; i < a->n && a->name != b->name; i++)
    if (!mr_same_name(a->name[i], b->name[i])) return false;
  return true;
}

const char *mr_classes_text(const mr_classes_t *c, char *text, size_t n) {
  enum { REST = 24 }; /* " and 2147483647 more" */
  size_t at = 0;
  if (!c) return snprintf(text, n, "no names"), text;
  text[0] = 0;
  for (int i = 0; i < c->n; i++) {
    char shown[NAME_TEXT];
    mr_printable(c->name[i], shown, sizeof shown);
    size_t more = strlen(shown) + (i ? 2 : 0);
    if (at + more + (i + 1 < c->n ? REST : 1) > n) {
      snprintf(text + at, n - at, "%s%d more", i ? " and " : "", c->n - i);
      break;
    }
    at += (size_t)snprintf(text + at, n - at, "%s%s", i ? ", " : "", shown);
  }
  return text;
}

/* ---- names by hashing ---- */

typedef struct table {
  const char **name; /* [n] */
  int n;
  int32_t *slot; /* [room] a name's number, or -1; room is a power of two above 2 n */
  size_t room;
  bool exact; /* a name is found by its bytes alone */
} table_t;

static bool classes_table_init(table_t *t, size_t most) {
  *t = (table_t){.room = 16};
  while (t->room < 2 * most + 2) t->room *= 2;
  t->name = malloc((most + 1) * sizeof *t->name);
  t->slot = malloc(t->room * sizeof *t->slot);
  for (size_t i = 0; t->slot && i < t->room; i++) t->slot[i] = -1;
  return t->name && t->slot;
}

static void classes_table_fini(table_t *t) { free(t->name), free(t->slot); }

static uint64_t hash_of_bytes(const char *name) {
  uint64_t h = UINT64_C(0xCBF29CE484222325);
  for (; *name; name++) h = (h ^ (unsigned char)*name) * UINT64_C(0x100000001B3);
  return h;
}

/* Where a name is, or the free slot where it belongs. */
static int32_t *classes_slot_of(const table_t *t, const char *name) {
  uint64_t h = t->exact ? hash_of_bytes(name) : mr_same_name_hash(name);
  for (size_t at = (size_t)(h ^ h >> 32);; at++) {
    int32_t *slot = &t->slot[at & (t->room - 1)];
    if (*slot < 0) return slot;
    const char *own = t->name[*slot];
    if (t->exact ? !strcmp(own, name) : mr_same_name(own, name)) return slot;
  }
}

/* Adds a name that the table may have; returns its number. */
static int32_t classes_table_add(table_t *t, const char *name) {
  int32_t *slot = classes_slot_of(t, name);
  if (*slot < 0) *slot = t->n, t->name[t->n++] = name;
  return *slot;
}

/* ---- two lists ---- */

static mr_err_t classes_no_memory(mr_diag_t *diag) {
  return mr_no_memory(diag, "names of classes");
}

/* The sentence with both lists; why says what of `name` is wrong. */
static mr_err_t classes_refuse(const mr_classes_t *a, const char *a_of, const mr_classes_t *b,
                               const char *b_of, const char *name, const char *why,
                               mr_diag_t *diag) {
  char one[LIST_TEXT], other[LIST_TEXT], shown[NAME_TEXT];
  return mr_fail(diag, MR_ERR_DATA, "%s has the %d classes %s, and %s the %d classes %s: \"%s\" %s",
                 a_of, a->n, mr_classes_text(a, one, sizeof one), b_of, b->n,
                 mr_classes_text(b, other, sizeof other), mr_printable(name, shown, sizeof shown),
                 why);
}

static const char twice[] =
    "is in a list twice, so that classes cannot be matched by name: want "
    "each name once, or the same lists";

static mr_err_t align_names(const table_t *to_table, const mr_classes_t *from, const char *from_of,
                            const mr_classes_t *to, const char *to_of, int32_t *number,
                            mr_diag_t *diag) {
  table_t seen;
  mr_err_t e = classes_table_init(&seen, (size_t)from->n) ? MR_OK : classes_no_memory(diag);
  for (int i = 0; i < from->n && e >= 0; i++) {
    number[i] = *classes_slot_of(to_table, from->name[i]);
    if (number[i] < 0)
      e = classes_refuse(from, from_of, to, to_of, from->name[i],
                         "is only in the first: want the same names, or fewer there", diag);
    else if (classes_table_add(&seen, from->name[i]) != i)
      e = classes_refuse(from, from_of, to, to_of, from->name[i], twice, diag);
  }
  classes_table_fini(&seen);
  return e;
}

mr_err_t mr_classes_align(const mr_classes_t *from, const char *from_of, const mr_classes_t *to,
                          const char *to_of, int32_t **number, mr_diag_t *diag) {
  table_t t;
  *number = NULL;
  if (!from || !to || mr_classes_same(from, to)) return MR_OK;
  mr_err_t e = classes_table_init(&t, (size_t)to->n) ? MR_OK : classes_no_memory(diag);
  for (int i = 0; i < to->n && e >= 0; i++)
    if (classes_table_add(&t, to->name[i]) != i)
      e = classes_refuse(from, from_of, to, to_of, to->name[i], twice, diag);
  if (e >= 0 && !(*number = malloc(((size_t)from->n + 1) * sizeof **number)))
    e = classes_no_memory(diag);
  if (e >= 0) e = align_names(&t, from, from_of, to, to_of, *number, diag);
  classes_table_fini(&t);
  if (e < 0) free(*number), *number = NULL;
  return e;
}

/* ---- one list ---- */

/* Two tables, so that a name of many forms costs no more than another. */
struct mr_classes_index {
  table_t exact, same; /* numbered by place, with gaps at repeated names */
  int32_t form[2];     /* the first two places of one name in two forms; -1: none */
};

/* Puts name i at its place, unless an earlier one is there; returns that which is. */
static int32_t index_add(table_t *t, const char *name, int32_t i) {
  int32_t *slot = classes_slot_of(t, name);
  if (*slot < 0) *slot = i, t->name[i] = name;
  return *slot;
}

mr_classes_index_t *mr_classes_index_create(const mr_classes_t *c, mr_diag_t *diag) {
  mr_classes_index_t *x = calloc(1, sizeof *x);
  bool good = x && classes_table_init(&x->exact, (size_t)c->n) &&
              classes_table_init(&x->same, (size_t)c->n);
  if (!good) {
    mr_classes_index_destroy(x), classes_no_memory(diag);
    return NULL;
  }
  x->exact.exact = true, x->form[0] = x->form[1] = -1;
  for (int i = 0; i < c->n; i++) {
    index_add(&x->exact, c->name[i], i);
    int32_t first = index_add(&x->same, c->name[i], i);
    if (x->form[0] < 0 && strcmp(c->name[first], c->name[i])) x->form[0] = first, x->form[1] = i;
  }
  return x;
}

void mr_classes_index_destroy(mr_classes_index_t *x) {
  if (!x) return;
  classes_table_fini(&x->exact), classes_table_fini(&x->same);
  free(x);
}

int32_t mr_classes_find(const mr_classes_index_t *x, const char *name) {
  int32_t at = *classes_slot_of(&x->exact, name);
  return at >= 0 ? at : *classes_slot_of(&x->same, name);
}

bool mr_classes_forms(const mr_classes_index_t *x, int32_t places[2]) {
  places[0] = x->form[0], places[1] = x->form[1];
  return places[0] >= 0;
}

mr_err_t mr_classes_places(const mr_classes_t *of, const mr_classes_t *in, int32_t *place,
                           mr_diag_t *diag) {
  mr_classes_index_t *x = mr_classes_index_create(in, diag);
  if (!x) return MR_ERR_NOMEM;
  for (int i = 0; i < of->n; i++) place[i] = mr_classes_find(x, of->name[i]);
  mr_classes_index_destroy(x);
  return MR_OK;
}

/* ---- several lists ---- */

static bool all_same(const mr_classes_t *const *list, int n) {
  for (int l = 1; l < n; l++)
    if (!mr_classes_same(list[0], list[l])) return false;
  return true;
}

/* Adds list l to the joined ones; its numbers, unless they stay as they are. */
static mr_err_t join_one(const mr_classes_t *const *list, const char *const *of, int l, table_t *t,
                         int32_t **number, mr_diag_t *diag) {
  const mr_classes_t *c = list[l];
  bool moved = false;
  bool *seen = calloc((size_t)t->n + (size_t)c->n + 1, sizeof *seen);
  int32_t *to = malloc(((size_t)c->n + 1) * sizeof *to);
  mr_err_t e = seen && to ? MR_OK : classes_no_memory(diag);
  for (int i = 0; i < c->n && e >= 0; i++) {
    to[i] = classes_table_add(t, c->name[i]);
    if (seen[to[i]]) e = classes_refuse(c, of[l], list[!l], of[!l], c->name[i], twice, diag);
    seen[to[i]] = true;
    moved |= to[i] != i;
  }
  free(seen);
  if (e >= 0 && moved)
    *number = to;
  else
    free(to);
  return e;
}

mr_err_t mr_classes_join(const mr_classes_t *const *list, const char *const *of, int n,
                         mr_classes_joined_t *out, mr_diag_t *diag) {
  table_t t = {0};
  size_t most = 0;
  *out = (mr_classes_joined_t){.number = calloc((size_t)n, sizeof *out->number), .n_lists = n};
  for (int l = 0; l < n; l++) most += (size_t)list[l]->n;
  mr_err_t e = out->number && classes_table_init(&t, most) ? MR_OK : classes_no_memory(diag);
  bool same = all_same(list, n);
  for (int i = 0; same && i < list[0]->n && e >= 0; i++) t.name[t.n++] = list[0]->name[i];
  for (int l = 0; l < n && !same && e >= 0; l++)
    e = join_one(list, of, l, &t, &out->number[l], diag);
  out->name = t.name, t.name = NULL;
  out->all = (mr_classes_t){t.n, out->name};
  classes_table_fini(&t);
  if (e < 0) mr_classes_unjoin(out);
  return e;
}

void mr_classes_unjoin(mr_classes_joined_t *out) {
  for (int l = 0; out->number && l < out->n_lists; l++) free(out->number[l]);
  free(out->number), free(out->name);
  *out = (mr_classes_joined_t){0};
}
