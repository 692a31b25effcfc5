/* Prepares transfers, and takes down what the server says: headers as they come, and the bytes of
   an answer that has the right status.  After a redirect another answer begins, and nothing of the
   one before is kept. */
#include "loaders/remote/remote_attempt.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"

static void reset_answer(mr__attempt_t *a) {
  a->span = (mr_remote_span_t){-1, -1, -1};
  a->sum = (mr_remote_sum_t){0};
  a->has_span = a->encoded = a->refused = a->wrong_etag = false,
  a->etag[0] = a->region[0] = a->proof[0] = 0, a->mtime_ns = 0, a->said[0] = 0, a->n_said = 0;
}

static void copy_header_value(char *out, size_t room, const char *from, size_t n) {
  if (n >= room) n = 0; /* too long to be compared: as if there were none */
  memcpy(out, from, n), out[n] = 0;
}

static size_t on_header(char *line, size_t one, size_t n, void *arg) {
  mr__attempt_t *a = arg;
  const char *v;
  size_t k;
  if (n > 5 && !strncmp(line, "HTTP/", 5)) { /* after a redirect another answer begins */
    const char *space = memchr(line, ' ', n);
    reset_answer(a);
    a->status = space ? strtol(space, NULL, 10) : 0;
    return n;
  }
  if ((v = mr__remote_value(line, n, "content-range", &k)))
    a->has_span = mr__remote_span(v, k, &a->span);
  else if ((v = mr__remote_value(line, n, "etag", &k)))
    a->wrong_etag = !mr__remote_is_etag(v, k), copy_header_value(a->etag, sizeof a->etag, v, k);
  else if ((v = mr__remote_value(line, n, "x-amz-bucket-region", &k)))
    copy_header_value(a->region, sizeof a->region, v, k);
  else if ((v = mr__remote_value(line, n, "millrace-proof", &k)))
    copy_header_value(a->proof, sizeof a->proof, v, k);
  else if ((v = mr__remote_value(line, n, "content-encoding", &k)))
    a->encoded = !(k == 8 && !strncasecmp(v, "identity", k));
  else if ((v = mr__remote_value(line, n, "last-modified", &k))) {
    char date[64];
    copy_header_value(date, sizeof date, v, k);
    a->mtime_ns = mr__time_ns(curl_getdate(date, NULL));
  } else {
    mr__remote_sum_line(line, n, &a->sum);
  }
  return n;
}

/* Appends to a page.  Returns n; 0, which ends the transfer, if the page becomes too long or
   without memory. */
static size_t on_page(mr__attempt_t *a, const char *data, size_t n) {
  mr__page_t *p = a->q->page;
  if (n > p->most - p->n) return a->too_long = true, 0;
  if (p->cap - p->n <= n) {
    size_t cap = 2 * p->cap + n + 65536;
    char *more = realloc(p->data, cap);
    if (!more) return 0; /* as a broken connection */
    p->data = more, p->cap = cap;
  }
  memcpy(p->data + p->n, data, n);
  p->n += n, p->data[p->n] = 0;
  a->got += (int64_t)n;
  return n;
}

/* An error's text: its beginning is kept, and one without end is cut. */
static size_t on_error_text(mr__attempt_t *a, const char *data, size_t n) {
  size_t at = strlen(a->said), room = sizeof a->said - 1 - at, k = n < room ? n : room;
  const char *nul = memchr(data, 0, k);
  if (nul) k = (size_t)(nul - data);
  memcpy(a->said + at, data, k), a->said[at + k] = 0;
  a->n_said += (int64_t)n;
  a->refused = a->n_said > MR__SAID_MOST;
  return a->refused ? 0 : n;
}

static size_t on_body(char *data, size_t one, size_t n, void *arg) {
  mr__attempt_t *a = arg;
  if (a->status == 200 && !a->q->page) return a->refused = true, 0; /* a whole object */
  if (a->status != (a->q->page ? 200 : 206)) return on_error_text(a, data, n);
  a->last_ns = mr_now_ns();
  if (!a->got) a->floor_ns = a->last_ns;
  if (a->q->page) return on_page(a, data, n);
  if ((int64_t)n > a->q->size - a->got) {
    a->too_long = true;
    return 0;
  }
  if (a->to) memcpy(a->to + a->got, data, n);
  a->got += (int64_t)n;
  return n;
}

/* Debian's libcurl names its own file of certificates to OpenSSL, which then reads no variable. */
void mr__remote_certificates(CURL *c) {
  const char *file = getenv("SSL_CERT_FILE"), *folder = getenv("SSL_CERT_DIR");
  if (file && *file) curl_easy_setopt(c, CURLOPT_CAINFO, file);
  if (folder && *folder) curl_easy_setopt(c, CURLOPT_CAPATH, folder);
}

void mr__remote_schemes(CURL *c, const char *url) {
  bool secure = !strncasecmp(url, "https:", 6);
  curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(c, CURLOPT_REDIR_PROTOCOLS_STR, secure ? "https" : "http,https");
}

