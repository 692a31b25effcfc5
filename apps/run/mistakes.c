/* A record is known by its id.  Which file an id is of, the source says of a record's index alone:
   all of its records are asked, and those whose ids are among the mistakes get their files.  No
   record is read. */
#include "apps/run/mistakes.h"

#include <cjson/cJSON.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/text.h"
#include "base/xio.h"
#include "pipeline/stage_source.h"

enum { MISTAKES_BYTES = 1 << 30 };

typedef struct mistake {
  uint64_t id;
  int64_t line;
  cJSON *o;
} mistake_t;

typedef struct mistakes {
  mistake_t *of; /* [n] heap */
  int64_t n, room;
} mistakes_t;

static void drop_mistakes(mistakes_t *m) {
  for (int64_t i = 0; i < m->n; i++) cJSON_Delete(m->of[i].o);
  free(m->of);
}

static mr_err_t add_line(mistakes_t *m, const char *file, const char *line, mr_diag_t *diag) {
  const char *id = strstr(line, "\"id\":");
  cJSON *o = id ? cJSON_Parse(line) : NULL;
  if (!o)
    return mr_fail(diag, MR_ERR_DATA, "%s: line %" PRId64 " is no record of eval-step", file,
                   m->n + 1);
  if (m->n == m->room) {
    int64_t room = m->room ? 2 * m->room : 256;
    mistake_t *of = realloc(m->of, (size_t)room * sizeof *of);
    if (!of) return cJSON_Delete(o), mr_no_memory(diag, "the mistakes");
    m->of = of, m->room = room;
  }
  m->of[m->n] = (mistake_t){strtoull(id + strlen("\"id\":"), NULL, 10), m->n, o};
  m->n++;
  return MR_OK;
}

static mr_err_t read_mistakes(const char *file, mistakes_t *m, mr_diag_t *diag) {
  void *bytes;
  size_t n;
  MR_TRY(mr_read_file(file, MISTAKES_BYTES, &bytes, &n, diag));
  char *text = realloc(bytes, n + 1), *rest = NULL;
  if (!text) return free(bytes), mr_no_memory(diag, "the mistakes");
  text[n] = 0;
  mr_err_t e = MR_OK;
  for (char *l = strtok_r(text, "\n", &rest); l && e >= 0; l = strtok_r(NULL, "\n", &rest))
    e = add_line(m, file, l, diag);
  free(text);
  return e;
}

static int by_id(const void *a, const void *b) {
  const mistake_t *x = a, *y = b;
  return x->id < y->id ? -1 : x->id > y->id;
}

static int by_line(const void *a, const void *b) {
  const mistake_t *x = a, *y = b;
  return x->line < y->line ? -1 : x->line > y->line;
}

/* Asks the source for the file of each of its records. */
static void name_files(mistakes_t *m, mr_stage_t *source) {
  static char file[MR_WHERE_MAX];
  qsort(m->of, (size_t)m->n, sizeof *m->of, by_id);
  for (int64_t i = 0; i < source->out_spec[0].n_records; i++) {
    mr_where_t where = {.file = file, .offset = -1};
    file[0] = 0;
    source->def->source->where(source, i, &where);
    mistake_t wanted = {.id = where.key};
    mistake_t *at = bsearch(&wanted, m->of, (size_t)m->n, sizeof *m->of, by_id);
    while (at && at > m->of && at[-1].id == where.key) at--;
    for (; at && at < m->of + m->n && at->id == where.key; at++) {
      if (cJSON_HasObjectItem(at->o, "file")) continue;
      cJSON_AddStringToObject(at->o, "file", file);
      if (where.offset > 0) cJSON_AddNumberToObject(at->o, "offset", (double)where.offset);
    }
  }
  qsort(m->of, (size_t)m->n, sizeof *m->of, by_line);
}

static mr_err_t write_mistakes(const char *file, const mistakes_t *m, mr_diag_t *diag) {
  mr_text_out_t text;
  size_t n = 0;
  FILE *out = mr_text_out_open(&text);
  for (int64_t i = 0; out && i < m->n; i++) {
    char *line = cJSON_PrintUnformatted(m->of[i].o);
    if (line) fprintf(out, "%s\n", line);
    cJSON_free(line);
  }
  char *all = mr_text_out_close(&text, out, &n);
  mr_err_t e = all ? mr_write_file(file, all, n, diag) : mr_no_memory(diag, "the mistakes");
  free(all);
  return e;
}

mr_err_t mr_mistakes_name(const char *file, mr_stage_t *source, int64_t *n, const char **why,
                          mr_diag_t *diag) {
  mistakes_t m = {0};
  struct stat st;
  bool known = source && mr_says_where(source->def);
  *n = -1, *why = "they are too many to find the files that hold them";
  if (stat(file, &st) == 0 && st.st_size > MISTAKES_BYTES) return MR_OK;
  *why = known    ? NULL
         : source ? "its source does not say which files hold them"
                  : "they are of several sources, and which files hold them is not known";
  mr_err_t e = read_mistakes(file, &m, diag);
  *n = m.n;
  if (e >= 0 && m.n && known) {
    name_files(&m, source);
    e = write_mistakes(file, &m, diag);
  }
  drop_mistakes(&m);
  return e;
}
