/* Windows of token files as records.

   A record is a range of the row of all tokens: range i is [start(i), start(i) + n(i)), of at most
   length + 1 tokens.  It gives length inputs and, shifted by one, length targets.
   pack=stream: windows every `stride` tokens, whatever documents they cut.
   pack=reset: the same windows, with positions that begin again at each document.
   pack=whole: as many whole documents as fit, one after the other (next fit); only a document
   longer than a window is cut, into ranges that overlap by one token.  The starts of these ranges
   are a table, made once. */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "loaders/formats/token_files.h"
#include "loaders/local/reader_choose.h"
#include "loaders/local/split.h"
#include "pipeline/care.h"
#include "pipeline/stage_source.h"

enum { STREAM, RESET, WHOLE }; /* values of pack */
enum { DUE, KEPT, WIDE };      /* ways: read as due, in memory as in the files, as i32 */
enum { TOKENS, TARGETS, POSITIONS, SEGMENTS, MASK, N_FIELDS };
enum { LENGTH_MAX = 1 << 24, PIECES_MAX = MR_BURST * MR_FIELDS_MAX };
enum { TOUCHED = 256 /* bytes; 1 KiB and 4 KiB measured slower */ };

typedef struct tokens {
  const char *files;
  int dtype, pack;
  int64_t length, stride, eos, pad, vocab, id_base, memory;
  bool ahead;
  mr_remote_conf_t remote;
  mr_remote_counts_t counts; /* set by close, for the report */
  mr_split_t split;
  mr_care_t care;
  mr_token_files_t *row; /* from plan to forget */
  int64_t *start;        /* [n_ranges + 1] WHOLE: where ranges begin, from plan to forget */
  uint32_t *count;       /* [n_ranges] WHOLE: their tokens */
  int64_t n_ranges;
  int way; /* of keeping tokens; settled by plan */
  mr_dataset_t dataset;
  mr_shard_reads_t *reads; /* from open to close */
} tokens_t;

/* ---- ranges ---- */

static int64_t range_start(const tokens_t *t, int64_t i) {
  return t->pack == WHOLE ? t->start[i] : i * t->stride;
}

static int64_t range_count(const tokens_t *t, int64_t i) {
  return t->pack == WHOLE ? t->count[i] : t->length + 1;
}

/* Adds a range; the first call counts, the second one fills the table. */
static void add_range(tokens_t *t, int64_t start, int64_t n) {
  if (t->start) t->start[t->n_ranges] = start, t->count[t->n_ranges] = (uint32_t)n;
  t->n_ranges++;
}

static void pack_whole(tokens_t *t) {
  int64_t room = t->length + 1, start = 0, used = 0;
  t->n_ranges = 0;
  for (int64_t d = 0; d < t->row->n_documents; d++) {
    int64_t at = t->row->document[d], n = t->row->document[d + 1] - at;
    if (used && used + n > room) add_range(t, start, used), used = 0;
    for (; n > room; n -= t->length, at += t->length) add_range(t, at, room);
    if (!used) start = at;
    used += n;
  }
  if (used) add_range(t, start, used);
}

static mr_err_t plan_whole(mr_stage_t *s) {
  tokens_t *t = s->state;
  pack_whole(t);
  t->start = malloc(((size_t)t->n_ranges + 1) * sizeof *t->start);
  t->count = malloc(((size_t)t->n_ranges + 1) * sizeof *t->count);
  if (!t->start || !t->count) return mr_stage_no_memory(s, "%" PRId64 " windows", t->n_ranges);
  pack_whole(t);
  return MR_OK;
}

static mr_err_t plan_windows(mr_stage_t *s) {
  tokens_t *t = s->state;
  if (t->pack == WHOLE) return plan_whole(s);
  t->n_ranges = t->row->n > t->length ? (t->row->n - t->length - 1) / t->stride + 1 : 0;
  if (t->n_ranges) return MR_OK;
  return mr_stage_fail(s, MR_ERR_CONFIG,
                       "%s: %" PRId64 " tokens, want more than length=%" PRId64 " for one window",
                       t->row->shards->shard->path, t->row->n, t->length);
}

