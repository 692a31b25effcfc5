/* What servers, metadata and profiles say: headers of answers, credentials, names of objects. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "loaders/remote/remote_answer.h"
#include "loaders/remote/remote_peers.h"
#include "loaders/remote/remote_sign.h"
#include "loaders/remote/remote_url.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  mr_remote_span_t span;
  mr_remote_sum_t sum = {0};
  mr_credentials_t credentials;
  char value[64], url[MR_PATH_MAX];
  const char *bytes = (const char *)data;
  char *text = malloc(n + 6), *key = malloc(n + 6);
  if (!text || !key) abort();
  memcpy(text, data, n), text[n] = 0;
  sprintf(key, "s3://%s", text);
  int64_t first, length;
  if (mr__serve_range(text, 1 << 20, &first, &length))
    fuzz_need(first >= 0 && length > 0 && first + length <= 1 << 20, "a range outside came out");
  if (mr__remote_span(bytes, n, &span))
    fuzz_need(span.total < 0 || span.last < span.total, "a span behind the end came out");
  mr__remote_sum_line(bytes, n, &sum);
  fuzz_need(mr__remote_sum_bytes(sum.kind) <= MR_SUM_MAX, "a sum that is too long came out");
  if (mr__remote_ini(bytes, n, "default", "region", value, sizeof value))
    fuzz_need(strlen(value) < sizeof value, "a value without an end came out");
  mr__remote_parse_metadata(text, &credentials);
  if (mr__remote_s3_url(key, n & 1 ? "http://h:1" : NULL, "r", url, NULL) >= 0)
    fuzz_need(!strpbrk(url, "?# \n"), "a URL with a query came out");
  char *shown = mr_remote_shown(text);
  if (shown && strstr(shown, "://") && strncasecmp(shown, "s3", 2) && mr_remote_is(text))
    fuzz_need(!strpbrk(shown, "?#"), "a query is shown");
  free(shown), free(text), free(key);
  return 0;
}
