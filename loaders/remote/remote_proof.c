/* Each part of what is signed ends with a newline, which none of them can hold, so that no two
   exchanges have one text. */
#include "loaders/remote/remote_proof.h"

#include <inttypes.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

enum { NONCE = MR_NONCE_TEXT - 1, SUM = 64, TEXT_MAX = 1024 };

static void write_digits(char *out, const uint8_t *from, size_t n) {
  static const char digit[] = "0123456789abcdef";
  for (size_t i = 0; i < n; i++)
    out[2 * i] = digit[from[i] >> 4], out[2 * i + 1] = digit[from[i] & 15];
  out[2 * n] = 0;
}

/* A nonce, a space, and room for what follows. */
static bool begin_proof(char out[MR_PROOF_TEXT]) {
  uint8_t drawn[NONCE / 2];
  if (getrandom(drawn, sizeof drawn, 0) != sizeof drawn) return false;
  write_digits(out, drawn, sizeof drawn);
  out[NONCE] = ' ';
  return true;
}

/* Signs kind, exchange and nonces; digest: of an answer's bytes, "" in a request. */
static bool sign_exchange(const mr_proof_about_t *about, const char *kind, const char *asks,
                          const char *answers, const char *digest, char out[SUM + 1]) {
  char text[TEXT_MAX];
  uint8_t sum[EVP_MAX_MD_SIZE];
  unsigned bytes = 0;
  int n = snprintf(
      text, sizeof text, "millrace %s\n%s\n%s\n%" PRId64 "\n%" PRId64 "\n%.*s\n%.*s\n%s\n", kind,
      about->peer, about->path, about->at, about->size, NONCE, asks, NONCE, answers, digest);
  if (n >= (int)sizeof text ||
      !HMAC(EVP_sha256(), about->token, (int)strlen(about->token), (const uint8_t *)text, (size_t)n,
            sum, &bytes) ||
      2 * bytes != SUM)
    return false;
  write_digits(out, sum, bytes);
  return true;
}

static bool sign_answer(const mr_proof_about_t *about, const char *asked, const char *nonce,
                        const void *data, char out[SUM + 1]) {
  uint8_t sum[EVP_MAX_MD_SIZE];
  unsigned bytes = 0;
  char digest[2 * EVP_MAX_MD_SIZE + 1];
  if (!EVP_Digest(data, (size_t)about->size, sum, &bytes, EVP_sha256(), NULL)) return false;
  write_digits(digest, sum, bytes);
  return sign_exchange(about, "answer", asked, nonce, digest, out);
}

/* Whether text is a nonce, a space and a sum. */
static bool is_proof(const char *text) {
  return text && strlen(text) == MR_PROOF_TEXT - 1 && strspn(text, "0123456789abcdef") == NONCE &&
         text[NONCE] == ' ' && strspn(text + NONCE + 1, "0123456789abcdef") == SUM;
}

bool mr__proof_ask(const mr_proof_about_t *about, char out[MR_PROOF_TEXT]) {
  return begin_proof(out) && sign_exchange(about, "ask", out, "", "", out + NONCE + 1);
}

bool mr__proof_asked(const mr_proof_about_t *about, const char *text) {
  char want[SUM + 1];
  return is_proof(text) && sign_exchange(about, "ask", text, "", "", want) &&
         !CRYPTO_memcmp(want, text + NONCE + 1, SUM);
}

bool mr__proof_answer(const mr_proof_about_t *about, const char *asked, const void *data,
                      char out[MR_PROOF_TEXT]) {
  return begin_proof(out) && sign_answer(about, asked, out, data, out + NONCE + 1);
}

bool mr__proof_answered(const mr_proof_about_t *about, const char *asked, const void *data,
                        const char *text) {
  char want[SUM + 1];
  return is_proof(text) && sign_answer(about, asked, text, data, want) &&
         !CRYPTO_memcmp(want, text + NONCE + 1, SUM);
}
