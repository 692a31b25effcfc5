/* The files of CURVE keys: makes a pair, and reads secret keys and lists of public ones.  A secret
   is created readable by its owner alone, one that others can read is refused, and no existing file
   is ever overwritten. */
#include "links/curve_key.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zmq.h>

#include "base/xio.h"

enum { FILE_MAX = 1024 };

static mr_err_t write_new(const char *file, int mode, const char *text, mr_diag_t *diag) {
  int fd = open(file, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode);
  if (fd < 0 && errno == EEXIST)
    return mr_fail(diag, MR_ERR_IO,
                   "%s is there already, and keys are never overwritten: choose another name",
                   file);
  if (fd < 0) return mr_fail(diag, MR_ERR_IO, "cannot make %s: %s", file, strerror(errno));
  mr_err_t e = mr_write_all(fd, text, strlen(text), file, diag);
  if (e >= 0 && (fchmod(fd, (mode_t)mode) < 0 || fsync(fd) < 0))
    e = mr_fail(diag, MR_ERR_IO, "%s: cannot sync: %s", file, strerror(errno));
  close(fd);
  if (e >= 0) e = mr_sync_parent(file, diag);
  if (e < 0) unlink(file);
  return e;
}

mr_err_t mr_curve_key_make(const char *name, mr_diag_t *diag) {
  char pub[MR_CURVE_KEY_TEXT], sec[MR_CURVE_KEY_TEXT], file[4096], text[FILE_MAX];
  if (strlen(name) > 4000)
    return mr_fail(diag, MR_ERR_USAGE,
                   "keys: the name is longer than 4000 bytes; choose a shorter one");
  snprintf(file, sizeof file, "%s.pub", name);
  if (access(file, F_OK) == 0)
    return mr_fail(diag, MR_ERR_IO,
                   "%s is there already, and keys are never overwritten: choose another name",
                   file);
  if (zmq_curve_keypair(pub, sec))
    return mr_fail(diag, MR_ERR_UNAVAILABLE, "this ZeroMQ library has no CURVE");
  snprintf(file, sizeof file, "%s.key", name);
  snprintf(text, sizeof text,
           "# Secret key of a millrace link: stays with its owner.\npublic %s\nsecret %s\n", pub,
           sec);
  mr_err_t e = write_new(file, 0600, text, diag);
  memset(sec, 0, sizeof sec);
  memset(text, 0, sizeof text);
  MR_TRY(e);
  snprintf(file, sizeof file, "%s.pub", name);
  snprintf(text, sizeof text, "# Public key of a millrace link: for its peers.\npublic %s\n", pub);
  return write_new(file, 0644, text, diag);
}

/* Finds the word that follows `what` at the start of a line: 40 letters of Z85. */
static bool find_curve_key(const char *text, const char *what, char key[MR_CURVE_KEY_TEXT]) {
  unsigned char raw[32];
  size_t n = strlen(what);
  for (const char *at = text; at; at = strchr(at, '\n'), at = at ? at + 1 : NULL) {
    if (strncmp(at, what, n) || at[n] != ' ') continue;
    size_t letters = strcspn(at + n + 1, "\n");
    if (letters != MR_CURVE_KEY_TEXT - 1) return false;
    memcpy(key, at + n + 1, letters);
    key[letters] = 0;
    return zmq_z85_decode(raw, key) != NULL;
  }
  return false;
}

static mr_err_t key_read_text(const char *file, bool secret, char text[FILE_MAX], mr_diag_t *diag) {
  struct stat st;
  int fd = open(file, O_RDONLY | O_CLOEXEC);
  ssize_t n = fd < 0 ? -1 : read(fd, text, FILE_MAX - 1);
  if (n < 0) {
    mr_fail(diag, MR_ERR_IO, "cannot read the key %s: %s", file, strerror(errno));
    if (fd >= 0) close(fd);
    return MR_ERR_IO;
  }
  text[n] = 0;
  bool open_to_others = fstat(fd, &st) < 0 || (secret && st.st_mode & 077);
  close(fd);
  if (open_to_others)
    return mr_fail(diag, MR_ERR_CONFIG, "others can read the secret key %s: chmod 600 it", file);
  return MR_OK;
}

static mr_err_t refuse_key_file(const char *file, const char *what, mr_diag_t *diag) {
  return mr_fail(diag, MR_ERR_DATA, "%s holds no %s key: make keys with `millrace keys NAME`", file,
                 what);
}

mr_err_t mr_curve_key_read_secret(const char *file, char public_key[MR_CURVE_KEY_TEXT],
                                  char secret_key[MR_CURVE_KEY_TEXT], mr_diag_t *diag) {
  char text[FILE_MAX];
  MR_TRY(key_read_text(file, true, text, diag));
  bool good =
      find_curve_key(text, "public", public_key) && find_curve_key(text, "secret", secret_key);
  memset(text, 0, sizeof text);
  if (!good) return refuse_key_file(file, "secret", diag);
  char derived[MR_CURVE_KEY_TEXT]; /* -1: this libzmq has no CURVE, which opening a link reports */
  if (zmq_curve_public(derived, secret_key) == 0 && strcmp(derived, public_key) != 0)
    return mr_fail(diag, MR_ERR_DATA,
                   "%s: its public and its secret key do not belong together: make keys with "
                   "`millrace keys NAME`",
                   file);
  return MR_OK;
}

mr_err_t mr_curve_key_read_public(const char *file, char public_key[MR_CURVE_KEY_TEXT],
                                  mr_diag_t *diag) {
  char text[FILE_MAX];
  MR_TRY(key_read_text(file, false, text, diag));
  return find_curve_key(text, "public", public_key) ? MR_OK : refuse_key_file(file, "public", diag);
}
