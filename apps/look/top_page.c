/* Reads a page's server-sent events with libcurl in a thread, and takes the records out of them.
   The thread is there because a transfer blocks; it only appends bytes to a bounded block, and all
   parsing is done by the thread that draws. */
#include "apps/look/top_page.h"

#include <curl/curl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/shown.h"
#include "base/text.h"
#include "base/xio.h"

enum { LINES_AT_ONCE = 4096 };
enum { MOST = 64 << 20 }; /* bytes received and not yet taken */

struct mr_top_page {
  char path[4200], name[4100];
  CURL *curl;
  struct curl_slist *headers; /* with the token */
  pthread_t reader;
  bool reading, caught_up;
  atomic_bool stop;     /* relaxed: asks the reader to end, which is then joined */
  pthread_mutex_t lock; /* guards the fields below */
  char *text;           /* [n] bytes received; [0,at) have been taken */
  size_t n, at, line;   /* line: bytes after the last newline */
  char over[CURL_ERROR_SIZE + 64];
};

static bool is_stopped(const mr_top_page_t *p) {
  return atomic_load_explicit(&p->stop, memory_order_relaxed);
}

static size_t top_page_on_data(char *data, size_t size, size_t n, void *arg) {
  mr_top_page_t *p = arg;
  size_t more = size * n;
  pthread_mutex_lock(&p->lock);
  const char *end = memrchr(data, '\n', more);
  p->line = end ? (size_t)(data + more - end) - 1 : p->line + more;
  char *text =
      p->n + more < MOST && p->line < MR_LINE_MOST ? realloc(p->text, p->n + more + 1) : NULL;
  if (text) {
    memcpy(text + p->n, data, more);
    p->text = text, p->n += more;
    text[p->n] = 0;
  }
  pthread_mutex_unlock(&p->lock);
  return text && !is_stopped(p) ? more : 0;
}

static int top_page_on_progress(void *arg, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d) {
  return is_stopped(arg);
}

static void *read_page(void *arg) {
  mr_top_page_t *p = arg;
  char why[CURL_ERROR_SIZE] = "";
  long status = 0;
  curl_easy_setopt(p->curl, CURLOPT_ERRORBUFFER, why);
  CURLcode e = curl_easy_perform(p->curl);
  curl_easy_getinfo(p->curl, CURLINFO_RESPONSE_CODE, &status);
  pthread_mutex_lock(&p->lock);
  if (status == 401)
    snprintf(p->over, sizeof p->over,
             "the token is missing or wrong; name the run's web.url, or set MILLRACE_TOKEN");
  else if (status >= 400)
    snprintf(p->over, sizeof p->over, "the page answers %ld", status);
  else if (p->line >= MR_LINE_MOST)
    snprintf(p->over, sizeof p->over, "the page sends a line of more than %d MiB",
             MR_LINE_MOST >> 20);
  else
    snprintf(p->over, sizeof p->over, "%s", e == CURLE_OK ? "the run is over" : why);
  pthread_mutex_unlock(&p->lock);
  return NULL;
}

/* Puts the token of "http://host:port/?token=X", else of the environment, into a header, because an
   address may be logged. */
static bool set_token(mr_top_page_t *p, const char *query) {
  const char *token = query ? strstr(query, "token=") : NULL, *set = getenv("MILLRACE_TOKEN");
  char line[256];
  token = token ? token + strlen("token=") : set;
  if (!token || !*token) return true;
  snprintf(line, sizeof line, "Authorization: Bearer %.*s", (int)strcspn(token, "&#\r\n"), token);
  p->headers = curl_slist_append(NULL, line);
  if (p->headers) curl_easy_setopt(p->curl, CURLOPT_HTTPHEADER, p->headers);
  return p->headers != NULL;
}

