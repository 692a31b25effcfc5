/* Judges answers of servers.  Nothing is trusted: bytes are used only if status, range, state of
   the object, length and checksum are those that were asked for. */
#include "loaders/remote/remote_attempt.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static mr__verdict_t say_no(mr_diag_t *diag, const mr__attempt_t *a, mr_err_t code,
                            const char *what) {
  mr_fail(diag, code, "%s: %s (bytes %" PRId64 " to %" PRId64 ")", a->q->object->name, what,
          a->q->at, a->q->at + a->q->size - 1);
  return MR__FAIL;
}

static mr__verdict_t say_changed(mr_diag_t *diag, const mr__attempt_t *a) {
  if (!a->q->object->listed) return say_no(diag, a, MR_ERR_DATA, "has changed since it was opened");
  mr_fail(diag, MR_ERR_DATA, "%s: has changed since it was listed (relist=true lists anew)",
          a->q->object->name);
  return MR__FAIL;
}

static mr__verdict_t judge_page(const mr__attempt_t *a, mr_diag_t *diag) {
  const char *name = a->q->object->name;
  if (!a->too_long && !a->encoded) return MR__USE;
  if (a->encoded)
    mr_fail(diag, MR_ERR_DATA, "%s: the server compresses what it sends, which was not asked for",
            name);
  else
    mr_fail(diag, MR_ERR_DATA, "%s: the server sends a page of more than %zu bytes", name,
            a->q->page->most);
  return MR__FAIL;
}

