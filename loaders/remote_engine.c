/* Requests by libcurl's multi interface, on one thread: starts what is due, sends slow requests a
   second time, and decides for each answer whether to use it, to retry or to fail. */
#include <assert.h>
#include <curl/curl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/feature.h"
#include "loaders/remote_private.h"

enum {
  RECENT = 64,       /* requests from which the usual time is known */
  RECENT_LEAST = 16, /* as many are needed before one is hedged */
  HEDGE_SHARE = 20,  /* at most one request in this number is sent twice */
  PAUSE_MAX_S = 20,  /* between two tries */
  AFTER_MAX_S = 60,  /* a longer Retry-After is not obeyed */
  CLASSES = 40,      /* of sizes, by powers of two */
  RENEW_S = 300,     /* credentials are renewed this long before they end */
};

/* One transfer of a request. */
typedef struct mr__attempt {
  mr__request_t *q;
  CURL *easy;
  struct curl_slist *headers;
  uint8_t *to;  /* where its bytes go: q->to, or its own room */
  uint8_t *own; /* heap; NULL: none */
  int64_t got, begun_ns, last_ns;
  long status;
  mr_remote_span_t span;
  mr_remote_sum_t sum;
  bool has_span, encoded, too_long, refused; /* refused: the body is not wanted */
  char etag[256], region[64], reason[CURL_ERROR_SIZE];
  int64_t mtime_s;
  struct mr__attempt *next; /* in the list of those in flight */
} attempt_t;

struct mr__engine {
  mr_remote_conf_t conf;
  char region[64];
  CURLM *multi;
  pthread_t thread;
  pthread_mutex_t lock; /* guards the four members below */
  mr__request_t *inbox, **inbox_last;
  bool ends;
  mr_remote_counts_t counts;
  /* The thread's own. */
  mr__request_t *first, **last; /* to be started, when they are due */
  attempt_t *flying;
  int n_flying;
  int64_t n_done, n_hedged;
  int64_t recent[CLASSES][RECENT]; /* ns of the last requests of a class of sizes */
  int n_recent[CLASSES];
  uint64_t random;
  bool has_credentials;
  mr_credentials_t credentials;
};

/* ---- what the server says ---- */

static void reset_answer(attempt_t *a) {
  a->span = (mr_remote_span_t){-1, -1, -1};
  a->sum = (mr_remote_sum_t){0};
  a->has_span = a->encoded = a->refused = false, a->etag[0] = a->region[0] = 0, a->mtime_s = 0;
}

static void copy_header_value(char *out, size_t room, const char *from, size_t n) {
  if (n >= room) n = 0; /* too long to be compared: as if there were none */
  memcpy(out, from, n), out[n] = 0;
}

static size_t on_header(char *line, size_t one, size_t n, void *arg) {
  attempt_t *a = arg;
  const char *v;
  size_t k;
  a->last_ns = mr_now_ns();
  if (n > 5 && !strncmp(line, "HTTP/", 5)) { /* after a redirect another answer begins */
    const char *space = memchr(line, ' ', n);
    reset_answer(a);
    a->status = space ? strtol(space, NULL, 10) : 0;
    return n;
  }
  if ((v = mr__remote_value(line, n, "content-range", &k)))
    a->has_span = mr__remote_span(v, k, &a->span);
  else if ((v = mr__remote_value(line, n, "etag", &k)))
    copy_header_value(a->etag, sizeof a->etag, v, k);
  else if ((v = mr__remote_value(line, n, "x-amz-bucket-region", &k)))
    copy_header_value(a->region, sizeof a->region, v, k);
  else if ((v = mr__remote_value(line, n, "content-encoding", &k)))
    a->encoded = !(k == 8 && !strncasecmp(v, "identity", k));
  else if ((v = mr__remote_value(line, n, "last-modified", &k))) {
    char date[64];
    copy_header_value(date, sizeof date, v, k);
    time_t t = curl_getdate(date, NULL);
    a->mtime_s = t > 0 ? (int64_t)t : 0;
  } else {
    mr__remote_sum_line(line, n, &a->sum);
  }
  return n;
}

