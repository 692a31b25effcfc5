/* A run's inputs as JSON in its checkpoints, and read back with every member checked: the file may
   come from anyone. */
#include "stages/train/inputs.h"

#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>

#include "base/safetensors.h"
#include "base/text.h"

static const char *const layout_name[] = {
    [MR_LAYOUT_NONE] = "", [MR_LAYOUT_CHW] = "CHW", [MR_LAYOUT_HWC] = "HWC"};

/* ---- writing ---- */

static void inputs_add_floats(cJSON *o, const char *name, const float v[3]) {
  cJSON *list = cJSON_AddArrayToObject(o, name);
  for (int i = 0; i < 3; i++) {
    char text[32];
    mr_snprintf(text, sizeof text, "%.9g", (double)v[i]);
    cJSON_AddItemToArray(list, cJSON_CreateRaw(text));
  }
}

static void inputs_add_field(cJSON *fields, const mr_field_t *f) {
  cJSON *o = cJSON_CreateObject();
  cJSON_AddItemToArray(fields, o);
  cJSON_AddStringToObject(o, "name", f->name);
  cJSON_AddStringToObject(o, "dtype", mr_dtype_name(f->dtype));
  cJSON *shape = cJSON_AddArrayToObject(o, "shape");
  for (int i = 0; i < f->ndim; i++)
    cJSON_AddItemToArray(shape, cJSON_CreateNumber((double)f->dim[i]));
  if (f->layout != MR_LAYOUT_NONE) cJSON_AddStringToObject(o, "layout", layout_name[f->layout]);
  if (f->std[0] > 0) inputs_add_floats(o, "mean", f->mean), inputs_add_floats(o, "std", f->std);
  if (f->label) cJSON_AddTrueToObject(o, "label");
  int n = f->classes ? f->classes->n : f->n_classes;
  if (n) cJSON_AddNumberToObject(o, "n_classes", n);
  cJSON *names = f->classes ? cJSON_AddArrayToObject(o, "classes") : NULL;
  for (int i = 0; names && i < n; i++)
    cJSON_AddItemToArray(names, cJSON_CreateString(f->classes->name[i]));
}

char *mr_train_inputs_text(const mr_spec_t *spec, const mr_loss_t *l) {
  cJSON *o = cJSON_CreateObject(), *fields = cJSON_AddArrayToObject(o, "fields");
  for (int i = 0; fields && i < l->n_fields; i++) {
    int f = mr_spec_find(spec, l->field[i].name);
    if (f >= 0) inputs_add_field(fields, &spec->field[f]);
  }
  char *text = fields ? cJSON_PrintUnformatted(o) : NULL;
  cJSON_Delete(o);
  return text;
}

/* ---- reading ---- */

static bool read_whole(const cJSON *v, int64_t most, int64_t *out) {
  if (!cJSON_IsNumber(v) || !(v->valuedouble >= 0 && v->valuedouble <= (double)most)) return false;
  *out = (int64_t)v->valuedouble;
  return (double)*out == v->valuedouble;
}

static bool read_shape(const cJSON *shape, mr_field_t *f) {
  int n = cJSON_GetArraySize(shape);
  if (!cJSON_IsArray(shape) || n >= MR_MAX_NDIM) return false;
  for (int i = 0; i < n; i++)
    if (!read_whole(cJSON_GetArrayItem(shape, i), INT32_MAX, &f->dim[i])) return false;
  f->ndim = n;
  return true;
}

static bool read_floats(const cJSON *list, float to[3]) {
  if (!list) return true;
  if (!cJSON_IsArray(list) || cJSON_GetArraySize(list) != 3) return false;
  for (int i = 0; i < 3; i++) {
    const cJSON *v = cJSON_GetArrayItem(list, i);
    if (!cJSON_IsNumber(v)) return false;
    to[i] = (float)v->valuedouble;
  }
  return true;
}

