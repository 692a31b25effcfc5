/* Checksums in the header lines of answers: base64 of the right length and padding, or none. */
/* clang-format off */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#include <stdio.h>
#include <string.h>

#include "loaders/remote/remote_answer.h"

static mr_remote_sum_t sum_of(const char *name, const char *value) {
  char line[256];
  mr_remote_sum_t sum = {0};
  int n = snprintf(line, sizeof line, "%s: %s", name, value);
  mr__remote_sum_line(line, (size_t)n, &sum);
  return sum;
}

/* Base64 with padding. */
static void encode(const uint8_t *in, int n, char *out) {
  static const char digit[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  for (int i = 0; i < n; i += 3) {
    uint32_t v = (uint32_t)in[i] << 16 | (i + 1 < n ? (uint32_t)in[i + 1] << 8 : 0) |
                 (i + 2 < n ? in[i + 2] : 0);
    for (int k = 0; k < 4; k++) *out++ = i + k > n ? '=' : digit[v >> (18 - 6 * k) & 63];
  }
  *out = 0;
}

static const struct {
  const char *name;
  mr_sum_kind_t kind;
  bool quoted; /* as in RFC 9530 */
} header[] = {
    {"Content-MD5", MR_SUM_MD5, false},          {"x-amz-checksum-crc32c", MR_SUM_CRC32C, false},
    {"x-amz-checksum-sha1", MR_SUM_SHA1, false}, {"x-amz-checksum-sha256", MR_SUM_SHA256, false},
    {"Content-Digest", MR_SUM_SHA256, true},     {"Content-Digest", MR_SUM_SHA512, true}};
enum { HEADERS = sizeof header / sizeof *header };

static mr_remote_sum_t sum_in(int h, const char *base64) {
  char value[200];
  const char *word = header[h].kind == MR_SUM_SHA512 ? "sha-512" : "sha-256";
  snprintf(value, sizeof value, header[h].quoted ? "%s=:%s:" : "%.0s%s", word, base64);
  return sum_of(header[h].name, value);
}

static void right_checksums_are_taken_with_their_padding(void **state) {
  for (int h = 0; h < HEADERS; h++) {
    uint8_t bytes[64];
    char text[100];
    int n = mr__remote_sum_bytes(header[h].kind);
    for (int i = 0; i < n; i++) bytes[i] = (uint8_t)(255 - 37 * i);
    encode(bytes, n, text);
    mr_remote_sum_t sum = sum_in(h, text);
    assert_int_equal(sum.kind, header[h].kind);
    assert_memory_equal(sum.value, bytes, (size_t)n);
  }
}

/* Each character in turn is one that does not belong there: padding within the digits, a digit
   within the padding, or no character of base64. */
static void checksums_with_a_wrong_character_are_not_taken(void **state) {
  for (int h = 0; h < HEADERS; h++) {
    uint8_t bytes[64] = {1, 2, 3};
    char text[100], wrong[100];
    encode(bytes, mr__remote_sum_bytes(header[h].kind), text);
    for (size_t i = 0; i < strlen(text); i++)
      for (const char *c = "=A*"; *c; c++) {
        bool padding = text[i] == '=';
        if (*c == 'A' ? !padding : *c == '=' && padding) continue;
        if (*c == 'A' && text[i + 1] != '=' && text[i - 1] != '=') continue;
        strcpy(wrong, text);
        wrong[i] = *c;
        if (sum_in(h, wrong).kind)
          fail_msg("%s takes \"%s\" for \"%s\"", header[h].name, wrong, text);
      }
  }
}

static void checksums_of_another_length_are_not_taken(void **state) {
  for (int h = 0; h < HEADERS; h++) {
    uint8_t bytes[68] = {1, 2, 3};
    int n = mr__remote_sum_bytes(header[h].kind);
    for (int m = n - 3; m <= n + 3; m++) {
      char text[100];
      encode(bytes, m, text);
      if ((sum_in(h, text).kind != MR_SUM_NONE) != (m == n))
        fail_msg("%s: %d bytes of %d", header[h].name, m, n);
      for (char *end; m == n && (end = strrchr(text, '=')) && !end[1];) {
        *end = 0; /* without its padding it is another text */
        assert_int_equal(sum_in(h, text).kind, MR_SUM_NONE);
      }
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(right_checksums_are_taken_with_their_padding),
      cmocka_unit_test(checksums_with_a_wrong_character_are_not_taken),
      cmocka_unit_test(checksums_of_another_length_are_not_taken)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
