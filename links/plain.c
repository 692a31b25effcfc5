#include "links/plain.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "links/link.h"
#include "links/wire.h"

enum { DIGITS = 18, HEAD_MAX = 1024 };

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

/* numpy's name of a type; bf16, which numpy does not know, as its bits. */
static const char *numpy_type(mr_dtype_t t) {
  switch (t) {
    case MR_BOOL: return "|b1";
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

static size_t put_shape(const mr_spec_t *spec, const mr_buf_t *b, char *text, size_t n) {
  size_t at = 0;
  if (spec->flow != MR_FLOW_BATCHES) return (size_t)snprintf(text, n, "[%zu]", b->size);
  at += (size_t)snprintf(text, n, "[%" PRId32, b->n);
  for (int i = 0; i < spec->field->ndim; i++)
    at += (size_t)snprintf(text + at, n - at, ", %" PRId64, spec->field->dim[i]);
  return at + (size_t)snprintf(text + at, n - at, "]");
}

static size_t write_head(const mr_spec_t *spec, const mr_buf_t *b, int64_t number, char *text) {
  char shape[MR_MAX_NDIM * 24 + 8];
  mr_dtype_t dtype = spec->flow == MR_FLOW_BATCHES ? spec->field->dtype : MR_U8;
  put_shape(spec, b, shape, sizeof shape);
  int n = snprintf(text, HEAD_MAX,
                   "{\"number\": %" PRId64 ", \"epoch\": %" PRId64 ", \"position\": %" PRId64
                   ", \"dtype\": \"%s\", \"shape\": %s, \"end\": false}",
                   number, b->epoch, b->position, numpy_type(dtype), shape);
  return (size_t)n;
}

static bool copy_into(zmq_msg_t *m, const void *from, size_t n) {
  if (zmq_msg_init_size(m, n)) return false;
  if (n) memcpy(zmq_msg_data(m), from, n);
  return true;
}

static void let_go(void *data, void *hint) { mr_buf_unref(hint); }

static bool put_data(zmq_msg_t *m, const mr_spec_t *spec, mr_buf_t *b, bool hold) {
  size_t bytes = mr__link_payload(spec, b);
  if (!hold) return copy_into(m, b->data, bytes);
  if (zmq_msg_init_data(m, b->data, bytes, let_go, b)) return false;
  mr_buf_ref(b);
  return true;
}

static bool undo(zmq_msg_t *part, int n) {
  while (n--) zmq_msg_close(&part[n]);
  return false;
}

bool mr__plain_write(const mr_spec_t *spec, mr_buf_t *b, int64_t number, bool hold,
                     zmq_msg_t part[MR__PLAIN_PARTS]) {
  char head[HEAD_MAX];
  size_t n = spec->flow == MR_FLOW_BATCHES ? (size_t)b->n : 0;
  if (!copy_into(&part[0], head, write_head(spec, b, number, head))) return false;
  if (!copy_into(&part[1], b->key, n * sizeof *b->key)) return undo(part, 1);
  if (!copy_into(&part[2], b->label, n * sizeof *b->label)) return undo(part, 2);
  return put_data(&part[3], spec, b, hold) || undo(part, 3);
}

static bool head_alone(const char *head, zmq_msg_t part[MR__PLAIN_PARTS]) {
  if (!copy_into(&part[0], head, strlen(head))) return false;
  for (int i = 1; i < MR__PLAIN_PARTS; i++) zmq_msg_init(&part[i]);
  return true;
}

bool mr__plain_error(int64_t number, const char *why, zmq_msg_t part[MR__PLAIN_PARTS]) {
  char head[HEAD_MAX], text[HEAD_MAX / 2];
  size_t at = 0;
  for (; *why && at + 2 < sizeof text; why++) {
    if (*why == '"' || *why == '\\') text[at++] = '\\';
    text[at++] = (unsigned char)*why < ' ' ? ' ' : *why;
  }
  text[at] = 0;
  snprintf(head, sizeof head, "{\"number\": %" PRId64 ", \"end\": false, \"error\": \"%s\"}",
           number, text);
  return head_alone(head, part);
}

bool mr__plain_end(int64_t number, zmq_msg_t part[MR__PLAIN_PARTS]) {
  char head[HEAD_MAX];
  snprintf(head, sizeof head, "{\"number\": %" PRId64 ", \"end\": true}", number);
  return head_alone(head, part);
}
