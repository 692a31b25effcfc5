/* millrace pack: writes the records of any stream as shards of a format that other libraries read.

   A shard holds the batches of a fixed number of steps, and appears whole or not at all.  Since a
   stream is a function of its step, a call after a kill, or on a disk that was full, begins at the
   last shard that is there, and the shards are byte for byte those of a call that was never
   interrupted.  pack.json says whose shards they are, of what data, and whether they are all; then
   it has their sizes, so that a file that was damaged since is written again.  A call that fails
   before its first shard leaves nothing. */
#include <cjson/cJSON.h>
#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "apps/cli/cli.h"
#include "apps/cli/texts.h"
#include "apps/data/pack.h"
#include "apps/run/graph_arg.h"
#include "apps/run/resume.h"
#include "apps/run/take_batches.h"
#include "base/clock.h"
#include "base/xio.h"
#include "loaders/local/class_names.h"

enum { BATCH_MAX = 256, QUIET_S = 2, SHARDS_MAX = 65536, NAME_MAX_BYTES = MR_PATH_MAX + 64 };

static const mr_pack_format_t *const pack_format[] = {&mr_pack_tar, &mr_pack_tfrecord, &mr_pack_mds,
                                                      NULL};

static const mr_flag_t pack_flags[] = {
    {"--out", "DIR",
     "Folder of the shard files; required.  After a kill or a failure the same command continues "
     "there."},
    {"-o", "DIR", "The same as --out."},
    {"--format", "tar|tfrecord|mds", "Format of the shard files; default: tar."},
    {"--records", "N", "Highest number of records in a shard file; default: 1024."},
    {"--workers", "N", "Threads that produce records; default: 2."},
    {0}};

typedef struct pack {
  const mr_pack_format_t *format;
  const char *folder;
  int64_t records, steps; /* of a shard */
  int batch;
  mr_spec_t spec; /* of the batches, once ready */
  mr_pack_bytes_t bytes, ends;
  int64_t shard;          /* the one being made */
  int64_t in_shard, done; /* batches of it; records written by this call */
  int64_t written, reported_ns;
  char graph[17], data[17]; /* digests; data: "" until the graph is settled */
  cJSON *manifest;          /* pack.json as it was found; NULL: there was none */
  bool whole;               /* all shards are there already */
  mr_err_t e;
  mr_diag_t diag; /* of ready, which can return no failure */
} pack_t;

/* ---- files ---- */

static void shard_path(const pack_t *p, int64_t shard, char out[NAME_MAX_BYTES]) {
  snprintf(out, NAME_MAX_BYTES, "%s/shard%c%05" PRId64 "%s", p->folder,
           p->format->by_folder ? '.' : '-', shard, p->format->ending);
}

static void other_path(const pack_t *p, const char *name, char out[NAME_MAX_BYTES]) {
  snprintf(out, NAME_MAX_BYTES, "%s/%s", p->folder, name);
}

/* Removes what a kill has left of files that were being written. */
static void remove_parts(const pack_t *p) {
  DIR *d = opendir(p->folder);
  char path[NAME_MAX_BYTES + 256];
  for (struct dirent *e; d && (e = readdir(d));) {
    bool own = !strncmp(e->d_name, "shard", 5) || !strncmp(e->d_name, "pack.json", 9) ||
               !strncmp(e->d_name, "index.json", 10) ||
               !strncmp(e->d_name, MR_PACK_CLASSES, sizeof MR_PACK_CLASSES - 1);
    if (!own || !strstr(e->d_name, ".part-")) continue;
    snprintf(path, sizeof path, "%s/%s", p->folder, e->d_name);
    unlink(path);
  }
  if (d) closedir(d);
}

static int64_t count_shards(const pack_t *p) {
  char path[NAME_MAX_BYTES];
  int64_t n = 0;
  for (;; n++) {
    shard_path(p, n, path);
    if (n == SHARDS_MAX || access(path, F_OK) != 0) return n;
  }
}

/* Says what a failed call has left; without a shard, nothing stays, so that another graph may have
   the folder. */
static void leave_parts(const pack_t *p, bool made_folder) {
  char path[NAME_MAX_BYTES];
  int64_t n = count_shards(p);
  other_path(p, "pack.json", path);
  if (n) {
    mr_notice("pack: %" PRId64
              " shard file%s in %s, not all of the stream; the same command "
              "continues there",
              n, n == 1 ? " is" : "s are", p->folder);
    return;
  }
  unlink(path);
  other_path(p, MR_PACK_CLASSES, path);
  unlink(path);
  if (made_folder) rmdir(p->folder);
}

