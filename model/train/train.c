/* Compiled steps of training.  Runs write the numbers that they report into a ring, from which
   mr_train_step_read takes them. */
#include "model/train/train.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/pace.h"
#include "model/exec/device.h"
#include "model/exec/mesh_comm.h"
#include "model/train/cut.h"
#include "model/train/ranks.h"
#include "model/train/shares.h"
#include "model/train/step.h"
#include "model/train/train_fp8.h"

mr_train_config_t mr_train_default(int64_t batch) {
  return (mr_train_config_t){.optim = mr_optim_of("adamw"),
                             .compute = {.dtype = MR_BF16},
                             .batch = batch,
                             .accumulate = 1};
}

typedef struct mr__rank_parts mr__rank_parts_t;

struct mr_train_step {
  mr__step_t s;
  mr__ranks_t *ranks;    /* the other ranks, in the step of rank 0; NULL: no others */
  bool *exchange_failed; /* of a rank that is alone in this process, of its last run; NULL: it is
                            none */
  const mr_collect_ops_t *collect_ops; /* then: its place in the communicator of ranks */
  mr_collect_t *collect;
  mr_diag_t why;         /* of an exchange that has failed */
  const mr_params_t *of; /* whose values the other ranks have; NULL: none yet */
  mr_optim_t optim;
  mr_compute_t compute;
  mr__share_t values, share; /* of slots and average */
  mr__shares_t shares;       /* of ranks that are processes; without `first`, each has all */
  mr__fp8_ring_t fp8;
  mr_err_t (*wait)(void *arg);
  void *wait_arg;
  bool
      *forward; /* [n_var] of the compiled graph: the loss depends on it; NULL: not found out yet */
  mr_err_t waited;         /* what the last run's wait returned */
  pthread_mutex_t gate;    /* between ranks that update shares of the same params */
  bool asked;              /* wait was called in this run */
  mr__rank_parts_t *parts; /* of a rank of a mesh that cuts arrays; NULL: it is none */
  mr_mesh_comm_t *mesh;    /* then, of a rank that is alone in this process */
};

/* What a rank of a mesh has parts of. */
struct mr__rank_parts {
  mr__cut_t cut;
  int rank;
  mr_params_t params;
  bool same;                             /* they are parts of the caller's params, or newer */
  bool alone;                            /* the caller's params have been given back */
  bool newer;                            /* runs have updated them since the last fetch */
  void *row[MR_LOSS_FIELDS + 1];         /* heap: this rank's records of fields, 64-aligned */
  const void *field[MR_LOSS_FIELDS + 1]; /* of the run that begins */
  size_t row_bytes[MR_LOSS_FIELDS + 1];  /* of a field's records here */
  int64_t first, n, batch;               /* this rank's records of a batch, and all */
};

mr__step_t *mr__train_step_of(mr_train_step_t *t) { return &t->s; }

static mr_err_t build_train(mr__step_t *s, const mr_loss_t *l, const mr_train_config_t *t,
                            const mr_comm_rank_t *comm, int n_comm, bool plan_only,
                            mr_diag_t *diag) {
  mr_fn_t *f = NULL;
  MR_TRY(mr_train_step_fn(l, t, &s->list, &f, diag));
  static const char smaller[] = "a smaller batch, or let fit= choose to work through it in parts";
  mr_compile_options_t options = {.skip = t->skip,
                                  .smaller = smaller,
                                  .in_place = mr_train_step_in_place(t, &s->list),
                                  .device = t->compute.device,
                                  .threads = t->compute.threads,
                                  .pin = t->compute.pin,
                                  .plan_only = plan_only,
                                  .gate_before_collective = mr__step_shares(t) > 0,
                                  .rank = comm,
                                  .n_ranks = n_comm};
  mr_err_t e = mr_compile(f, &options, &s->exec, diag);
  mr_fn_destroy(f);
  return e;
}

static bool counts_steps(const mr_train_step_t *t) { return mr_optim_counts(&t->optim); }

/* The input with the scales of fp8: behind the data, lr, t and the loss scale's scalars. */
static int train_first_fp8(const mr_train_step_t *t) {
  return mr_loss_n_data(&t->s.loss) + 2 + (counts_steps(t) ? MR_SCALE_VARS : 0);
}

/* ---- parts of a rank of a mesh ---- */

static void parts_destroy(mr__rank_parts_t *p) {
  if (!p) return;
  for (int i = 0; i <= MR_LOSS_FIELDS; i++) free(p->row[i]);
  mr__cut_fini(&p->cut);
  mr_params_fini(&p->params);
  free(p);
}

