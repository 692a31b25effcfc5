/* Checkpoints of several ranks: what each writes of its share, and one file made of all.  A share
   is neighbouring parameters, so that the slices of a set, one after the other in the order of the
   ranks, are the set. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/xio.h"
#include "stages/train/state_private.h"

/* ---- writing ---- */

bool mr__state_is_sliced(const mr_train_progress_t *p, const mr_param_set_t *set) {
  return p->own_values || set->kind != MR_SET_VALUES;
}

static int pack_share(const mr_params_t *params, const mr_train_progress_t *p,
                      const mr__state_sets_t *groups, mr_st_tensor_t *t,
                      char (*name)[MR__STATE_NAME]) {
  int n = 0;
  for (int k = 0; k < groups->n; k++) {
    const mr_param_set_t *set = mr_params_set(params, groups->of[k].kind, groups->of[k].number);
    if (!mr__state_is_sliced(p, set)) continue;
    for (int i = p->own[0]; i < p->own[1]; i++, n++) {
      const mr_param_t *q = &params->param[i];
      snprintf(name[n], sizeof name[n], "%s/%s", groups->of[k].name, q->name);
      t[n] = (mr_st_tensor_t){.name = name[n],
                              .dtype = set->dtype,
                              .ndim = q->aval.ndim,
                              .data = mr_params_at(params, set, i)};
      memcpy(t[n].dim, q->aval.dim, sizeof t[n].dim);
    }
  }
  return n;
}

mr_err_t mr_train_slice_write(const char *folder, const mr_params_t *params,
                              const mr_train_progress_t *p, int rank, int ranks, char *name,
                              mr_diag_t *diag) {
  mr__state_sets_t groups = mr__state_groups_of(params, p->optimizer);
  size_t most = (size_t)(p->own[1] - p->own[0]) * (size_t)groups.n + 1;
  mr_st_tensor_t *t = calloc(most, sizeof *t);
  char(*names)[MR__STATE_NAME] = calloc(most, sizeof *names);
  char place[32], step[24], ledger[24], stem[32], hex[MR_SAFETENSORS_HEX + 1], path[MR_PATH_MAX];
  const mr_st_meta_t meta[] = {
      {MR_SAFETENSORS_SLICE, place}, {"millrace.step", step}, {"millrace.ledger", ledger}};
  enum { N_META = sizeof meta / sizeof *meta };
  mr_newfile_t f;
  snprintf(place, sizeof place, "%d of %d", rank, ranks);
  snprintf(step, sizeof step, "%" PRId64, p->step);
  snprintf(ledger, sizeof ledger, "%016" PRIx64, p->ledger);
  snprintf(stem, sizeof stem, MR_STATE_STEM, p->step);
  mr_err_t e = t && names ? MR_OK : mr_no_memory(diag, "the slice of rank %d", rank);
  int n = e >= 0 ? pack_share(params, p, &groups, t, names) : 0;
  if (e >= 0) e = mr_make_folder(folder, diag);
  if (e >= 0) e = mr_safetensors_digest(stem, t, n, meta, N_META, hex, diag);
  if (e >= 0) {
    mr_safetensors_slice_name(stem, rank, ranks, hex, name);
    if (snprintf(path, sizeof path, "%s/%s", folder, name) >= (int)sizeof path)
      e = mr_fail(diag, MR_ERR_IO, "%.60s...: the path is too long", folder);
  }
  if (e >= 0) e = mr_safetensors_begin(&f, path, t, n, meta, N_META, diag);
  if (e >= 0) e = mr_newfile_commit(&f, diag);
  free(t), free(names);
  return e;
}

/* ---- one file of all ---- */

typedef struct merged {
  mr_st_tensor_t *tensor; /* [n] */
  int n;
  mr_st_meta_t *meta; /* [n_meta] */
  int n_meta;
  char version[16];
} merged_t;

/* NULL also for a name that is longer than any of a parameter. */
static const mr_st_tensor_t *find_of(const mr_safetensors_t *f, const char *group,
                                     const char *name) {
  char all[2 * MR__STATE_NAME];
  if (snprintf(all, sizeof all, "%s/%s", group, name) >= (int)sizeof all) return NULL;
  return mr_safetensors_find(f, all);
}

