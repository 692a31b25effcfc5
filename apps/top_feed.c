#include "apps/top_feed.h"

#include <curl/curl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MOST = 64 << 20 }; /* bytes that wait to be looked at */

struct mr_top_feed {
  /* a file */
  char path[4200], name[4100];
  FILE *file;
  ino_t inode;
  /* a page: a thread reads it */
  CURL *curl;
  struct curl_slist *headers; /* with the token */
  pthread_t reader;
  bool reading, caught_up;
  atomic_bool stop;
  pthread_mutex_t lock; /* the rest */
  char *text;           /* [n] what came; [0,at) has been taken */
  size_t n, at;
  char over[CURL_ERROR_SIZE + 64];
};

/* ---- a page ---- */

static size_t on_data(char *data, size_t size, size_t n, void *arg) {
  mr_top_feed_t *f = arg;
  size_t more = size * n;
  pthread_mutex_lock(&f->lock);
  char *text = f->n + more < MOST ? realloc(f->text, f->n + more + 1) : NULL;
  if (text) {
    memcpy(text + f->n, data, more);
    f->text = text, f->n += more;
    text[f->n] = 0;
  }
  pthread_mutex_unlock(&f->lock);
  return text && !f->stop ? more : 0;
}

static int on_progress(void *arg, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d) {
  return ((mr_top_feed_t *)arg)->stop;
}

static void *read_page(void *arg) {
  mr_top_feed_t *f = arg;
  char why[CURL_ERROR_SIZE] = "";
  long status = 0;
  curl_easy_setopt(f->curl, CURLOPT_ERRORBUFFER, why);
  CURLcode e = curl_easy_perform(f->curl);
  curl_easy_getinfo(f->curl, CURLINFO_RESPONSE_CODE, &status);
  pthread_mutex_lock(&f->lock);
  if (status == 401)
    snprintf(f->over, sizeof f->over,
             "the token is missing or wrong; name the run's web.url, or set MILLRACE_TOKEN");
  else if (status >= 400)
    snprintf(f->over, sizeof f->over, "the page answers %ld", status);
  else
    snprintf(f->over, sizeof f->over, "%s", e == CURLE_OK ? "the run is over" : why);
  pthread_mutex_unlock(&f->lock);
  return NULL;
}

/* The token of "http://host:port/?token=X", else of the environment, goes into a header: an address
   may be logged. */
static bool set_token(mr_top_feed_t *f, const char *query) {
  const char *token = query ? strstr(query, "token=") : NULL, *set = getenv("MILLRACE_TOKEN");
  char line[256];
  token = token ? token + strlen("token=") : set;
  if (!token || !*token) return true;
  snprintf(line, sizeof line, "Authorization: Bearer %.*s", (int)strcspn(token, "&#\r\n"), token);
  f->headers = curl_slist_append(NULL, line);
  if (f->headers) curl_easy_setopt(f->curl, CURLOPT_HTTPHEADER, f->headers);
  return f->headers != NULL;
}

