/* Inputs are in the order of mr_train_step_fn: data, the state of fp8, and the sets of parameters,
   of which a rank may have a share behind the values; scales are the last input of other functions.
 */
#include "model/train/held.h"

#include <stdio.h>

typedef struct listed {
  const mr_held_of_t *of;
  const mr_fn_t *f;
  mr_held_t *held;
  int n;
} listed_t;

/* Adds inputs [first,first+n). */
static mr_held_t *held_add(listed_t *l, const char *name, const char *dtype, int first, int n) {
  mr_held_t *h = &l->held[l->n++];
  h->bytes = 0;
  snprintf(h->name, sizeof h->name, "%s%s%s", name, *dtype ? ", " : "", dtype);
  for (int i = first; i < first + n; i++) h->bytes += mr_aval_bytes(&l->f->in[i]->aval);
  return h;
}

/* Parameters [from,to) of a set, whose first input is `first`: they lie in an arena, with room
   between its tensors. */
static void held_add_set(listed_t *l, const char *name, int from, int to, int first) {
  const mr_params_t *p = l->of->params;
  mr_dtype_t t = l->f->in[first]->aval.dtype;
  size_t end = to < p->n ? p->param[to].offset : p->arena_size;
  mr_held_t *h = held_add(l, name, mr_dtype_name(t), first, 0);
  if (from < to) h->bytes = (end - p->param[from].offset) * mr_dtype_size(t);
}

/* The batches of a step on a device lie in its slots. */
static void held_add_data(listed_t *l, int n) {
  size_t slots = l->of->step ? l->of->slots : 0;
  int fields = slots ? l->of->n_fields : 0;
  held_add(l, slots ? "inputs beside the batch" : "inputs: batch and scalars", "", fields,
           n - fields);
  if (slots) held_add(l, "slots of to-device", "", 0, 0)->bytes = slots;
}

/* Names the sets of parameters, which are the inputs from `at` on. */
static void held_add_sets(listed_t *l, int sets, int at) {
  const mr_train_config_t *t = l->of->train;
  const mr_optim_t *o = &t->optim;
  const mr_params_t *params = l->of->params;
  int from, to;
  mr_train_share_of(t, l->of->whole ? l->of->whole : params, &from, &to);
  bool values = t->ranks > 1 && t->zero == 3; /* are of the share too */
  bool cut = t->mesh && t->zero && !t->pipeline.stages;
  const char *share = cut || to - from < params->n ? ", this rank's share" : "";
  for (int k = 0; k < sets; k++) {
    int first = k || values ? from : 0, end = k || values ? to : params->n;
    char name[64];
    if (first == end) continue; /* more ranks than parameters */
    if (k && k <= o->def->n_slots)
      snprintf(name, sizeof name, "%s slot.%d%s", o->def->name, k - 1, share);
    else
      snprintf(name, sizeof name, "%s%s",
               k                  ? "average of the parameters"
               : t->compute.reads ? "master copy of the parameters"
                                  : "parameters",
               k || values ? share : "");
    if (k && cut) /* pieces of the parts, each in the place of a part */
      held_add(l, name, mr_dtype_name(l->f->in[at]->aval.dtype), at, end - first);
    else
      held_add_set(l, name, first, end, at);
    at += end - first;
  }
}

int mr_train_held(const mr_held_of_t *of, mr_held_t *held) {
  listed_t l = {.of = of, .f = mr_exec_fn(of->exec), .held = held};
  bool fp8 = of->train->compute.fp8.history > 0;
  int sets = of->step ? mr_optim_sets(&of->train->optim) : 1, n_in = l.f->n_in;
  const mr_params_t *list = of->whole ? of->whole : of->params;
  int of_sets = of->step ? mr_train_step_in_place(of->train, list) : of->params->n;
  int at = n_in - of_sets - (fp8 && !of->step), data = at - (fp8 && of->step ? 2 : 0);
  held_add_data(&l, data);
  if (fp8)
    held_add(&l, "scales and history of fp8", "", of->step ? data : n_in - 1, of->step ? 2 : 1);
  if (of->params->n) held_add_sets(&l, sets, at);
  return l.n;
}