const char *mr__remote_reason(CURLcode code, const char *reason) {
  if (code == CURLE_UNSUPPORTED_PROTOCOL)
    return "the server leads from https to http, where bytes can be read and changed on their way: "
           "give the http address itself if that is wanted";
  return *reason ? reason : curl_easy_strerror(code);
}

mr_proof_about_t mr__attempt_about(const mr__request_t *q) {
  const mr_object_t *o = q->object;
  return (mr_proof_about_t){o->token, o->peer, o->url + strlen("http://") + strlen(o->peer), q->at,
                            q->size};
}

bool mr__remote_is_near(const char *ip) {
  if (!strncasecmp(ip, "::ffff:", 7)) ip += 7; /* an IPv4 address */
  return !strncmp(ip, "127.", 4) || !strncmp(ip, "169.254.", 8) || !strncmp(ip, "0.", 2) ||
         !strcmp(ip, "::1") || !strcmp(ip, "::") || !strncasecmp(ip, "fd00:ec2:", 9) ||
         (!strncasecmp(ip, "fe", 2) && strchr("89abAB", ip[2]) && ip[2]);
}

const char mr__remote_astray[] =
    "the server redirects to an address of this machine or of its link, where it could read what "
    "is not its own";

/* Before each request of a transfer, with the address that it is connected to. */
static int on_connected(void *arg, char *ip, char *local, int port, int local_port) {
  mr_redirect_t *r = arg;
  long redirects = 0;
  bool near = mr__remote_is_near(ip);
  curl_easy_getinfo(r->easy, CURLINFO_REDIRECT_COUNT, &redirects);
  if (!redirects) r->began_near = near;
  r->astray = redirects && near && !r->began_near && !r->may_come_near;
  return r->astray ? CURL_PREREQFUNC_ABORT : CURL_PREREQFUNC_OK;
}

void mr__remote_stay(CURL *c, mr_redirect_t *r, bool may_come_near) {
  *r = (mr_redirect_t){.easy = c, .may_come_near = may_come_near};
  curl_easy_setopt(c, CURLOPT_PREREQFUNCTION, on_connected);
  curl_easy_setopt(c, CURLOPT_PREREQDATA, r);
}

static void set_options(mr__attempt_t *a, const mr_remote_conf_t *conf) {
  const mr__request_t *q = a->q;
  CURL *c = a->easy;
  char range[64];
  snprintf(range, sizeof range, "%" PRId64 "-%" PRId64, q->at, q->at + q->size - 1);
  curl_easy_setopt(c, CURLOPT_URL, q->object->url);
  curl_easy_setopt(c, CURLOPT_PATH_AS_IS, 1L); /* keys may hold ".." and "//" */
  mr__remote_schemes(c, q->object->url);
  curl_easy_setopt(c, CURLOPT_FOLLOWLOCATION, q->object->s3 ? 0L : 1L);
  curl_easy_setopt(c, CURLOPT_MAXREDIRS, 5L);
  curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(c, CURLOPT_QUICK_EXIT, 1L); /* a resolver that does not answer is left behind */
  curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT_MS, (long)(conf->timeout * 1000));
  mr__remote_stay(c, &a->redirect, conf->local_redirects);
  curl_easy_setopt(c, CURLOPT_BUFFERSIZE, 256L * 1024);
  curl_easy_setopt(c, CURLOPT_USERAGENT, "millrace");
  curl_easy_setopt(c, CURLOPT_ERRORBUFFER, a->reason);
  if (q->page)
    q->page->n = 0;
  else
    curl_easy_setopt(c, CURLOPT_RANGE, range);
  curl_easy_setopt(c, CURLOPT_HEADERFUNCTION, on_header);
  curl_easy_setopt(c, CURLOPT_HEADERDATA, a);
  curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, on_body);
  curl_easy_setopt(c, CURLOPT_WRITEDATA, a);
  curl_easy_setopt(c, CURLOPT_PRIVATE, a);
  mr__remote_certificates(c);
  if (q->object->token) {
    mr_proof_about_t about = mr__attempt_about(q);
    char header[32 + MR_PROOF_TEXT];
    curl_easy_setopt(c, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(c, CURLOPT_NOPROXY, "*");
    if (!mr__proof_ask(&about, a->asked)) return; /* the peer refuses, and the server is asked */
    snprintf(header, sizeof header, "Authorization: Millrace %s", a->asked);
    a->headers = curl_slist_append(a->headers, header);
  }
}

void mr__attempt_free(mr__attempt_t *a) {
  curl_slist_free_all(a->headers);
  curl_easy_cleanup(a->easy);
  free(a->own), free(a);
}

mr__attempt_t *mr__attempt_new(mr__request_t *q, bool own, const mr_remote_conf_t *conf) {
  mr__attempt_t *a = calloc(1, sizeof *a);
  own = own && q->to;
  if (a) a->easy = curl_easy_init();
  if (a && a->easy && own) a->own = malloc((size_t)q->size);
  if (!a || !a->easy || (own && !a->own)) {
    if (a) mr__attempt_free(a);
    return NULL;
  }
  a->q = q, a->to = own ? a->own : q->to;
  reset_answer(a);
  set_options(a, conf);
  return a;
}