/* s, whose list has the whole parameters, becomes the step of a rank's parts. */
static mr_err_t parts_create(mr__step_t *s, const mr_loss_t *l, const mr_train_config_t *t,
                             mr__rank_parts_t **out, mr_diag_t *diag) {
  mr_params_t list = {0};
  mr__rank_parts_t *p = *out = calloc(1, sizeof *p);
  if (!p) return mr_no_memory(diag, "a rank's parts");
  p->rank = t->rank, p->batch = t->batch;
  p->first = mr__cut_records(t, t->rank, &p->n);
  s->batch = p->n;
  MR_TRY(mr__cut_init(t, &s->list, &p->cut, diag));
  mr_train_want_sets(&t->compute, &t->optim, &p->params);
  MR_TRY(mr__cut_list(&p->cut, &p->params, diag));
  MR_TRY(mr__cut_pieces(&p->cut, t->rank, &p->params, diag));
  MR_TRY(mr_params_alloc(&p->params, diag));
  mr_err_t e = mr__cut_list(&p->cut, &list, diag);
  mr_params_fini(&s->list);
  s->list = list;
  const mr_fn_t *f = mr_exec_fn(s->exec);
  for (int i = 0; e >= 0 && i < l->n_fields + l->masked; i++) {
    p->row_bytes[i] = mr_aval_bytes(&f->in[i]->aval);
    p->row[i] = aligned_alloc(64, (p->row_bytes[i] + 64) / 64 * 64);
    if (!p->row[i]) e = mr_no_memory(diag, "a rank's records");
  }
  return e;
}

/* This rank's records of a whole batch: where they lie, or copies where that is not aligned. */
static const void *const *parts_of_fields(mr__rank_parts_t *p, int n, const void *const *field) {
  for (int i = 0; i < n; i++) {
    const char *at = (const char *)field[i] + p->row_bytes[i] / (size_t)p->n * (size_t)p->first;
    p->field[i] = at;
    if ((uintptr_t)at % 64) p->field[i] = memcpy(p->row[i], at, p->row_bytes[i]);
  }
  return p->field;
}

void mr__train_step_take_parts(mr_train_step_t *t, const mr_params_t *params) {
  mr__rank_parts_t *p = t->parts;
  if (!p->same) mr__cut_take(&p->cut, p->rank, params, &p->params);
  p->same = true;
}

void mr__train_step_stale(mr_train_step_t *t) { t->parts->same = false; }

mr_err_t mr__train_step_prepare_parts(mr_train_step_t *t, const void *const *field,
                                      const mr_train_in_t *given, mr_diag_t *diag) {
  mr__rank_parts_t *p = t->parts;
  const mr_loss_t *l = &t->s.loss;
  const void *const *own = parts_of_fields(p, l->n_fields + l->masked, field);
  return mr__train_step_prepare(t, &p->params, &p->params, own, given, diag);
}

void mr__train_step_join_parts(const mr_train_step_t *t, mr_params_t *whole) {
  const mr__rank_parts_t *p = t->parts;
  mr__cut_join(&p->cut, p->rank, &p->params, whole);
}

mr_err_t mr__train_step_of_rank(const mr_loss_t *l, const mr_train_config_t *config,
                                const mr_comm_rank_t *comm, mr_train_step_t **out,
                                mr_diag_t *diag) {
  mr_diag_t own = {0};
  mr_train_step_t *t = calloc(1, sizeof *t);
  if (!t) return mr_no_memory(diag, "a compiled step");
  assert(!config->there || mr__step_device(&config->compute));
  t->s.batch = config->batch;
  t->s.loss = *l;
  t->optim = config->optim;
  t->compute = config->compute;
  pthread_mutex_init(&t->gate, NULL);
  t->compute.policy = NULL; /* the caller's, used while the step is built */
  float fixed = config->optim.loss_scale > 0 ? config->optim.loss_scale : 1;
  t->s.runs.scale[0] = mr_scale_state_start(
      config->optim.dynamic.patience > 0 ? config->optim.dynamic.start : fixed);
  if (mr__step_device(&config->compute) && config->compute.fp8.history)
    mr_fail(&own, MR_ERR_NORULE, "fp8: device %s has no kernels of f8, want device=cpu beside it",
            config->compute.device->name);
  mr_err_t err = own.code < 0
                     ? own.code
                     : build_train(&t->s, l, config, comm,
                                   config->mesh ? config->mesh->n : comm != NULL, false, &own);
  if (err >= 0 && config->mesh) err = parts_create(&t->s, l, config, &t->parts, &own);
  t->s.placed = (mr__placed_t){.device = mr__step_device(&config->compute),
                               .n_slots = config->optim.def->n_slots,
                               .average = config->optim.ema > 0,
                               .moments = true};
  if (err >= 0) err = mr__step_runs(&t->s, config->there, MR_REPORT_METRICS + l->n_metrics, &own);
  if (err >= 0 && t->s.placed.device) mr_exec_wait_beside(t->s.exec);
  if (err >= 0 && t->compute.fp8.history)
    err = mr__fp8_ring_init(&t->fp8, mr_exec_fn(t->s.exec), train_first_fp8(t), &own);
  if (err < 0) {
    mr_train_step_destroy(t);
    return mr_diag_relay(diag, err, &own);
  }
  const mr_params_t *whole = t->parts ? &t->parts->cut.list : &t->s.list;
  t->values = mr__step_values(config, whole);
  t->share = mr__step_share(config, whole);
  *out = t;
  return MR_OK;
}

