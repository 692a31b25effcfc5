/* Parses a page of a listing: the little of XML that ListObjectsV2 answers with, in place.  Text is
   taken of the elements that are of use, by where they lie; others are passed over.  Entities that
   a document would define itself are refused, and with them documents that grow when they are read.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "loaders/remote/remote_answer.h"
#include "loaders/remote/remote_page.h"

enum { DEPTH_MAX = 8 };

typedef struct element {
  const char *name; /* [n] without a prefix */
  size_t n;
} element_t;

typedef struct page {
  char *at, *end;
  element_t open[DEPTH_MAX];
  int depth;
  bool closed; /* the outermost element is over */
  char *text;  /* where the text of the innermost element begins; NULL: it has elements */
  bool says_more, more;
  const char *token;
  mr_listed_t file;
  bool has_size;
  mr_remote_listed_fn *fn;
  void *ctx;
  const char *wrong;
  mr_diag_t *diag;
} page_t;

static mr_err_t page_wrong(page_t *p, const char *what) {
  p->wrong = what;
  return MR_ERR_DATA;
}

static bool page_is(const page_t *p, int level, const char *name) {
  const element_t *e = &p->open[level];
  return level < p->depth && e->n == strlen(name) && !memcmp(e->name, name, e->n);
}

/* ---- text ---- */

/* Writes a code point as UTF-8; 0 for one that no text holds. */
static size_t put_code(char *to, unsigned long c) {
  if (!c || c > 0x10FFFF || (c >= 0xD800 && c < 0xE000)) return 0;
  if (c < 0x80) return *to = (char)c, 1;
  int n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
  for (int i = n - 1; i > 0; i--, c >>= 6) to[i] = (char)(0x80 | (c & 0x3F));
  to[0] = (char)((n == 2 ? 0xC0 : n == 3 ? 0xE0 : 0xF0) | c);
  return (size_t)n;
}

/* Decodes the entity at `from`, which begins with "&" and ends before `end`; returns its length,
   and that of what it stands for, which is no longer, in *made.  0 if it is none. */
static size_t take_entity(const char *from, const char *end, char *to, size_t *made) {
  static const struct {
    const char *name;
    char is;
  } known[] = {{"&amp;", '&'}, {"&lt;", '<'}, {"&gt;", '>'}, {"&quot;", '"'}, {"&apos;", '\''}};
  for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
    size_t n = strlen(known[i].name);
    if ((size_t)(end - from) >= n && !memcmp(from, known[i].name, n))
      return *to = known[i].is, *made = 1, n;
  }
  if (end - from < 4 || from[1] != '#') return 0;
  bool hex = from[2] == 'x';
  const char *digits = from + 2 + hex;
  size_t n = strspn(digits, hex ? "0123456789abcdefABCDEF" : "0123456789");
  if (!n || n > 7 || digits + n >= end || digits[n] != ';') return 0;
  *made = put_code(to, strtoul(digits, NULL, hex ? 16 : 10));
  return *made ? (size_t)(digits + n + 1 - from) : 0;
}

/* Decodes text[0,n) in place and ends it with a NUL, where a tag begins.  False if it is malformed.
 */
static bool decode_text(char *text, size_t n) {
  char *to = text;
  for (const char *from = text, *end = text + n; from < end;) {
    size_t made = 1, took = 1;
    if (!*from) return false;
    if (*from == '&')
      took = take_entity(from, end, to, &made);
    else
      *to = *from;
    if (!took) return false;
    from += took, to += made;
  }
  *to = 0;
  return true;
}

/* ---- values ---- */

static bool page_number(const char *text, int64_t *out) {
  char *end;
  size_t n = strlen(text);
  if (!n || n > 18 || strspn(text, "0123456789") != n) return false;
  *out = strtoll(text, &end, 10);
  return true;
}

/* Takes the text of the innermost element, which ends here. */
static mr_err_t page_take_text(page_t *p, char *text, size_t n) {
  bool row = p->depth == 3 && page_is(p, 1, "Contents");
  bool key = row && page_is(p, 2, "Key"), size = row && page_is(p, 2, "Size"),
       etag = row && page_is(p, 2, "ETag"), time = row && page_is(p, 2, "LastModified");
  bool more = p->depth == 2 && page_is(p, 1, "IsTruncated"),
       token = p->depth == 2 && page_is(p, 1, "NextContinuationToken");
  if (!key && !size && !etag && !time && !more && !token) return MR_OK;
  if (!decode_text(text, n)) return page_wrong(p, "holds text that is not valid");
  if (key) p->file.path = text;
  if (etag && !mr__remote_is_etag(text, strlen(text)))
    return page_wrong(p, "holds an ETag with a control character");
  if (etag) p->file.etag = text;
  if (token) p->token = text;
  if (more) p->says_more = true, p->more = !strcmp(text, "true");
  if (size && !page_number(text, &p->file.size)) return page_wrong(p, "holds a size that is none");
  if (size) p->has_size = true;
  struct tm t = {0};
  if (time && strptime(text, "%Y-%m-%dT%H:%M:%S", &t)) p->file.mtime_ns = mr__time_ns(timegm(&t));
  return MR_OK;
}

