/* Requests by libcurl's multi interface, on one thread: starts what is due, sends slow requests a
   second time, and uses each answer, retries or fails as remote_judge.c decides. */
#include <curl/curl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/halt.h"
#include "loaders/remote/remote_attempt.h"

enum {
  RECENT = 64,        /* requests from which the usual time is known */
  RECENT_LEAST = 16,  /* as many are needed before one is hedged */
  HEDGE_SHARE = 20,   /* at most one request in this number is sent twice */
  PAUSE_MAX_S = 20,   /* between two tries */
  AFTER_MAX_S = 60,   /* a longer Retry-After is not obeyed */
  CLASSES = 40,       /* of sizes, by powers of two */
  RENEW_S = 300,      /* credentials are renewed this long before they end */
  WATCH_NS = 2000000, /* between two looks at what is in flight */
  FLOOR_RATE = 64,    /* bytes a second, over each `timeout`: less is as good as silence */
  QUIET_S = 10        /* between two notices of waiting */
};

struct mr__engine {
  mr_remote_conf_t conf;
  char region[64];
  CURLM *multi;
  pthread_t thread;
  mr_halt_t halt;       /* of the thread that opened it */
  pthread_mutex_t lock; /* guards the five members below, and `unwanted` of requests */
  mr__request_t *inbox, **inbox_last;
  bool ends, drops; /* drops: some requests are unwanted */
  mr_remote_counts_t counts;
  /* The thread's own. */
  mr__request_t *first, **last; /* to be started, when they are due */
  mr__attempt_t *flying;
  int n_flying;
  int64_t n_done, n_hedged;
  int64_t recent[CLASSES][RECENT]; /* ns of the last requests of a class of sizes */
  int n_recent[CLASSES];
  int64_t usual_ns[CLASSES]; /* 0: unknown */
  int64_t watched_ns, said_ns;
  uint64_t random;
  bool has_credentials;
  mr_credentials_t credentials;
};

/* ---- credentials ---- */

