/* Reading golden vectors: text rows and .npy arrays.  Everything fails the test on bad input.
   Brings cmocka and what it needs, in its order. */
#ifndef MR_TESTS_VECTORS_H
#define MR_TESTS_VECTORS_H

/* clang-format off */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Opens MR_GOLDEN/name; the caller closes it.  The environment's MR_VECTORS names another folder,
   of vectors that were made with other parameters. */
static inline FILE *vectors_open(const char *name) {
  char path[512];
  const char *folder = getenv("MR_VECTORS");
  snprintf(path, sizeof path, "%s/%s", folder ? folder : MR_GOLDEN, name);
  FILE *f = fopen(path, "rb");
  if (!f) fail_msg("%s cannot be opened", path);
  return f;
}

/* The next line that is no comment into line[0,n), without its newline; 0 at the end. */
static inline int vectors_line(FILE *f, char *line, size_t n) {
  while (fgets(line, (int)n, f)) {
    if (line[0] == '#') {
      for (int c = 0; !strchr(line, '\n') && c != '\n' && c != EOF;) c = fgetc(f);
      continue;
    }
    line[strcspn(line, "\n")] = 0;
    return 1;
  }
  return 0;
}

/* The payload of a .npy file of exactly bytes bytes; the caller frees it. */
static inline void *vectors_npy(const char *name, size_t bytes) {
  FILE *f = vectors_open(name);
  unsigned char head[10];
  assert_int_equal(fread(head, 1, 10, f), 10);
  assert_memory_equal(head, "\x93NUMPY\x01\x00", 8);
  fseek(f, 10 + (head[8] | head[9] << 8), SEEK_SET);
  unsigned char *data = malloc(bytes + 1);
  assert_non_null(data);
  assert_int_equal(fread(data, 1, bytes + 1, f), bytes);
  fclose(f);
  return data;
}

#endif
