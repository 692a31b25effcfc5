/* The table of ops: those of control/ and ops/ in an array that the two list.def make, and those
   of plug-ins in a second one. */
#include "model/control/table.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "model/control/control.h"

const mr_op_def_t *const mr_ops[] = {
#define MR_OP(name) &mr_op_##name,
#include "model/control/list.def"
#include "model/ops/list.def"
#undef MR_OP
};

const int mr_n_ops = (int)(sizeof mr_ops / sizeof *mr_ops);

/* The first n_added rows are complete and never change.  added_lock excludes other writers; the
   release store of n_added in mr_ops_add pairs with the acquire load in find_added. */
static struct {
  const mr_op_def_t *op;
  const char *origin;
} added[MR_OPS_ADDED_MAX];
static atomic_int n_added;
static pthread_mutex_t added_lock = PTHREAD_MUTEX_INITIALIZER;

static const mr_op_def_t *find_own(const char *name) {
  for (int i = 0; i < mr_n_ops; i++)
    if (!strcmp(mr_ops[i]->name, name)) return mr_ops[i];
  return NULL;
}

/* The row of added with that name, or -1. */
static int find_added(const char *name) {
  int n = atomic_load_explicit(&n_added, memory_order_acquire);
  for (int i = 0; i < n; i++)
    if (!strcmp(added[i].op->name, name)) return i;
  return -1;
}

const mr_op_def_t *mr_op_find(const char *name) {
  const mr_op_def_t *op = find_own(name);
  int i = op ? -1 : find_added(name);
  return i < 0 ? op : added[i].op;
}

/* The name of the first rule that is NULL; NULL if the op has all of them. */
static const char *forgotten_rule(const mr_op_def_t *op) {
  const struct {
    const char *name;
    bool there;
  } rule[] = {{"shape", op->shape},
              {"jvp", op->ad.jvp},
              {"vjp", op->ad.vjp},
              {"batch", op->batch},
              {"open", op->open},
              {"shard", op->shard.rule},
              {"lower", op->lower || op->kind != MR_OP_KERNEL},
              {"sample", op->sample}};
  for (size_t i = 0; i < sizeof rule / sizeof *rule; i++)
    if (!rule[i].there) return rule[i].name;
  return NULL;
}

static mr_err_t check_op(const mr_op_def_t *op, const char *origin, mr_diag_t *diag) {
  const char *missing = forgotten_rule(op);
  int at = find_added(op->name);
  if (at >= 0 || find_own(op->name))
    return mr_fail(diag, MR_ERR_CONFIG, "%s: op \"%.60s\": %s has an op of that name; rename it",
                   origin, op->name, at < 0 ? "the program" : added[at].origin);
  if (!op->n_out)
    return mr_fail(diag, MR_ERR_CONFIG, "%s: op \"%.60s\": it has no results", origin, op->name);
  if (missing)
    return mr_fail(diag, MR_ERR_CONFIG,
                   "%s: op \"%.60s\": its %s rule is missing; an op without one says so, as "
                   "mr_no_vjp does (model/ops/rules.h)",
                   origin, op->name, missing);
  return MR_OK;
}

mr_err_t mr_ops_check(const mr_op_def_t *const *table, const char *origin, mr_diag_t *diag) {
  static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
  int n = atomic_load_explicit(&n_added, memory_order_acquire);
  for (int i = 0; table[i]; i++) {
    const char *name = table[i]->name;
    if (!name || !*name || strspn(name, letters) != strlen(name))
      return mr_fail(diag, MR_ERR_CONFIG,
                     "%s: op %d: its name is \"%.60s\", expected letters, digits and _", origin, i,
                     name ? name : "");
    for (int k = 0; k < i; k++)
      if (!strcmp(table[k]->name, name))
        return mr_fail(diag, MR_ERR_CONFIG, "%s: op \"%.60s\": it is listed twice", origin, name);
    if (n + i == MR_OPS_ADDED_MAX)
      return mr_fail(diag, MR_ERR_CONFIG, "%s: op \"%.60s\": no room for more than %d ops", origin,
                     name, MR_OPS_ADDED_MAX);
    MR_TRY(check_op(table[i], origin, diag));
  }
  return MR_OK;
}

void mr_ops_add(const mr_op_def_t *const *table, const char *origin) {
  pthread_mutex_lock(&added_lock);
  for (; *table; table++) {
    int n = atomic_load_explicit(&n_added, memory_order_relaxed); /* written under the lock only */
    assert(n < MR_OPS_ADDED_MAX && !mr_op_find((*table)->name));
    added[n].op = *table, added[n].origin = origin;
    atomic_store_explicit(&n_added, n + 1, memory_order_release); /* with find_added's acquire */
  }
  pthread_mutex_unlock(&added_lock);
}