static size_t on_body(char *data, size_t one, size_t n, void *arg) {
  attempt_t *a = arg;
  a->last_ns = mr_now_ns();
  if (a->status != 206) { /* an error's text: passed over, or cut if it is a whole object */
    a->refused = a->status == 200;
    return a->refused ? 0 : n;
  }
  if ((int64_t)n > a->q->size - a->got) {
    a->too_long = true;
    return 0;
  }
  if (a->to) memcpy(a->to + a->got, data, n);
  a->got += (int64_t)n;
  return n;
}

/* ---- credentials ---- */

static mr_err_t engine_sign(mr__engine_t *e, attempt_t *a, mr_diag_t *diag) {
  char text[MR_TOKEN_MAX + 64];
  bool stale = e->credentials.until_s && e->credentials.until_s - RENEW_S < (int64_t)time(NULL);
  if (!e->has_credentials || stale) {
    MR_TRY(mr__remote_credentials(&e->credentials, mr__engine_plain, diag));
    e->has_credentials = true;
  }
  snprintf(text, sizeof text, "aws:amz:%s:s3", e->region);
  curl_easy_setopt(a->easy, CURLOPT_AWS_SIGV4, text);
  curl_easy_setopt(a->easy, CURLOPT_USERNAME, e->credentials.key);
  curl_easy_setopt(a->easy, CURLOPT_PASSWORD, e->credentials.secret);
  /* libcurl 7.88 signs the header if it is given and never makes it. */
  a->headers = curl_slist_append(a->headers, "x-amz-content-sha256: UNSIGNED-PAYLOAD");
  if (!*e->credentials.token) return MR_OK;
  snprintf(text, sizeof text, "x-amz-security-token: %s", e->credentials.token);
  a->headers = curl_slist_append(a->headers, text);
  explicit_bzero(text, sizeof text);
  return MR_OK;
}

/* ---- one attempt ---- */

/* Debian's libcurl names its own file of certificates to OpenSSL, which then reads no variable. */
static void set_certificates(CURL *c) {
  const char *file = getenv("SSL_CERT_FILE"), *folder = getenv("SSL_CERT_DIR");
  if (file && *file) curl_easy_setopt(c, CURLOPT_CAINFO, file);
  if (folder && *folder) curl_easy_setopt(c, CURLOPT_CAPATH, folder);
}

static void set_options(mr__engine_t *e, attempt_t *a) {
  const mr__request_t *q = a->q;
  CURL *c = a->easy;
  char range[64];
  snprintf(range, sizeof range, "%" PRId64 "-%" PRId64, q->at, q->at + q->size - 1);
  curl_easy_setopt(c, CURLOPT_URL, q->object->url);
  curl_easy_setopt(c, CURLOPT_PATH_AS_IS, 1L); /* keys may hold ".." and "//" */
  curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(c, CURLOPT_REDIR_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(c, CURLOPT_FOLLOWLOCATION, q->object->s3 ? 0L : 1L);
  curl_easy_setopt(c, CURLOPT_MAXREDIRS, 5L);
  curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT_MS, (long)(e->conf.timeout * 1000));
  curl_easy_setopt(c, CURLOPT_BUFFERSIZE, 256L * 1024);
  curl_easy_setopt(c, CURLOPT_USERAGENT, "millrace");
  curl_easy_setopt(c, CURLOPT_ERRORBUFFER, a->reason);
  curl_easy_setopt(c, CURLOPT_RANGE, range);
  curl_easy_setopt(c, CURLOPT_HEADERFUNCTION, on_header);
  curl_easy_setopt(c, CURLOPT_HEADERDATA, a);
  curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, on_body);
  curl_easy_setopt(c, CURLOPT_WRITEDATA, a);
  curl_easy_setopt(c, CURLOPT_PRIVATE, a);
  set_certificates(c);
}

