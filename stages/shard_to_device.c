/* shard-to-device: declares that the step behind it is computed by the ranks of a mesh, which share
   the records of each batch along one axis.

   Ranks that are threads of this process read the same batch, each the records of its parts, so
   that no record is fetched twice and nothing is copied: batches pass unchanged, and their spec
   says how many ranks share them.

   Of ranks that are processes each makes a slice of every batch, the records of its parts
   (mr_train_stage_slices).  It is laid where it belongs in a whole batch, whose other records stay
   undefined: no rank reads them.  The step behind it learns the others' keys and draws from the
   other ranks. */
#include <string.h>

#include "base/launcher.h"
#include "model/exec/process_ranks.h"
#include "model/mesh/mesh.h"
#include "pipeline/stage_step.h"

typedef struct shard_to_device {
  const char *mesh;
  bool slices; /* batches come as this process's slices */
} shard_to_device_t;

static const mr_opt_t shard_to_device_opts[] = {
    {.name = "mesh",
     .type = MR_OPT_STR,
     .offset = offsetof(shard_to_device_t, mesh),
     .positional = 1,
     .hint = "devices numdevices ngpus nprocpernode worldsize numprocesses",
     .help = "Ranks with named axes, as batch=8,model=1: the records of a batch are shared along "
             "data, batch or else the first axis; along the others parameters are cut, as "
             "partition= of the step says.  Threads of this process, each with its share of the "
             "processors, or the processes of a job that a launcher has started "
             "(docs/distributed.md)."},
    {0}};

/* Only `train` opens the job whose processes are ranks: others would each train alone, and write
   over each other's files. */
static mr_err_t refuse_processes(mr_stage_t *s) {
  mr_launch_t l;
  mr_diag_t why = {0};
  if (mr_launch_of_process(&l, &why) < 0) return mr_stage_relay(s, why.code, &why);
  if (!l.launcher || l.size <= 1 || mr_process_ranks_paused()) return MR_OK;
  return mr_stage_fail(s, MR_ERR_CONFIG,
                       "setting mesh: this is rank %d of %d processes of %s, which are ranks of a "
                       "mesh in `millrace train` alone; want that command, or one process",
                       l.rank, l.size, mr_launcher_name(l.launcher));
}

/* Each process is one rank. */
static mr_err_t plan_processes(mr_stage_t *s, const mr_process_ranks_t *p, int ranks) {
  shard_to_device_t *v = s->state;
  mr_spec_t *out = &s->out_spec[0];
  if (ranks != p->size)
    return mr_stage_fail(
        s, MR_ERR_CONFIG,
        "setting mesh = %s: %d ranks, and this job has %d processes, each of which "
        "is one rank: want data=%d%s",
        v->mesh, ranks, p->size, p->size,
        ranks > p->size && ranks % p->size == 0
            ? ", as a process does not hold several ranks as threads"
            : "");
  v->slices = out->part;
  if (!v->slices) return MR_OK;
  if (!out->whole)
    return mr_stage_fail(s, MR_ERR_CONFIG,
                         "its batches are slices (host=) of batches of unknown size, and a step "
                         "needs to know where they lie; leave out host=, which follows from the "
                         "ranks");
  out->batch = out->whole;
  return MR_OK;
}

static mr_err_t shard_to_device_plan(mr_stage_t *s) {
  const shard_to_device_t *v = s->state;
  mr_mesh_t m;
  mr_diag_t why = {0};
  s->out_spec[0] = s->in_spec[0];
  if (!v->mesh || !*v->mesh)
    return mr_stage_fail(s, MR_ERR_CONFIG,
                         "setting mesh: missing, want the ranks' axes, as mesh=batch=8,model=1");
  if (mr_mesh_parse(v->mesh, 0, &m, &why) < 0)
    return mr_diag_prefix(s->diag, MR_ERR_CONFIG, &why, "%s: setting mesh", s->name);
  if (mr_mesh_ranks(&m) > MR_COLLECT_RANKS)
    return mr_stage_fail(s, MR_ERR_CONFIG, "setting mesh = %s: want at most %d ranks", v->mesh,
                         MR_COLLECT_RANKS);
  s->out_spec[0].ranks = m.size[mr_mesh_batch(&m)];
  s->out_spec[0].mesh = v->mesh;
  const mr_process_ranks_t *p = mr_process_ranks();
  return p ? plan_processes(s, p, mr_mesh_ranks(&m)) : refuse_processes(s);
}

/* Slots [0,n) of `to` have no records that are read: ragged fields have no rows there. */
static void skip_slots(const mr_spec_t *spec, mr_buf_t *to, int n) {
  for (int f = 0; f < spec->n_fields; f++)
    if (spec->field[f].ragged)
      memset(to->field[f].offset, 0, (size_t)(n + 1) * sizeof *to->field[f].offset);
  to->n = n;
}

/* Lays a slice out in a whole batch: its records are at slots [first,n) afterwards. */
static void lay_out_slice(const mr_spec_t *spec, const mr_buf_t *slice, mr_buf_t *to) {
  skip_slots(spec, to, slice->first);
  mr_buf_append(spec, slice, 0, slice->n, to);
  to->first = slice->first;
  to->epoch = slice->epoch, to->position = slice->position, to->flags = slice->flags;
  if (to->word) memcpy(to->word, slice->word, (size_t)spec->n_words * sizeof *to->word);
}

static mr_err_t shard_to_device_step(mr_stage_t *s) {
  const shard_to_device_t *v = s->state;
  mr_buf_t *b, *whole;
  mr_err_t e = mr_pull(s, 0, &b);
  if (e != MR_OK) return e;
  if (!v->slices) return mr_push(s, 0, b);
  e = mr_fresh(s, 0, &whole);
  if (e == MR_OK) lay_out_slice(&s->in_spec[0], b, whole);
  mr_buf_unref(b);
  return e == MR_OK ? mr_push(s, 0, whole) : e;
}

const mr_stage_def_t mr_stage_shard_to_device = {
    .name = "shard-to-device",
    .help =
        "Shares each batch among the ranks of a mesh, which compute the step behind it "
        "together.",
    .in = {{"in", MR_FLOW_BATCHES}},
    .out = {{"out", MR_FLOW_BATCHES, .device = true}},
    .opts = shard_to_device_opts,
    .state_sz = sizeof(shard_to_device_t),
    .plan = shard_to_device_plan,
    .step = &(const mr_step_def_t){.run = shard_to_device_step},
};