static bool may_update(void *arg);

/* The step of the one rank that this process has. */
static mr_err_t create_rank(const mr_loss_t *l, const mr_train_config_t *config,
                            mr_train_step_t **out, mr_diag_t *diag) {
  mr_train_step_t *t = NULL;
  bool *failed = calloc(1, sizeof *failed);
  if (!failed) return mr_no_memory(diag, "a rank of a step");
  const mr_comm_rank_t of = {.ops = config->collect_ops,
                             .collect = config->collect,
                             .rank = config->rank,
                             .size = config->ranks,
                             .axis = MR__RANKS_AXIS,
                             .exchange_failed = failed};
  mr_err_t e = mr__train_step_of_rank(l, config, &of, &t, diag);
  if (e < 0) {
    free(failed);
    return e;
  }
  t->exchange_failed = failed;
  t->collect_ops = config->collect_ops, t->collect = config->collect;
  mr_exec_gate(t->s.exec, may_update, t);
  if (mr__step_shares(config)) e = mr__shares_init(config, &t->s.list, &t->shares, diag);
  if (e < 0) return mr_train_step_destroy(t), e;
  return *out = t, MR_OK;
}

/* The same of a rank of a mesh that cuts arrays. */
static mr_err_t create_rank_of_mesh(const mr_loss_t *l, const mr_train_config_t *config,
                                    mr_train_step_t **out, mr_diag_t *diag) {
  mr_mesh_comm_t *mesh = NULL;
  mr_train_step_t *t = NULL;
  mr_mesh_t axes;
  mr__cut_mesh(config, &axes);
  mr_err_t e = mr_mesh_comm_create(config->collect_ops, mr_device_default(), &axes, "step",
                                   config->rank, config->limit_s, &mesh, diag);
  if (e >= 0) e = mr__train_step_of_rank(l, config, mr_mesh_comm_ranks(mesh), &t, diag);
  if (e < 0) return mr_mesh_comm_destroy(mesh), e;
  t->mesh = mesh;
  t->collect_ops = config->collect_ops, t->collect = config->collect;
  return *out = t, MR_OK;
}

mr_err_t mr_train_step_create(const mr_loss_t *l, const mr_train_config_t *config,
                              mr_train_step_t **out, mr_diag_t *diag) {
  mr__ranks_t *ranks = NULL;
  mr_diag_t own = {0};
  mr_train_step_t *t = NULL;
  if (config->ranks <= 1) {
    mr_train_config_t alone = *config;
    alone.mesh = NULL; /* one rank has the whole of each array */
    return mr__train_step_of_rank(l, &alone, NULL, out, diag);
  }
  MR_TRY(mr_train_parts_check(config, diag));
  if (config->collect)
    return (config->mesh ? create_rank_of_mesh : create_rank)(l, config, out, diag);
  mr_err_t e = mr__ranks_create(l, config, &ranks, &t, &own);
  if (e < 0) return mr_diag_relay(diag, e, &own);
  t->ranks = ranks;
  return *out = t, MR_OK;
}

static mr_train_plan_t train_plan_of(const mr_exec_t *x) {
  mr_train_plan_t p = {.peak = mr_exec_peak_bytes(x)};
  const mr_fn_t *f = mr_exec_fn(x);
  for (int i = 0; i < f->n_eqn; i++) {
    mr_cost_t c = mr_cost_of(f->eqn[i]);
    p.flop += c.flop, p.bytes += c.bytes;
  }
  return p;
}

