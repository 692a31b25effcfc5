/* A locale that writes 0,5 for 0.5, made from the C.UTF-8 of this machine: none has to be
 * installed. */
#ifndef MR_TESTS_COMMA_H
#define MR_TESTS_COMMA_H

#include <locale.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* Sets it for this process; false if the machine has no such file to start from, or another C
   library reads it otherwise. */
static inline bool comma_locale(void) {
  char dir[64] = "/tmp/mr-comma-XXXXXX", sub[80], file[96];
  unsigned char bytes[4096];
  FILE *from = fopen("/usr/lib/locale/C.utf8/LC_NUMERIC", "rb");
  if (!from) return false;
  size_t n = fread(bytes, 1, sizeof bytes, from);
  fclose(from);
  for (size_t i = 0; i < n; i++)
    if (bytes[i] == '.') bytes[i] = ',';
  if (!mkdtemp(dir)) return false;
  snprintf(sub, sizeof sub, "%s/comma", dir);
  snprintf(file, sizeof file, "%s/LC_NUMERIC", sub);
  mkdir(sub, 0700);
  FILE *to = fopen(file, "wb");
  bool good = to && fwrite(bytes, 1, n, to) == n && fclose(to) == 0;
  setenv("LOCPATH", dir, 1);
  good = good && setlocale(LC_NUMERIC, "comma");
  unsetenv("LOCPATH");
  unlink(file), rmdir(sub), rmdir(dir);
  char text[16];
  snprintf(text, sizeof text, "%g", 0.5);
  return good && text[1] == ',';
}

#endif