static void free_attempt(attempt_t *a) {
  curl_slist_free_all(a->headers);
  curl_easy_cleanup(a->easy);
  free(a->own), free(a);
}

/* Starts attempt i of q.  A hedge has its own room, since both write at once. */
static mr_err_t start_attempt(mr__engine_t *e, mr__request_t *q, int i) {
  char text[300];
  attempt_t *a = calloc(1, sizeof *a);
  if (a) a->easy = curl_easy_init();
  if (a && a->easy && i && q->to) a->own = malloc((size_t)q->size);
  if (!a || !a->easy || (i && q->to && !a->own)) {
    if (a) free_attempt(a);
    return mr_no_memory(&q->diag, "a request");
  }
  a->q = q, a->to = i ? a->own : q->to;
  reset_answer(a);
  set_options(e, a);
  if (*q->object->etag && strncmp(q->object->etag, "W/", 2)) {
    snprintf(text, sizeof text, "If-Match: %s", q->object->etag);
    a->headers = curl_slist_append(a->headers, text);
  }
  mr_err_t err = MR_OK;
  if (q->object->s3) {
    a->headers = curl_slist_append(a->headers, "x-amz-checksum-mode: ENABLED");
    if (!e->conf.anonymous) err = engine_sign(e, a, &q->diag);
  }
  curl_easy_setopt(a->easy, CURLOPT_HTTPHEADER, a->headers);
  if (err >= 0 && curl_multi_add_handle(e->multi, a->easy) != CURLM_OK)
    err = mr_no_memory(&q->diag, "a request");
  if (err < 0) return free_attempt(a), err;
  a->begun_ns = a->last_ns = mr_now_ns();
  if (!i) q->begun_ns = a->begun_ns;
  q->attempt[i] = a;
  a->next = e->flying, e->flying = a, e->n_flying++;
  pthread_mutex_lock(&e->lock);
  e->counts.requests++, e->counts.hedges += i;
  pthread_mutex_unlock(&e->lock);
  return MR_OK;
}

/* Takes an attempt out of the flight and its request; the caller frees it. */
static void land(mr__engine_t *e, attempt_t *a) {
  attempt_t **at = &e->flying;
  while (*at != a) at = &(*at)->next;
  *at = a->next, e->n_flying--;
  a->q->attempt[a->q->attempt[1] == a] = NULL;
  curl_multi_remove_handle(e->multi, a->easy);
  pthread_mutex_lock(&e->lock);
  e->counts.bytes += a->got;
  pthread_mutex_unlock(&e->lock);
}

static void drop_attempts(mr__engine_t *e, mr__request_t *q) {
  for (int i = 0; i < 2; i++) {
    attempt_t *a = q->attempt[i];
    if (a) land(e, a), free_attempt(a);
  }
}

static void finish_request(mr__engine_t *e, mr__request_t *q, mr_err_t code) {
  drop_attempts(e, q);
  q->code = code;
  e->n_done++;
  q->done(q, q->arg);
}

/* ---- the usual time ---- */

static int class_of(int64_t size) {
  int c = 0;
  while (size >>= 1) c++;
  return c < CLASSES ? c : CLASSES - 1;
}

static void note_time(mr__engine_t *e, const mr__request_t *q) {
  int c = class_of(q->size);
  e->recent[c][e->n_recent[c]++ % RECENT] = mr_now_ns() - q->begun_ns;
}

static int compare_times(const void *a, const void *b) {
  int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x > y) - (x < y);
}

/* The median of the last requests of about this size; 0 while too few are known. */
static int64_t usual_ns(const mr__engine_t *e, int64_t size) {
  int64_t sorted[RECENT];
  int c = class_of(size), n = e->n_recent[c] < RECENT ? e->n_recent[c] : RECENT;
  if (n < RECENT_LEAST) return 0;
  memcpy(sorted, e->recent[c], (size_t)n * sizeof *sorted);
  qsort(sorted, (size_t)n, sizeof *sorted, compare_times);
  return sorted[n / 2];
}