/* The list of a rank's parts in place of that of whole parameters. */
static mr_err_t list_parts_of_rank(const mr_train_config_t *t, mr_params_t *list, mr_diag_t *diag) {
  mr__cut_t cut;
  mr_params_t part = {0};
  mr_err_t e = mr__cut_init(t, list, &cut, diag);
  if (e >= 0) e = mr__cut_list(&cut, &part, diag);
  mr__cut_fini(&cut);
  mr_params_fini(list);
  *list = part;
  return e;
}

mr_err_t mr__train_step_plan_of_rank(const mr_loss_t *l, const mr_train_config_t *config,
                                     const mr_comm_rank_t *comm, mr_params_t *list, mr_exec_t **out,
                                     mr_diag_t *diag) {
  mr__step_t s = {.batch = config->batch};
  mr_diag_t own = {0};
  mr_err_t e =
      build_train(&s, l, config, comm, config->mesh ? config->mesh->n : comm != NULL, true, &own);
  *list = s.list, s.list = (mr_params_t){0};
  if (e >= 0 && config->mesh) e = list_parts_of_rank(config, list, &own);
  if (e >= 0) *out = s.exec, s.exec = NULL;
  mr__step_fini(&s);
  return mr_diag_relay(diag, e, &own);
}

mr_err_t mr_train_step_plan(const mr_loss_t *l, const mr_train_config_t *config,
                            mr_train_plan_t *out, mr_diag_t *diag) {
  mr__step_t s = {.batch = config->batch};
  mr_diag_t own = {0};
  mr_train_config_t alone = *config; /* a plan is that of a step without ranks */
  alone.ranks = 0, alone.zero = 0, alone.pipeline.stages = 0, alone.mesh = NULL;
  mr_err_t err = build_train(&s, l, &alone, NULL, 0, true, &own);
  if (err >= 0) *out = train_plan_of(s.exec);
  mr__step_fini(&s);
  return mr_diag_relay(diag, err, &own);
}

mr_scale_state_t *mr_train_step_scale(mr_train_step_t *t) {
  return mr__runs_scale_of(&t->s.runs, t->s.runs.begun);
}

mr_train_fp8_t mr_train_step_fp8(const mr_train_step_t *t) {
  return mr__fp8_ring_at(&t->fp8, t->s.runs.begun);
}

/* Points inputs and outputs at the sets that the step updates, in its order: values of params, the
   others of shares.  MR_ERR_CONFIG if there is no average but the step needs it. */
static mr_err_t set_params(mr_train_step_t *t, const mr_params_t *params, const mr_params_t *shares,
                           int in, int out, mr_diag_t *diag) {
  int slots = t->optim.def->n_slots, sets = mr_optim_sets(&t->optim);
  for (int k = 0; k < sets; k++) {
    mr_set_kind_t kind = !k ? MR_SET_VALUES : k <= slots ? MR_SET_SLOT : MR_SET_AVERAGE;
    const mr_params_t *of = k ? shares : params;
    const mr_param_set_t *set =
        mr__placed_set(&t->s.placed, of, kind, kind == MR_SET_SLOT ? k - 1 : 0);
    if (!set && k > slots)
      return mr_fail(diag, MR_ERR_CONFIG, "ema: the parameters have no room for their average");
    if (set->dtype != mr__step_kept_in(&t->compute, k, slots))
      return mr_fail(diag, MR_ERR_SHAPE, "parameters: set %d is kept in %s, the step wants %s", k,
                     mr_dtype_name(set->dtype),
                     mr_dtype_name(mr__step_kept_in(&t->compute, k, slots)));
    const mr__share_t own = k ? t->share : t->values;
    for (int i = own.from; i < own.to; i++)
      t->s.runs.in[in++] = t->s.runs.out[out++] = mr_params_at(of, set, i);
  }
  return MR_OK;
}

mr_err_t mr__train_step_prepare(mr_train_step_t *t, const mr_params_t *params,
                                const mr_params_t *shares, const void *const *field,
                                const mr_train_in_t *given, mr_diag_t *diag) {
  mr__step_t *s = &t->s;
  mr__runs_t *r = &s->runs;
  int in = mr_loss_n_data(&s->loss), out = 1;
  const mr__scalars_t now = {given->seed, (uint32_t)given->step, given->lr, (float)given->step};
  MR_TRY(mr__step_begin(s, params, field, &now, diag));
  mr__runs_rate(r, in), in += 2;
  if (counts_steps(t)) mr__runs_scale(r, in, out), in += MR_SCALE_VARS, out += MR_SCALE_VARS;
  if (t->fp8.n) {
    mr__fp8_ring_bind(&t->fp8, r->begun, r->in + in, r->out + out);
    in += 2, out += 2;
  }
  t->waited = MR_OK;
  t->asked = false;
  return set_params(t, params, shares, in, out, diag);
}

