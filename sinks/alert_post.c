/* One alert as one POST request of libcurl's easy interface.  It blocks for at most its time limit,
   and half a second once the run is to end, in the thread of stage alert, which reads a lossy port,
   so training never waits for it.  The answer's body is ignored: a server that accepted the alert
   has nothing more to say. */
#include "sinks/alert_post.h"

#include <cjson/cJSON.h>
#include <curl/curl.h>

#include "base/clock.h"
#include "base/halt.h"

enum { MOST_S = 10 };
#define AT_END_NS INT64_C(500000000) /* an alert about a run that ends is still sent */

static size_t ignore_answer(char *data, size_t size, size_t n, void *arg) { return size * n; }

static int alert_ends_early(void *arg, curl_off_t n, curl_off_t have, curl_off_t m,
                            curl_off_t sent) {
  int64_t *begun = arg;
  return mr_halted() && mr_now_ns() - *begun > AT_END_NS;
}

static char *body_of(const char *kind, int64_t step, const char *text) {
  cJSON *o = cJSON_CreateObject();
  cJSON_AddStringToObject(o, "alert", kind);
  cJSON_AddNumberToObject(o, "step", (double)step);
  cJSON_AddStringToObject(o, "text", text);
  char *body = cJSON_PrintUnformatted(o);
  cJSON_Delete(o);
  return body;
}

mr_err_t mr_alert_post(const char *address, const char *kind, int64_t step, const char *text,
                       mr_diag_t *diag) {
  CURL *c = curl_easy_init();
  char *body = body_of(kind, step, text);
  struct curl_slist *head = curl_slist_append(NULL, "Content-Type: application/json");
  CURLcode code = CURLE_OUT_OF_MEMORY;
  int64_t begun = mr_now_ns();
  if (c && body && head) {
    curl_easy_setopt(c, CURLOPT_URL, address);
    curl_easy_setopt(c, CURLOPT_POSTFIELDS, body);
    curl_easy_setopt(c, CURLOPT_HTTPHEADER, head);
    curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(c, CURLOPT_TIMEOUT, (long)MOST_S);
    curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(c, CURLOPT_QUICK_EXIT,
                     1L); /* a resolver that does not answer is left behind */
    curl_easy_setopt(c, CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(c, CURLOPT_XFERINFOFUNCTION, alert_ends_early);
    curl_easy_setopt(c, CURLOPT_XFERINFODATA, &begun);
    curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, ignore_answer);
    code = curl_easy_perform(c);
  }
  curl_slist_free_all(head);
  cJSON_free(body);
  curl_easy_cleanup(c);
  if (code == CURLE_OK) return MR_OK;
  return mr_fail(diag, code == CURLE_OUT_OF_MEMORY ? MR_ERR_NOMEM : MR_ERR_IO,
                 "webhook: not reached: %s", curl_easy_strerror(code));
}
