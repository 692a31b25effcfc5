/* Credentials and region, looked for where Amazon's tools look.  No sentence here holds anything
   that was read: a secret in the wrong line would be shown. */
#include <cjson/cJSON.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/xio.h"
#include "loaders/remote/remote_sign.h"

enum { INI_MAX = 1 << 20, METADATA_MAX = 1 << 14 };

static const char *env_of(const char *name) {
  const char *v = getenv(name);
  return v && *v ? v : NULL;
}

static bool put_word(char *out, size_t n, const char *from) {
  return from && snprintf(out, n, "%s", from) < (int)n;
}

/* ---- files of profiles ---- */

static const char *skip_ini_blanks(const char *at, const char *end) {
  while (at < end && (*at == ' ' || *at == '\t' || *at == '\r')) at++;
  return at;
}

static size_t trimmed_length(const char *at, const char *end) {
  while (end > at && isspace((unsigned char)end[-1])) end--;
  return (size_t)(end - at);
}

static bool is_word(const char *at, size_t n, const char *word) {
  return n == strlen(word) && !memcmp(at, word, n);
}

bool mr__remote_ini(const char *text, size_t size, const char *section, const char *key, char *out,
                    size_t n) {
  bool inside = false;
  for (const char *at = text, *end = text + size, *next; at < end; at = next) {
    const char *stop = memchr(at, '\n', (size_t)(end - at));
    next = stop ? stop + 1 : end, stop = stop ? stop : end;
    bool nested = *at == ' ' || *at == '\t'; /* a setting of a setting, as below "s3 =" */
    at = skip_ini_blanks(at, stop);
    if (at == stop || *at == '#' || *at == ';') continue;
    if (*at == '[') {
      const char *close = memchr(at, ']', (size_t)(stop - at));
      const char *name = skip_ini_blanks(at + 1, close ? close : stop);
      inside = close && is_word(name, trimmed_length(name, close), section);
      continue;
    }
    const char *equals = memchr(at, '=', (size_t)(stop - at));
    if (!inside || nested || !equals || !is_word(at, trimmed_length(at, equals), key)) continue;
    const char *value = skip_ini_blanks(equals + 1, stop);
    size_t len = trimmed_length(value, stop);
    if (len >= n) return false;
    memcpy(out, value, len), out[len] = 0;
    return true;
  }
  return false;
}

/* A file of the profile: of the variable, else below the home folder. */
static char *read_profile_file(const char *variable, const char *usual, size_t *size) {
  char path[MR_PATH_MAX];
  void *data = NULL;
  const char *given = env_of(variable), *home = env_of("HOME");
  if (!given && !home) return NULL;
  int n = given ? snprintf(path, sizeof path, "%s", given)
                : snprintf(path, sizeof path, "%s/.aws/%s", home, usual);
  if (n >= (int)sizeof path || mr_read_file(path, INI_MAX, &data, size, NULL) < 0) return NULL;
  return data;
}

static const char *profile_name(void) {
  const char *name = env_of("AWS_PROFILE");
  return name ? name : "default";
}

/* The section of the configuration file is [profile NAME], but [default]. */
static void config_section(char *out, size_t n) {
  const char *name = profile_name();
  snprintf(out, n, strcmp(name, "default") ? "profile %s" : "%s", name);
}

static bool of_section(const char *variable, const char *usual, const char *section,
                       mr_credentials_t *out) {
  size_t size;
  char *text = read_profile_file(variable, usual, &size);
  bool found =
      text && mr__remote_ini(text, size, section, "aws_access_key_id", out->key, sizeof out->key) &&
      mr__remote_ini(text, size, section, "aws_secret_access_key", out->secret, sizeof out->secret);
  if (found &&
      !mr__remote_ini(text, size, section, "aws_session_token", out->token, sizeof out->token))
    out->token[0] = 0;
  free(text);
  return found;
}

static bool of_profile(mr_credentials_t *out) {
  char section[256];
  config_section(section, sizeof section);
  return of_section("AWS_SHARED_CREDENTIALS_FILE", "credentials", profile_name(), out) ||
         of_section("AWS_CONFIG_FILE", "config", section, out);
}