/* ---- answers ---- */

typedef enum verdict { USE, AGAIN, FAIL } verdict_t;

static verdict_t say_no(mr_diag_t *diag, const attempt_t *a, mr_err_t code, const char *what) {
  mr_fail(diag, code, "%s: %s (bytes %" PRId64 " to %" PRId64 ")", a->q->object->name, what,
          a->q->at, a->q->at + a->q->size - 1);
  return FAIL;
}

static verdict_t judge_status(const attempt_t *a, mr_diag_t *diag) {
  const char *name = a->q->object->name;
  char more[200] = "";
  if (a->status == 408 || a->status == 429 || a->status >= 500) {
    mr_fail(diag, MR_ERR_IO, "%s: the server answers with status %ld", name, a->status);
    return AGAIN;
  }
  if (a->status == 412) return say_no(diag, a, MR_ERR_DATA, "has changed since it was opened");
  if (a->status == 200)
    return say_no(diag, a, MR_ERR_DATA,
                  "the server ignores ranges and sends the whole object; want a server that "
                  "supports range requests");
  if (a->status == 416)
    return say_no(diag, a, MR_ERR_DATA, "the server says that the object ends before these bytes");
  if (*a->region)
    snprintf(more, sizeof more, "; the bucket is in region %s: set region=%s", a->region,
             a->region);
  else if (a->status == 403)
    snprintf(more, sizeof more,
             "; it does not exist, or these credentials do not permit reading it");
  mr_fail(diag, MR_ERR_IO, "%s: the server answers with status %ld%s", name, a->status, more);
  return FAIL;
}

/* Whether the answer is of the state that the object had when it was opened: of its size and ETag
   or, without one, its time. */
static bool is_same_state(const attempt_t *a) {
  const mr_object_t *o = a->q->object;
  if (a->span.total != o->size || strcmp(a->etag, o->etag)) return false;
  return *o->etag || a->mtime_s * 1000000000 == o->mtime_ns;
}

