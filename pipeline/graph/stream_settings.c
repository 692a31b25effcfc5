/* The names of settings that do not decide what batches hold: one list for those who compare a
   stream with an earlier one (a run that is resumed, a loader that is given a state). */
#include "pipeline/graph/stream_settings.h"

#include <string.h>

#include "pipeline/registry.h"
#include "pipeline/stage_source.h"

static bool is_among(const char *name, const char *const *of) {
  for (; *of; of++)
    if (!strcmp(name, *of)) return true;
  return false;
}

bool mr_setting_is_means(const char *name) {
  static const char *const means[] = {
      "workers",    "threads", "pin",        "memory",     "read-ahead",
      "backend",    "host",    "us",         "asleep",     "window",
      "wait",       "link",    "key",        "peers",      "slots",
      "remat",      "fit",     "resume",     "path",       "leak-check",
      "quarantine", "peer",    "peer-token", "relist",     "local-redirects",
      "index",      "retries", "backoff",    "timeout",    "connections",
      "hedge",      "ahead",   "cache",      "cache-size", "cache-block",
      "zero",       NULL};
  return is_among(name, means);
}

bool mr_setting_is_length(const mr_stage_def_t *def, const char *name) {
  static const char *const length[] = {"epochs",     "steps",  "skip-records",
                                       "skip-steps", "on-bad", NULL};
  const mr_opt_t *o = mr_stage_def_opt(def, name);
  return is_among(name, length) || (o && o->length);
}

bool mr_setting_is_place(const mr_stage_def_t *def, const mr_opt_t *o) {
  static const char *const places[] = {"path", "images", "labels", "names", NULL};
  return mr_says_where(def) && o->type == MR_OPT_STR && is_among(o->name, places);
}
