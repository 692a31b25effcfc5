/* shard-to-device: declares that the step behind it is computed by the ranks of a mesh, which share
   the records of each batch along one axis.

   The ranks are threads of this process and read the same batch, each the records of its parts, so
   that no record is fetched twice and nothing is copied: batches pass unchanged, and their spec
   says how many ranks share them. */
#include <string.h>

#include "base/launcher.h"
#include "model/exec/collect.h"
#include "model/mesh/mesh.h"
#include "pipeline/stage_step.h"

typedef struct shard_to_device {
  const char *mesh;
} shard_to_device_t;

static const mr_opt_t shard_to_device_opts[] = {
    {.name = "mesh",
     .type = MR_OPT_STR,
     .offset = offsetof(shard_to_device_t, mesh),
     .positional = 1,
     .hint = "devices numdevices ngpus nprocpernode worldsize numprocesses",
     .help = "Ranks with named axes, as batch=8,model=1: the records of a batch are shared along "
             "data, batch or else the first axis; every other axis has size 1.  Threads of this "
             "process, each with its share of the processors (docs/distributed.md)."},
    {0}};

/* Ranks of several processes would each train alone, and write over each other's files. */
static mr_err_t refuse_processes(mr_stage_t *s) {
  mr_launch_t l;
  mr_diag_t why = {0};
  if (mr_launch_of_process(&l, &why) < 0) return mr_stage_relay(s, why.code, &why);
  if (!l.launcher || l.size <= 1) return MR_OK;
  return mr_stage_fail(s, MR_ERR_CONFIG,
                       "setting mesh: this is rank %d of %d processes of %s, and ranks of a mesh "
                       "are threads of one process; want one process",
                       l.rank, l.size, mr_launcher_name(l.launcher));
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
  int shared = mr_mesh_batch(&m);
  for (int a = 0; a < m.n; a++)
    if (a != shared && m.size[a] > 1)
      return mr_stage_fail(s, MR_ERR_CONFIG,
                           "setting mesh = %s: axis %s has size %d, and a step is shared along "
                           "the axis of the batch alone (%s); want %s=1",
                           v->mesh, m.name[a], m.size[a], m.name[shared], m.name[a]);
  if (m.size[shared] > MR_COLLECT_RANKS)
    return mr_stage_fail(s, MR_ERR_CONFIG, "setting mesh = %s: want at most %d ranks", v->mesh,
                         MR_COLLECT_RANKS);
  s->out_spec[0].ranks = m.size[shared];
  return refuse_processes(s);
}

static mr_err_t shard_to_device_step(mr_stage_t *s) {
  mr_buf_t *b;
  mr_err_t e = mr_pull(s, 0, &b);
  return e == MR_OK ? mr_push(s, 0, b) : e;
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