/* ---- pack.json ---- */

/* Digests of the graph and of the data that its sources read: the graph's URLs may hold secrets,
   and shards are passed on with what is beside them. */
static void digest_graph(pack_t *p, const mr_args_t *a, const char *graph) {
  uint64_t digest = XXH3_64bits(graph, strlen(graph));
  for (int i = 1; i < a->n_words; i++)
    digest = XXH3_64bits_withSeed(a->word[i], strlen(a->word[i]), digest);
  snprintf(p->graph, sizeof p->graph, "%016" PRIx64, digest);
}

static mr_err_t digest_data(pack_t *p, const mr_graph_t *g, mr_diag_t *diag) {
  char *facts = mr_data_facts(g);
  if (!facts) return mr_no_memory(diag, "facts of the data");
  snprintf(p->data, sizeof p->data, "%016" PRIx64, (uint64_t)XXH3_64bits(facts, strlen(facts)));
  free(facts);
  return MR_OK;
}

/* The size of shard k; -1 if it is missing or no regular file. */
static int64_t shard_size(const pack_t *p, int64_t k) {
  char path[NAME_MAX_BYTES];
  struct stat st;
  shard_path(p, k, path);
  return stat(path, &st) == 0 && S_ISREG(st.st_mode) ? (int64_t)st.st_size : -1;
}

/* Writes pack.json, by which a later call knows whether these are its own shards. */
static mr_err_t write_manifest(const pack_t *p, bool whole, mr_diag_t *diag) {
  char path[NAME_MAX_BYTES];
  cJSON *json = cJSON_CreateObject(), *bytes = NULL;
  cJSON_AddStringToObject(json, "graph", p->graph);
  cJSON_AddStringToObject(json, "data", p->data);
  cJSON_AddStringToObject(json, "format", p->format->name);
  cJSON_AddNumberToObject(json, "records", (double)p->records);
  cJSON_AddBoolToObject(json, "whole", whole);
  if (whole) bytes = cJSON_AddArrayToObject(json, "bytes");
  for (int64_t k = 0; whole && k < p->shard; k++)
    cJSON_AddItemToArray(bytes, cJSON_CreateNumber((double)shard_size(p, k)));
  char *text = json && (!whole || bytes) ? cJSON_Print(json) : NULL;
  cJSON_Delete(json);
  other_path(p, "pack.json", path);
  mr_err_t e =
      text ? mr_write_file(path, text, strlen(text), diag) : mr_no_memory(diag, "%s", path);
  cJSON_free(text);
  return e;
}

/* *out: what pack.json holds, the caller's; NULL without the file. */
static mr_err_t read_manifest(const pack_t *p, cJSON **out, mr_diag_t *diag) {
  char path[NAME_MAX_BYTES];
  void *text;
  size_t n;
  *out = NULL;
  other_path(p, "pack.json", path);
  if (access(path, F_OK) != 0) return MR_OK;
  MR_TRY(mr_read_file(path, 1 << 22, &text, &n, diag));
  *out = cJSON_ParseWithLength(text, n);
  free(text);
  return *out ? MR_OK : mr_fail(diag, MR_ERR_DATA, "%s: is no JSON", path);
}

static bool manifest_has(const cJSON *json, const char *name, const char *value) {
  const char *has = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(json, name));
  return has && !strcmp(has, value);
}

static mr_err_t check_data(const pack_t *p, const cJSON *json, mr_diag_t *diag) {
  if (manifest_has(json, "data", p->data)) return MR_OK;
  return mr_fail(diag, MR_ERR_CONFIG,
                 "pack: --out %s: the data of the graph has changed since the shards there were "
                 "written: want another folder, or remove this one",
                 p->folder);
}

/* Removes the shards that are not as pack.json says, with a notice about the first; returns whether
   all are there. */
static bool keep_good_shards(const pack_t *p, const cJSON *json) {
  char path[NAME_MAX_BYTES];
  const cJSON *bytes = cJSON_GetObjectItemCaseSensitive(json, "bytes"), *item;
  int64_t k = 0, wrong = 0;
  cJSON_ArrayForEach(item, bytes) {
    int64_t has = shard_size(p, k), want = (int64_t)cJSON_GetNumberValue(item);
    shard_path(p, k++, path);
    if (has == want) continue;
    if (!wrong++ && has < 0)
      mr_notice("pack: %s is missing: it is written again", path);
    else if (wrong == 1)
      mr_notice("pack: %s has %" PRId64 " bytes, want %" PRId64 ": it is written again", path, has,
                want);
    unlink(path);
  }
  other_path(p, "index.json", path);
  if (p->format->by_folder && access(path, F_OK) != 0 && !wrong++)
    mr_notice("pack: %s is missing: it is written again", path);
  return !wrong;
}

