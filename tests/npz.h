/* Reads what mr_npz_save wrote, by a few lines of its own: stored entries of a zip. */
#ifndef MR_TESTS_NPZ_H
#define MR_TESTS_NPZ_H

#include <string.h>

#include "base/npy.h"

/* CRC-32 bit by bit. */
static inline uint32_t npz_crc(const uint8_t *p, size_t n) {
  uint32_t crc = ~0u;
  for (size_t i = 0; i < n; i++) {
    crc ^= p[i];
    for (int k = 0; k < 8; k++) crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320u : 0);
  }
  return ~crc;
}

static inline uint32_t npz_u32(const uint8_t *p) {
  return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static inline uint32_t npz_u16(const uint8_t *p) { return p[0] | (uint32_t)p[1] << 8; }

/* The array NAME of a file of n bytes into *out, whose data points into file; false: it has none,
   or anything of it is not as a zip of .npy files should be.  *n_arrays: how many it has. */
static inline bool npz_find(const uint8_t *file, size_t n, const char *name, mr_npy_t *out,
                            int *n_arrays) {
  const uint8_t *end = file + n - 22;
  bool found = false;
  size_t n_want = strlen(name);
  if (n < 22 || npz_u32(end) != 0x06054b50) return false;
  const uint8_t *at = file + npz_u32(end + 16);
  *n_arrays = (int)npz_u16(end + 10);
  for (int i = 0; i < *n_arrays; i++) {
    uint32_t size = npz_u32(at + 24), n_name = npz_u16(at + 28);
    const uint8_t *local = file + npz_u32(at + 42), *data = local + 30 + n_name;
    if (npz_u32(at) != 0x02014b50 || npz_u32(local) != 0x04034b50 || npz_u32(local + 22) != size ||
        npz_u32(at + 20) != size || npz_crc(data, size) != npz_u32(at + 16) ||
        memcmp(at + 46, local + 30, n_name))
      return false;
    size_t offset;
    if (n_name == n_want + 4 && !memcmp(at + 46, name, n_want) &&
        !memcmp(at + 46 + n_want, ".npy", 4)) {
      if (mr_npy_header(name, data, size, out, &offset, NULL) < 0) return false;
      out->data = (void *)(data + offset);
      found = out->count * mr_dtype_size(out->dtype) == size - offset;
    }
    at += 46 + n_name;
  }
  return found && at == end;
}

#endif
