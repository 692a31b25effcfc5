/* Which steps event files already have, so that a resumed run writes no step twice and names those
   that are missing.  It reads the files as TensorBoard does, in order of their names and up to the
   first damaged record, but keeps only the steps of training numbers. */
#include "sinks/resume.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/xio.h"
#include "events.pb-c.h"
#include "sinks/tfrecord.h"

enum { SESSION_START = 1 };

static bool has_training_number(const Tb__Event *e) {
  if (e->what_case != TB__EVENT__WHAT_SUMMARY) return false;
  for (size_t i = 0; i < e->summary->n_value; i++) {
    const Tb__SummaryValue *v = e->summary->value[i];
    if (v->tag && !strncmp(v->tag, "train/", 6) &&
        v->value_case == TB__SUMMARY_VALUE__VALUE_SIMPLE_VALUE)
      return true;
  }
  return false;
}

static bool starts_session(const Tb__Event *e) {
  return e->what_case == TB__EVENT__WHAT_SESSION_LOG && e->session_log->status == SESSION_START;
}

/* MR_END if the record is no event: readers stop there too. */
static mr_err_t note_event(const uint8_t *record, size_t n, mr_reported_steps_t *steps) {
  Tb__Event *e = tb__event__unpack(NULL, n, record);
  mr_err_t result = e ? MR_OK : MR_END;
  if (e && starts_session(e)) mr_reported_steps_forget(steps, e->step);
  if (e && has_training_number(e) && !mr_reported_steps_add(steps, e->step)) result = MR_ERR_NOMEM;
  if (e) tb__event__free_unpacked(e, NULL);
  return result;
}

static mr_err_t read_events(const char *path, mr_reported_steps_t *steps, mr_diag_t *diag) {
  mr_tfrecords_t r;
  const uint8_t *record;
  size_t n;
  mr_err_t e = mr_tfrecords_open(&r, path, diag);
  while (e == MR_OK && (e = mr_tfrecords_next(&r, &record, &n)) == MR_OK)
    e = note_event(record, n, steps);
  mr_tfrecords_close(&r);
  if (e == MR_ERR_NOMEM) return mr_no_memory(diag, "an event of %s", path);
  return e < 0 ? e : MR_OK;
}

static int is_event_file(const struct dirent *d) { return strstr(d->d_name, "tfevents") != NULL; }

/* Compares bytes, whatever the locale. */
static int event_steps_by_name(const struct dirent **a, const struct dirent **b) {
  return strcmp((*a)->d_name, (*b)->d_name);
}

mr_err_t mr_event_steps(const char *dir, mr_reported_steps_t *steps, mr_diag_t *diag) {
  struct dirent **file;
  mr_err_t e = MR_OK;
  int n = scandir(dir, &file, is_event_file, event_steps_by_name);
  if (n < 0 && errno == ENOENT) return MR_OK;
  if (n < 0) return mr_fail(diag, MR_ERR_IO, "%s: cannot read: %s", dir, strerror(errno));
  for (int i = 0; i < n; free(file[i++])) {
    char path[MR_PATH_MAX + 2 + sizeof file[i]->d_name];
    snprintf(path, sizeof path, "%s/%s", dir, file[i]->d_name);
    if (e >= 0) e = read_events(path, steps, diag);
  }
  free(file);
  return e;
}