static mr_err_t engine_sign(mr__engine_t *e, mr__attempt_t *a, mr_diag_t *diag) {
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

/* Starts attempt i of q.  A hedge has its own room, since both write at once. */
static mr_err_t start_attempt(mr__engine_t *e, mr__request_t *q, int i) {
  char text[300];
  mr__attempt_t *a = mr__attempt_new(q, i > 0, &e->conf);
  if (!a) return mr_no_memory(&q->diag, "a request");
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
  if (err < 0) return mr__attempt_free(a), err;
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
static void end_flight(mr__engine_t *e, mr__attempt_t *a) {
  mr__attempt_t **at = &e->flying;
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
    mr__attempt_t *a = q->attempt[i];
    if (a) end_flight(e, a), mr__attempt_free(a);
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

static int compare_times(const void *a, const void *b) {
  int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x > y) - (x < y);
}

/* Notes how long a request took, and what is usual now for its size: the median of the last ones; 0
   while too few are known. */
static void note_time(mr__engine_t *e, const mr__request_t *q) {
  int64_t sorted[RECENT];
  int c = class_of(q->size);
  e->recent[c][e->n_recent[c]++ % RECENT] = mr_now_ns() - q->begun_ns;
  int n = e->n_recent[c] < RECENT ? e->n_recent[c] : RECENT;
  if (n < RECENT_LEAST) return;
  memcpy(sorted, e->recent[c], (size_t)n * sizeof *sorted);
  qsort(sorted, (size_t)n, sizeof *sorted, compare_times);
  e->usual_ns[c] = sorted[n / 2];
}

/* ---- answers ---- */

static void use_answer(mr__engine_t *e, mr__attempt_t *a) {
  mr__request_t *q = a->q;
  if (a->own && q->to) {
    if (q->attempt[0]) { /* it writes to the same place: ended first */
      mr__attempt_t *slow = q->attempt[0];
      end_flight(e, slow), mr__attempt_free(slow);
    }
    memcpy(q->to, a->own, (size_t)q->size);
  }
  q->total = a->span.total, q->mtime_ns = a->mtime_ns;
  memcpy(q->etag, a->etag, sizeof q->etag);
  q->diag = (mr_diag_t){0};
  if (!q->page) note_time(e, q);
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

/* A wait that is longer than `timeout` is said, so that a run that stands still says why. */
static void say_waiting_for(mr__engine_t *e, const mr_diag_t *why, int64_t after_s) {
  int64_t now = mr_now_ns();
  if (e->said_ns && now - e->said_ns < (int64_t)QUIET_S * 1000000000) return;
  e->said_ns = now;
  if (after_s > 0)
    mr_notice("%s and asks for a pause of %lld s: the next request follows in %d s", why->text,
              (long long)after_s, (int)(after_s < AFTER_MAX_S ? after_s : AFTER_MAX_S));
  else
    mr_notice("%s; the request is repeated", why->text);
}

/* Repeats that while nothing but waiting happens. */
static void say_still_waiting(mr__engine_t *e) {
  int64_t now = mr_now_ns(), due = INT64_MAX;
  const mr__request_t *first = NULL;
  if (e->flying || !e->said_ns || now - e->said_ns < (int64_t)QUIET_S * 1000000000) return;
  for (const mr__request_t *q = e->first; q; q = q->next)
    if (q->due_ns < due) first = q, due = q->due_ns;
  if (!first || due <= now) return;
  e->said_ns = now;
  mr_notice("%s: still waiting for the server; the next request follows in %lld s",
            first->object->name, (long long)((due - now) / 1000000000));
}

static void end_attempt(mr__engine_t *e, mr__attempt_t *a, CURLcode code) {
  mr__request_t *q = a->q;
  mr_diag_t why = {0};
  curl_off_t after = 0;
  curl_easy_getinfo(a->easy, CURLINFO_RETRY_AFTER, &after);
  q->status = a->status;
  mr__verdict_t v = mr__attempt_judge(a, code, &why);
  if (mr__attempt_expired(a)) e->has_credentials = false; /* read again: they may be new */
  bool waits = (double)after > e->conf.timeout || code == CURLE_OPERATION_TIMEDOUT;
  end_flight(e, a);
  if (v == MR__USE) use_answer(e, a);
  mr__attempt_free(a);
  if (v == MR__USE) {
    finish_request(e, q, MR_OK);
  } else if (v == MR__FAIL) {
    q->diag = why;
    finish_request(e, q, why.code);
  } else if (q->attempt[0] || q->attempt[1]) {
    return; /* the other one may still succeed */
  } else if (q->tries++ >= e->conf.retries) {
    q->diag = (mr_diag_t){0};
    if (q->tries > 1)
      mr_fail(&q->diag, why.code, "%s; %d retries failed too (setting retries)", why.text,
              q->tries - 1);
    else
      q->diag = why;
    finish_request(e, q, q->diag.code);
  } else {
    if (waits && e->conf.retries) say_waiting_for(e, &why, (int64_t)after);
    q->diag = (mr_diag_t){0};
    start_later(e, q, (int64_t)after);
  }
}

/* ---- the thread ---- */

static void cancel_request(mr__engine_t *e, mr__request_t *q) {
  mr_fail(&q->diag, MR_ERR_CANCEL, "%s: the reading was ended", q->object->name);
  finish_request(e, q, MR_ERR_CANCEL);
}

/* With the lock held: notes which requests are to end. */
static void note_unwanted(mr__engine_t *e) {
  for (mr__request_t *q = e->first; q; q = q->next) q->goes = q->unwanted;
  for (mr__attempt_t *a = e->flying; a; a = a->next) a->q->goes = a->q->unwanted;
}

/* Ends those.  A request is its caller's again once it has ended. */
static void drop_unwanted(mr__engine_t *e) {
  for (mr__request_t **at = &e->first; *at;) {
    mr__request_t *q = *at;
    if (!q->goes) {
      at = &q->next;
      continue;
    }
    if (!(*at = q->next)) e->last = at;
    cancel_request(e, q);
  }
  for (mr__attempt_t *a = e->flying; a;) {
    mr__attempt_t *next = a->next;
    if (a->q->goes) cancel_request(e, a->q), next = e->flying; /* it may have had two */
    a = next;
  }
}

/* Moves new requests behind those that wait; false once the engine is closed. */
static bool take_inbox(mr__engine_t *e) {
  pthread_mutex_lock(&e->lock);
  if (e->inbox) *e->last = e->inbox, e->last = e->inbox_last;
  e->inbox = NULL, e->inbox_last = &e->inbox;
  bool ends = e->ends, drops = e->drops;
  if (drops) note_unwanted(e);
  e->drops = false;
  pthread_mutex_unlock(&e->lock);
  if (drops) drop_unwanted(e);
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
    mr_err_t err = q->wanted && !q->wanted(q, q->arg)
                       ? mr_fail(&q->diag, MR_ERR_IO, "%s: was not asked for", q->object->name)
                       : start_attempt(e, q, 0);
    if (err < 0) finish_request(e, q, err);
  }
  return next;
}

/* Whether a request takes much longer than others of its size, and not only because all share a
   link that is full: it has been silent for long, or has got little. */
static bool is_straggler(const mr__engine_t *e, const mr__attempt_t *a, int64_t now) {
  int64_t usual = e->usual_ns[class_of(a->q->size)];
  if (!usual || e->conf.hedge <= 0 || a->q->page) return false;
  return (double)(now - a->q->begun_ns) > e->conf.hedge * (double)usual &&
         (now - a->last_ns > usual / 2 || a->got < a->q->size / 2);
}

/* An answer whose error text does not end is judged by its status. */
static bool has_only_error_text(mr__attempt_t *a) {
  if (a->n_said) a->refused = true;
  return a->refused;
}

/* Whether a transfer has been silent for `timeout`, or has got next to nothing in that time: a byte
   now and then would hold a run for ever.  Bytes of the body alone count.  Writes the reason. */
static bool is_stalled(const mr__engine_t *e, mr__attempt_t *a, int64_t now) {
  double timeout = e->conf.timeout * 1e9;
  if ((double)(now - a->last_ns) > timeout) {
    if (!has_only_error_text(a))
      snprintf(a->reason, sizeof a->reason, "no byte for %.3g s", e->conf.timeout);
    return true;
  }
  if (!a->got || (double)(now - a->floor_ns) < timeout) return false;
  int64_t got = a->got - a->floor_got;
  a->floor_ns = now, a->floor_got = a->got;
  if ((double)got >= FLOOR_RATE * e->conf.timeout) return false;
  snprintf(a->reason, sizeof a->reason, "only %lld bytes in %.3g s", (long long)got,
           e->conf.timeout);
  return true;
}

/* Ends what is silent, and hedges what is slow. */
static void watch_flight(mr__engine_t *e) {
  int64_t now = mr_now_ns();
  if (now - e->watched_ns < WATCH_NS) return;
  e->watched_ns = now;
  for (mr__attempt_t *a = e->flying, *next; a; a = next) {
    next = a->next;
    mr__request_t *q = a->q;
    if (is_stalled(e, a, now)) {
      end_attempt(e, a, CURLE_OPERATION_TIMEDOUT);
      next = e->flying; /* the list may have lost any of its members */
      continue;
    }
    if (q->attempt[1] || !q->attempt[0] || e->n_flying >= e->conf.connections ||
        e->n_hedged * HEDGE_SHARE > e->n_done || !is_straggler(e, a, now))
      continue;
    if (start_attempt(e, q, 1) >= 0) e->n_hedged++;
  }
}

/* Returns how many have ended. */
static int take_answers(mr__engine_t *e) {
  int left, n = 0;
  for (CURLMsg *m; (m = curl_multi_info_read(e->multi, &left));) {
    mr__attempt_t *a = NULL;
    if (m->msg != CURLMSG_DONE) continue;
    CURLcode code = m->data.result;
    curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, (char **)&a);
    end_attempt(e, a, code);
    n++;
  }
  return n;
}

static void cancel_all(mr__engine_t *e) {
  while (e->flying) cancel_request(e, e->flying->q);
  for (mr__request_t *q = e->first, *next; q; q = next) {
    next = q->next;
    cancel_request(e, q);
  }
}

static void *engine_main(void *arg) {
  mr__engine_t *e = arg;
  int running;
  mr_halt_set(e->halt);
  while (take_inbox(e)) {
    int64_t due = start_due(e), now = mr_now_ns();
    int wait_ms = e->flying ? 20 : e->first ? 1000 : 60000;
    if (due != INT64_MAX && (due - now) / 1000000 < wait_ms) wait_ms = (int)((due - now) / 1000000);
    curl_multi_perform(e->multi, &running);
    bool room = take_answers(e) > 0;
    watch_flight(e);
    say_still_waiting(e);
    if (room && e->first) continue; /* what waits for a connection has one now */
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
  e->halt = mr_halt_get();
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
  q->attempt[0] = q->attempt[1] = NULL, q->unwanted = q->goes = false;
  pthread_mutex_lock(&e->lock);
  bool first = !e->inbox;
  *e->inbox_last = q, e->inbox_last = &q->next;
  pthread_mutex_unlock(&e->lock);
  if (first) curl_multi_wakeup(e->multi);
}

void mr__engine_drop(mr__engine_t *e, mr__request_t *q, int n) {
  pthread_mutex_lock(&e->lock);
  for (int i = 0; i < n; i++) q[i].unwanted = true;
  e->drops = true;
  pthread_mutex_unlock(&e->lock);
  curl_multi_wakeup(e->multi);
}

void mr__engine_count(mr__engine_t *e, mr_remote_counts_t *out) {
  pthread_mutex_lock(&e->lock);
  *out = e->counts;
  pthread_mutex_unlock(&e->lock);
}
