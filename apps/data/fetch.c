/* Downloads with libcurl into a part file, and checks MD5 with libcrypto.  The part file is locked
   against a second download, an interrupted one resumes at its end, and more bytes than the caller
   allows end the transfer, whatever length the server has announced. */
#include "apps/data/fetch.h"

#include <curl/curl.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <openssl/evp.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/xio.h"
#include "loaders/remote/remote_attempt.h"

enum { TRIES = 5, BAR = 30 };

typedef struct fetch {
  const char *url;
  char part[MR_PATH_MAX];
  int fd;
  int64_t have, max; /* bytes in the part file; bytes allowed */
  int64_t from;      /* offset where this attempt began */
  mr_diag_t *diag;
  mr_err_t failed; /* why the write callback gave up */
  mr_redirect_t redirect;
  bool terminal;
  int shown; /* percent last shown, -1: none */
} fetch_t;

static size_t fetch_on_data(char *data, size_t one, size_t n, void *arg) {
  fetch_t *f = arg;
  if (f->have + (int64_t)n > f->max) {
    f->failed = mr_fail(f->diag, MR_ERR_DATA, "%s: more than the %" PRId64 " bytes expected",
                        f->url, f->max);
    return 0;
  }
  f->failed = mr_write_all(f->fd, data, n, f->part, f->diag);
  if (f->failed < 0) return 0;
  f->have += (int64_t)n;
  return n;
}

/* Shows a bar on a terminal, a line every ten percent elsewhere. */
static int fetch_on_progress(void *arg, curl_off_t total, curl_off_t now, curl_off_t ut,
                             curl_off_t un) {
  fetch_t *f = arg;
  if (total <= 0) return 0;
  int64_t all = f->from + total;
  int percent = (int)((f->from + now) * 100 / all);
  if (percent == f->shown || (!f->terminal && percent / 10 == f->shown / 10 && f->shown >= 0))
    return 0;
  f->shown = percent;
  double mb = (double)(f->from + now) / 1e6, all_mb = (double)all / 1e6;
  if (f->terminal) {
    int full = percent * BAR / 100;
    fprintf(stderr, "\r[%.*s%.*s] %3d%%  %.1f/%.1f MB ", full, "##############################",
            BAR - full, "..............................", percent, mb, all_mb);
  } else {
    fprintf(stderr, "%3d%%  %.1f/%.1f MB\n", percent, mb, all_mb);
  }
  return 0;
}

static void fetch_set_options(CURL *c, fetch_t *f, char *reason) {
  curl_easy_setopt(c, CURLOPT_URL, f->url);
  mr__remote_schemes(c, f->url);
  mr__remote_stay(c, &f->redirect, false);
  curl_easy_setopt(c, CURLOPT_FOLLOWLOCATION, 1L);
  curl_easy_setopt(c, CURLOPT_MAXREDIRS, 5L);
  curl_easy_setopt(c, CURLOPT_FAILONERROR, 1L);
  curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT, 20L);
  curl_easy_setopt(c, CURLOPT_LOW_SPEED_LIMIT, 1000L);
  curl_easy_setopt(c, CURLOPT_LOW_SPEED_TIME, 30L);
  curl_easy_setopt(c, CURLOPT_USERAGENT, "millrace");
  curl_easy_setopt(c, CURLOPT_ERRORBUFFER, reason);
  curl_easy_setopt(c, CURLOPT_RESUME_FROM_LARGE, (curl_off_t)f->have);
  curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, fetch_on_data);
  curl_easy_setopt(c, CURLOPT_WRITEDATA, f);
  curl_easy_setopt(c, CURLOPT_NOPROGRESS, 0L);
  curl_easy_setopt(c, CURLOPT_XFERINFOFUNCTION, fetch_on_progress);
  curl_easy_setopt(c, CURLOPT_XFERINFODATA, f);
  mr__remote_certificates(c);
}

static mr_err_t start_over(fetch_t *f) {
  f->have = 0;
  if (ftruncate(f->fd, 0) < 0 || lseek(f->fd, 0, SEEK_SET) < 0)
    return mr_fail(f->diag, MR_ERR_IO, "%s: cannot be emptied: %s", f->part, strerror(errno));
  return MR_OK;
}

static bool worth_another_try(CURLcode code) {
  return code == CURLE_PARTIAL_FILE || code == CURLE_RECV_ERROR || code == CURLE_GOT_NOTHING ||
         code == CURLE_OPERATION_TIMEDOUT || code == CURLE_SEND_ERROR;
}

/* One attempt.  MR_OK; *complete false: it was interrupted, or the part file cannot be resumed. */
static mr_err_t try_once(fetch_t *f, bool *complete) {
  char reason[CURL_ERROR_SIZE] = "";
  CURL *c = curl_easy_init();
  if (!c) return mr_no_memory(f->diag, "a download");
  f->from = f->have;
  f->shown = -1;
  fetch_set_options(c, f, reason);
  CURLcode code = curl_easy_perform(c);
  long status = 0;
  curl_easy_getinfo(c, CURLINFO_RESPONSE_CODE, &status);
  curl_easy_cleanup(c);
  if (f->terminal && f->shown >= 0) fputc('\n', stderr);
  if (f->failed < 0) return f->failed;
  *complete = code == CURLE_OK;
  if (*complete) return MR_OK;
  if (f->from > 0 && (code == CURLE_RANGE_ERROR || status == 416)) {
    return start_over(f); /* the server has no ranges, or the part is of another file */
  }
  if (f->redirect.astray)
    return mr_fail(f->diag, MR_ERR_IO, "%s: %s: give the address itself if that is meant", f->url,
                   mr__remote_astray);
  if (worth_another_try(code) && f->have > f->from) return MR_OK;
  return mr_fail(f->diag, MR_ERR_IO, "%s: %s%s", f->url, mr__remote_reason(code, reason),
                 f->have > 0 ? "; the next call resumes where this one stopped" : "");
}

