/* The file of on-bad=quarantine:N: a line of JSON for each bad record, which the next start of the
   run reads.

   A run may meet a million of them, so that a line is put together in memory of the stage, and the
   lines of a burst are one write. */
#include <cjson/cJSON.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/xio.h"
#include "pipeline/records/care_private.h"
#include "pipeline/stage_source.h"

/* ---- writing ---- */

/* A byte of text as JSON has it takes at most six, \u001b. */
enum { ESCAPED = 6, MEMBERS = 256 /* names of the members, and their numbers */ };

static char *put_plain(char *to, const char *text) {
  size_t n = strlen(text);
  return (char *)memcpy(to, text, n) + n;
}

static char *put_json_text(char *to, const char *text) {
  static const char escaped[] =
      "\"\\\x01\x02\x03\x04\x05\x06\a\b\t\n\v\f\r\x0e\x0f\x10\x11\x12\x13\x14\x15\x16\x17\x18\x19"
      "\x1a"
      "\x1b\x1c\x1d\x1e\x1f";
  *to++ = '"';
  for (;;) {
    size_t n = strcspn(text, escaped);
    to = (char *)memcpy(to, text, n) + n;
    unsigned char c = (unsigned char)text[n];
    if (!c) break;
    to += c < 0x20 ? sprintf(to, "\\u%04x", c) : sprintf(to, "\\%c", c);
    text += n + 1;
  }
  *to++ = '"';
  return to;
}

static char *put_whole(char *to, const char *name, uint64_t v) {
  char digit[20];
  int n = 0;
  do digit[n++] = (char)('0' + v % 10);
  while (v /= 10);
  to = put_plain(to, name);
  while (n) *to++ = digit[--n];
  return to;
}

/* Where at most `more` bytes may be added to the lines; NULL without memory. */
static char *quarantine_room(mr__quarantine_t *q, size_t more) {
  if (more > q->room - q->n) {
    size_t room = 2 * (q->n + more);
    char *lines = realloc(q->lines, room);
    if (!lines) return NULL;
    q->lines = lines, q->room = room;
  }
  return q->lines + q->n;
}

mr_err_t mr__quarantine_add(mr_stage_t *s, mr__quarantine_t *q, bad_t row, const char *reason) {
  char path[MR_WHERE_MAX];
  mr_where_t where = {.file = path, .offset = -1};
  if (q->fd < 0) return MR_OK;
  if (s->def->source->where) s->def->source->where(s, row.index, &where);
  size_t texts = strlen(s->name) + strlen(reason) + (where.offset >= 0 ? strlen(path) : 0);
  char *to = quarantine_room(q, ESCAPED * texts + MEMBERS);
  if (!to) return mr_stage_no_memory(s, "a line of the quarantine file");
  to = put_json_text(put_plain(to, "{\"source\":"), s->name);
  to = put_whole(to, ",\"index\":", (uint64_t)row.index);
  if (s->def->source->where) to = put_whole(to, ",\"id\":", where.key);
  if (where.offset >= 0) {
    to = put_json_text(put_plain(to, ",\"file\":"), path);
    to = put_whole(to, ",\"offset\":", (uint64_t)where.offset);
  }
  to = put_json_text(put_plain(to, ",\"reason\":"), reason);
  to = put_plain(put_whole(to, ",\"replacement\":", (uint64_t)row.other), "}\n");
  q->n = (size_t)(to - q->lines);
  return MR_OK;
}

mr_err_t mr__quarantine_write(mr_stage_t *s, mr__quarantine_t *q) {
  size_t n = q->n;
  mr_diag_t why = {0};
  const char *path = mr__care_of(s)->file;
  q->n = 0;
  if (!n) return MR_OK;
  /* Behind a line that a kill or a full disk has cut, a line would be read as the rest of that
     one. */
  mr_err_t e = q->cut ? mr_write_all(q->fd, "\n", 1, path, &why) : MR_OK;
  if (e >= 0) e = mr_write_all(q->fd, q->lines, n, path, &why);
  q->cut = e < 0; /* how much was written is not known: another worker may write once more */
  return mr_stage_relay(s, e, &why);
}

