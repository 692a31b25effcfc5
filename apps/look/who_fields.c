/* Formats scalar fields of every dtype as text and JSON, for who's lines.  Arrays are named with
   their shape alone: who says which records there were, and `millrace batch` writes their values.
   */
#include "apps/look/who_fields.h"

#include <inttypes.h>
#include <string.h>

/* Writes a number as text; integers exactly. */
static void number_text(mr_dtype_t t, const void *data, char text[32]) {
  union {
    uint8_t u8;
    int32_t i32;
    uint32_t u32;
    int64_t i64;
    uint64_t u64;
    uint16_t u16;
    float f32;
    double f64;
  } v;
  memcpy(&v, data, mr_dtype_size(t));
  switch (t) {
    case MR_BOOL: snprintf(text, 32, "%s", v.u8 ? "true" : "false"); return;
    case MR_U8: snprintf(text, 32, "%d", v.u8); return;
    case MR_I32: snprintf(text, 32, "%" PRId32, v.i32); return;
    case MR_U32: snprintf(text, 32, "%" PRIu32, v.u32); return;
    case MR_I64: snprintf(text, 32, "%" PRId64, v.i64); return;
    case MR_U64: snprintf(text, 32, "%" PRIu64, v.u64); return;
    case MR_BF16: snprintf(text, 32, "%.4g", (double)mr_bf16_to_f32(v.u16)); return;
    case MR_F16: snprintf(text, 32, "%.5g", (double)mr_f16_to_f32(v.u16)); return;
    case MR_F32: snprintf(text, 32, "%.9g", (double)v.f32); return;
    case MR_F8_E4M3FN:
    case MR_F8_E5M2: snprintf(text, 32, "%.3g", (double)mr_f8_to_f32(t, v.u8)); return;
    default: snprintf(text, 32, "%.17g", v.f64);
  }
}

void mr_who_print_fields(FILE *out, const mr_spec_t *spec, const mr_rec_t *rec) {
  int label = mr_spec_label(spec), n = 0;
  for (int f = 0; f < spec->n_fields; f++) {
    const mr_field_t *field = &spec->field[f];
    const mr_value_t *v = &rec->field[f];
    char text[32];
    if (f == label || (field->ndim && !field->ragged)) continue;
    fprintf(out, "%s%s ", n++ ? ", " : "  ", field->name);
    if (field->ragged) {
      fprintf(out, "%" PRId64 " row%s", v->rows, v->rows == 1 ? "" : "s");
    } else {
      number_text(field->dtype, v->data, text);
      fputs(text, out);
    }
  }
}

/* Adds a value; as a string if it is not finite or may exceed JSON's 53 bits. */
static void who_fields_add_value(cJSON *o, mr_dtype_t t, const void *data) {
  char text[32];
  number_text(t, data, text);
  bool wide = t == MR_I64 || t == MR_U64;
  if (t == MR_BOOL)
    cJSON_AddBoolToObject(o, "value", *text == 't');
  else if (wide || strpbrk(text, "nN")) /* "inf", "nan" */
    cJSON_AddStringToObject(o, "value", text);
  else
    cJSON_AddRawToObject(o, "value", text);
}

cJSON *mr_who_fields_json(const mr_spec_t *spec, const mr_rec_t *rec) {
  cJSON *fields = cJSON_CreateArray();
  for (int f = 0; f < spec->n_fields; f++) {
    const mr_field_t *field = &spec->field[f];
    const mr_value_t *v = &rec->field[f];
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "name", field->name);
    cJSON_AddStringToObject(o, "dtype", mr_dtype_name(field->dtype));
    cJSON *shape = cJSON_AddArrayToObject(o, "shape");
    for (int i = 0; i < field->ndim; i++) {
      int64_t dim = field->ragged && !i ? v->rows : field->dim[i];
      cJSON_AddItemToArray(shape, cJSON_CreateNumber((double)dim));
    }
    if (!field->ndim) who_fields_add_value(o, field->dtype, v->data);
    cJSON_AddItemToArray(fields, o);
  }
  return fields;
}