/* MR_END if the shards are all there, of the same graph; *json is the caller's. */
static mr_err_t check_manifest(const pack_t *p, cJSON **json, mr_diag_t *diag) {
  MR_TRY(read_manifest(p, json, diag));
  if (!*json && count_shards(p) > 0)
    return mr_fail(
        diag, MR_ERR_CONFIG,
        "pack: --out %s: the folder holds shards that pack did not write: want another folder",
        p->folder);
  if (!*json) return MR_OK;
  const cJSON *records = cJSON_GetObjectItemCaseSensitive(*json, "records");
  if (!manifest_has(*json, "graph", p->graph) || !manifest_has(*json, "format", p->format->name) ||
      cJSON_GetNumberValue(records) != (double)p->records)
    return mr_fail(
        diag, MR_ERR_CONFIG,
        "pack: --out %s: the folder holds shards of another graph, format or number of records "
        "(pack.json): want another folder, or remove this one",
        p->folder);
  bool whole = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(*json, "whole"));
  return whole && keep_good_shards(p, *json) ? MR_END : MR_OK;
}

/* ---- shards ---- */

static mr_err_t flush_shard(pack_t *p, mr_diag_t *diag) {
  char path[NAME_MAX_BYTES];
  MR_TRY(p->format->end(&p->spec, &p->bytes, &p->ends, diag));
  if (p->bytes.short_of || p->ends.short_of)
    return mr_no_memory(diag, "a shard of %zu bytes; a smaller --records needs less", p->bytes.n);
  if (p->shard >= SHARDS_MAX)
    return mr_fail(diag, MR_ERR_CONFIG,
                   "pack: --records makes more than %d shards: want a larger number", SHARDS_MAX);
  shard_path(p, p->shard++, path);
  MR_TRY(mr_write_file(path, p->bytes.at ? p->bytes.at : (uint8_t *)"", p->bytes.n, diag));
  p->written += (int64_t)p->bytes.n;
  p->bytes.n = p->ends.n = 0, p->in_shard = 0;
  if (mr_now_ns() - p->reported_ns < (int64_t)QUIET_S * 1000000000) return MR_OK;
  p->reported_ns = mr_now_ns();
  int64_t all = p->spec.n_batches * p->spec.n_epochs;
  if (all)
    fprintf(stderr, "millrace: pack: %" PRId64 " of %" PRId64 " shards, %.1f MB\n", p->shard,
            (all + p->steps - 1) / p->steps, (double)p->written / 1e6);
  else
    fprintf(stderr, "millrace: pack: %" PRId64 " shards, %.1f MB\n", p->shard,
            (double)p->written / 1e6);
  return MR_OK;
}

static mr_err_t pack_take(void *ctx, const mr_spec_t *spec, int64_t step, const mr_buf_t *b,
                          mr_diag_t *diag) {
  pack_t *p = ctx;
  for (int i = 0; i < b->n; i++) {
    if (b->excluded[i]) continue;
    p->format->add(spec, b, i, (step - 1) * p->batch + i, &p->bytes, &p->ends);
    p->done++;
  }
  return ++p->in_shard == p->steps ? flush_shard(p, diag) : MR_OK;
}

/* The names of the stream's labels; NULL without any, or if labels have names of their own each,
   since a file of names speaks of all labels: then *unlike is the field whose names differ. */
static const mr_classes_t *pack_names(const mr_spec_t *spec, const mr_field_t **unlike) {
  const mr_field_t *first = NULL;
  *unlike = NULL;
  for (int f = 0; f < spec->n_fields; f++) {
    const mr_field_t *field = &spec->field[f];
    if (!field->label) continue;
    if (first && !mr_classes_same(first->classes, field->classes)) return *unlike = field, NULL;
    first = first ? first : field;
  }
  return first ? first->classes : NULL;
}

/* Writes the names of classes beside the shards; a stream without names removes what an earlier
   call has left. */