/* ---- plan ---- */

static mr_err_t open_row(mr_stage_t *s) {
  tokens_t *t = s->state;
  mr_diag_t why = {0};
  mr_token_files_conf_t conf = {.names = t->files,
                                .type = (mr_token_type_t)t->dtype,
                                .documents = t->pack != STREAM,
                                .remote = &t->remote,
                                .eos = t->eos};
  if (!t->files)
    return mr_stage_fail(s, MR_ERR_CONFIG,
                         "setting files must be given: the names of the files, as in "
                         "train-{000..012}.bin");
  if (!t->stride) t->stride = t->length;
  if (t->pack == WHOLE && t->stride != t->length)
    return mr_stage_fail(s, MR_ERR_CONFIG,
                         "setting stride = %" PRId64 ": pack=whole has no windows, leave it out",
                         t->stride);
  mr_err_t e = mr_token_files_open(&t->row, &conf, &why);
  return mr_stage_relay(s, e, &why);
}

static int64_t tokens_budget(const tokens_t *t) {
  return t->memory >= 0 ? t->memory : mr_memory_available() / 2;
}

/* Tokens that lie in memory as i32 go into a batch by a single copy.  Records of whole documents
   have padding, which is not in memory, and where bad records are replaced, a file may be
   unreadable. */
static int choose_way(const tokens_t *t) {
  int64_t budget = tokens_budget(t);
  bool pieces = t->pack != WHOLE && !t->care.lenient;
  if (pieces && t->row->n * (int64_t)sizeof(int32_t) <= budget) return WIDE;
  return mr_token_files_bytes(t->row) <= budget ? KEPT : DUE;
}

static mr_err_t tokens_plan(mr_stage_t *s) {
  static const char *const name[N_FIELDS] = {"tokens", "targets", "positions", "segments", "mask"};
  tokens_t *t = s->state;
  mr_spec_t *out = &s->out_spec[0];
  t->remote.elsewhere = s->elsewhere;
  MR_TRY(open_row(s));
  MR_TRY(plan_windows(s));
  MR_TRY(mr__split_plan_files(s, &t->split, t->n_ranges));
  t->dataset = (mr_dataset_t){.origin = "tokens"};
  *out = (mr_spec_t){.flow = MR_FLOW_RECORDS,
                     .n_fields = t->pack == STREAM ? POSITIONS : N_FIELDS,
                     .n_records = mr__split_size(&t->split),
                     .n_epochs = 1,
                     .dataset = &t->dataset};
  for (int f = 0; f < out->n_fields; f++) {
    mr_field_t *field = &out->field[f];
    *field = (mr_field_t){.dtype = f == MASK ? MR_BOOL : MR_I32, .ndim = 1, .dim = {t->length}};
    snprintf(field->name, sizeof field->name, "%s", name[f]);
  }
  s->writes = (uint16_t)((1u << out->n_fields) - 1);
  t->way = choose_way(t);
  if (t->way == WIDE) s->writes &= (uint16_t) ~(1u << TOKENS | 1u << TARGETS);
  if (s->elsewhere) mr_remote_rest(t->row->shards->remote);
  return MR_OK;
}

static void tokens_forget(mr_stage_t *s) {
  tokens_t *t = s->state;
  mr_token_files_close(t->row);
  free(t->start), free(t->count);
  t->row = NULL, t->start = NULL, t->count = NULL;
}

/* ---- reading ---- */

static mr_err_t tokens_open(mr_stage_t *s) {
  tokens_t *t = s->state;
  mr_diag_t why = {0};
  mr_err_t e = mr_shard_reads_open(&t->reads, t->row->shards, &why);
  mr_remote_t *remote = t->row->shards->remote;
  if (e >= 0 && remote && t->way == DUE) e = mr_remote_start(remote, &why);
  if (e >= 0 && t->way == WIDE) e = mr_token_files_widen(t->row, &why);
  if (e >= 0 && t->way == KEPT) {
    mr_diag_t unread = {0};
    mr_err_t kept = mr_token_files_keep(t->row, &unread);
    if (kept < 0 && (kept == MR_ERR_NOMEM || !t->care.lenient))
      e = mr_diag_relay(&why, kept, &unread);
  }
  return mr_stage_relay(s, e, &why);
}