void mr__remote_region(char *out, size_t n) {
  char section[256];
  size_t size;
  if (put_word(out, n, env_of("AWS_REGION")) || put_word(out, n, env_of("AWS_DEFAULT_REGION")))
    return;
  char *text = read_profile_file("AWS_CONFIG_FILE", "config", &size);
  config_section(section, sizeof section);
  if (!text || !mr__remote_ini(text, size, section, "region", out, n) || !*out)
    snprintf(out, n, "us-east-1");
  free(text);
}

/* ---- environment and metadata ---- */

static bool of_environment(mr_credentials_t *out) {
  if (!put_word(out->key, sizeof out->key, env_of("AWS_ACCESS_KEY_ID")) ||
      !put_word(out->secret, sizeof out->secret, env_of("AWS_SECRET_ACCESS_KEY")))
    return false;
  if (!put_word(out->token, sizeof out->token, env_of("AWS_SESSION_TOKEN"))) out->token[0] = 0;
  return true;
}

bool mr__remote_parse_metadata(const char *text, mr_credentials_t *out) {
  cJSON *o = cJSON_Parse(text);
  const char *key = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(o, "AccessKeyId")),
             *secret = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(o, "SecretAccessKey")),
             *token = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(o, "Token")),
             *until = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(o, "Expiration"));
  struct tm t = {0};
  out->until_s = until && strptime(until, "%Y-%m-%dT%H:%M:%SZ", &t) ? (int64_t)timegm(&t) : 0;
  bool good = put_word(out->key, sizeof out->key, key) &&
              put_word(out->secret, sizeof out->secret, secret) &&
              put_word(out->token, sizeof out->token, token ? token : "");
  cJSON_Delete(o);
  return good;
}

/* IMDSv2 (the instance metadata service): a token, the role's name, the role's credentials. */
static mr_err_t of_metadata(mr_credentials_t *out, mr_plain_request_fn *plain, mr_diag_t *diag) {
  const char *given = env_of("AWS_EC2_METADATA_SERVICE_ENDPOINT");
  const char *base = given ? given : "http://169.254.169.254";
  char url[MR_PATH_MAX], header[MR_TOKEN_MAX], token[MR_TOKEN_MAX / 2], role[256];
  char *text = malloc(METADATA_MAX);
  if (!text) return mr_no_memory(diag, "credentials");
  snprintf(url, sizeof url, "%s/latest/api/token", base);
  mr_err_t e =
      plain("PUT", url, "X-aws-ec2-metadata-token-ttl-seconds: 21600", token, sizeof token, diag);
  snprintf(header, sizeof header, "X-aws-ec2-metadata-token: %s", token);
  snprintf(url, sizeof url, "%s/latest/meta-data/iam/security-credentials/", base);
  if (e >= 0) e = plain("GET", url, header, role, sizeof role, diag);
  if (e >= 0) {
    role[strcspn(role, "\r\n/?#")] = 0;
    snprintf(url, sizeof url, "%s/latest/meta-data/iam/security-credentials/%s", base, role);
    e = plain("GET", url, header, text, METADATA_MAX, diag);
  }
  if (e >= 0 && !mr__remote_parse_metadata(text, out))
    e = mr_fail(diag, MR_ERR_IO, "the instance metadata holds no credentials");
  explicit_bzero(text, METADATA_MAX), explicit_bzero(token, sizeof token);
  explicit_bzero(header, sizeof header);
  free(text);
  return e;
}

mr_err_t mr__remote_credentials(mr_credentials_t *out, mr_plain_request_fn *plain,
                                mr_diag_t *diag) {
  mr_diag_t why = {0};
  *out = (mr_credentials_t){0};
  if (of_environment(out) || of_profile(out)) return MR_OK;
  const char *off = env_of("AWS_EC2_METADATA_DISABLED");
  if (off && !strcmp(off, "true"))
    mr_fail(&why, MR_ERR_IO, "AWS_EC2_METADATA_DISABLED is true");
  else if (of_metadata(out, plain, &why) >= 0)
    return MR_OK;
  return mr_fail(
      diag, MR_ERR_CONFIG,
      "s3://: found no credentials in AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, in profile %s "
      "or in the machine's metadata (%s); set them, or set anonymous to read a public bucket",
      profile_name(), why.text);
}