/* Whether the answer is of the bytes and the object that were asked for. */
static verdict_t judge_answer(const attempt_t *a, mr_diag_t *diag) {
  const mr__request_t *q = a->q;
  const mr_object_t *o = q->object;
  if (a->too_long)
    return say_no(diag, a, MR_ERR_DATA, "the server sends more bytes than were asked for");
  if (a->encoded)
    return say_no(
        diag, a, MR_ERR_DATA,
        "the server compresses what it sends; want a server that sends objects as they are");
  if (!a->has_span || a->span.first != q->at)
    return say_no(diag, a, MR_ERR_DATA, "the server's Content-Range is of other bytes");
  if (a->span.total < 0)
    return say_no(diag, a, MR_ERR_DATA,
                  "the server does not send the size of the object in Content-Range");
  if (o->size >= 0 && !is_same_state(a))
    return say_no(diag, a, MR_ERR_DATA, "has changed since it was opened");
  if (a->span.last != q->at + q->size - 1)
    return say_no(diag, a, MR_ERR_DATA, "the server's Content-Range is of other bytes");
  if (a->got != q->size)
    return say_no(diag, a, MR_ERR_DATA, "the server sends fewer bytes than its Content-Range says");
  bool whole = q->at == 0 && q->size == a->span.total;
  if (!a->to || (a->sum.whole && !whole) || mr__remote_sum_ok(&a->sum, a->to, (size_t)q->size))
    return USE;
  say_no(diag, a, MR_ERR_DATA, "the bytes do not match the checksum that the server sends");
  return AGAIN;
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

static verdict_t judge(const attempt_t *a, CURLcode code, mr_diag_t *diag) {
  bool over = code == CURLE_OK || a->too_long || a->refused;
  if (over && a->status == 206) return judge_answer(a, diag);
  if (over) return judge_status(a, diag);
  mr_fail(diag, MR_ERR_IO, "%s: %s", a->q->object->name,
          *a->reason ? a->reason : curl_easy_strerror(code));
  return passes_by(code) ? AGAIN : FAIL;
}

/* An answer of an empty object has no range. */
static bool is_empty_object(attempt_t *a, CURLcode code) {
  bool none = a->status == 416 && a->has_span && a->span.first < 0 && a->span.total == 0;
  bool all = a->status == 200 && code == CURLE_OK && !a->got && !a->refused;
  if (a->q->object->size >= 0 || !(none || all)) return false;
  return a->span.total = 0, true;
}

static void use_answer(mr__engine_t *e, attempt_t *a) {
  mr__request_t *q = a->q;
  if (a->own && q->to) {
    if (q->attempt[0]) { /* it writes to the same place: ended first */
      attempt_t *slow = q->attempt[0];
      land(e, slow), free_attempt(slow);
    }
    memcpy(q->to, a->own, (size_t)q->size);
  }
  q->total = a->span.total, q->mtime_ns = a->mtime_s * 1000000000;
  memcpy(q->etag, a->etag, sizeof q->etag);
  q->diag = (mr_diag_t){0};
  note_time(e, q);
}

static double draw_unit(mr__engine_t *e) { /* xorshift64*, [0,1) */
  e->random ^= e->random >> 12, e->random ^= e->random << 25, e->random ^= e->random >> 27;
  return (double)((e->random * UINT64_C(2685821657736338717)) >> 11) / 9007199254740992.0;
}

static void start_later(mr__engine_t *e, mr__request_t *q, int64_t after_s) {
  double most = e->conf.backoff;
  for (int i = 1; i < q->tries && most < PAUSE_MAX_S; i++) most *= 2;
  if (most > PAUSE_MAX_S) most = PAUSE_MAX_S;
  double pause = draw_unit(e) * most;
  if (after_s > 0) pause += (double)(after_s < AFTER_MAX_S ? after_s : AFTER_MAX_S);
  q->due_ns = mr_now_ns() + (int64_t)(pause * 1e9);
  q->next = NULL;
  *e->last = q, e->last = &q->next;
  pthread_mutex_lock(&e->lock);
  e->counts.retries++;
  pthread_mutex_unlock(&e->lock);
}

static void end_attempt(mr__engine_t *e, attempt_t *a, CURLcode code) {
  mr__request_t *q = a->q;
  mr_diag_t why = {0};
  curl_off_t after = 0;
  curl_easy_getinfo(a->easy, CURLINFO_RETRY_AFTER, &after);
  q->status = a->status;
  verdict_t v = is_empty_object(a, code) ? USE : judge(a, code, &why);
  land(e, a);
  if (v == USE) use_answer(e, a);
  free_attempt(a);
  if (v == USE) {
    finish_request(e, q, MR_OK);
  } else if (v == FAIL) {
    q->diag = why;
    finish_request(e, q, why.code);
  } else if (q->attempt[0] || q->attempt[1]) {
    return; /* the other one may still succeed */
  } else if (q->tries++ >= e->conf.retries) {
    q->diag = (mr_diag_t){0};
    mr_fail(&q->diag, why.code, "%s; %d retries failed too (setting retries)", why.text,
            q->tries - 1);
    finish_request(e, q, q->diag.code);
  } else {
    q->diag = (mr_diag_t){0};
    start_later(e, q, (int64_t)after);
  }
}

/* ---- the thread ---- */

/* Moves new requests behind those that wait; false once the engine is closed. */
static bool take_inbox(mr__engine_t *e) {
  pthread_mutex_lock(&e->lock);
  if (e->inbox) *e->last = e->inbox, e->last = e->inbox_last;
  e->inbox = NULL, e->inbox_last = &e->inbox;
  bool ends = e->ends;
  pthread_mutex_unlock(&e->lock);
  return !ends;
}

/* Starts requests that are due while there is room; returns when the next one is due. */
static int64_t start_due(mr__engine_t *e) {
  int64_t now = mr_now_ns(), next = INT64_MAX;
  for (mr__request_t **at = &e->first; *at;) {
    mr__request_t *q = *at;
    if (e->n_flying >= e->conf.connections) break;
    if (q->due_ns > now) {
      if (q->due_ns < next) next = q->due_ns;
      at = &q->next;
      continue;
    }
    if (!(*at = q->next)) e->last = at;
    mr_err_t err = start_attempt(e, q, 0);
    if (err < 0) finish_request(e, q, err);
  }
  return next;
}

/* Ends what is silent, and hedges what is slow. */
static void watch_flight(mr__engine_t *e) {
  int64_t now = mr_now_ns();
  for (attempt_t *a = e->flying, *next; a; a = next) {
    next = a->next;
    mr__request_t *q = a->q;
    if ((double)(now - a->last_ns) > e->conf.timeout * 1e9) {
      snprintf(a->reason, sizeof a->reason, "no byte for %.3g s", e->conf.timeout);
      end_attempt(e, a, CURLE_OPERATION_TIMEDOUT);
      next = e->flying; /* the list may have lost any of its members */
      continue;
    }
    int64_t usual = usual_ns(e, q->size);
    bool slow =
        usual && e->conf.hedge > 0 && (double)(now - q->begun_ns) > e->conf.hedge * (double)usual;
    if (!slow || q->attempt[1] || !q->attempt[0] || e->n_flying >= e->conf.connections ||
        e->n_hedged * HEDGE_SHARE > e->n_done)
      continue;
    if (start_attempt(e, q, 1) >= 0) e->n_hedged++;
  }
}

static void take_answers(mr__engine_t *e) {
  int left;
  for (CURLMsg *m; (m = curl_multi_info_read(e->multi, &left));) {
    attempt_t *a = NULL;
    if (m->msg != CURLMSG_DONE) continue;
    CURLcode code = m->data.result;
    curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, (char **)&a);
    end_attempt(e, a, code);
  }
}