static void tokens_close(mr_stage_t *s) {
  tokens_t *t = s->state;
  if (t->row && t->row->shards->remote) mr_remote_count(t->row->shards->remote, &t->counts);
  mr_shard_reads_close(t->reads);
  t->reads = NULL;
}

/* Lists the pieces of [at, at + n) that are not in memory, one of each file; returns how many, or
   -1 for too many. */
static int list_pieces(const tokens_t *t, int64_t at, int64_t n, mr_shard_want_t *want) {
  int k = 0;
  for (int i = mr_token_files_find(t->row, at); n > 0; i++) {
    const mr_token_file_t *f = &t->row->file[i];
    int64_t here = f->first + f->n - at, width = mr_token_size(f->type);
    if (here > n) here = n;
    if (here > 0 && !f->kept) {
      if (k == PIECES_MAX) return -1;
      want[k++] = (mr_shard_want_t){.shard = &t->row->shards->shard[i],
                                    .at = f->head + (at - f->first) * width,
                                    .size = here * width};
    }
    at += here, n -= here;
  }
  return k;
}

/* Widens n tokens from number `at` on; want is the next piece that was read. */
static int32_t copy_tokens(const tokens_t *t, int64_t at, int64_t n, const mr_shard_want_t *want,
                           int64_t skip, int32_t *to) {
  int32_t bits = 0;
  for (int i = mr_token_files_find(t->row, at - skip); n > 0; i++) {
    const mr_token_file_t *f = &t->row->file[i];
    int64_t width = mr_token_size(f->type), first = at - skip, here = f->first + f->n - at;
    const uint8_t *from = f->kept ? f->kept + (first - f->first) * width : NULL;
    if (!f->kept && f->first + f->n > first) from = (want++)->data;
    if (here > n) here = n;
    if (here > 0) {
      bits |= mr_token_widen(f->type, from + skip * width, here, to);
      at += here, n -= here, to += here, skip = 0;
    } else if (f->first + f->n > first) {
      skip = 0; /* the range's first token alone lies in this file */
    }
  }
  return bits;
}

static void fill_pad(int32_t *to, int64_t from, int64_t end, int32_t with) {
  for (int64_t i = from; i < end; i++) to[i] = with;
}

/* Writes positions, segments and mask of a range of n tokens; of padding -1, 0 and false. */
static void fill_documents(const tokens_t *t, int64_t start, int64_t n, const mr_value_t *v) {
  const int64_t *document = t->row->document;
  int32_t *position = v[POSITIONS].data, *segment = v[SEGMENTS].data;
  uint8_t *mask = v[MASK].data;
  int64_t d = mr_token_files_document(t->row, start), used = n < t->length ? n : t->length, i = 0;
  for (int32_t s = 0; i < used; s++, d++) {
    int64_t end = document[d + 1] - start, from = i;
    int64_t stop = end < used ? end : used;
    for (; i < stop; i++) position[i] = (int32_t)(i - from), segment[i] = s, mask[i] = true;
    /* the token behind the last one of a document, or of the range, is no target */
    if (end == i || i == n) mask[i - 1] = false;
  }
  fill_pad(position, used, t->length, 0);
  fill_pad(segment, used, t->length, -1);
  memset(mask + used, 0, (size_t)(t->length - used));
}

static mr_err_t check_vocabulary(const tokens_t *t, int32_t bits, const mr_value_t *v,
                                 mr_diag_t *diag) {
  const int32_t *token = v[TOKENS].data, *target = v[TARGETS].data;
  int32_t most = 0;
  if (bits < 0) return mr_fail(diag, MR_ERR_DATA, "holds a token that is negative or no i32");
  for (int64_t i = 0; t->vocab && i < t->length; i++) most = token[i] > most ? token[i] : most;
  if (t->vocab && target[t->length - 1] > most) most = target[t->length - 1];
  if (!t->vocab || most < t->vocab) return MR_OK;
  return mr_fail(diag, MR_ERR_DATA, "holds token %d, want tokens below vocab=%" PRId64, most,
                 t->vocab);
}