static mr_err_t top_page_start(mr_top_page_t *p, const char *where, mr_diag_t *diag) {
  const char *query = strchr(where, '?');
  int n = query ? (int)(query - where) : (int)strlen(where);
  bool slash = n > 0 && where[n - 1] == '/';
  snprintf(p->path, sizeof p->path, "%.*s%sevents", n, where, slash ? "" : "/");
  char *shown = mr_shown_url(where); /* without user and password too */
  if (!shown) return mr_no_memory(diag, "the name of a page");
  mr_printable(shown, p->name, sizeof p->name);
  free(shown);
  p->curl = curl_easy_init();
  if (!p->curl || !set_token(p, query)) return mr_no_memory(diag, "the text of %s", p->name);
  curl_easy_setopt(p->curl, CURLOPT_URL, p->path);
  curl_easy_setopt(p->curl, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(p->curl, CURLOPT_WRITEFUNCTION, top_page_on_data);
  curl_easy_setopt(p->curl, CURLOPT_WRITEDATA, p);
  curl_easy_setopt(p->curl, CURLOPT_NOPROGRESS, 0L);
  curl_easy_setopt(p->curl, CURLOPT_XFERINFOFUNCTION, top_page_on_progress);
  curl_easy_setopt(p->curl, CURLOPT_XFERINFODATA, p);
  curl_easy_setopt(p->curl, CURLOPT_NOSIGNAL, 1L);
  p->reading = pthread_create(&p->reader, NULL, read_page, p) == 0;
  return p->reading ? MR_OK : mr_fail(diag, MR_ERR_IO, "no thread to read %s", p->name);
}

mr_err_t mr_top_page_open(const char *where, mr_top_page_t **out, mr_diag_t *diag) {
  mr_top_page_t *p = *out = calloc(1, sizeof *p);
  if (!p) return mr_no_memory(diag, "a watch on %s", where);
  pthread_mutex_init(&p->lock, NULL);
  mr_err_t e = top_page_start(p, where, diag);
  if (e < 0) mr_top_page_close(p), *out = NULL;
  return e;
}

void mr_top_page_close(mr_top_page_t *p) {
  if (!p) return;
  atomic_store_explicit(&p->stop, true, memory_order_relaxed);
  if (p->reading) pthread_join(p->reader, NULL);
  if (p->curl) curl_easy_cleanup(p->curl);
  curl_slist_free_all(p->headers);
  pthread_mutex_destroy(&p->lock);
  free(p->text);
  free(p);
}

const char *mr_top_page_name(const mr_top_page_t *p) { return p->name; }

/* Takes the first complete line of the received text; NULL without one. */
static char *top_page_take_line(mr_top_page_t *p) {
  pthread_mutex_lock(&p->lock);
  bool whole = p->n - p->at > p->line; /* the rest of the last line is looked at once */
  char *end = whole ? memchr(p->text + p->at, '\n', p->n - p->at) : NULL, *line = NULL;
  if (end) {
    line = strndup(p->text + p->at, (size_t)(end - p->text) - p->at);
    p->at = (size_t)(end - p->text) + 1;
  } else if (p->at) {
    memmove(p->text, p->text + p->at, p->n -= p->at);
    p->at = 0;
  }
  pthread_mutex_unlock(&p->lock);
  return line;
}

char *mr_top_page_next(mr_top_page_t *p) {
  int n = 0; /* a page may send lines without a record as fast as they are taken */
  for (char *line; n < LINES_AT_ONCE && (line = top_page_take_line(p)); n++, free(line)) {
    p->caught_up |= !strncmp(line, "event: live", 11);
    if (!strncmp(line, "data: {\"kind\"", 13)) {
      memmove(line, line + 6, strlen(line + 6) + 1);
      return line;
    }
  }
  return NULL;
}

bool mr_top_page_caught_up(const mr_top_page_t *p) { return p->caught_up; }

const char *mr_top_page_over(mr_top_page_t *p) {
  pthread_mutex_lock(&p->lock);
  const char *why = p->over[0] && p->n - p->at <= p->line ? p->over : NULL;
  pthread_mutex_unlock(&p->lock);
  return why;
}