static mr_err_t open_page(mr_top_feed_t *f, const char *where, mr_diag_t *diag) {
  const char *query = strchr(where, '?');
  int n = query ? (int)(query - where) : (int)strlen(where);
  bool slash = n > 0 && where[n - 1] == '/';
  snprintf(f->name, sizeof f->name, "%.*s", n, where);
  snprintf(f->path, sizeof f->path, "%s%sevents", f->name, slash ? "" : "/");
  f->curl = curl_easy_init();
  if (!f->curl || !set_token(f, query))
    return mr_fail(diag, MR_ERR_NOMEM, "no memory to read %s", f->name);
  curl_easy_setopt(f->curl, CURLOPT_URL, f->path);
  curl_easy_setopt(f->curl, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(f->curl, CURLOPT_WRITEFUNCTION, on_data);
  curl_easy_setopt(f->curl, CURLOPT_WRITEDATA, f);
  curl_easy_setopt(f->curl, CURLOPT_NOPROGRESS, 0L);
  curl_easy_setopt(f->curl, CURLOPT_XFERINFOFUNCTION, on_progress);
  curl_easy_setopt(f->curl, CURLOPT_XFERINFODATA, f);
  curl_easy_setopt(f->curl, CURLOPT_NOSIGNAL, 1L);
  f->reading = pthread_create(&f->reader, NULL, read_page, f) == 0;
  return f->reading ? MR_OK : mr_fail(diag, MR_ERR_IO, "no thread to read %s", f->name);
}

/* The first whole line of what came, without it; NULL without one. */
static char *take_line(mr_top_feed_t *f) {
  pthread_mutex_lock(&f->lock);
  char *end = f->n > f->at ? memchr(f->text + f->at, '\n', f->n - f->at) : NULL, *line = NULL;
  if (end) {
    line = strndup(f->text + f->at, (size_t)(end - f->text) - f->at);
    f->at = (size_t)(end - f->text) + 1;
  } else if (f->at) {
    memmove(f->text, f->text + f->at, f->n -= f->at);
    f->at = 0;
  }
  pthread_mutex_unlock(&f->lock);
  return line;
}

static char *next_event(mr_top_feed_t *f) {
  for (char *line; (line = take_line(f)); free(line)) {
    f->caught_up |= !strncmp(line, "event: live", 11);
    if (!strncmp(line, "data: {\"kind\"", 13)) {
      memmove(line, line + 6, strlen(line + 6) + 1);
      return line;
    }
  }
  return NULL;
}

/* ---- a file ---- */

static mr_err_t open_folder(mr_top_feed_t *f, const char *where, mr_diag_t *diag) {
  struct stat st;
  snprintf(f->name, sizeof f->name, "%s", where);
  snprintf(f->path, sizeof f->path, "%s/metrics.jsonl", where);
  f->file = fopen(f->path, "re");
  if (!f->file)
    return mr_fail(diag, MR_ERR_IO,
                   "%s: holds no metrics.jsonl; name a run's folder, its web.url or the address of "
                   "its page",
                   where);
  f->inode = fstat(fileno(f->file), &st) == 0 ? st.st_ino : 0;
  return MR_OK;
}

/* A resume cuts the file back by putting another in its place. */
static bool replaced(mr_top_feed_t *f) {
  struct stat st;
  if (stat(f->path, &st) < 0 || st.st_ino == f->inode) return false;
  FILE *now = fopen(f->path, "re");
  if (!now) return false;
  fclose(f->file);
  f->file = now, f->inode = st.st_ino;
  return true;
}

static char *next_line(mr_top_feed_t *f, bool *again) {
  char *line = NULL;
  size_t cap = 0;
  long at = ftell(f->file);
  clearerr(f->file);
  ssize_t n = getline(&line, &cap, f->file);
  if (n > 0 && line[n - 1] == '\n') return line;
  free(line);
  fseek(f->file, at, SEEK_SET); /* half a line: the rest is to come */
  *again = replaced(f);
  return NULL;
}

/* ---- either ---- */

static bool is_address(const char *where) {
  return !strncmp(where, "http://", 7) || !strncmp(where, "https://", 8);
}

/* A file that holds an address, as the web stage writes it; false: it is none. */
static bool read_address(const char *path, char *address, size_t n) {
  struct stat st;
  FILE *f = stat(path, &st) == 0 && S_ISREG(st.st_mode) ? fopen(path, "re") : NULL;
  bool read = f && fgets(address, (int)n, f) && is_address(address);
  if (f) fclose(f);
  if (read) address[strcspn(address, "\r\n")] = 0;
  return read;
}

mr_err_t mr_top_feed_open(const char *where, mr_top_feed_t **out, mr_diag_t *diag) {
  char address[1024];
  mr_top_feed_t *f = calloc(1, sizeof *f);
  *out = NULL;
  if (!f) return mr_fail(diag, MR_ERR_NOMEM, "no memory to watch %s", where);
  pthread_mutex_init(&f->lock, NULL);
  mr_err_t e = strlen(where) > 4000 ? mr_fail(diag, MR_ERR_USAGE, "too long a name")
               : is_address(where)  ? open_page(f, where, diag)
               : read_address(where, address, sizeof address) ? open_page(f, address, diag)
                                                              : open_folder(f, where, diag);
  if (e < 0) mr_top_feed_close(f);
  if (e >= 0) *out = f;
  return e;
}

void mr_top_feed_close(mr_top_feed_t *f) {
  if (!f) return;
  f->stop = true;
  if (f->reading) pthread_join(f->reader, NULL);
  if (f->curl) curl_easy_cleanup(f->curl);
  curl_slist_free_all(f->headers);
  if (f->file) fclose(f->file);
  pthread_mutex_destroy(&f->lock);
  free(f->text);
  free(f);
}

const char *mr_top_feed_name(const mr_top_feed_t *f) { return f->name; }

char *mr_top_feed_next(mr_top_feed_t *f, bool *again) {
  *again = false;
  return f->file ? next_line(f, again) : next_event(f);
}

bool mr_top_feed_caught_up(const mr_top_feed_t *f) { return f->file || f->caught_up; }

const char *mr_top_feed_over(mr_top_feed_t *f) {
  pthread_mutex_lock(&f->lock);
  const char *why = f->over[0] && f->at == f->n ? f->over : NULL;
  pthread_mutex_unlock(&f->lock);
  return why;
}
