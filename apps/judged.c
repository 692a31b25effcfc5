/* Finds the judged numbers by their place: they directly follow the loss. */
#include "apps/judged.h"

#include <math.h>
#include <stdio.h>

#include "base/printable.h"
#include "metrics/metrics.h"

const cJSON *mr_judged(const cJSON *record, int *n) {
  const cJSON *loss = cJSON_GetObjectItemCaseSensitive(record, "loss"),
              *first = loss ? loss->next : NULL;
  *n = 0;
  for (const cJSON *at = first; at; at = at->next, ++*n)
    if (!(cJSON_IsNumber(at) || cJSON_IsNull(at)) || mr_metrics_ends_judged(at->string)) break;
  return *n ? first : NULL;
}

void mr_judged_text(const cJSON *record, const char *before, char *text, size_t size) {
  int n;
  size_t used = 0;
  text[0] = 0;
  for (const cJSON *at = mr_judged(record, &n); n-- && used < size; at = at->next) {
    char name[32];
    mr_printable_cell(at->string, sizeof name, name, sizeof name);
    for (char *c = name; *c; c++) *c = *c == '_' ? ' ' : *c;
    used += (size_t)snprintf(text + used, size - used, "%s%s %.4f", before, name,
                             cJSON_IsNumber(at) ? at->valuedouble : NAN);
  }
}