static mr_err_t pack_write_names(const pack_t *p, mr_diag_t *diag) {
  const mr_field_t *unlike;
  const mr_classes_t *c = pack_names(&p->spec, &unlike);
  char path[NAME_MAX_BYTES], *text = NULL;
  size_t n = 0;
  other_path(p, MR_PACK_CLASSES, path);
  bool fits = c && c->n <= MR_CLASSES_MAX;
  for (int i = 0; fits && i < c->n; i++) fits = mr__class_name_ok(c->name[i]);
  if (c && !fits)
    mr_notice(
        "pack: the names of the %d classes are not kept: want at most %d names of at most %d "
        "bytes",
        c->n, MR_CLASSES_MAX, MR_CLASS_NAME_MAX);
  if (unlike)
    mr_notice(
        "pack: the names of classes are not kept: those of field %s are not those of the labels "
        "before it, and a file of names speaks of all labels of its shards",
        unlike->name);
  if (!fits) return unlink(path), MR_OK;
  for (int i = 0; i < c->n; i++) n += strlen(c->name[i]) + 1;
  if (!(text = malloc(n + 1))) return mr_no_memory(diag, "names of classes");
  char *at = text;
  for (int i = 0; i < c->n; i++) at += sprintf(at, "%s\n", c->name[i]);
  mr_err_t e = mr_write_file(path, text, n, diag);
  free(text);
  return e;
}

static bool pack_ready(void *ctx, const mr_graph_t *g) {
  pack_t *p = ctx;
  const char *last;
  if (!mr_graph_batches(g, &last)) return false;
  p->spec = mr_graph_stage(g, last)->out_spec[0];
  p->e = p->format->check(&p->spec, &p->diag);
  if (p->e >= 0 && !p->spec.n_epochs)
    p->e = mr_fail(&p->diag, MR_ERR_CONFIG,
                   "pack: the stream is endless, or its length is not known: want epochs=1 of its "
                   "source, or of shuffle");
  if (p->e >= 0) p->e = digest_data(p, g, &p->diag);
  if (p->e >= 0 && p->manifest) p->e = check_data(p, p->manifest, &p->diag);
  if (p->e >= 0 && !p->whole) p->e = write_manifest(p, false, &p->diag);
  if (p->e >= 0 && !p->whole) p->e = pack_write_names(p, &p->diag);
  return p->e >= 0 && !p->whole;
}

/* ---- the end ---- */

/* Writes the index.json of an MDS data set, from the shards as they are. */
static mr_err_t write_index_json(const pack_t *p, mr_diag_t *diag) {
  char path[NAME_MAX_BYTES], name[32];
  mr_err_t e = MR_OK;
  cJSON *json = cJSON_CreateObject(), *shards = cJSON_AddArrayToObject(json, "shards");
  cJSON_AddNumberToObject(json, "version", 2);
  for (int64_t k = 0; k < p->shard && e >= 0; k++) {
    uint32_t head[2];
    struct stat st;
    shard_path(p, k, path);
    FILE *f = mr_open_regular(path);
    if (!f || fread(head, sizeof head, 1, f) != 1 || fstat(fileno(f), &st) < 0 ||
        st.st_size < (off_t)head[1])
      e = mr_fail(diag, MR_ERR_IO, "%s: cannot be read again", path);
    size_t n = e >= 0 ? head[1] - 4 - 4 * ((size_t)head[0] + 1) : 0;
    char *config = calloc(1, n + 1);
    if (e >= 0 &&
        (!config || fseeko(f, (off_t)(head[1] - n), SEEK_SET) < 0 || fread(config, 1, n, f) != n))
      e = mr_fail(diag, MR_ERR_IO, "%s: cannot be read again", path);
    cJSON *shard = e >= 0 ? cJSON_Parse(config) : NULL,
          *raw = cJSON_AddObjectToObject(shard, "raw_data");
    snprintf(name, sizeof name, "shard.%05" PRId64 ".mds", k);
    cJSON_AddStringToObject(raw, "basename", name);
    cJSON_AddNumberToObject(raw, "bytes", e >= 0 ? (double)st.st_size : 0);
    cJSON_AddObjectToObject(raw, "hashes");
    cJSON_AddNumberToObject(shard, "samples", e >= 0 ? head[0] : 0);
    cJSON_AddNullToObject(shard, "zip_data");
    cJSON_AddItemToArray(shards, shard);
    free(config);
    if (f) fclose(f);
  }
  char *text = e >= 0 ? cJSON_PrintUnformatted(json) : NULL;
  cJSON_Delete(json);
  other_path(p, "index.json", path);
  if (e >= 0)
    e = text ? mr_write_file(path, text, strlen(text), diag) : mr_no_memory(diag, "index.json");
  cJSON_free(text);
  return e;
}

