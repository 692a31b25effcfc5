/* Lists and reads the metrics of sibling runs; a name from a request never leaves the parent
   folder. */
#include "sinks/web_runs.h"

#include <cjson/cJSON.h>
#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/xio.h"

enum { LARGEST = 64 << 20 }; /* bytes of another run's metrics */

char *mr_web_runs_json(const char *run) {
  char folder[MR_PATH_MAX], file[MR_PATH_MAX];
  struct stat st;
  cJSON *all = cJSON_CreateArray();
  snprintf(folder, sizeof folder, "%s/..", run);
  DIR *d = opendir(folder);
  for (struct dirent *e; d && (e = readdir(d));) {
    int n = snprintf(file, sizeof file, "%s/%s/metrics.jsonl", folder, e->d_name);
    if (e->d_name[0] == '.' || n >= (int)sizeof file || stat(file, &st) < 0) continue;
    cJSON_AddItemToArray(all, cJSON_CreateString(e->d_name));
  }
  if (d) closedir(d);
  char *text = cJSON_PrintUnformatted(all);
  cJSON_Delete(all);
  return text;
}

void *mr_web_runs_metrics(const char *run, const char *name, size_t *n) {
  char file[MR_PATH_MAX];
  void *data;
  mr_diag_t unsaid = {0};
  if (!*name || name[0] == '.' || strchr(name, '/')) return NULL;
  if (snprintf(file, sizeof file, "%s/../%s/metrics.jsonl", run, name) >= (int)sizeof file)
    return NULL;
  return mr_read_file(file, LARGEST, &data, n, &unsaid) < 0 ? NULL : data;
}