/* ---- reading ---- */

static const char *name_without_folder(const char *path) {
  const char *slash = path ? strrchr(path, '/') : NULL;
  return slash ? slash + 1 : path;
}

/* Whether a line is of a record of this data set, and not of another one that a stage of the same
   name has read: it has the id, the place and the name of the file that the record has now.  The
   folder may be another one, because data sets are moved. */
static bool is_line_of(mr_stage_t *s, const cJSON *line, int64_t index) {
  char path[MR_WHERE_MAX] = "";
  mr_where_t where = {.file = path, .offset = -1};
  if (!s->def->source->where) return true;
  s->def->source->where(s, index, &where);
  const cJSON *id = cJSON_GetObjectItemCaseSensitive(line, "id");
  const cJSON *offset = cJSON_GetObjectItemCaseSensitive(line, "offset");
  const char *file = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(line, "file"));
  if (cJSON_IsNumber(id) && id->valuedouble != (double)where.key) return false;
  if (where.offset < 0 || !file || !cJSON_IsNumber(offset)) return where.offset < 0 && !file;
  return offset->valuedouble == (double)where.offset &&
         !strcmp(name_without_folder(file), name_without_folder(path));
}

/* Records that an earlier start of this run quarantined stay replaced by the same others, so that
   the order of the resumed stream is the same. */
static mr_err_t remember_line(mr_stage_t *s, struct mr__care *t, const char *line, size_t n) {
  cJSON *o = cJSON_ParseWithLength(line, n);
  const char *source = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(o, "source"));
  const cJSON *index = cJSON_GetObjectItemCaseSensitive(o, "index");
  const cJSON *other = cJSON_GetObjectItemCaseSensitive(o, "replacement");
  double most = (double)s->out_spec[0].n_records;
  mr_err_t e = MR_OK;
  if (source && !strcmp(source, s->name) && cJSON_IsNumber(index) && cJSON_IsNumber(other) &&
      index->valuedouble >= 0 && index->valuedouble < most && other->valuedouble >= 0 &&
      other->valuedouble < most && is_line_of(s, o, (int64_t)index->valuedouble))
    e = mr__care_add(s, t, (bad_t){(int64_t)index->valuedouble, (int64_t)other->valuedouble});
  cJSON_Delete(o);
  return e;
}

/* Reads the file line by line, whatever its length; a last line that a kill has cut does not
   count. */
static mr_err_t remember_quarantine(mr_stage_t *s, struct mr__care *t, const char *path,
                                    bool *cut) {
  FILE *f = mr_open_regular(path);
  char *line = NULL;
  size_t room = 0;
  mr_err_t e = MR_OK;
  if (!f && errno == ENOENT) return MR_OK;
  if (!f)
    return mr_stage_fail(s, MR_ERR_IO, "quarantine=%s: cannot be read: %s", path,
                         mr_open_reason(errno));
  for (ssize_t n; e >= 0 && (n = mr_read_line(f, MR_LINE_MOST, &line, &room)) >= 0;) {
    *cut = n && line[n - 1] != '\n';
    if (n && !*cut) e = remember_line(s, t, line, (size_t)n - 1);
  }
  if (e >= 0 && !feof(f))
    e = mr_stage_fail(s, MR_ERR_IO, "quarantine=%s: cannot be read: %s", path, strerror(errno));
  free(line);
  fclose(f);
  return e;
}

mr_err_t mr__quarantine_open(mr_stage_t *s, struct mr__care *t) {
  const char *path = mr__care_of(s)->file;
  MR_TRY(remember_quarantine(s, t, path, &t->quarantine.cut));
  t->quarantine.fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  return t->quarantine.fd >= 0 ? MR_OK
                               : mr_stage_fail(s, MR_ERR_IO, "quarantine=%s: cannot be written: %s",
                                               path, strerror(errno));
}

void mr__quarantine_close(mr__quarantine_t *q) {
  if (q->fd >= 0) close(q->fd);
  free(q->lines);
}
