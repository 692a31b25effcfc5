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

enum { VECTORS_PATH = 512 };

/* Writes the path of a file of vectors, tests/golden/name, and returns it.  The environment's
   MR_VECTORS names another folder, of vectors that were made with other parameters: its file if it
   has one. */
static inline const char *vectors_path(char path[VECTORS_PATH], const char *name) {
  const char *folder = getenv("MR_VECTORS");
  FILE *f = NULL;
  if (folder) {
    snprintf(path, VECTORS_PATH, "%s/%s", folder, name);
    f = fopen(path, "rb");
  }
  if (!f) snprintf(path, VECTORS_PATH, "%s/%s", MR_GOLDEN, name);
  if (f) fclose(f);
  return path;
}

static inline FILE *vectors_at(const char *path) {
  FILE *f = fopen(path, "rb");
  if (!f) fail_msg("%s cannot be opened", path);
  return f;
}

/* Opens it; the caller closes it. */
static inline FILE *vectors_open(const char *name) {
  char path[VECTORS_PATH];
  return vectors_at(vectors_path(path, name));
}

/* The test has met n cases of a file: at least as many as the tree's vectors have, and of another
   folder's at least one. */
static inline void vectors_met(int64_t n, int64_t least) {
  if (n < (getenv("MR_VECTORS") ? 1 : least)) fail_msg("%d cases were met", (int)n);
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

/* The payload of a .npy file, some rows of row bytes each, and their number; the caller frees it.
 */
static inline void *vectors_npy_rows(const char *name, size_t row, size_t *n) {
  FILE *f = vectors_open(name);
  unsigned char head[10];
  assert_int_equal(fread(head, 1, 10, f), 10);
  assert_memory_equal(head, "\x93NUMPY\x01\x00", 8);
  long at = 10 + (head[8] | head[9] << 8);
  assert_int_equal(fseek(f, 0, SEEK_END), 0);
  size_t bytes = (size_t)(ftell(f) - at);
  assert_true(bytes > 0 && bytes % row == 0);
  fseek(f, at, SEEK_SET);
  unsigned char *data = malloc(bytes);
  assert_non_null(data);
  assert_int_equal(fread(data, 1, bytes, f), bytes);
  fclose(f);
  *n = bytes / row;
  return data;
}

/* The payload of a .npy file of exactly bytes bytes; the caller frees it. */
static inline void *vectors_npy(const char *name, size_t bytes) {
  size_t n;
  void *data = vectors_npy_rows(name, bytes, &n);
  assert_int_equal(n, 1);
  return data;
}

#endif
