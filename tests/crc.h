/* Golden files of checksums: lines "NAME crc32", after lines that begin with #. */
#ifndef MR_TESTS_CRC_H
#define MR_TESTS_CRC_H

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include "tests/vectors.h"

/* zlib's, continued: 0 for the first of several pieces. */
static inline uint32_t crc32_of(uint32_t crc, const void *data, size_t n) {
  const uint8_t *p = data;
  crc = ~crc;
  for (size_t i = 0; i < n; i++) {
    crc ^= p[i];
    for (int k = 0; k < 8; k++) crc = crc >> 1 ^ (0xEDB88320u & (0 - (crc & 1)));
  }
  return ~crc;
}

/* Fails unless file (of tests/golden) says so of name. */
static inline void assert_crc(const char *file, const char *name, uint32_t crc) {
  char line[128], word[64];
  unsigned want = 0;
  bool found = false;
  FILE *f = vectors_open(file);
  while (!found && fgets(line, sizeof line, f))
    found = *line != '#' && sscanf(line, "%63s %x", word, &want) == 2 && !strcmp(word, name);
  fclose(f);
  if (!found) fail_msg("%s has no %s", file, name);
  if (crc != want) fail_msg("%s: %s is %08x, want %08x", file, name, crc, want);
}

#endif