/* The tokens of a whole window lie in memory; only where some token of the files is bad does each
   window need a check. */
static mr_err_t point_at_range(const tokens_t *t, int64_t start, mr_value_t *v, mr_diag_t *diag) {
  int32_t *at = t->row->wide + start, bits = 0;
  v[TOKENS].data = at, v[TARGETS].data = at + 1;
  if (t->row->wide_bits >= 0 && (!t->vocab || t->row->wide_most < t->vocab)) return MR_OK;
  for (int64_t i = 0; i <= t->length; i++) bits |= at[i];
  return check_vocabulary(t, bits, v, diag);
}

static mr_err_t copy_range(tokens_t *t, int worker, int64_t start, int64_t n, mr_value_t *v,
                           mr_diag_t *diag) {
  mr_shard_want_t want[PIECES_MAX];
  int64_t inputs = n < t->length ? n : t->length, targets = n - 1;
  int pieces = list_pieces(t, start, n, want);
  if (pieces < 0) return mr_fail(diag, MR_ERR_DATA, "spans more than %d files", PIECES_MAX);
  if (pieces) MR_TRY(mr_shard_reads_fetch(t->reads, worker, want, pieces, diag));
  int32_t bits = copy_tokens(t, start, inputs, want, 0, v[TOKENS].data);
  bits |= copy_tokens(t, start + 1, targets, want, 1, v[TARGETS].data);
  fill_pad(v[TOKENS].data, inputs, t->length, (int32_t)t->pad);
  fill_pad(v[TARGETS].data, targets, t->length, (int32_t)t->pad);
  return check_vocabulary(t, bits, v, diag);
}

static mr_err_t fetch_range(tokens_t *t, int worker, int64_t number, mr_rec_t *out,
                            mr_diag_t *diag) {
  int64_t start = range_start(t, number), n = range_count(t, number);
  if (t->way == WIDE)
    MR_TRY(point_at_range(t, start, out->field, diag));
  else
    MR_TRY(copy_range(t, worker, start, n, out->field, diag));
  if (t->pack != STREAM) fill_documents(t, start, n, out->field);
  out->key = (uint64_t)(number + t->id_base);
  return MR_OK;
}

static void tokens_where(mr_stage_t *s, int64_t index, mr_where_t *out) {
  const tokens_t *t = s->state;
  int64_t number = mr__split_at(&t->split, index), start = range_start(t, number);
  int i = mr_token_files_find(t->row, start);
  const mr_token_file_t *f = &t->row->file[i];
  snprintf(out->file, MR_WHERE_MAX, "%s", t->row->shards->shard[i].path);
  out->offset = f->head + (start - f->first) * mr_token_size(f->type);
  out->key = (uint64_t)(number + t->id_base);
}

static int64_t tokens_index_of(const mr_stage_t *s, uint64_t key) {
  const tokens_t *t = s->state;
  return mr__split_from(&t->split, (int64_t)(key - (uint64_t)t->id_base));
}

/* Windows in random order miss every cache.  The first lines of all windows of a burst are
   requested before one is copied; the processor's own prefetcher follows from there. */
static void touch_range(const tokens_t *t, int64_t start) {
  const char *at = (const char *)(t->row->wide + start);
  int64_t bytes = (t->length + 1) * (int64_t)sizeof(int32_t);
  for (int64_t k = 0; k < bytes && k < TOUCHED; k += 64) __builtin_prefetch(at + k, 0, 2);
}

static mr_err_t tokens_fetch(mr_stage_t *s, int worker, const int64_t *index, int n,
                             mr_rec_t *out) {
  tokens_t *t = s->state;
  for (int i = 0; t->way == WIDE && i < n; i++)
    touch_range(t, range_start(t, mr__split_at(&t->split, index[i])));
  for (int i = 0; i < n; i++) {
    mr_diag_t why;
    int64_t number = mr__split_at(&t->split, index[i]);
    mr_err_t e = fetch_range(t, worker, number, &out[i], mr_stage_why(s, &why));
    if (e >= 0) continue;
    if (!s->diag) return e;
    int file = mr_token_files_find(t->row, range_start(t, number));
    return mr_stage_fail(s, e, "%s: window %" PRId64 ": %s", t->row->shards->shard[file].path,
                         number, why.text);
  }
  return MR_OK;
}