static void cancel_all(mr__engine_t *e) {
  while (e->flying) {
    mr__request_t *q = e->flying->q;
    mr_fail(&q->diag, MR_ERR_CANCEL, "%s: the reading was ended", q->object->name);
    finish_request(e, q, MR_ERR_CANCEL);
  }
  for (mr__request_t *q = e->first, *next; q; q = next) {
    next = q->next;
    mr_fail(&q->diag, MR_ERR_CANCEL, "%s: the reading was ended", q->object->name);
    finish_request(e, q, MR_ERR_CANCEL);
  }
}

static void *engine_main(void *arg) {
  mr__engine_t *e = arg;
  int running;
  while (take_inbox(e)) {
    int64_t due = start_due(e), now = mr_now_ns();
    int wait_ms = e->flying ? 20 : 60000;
    if (due != INT64_MAX && (due - now) / 1000000 < wait_ms) wait_ms = (int)((due - now) / 1000000);
    curl_multi_perform(e->multi, &running);
    take_answers(e);
    watch_flight(e);
    if (running || !e->first || due != INT64_MAX)
      curl_multi_poll(e->multi, NULL, 0, wait_ms < 0 ? 0 : wait_ms, NULL);
  }
  cancel_all(e);
  return NULL;
}

/* ---- life ---- */

static pthread_once_t started = PTHREAD_ONCE_INIT;
static CURLcode start_code;
static void start_curl(void) { start_code = curl_global_init(CURL_GLOBAL_DEFAULT); }

