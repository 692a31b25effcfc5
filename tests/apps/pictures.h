/* A folder of pictures with two classes. */
#ifndef MR_TESTS_APPS_PICTURES_H
#define MR_TESTS_APPS_PICTURES_H

#include <stdio.h>

#include "base/xio.h"
#include "tests/vectors.h"

/* Writes the committed pictures, every second one in class b, into a folder. */
static inline void write_pictures(const char *folder) {
  static char bytes[1 << 20];
  char line[256], name[64], path[192];
  int at, n, k = 0;
  FILE *f = vectors_open("pictures.bin");
  assert_true(fread(bytes, 1, sizeof bytes, f) > 0);
  fclose(f);
  for (const char *c = "ab"; *c; c++) {
    snprintf(path, sizeof path, "%s/%c", folder, *c);
    assert_int_equal(mr_make_folder(path, NULL), MR_OK);
  }
  f = vectors_open("pictures.txt");
  while (fgets(line, sizeof line, f)) {
    if (sscanf(line, "%63s %d %d", name, &at, &n) != 3 || *name == '#') continue;
    snprintf(path, sizeof path, "%s/%c/%s.jpg", folder, "ab"[k++ % 2], name);
    assert_int_equal(mr_write_file(path, bytes + at, (size_t)n, NULL), MR_OK);
  }
  fclose(f);
}

#endif