static bool tokens_ahead(mr_stage_t *s, int worker, const int64_t *index, int n) {
  tokens_t *t = s->state;
  mr_shard_want_t want[PIECES_MAX];
  if (!t->ahead || t->way != DUE) return false;
  for (int i = 0; i < n; i++) {
    int64_t number = mr__split_at(&t->split, index[i]);
    int k = list_pieces(t, range_start(t, number), range_count(t, number), want);
    mr_shard_reads_ahead(t->reads, want, k > 0 ? k : 0);
  }
  return true;
}

/* Windows of files that are kept in memory ask for nothing. */
static int64_t tokens_foresee(mr_stage_t *s, const int64_t *index, int n) {
  tokens_t *t = s->state;
  mr_shard_want_t want[PIECES_MAX];
  mr_remote_t *remote = t->row->shards->remote;
  if (!remote || t->way != DUE) return -1;
  int64_t more = n ? 0 : mr_remote_tell(remote, NULL, 0);
  for (int i = 0; i < n; i++) {
    int64_t number = mr__split_at(&t->split, index[i]);
    int k = list_pieces(t, range_start(t, number), range_count(t, number), want);
    for (int p = 0; p < k; p++) {
      mr_remote_want_t part = {want[p].shard->object, want[p].at, want[p].size, NULL};
      if (part.object) more = mr_remote_tell(remote, &part, 1);
    }
  }
  return more;
}

static bool tokens_asked(mr_stage_t *s, mr_asked_t *out) {
  const tokens_t *t = s->state;
  return mr_remote_asked(t->row->shards->remote, out);
}

static void tokens_report(mr_stage_t *s, char *text, size_t n) {
  const tokens_t *t = s->state;
  mr_remote_report(&t->counts, text, n);
}

static uint64_t tokens_objects(mr_stage_t *s) {
  return mr_remote_states(((const tokens_t *)s->state)->row->shards->remote);
}

static mr_err_t tokens_measure(mr_stage_t *s, double seconds, mr_served_t *out) {
  const tokens_t *t = s->state;
  mr_diag_t why = {0};
  out->records = t->n_ranges, out->bytes = mr_token_files_bytes(t->row);
  int64_t mean = out->records ? out->bytes / out->records : 0;
  out->once = t->way != DUE;
  if (out->once) mean = out->bytes < MR_READER_WINDOW ? out->bytes : MR_READER_WINDOW;
  mr_err_t e = mr_remote_measure(t->row->shards->remote, mean, seconds, out, &why);
  return mr_stage_relay(s, e, &why);
}

static mr_err_t tokens_explain(mr_stage_t *s, char *text, size_t n) {
  const tokens_t *t = s->state;
  mr_snprintf(text, n, "%s (%.1f MB, budget %.1f MB)",
              t->way == DUE    ? "read window by window as they are due"
              : t->way == KEPT ? "read once in large requests and kept in memory"
                               : "read once in large requests and kept in memory as i32",
              (double)(t->way == WIDE ? t->row->n * 4 : mr_token_files_bytes(t->row)) / 1e6,
              (double)tokens_budget(t) / 1e6);
  return MR_OK;
}

