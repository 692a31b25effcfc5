/* Lists a bucket page by page.  A server that never ends is noticed by tokens or files that come
   again: every token and the first file of every page are compared with those of a page that is
   replaced at each power of two, which finds any cycle. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "loaders/remote/remote_page.h"
#include "loaders/remote/remote_private.h"
#include "loaders/remote/remote_url.h"

enum { PAGE_MAX = 32 << 20, URL_MAX = 32768, EMPTY_MAX = 100, QUIET_S = 3 };

typedef struct listing {
  mr_remote_t *r;
  const char *folder, *prefix; /* prefix: of all keys, "" or with a final slash */
  const char *bucket;          /* its URL */
  char *url;                   /* [URL_MAX] */
  mr_remote_listed_fn *fn;
  void *ctx;
  int64_t n, reported_ns;
  char *first, *kept; /* of this page and of the one that is kept; NULL: it has no file */
} listing_t;

/* One object of a page, named by its key. */
static mr_err_t take_listed(void *ctx, const mr_listed_t *file, mr_diag_t *diag) {
  listing_t *l = ctx;
  size_t n = strlen(l->prefix);
  mr_listed_t below = *file;
  if (strncmp(file->path, l->prefix, n))
    return mr_fail(diag, MR_ERR_DATA, "%s: the listing has the key %.300s, which is not below it",
                   l->folder, file->path);
  below.path += n;
  if (!*below.path) return MR_OK; /* what some tools make to show the folder */
  l->n++;
  if (!l->first && !(l->first = strdup(below.path))) return mr_no_memory(diag, "a listing");
  return l->fn(l->ctx, &below, diag);
}

/* Parameters in the order in which they are signed. */
static mr_err_t page_url(listing_t *l, const char *token, mr_diag_t *diag) {
  size_t at = (size_t)snprintf(l->url, URL_MAX, "%s?", l->bucket);
  bool fits = true;
  if (token) {
    at += (size_t)snprintf(l->url + at, URL_MAX - at, "continuation-token=");
    fits = mr__remote_encode(l->url, URL_MAX - 64, &at, token, false);
    l->url[at++] = '&';
  }
  at += (size_t)snprintf(l->url + at, URL_MAX - at, "list-type=2&prefix=");
  fits = fits && mr__remote_encode(l->url, URL_MAX, &at, l->prefix, false);
  if (fits) return MR_OK;
  return mr_fail(diag, MR_ERR_DATA, "%s: the listing's continuation token is too long", l->folder);
}

static mr_err_t take_page(listing_t *l, mr__page_t *page, const char *token, mr__paged_t *out,
                          mr_diag_t *diag) {
  char none[] = "";
  MR_TRY(page_url(l, token, diag));
  MR_TRY(mr__remote_page(l->r, l->url, l->folder, true, page, diag));
  mr_err_t e = mr__page_parse(page->data ? page->data : none, page->n, take_listed, l, out, diag);
  if (out->wrong) return mr_fail(diag, e, "%s: the listing %s", l->folder, out->wrong);
  if (e < 0 || !out->more || (out->token && *out->token)) return e;
  return mr_fail(diag, MR_ERR_DATA,
                 "%s: the listing says that more follows, and has no continuation token",
                 l->folder);
}

static void report_listing(listing_t *l) {
  int64_t now = mr_now_ns();
  if (now - l->reported_ns < (int64_t)QUIET_S * 1000000000) return;
  l->reported_ns = now;
  mr_notice("%s: listing: %lld files so far", l->folder, (long long)l->n);
}

/* Why a listing that has more pages than this one does not end; NULL: nothing shows that. */
static const char *why_endless(const listing_t *l, const char *token, const char *kept,
                               int64_t empty) {
  if (kept && !strcmp(kept, token)) return "a continuation token comes again";
  if (l->first && l->kept && !strcmp(l->first, l->kept)) return "files come again";
  return empty == EMPTY_MAX ? "its pages are empty" : NULL;
}

/* Forgets the first file of a page, or keeps it to be compared with those of the next ones. */
static void end_page(listing_t *l, bool keep) {
  free(keep ? l->kept : l->first);
  if (keep) l->kept = l->first;
  l->first = NULL;
}

static mr_err_t take_pages(listing_t *l, mr_diag_t *diag) {
  char *token = NULL, *kept = NULL;
  int64_t empty = 0;
  mr_err_t e = MR_OK;
  mr__paged_t now = {.more = true};
  for (uint64_t pages = 0; now.more && e >= 0; pages++) {
    mr__page_t page = {.most = PAGE_MAX};
    int64_t before = l->n;
    bool keep = !(pages & (pages - 1));
    e = take_page(l, &page, token, &now, diag);
    empty = l->n == before ? empty + 1 : 0;
    const char *why = e >= 0 && now.more ? why_endless(l, now.token, kept, empty) : NULL;
    if (why) e = mr_fail(diag, MR_ERR_DATA, "%s: the listing does not end: %s", l->folder, why);
    if (e >= 0 && now.more) {
      free(token);
      token = strdup(now.token);
      if (keep) free(kept), kept = strdup(now.token);
      if (!token || !kept) e = mr_no_memory(diag, "a listing");
    }
    end_page(l, keep);
    free(page.data);
    report_listing(l);
  }
  free(token), free(kept), free(l->kept);
  return e;
}

mr_err_t mr_remote_list(mr_remote_t *r, const char *folder, mr_remote_listed_fn *fn, void *ctx,
                        mr_diag_t *diag) {
  char bucket[MR_PATH_MAX], prefix[MR_PATH_MAX];
  const char *given;
  MR_TRY(mr__remote_bucket(r, folder, bucket, &given, diag));
  size_t n = strlen(given);
  if (n + 2 > sizeof prefix)
    return mr_fail(diag, MR_ERR_CONFIG, "%.300s: the name is too long", folder);
  snprintf(prefix, sizeof prefix, "%s%s", given, n && given[n - 1] != '/' ? "/" : "");
  listing_t l = {.r = r,
                 .folder = folder,
                 .prefix = prefix,
                 .bucket = bucket,
                 .url = malloc(URL_MAX),
                 .fn = fn,
                 .ctx = ctx,
                 .reported_ns = mr_now_ns()};
  mr_err_t e = l.url ? take_pages(&l, diag) : mr_no_memory(diag, "a listing");
  free(l.url);
  return e;
}