static void start_own(mr_train_step_t *t) {
  mr__step_start(&t->s);
  if (t->collect && t->collect_ops->given) t->collect_ops->given(t->collect);
}

/* Of a rank whose runs update parameters on its device: those of a run whose exchange has failed
   are undefined, and nothing is read of them. */
static mr_err_t check_exchange_of_device(mr_train_step_t *t, mr_diag_t *diag) {
  int missing;
  if (!t->collect || !t->s.placed.device) return MR_OK;
  if (t->why.code >= 0) t->collect_ops->failed(t->collect, &missing, &t->why);
  return mr_diag_relay(diag, t->why.code, &t->why);
}

/* The parts of one process's ranks may be newer than the caller's params. */
static mr_err_t check_whole_params(const mr_train_step_t *t, const mr_params_t *p,
                                   mr_diag_t *diag) {
  const mr__step_t whole = {.list = t->parts->cut.list};
  return mr__step_same_params(&whole, p, diag);
}

/* Whether ranks that are processes have all come.  The sentence is of a communicator of one axis,
   and may name another rank of the job, for which the one that is missing there waits itself. */
static mr_err_t read_axes_failure(mr_train_step_t *t) {
  mr_diag_t why = {0};
  int missing;
  mr_err_t e = mr_mesh_comm_failed(t->mesh, &missing, &why);
  if (e < 0 && missing >= 0)
    return mr_diag_prefix(&t->why, e, &why, "lost rank %d of the job", missing);
  return mr_diag_relay(&t->why, e, &why);
}

/* Ranks that have parts read whole parameters no more until the next fetch makes them: their memory
   goes back to the system, once those who read them are done. */
static mr_err_t give_whole_back(mr_train_step_t *t, const mr_params_t *params) {
  if (t->parts->alone) return MR_OK;
  if (t->wait) MR_TRY(t->wait(t->wait_arg));
  for (int k = 0; k < params->n_sets; k++) mr_params_forget(params, &params->set[k], 0, params->n);
  t->parts->alone = true;
  return MR_OK;
}

/* A run of ranks that have parts.  The labels of the whole batch are checked, since each rank only
   sees its own. */
static mr_err_t run_in_parts(mr_train_step_t *t, mr_params_t *params, const void *const *field,
                             const mr_train_in_t *given, mr_diag_t *diag) {
  const mr_loss_t *l = &t->s.loss;
  MR_TRY(check_whole_params(t, params, diag));
  for (int i = 0; i < l->n_fields; i++)
    if (l->field[i].classes && l->field[i].aval.dtype == MR_I32 && !l->field[i].aval.ndim)
      MR_TRY(mr_train_check_classes(&l->field[i], field[i], t->parts->batch, diag));
  if (t->of != params) {
    mr__train_step_stale(t);
    if (t->ranks) mr__ranks_stale(t->ranks);
    t->parts->alone = false;
  }
  t->of = params;
  mr__train_step_take_parts(t, params);
  MR_TRY(mr__train_step_prepare_parts(t, field, given, diag));
  if (t->ranks) {
    MR_TRY(mr__ranks_prepare(t->ranks, t, params, field, given, diag));
    mr__ranks_run(t->ranks, start_own, t);
  } else {
    start_own(t);
    if (read_axes_failure(t) < 0) return mr_diag_relay(diag, t->why.code, &t->why);
  }
  t->parts->newer = true;
  t->s.runs.begun++;
  if (t->ranks) mr__ranks_begun(t->ranks);
  return give_whole_back(t, params);
}

/* All processes give their parts of a tensor to all; `none` for one that this rank lacks. */
static mr_err_t gather_tensor(mr_train_step_t *t, const mr_param_set_t *set, int i, void *all,
                              const void *none, mr_params_t *params, mr_diag_t *diag) {
  mr__rank_parts_t *p = t->parts;
  size_t bytes = mr__cut_elems(&p->cut, set->kind, i) * mr_dtype_size(set->dtype);
  int missing;
  bool has = mr__cut_has(&p->cut, p->rank, set->kind, i);
  t->collect_ops->all_gather(t->collect, bytes, has ? mr_params_at(&p->params, set, i) : none, all);
  MR_TRY(t->collect_ops->failed(t->collect, &missing, diag));
  for (int r = 0; r < mr_mesh_ranks(&p->cut.mesh); r++)
    mr__cut_join_tensor(&p->cut, r, set, i, (char *)all + (size_t)r * bytes, params);
  return MR_OK;
}

