/* Sizes of memory as text: the number goes through mr_strtod, the unit through a table of
   powers. */
#include "base/text.h"

#include <ctype.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Bytes of one unit; 0 if text is no unit. */
static double bytes_unit_of(const char *unit) {
  static const char letters[] = "KMGT";
  if (!*unit || !strcmp(unit, "B")) return 1;
  const char *at = strchr(letters, toupper((unsigned char)*unit));
  bool thousands = !strcmp(unit + 1, "B");
  if (!at || (!thousands && unit[1] && strcmp(unit + 1, "iB"))) return 0;
  return pow(thousands ? 1000 : 1024, (double)(at - letters + 1));
}

mr_err_t mr_bytes_parse(const char *setting, const char *text, size_t *out, mr_diag_t *diag) {
  char *end;
  double v = mr_strtod(text, &end);
  while (*end == ' ') end++;
  double bytes = end == text ? 0 : v * bytes_unit_of(end);
  if (!(bytes >= 1 && bytes < 0x1p62))
    return mr_fail(diag, MR_ERR_CONFIG,
                   "%s: \"%s\", want a size of memory such as 2GiB, 800MiB or 1.5GB", setting,
                   text);
  *out = (size_t)bytes;
  return MR_OK;
}

const char *mr_bytes_text(size_t bytes, char *out) {
  static const char *const units[] = {"KiB", "MiB", "GiB", "TiB"};
  double v = (double)bytes / 1024;
  int i = 0;
  for (; v >= 1024 && i < 3; i++) v /= 1024;
  if (bytes < 1024)
    snprintf(out, 24, "%zu bytes", bytes);
  else
    mr_snprintf(out, 24, v < 10 ? "%.2f %s" : "%.1f %s", v, units[i]);
  return out;
}
