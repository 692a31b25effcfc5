/* Second derivatives: forward mode over reverse mode. */
#include "model/transforms/transforms.h"

mr_err_t mr_hessian(const mr_fn_t *f, int n, const int *wrt, mr_fn_t **out, mr_diag_t *diag) {
  mr_fn_t *g;
  MR_TRY(mr_grad(f, n, wrt, &g, diag));
  mr_err_t err = mr_jacfwd(g, n, wrt, out, diag);
  mr_fn_destroy(g);
  return err;
}

mr_err_t mr_hvp(const mr_fn_t *f, int n, const int *wrt, mr_fn_t **out, mr_diag_t *diag) {
  mr_fn_t *g, *j;
  MR_TRY(mr_grad(f, n, wrt, &g, diag));
  mr_err_t err = mr_jvp(g, n, wrt, &j, diag);
  mr_fn_destroy(g);
  if (err < 0) return err;
  if (mr_fn_return(j, n, j->out + n) < 0) { /* the tangents alone */
    err = mr_fail(diag, j->diag.code, "%s", j->diag.text);
    mr_fn_destroy(j);
    return err;
  }
  mr_dce(j);
  *out = j;
  return MR_OK;
}
