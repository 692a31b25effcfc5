/* The texts of all kernels that tests of the CUDA backend need, each once: those of every op's
   samples, as they are and as the passes leave them, and those of the recipe's training step. */
#ifndef MR_TESTS_MODEL_CUDA_TEXTS_H
#define MR_TESTS_MODEL_CUDA_TEXTS_H

#include "model/backends/kernels/kernel.h"
#include "model/backends/kernels/texts.h"
#include "model/exec/backend.h"
#include "model/transforms/passes.h"
#include "model/transforms/transforms.h"
#include "tests/model/grid.h"
#include "tests/model/vit_step.h"

/* The kernels of f's equations, in `all`; equations that run graphs have none of their own. */
static inline int texts_of(mr_kernel_texts_t *all, const mr_fn_t *f) {
  int n = 0;
  for (int i = 0; i < f->n_eqn; i++) {
    mr_kernels_t k = {0};
    size_t index;
    mr_diag_t diag = {0};
    mr_err_t e = mr_kernels_write(f->eqn[i], 64, &k, &diag);
    if (e < 0 && e != MR_ERR_NORULE) fail_msg("%s", diag.text);
    for (int j = 0; j < k.n; j++) assert_true(mr_kernel_texts_add(all, k.kernel[j].text, &index));
    n += k.n;
    mr_kernels_fini(&k);
  }
  return n;
}

/* Those of f as the CUDA backend compiles it; skip: passes to leave out, or NULL. */
static inline int texts_of_compiled(mr_kernel_texts_t *all, const mr_fn_t *f, const char *skip) {
  const mr_target_t *t = mr_backend_find("cuda")->compile->target(NULL);
  mr_diag_t diag = {0};
  mr_fn_t *own = NULL;
  if (mr_open_calls(f, t, &own, &diag) < 0 || mr_passes_run(own, t, skip, &diag) < 0)
    fail_msg("%s\n%s", diag.text, mr_fn_text(f));
  int n = texts_of(all, own);
  mr_fn_destroy(own);
  return n;
}

static inline int texts_of_samples(mr_kernel_texts_t *all) {
  int n = 0;
  for (int i = 0; i < mr_n_ops; i++)
    for (int k = 0;; k++) {
      mr_sample_t s = {.f = mr_fn_create()};
      bool is = mr_ops[i]->sample(mr_ops[i], &s, k);
      if (is) n += texts_of_compiled(all, s.f, NULL);
      mr_fn_destroy(s.f);
      if (!is) break;
    }
  return n;
}

/* The training step of a Vision Transformer; returns how many kernels a run of it starts. */
static inline int texts_of_step(mr_kernel_texts_t *all, const vit_t *v, int64_t batch,
                                const char *skip) {
  mr_train_config_t t = mr_train_default(batch);
  mr_loss_t l = mr_vit_loss(&v->model);
  mr_params_t list = {0};
  mr_diag_t diag = {0};
  mr_fn_t *f = NULL;
  t.compute = v->how;
  if (mr_train_step_fn(&l, &t, &list, &f, &diag) < 0) fail_msg("%s", diag.text);
  int n = texts_of_compiled(all, f, skip);
  mr_fn_destroy(f);
  mr_params_fini(&list);
  return n;
}

static inline void texts_fini(mr_kernel_texts_t *all) {
  for (size_t i = 0; i < all->n; i++) free(all->kept[i].text);
  free(all->kept), free(all->slot);
  *all = (mr_kernel_texts_t){0};
}

#endif