static mr_err_t gather_parts_of_processes(mr_train_step_t *t, mr_params_t *params,
                                          mr_diag_t *diag) {
  mr__rank_parts_t *p = t->parts;
  size_t most = 0, ranks = (size_t)mr_mesh_ranks(&p->cut.mesh);
  for (int i = 0; i < p->params.n; i++)
    if (p->params.param[i].size > most) most = p->params.param[i].size;
  float *all = calloc(most * (ranks + 1) + 1, sizeof *all);
  mr_err_t e = all ? MR_OK : mr_no_memory(diag, "the parts of a tensor");
  for (int k = 0; k < p->params.n_sets && e >= 0; k++)
    for (int i = 0; i < p->params.n && e >= 0; i++) {
      mr_pace_beat(MR_PACE_VALUES, k * p->params.n + i + 1, p->params.n_sets * p->params.n);
      e = gather_tensor(t, &p->params.set[k], i, all, all + most * ranks, params, diag);
    }
  free(all);
  return e;
}

/* Makes params whole from what the last run has left. */
static mr_err_t fetch_parts(mr_train_step_t *t, mr_params_t *params, mr_diag_t *diag) {
  if (!t->parts->newer) return MR_OK;
  if (t->wait) MR_TRY(t->wait(t->wait_arg));
  if (t->ranks) {
    mr__train_step_join_parts(t, params);
    mr__ranks_join(t->ranks, params);
  } else {
    MR_TRY(gather_parts_of_processes(t, params, diag));
  }
  t->parts->newer = t->parts->alone = false;
  return MR_OK;
}

/* Gives rank 0 the shares of all processes, or those of the average alone. */
static mr_err_t fetch_shares(mr_train_step_t *t, mr_params_t *params, bool average,
                             mr_diag_t *diag) {
  if (!t->shares.first || !t->shares.newer) return MR_OK;
  if (t->wait) MR_TRY(t->wait(t->wait_arg));
  return mr__shares_gather(&t->shares, params, average, diag);
}

mr_err_t mr_train_step_whole(mr_train_step_t *t, mr_params_t *params, mr_diag_t *diag) {
  return t->parts ? fetch_parts(t, params, diag) : fetch_shares(t, params, false, diag);
}

mr_err_t mr_train_step_average(mr_train_step_t *t, mr_params_t *params, mr_diag_t *diag) {
  return t->parts ? fetch_parts(t, params, diag) : fetch_shares(t, params, true, diag);
}

void mr_train_step_share(const mr_train_step_t *t, int *from, int *to) {
  const mr__shares_t *s = &t->shares;
  *from = s->first ? s->first[s->rank] : 0;
  *to = s->first ? s->first[s->rank + 1] : t->s.list.n;
}

/* With shares the last exchange comes behind the update, so that its failure is no gate's. */
static void read_last_exchange(mr_train_step_t *t) {
  int missing;
  if (t->shares.first && *t->exchange_failed && t->why.code >= 0 && t->waited >= 0)
    t->collect_ops->failed(t->collect, &missing, &t->why);
}

mr_err_t mr_train_step_run(mr_train_step_t *t, mr_params_t *params, const void *const *field,
                           const mr_train_in_t *given, mr_diag_t *diag) {
  mr__step_t *s = &t->s;
  if (t->parts) return run_in_parts(t, params, field, given, diag);
  if (s->placed.device && s->placed.of != params) MR_TRY(mr_train_step_put(t, params, diag));
  MR_TRY(mr__train_step_prepare(t, params, params, field, given, diag));
  if (t->ranks) {
    if (t->of != params) mr__ranks_stale(t->ranks);
    t->of = params;
    MR_TRY(mr__ranks_prepare(t->ranks, t, params, field, given, diag));
    mr__ranks_run(t->ranks, start_own, t);
    if (t->waited < 0) mr__ranks_stale(t->ranks); /* they have updated theirs */
  } else {
    if (t->exchange_failed) *t->exchange_failed = false;
    if (t->of != params) t->shares.others = true;
    t->of = params;
    start_own(t);
    read_last_exchange(t);
  }
  if (t->why.code < 0) return mr_diag_relay(diag, t->why.code, &t->why);
  if (t->waited < 0) return t->waited;
  /* A command that the device has refused is this step's; what fails later is found by its mark. */
  if (s->placed.device) MR_TRY(mr_device_usable(s->placed.device, diag));
  s->placed.newer = true;
  s->runs.begun++;
  if (t->ranks) mr__ranks_begun(t->ranks);
  return MR_OK;
}

