/* Asks the drivers for their devices in a child process.  A driver that finds no memory or no /sys
   may abort instead of returning an error (PoCL does, for want of a topology); the child then dies,
   and the user reads a sentence. */
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "model/backends/opencl/device.h"

enum { SECONDS = 30 }; /* a driver that has not answered by then hangs */

typedef struct probe_device {
  char name[128], platform[128], version[256], driver[128];
  cl_ulong memory;
  cl_device_fp_config wide;
} probe_device_t;

static void probe_ask(const mr_opencl_api_t *cl, cl_device_id id, probe_device_t *p) {
  cl_platform_id platform = NULL;
  *p = (probe_device_t){.memory = 0};
  cl->clGetDeviceInfo(id, CL_DEVICE_NAME, sizeof p->name - 1, p->name, NULL);
  cl->clGetDeviceInfo(id, CL_DEVICE_VERSION, sizeof p->version - 1, p->version, NULL);
  cl->clGetDeviceInfo(id, CL_DRIVER_VERSION, sizeof p->driver - 1, p->driver, NULL);
  cl->clGetDeviceInfo(id, CL_DEVICE_GLOBAL_MEM_SIZE, sizeof p->memory, &p->memory, NULL);
  cl->clGetDeviceInfo(id, CL_DEVICE_DOUBLE_FP_CONFIG, sizeof p->wide, &p->wide, NULL);
  cl->clGetDeviceInfo(id, CL_DEVICE_PLATFORM, sizeof(platform), &platform, NULL);
  if (platform)
    cl->clGetPlatformInfo(platform, CL_PLATFORM_NAME, sizeof p->platform - 1, p->platform, NULL);
}

/* In the child: writes its lines to `to`. */
static void probe_list(const mr_opencl_api_t *cl, int to) {
  cl_device_id id[MR_OPENCL_DEVICES];
  cl_uint n = mr__opencl_devices(cl, id, MR_OPENCL_DEVICES);
  for (cl_uint i = 0; i < n; i++) {
    probe_device_t p;
    char line[800];
    probe_ask(cl, id[i], &p);
    int len = snprintf(line, sizeof line, "opencl:%u: %s, %s, driver %s, of %s, %llu MiB%s\n", i,
                       p.name, p.version, p.driver, p.platform,
                       (unsigned long long)(p.memory >> 20), p.wide ? "" : ", without f64");
    if (len > 0 && write(to, line, (size_t)len) < 0) _exit(1);
  }
}

_Noreturn static void probe_child(const mr_opencl_api_t *cl, int to, int words) {
  struct rlimit none = {0, 0};
  setrlimit(RLIMIT_CORE, &none);
  signal(SIGABRT, SIG_DFL);
  signal(SIGSEGV, SIG_DFL);
  dup2(words, STDERR_FILENO);
  dup2(words, STDOUT_FILENO);
  probe_list(cl, to);
  _exit(0);
}

/* Appends what `from` holds to text[0,n); false at its end. */
static bool probe_read(int from, char *text, size_t n) {
  char piece[512];
  size_t at = strlen(text);
  ssize_t got = read(from, piece, sizeof piece);
  for (ssize_t i = 0; i < got && at + 1 < n; i++) text[at++] = piece[i];
  text[at] = 0;
  return got > 0;
}

/* Reads both pipes until the child closes them.  False if it takes too long. */
static bool probe_follow(int lines, int words, char *text, size_t n, char *said, size_t m) {
  struct pollfd from[2] = {{.fd = lines, .events = POLLIN}, {.fd = words, .events = POLLIN}};
  int64_t until = mr_now_ns() + SECONDS * INT64_C(1000000000);
  while (from[0].fd >= 0 || from[1].fd >= 0) {
    int64_t left = (until - mr_now_ns()) / 1000000;
    if (left <= 0) return false;
    if (poll(from, 2, (int)left) <= 0) continue;
    if (from[0].revents && !probe_read(lines, text, n)) from[0].fd = -1;
    if (from[1].revents && !probe_read(words, said, m)) from[1].fd = -1;
  }
  return true;
}

/* The last line of what the child said. */
static const char *probe_last_line(char *said) {
  size_t n = strlen(said);
  while (n && said[n - 1] == '\n') said[--n] = 0;
  char *line = strrchr(said, '\n');
  return line ? line + 1 : said;
}

static mr_err_t probe_verdict(pid_t child, bool ended, char *said, mr_diag_t *diag) {
  int status = 0;
  if (!ended) kill(child, SIGKILL);
  bool known = waitpid(child, &status, 0) == child;
  if (!ended)
    return mr_fail(diag, MR_ERR_UNAVAILABLE,
                   "device opencl: the driver does not answer within %d seconds", SECONDS);
  if (known && WIFEXITED(status) && !WEXITSTATUS(status)) return MR_OK;
  const char *last = probe_last_line(said);
  return mr_fail(diag, MR_ERR_UNAVAILABLE,
                 "device opencl: the driver ends the process that asks for devices (%s)%s%.200s; "
                 "`millrace doctor` names the drivers, and PoCL needs /sys and /proc",
                 known && WIFSIGNALED(status) ? strsignal(WTERMSIG(status)) : "it exits",
                 *last ? " and says: " : "", last);
}

mr_err_t mr__opencl_probe(char *text, size_t n, mr_diag_t *diag) {
  const mr_opencl_api_t *cl;
  int lines[2], words[2];
  char said[2048] = "";
  text[0] = 0;
  MR_TRY(mr__opencl_api(&cl, diag));
  if (pipe(lines) < 0) return mr_fail(diag, MR_ERR_UNAVAILABLE, "device opencl: no pipe is left");
  if (pipe(words) < 0) {
    close(lines[0]), close(lines[1]);
    return mr_fail(diag, MR_ERR_UNAVAILABLE, "device opencl: no pipe is left");
  }
  pid_t child = fork();
  if (child == 0) probe_child(cl, lines[1], words[1]);
  close(lines[1]), close(words[1]);
  bool ended = child > 0 && probe_follow(lines[0], words[0], text, n, said, sizeof said);
  close(lines[0]), close(words[0]);
  if (child > 0) return probe_verdict(child, ended, said, diag);
  return mr_fail(diag, MR_ERR_UNAVAILABLE, "device opencl: no process is left to ask drivers in");
}