/* Whether a tensor is one of a set of parameters, which stand first in a file. */
static bool is_of_set(const mr__state_sets_t *groups, const char *name) {
  for (int k = 0; k < groups->n; k++) {
    size_t n = strlen(groups->of[k].name);
    if (!strncmp(name, groups->of[k].name, n) && name[n] == '/') return true;
  }
  return false;
}

/* The tensors in the order in which one process writes them; at most those of the file. */
static void order_tensors(const mr_safetensors_t *f, const mr__state_sets_t *groups, merged_t *m) {
  static const char params[] = "params/";
  const size_t skip = sizeof params - 1;
  int all = mr_safetensors_count(f);
  for (int k = 0; k < groups->n; k++)
    for (int i = 0; i < all; i++) {
      const mr_st_tensor_t *p = mr_safetensors_at(f, i);
      const mr_st_tensor_t *t =
          strncmp(p->name, params, skip) ? NULL : find_of(f, groups->of[k].name, p->name + skip);
      if (t && m->n < all) m->tensor[m->n++] = *t;
    }
  for (int i = 0; i < all; i++)
    if (!is_of_set(groups, mr_safetensors_at(f, i)->name) && m->n < all)
      m->tensor[m->n++] = *mr_safetensors_at(f, i);
}

/* What is not of the file itself. */
static void order_meta(const mr_safetensors_t *f, const mr__state_sets_t *groups, bool sliced,
                       merged_t *m) {
  static const char *const own[] = {"millrace.xxh3", "millrace.format", MR_SAFETENSORS_HASHES,
                                    MR_SAFETENSORS_SLICES, NULL};
  snprintf(m->version, sizeof m->version, "%d", mr__state_version(groups));
  mr_st_meta_t at;
  for (int i = 0; mr_safetensors_meta_at(f, i, &at); i++) {
    int k = 0;
    while (own[k] && strcmp(own[k], at.name)) k++;
    if (own[k]) continue;
    if (sliced && !strcmp(at.name, "millrace.version")) at.value = m->version;
    m->meta[m->n_meta++] = at;
  }
}

static int count_meta(const mr_safetensors_t *f) {
  mr_st_meta_t unused;
  int n = 0;
  while (mr_safetensors_meta_at(f, n, &unused)) n++;
  return n;
}

static mr_err_t merge_open(const mr_safetensors_t *f, int fd, const char *to, mr_diag_t *diag) {
  const char *optimizer = mr_safetensors_meta(f, "millrace.optimizer");
  bool averaged = mr_safetensors_meta(f, "millrace.ema") != NULL;
  mr__state_sets_t groups = mr__state_groups(optimizer ? optimizer : "adamw", averaged);
  int all = mr_safetensors_count(f);
  merged_t m = {.tensor = calloc((size_t)all + 1, sizeof *m.tensor),
                .meta = calloc((size_t)count_meta(f) + 1, sizeof *m.meta)};
  mr_err_t e = m.tensor && m.meta ? MR_OK : mr_no_memory(diag, "the tensors of %s", to);
  if (e >= 0) {
    order_tensors(f, &groups, &m);
    order_meta(f, &groups, mr_safetensors_files(f) > 1, &m);
    e = m.n == all
            ? MR_OK
            : mr_fail(diag, MR_ERR_DATA, "%s: has %d tensors of no parameter", to, all - m.n);
  }
  if (e >= 0) e = mr_safetensors_write_fd(fd, to, m.tensor, m.n, m.meta, m.n_meta, true, diag);
  free(m.tensor), free(m.meta);
  return e;
}

mr_err_t mr_train_state_merge(const char *path, int fd, const char *to, int *slices,
                              mr_diag_t *diag) {
  mr_safetensors_t *f = NULL;
  MR_TRY(mr_safetensors_open(path, &f, diag));
  const char *model;
  mr_err_t e = mr__state_find_model(f, path, &model, diag);
  if (e >= 0) e = merge_open(f, fd, to, diag);
  if (slices) *slices = mr_safetensors_files(f) - 1;
  mr_safetensors_close(f);
  return e;
}