/* The graph text that reads the shards back. */
static void reading_text(const pack_t *p, char text[2 * NAME_MAX_BYTES + MR_PACK_MAX]) {
  char fields[MR_PACK_MAX] = "", files[NAME_MAX_BYTES];
  p->format->fields(&p->spec, fields);
  if (p->format->by_folder)
    snprintf(files, sizeof files, "%s", p->folder);
  else
    snprintf(files, sizeof files, "%s/shard-{00000..%05" PRId64 "}%s", p->folder, p->shard - 1,
             p->format->ending);
  const char *quote = strpbrk(files, " \t#!=") ? "'" : "";
  snprintf(text, 2 * NAME_MAX_BYTES + MR_PACK_MAX, "%s %s%s%s fields=%s", p->format->name, quote,
           files, quote, fields);
}

/* Makes the indexes beside the shards, by planning the graph that reads them, and counts what it
   finds. */
static mr_err_t index_shards(const pack_t *p, const char *reading, mr_diag_t *diag) {
  static char text[2 * NAME_MAX_BYTES + MR_PACK_MAX + 64];
  snprintf(text, sizeof text, mr_pack_index_text, reading);
  mr_graph_t *g = mr_graph_create(mr_all_stages());
  if (!g) return mr_no_memory(diag, "a graph");
  mr_err_t e = mr_graph_parse(g, text, NULL, 0, diag);
  if (e >= 0) e = mr_graph_settle(g, diag);
  mr_graph_destroy(g);
  return e;
}

static mr_err_t pack_finish(pack_t *p, mr_diag_t *diag) {
  static char reading[2 * NAME_MAX_BYTES + MR_PACK_MAX];
  if (p->in_shard) MR_TRY(flush_shard(p, diag));
  if (p->format->by_folder) MR_TRY(write_index_json(p, diag));
  reading_text(p, reading);
  MR_TRY(index_shards(p, reading, diag));
  MR_TRY(write_manifest(p, true, diag));
  printf("%" PRId64 " shard%s in %s; read them by\n  %s\n", p->shard, p->shard == 1 ? "" : "s",
         p->folder, reading);
  return MR_OK;
}

/* ---- the command ---- */

static const mr_pack_format_t *find_format(const char *name) {
  for (int i = 0; name && pack_format[i]; i++)
    if (!strcmp(pack_format[i]->name, name)) return pack_format[i];
  return name ? NULL : pack_format[0];
}

/* Parses the graph with a batch stage behind its last stage.  Heap text in *whole. */
static mr_err_t pack_parse(pack_t *p, const mr_args_t *a, const char *text, int64_t workers,
                           mr_graph_t **g, mr_diag_t *diag) {
  size_t n = strlen(text);
  while (n && (text[n - 1] == ' ' || text[n - 1] == '\n' || text[n - 1] == '\t')) n--;
  char *whole = malloc(n + 120);
  if (!whole) return mr_no_memory(diag, "the graph");
  /* On a line of its own: the text may end with a comment. */
  snprintf(whole, n + 120, mr_pack_batch_text, (int)n, text, p->batch, (long long)workers);
  mr_args_t with = *a;
  with.word[0] = whole;
  mr_err_t e = mr_graph_from_args(&with, 0, g, diag);
  free(whole);
  return e;
}

/* A stream without records: what it has written are empty shards. */
static mr_err_t fail_without_records(pack_t *p, mr_diag_t *diag) {
  char path[NAME_MAX_BYTES];
  for (int64_t k = 0; k < p->shard; k++) shard_path(p, k, path), unlink(path);
  return mr_fail(diag, MR_ERR_CONFIG,
                 "pack: the stream has no records: a filter drops all of them, or skip-records= "
                 "excludes them");
}

/* Relays a failure; what is said about the line that pack_parse appends is said of pack, since no
   one else has written that line. */
static mr_err_t relay_failure(const char *text, mr_err_t e, const mr_diag_t *why, mr_diag_t *diag) {
  char place[32];
  int line = 2;
  for (size_t n = strlen(text), i = 0; i + 1 < n; i++) line += text[i] == '\n';
  snprintf(place, sizeof place, "graph:%d:", line);
  const char *own = strstr(why->text, place),
             *rest = own ? strstr(own + strlen(place), ": ") : NULL;
  if (e >= 0 || !rest) return mr_diag_relay(diag, e, why);
  rest += 2;
  return mr_fail(diag, e, "%s%s%s", strncmp(rest, "pack: ", 6) ? "pack: " : "", rest,
                 strstr(rest, "gives batches") ? ": want a graph without a batch stage" : "");
}

