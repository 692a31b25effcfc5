/* How the parameters lie on a mesh whose ranks have parts of them, for the page of a run: sinks see
   no model, so that train-step writes it as JSON once, while it is planned. */
#include <inttypes.h>
#include <stdlib.h>

#include <cjson/cJSON.h>

#include "base/text.h"
#include "model/mesh/placement_draw.h"
#include "pipeline/stage_step.h"
#include "stages/train/train_step_private.h"

/* "384x1536", of the whole array or of a rank's part. */
static void write_shape(const mr_aval_t *a, char *text, size_t n) {
  size_t at = 0;
  *text = 0;
  for (int d = 0; d < a->ndim && at < n; d++)
    at += (size_t)mr_snprintf(text + at, n - at, "%s%" PRId64, d ? "x" : "", a->dim[d]);
}

static void add_texts(cJSON *o, const char *name, int n, char (*text)[MR_GRID_TEXT]) {
  cJSON *list = cJSON_AddArrayToObject(o, name);
  for (int i = 0; i < n; i++) cJSON_AddItemToArray(list, cJSON_CreateString(text[i]));
}

static mr_err_t add_lying(cJSON *arrays, const mr_mesh_t *m, const mr_param_t *p,
                          const mr_aval_t *part, const mr_placement_t *at, mr_diag_t *diag) {
  mr_placement_grid_t grid;
  char text[MR_PLACEMENT_TEXT];
  MR_TRY(mr_placement_grid(at, m, p->aval.ndim, p->aval.dim, &grid, diag));
  cJSON *o = cJSON_CreateObject();
  cJSON_AddItemToArray(arrays, o);
  cJSON_AddStringToObject(o, "name", p->name);
  write_shape(&p->aval, text, sizeof text), cJSON_AddStringToObject(o, "shape", text);
  write_shape(part, text, sizeof text), cJSON_AddStringToObject(o, "part", text);
  cJSON_AddStringToObject(o, "lies", mr_placement_text(at, m, p->aval.ndim, text));
  add_texts(o, "rows", grid.n_rows, grid.row);
  add_texts(o, "columns", grid.n_columns, grid.column);
  add_texts(o, "ranks", grid.n_rows * grid.n_columns, grid.ranks);
  mr_placement_grid_fini(&grid);
  return MR_OK;
}

mr_err_t mr__train_write_lies(train_t *v, const mr_params_t *list, const mr_aval_t *part,
                              const mr_placement_t *at, mr_diag_t *diag) {
  char mesh[MR_MESH_TEXT];
  cJSON *o = cJSON_CreateObject();
  mr_err_t e = MR_OK;
  cJSON_AddStringToObject(o, "mesh", mr_mesh_text(&v->mesh, mesh));
  cJSON *arrays = cJSON_AddArrayToObject(o, "arrays");
  for (int i = 0; e >= 0 && i < list->n; i++)
    e = add_lying(arrays, &v->mesh, &list->param[i], &part[i], &at[i], diag);
  free(v->lies);
  v->lies = e < 0 ? NULL : cJSON_PrintUnformatted(o);
  cJSON_Delete(o);
  return e < 0 || v->lies ? e : mr_no_memory(diag, "how parameters lie");
}