bool mr__attempt_code(const mr__attempt_t *a, char code[64]) {
  const char *at = strstr(a->said, "<Code>");
  size_t n =
      at ? strspn(at + 6, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.") : 0;
  bool whole = at && n && n < 64 && !strncmp(at + 6 + n, "</Code>", 7);
  snprintf(code, 64, "%.*s", whole ? (int)n : 0, whole ? at + 6 : "");
  return whole;
}

bool mr__attempt_expired(const mr__attempt_t *a) {
  char code[64];
  return a->q->object->s3 && mr__attempt_code(a, code) &&
         (!strcmp(code, "ExpiredToken") || !strcmp(code, "ExpiredTokenException") ||
          !strcmp(code, "TokenRefreshRequired"));
}

/* What to do about a code of S3 that will be the same the next time. */
static const char *advice_for(const char *code) {
  static const struct {
    const char *code, *advice;
  } row[] = {
      {"RequestTimeTooSkewed", "; the clocks of this machine and the server differ: set them"},
      {"InvalidObjectState", "; it is archived: restore it, or copy it to another storage class"},
      {"InvalidAccessKeyId", "; the server does not know the access key"},
      {"SignatureDoesNotMatch", "; the secret key is not that of the access key"},
      {"NoSuchBucket", "; there is no such bucket"},
  };
  for (size_t i = 0; i < sizeof row / sizeof *row; i++)
    if (!strcmp(code, row[i].code)) return row[i].advice;
  return NULL;
}

static mr__verdict_t judge_status(const mr__attempt_t *a, mr_diag_t *diag) {
  const char *name = a->q->object->name;
  char more[300] = "", code[64];
  bool coded = mr__attempt_code(a, code);
  if (a->status == 408 || a->status == 429 || a->status >= 500 || mr__attempt_expired(a)) {
    mr_fail(diag, MR_ERR_IO, "%s: the server answers with status %ld%s%s", name, a->status,
            coded ? ", " : "", code);
    return MR__AGAIN;
  }
  if (a->status == 412) return say_changed(diag, a);
  if (a->status == 200)
    return say_no(diag, a, MR_ERR_DATA,
                  "the server ignores ranges and sends the whole object; want a server that "
                  "supports range requests");
  if (a->status == 416)
    return say_no(diag, a, MR_ERR_DATA, "the server says that the object ends before these bytes");
  if (*a->region)
    snprintf(more, sizeof more, "; the bucket is in region %s: set region=%s", a->region,
             a->region);
  else if (advice_for(code))
    snprintf(more, sizeof more, "%s", advice_for(code));
  else if (a->status == 404 && a->q->object->listed)
    snprintf(more, sizeof more, "; it was there when it was listed (relist=true lists anew)");
  else if (a->status == 403 && a->q->page)
    snprintf(more, sizeof more, "; these credentials do not permit listing the bucket");
  else if (a->status == 403)
    snprintf(more, sizeof more,
             "; it does not exist, or these credentials do not permit reading it");
  mr_fail(diag, MR_ERR_IO, "%s: the server answers with status %ld%s%s%s", name, a->status,
          coded ? ", " : "", code, more);
  return MR__FAIL;
}

/* Whether the answer is of the state that the object had when it was opened: of its size and ETag.
   A weak ETag need not change with the bytes, so that it counts together with the time, and without
   an ETag the time counts alone. */
static bool is_same_state(const mr__attempt_t *a) {
  const mr_object_t *o = a->q->object;
  if (a->span.total != o->size || strcmp(a->etag, o->etag)) return false;
  bool strong = *o->etag && strncmp(o->etag, "W/", 2) != 0;
  return strong || a->mtime_ns == o->mtime_ns;
}

/* Whether an answer of a peer proves that its bytes come from a process of this job. */
static bool proves_itself(const mr__attempt_t *a) {
  mr_proof_about_t about = mr__attempt_about(a->q);
  return a->to && mr__proof_answered(&about, a->asked, a->to, a->proof);
}

/* Whether the answer is of the bytes and the object that were asked for. */
static mr__verdict_t judge_answer(const mr__attempt_t *a, mr_diag_t *diag) {
  const mr__request_t *q = a->q;
  const mr_object_t *o = q->object;
  if (a->too_long)
    return say_no(diag, a, MR_ERR_DATA, "the server sends more bytes than were asked for");
  if (a->encoded)
    return say_no(
        diag, a, MR_ERR_DATA,
        "the server compresses what it sends; want a server that sends objects as they are");
  if (a->wrong_etag)
    return say_no(diag, a, MR_ERR_DATA, "the server sends an ETag with a control character");
  if (!a->has_span || a->span.first != q->at)
    return say_no(diag, a, MR_ERR_DATA, "the server's Content-Range is of other bytes");
  if (a->span.total < 0)
    return say_no(diag, a, MR_ERR_DATA,
                  "the server does not send the size of the object in Content-Range");
  if (o->size >= 0 && !is_same_state(a)) return say_changed(diag, a);
  if (a->span.last != q->at + q->size - 1)
    return say_no(diag, a, MR_ERR_DATA, "the server's Content-Range is of other bytes");
  if (a->got != q->size)
    return say_no(diag, a, MR_ERR_DATA, "the server sends fewer bytes than its Content-Range says");
  if (o->token && !proves_itself(a))
    return say_no(diag, a, MR_ERR_DATA,
                  "the answer does not prove that it is of this job: another process listens "
                  "there, or has another token (MILLRACE_PEER_TOKEN or peer-token)");
  bool whole = q->at == 0 && q->size == a->span.total;
  if (!a->to || (a->sum.whole && !whole) || mr__remote_sum_ok(&a->sum, a->to, (size_t)q->size))
    return MR__USE;
  say_no(diag, a, MR_ERR_DATA, "the bytes do not match the checksum that the server sends");
  return MR__AGAIN;
}

static bool passes_by(CURLcode code) {
  switch (code) {
    case CURLE_COULDNT_CONNECT:
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY:
    case CURLE_PARTIAL_FILE:
    case CURLE_RECV_ERROR:
    case CURLE_SEND_ERROR:
    case CURLE_GOT_NOTHING:
    case CURLE_OPERATION_TIMEDOUT:
    case CURLE_HTTP2:
    case CURLE_HTTP2_STREAM:
    case CURLE_WEIRD_SERVER_REPLY:
    case CURLE_SSL_CONNECT_ERROR: return true;
    default: return false;
  }
}

/* An answer of an empty object has no range. */
static bool is_empty_object(mr__attempt_t *a, CURLcode code) {
  bool none = a->status == 416 && a->has_span && a->span.first < 0 && a->span.total == 0;
  bool all = a->status == 200 && code == CURLE_OK && !a->got && !a->refused;
  if (a->q->object->size >= 0 || !(none || all)) return false;
  return a->span.total = 0, true;
}

mr__verdict_t mr__attempt_judge(mr__attempt_t *a, CURLcode code, mr_diag_t *diag) {
  bool over = code == CURLE_OK || a->too_long || a->refused;
  if (over && a->q->page && a->status == 200) return judge_page(a, diag);
  if (!a->wrong_etag && is_empty_object(a, code)) return MR__USE;
  if (over && a->status == 206) return judge_answer(a, diag);
  if (over) return judge_status(a, diag);
  if (a->redirect.astray) {
    char text[256];
    snprintf(text, sizeof text, "%s: want local-redirects=true if that is meant",
             mr__remote_astray);
    return say_no(diag, a, MR_ERR_IO, text);
  }
  mr_fail(diag, MR_ERR_IO, "%s: %s", a->q->object->name, mr__remote_reason(code, a->reason));
  return passes_by(code) ? MR__AGAIN : MR__FAIL;
}