static mr_err_t pack_stream(pack_t *p, const mr_args_t *a, const char *text, int64_t workers,
                            mr_diag_t *diag) {
  mr_graph_t *g;
  mr_diag_t why = {0};
  int64_t there = count_shards(p);
  mr_err_t e = pack_parse(p, a, text, workers, &g, &why);
  if (e < 0) return relay_failure(text, e, &why, diag);
  p->shard = there > 0 ? there - 1 : 0; /* the last one again, as it may be the end of the stream */
  mr_batches_t want = {.first = p->shard * p->steps + 1,
                       .take = pack_take,
                       .ctx = p,
                       .ready = pack_ready,
                       .workers = (int)workers};
  e = mr_take_batches(g, &want, &why);
  mr_graph_destroy(g);
  if (p->e < 0) return mr_diag_relay(diag, p->e, &p->diag);
  bool ended = e >= 0 || (e == MR_ERR_CONFIG && strstr(why.text, "the stream ends before step"));
  if (ended && !p->whole && !p->done && !there) return fail_without_records(p, diag);
  if (e < 0) return relay_failure(text, e, &why, diag);
  return p->whole ? MR_OK : pack_finish(p, diag);
}

static int pack_run(const mr_args_t *a, mr_diag_t *diag) {
  pack_t p = {.format = find_format(mr_args_text(a, "--format")),
              .folder = mr_args_text(a, mr_args_text(a, "-o") ? "-o" : "--out"),
              .records = 1024,
              .reported_ns = mr_now_ns()};
  int64_t workers = 2;
  char *text;
  const char *origin;
  if (!p.folder || !*p.folder || strlen(p.folder) > MR_PATH_MAX / 2 || !p.format)
    return mr_fail(diag, MR_ERR_USAGE,
                   "pack: want --out DIR, and --format tar, tfrecord or mds if one is given");
  if (strstr(p.folder, "://"))
    return mr_fail(diag, MR_ERR_USAGE,
                   "pack: --out %s: shards are written to a folder of this machine: want its name",
                   p.folder);
  if (strpbrk(p.folder, "{}$'\"\n") || strstr(p.folder, "::"))
    return mr_fail(
        diag, MR_ERR_USAGE,
        "pack: --out %s: a name with braces, quotes, \"$\" or \"::\" cannot be read back "
        "by a graph: want another folder",
        p.folder);
  MR_TRY(mr_args_int(a, "--records", 1, 1 << 24, &p.records, diag));
  MR_TRY(mr_args_int(a, "--workers", 1, 64, &workers, diag));
  p.batch = p.records < BATCH_MAX ? (int)p.records : BATCH_MAX;
  while (p.records % p.batch) p.batch--;
  p.steps = p.records / p.batch;
  MR_TRY(mr_graph_text(a->word[0], &text, &origin, diag));
  bool made_folder = access(p.folder, F_OK) != 0;
  mr_err_t e = mr_make_folder(p.folder, diag);
  digest_graph(&p, a, text);
  if (e >= 0) e = check_manifest(&p, &p.manifest, diag);
  p.whole = e == MR_END;
  if (e >= 0) {
    if (!p.whole) remove_parts(&p);
    e = pack_stream(&p, a, text, workers, diag);
    if (e < 0 && !p.whole) leave_parts(&p, made_folder);
    if (e >= 0 && p.whole) printf("%s holds all shards of this graph already\n", p.folder);
  }
  cJSON_Delete(p.manifest);
  free(p.bytes.at), free(p.ends.at), free(text);
  return e < 0 ? e : 0;
}

const mr_command_t mr_command_pack = {
    .name = "pack",
    .words = "GRAPH|FILE [NAME=VALUE...]",
    .help = "Writes the records of a stream as shard files: tar, tfrecord or MDS.",
    .more =
        "GRAPH ends with records: a source, and stages behind it, without a batch stage.  The\n"
        "records are written in the order of the stream, with an index beside each shard file.\n"
        "After a kill, or on a disk that was full, the same command continues and writes the "
        "files\n"
        "that an uninterrupted one would have written.  pack.json beside them has \"whole\": true "
        "once\n"
        "they are all there.  The names of classes, if they are known, are in pack-classes.txt.\n",
    .flags = pack_flags,
    .min_words = 1,
    .max_words = MR_WORDS_MAX,
    .run = pack_run,
};