static mr_err_t download_archive(fetch_t *f) {
  for (int i = 0; i < TRIES; i++) {
    bool complete = false;
    mr_err_t e = try_once(f, &complete);
    if (e < 0 || complete) return e;
    if (f->have > 0)
      fprintf(stderr, "the connection was cut after %" PRId64 " bytes; resuming\n", f->have);
  }
  return mr_fail(f->diag, MR_ERR_IO,
                 "%s: interrupted %d times; the next call resumes after %" PRId64 " bytes", f->url,
                 TRIES, f->have);
}

static mr_err_t open_part(fetch_t *f) {
  f->fd = open(f->part, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666);
  if (f->fd < 0)
    return mr_fail(f->diag, MR_ERR_IO, "%s: cannot write: %s", f->part, strerror(errno));
  if (flock(f->fd, LOCK_EX | LOCK_NB) < 0)
    return mr_fail(f->diag, MR_ERR_IO, "%s: another millrace is fetching it", f->part);
  f->have = lseek(f->fd, 0, SEEK_END);
  return f->have < 0 || f->have > f->max ? start_over(f) : MR_OK;
}

/* Downloads and verifies the file, unless an earlier call has already received all of it. */
static mr_err_t fetch_complete(fetch_t *f, const char *md5) {
  if (f->have > 0 && mr_check_md5(f->part, md5, NULL) >= 0) return MR_OK;
  MR_TRY(download_archive(f));
  if (fsync(f->fd) < 0)
    return mr_fail(f->diag, MR_ERR_IO, "%s: cannot write: %s", f->part, strerror(errno));
  mr_err_t e = mr_check_md5(f->part, md5, f->diag);
  if (e == MR_ERR_DATA) unlink(f->part);
  return e;
}

mr_err_t mr_fetch_file(const char *url, const char *path, const char *md5, int64_t max,
                       mr_diag_t *diag) {
  fetch_t f = {.url = url, .fd = -1, .max = max, .diag = diag, .terminal = isatty(STDERR_FILENO)};
  if (strlen(path) > sizeof f.part - 8)
    return mr_fail(diag, MR_ERR_IO, "%s: the path is too long", path);
  snprintf(f.part, sizeof f.part, "%s.part", path);
  if (curl_global_init(CURL_GLOBAL_DEFAULT))
    return mr_fail(diag, MR_ERR_UNAVAILABLE, "cannot start libcurl");
  mr_err_t e = open_part(&f);
  if (e >= 0) e = fetch_complete(&f, md5);
  if (e >= 0 && rename(f.part, path) < 0)
    e = mr_fail(diag, MR_ERR_IO, "%s: cannot rename to this name: %s", path, strerror(errno));
  if (f.fd >= 0) close(f.fd);
  curl_global_cleanup();
  return e >= 0 ? mr_sync_parent(path, diag) : e;
}

static mr_err_t digest_file(FILE *in, const char *path, EVP_MD_CTX *ctx, mr_diag_t *diag) {
  static const size_t chunk = 1 << 16;
  unsigned char bytes[chunk];
  size_t n;
  if (!EVP_DigestInit_ex(ctx, EVP_md5(), NULL))
    return mr_fail(diag, MR_ERR_UNAVAILABLE, "this libcrypto has no MD5");
  while ((n = fread(bytes, 1, chunk, in)) > 0) EVP_DigestUpdate(ctx, bytes, n);
  return ferror(in) ? mr_fail(diag, MR_ERR_IO, "%s: cannot read", path) : MR_OK;
}

mr_err_t mr_check_md5(const char *path, const char *md5, mr_diag_t *diag) {
  FILE *in = fopen(path, "re");
  if (!in) return mr_fail(diag, MR_ERR_IO, "%s: cannot open: %s", path, strerror(errno));
  EVP_MD_CTX *ctx = EVP_MD_CTX_new();
  mr_err_t e = ctx ? digest_file(in, path, ctx, diag) : mr_no_memory(diag, "an MD5 sum");
  fclose(in);
  unsigned char sum[EVP_MAX_MD_SIZE];
  char hex[33] = "";
  unsigned n = 0;
  if (e >= 0) EVP_DigestFinal_ex(ctx, sum, &n);
  EVP_MD_CTX_free(ctx);
  for (unsigned i = 0; i < n && i < 16; i++) snprintf(hex + 2 * i, 3, "%02x", sum[i]);
  if (e >= 0 && strcmp(hex, md5))
    e = mr_fail(diag, MR_ERR_DATA, "%s: md5 %s, expected %s", path, hex, md5);
  return e;
}
