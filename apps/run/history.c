/* One line of JSON for each start of training; a member that is missing is as in the line before.
   Reading keeps a stack: a line takes away the parts that begin at its step or later, because the
   steps behind it are repeated, and one that changes nothing adds no part. */
#include "apps/run/history.h"

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text.h"
#include "base/xio.h"

enum { HISTORY_MOST = 64 << 20, TEXTS = 5 };

static const char *const member[TEXTS] = {"graph", "settings", "carry", "data", "plugins"};

static char **text_of_part(mr_history_part_t *p, int i) {
  char **const at[TEXTS] = {&p->graph, &p->settings, &p->carry, &p->data, &p->plugins};
  return at[i];
}

static void free_part(mr_history_part_t *p) {
  for (int i = 0; i < TEXTS; i++) free(*text_of_part(p, i));
  *p = (mr_history_part_t){0};
}

/* Copies a part; false without memory, and *to is to be freed all the same. */
static bool copy_history_part(mr_history_part_t *to, const mr_history_part_t *from) {
  mr_history_part_t p = *from;
  bool whole = true;
  *to = (mr_history_part_t){.from = p.from};
  for (int i = 0; i < TEXTS; i++) {
    const char *text = *text_of_part(&p, i);
    whole &= (*text_of_part(to, i) = strdup(text ? text : "")) != NULL;
  }
  return whole;
}

static bool same_part(const mr_history_part_t *a, const mr_history_part_t *b) {
  mr_history_part_t x = *a, y = *b;
  for (int i = 0; i < TEXTS; i++)
    if (strcmp(*text_of_part(&x, i), *text_of_part(&y, i)) != 0) return false;
  return true;
}

/* ---- reading ---- */

/* Takes the members of a line over *p, which holds those of the line before. */
static mr_err_t take_line(const char *line, size_t n, mr_history_part_t *p, mr_diag_t *diag) {
  cJSON *j = cJSON_ParseWithLength(line, n);
  const cJSON *from = cJSON_GetObjectItemCaseSensitive(j, "from");
  bool good = cJSON_IsNumber(from) && from->valuedouble >= 0 && from->valuedouble < 1e15;
  bool memory = true;
  if (good) p->from = (int64_t)from->valuedouble;
  for (int i = 0; i < TEXTS && good; i++) {
    const cJSON *given = cJSON_GetObjectItemCaseSensitive(j, member[i]);
    char **at = text_of_part(p, i), *text = NULL;
    if (!given) continue;
    good = cJSON_IsString(given);
    memory &= good && (text = strdup(given->valuestring));
    if (text) free(*at), *at = text;
  }
  cJSON_Delete(j);
  if (!good)
    return mr_fail(diag, MR_ERR_DATA, "want one object with \"from\", a step, and texts: %.40s",
                   line);
  return memory ? MR_OK : mr_no_memory(diag, "the history");
}

static mr_err_t push_part(mr_history_t *h, mr_diag_t *diag) {
  while (h->n && h->part[h->n - 1].from >= h->newest.from) free_part(&h->part[--h->n]);
  if (h->n && same_part(&h->part[h->n - 1], &h->newest)) return MR_OK;
  mr_history_part_t *more = realloc(h->part, ((size_t)h->n + 1) * sizeof *more);
  if (more) h->part = more;
  if (!more || !copy_history_part(&h->part[h->n++], &h->newest))
    return mr_no_memory(diag, "the history");
  return MR_OK;
}

static mr_err_t take_history_lines(const char *path, mr_history_t *h, mr_diag_t *diag) {
  mr_diag_t why = {0};
  int number = 1;
  for (const char *at = h->text, *end; (end = strchr(at, '\n')); at = end + 1, number++) {
    mr_err_t e = take_line(at, (size_t)(end - at), &h->newest, &why);
    if (e >= 0) e = push_part(h, &why);
    if (e < 0) return mr_diag_prefix(diag, e, &why, "%s:%d", path, number);
  }
  return MR_OK;
}

mr_err_t mr_history_read(const char *run, mr_history_t *h, mr_diag_t *diag) {
  static const mr_history_part_t nothing;
  char path[MR_PATH_MAX];
  size_t n = 0;
  void *text = NULL;
  *h = (mr_history_t){0};
  snprintf(path, sizeof path, "%s/history.jsonl", run);
  if (access(path, F_OK) == 0) MR_TRY(mr_read_file(path, HISTORY_MOST, &text, &n, diag));
  h->text = text ? text : strdup("");
  if (!h->text || !copy_history_part(&h->newest, &nothing))
    return mr_no_memory(diag, "the history");
  if (strlen(h->text) != n)
    return mr_fail(diag, MR_ERR_DATA, "%s: holds a zero byte, want text", path);
  while (n && h->text[n - 1] != '\n') h->text[--n] = 0;
  return take_history_lines(path, h, diag);
}

void mr_history_free(mr_history_t *h) {
  for (int i = 0; i < h->n; i++) free_part(&h->part[i]);
  free_part(&h->newest);
  free(h->part), free(h->text);
  *h = (mr_history_t){0};
}

const mr_history_part_t *mr_history_at(const mr_history_t *h, int64_t step) {
  int i = h->n - 1;
  while (i > 0 && h->part[i].from >= step) i--;
  return i >= 0 ? &h->part[i] : NULL;
}

/* ---- writing ---- */

mr_err_t mr_history_write(const char *run, const char *text, mr_diag_t *diag) {
  char path[MR_PATH_MAX];
  snprintf(path, sizeof path, "%s/history.jsonl", run);
  if (!*text) return unlink(path), MR_OK;
  mode_t before = umask(077); /* settings may hold a token */
  mr_err_t e = mr_write_file(path, text, strlen(text), diag);
  umask(before);
  return e;
}

/* The line of a part behind h's last line; heap, NULL without memory. */
static char *line_of(const mr_history_t *h, const mr_history_part_t *part) {
  mr_history_part_t now = *part, before = h->newest;
  cJSON *j = cJSON_CreateObject();
  cJSON_AddNumberToObject(j, "from", (double)part->from);
  for (int i = 0; i < TEXTS; i++) {
    const char *text = *text_of_part(&now, i);
    if (!h->n || strcmp(text ? text : "", *text_of_part(&before, i)) != 0)
      cJSON_AddStringToObject(j, member[i], text ? text : "");
  }
  char *line = cJSON_PrintUnformatted(j);
  cJSON_Delete(j);
  return line;
}

mr_err_t mr_history_add(mr_history_t *h, const mr_history_part_t *part, mr_diag_t *diag) {
  char *line = line_of(h, part), *text = NULL;
  if (!line || asprintf(&text, "%s%s\n", h->text, line) < 0)
    return cJSON_free(line), mr_no_memory(diag, "the history");
  cJSON_free(line);
  free(h->text), h->text = text;
  free_part(&h->newest);
  if (!copy_history_part(&h->newest, part)) return mr_no_memory(diag, "the history");
  return push_part(h, diag);
}
