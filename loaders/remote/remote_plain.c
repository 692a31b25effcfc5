/* Small requests that are made one at a time, for the credentials in this machine's metadata and
   for whether a peer is there.  They use no proxy and end after two seconds, since a machine
   outside a cloud has no such server, and a peer may not be there yet. */
#include <curl/curl.h>
#include <string.h>

#include "base/halt.h"
#include "loaders/remote/remote_engine.h"

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

static int ends_early(void *arg, curl_off_t n, curl_off_t have, curl_off_t m, curl_off_t sent) {
  return mr_halted();
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
  curl_easy_setopt(c, CURLOPT_NOPROXY, "*"); /* metadata and peers are near */
  curl_easy_setopt(c, CURLOPT_HTTPHEADER, lines);
  curl_easy_setopt(c, CURLOPT_TIMEOUT_MS, 2000L);
  curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(c, CURLOPT_QUICK_EXIT, 1L); /* a resolver that does not answer is left behind */
  curl_easy_setopt(c, CURLOPT_NOPROGRESS, 0L);
  curl_easy_setopt(c, CURLOPT_XFERINFOFUNCTION, ends_early);
  curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, on_plain);
  curl_easy_setopt(c, CURLOPT_WRITEDATA, &body);
  CURLcode code = curl_easy_perform(c);
  curl_easy_getinfo(c, CURLINFO_RESPONSE_CODE, &status);
  curl_slist_free_all(lines);
  curl_easy_cleanup(c);
  if (code != CURLE_OK) return mr_fail(diag, MR_ERR_IO, "%s", curl_easy_strerror(code));
  return status == 200 ? MR_OK : mr_fail(diag, MR_ERR_IO, "answer %ld", status);
}
