/* The mesh of a command's flags, and what its ranks are: those of a step that share its batch, in
   parts whose gradients are added as a tree, or those that have parts of parameters. */
#include "apps/look/mesh_arg.h"

#include <string.h>

#include "apps/look/pipeline_arg.h"
#include "base/launcher.h"

mr_err_t mr_mesh_arg(const mr_args_t *a, mr_mesh_t *m, mr_diag_t *diag) {
  const char *text = mr_args_text(a, "--mesh");
  mr_launch_t launch;
  mr_diag_t why = {0};
  MR_TRY(mr_launch_of_process(&launch, diag));
  mr_err_t e = mr_mesh_parse(text, launch.launcher ? launch.size : 0, m, &why);
  return mr_diag_prefix(diag, e < 0 ? MR_ERR_USAGE : e, &why, "%s: --mesh", a->command->name);
}

mr_err_t mr_mesh_arg_check(const mr_args_t *a, const char *word, mr_diag_t *diag) {
  static const char *const flag[] = {"--partition", "--zero", "--pipeline"};
  bool mesh = mr_args_text(a, "--mesh") != NULL, step = !word || !strcmp(word, "step");
  for (int i = 0; i < (word ? 3 : 2); i++) {
    if (!mr_args_text(a, flag[i])) continue;
    if (!mesh)
      return mr_fail(diag, MR_ERR_USAGE, "%s: %s: expected --mesh beside it", a->command->name,
                     flag[i]);
    if (!step && i)
      return mr_fail(diag, MR_ERR_USAGE, "%s: %s: expected function step beside it",
                     a->command->name, flag[i]);
  }
  return MR_OK;
}

const char *mr_mesh_arg_table(const mr_model_job_t *job, const mr_mesh_t *m) {
  int axis = mr_mesh_axis(m, "model", 5);
  return axis >= 0 && axis != mr_mesh_batch(m) ? job->model.def->partition : NULL;
}

void mr_mesh_set_ranks(const mr_mesh_t *m, const char *rules, int zero, mr_model_job_t *job) {
  enum { ORDERED_USUAL = 8 };
  mr_train_config_t *t = &job->train;
  t->zero = zero;
  t->ranks = m->size[mr_mesh_batch(m)];
  if (rules || mr_mesh_ranks(m) > t->ranks) {
    t->ranks = mr_mesh_ranks(m);
    t->mesh = m, t->partition = rules, t->table = mr_mesh_arg_table(job, m);
  } else if (!t->ordered && t->ranks > 1) {
    t->ordered = ORDERED_USUAL;
  }
}

mr_err_t mr_mesh_arg_ranks(const mr_args_t *a, const mr_mesh_t *m, mr_model_job_t *job,
                           mr_diag_t *diag) {
  int64_t zero = 0;
  MR_TRY(mr_args_int(a, "--zero", 0, MR_ZERO_MOST, &zero, diag));
  mr_mesh_set_ranks(m, mr_args_text(a, "--partition"), (int)zero, job);
  return MR_OK;
}

mr_err_t mr_rates_arg(const mr_args_t *a, const char **name, mr_rates_t *out, mr_diag_t *diag) {
  const char *text = mr_args_text(a, "--rates");
  mr_diag_t why = {0};
  *name = text ? text : "threads";
  mr_err_t e = mr_rates_read(*name, out, &why);
  return mr_diag_prefix(diag, e == MR_ERR_CONFIG ? MR_ERR_USAGE : e, &why, "%s: --rates",
                        a->command->name);
}

mr_err_t mr_mesh_arg_step(const mr_args_t *a, const mr_mesh_t *m, bool print, mr_model_job_t *job,
                          mr_diag_t *diag) {
  MR_TRY(mr_mesh_arg_ranks(a, m, job, diag));
  return mr_pipeline_arg(a, print, job, diag);
}
