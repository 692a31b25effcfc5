/* DLPack's structs, as its specification lays them out, over a batch's arrays.  The deleter is
   plain C: consumers call it from threads of their own, without Python's lock and after Python has
   ended. */
#include "pull/dlpack.h"

#include <stdlib.h>
#include <string.h>

typedef struct dl_tensor {
  void *data;
  int32_t device_type, device_id; /* 1: the host */
  int32_t ndim;
  uint8_t code, bits;
  uint16_t lanes;
  int64_t *shape, *strides;
  uint64_t byte_offset;
} dl_tensor_t;

typedef struct dl_managed {
  dl_tensor_t tensor;
  void *ctx;
  void (*deleter)(struct dl_managed *self);
} dl_managed_t;

typedef struct dl_versioned {
  uint32_t major, minor;
  void *ctx;
  void (*deleter)(struct dl_versioned *self);
  uint64_t flags;
  dl_tensor_t tensor;
} dl_versioned_t;

enum { DL_CPU = 1, DL_READ_ONLY = 1 };

/* One of the two, and what it points to. */
typedef struct dl_owner {
  union {
    dl_managed_t plain;
    dl_versioned_t versioned;
  } as;
  const mr_batch_t *batch;
  int64_t shape[8], strides[8];
} dl_owner_t;

static void delete_plain(dl_managed_t *self) {
  mr_batch_drop(((dl_owner_t *)self)->batch);
  free(self);
}

static void delete_versioned(dl_versioned_t *self) {
  mr_batch_drop(((dl_owner_t *)self)->batch);
  free(self);
}

/* DLPack's code of a dtype: signed, unsigned, float, bfloat, bool, and a code for each float of 8
   bits. */
static uint8_t dtype_code(mr_dtype_t t) {
  switch (t) {
    case MR_I32:
    case MR_I64: return 0;
    case MR_U8:
    case MR_U32:
    case MR_U64: return 1;
    case MR_F16:
    case MR_F32:
    case MR_F64: return 2;
    case MR_BF16: return 4;
    case MR_BOOL: return 6;
    case MR_F8_E4M3FN: return 10;
    case MR_F8_E5M2: return 12;
    case MR_DTYPE_COUNT: break;
  }
  return 3; /* an opaque handle, which no array library takes */
}

static dl_tensor_t tensor_of(dl_owner_t *o, const void *data, mr_dtype_t dtype, int ndim,
                             const int64_t *dim) {
  int64_t stride = 1;
  memcpy(o->shape, dim, (size_t)ndim * sizeof *dim);
  for (int d = ndim - 1; d >= 0; stride *= dim[d--]) o->strides[d] = stride;
  return (dl_tensor_t){.data = (void *)(uintptr_t)data,
                       .device_type = DL_CPU,
                       .ndim = ndim,
                       .code = dtype_code(dtype),
                       .bits = (uint8_t)(8 * mr_dtype_size(dtype)),
                       .lanes = 1,
                       .shape = o->shape,
                       .strides = o->strides};
}

mr_err_t mr_batch_dlpack(const mr_batch_t *batch, int field, bool versioned, void **managed,
                         mr_diag_t *diag) {
  int n = batch->n_fields;
  bool known = field >= 0 && field < 2 * n;
  const mr_batch_field_t *f = &batch->field[known ? field % n : 0];
  *managed = NULL;
  if (!known || (field >= n && !f->offset))
    return mr_fail(diag, MR_ERR_USAGE, "array %d of a batch of %d fields", field, n);
  if (!batch->writable && !versioned)
    return mr_fail(diag, MR_ERR_SHAPE,
                   "field %s may only be read, which DLPack before 1.0 cannot say: take a copy, or "
                   "a library that asks for max_version",
                   f->name);
  dl_owner_t *o = calloc(1, sizeof *o);
  if (!o) return mr_no_memory(diag, "a view of field %s", f->name);
  int64_t offsets = (int64_t)batch->n + 1;
  dl_tensor_t t = field < n ? tensor_of(o, f->data, (mr_dtype_t)f->dtype, f->ndim, f->dim)
                            : tensor_of(o, f->offset, MR_I64, 1, &offsets);
  o->batch = mr_batch_keep(batch);
  if (versioned)
    o->as.versioned = (dl_versioned_t){.major = 1,
                                       .deleter = delete_versioned,
                                       .flags = batch->writable ? 0 : DL_READ_ONLY,
                                       .tensor = t};
  else
    o->as.plain = (dl_managed_t){.tensor = t, .deleter = delete_plain};
  *managed = o;
  return MR_OK;
}

static int (*capsule_is_valid)(void *capsule, const char *name);
static void *(*capsule_pointer)(void *capsule, const char *name);

void mr_dlpack_capsule_calls(int (*is_valid)(void *capsule, const char *name),
                             void *(*pointer)(void *capsule, const char *name)) {
  capsule_is_valid = is_valid, capsule_pointer = pointer;
}

void mr_dlpack_capsule_end(void *capsule) {
  if (!capsule_is_valid) return;
  if (capsule_is_valid(capsule, "dltensor"))
    delete_plain(capsule_pointer(capsule, "dltensor"));
  else if (capsule_is_valid(capsule, "dltensor_versioned"))
    delete_versioned(capsule_pointer(capsule, "dltensor_versioned"));
}