static bool read_layout(const cJSON *layout, mr_field_t *f) {
  const char *name = cJSON_GetStringValue(layout);
  if (!layout) return true;
  f->layout = name && !strcmp(name, "CHW")   ? MR_LAYOUT_CHW
              : name && !strcmp(name, "HWC") ? MR_LAYOUT_HWC
                                             : MR_LAYOUT_NONE;
  return f->layout != MR_LAYOUT_NONE;
}

/* The names, in an array of pointers into the tree that lies in front of it. */
static bool inputs_read_names(cJSON *list, int64_t n, mr_train_inputs_t *in, mr_field_t *f) {
  if (!list) return true;
  if (!cJSON_IsArray(list) || cJSON_GetArraySize(list) != n || n < 1) return false;
  const char **name = malloc((size_t)n * sizeof *name);
  mr_classes_t *c = &in->classes[in->spec.n_fields];
  *c = (mr_classes_t){0, name};
  const cJSON *one;
  cJSON_ArrayForEach(one, list) {
    const char *text = cJSON_GetStringValue(one);
    if (!name || !text || !*text) return false;
    name[c->n++] = text;
  }
  f->classes = c;
  return true;
}

static bool inputs_read_field(const cJSON *o, mr_train_inputs_t *in) {
  mr_field_t f = {0};
  int64_t n = 0;
  const char *name = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(o, "name")),
             *dtype = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(o, "dtype"));
  const cJSON *n_classes = cJSON_GetObjectItemCaseSensitive(o, "n_classes");
  if (!name || !mr_field_name_ok(name) || mr_spec_find(&in->spec, name) >= 0 || !dtype)
    return false;
  memcpy(f.name, name, strlen(name));
  while (f.dtype < MR_DTYPE_COUNT && strcmp(mr_dtype_name(f.dtype), dtype) != 0) f.dtype++;
  if (f.dtype == MR_DTYPE_COUNT) return false;
  f.label = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(o, "label"));
  if (n_classes && !read_whole(n_classes, INT32_MAX, &n)) return false;
  f.n_classes = (int)n;
  if (!read_shape(cJSON_GetObjectItemCaseSensitive(o, "shape"), &f) ||
      !read_layout(cJSON_GetObjectItemCaseSensitive(o, "layout"), &f) ||
      !read_floats(cJSON_GetObjectItemCaseSensitive(o, "mean"), f.mean) ||
      !read_floats(cJSON_GetObjectItemCaseSensitive(o, "std"), f.std) ||
      !inputs_read_names(cJSON_GetObjectItemCaseSensitive(o, "classes"), n, in, &f))
    return false;
  in->spec.field[in->spec.n_fields++] = f;
  return true;
}

static bool read_inputs(const char *text, mr_train_inputs_t *out) {
  cJSON *o = cJSON_Parse(text);
  const cJSON *fields = cJSON_GetObjectItemCaseSensitive(o, "fields"), *one;
  out->text = o;
  if (!cJSON_IsArray(fields) || cJSON_GetArraySize(fields) > MR_FIELDS_MAX) return false;
  cJSON_ArrayForEach(one, fields) if (!inputs_read_field(one, out)) return false;
  return true;
}

mr_err_t mr_train_inputs_read(const char *path, mr_train_inputs_t *out, mr_diag_t *diag) {
  mr_safetensors_t *f = NULL;
  *out = (mr_train_inputs_t){.spec = {.flow = MR_FLOW_BATCHES}};
  MR_TRY(mr_safetensors_open(path, &f, diag));
  const char *text = mr_safetensors_meta(f, "millrace.inputs");
  bool good = !text || read_inputs(text, out);
  mr_safetensors_close(f);
  if (good) return MR_OK;
  mr_train_inputs_fini(out);
  return mr_fail(diag, MR_ERR_DATA,
                 "%s: metadata millrace.inputs does not list fields as train-step does", path);
}

void mr_train_inputs_fini(mr_train_inputs_t *in) {
  for (int f = 0; f < MR_FIELDS_MAX; f++) free((void *)in->classes[f].name);
  cJSON_Delete(in->text);
  *in = (mr_train_inputs_t){0};
}