mr_err_t mr_train_step_put(mr_train_step_t *t, const mr_params_t *params, mr_diag_t *diag) {
  if (t->parts) {
    MR_TRY(check_whole_params(t, params, diag));
    mr__train_step_stale(t);
    if (t->ranks) mr__ranks_stale(t->ranks);
    t->parts->newer = t->parts->alone = false;
    return MR_OK;
  }
  MR_TRY(mr__step_same_params(&t->s, params, diag));
  if (t->ranks) mr__ranks_stale(t->ranks);
  t->shares.others = true, t->shares.newer = t->shares.newer_judged = false;
  return mr__placed_put(&t->s.placed, params, diag);
}

/* Before parameters go to the host over those of the last good run. */
static mr_err_t await_exchange_of_device(mr_train_step_t *t, mr_diag_t *diag) {
  if (!t->collect || !t->s.placed.device) return MR_OK;
  MR_TRY(mr_device_reached(t->s.placed.device, NULL, true, diag));
  return check_exchange_of_device(t, diag);
}

mr_err_t mr_train_step_fetch(mr_train_step_t *t, mr_params_t *params, mr_diag_t *diag) {
  mr__placed_t *p = &t->s.placed;
  if (t->parts) return fetch_parts(t, params, diag);
  MR_TRY(fetch_shares(t, params, false, diag));
  MR_TRY(mr__placed_fetch_end(p, diag));
  if (!p->device || !p->newer) return MR_OK;
  if (t->wait) MR_TRY(t->wait(t->wait_arg));
  MR_TRY(await_exchange_of_device(t, diag));
  return mr__placed_fetch(p, params, diag);
}

mr_err_t mr_train_step_fetch_begin(mr_train_step_t *t, mr_params_t *params, mr_diag_t *diag) {
  mr__placed_t *p = &t->s.placed;
  if (t->parts) return fetch_parts(t, params, diag);
  MR_TRY(fetch_shares(t, params, false, diag));
  MR_TRY(mr__placed_fetch_end(p, diag));
  if (!p->device || !p->newer) return MR_OK;
  if (t->wait) MR_TRY(t->wait(t->wait_arg));
  MR_TRY(await_exchange_of_device(t, diag));
  return mr__placed_fetch_begin(p, params, diag);
}

mr_err_t mr_train_step_fetch_end(mr_train_step_t *t, mr_diag_t *diag) {
  return mr__placed_fetch_end(&t->s.placed, diag);
}

mr_err_t mr_train_step_read(mr_train_step_t *t, bool wait, mr_train_out_t *out, mr_diag_t *diag) {
  mr__runs_t *r = &t->s.runs;
  mr_err_t e = mr__runs_await(r, wait, diag);
  if (e != MR_OK) return e;
  MR_TRY(check_exchange_of_device(t, diag));
  if (counts_steps(t)) mr__runs_read_scale(r);
  const float *reported = mr__runs_reported(r);
  if (t->ranks)
    MR_TRY(mr__ranks_read(t->ranks, reported, MR_REPORT_METRICS + t->s.loss.n_metrics, diag));
  const mr_scale_state_t *was = mr__runs_scale_of(r, r->read);
  const mr_scale_state_t *next = mr__runs_scale_of(r, r->read + 1);
  float fixed = t->optim.loss_scale > 0 ? t->optim.loss_scale : 1;
  *out = (mr_train_out_t){.step = r->scalars[r->read % MR_TRAIN_RING].step,
                          .loss = reported[MR_REPORT_LOSS],
                          .grad_norm = reported[MR_REPORT_GRAD_NORM],
                          .param_norm = reported[MR_REPORT_PARAM_NORM],
                          .loss_scale = t->optim.dynamic.patience > 0 ? was->scale : fixed,
                          .applied = !counts_steps(t) || next->skipped == was->skipped,
                          .bad = counts_steps(t) ? next->bad : 0,
                          .skipped = counts_steps(t) ? next->skipped : 0,
                          .counted = (double)reported[MR_REPORT_COUNTED]};
  for (int i = 0; i < t->s.loss.n_metrics && out->counted > 0; i++)
    out->metric[i] = (double)reported[MR_REPORT_METRICS + i] / out->counted;
  r->read++;
  return MR_OK;
}

void mr_train_step_retake(mr_train_step_t *t) {
  mr__runs_retake(&t->s.runs);
  if (t->ranks) mr__ranks_retake(t->ranks);
}