/* ---- tags ---- */

static size_t page_name(const char *at, const char *end) {
  size_t n = 0;
  while (at + n < end && !strchr(" \t\r\n/>", at[n]) && at[n]) n++;
  return n;
}

static element_t local_name(const char *at, size_t n) {
  const char *colon = memchr(at, ':', n);
  size_t prefix = colon ? (size_t)(colon + 1 - at) : 0;
  return (element_t){at + prefix, n - prefix};
}

static mr_err_t close_element(page_t *p, char *before) {
  mr_err_t e = p->text ? page_take_text(p, p->text, (size_t)(before - p->text)) : MR_OK;
  bool row = p->depth == 2 && page_is(p, 1, "Contents");
  p->depth--, p->text = NULL, p->closed = !p->depth;
  if (e < 0 || !row) return e;
  mr_listed_t file = p->file;
  bool whole = file.path && *file.path && p->has_size && (*file.etag || file.mtime_ns);
  p->file = (mr_listed_t){.etag = ""}, p->has_size = false;
  if (!whole) return page_wrong(p, "lists an object without its name, size or ETag");
  return p->fn(p->ctx, &file, p->diag);
}

static mr_err_t open_element(page_t *p, const char *name, size_t n, bool empty, char *behind) {
  if (p->closed || !n) return page_wrong(p, "is not an answer of ListObjectsV2");
  if (p->depth == DEPTH_MAX) return page_wrong(p, "is nested too deeply");
  p->open[p->depth++] = local_name(name, n);
  p->text = empty ? NULL : behind; /* the text of an empty element would lie in the next tag */
  if (!page_is(p, 0, "ListBucketResult")) return page_wrong(p, "is not an answer of ListObjectsV2");
  return empty ? close_element(p, behind) : MR_OK;
}

/* The ">" that ends a tag, behind values in quotes; NULL without one. */
static char *tag_end(char *at, char *end) {
  for (char quote = 0; at < end; at++) {
    if (quote ? *at == quote : *at == '>') {
      if (!quote) return at;
      quote = 0;
    } else if (!quote && (*at == '"' || *at == '\'')) {
      quote = *at;
    }
  }
  return NULL;
}

/* Takes what begins with the "<" at p->at. */
static mr_err_t take_tag(page_t *p) {
  char *tag = p->at, *stop = NULL;
  size_t left = (size_t)(p->end - tag);
  if (left >= 2 && tag[1] == '!') {
    stop = left >= 4 && !memcmp(tag, "<!--", 4) ? memmem(tag + 4, left - 4, "-->", 3) : NULL;
    if (!stop) return page_wrong(p, "is not an answer of ListObjectsV2");
    p->at = stop + 3, p->text = NULL;
    return MR_OK;
  }
  stop = tag_end(tag, p->end);
  if (!stop) return page_wrong(p, "ends early");
  p->at = stop + 1;
  if (tag[1] == '?') return MR_OK;
  if (tag[1] != '/')
    return open_element(p, tag + 1, page_name(tag + 1, stop), stop[-1] == '/', p->at);
  element_t e = local_name(tag + 2, page_name(tag + 2, stop));
  const element_t *own = p->depth ? &p->open[p->depth - 1] : NULL;
  if (!own || e.n != own->n || memcmp(e.name, own->name, e.n))
    return page_wrong(p, "closes another element than the last one");
  return close_element(p, tag);
}

static mr_err_t take_tags(page_t *p) {
  char *text = p->at;
  while ((p->at = memchr(p->at, '<', (size_t)(p->end - p->at)))) MR_TRY(take_tag(p));
  if (!p->closed) return page_wrong(p, *text == '<' ? "ends early" : "is not XML");
  return p->says_more ? MR_OK : page_wrong(p, "does not say whether more follows (IsTruncated)");
}

mr_err_t mr__page_parse(char *text, size_t n, mr_remote_listed_fn *fn, void *ctx, mr__paged_t *out,
                        mr_diag_t *diag) {
  page_t p = {.at = text, .end = text + n, .file.etag = "", .fn = fn, .ctx = ctx, .diag = diag};
  mr_err_t e = take_tags(&p);
  *out = (mr__paged_t){.more = p.more, .token = p.token, .wrong = p.wrong};
  return e;
}
