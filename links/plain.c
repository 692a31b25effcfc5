/* What programs without millrace exchange with a link: requests as a word and a number, answers as
   a JSON head and the frames of a batch, with numpy's names of types.  A client takes ten lines of
   Python; the protocol between two ends of millrace is in wire.c. */
#include "links/plain.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "links/link.h"
#include "links/wire.h"

enum { DIGITS = 18, HEAD_MAX = 8192, ERROR_MAX = 512 };

bool mr__plain_read(const void *frame, size_t n, const char *name, int64_t *number) {
  const char *at = frame;
  size_t named = strlen(name);
  if (n < named + 2 || n > named + 1 + DIGITS || memcmp(at, name, named) || at[named] != ' ')
    return false;
  *number = 0;
  for (size_t i = named + 1; i < n; i++) {
    if (at[i] < '0' || at[i] > '9') return false;
    *number = *number * 10 + (at[i] - '0');
  }
  return *number <= MR_LINK_NUMBER_MAX;
}

bool mr__cast_read(const void *frame, size_t n, const char *name, mr__cast_ask_t *what,
                   int64_t *number) {
  static const char spec[] = " spec", whole[] = " whole";
  const char *at = frame;
  size_t named = strlen(name);
  *what = MR__CAST_SPEC, *number = 0;
  if (n == named + sizeof spec - 1 && !memcmp(at, name, named) &&
      !memcmp(at + named, spec, sizeof spec - 1))
    return true;
  bool is_whole =
      n >= sizeof whole && !memcmp(at + n - (sizeof whole - 1), whole, sizeof whole - 1);
  *what = is_whole ? MR__CAST_WHOLE : MR__CAST_PLAIN;
  return mr__plain_read(frame, is_whole ? n - (sizeof whole - 1) : n, name, number);
}

/* numpy's name of a type; bf16 and f8, which numpy lacks, as unsigned bits. */
static const char *numpy_type(mr_dtype_t t) {
  switch (t) {
    case MR_BOOL: return "|b1";
    case MR_F8_E4M3FN:
    case MR_F8_E5M2:
    case MR_U8: return "|u1";
    case MR_I32: return "<i4";
    case MR_U32: return "<u4";
    case MR_I64: return "<i8";
    case MR_U64: return "<u8";
    case MR_BF16: return "<u2";
    case MR_F16: return "<f2";
    case MR_F32: return "<f4";
    default: return "<f8";
  }
}

/* A head being written; 16 fields with long names and 8 dimensions take 6 KiB. */
typedef struct head {
  char text[HEAD_MAX];
  size_t n;
} head_t;

__attribute__((format(printf, 2, 3))) static void plain_put(head_t *h, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  int k = vsnprintf(h->text + h->n, sizeof h->text - h->n, fmt, ap);
  va_end(ap);
  assert(k >= 0 && h->n + (size_t)k < sizeof h->text);
  h->n += (size_t)k;
}

/* The first dimension is the number of records, or of all their rows. */
static void plain_put_field(head_t *h, const mr_spec_t *spec, const mr_buf_t *b, int f) {
  const mr_field_t *field = &spec->field[f];
  bool batches = spec->flow == MR_FLOW_BATCHES;
  int64_t first = !batches ? (int64_t)b->size : field->ragged ? b->field[f].offset[b->n] : b->n;
  plain_put(h, "%s{\"name\": \"%s\", \"dtype\": \"%s\", \"shape\": [%" PRId64, f ? ", " : "",
            field->name, numpy_type(field->dtype), first);
  for (int i = field->ragged || !batches; i < field->ndim; i++)
    plain_put(h, ", %" PRId64, field->dim[i]);
  plain_put(h, "]%s}", field->ragged ? ", \"ragged\": true" : "");
}

static void write_head(const mr_spec_t *spec, const mr_buf_t *b, int64_t number, head_t *h) {
  plain_put(h,
            "{\"number\": %" PRId64 ", \"epoch\": %" PRId64 ", \"position\": %" PRId64
            ", \"fields\": [",
            number, b->epoch, b->position);
  for (int f = 0; f < spec->n_fields; f++) plain_put_field(h, spec, b, f);
  plain_put(h, "], \"end\": false}");
}

/* ---- frames ---- */

/* A message's frames being made; good: no allocation has failed. */
typedef struct frames {
  zmq_msg_t *part;
  int n;
  bool good;
} frames_t;

static void add_copy(frames_t *t, const void *from, size_t n) {
  if (!t->good) return;
  t->good = !zmq_msg_init_size(&t->part[t->n], n);
  if (!t->good) return;
  if (n) memcpy(zmq_msg_data(&t->part[t->n]), from, n);
  t->n++;
}

static void plain_let_go(void *data, void *hint) { mr_buf_unref(hint); }

static void add_held(frames_t *t, mr_buf_t *b, void *at, size_t n) {
  if (!t->good) return;
  t->good = !zmq_msg_init_data(&t->part[t->n], at, n, plain_let_go, b);
  if (!t->good) return;
  mr_buf_ref(b);
  t->n++;
}

static int plain_finish(frames_t *t) {
  while (!t->good && t->n) zmq_msg_close(&t->part[--t->n]);
  return t->n;
}

int mr__plain_write(const mr_spec_t *spec, mr_buf_t *b, int64_t number, bool hold,
                    zmq_msg_t part[MR__PLAIN_MOST]) {
  head_t head = {.n = 0};
  frames_t t = {part, 0, true};
  bool batches = spec->flow == MR_FLOW_BATCHES;
  size_t n = batches ? (size_t)b->n : 0;
  write_head(spec, b, number, &head);
  add_copy(&t, head.text, head.n);
  add_copy(&t, b->key, n * sizeof *b->key);
  add_copy(&t, b->excluded, n);
  for (int f = 0; f < spec->n_fields; f++) {
    void *at = batches ? b->field[f].data : b->data;
    size_t bytes = mr__link_field_bytes(spec, b, f);
    if (hold)
      add_held(&t, b, at, bytes);
    else
      add_copy(&t, at, bytes);
    if (spec->field[f].ragged) add_copy(&t, b->field[f].offset, (n + 1) * sizeof(int64_t));
  }
  return plain_finish(&t);
}

int mr__plain_frame(const mr_spec_t *spec, int f) {
  int at = MR__PLAIN_FIELDS + f;
  while (f--) at += spec->field[f].ragged;
  return at;
}

/* ---- heads alone ---- */

static int head_alone(const head_t *h, zmq_msg_t *part) {
  frames_t t = {part, 0, true};
  add_copy(&t, h->text, h->n);
  return plain_finish(&t);
}

int mr__plain_error(int64_t number, const char *why, zmq_msg_t *part) {
  head_t h = {.n = 0};
  char text[ERROR_MAX];
  size_t at = 0;
  for (; *why && at + 2 < sizeof text; why++) {
    if (*why == '"' || *why == '\\') text[at++] = '\\';
    text[at++] = (unsigned char)*why < ' ' ? ' ' : *why;
  }
  text[at] = 0;
  plain_put(&h, "{\"number\": %" PRId64 ", \"end\": false, \"error\": \"%s\"}", number, text);
  return head_alone(&h, part);
}

int mr__plain_end(int64_t number, zmq_msg_t *part) {
  head_t h = {.n = 0};
  plain_put(&h, "{\"number\": %" PRId64 ", \"end\": true}", number);
  return head_alone(&h, part);
}
