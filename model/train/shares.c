/* Shares of ranks that are processes.  The tensors of a share are neighbours, so that what a rank
   sends of a set is one piece; padding between them is zero on all ranks. */
#include "model/train/shares.h"

#include <stdlib.h>

#include "base/pace.h"
#include "model/train/step.h"

enum { PIECE = 1 << 24 /* bytes of a share that are sent at a time */ };

mr_err_t mr__shares_init(const mr_train_config_t *config, const mr_params_t *list, mr__shares_t *s,
                         mr_diag_t *diag) {
  *s = (mr__shares_t){.ops = config->collect_ops,
                      .collect = config->collect,
                      .rank = config->rank,
                      .ranks = config->ranks,
                      .first = malloc((size_t)(config->ranks + 1) * sizeof *s->first),
                      .others = true,
                      .values = mr__step_shares(config) >= 3};
  if (!s->first) return mr_no_memory(diag, "the shares of %d ranks", config->ranks);
  for (int r = 0; r <= s->ranks; r++) s->first[r] = mr__step_first(config, list, r);
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
                        int r, int64_t *piece, int64_t of) {
  size_t bytes;
  if (s->first[r] == s->first[r + 1] || (s->rank && s->rank != r)) return;
  void *at = shares_of_set(p, set, s->first[r], s->first[r + 1], &bytes);
  for (size_t done = 0, n; done < bytes; done += n) {
    mr_pace_beat(MR_PACE_VALUES, ++*piece, of);
    n = bytes - done < PIECE ? bytes - done : PIECE;
    if (s->rank)
      s->ops->send(s->collect, 0, n, (char *)at + done);
    else
      s->ops->receive(s->collect, r, n, (char *)at + done);
  }
}

/* Whether this process has a share of a set alone. */
static bool is_of_shares(const mr__shares_t *s, const mr_param_set_t *set) {
  return s->values || set->kind != MR_SET_VALUES;
}

/* Whether the others' shares of a set go to rank 0. */
static bool is_of_gather(const mr__shares_t *s, const mr_params_t *p, const mr_param_set_t *set,
                         bool judged) {
  bool is_judged = set == mr_params_judged(p);
  return is_of_shares(s, set) && (is_judged ? s->newer_judged : !judged);
}

/* The pieces in which shares come to this process, or go from it. */
static int64_t count_pieces(const mr__shares_t *s, const mr_params_t *p, bool judged) {
  int64_t n = 0;
  for (int k = 0; k < p->n_sets; k++)
    for (int r = 1; r < s->ranks && is_of_gather(s, p, &p->set[k], judged); r++) {
      size_t bytes = 0;
      if (s->first[r] == s->first[r + 1] || (s->rank && s->rank != r)) continue;
      (void)shares_of_set(p, &p->set[k], s->first[r], s->first[r + 1], &bytes);
      n += (int64_t)((bytes + PIECE - 1) / PIECE);
    }
  return n;
}

mr_err_t mr__shares_gather(mr__shares_t *s, mr_params_t *params, bool judged, mr_diag_t *diag) {
  int missing;
  if (judged ? !s->newer_judged : !s->newer) return MR_OK;
  int64_t piece = 0, of = count_pieces(s, params, judged);
  for (int k = 0; k < params->n_sets; k++)
    for (int r = 1; r < s->ranks && is_of_gather(s, params, &params->set[k], judged); r++)
      shares_send(s, params, &params->set[k], r, &piece, of);
  MR_TRY(s->ops->failed(s->collect, &missing, diag));
  s->newer &= judged, s->newer_judged = false, s->others = !s->rank;
  return MR_OK;
}

void mr__shares_updated(mr__shares_t *s, const mr_params_t *params) {
  for (int k = 0; k < params->n_sets && s->others; k++) {
    if (!is_of_shares(s, &params->set[k])) continue;
    mr_params_forget(params, &params->set[k], 0, s->first[s->rank]);
    mr_params_forget(params, &params->set[k], s->first[s->rank + 1], params->n);
  }
  s->others = false, s->newer = s->newer_judged = true;
}