static const mr_opt_t tokens_opts[] = {
    {.name = "files",
     .hint = "path file filename location",
     .type = MR_OPT_STR,
     .offset = offsetof(tokens_t, files),
     .help =
         "Files of token ids, such as train-{000..012}.bin; several names are joined by \"::\".  "
         "NAME.bin with NAME.idx beside it is Megatron-LM's.",
     .positional = 1},
    {.name = "length",
     .hint = "seqlen sequencelength blocksize contextlength maxseqlength maxlength maxseqlen "
             "seqlength nctx",
     .type = MR_OPT_INT,
     .offset = offsetof(tokens_t, length),
     .unit = "tokens",
     .def = "1024",
     .lo = 1,
     .hi = LENGTH_MAX,
     .help = "Tokens of a record; its targets are the same tokens shifted by one."},
    {.name = "stride",
     .type = MR_OPT_INT,
     .offset = offsetof(tokens_t, stride),
     .unit = "tokens",
     .def = "0",
     .hi = 1e12,
     .help = "Distance from the beginning of a window to that of the next; 0: length, so that each "
             "token is a target once."},
    {.name = "pack",
     .type = MR_OPT_ENUM,
     .offset = offsetof(tokens_t, pack),
     .def = "stream",
     .choices = "stream|reset|whole",
     .help =
         "stream: windows over all documents; reset: the same, with positions, segments and mask "
         "of documents; whole: whole documents, as many as fit, then padding."},
    {.name = "eos",
     .hint = "eosid eostokenid eodtoken",
     .type = MR_OPT_INT,
     .offset = offsetof(tokens_t, eos),
     .def = "-1",
     .lo = -1,
     .hi = 2147483647.0,
     .help = "Token that ends a document of a flat file; -1: a file is one document."},
    {.name = "pad",
     .hint = "padid padtokenid padtoken",
     .type = MR_OPT_INT,
     .offset = offsetof(tokens_t, pad),
     .def = "0",
     .lo = -1,
     .hi = 2147483647.0,
     .help = "Token that fills the rest of a record of pack=whole."},
    {.name = "dtype",
     .values = mr_dtype_hints,
     .type = MR_OPT_ENUM,
     .offset = offsetof(tokens_t, dtype),
     .def = "u16",
     .choices = MR_TOKEN_TYPES,
     .help = "Type of the tokens of a flat file without a header."},
    {.name = "vocab",
     .hint = "vocabsize nvocab",
     .type = MR_OPT_INT,
     .offset = offsetof(tokens_t, vocab),
     .unit = "tokens",
     .def = "0",
     .hi = 2147483647.0,
     .help =
         "Number of different tokens; a record with a token outside [0,vocab) is bad; 0: unknown."},
    {.name = "id-base",
     .type = MR_OPT_INT,
     .offset = offsetof(tokens_t, id_base),
     .def = "0",
     .hi = 1e15,
     .help = "Id of the first record; give data sets that are used in one graph different ids."},
    {.name = "memory",
     .type = MR_OPT_INT,
     .offset = offsetof(tokens_t, memory),
     .unit = "bytes",
     .def = "-1",
     .lo = -1,
     .hi = 1e15,
     .help = "Tokens are kept in memory if all of them fit into this size, as i32 if these fit; "
             "otherwise windows are read as they are due; -1: half of the free memory."},
    {.name = "read-ahead",
     .type = MR_OPT_BOOL,
     .offset = offsetof(tokens_t, ahead),
     .def = "true",
     .help = "Reads windows that are not in memory while earlier ones are transformed."},
    MR_REMOTE_OPTS(tokens_t, remote),
    MR_SPLIT_OPTS(tokens_t, split, "all", "0"),
    MR_CARE_OPTS(tokens_t, care),
    {0}};

static const mr_source_def_t tokens_source = {
    .fetch = tokens_fetch,
    .ahead = tokens_ahead,
    .foresee = tokens_foresee,
    .where = tokens_where,
    .index_of = tokens_index_of,
    .care = offsetof(tokens_t, care),
    .asked = tokens_asked,
    .measure = tokens_measure,
    .objects = tokens_objects,
    .explain = tokens_explain,
};

const mr_stage_def_t mr_stage_tokens = {
    .name = "tokens",
    .help = "Reads windows of token ids, of flat files or Megatron-LM's, in any order.",
    .out = {{"out", MR_FLOW_RECORDS, false}},
    .opts = tokens_opts,
    .state_sz = sizeof(tokens_t),
    .plan = tokens_plan,
    .open = tokens_open,
    .close = tokens_close,
    .forget = tokens_forget,
    .report = tokens_report,
    .source = &tokens_source,
};
