/* The sockets of a process graph's links on one host are in a folder of this user.  A user who
   cannot enter it can neither connect to a link nor take its place; names in the abstract namespace
   would be open to every user of the host. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "pipeline/graph/process.h"

enum { BASE_MAX = 40, RUN_MAX = 32, STALE_S = 3600 };

static bool is_ours_alone(const char *folder) {
  struct stat st;
  return lstat(folder, &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == geteuid() &&
         !(st.st_mode & 077);
}

static mr_err_t find_folder(char *text, size_t n, mr_diag_t *diag) {
  const char *base = getenv("XDG_RUNTIME_DIR");
  if (!base || *base != '/' || strlen(base) > BASE_MAX || !is_ours_alone(base)) base = "/tmp";
  snprintf(text, n, "%s/millrace-%lu", base, (unsigned long)geteuid());
  if (mkdir(text, 0700) < 0 && errno != EEXIST)
    return mr_fail(diag, MR_ERR_IO, "cannot make %s for the links of processes: %s", text,
                   strerror(errno));
  if (is_ours_alone(text)) return MR_OK;
  return mr_fail(diag, MR_ERR_IO,
                 "%s, where the links of processes meet, is not a folder that this user alone can "
                 "enter (mode 0700): remove it, or set XDG_RUNTIME_DIR to such a folder",
                 text);
}

static bool process_folder_is_run(const char *run) {
  size_t n = strspn(run, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_-");
  return n > 0 && n <= RUN_MAX && !run[n];
}

mr_err_t mr_process_address(const char *run, int link, char *text, size_t n, mr_diag_t *diag) {
  char folder[128];
  if (!process_folder_is_run(run))
    return mr_fail(diag, MR_ERR_CONFIG, "run id \"%.60s\": want 1 to %d letters, digits, - or _",
                   run, RUN_MAX);
  MR_TRY(find_folder(folder, sizeof folder, diag));
  snprintf(text, n, "ipc://%s/%s-%d", folder, run, link);
  return MR_OK;
}

/* True if a socket has had no listener for a long time: the age keeps a process between bind and
   listen from being mistaken for a killed one. */
static bool is_stale(const char *file) {
  struct sockaddr_un at = {.sun_family = AF_UNIX};
  struct stat st;
  if (lstat(file, &st) < 0 || !S_ISSOCK(st.st_mode) || time(NULL) - st.st_mtime < STALE_S ||
      strlen(file) >= sizeof at.sun_path)
    return false;
  strcpy(at.sun_path, file);
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  bool refused = fd >= 0 && connect(fd, (void *)&at, sizeof at) < 0 && errno == ECONNREFUSED;
  if (fd >= 0) close(fd);
  return refused;
}

void mr_process_forget(const char *run) {
  char folder[128], file[400];
  size_t n = strlen(run);
  if (!process_folder_is_run(run) || find_folder(folder, sizeof folder, NULL) < 0) return;
  DIR *d = opendir(folder);
  for (struct dirent *e; d && (e = readdir(d));) {
    bool own = !strncmp(e->d_name, run, n) && e->d_name[n] == '-' && e->d_name[n + 1] &&
               strspn(e->d_name + n + 1, "0123456789") == strlen(e->d_name + n + 1);
    snprintf(file, sizeof file, "%s/%s", folder, e->d_name);
    if (e->d_name[0] != '.' && (own || is_stale(file))) unlink(file);
  }
  if (d) closedir(d);
}
