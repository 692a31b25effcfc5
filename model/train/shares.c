/* Shares of ranks that are processes.  The tensors of a share are neighbours, so that what a rank
   sends of a set is one piece; padding between them is zero on all ranks. */
#include "model/train/shares.h"

#include <stdlib.h>

#include "model/train/step.h"

enum { PIECE = 1 << 24 /* bytes of a share that are sent at a time */ };

mr_err_t mr__shares_init(const mr_train_config_t *config, const mr_params_t *list, mr__shares_t *s,
                         mr_diag_t *diag) {
  mr_train_config_t of = *config;
  *s = (mr__shares_t){.ops = config->collect_ops,
                      .collect = config->collect,
                      .rank = config->rank,
                      .ranks = config->ranks,
                      .first = malloc((size_t)(config->ranks + 1) * sizeof *s->first),
                      .others = true};
  if (!s->first) return mr_no_memory(diag, "the shares of %d ranks", config->ranks);
  for (of.rank = 0; of.rank < of.ranks; of.rank++)
    s->first[of.rank] = mr__step_share(&of, list).from;
  s->first[s->ranks] = list->n;
  return MR_OK;
}

void mr__shares_fini(mr__shares_t *s) {
  free(s->first);
  *s = (mr__shares_t){.first = NULL};
}

/* Where tensors [from,to), which are not none, lie in a set; *bytes: of all of them. */
static void *shares_of_set(const mr_params_t *p, const mr_param_set_t *set, int from, int to,
                           size_t *bytes) {
  const mr_param_t *last = &p->param[to - 1];
  *bytes = (last->offset + last->size - p->param[from].offset) * mr_dtype_size(set->dtype);
  return mr_params_at(p, set, from);
}

/* Rank r's share of a set goes to rank 0, in pieces: each is waited for, so that the wire holds one
   of each rank, and a slow wire is seen to move. */
static void shares_send(const mr__shares_t *s, const mr_params_t *p, const mr_param_set_t *set,
                        int r) {
  size_t bytes;
  if (s->first[r] == s->first[r + 1] || (s->rank && s->rank != r)) return;
  void *at = shares_of_set(p, set, s->first[r], s->first[r + 1], &bytes);
  for (size_t done = 0, n; done < bytes; done += n) {
    n = bytes - done < PIECE ? bytes - done : PIECE;
    if (s->rank)
      s->ops->send(s->collect, 0, n, (char *)at + done);
    else
      s->ops->receive(s->collect, r, n, (char *)at + done);
  }
}

/* Whether the others' shares of a set go to rank 0. */
static bool is_of_gather(const mr__shares_t *s, const mr_param_set_t *set, bool average) {
  if (set->kind == MR_SET_AVERAGE) return s->newer_average;
  return set->kind != MR_SET_VALUES && !average;
}

mr_err_t mr__shares_gather(mr__shares_t *s, mr_params_t *params, bool average, mr_diag_t *diag) {
  int missing;
  if (average ? !s->newer_average : !s->newer) return MR_OK;
  for (int k = 0; k < params->n_sets; k++)
    for (int r = 1; r < s->ranks && is_of_gather(s, &params->set[k], average); r++)
      shares_send(s, params, &params->set[k], r);
  MR_TRY(s->ops->failed(s->collect, &missing, diag));
  s->newer &= average, s->newer_average = false, s->others = !s->rank;
  return MR_OK;
}

void mr__shares_updated(mr__shares_t *s, const mr_params_t *params) {
  for (int k = 0; k < params->n_sets && s->others; k++) {
    if (params->set[k].kind == MR_SET_VALUES) continue;
    mr_params_forget(params, &params->set[k], 0, s->first[s->rank]);
    mr_params_forget(params, &params->set[k], s->first[s->rank + 1], params->n);
  }
  s->others = false, s->newer = s->newer_average = true;
}
