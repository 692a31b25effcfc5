/* A fingerprint of each source: samples of its records' bytes and of the files that its settings
   name, read in a few small reads whatever the size of the data; of objects of servers, names,
   sizes, ETags and times. */
#include "apps/run/resume.h"
#include "base/text.h"
#include "base/xio.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "pipeline/stage_source.h"

enum { SAMPLES = 64, SAMPLE_BYTES = 256 };

static void data_facts_add(uint64_t *hash, const void *bytes, size_t n) {
  *hash = XXH3_64bits_withSeed(bytes, n, *hash);
}

static void add_number(uint64_t *hash, int64_t v) { data_facts_add(hash, &v, sizeof v); }

/* Hashes some bytes of an open file from an offset on. */
static void add_bytes(uint64_t *hash, int fd, int64_t at) {
  char bytes[SAMPLE_BYTES];
  ssize_t n;
  do n = pread(fd, bytes, sizeof bytes, at);
  while (n < 0 && errno == EINTR);
  data_facts_add(hash, bytes, n > 0 ? (size_t)n : 0);
}

/* Opens a regular file and sets its size; -1 for another kind of file, or if opening fails. */
static int data_facts_open_file(const char *path, int64_t *size) {
  struct stat st;
  int fd = mr_open_regular_fd(path);
  *size = fd >= 0 && fstat(fd, &st) == 0 ? (int64_t)st.st_size : 0;
  return fd;
}

/* Hashes the size and samples of a file from its start to its end. */
static void add_file(uint64_t *hash, const char *path) {
  int64_t size;
  int fd = data_facts_open_file(path, &size);
  if (fd < 0) return;
  add_number(hash, size);
  for (int i = 0; i < SAMPLES; i++) add_bytes(hash, fd, size / SAMPLES * i);
  add_bytes(hash, fd, size > SAMPLE_BYTES ? size - SAMPLE_BYTES : 0);
  close(fd);
}

/* Hashes the file that a setting names, or those in a list of names and files,
   "x:x.npy,y:y.npy". */
static void add_files(uint64_t *hash, const char *text) {
  char word[MR_WHERE_MAX];
  add_file(hash, text);
  if (!strpbrk(text, ",:")) return;
  for (size_t n; *text; text += n + (text[n] != 0)) {
    n = strcspn(text, ",:");
    snprintf(word, sizeof word, "%.*s", (int)n, text);
    add_file(hash, word);
  }
}

static void add_record(uint64_t *hash, mr_stage_t *s, int64_t index) {
  static char file[MR_WHERE_MAX];
  mr_where_t where = {.file = file, .offset = -1};
  int64_t size;
  file[0] = 0;
  s->def->source->where(s, index, &where);
  add_number(hash, (int64_t)where.key);
  add_number(hash, where.offset);
  if (where.offset < 0) return data_facts_add(hash, file, strlen(file));
  int fd = data_facts_open_file(file, &size);
  add_number(hash, size);
  if (fd < 0) return;
  add_bytes(hash, fd, where.offset);
  close(fd);
}

static uint64_t sample_of(const mr_graph_t *g, mr_stage_t *s, int64_t n) {
  uint64_t hash = 0;
  for (int64_t i = 0; i < SAMPLES && i < n; i++)
    add_record(&hash, s, n <= SAMPLES ? i : n / SAMPLES * i + i * (n % SAMPLES) / SAMPLES);
  for (const mr_opt_t *o = s->def->opts; o && o->name; o++) {
    const char *text = o->type == MR_OPT_STR ? mr_graph_setting(g, s->name, o->name) : NULL;
    if (text && strcmp(o->name, "quarantine")) add_files(&hash, text);
  }
  return hash;
}

char *mr_data_facts(const mr_graph_t *g) {
  mr_text_out_t text;
  FILE *f = mr_text_out_open(&text);
  for (int i = 0; f && i < mr_graph_n_stages(g); i++) {
    mr_stage_t *s = mr_graph_stage_at(g, i);
    const mr_spec_t *spec = &s->out_spec[0];
    if (!mr_says_where(s->def) || !spec->dataset) continue;
    fprintf(f, "%s %s records=%" PRId64 " classes=%d sample=%016" PRIx64, s->name,
            spec->dataset->origin, spec->n_records, spec->dataset->n_classes,
            sample_of(g, s, spec->n_records));
    uint64_t objects = s->def->source->objects ? s->def->source->objects(s) : 0;
    fprintf(f, objects ? MR_FACTS_OBJECTS "%016" PRIx64 "\n" : "\n", objects);
  }
  return mr_text_out_close(&text, f, NULL);
}

bool mr_data_facts_of(const char *facts, const char *stage, char *line, size_t n) {
  size_t len = strlen(stage);
  for (const char *at = facts; at && *at;) {
    size_t whole = strcspn(at, "\n");
    if (whole > len && !strncmp(at, stage, len) && at[len] == ' ') {
      snprintf(line, n, "%.*s", (int)(whole - len - 1), at + len + 1);
      return true;
    }
    at += whole + (at[whole] == '\n');
  }
  return false;
}