/* The vector that a step reports begins with the loss: concatenate of it and other scalars. */
const mr_var_t *mr_train_loss_of(const mr_fn_t *f) {
  const mr_eqn_t *reported = f->n_out ? f->out[0]->def : NULL;
  return reported && reported->n_in ? reported->in[0] : NULL;
}

static bool in_scope_of(const mr_eqn_t *e, const char *scope) {
  size_t n = strlen(scope);
  return !strncmp(e->scope, scope, n) && (!e->scope[n] || e->scope[n] == '/');
}

/* Marks what the loss depends on; of ranks, what they post of theirs: the loss of all is known
   behind an exchange of gradients. */
static bool *train_forward(const mr_fn_t *f) {
  bool *of_loss = calloc((size_t)f->n_var + 1, sizeof *of_loss), posts = false;
  const mr_var_t *loss = mr_train_loss_of(f);
  if (!of_loss || !loss) return of_loss;
  for (int i = 0; i < f->n_eqn; i++) posts |= in_scope_of(f->eqn[i], MR_OPTIM_POSTED);
  of_loss[loss->id] = !posts;
  for (int i = f->n_eqn - 1; i >= 0; i--) {
    const mr_eqn_t *e = f->eqn[i];
    bool moves = posts && in_scope_of(e, MR_OPTIM_POSTED);
    for (int k = 0; k < e->n_out; k++) moves |= of_loss[e->out[k]->id];
    for (int k = 0; moves && k < e->n_in; k++) of_loss[e->in[k]->id] = true;
    for (int k = 0; moves && k < e->n_out; k++) of_loss[e->out[k]->id] = true;
  }
  return of_loss;
}

mr_train_part_t mr_train_part_of(mr_train_step_t *s, const mr_eqn_t *e) {
  if (!s->forward) s->forward = train_forward(mr_exec_fn(s->s.exec));
  for (int k = 0; s->forward && k < e->n_out; k++)
    if (s->forward[e->out[k]->id]) return MR_PART_FORWARD;
  return in_scope_of(e, s->optim.def->name) ? MR_PART_UPDATE : MR_PART_BACKWARD;
}

/* Before a run's first write to params, which comes behind its exchange. */
static bool may_update(void *arg) {
  mr_train_step_t *s = arg;
  int missing;
  if (s->exchange_failed && *s->exchange_failed)
    s->waited = s->collect_ops->failed(s->collect, &missing, &s->why);
  else if (s->wait)
    s->waited = s->wait(s->wait_arg);
  if (s->waited >= 0 && s->shares.first) mr__shares_updated(&s->shares, s->of);
  return s->waited >= 0;
}

/* The same for any of the ranks that update the params of s: the first one asks for all. */
static bool may_update_shares(void *arg) {
  mr_train_step_t *s = arg;
  pthread_mutex_lock(&s->gate);
  if (!s->asked) (void)may_update(s);
  s->asked = true;
  bool may = s->waited >= 0;
  pthread_mutex_unlock(&s->gate);
  return may;
}

void mr_train_step_before_update(mr_train_step_t *s, mr_err_t (*wait)(void *arg), void *arg) {
  s->wait = wait;
  s->wait_arg = arg;
  if (s->parts) return; /* runs write to parts, and a fetch waits */
  if (s->ranks && mr__ranks_share(s->ranks)) {
    mr_exec_gate(s->s.exec, wait ? may_update_shares : NULL, s);
    mr__ranks_gate(s->ranks, wait ? may_update_shares : NULL, s);
    return;
  }
  bool in_place = !s->s.placed.device; /* a device's runs write to no array of the host */
  mr_exec_gate(s->s.exec, (wait || s->exchange_failed) && in_place ? may_update : NULL, s);
}

const mr_exec_t *mr_train_step_exec(const mr_train_step_t *s) { return s->s.exec; }

mr_exec_t *mr_train_step_profiled(mr_train_step_t *s) { return s->s.exec; }

void mr_train_step_destroy(mr_train_step_t *s) {
  if (!s) return;
  mr__ranks_t *ranks = s->ranks;
  mr__step_fini(&s->s);
  mr__fp8_ring_fini(&s->fp8);
  free(s->forward);
  free(s->exchange_failed);
  parts_destroy(s->parts);
  mr__shares_fini(&s->shares);
  mr_mesh_comm_destroy(s->mesh);
  pthread_mutex_destroy(&s->gate);
  free(s);
  mr__ranks_destroy(ranks);
}
