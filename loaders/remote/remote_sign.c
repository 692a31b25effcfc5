/* Credentials and region, looked for where Amazon's tools look.  No sentence here holds anything
   that was read: a secret in the wrong line would be shown. */
#include <cjson/cJSON.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/loopback.h"
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

/* A token goes to no host but this machine and those that give credentials to containers. */
static bool gives_credentials(const char *url) {
  static const char *const host[] = {"169.254.170.2", "169.254.170.23", "[fd00:ec2::23]"};
  const char *at = url + strlen("http://");
  char name[64];
  if (strncmp(url, "http://", strlen("http://"))) return false;
  size_t n = *at == '[' ? strcspn(at, "]") + 1 : strcspn(at, ":/?#");
  if (n >= sizeof name || !strchr(":/", at[n]) || memchr(at, '@', n)) return false;
  memcpy(name, at, n), name[n] = 0;
  for (size_t i = 0; i < sizeof host / sizeof *host; i++)
    if (!strcmp(name, host[i])) return true;
  return mr_host_is_loopback(name) || !strcmp(name, "localhost") || !strcmp(name, "[::1]");
}

/* What a container's host gives: a path at its own address, or a whole URL, and perhaps a token in
   the environment or in a file. */
static mr_err_t of_container(mr_credentials_t *out, mr_plain_request_fn *plain, mr_diag_t *diag) {
  const char *path = env_of("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"),
             *full = env_of("AWS_CONTAINER_CREDENTIALS_FULL_URI"),
             *token = env_of("AWS_CONTAINER_AUTHORIZATION_TOKEN"),
             *file = env_of("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE");
  char url[MR_PATH_MAX], header[MR_TOKEN_MAX];
  void *kept = NULL;
  size_t n;
  if (path ? snprintf(url, sizeof url, "http://169.254.170.2%s", path) >= (int)sizeof url
           : snprintf(url, sizeof url, "%s", full) >= (int)sizeof url)
    return mr_fail(diag, MR_ERR_CONFIG, "the URL of the container's credentials is too long");
  if (!gives_credentials(url))
    return mr_fail(diag, MR_ERR_CONFIG,
                   "%s: want http:// and a host of this machine, 169.254.170.2, 169.254.170.23 or "
                   "[fd00:ec2::23]",
                   url);
  if (file && mr_read_file(file, sizeof header / 2, &kept, &n, diag) < 0) return MR_ERR_CONFIG;
  if (kept) token = kept;
  int length = token ? (int)strcspn(token, "\r\n") : 0;
  int k = snprintf(header, sizeof header, "Authorization: %.*s", length, length ? token : "");
  char *text = malloc(METADATA_MAX);
  mr_err_t e = text ? MR_OK : mr_no_memory(diag, "credentials");
  if (e >= 0 && k >= (int)sizeof header)
    e = mr_fail(diag, MR_ERR_CONFIG, "the token for the container's credentials is too long");
  if (e >= 0) e = plain("GET", url, length ? header : NULL, text, METADATA_MAX, diag);
  if (e >= 0 && !mr__remote_parse_metadata(text, out))
    e = mr_fail(diag, MR_ERR_IO, "the container's host gives no credentials");
  if (kept) explicit_bzero(kept, n);
  if (text) explicit_bzero(text, METADATA_MAX);
  explicit_bzero(header, sizeof header);
  free(kept), free(text);
  return e;
}

/* Whether a file that a variable names, or a profile that it names, has no keys: what is found
   elsewhere is not meant then.  Returns the variable's name; NULL: all is well. */
static const char *names_in_vain(void) {
  static const char *const variable[] = {"AWS_PROFILE", "AWS_SHARED_CREDENTIALS_FILE"};
  for (size_t i = 0; i < sizeof variable / sizeof *variable; i++)
    if (env_of(variable[i])) return variable[i];
  if (env_of("AWS_ACCESS_KEY_ID")) return "AWS_ACCESS_KEY_ID (without AWS_SECRET_ACCESS_KEY)";
  if (env_of("AWS_SECRET_ACCESS_KEY")) return "AWS_SECRET_ACCESS_KEY (without AWS_ACCESS_KEY_ID)";
  return NULL;
}

/* Whether the profile names a program that prints credentials, or a role; the first word found. */
static const char *unsupported_source(void) {
  static const char *const word[] = {"credential_process", "web_identity_token_file", "sso_session",
                                     "sso_start_url",      "login_session",           "role_arn"};
  char section[256], value[MR_PATH_MAX];
  const char *found = NULL;
  size_t size;
  if (env_of("AWS_WEB_IDENTITY_TOKEN_FILE")) return "AWS_WEB_IDENTITY_TOKEN_FILE";
  config_section(section, sizeof section);
  for (int of_config = 0; of_config < 2 && !found; of_config++) {
    char *text = of_config ? read_profile_file("AWS_CONFIG_FILE", "config", &size)
                           : read_profile_file("AWS_SHARED_CREDENTIALS_FILE", "credentials", &size);
    for (size_t i = 0; text && !found && i < sizeof word / sizeof *word; i++)
      if (mr__remote_ini(text, size, of_config ? section : profile_name(), word[i], value,
                         sizeof value))
        found = word[i];
    free(text);
  }
  return found;
}

mr_err_t mr__remote_credentials(mr_credentials_t *out, mr_plain_request_fn *plain,
                                mr_diag_t *diag) {
  mr_diag_t why = {0};
  *out = (mr_credentials_t){0};
  if (of_environment(out) || of_profile(out)) return MR_OK;
  /* Each of these would give a role of its own; the machine's, which may be wider, is not meant. */
  const char *other = unsupported_source();
  if (other)
    return mr_fail(diag, MR_ERR_CONFIG,
                   "s3://: the credentials are to come from %s, which millrace does not read: want "
                   "AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN, as `aws "
                   "configure export-credentials` prints them",
                   other);
  const char *named = names_in_vain();
  if (named)
    return mr_fail(diag, MR_ERR_CONFIG,
                   "s3://: %s is set, and gives no access key and secret: correct it, or unset it "
                   "to use the credentials of this machine",
                   named);
  if (env_of("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI") ||
      env_of("AWS_CONTAINER_CREDENTIALS_FULL_URI"))
    return mr_diag_prefix(diag, of_container(out, plain, &why), &why, "s3://");
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