mr_err_t mr__engine_open(mr__engine_t **out, const mr_remote_conf_t *conf, const char *region,
                         mr_diag_t *diag) {
  *out = NULL;
  pthread_once(&started, start_curl);
  if (start_code) return mr_fail(diag, MR_ERR_UNAVAILABLE, "cannot start libcurl");
  mr__engine_t *e = calloc(1, sizeof *e);
  if (e) e->multi = curl_multi_init();
  if (!e || !e->multi) {
    free(e);
    return mr_no_memory(diag, "requests");
  }
  e->conf = *conf, e->inbox_last = &e->inbox, e->last = &e->first;
  e->random = (uint64_t)mr_now_ns() | 1;
  snprintf(e->region, sizeof e->region, "%s", region);
  curl_multi_setopt(e->multi, CURLMOPT_MAX_HOST_CONNECTIONS, (long)conf->connections);
  curl_multi_setopt(e->multi, CURLMOPT_MAXCONNECTS, (long)conf->connections);
  pthread_mutex_init(&e->lock, NULL);
  if (pthread_create(&e->thread, NULL, engine_main, e) == 0) {
    *out = e;
    return MR_OK;
  }
  curl_multi_cleanup(e->multi);
  pthread_mutex_destroy(&e->lock);
  free(e);
  return mr_no_memory(diag, "a thread for requests");
}

void mr__engine_close(mr__engine_t *e) {
  if (!e) return;
  pthread_mutex_lock(&e->lock);
  e->ends = true;
  pthread_mutex_unlock(&e->lock);
  curl_multi_wakeup(e->multi);
  pthread_join(e->thread, NULL);
  curl_multi_cleanup(e->multi);
  pthread_mutex_destroy(&e->lock);
  explicit_bzero(&e->credentials, sizeof e->credentials);
  free(e);
}

void mr__engine_submit(mr__engine_t *e, mr__request_t *q) {
  q->next = NULL, q->tries = 0, q->due_ns = 0;
  q->attempt[0] = q->attempt[1] = NULL;
  pthread_mutex_lock(&e->lock);
  bool first = !e->inbox;
  *e->inbox_last = q, e->inbox_last = &q->next;
  pthread_mutex_unlock(&e->lock);
  if (first) curl_multi_wakeup(e->multi);
}

void mr__engine_count(mr__engine_t *e, mr_remote_counts_t *out) {
  pthread_mutex_lock(&e->lock);
  *out = e->counts;
  pthread_mutex_unlock(&e->lock);
}

/* ---- small requests ---- */

typedef struct plain_body {
  char *text;
  size_t n, room;
} plain_body_t;

static size_t on_plain(char *data, size_t one, size_t n, void *arg) {
  plain_body_t *b = arg;
  if (n >= b->room - b->n) return 0;
  memcpy(b->text + b->n, data, n);
  b->n += n, b->text[b->n] = 0;
  return n;
}

mr_err_t mr__engine_plain(const char *method, const char *url, const char *headers, char *text,
                          size_t n, mr_diag_t *diag) {
  CURL *c = curl_easy_init();
  plain_body_t body = {text, 0, n};
  struct curl_slist *lines = headers ? curl_slist_append(NULL, headers) : NULL;
  long status = 0;
  if (!c) return mr_no_memory(diag, "a request");
  text[0] = 0;
  curl_easy_setopt(c, CURLOPT_URL, url);
  curl_easy_setopt(c, CURLOPT_CUSTOMREQUEST, method);
  curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http");
  curl_easy_setopt(c, CURLOPT_NOPROXY, "*"); /* metadata are this machine's own */
  curl_easy_setopt(c, CURLOPT_HTTPHEADER, lines);
  curl_easy_setopt(c, CURLOPT_TIMEOUT_MS, 2000L);
  curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, on_plain);
  curl_easy_setopt(c, CURLOPT_WRITEDATA, &body);
  CURLcode code = curl_easy_perform(c);
  curl_easy_getinfo(c, CURLINFO_RESPONSE_CODE, &status);
  curl_slist_free_all(lines);
  curl_easy_cleanup(c);
  if (code != CURLE_OK) return mr_fail(diag, MR_ERR_IO, "%s", curl_easy_strerror(code));
  return status == 200 ? MR_OK : mr_fail(diag, MR_ERR_IO, "answer %ld", status);
}
