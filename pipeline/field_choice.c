/* The field that a stage with a setting `field` works on: by name, or the only one that fits. */
#include <string.h>

#include "pipeline/stage.h"

static int named(mr_stage_t *s, const char *name, mr_field_fits_fn *fits, const char *wants) {
  const mr_spec_t *in = &s->in_spec[0];
  char text[MR_FIELDS_MAX * (MR_FIELD_NAME + 2)];
  int f = mr_spec_find(in, name);
  if (f < 0)
    return mr_stage_fail(s, MR_ERR_SHAPE, "setting field = %s: the records have %s", name,
                         mr_spec_names(in, text, sizeof text));
  if (fits(&in->field[f])) return f;
  mr_field_text(&in->field[f], 0, text, sizeof text);
  return mr_stage_fail(s, MR_ERR_SHAPE, "setting field = %s: it is %s, want %s", name,
                       text + strlen(name) + 1, wants);
}

int mr_field_choose(mr_stage_t *s, const char *name, mr_field_fits_fn *fits, const char *wants) {
  const mr_spec_t *in = &s->in_spec[0];
  char names[MR_FIELDS_MAX * (MR_FIELD_NAME + 2)];
  int found = -1;
  if (name) return named(s, name, fits, wants);
  for (int f = 0; f < in->n_fields; f++) {
    if (!fits(&in->field[f])) continue;
    if (found >= 0)
      return mr_stage_fail(s, MR_ERR_SHAPE,
                           "fields %s and %s could both be %s: set field= to one of them",
                           in->field[found].name, in->field[f].name, wants);
    found = f;
  }
  if (found >= 0) return found;
  return mr_stage_fail(s, MR_ERR_SHAPE, "takes %s; the records have %s", wants,
                       mr_spec_names(in, names, sizeof names));
}
