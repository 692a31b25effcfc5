/* Heads by the names of classes: slices of a tensor along the dimension of the classes move to
   where their names are in the model's list. */
#include "stages/train/from_head.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "stages/train/inputs.h"

/* The classes of the file: of the field with that name, else of the only field that has some. */
static const mr_classes_t *from_head_classes(const mr_spec_t *spec, const char *name) {
  const mr_classes_t *only = NULL;
  int n = 0, f = mr_spec_find(spec, name);
  if (f >= 0 && spec->field[f].classes) return spec->field[f].classes;
  for (int i = 0; i < spec->n_fields; i++)
    if (spec->field[i].classes) only = spec->field[i].classes, n++;
  return n == 1 ? only : NULL;
}

static mr_err_t from_head_compare(const mr_classes_t *here, const mr_classes_t *there,
                                  const char *path, mr__from_head_t *out, mr_diag_t *diag) {
  const mr_classes_t *list[] = {here, there};
  const char *const of[] = {"the training records", path};
  mr_classes_joined_t both = {0};
  MR_TRY(mr_classes_join(list, of, 2, &both, diag));
  out->n = there->n;
  out->place = malloc((size_t)(there->n + 1) * sizeof *out->place);
  for (int i = 0; out->place && i < there->n; i++) {
    int at = both.number[1] ? both.number[1][i] : i;
    out->place[i] = at < here->n ? at : -1;
    out->known += at < here->n;
  }
  mr_classes_unjoin(&both);
  return out->place ? MR_OK : mr_no_memory(diag, "names of classes");
}

mr_err_t mr__from_head_open(const char *path, const mr_field_t *truth, mr__from_head_t *out,
                            mr_diag_t *diag) {
  mr_train_inputs_t in;
  *out = (mr__from_head_t){0};
  mr_err_t e = mr_train_inputs_read(path, &in, diag);
  const mr_classes_t *here = truth ? truth->classes : NULL;
  const mr_classes_t *there = e >= 0 && truth ? from_head_classes(&in.spec, truth->name) : NULL;
  out->unnamed = !here != !there;
  if (here && there && !mr_classes_same(here, there))
    e = from_head_compare(here, there, path, out, diag);
  mr_train_inputs_fini(&in);
  return e;
}

void mr__from_head_fini(mr__from_head_t *h) {
  free(h->place);
  *h = (mr__from_head_t){0};
}

mr_err_t mr__from_head_order(const mr__from_head_t *h, const mr_aval_t *a, int axis, size_t each,
                             const void *drawn, void *v, mr_diag_t *diag) {
  size_t before = (size_t)mr_aval_span(a, 0, axis), classes = (size_t)a->dim[axis];
  size_t bytes = each * (size_t)mr_aval_span(a, axis + 1, a->ndim), all = before * classes * bytes;
  char *file = malloc(all + 1), *to = v;
  if (!file) return mr_no_memory(diag, "the head of another file");
  memcpy(file, v, all), memcpy(v, drawn, all);
  for (size_t b = 0; b < before; b++)
    for (size_t c = 0; c < classes && c < (size_t)h->n; c++)
      if (h->place[c] >= 0)
        memcpy(to + (b * classes + (size_t)h->place[c]) * bytes, file + (b * classes + c) * bytes,
               bytes);
  free(file);
  return MR_OK;
}
