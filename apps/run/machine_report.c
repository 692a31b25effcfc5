/* The sections of millrace doctor about the machine and its libraries, as JSON objects that
   doctor.c prints.  They only read what the kernel and the libraries report; nothing is measured
   and nothing is changed. */
#include <dnnl.h>
#include <errno.h>
#include <fcntl.h>
#include <gnu/libc-version.h>
#include <omp.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <unistd.h>
#include <xxhash.h>

#include "apps/run/machine_report.h"
#include "base/feature.h"
#include "base/isa.h"
#include "loaders/local/reader_choose.h"
#include "model/exec/backend.h"

void mr_report_say(cJSON *section, const char *name, const char *fmt, ...) {
  char text[512];
  va_list args;
  va_start(args, fmt);
  vsnprintf(text, sizeof text, fmt, args);
  va_end(args);
  cJSON_AddStringToObject(section, name, text);
}

/* Copies the text after the first colon of the first line that begins with name, in the first 4
   KiB;
   "" if none does.  It allocates nothing, so that a run's record of its machine does not depend on
   memory. */
static void file_value(const char *path, const char *name, char *value, size_t n) {
  char text[4096];
  *value = 0;
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  ssize_t size = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
  if (fd >= 0) close(fd);
  text[size > 0 ? size : 0] = 0;
  for (char *line = text, *next; *line; line = next) {
    next = line + strcspn(line, "\n");
    if (*next) *next++ = 0;
    char *at = strchr(line, ':');
    if (strncmp(line, name, strlen(name)) || !at) continue;
    snprintf(value, n, "%s", at + 1 + strspn(at + 1, " \t"));
    return;
  }
}

/* Lists the instruction sets that kernels of millrace or of its libraries use. */
static void list_instruction_sets(char *text, size_t n) {
#define HAS(name) \
  if (__builtin_cpu_supports(name)) at += snprintf(text + at, at < n ? n - at : 0, "%s ", name)
  size_t at = 0;
  *text = 0;
#if defined(__x86_64__)
  HAS("avx2");
  HAS("fma");
  HAS("avx512f");
  HAS("avx512bw");
  HAS("avx512dq");
  HAS("avx512vl");
  HAS("avx512vbmi");
  HAS("avx512vnni");
  HAS("avx512bf16");
#endif
#undef HAS
  if (at && at < n) text[at - 1] = 0;
}

void mr_report_processor(cJSON *report) {
  char model[256], sets[256];
  struct utsname u;
  cpu_set_t mine;
  cJSON *s = cJSON_AddObjectToObject(report, "processor");
  file_value("/proc/cpuinfo", "model name", model, sizeof model);
  list_instruction_sets(sets, sizeof sets);
  mr_report_say(s, "model", "%s", *model ? model : "unknown");
  cJSON_AddNumberToObject(s, "cores", (double)sysconf(_SC_NPROCESSORS_ONLN));
  if (sched_getaffinity(0, sizeof mine, &mine) == 0)
    cJSON_AddNumberToObject(s, "cores_of_this_process", CPU_COUNT(&mine));
  mr_report_say(s, "instruction_sets", "%s", *sets ? sets : "none that a kernel asks for");
  mr_report_say(s, "kernels", "%s: %s", mr_isa_name(mr_isa()),
                getenv("MILLRACE_ISA") ? "MILLRACE_ISA names it" : "the fastest on this machine");
  if (uname(&u) == 0) mr_report_say(s, "system", "%s %s %s", u.sysname, u.release, u.machine);
}

static void add_megabytes(cJSON *s, const char *name, double bytes) {
  cJSON_AddNumberToObject(s, name, (double)(int64_t)(bytes / 1e6));
}

void mr_report_memory(cJSON *report) {
  struct statvfs v;
  struct rlimit lock;
  cJSON *s = cJSON_AddObjectToObject(report, "memory");
  add_megabytes(s, "total_mb", (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE));
  add_megabytes(s, "free_mb", (double)mr_memory_available());
  add_megabytes(s, "kept_data_at_most_mb", (double)mr_memory_available() / 2);
  if (statvfs("/dev/shm", &v) == 0)
    add_megabytes(s, "dev_shm_free_mb", (double)v.f_bavail * (double)v.f_frsize);
  else
    mr_report_say(s, "dev_shm_free_mb", "none: %s", strerror(errno));
  if (getrlimit(RLIMIT_MEMLOCK, &lock) == 0 && lock.rlim_cur != RLIM_INFINITY)
    mr_report_say(s, "memlock", "%lld KiB", (long long)(lock.rlim_cur >> 10));
  else
    mr_report_say(s, "memlock", "unlimited");
}

/* Adds whether the file system supports O_DIRECT, tried with an unnamed temporary file. */
static void add_direct_io(cJSON *s, const char *folder) {
  int fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (fd < 0) {
    mr_report_say(s, "o_direct", "unknown: no file can be made in %s (%s)", folder,
                  strerror(errno));
    return;
  }
  int align = mr_reader_direct_align(&fd, 1);
  close(fd);
  if (align)
    mr_report_say(s, "o_direct", "yes, in blocks of %d bytes (%s)", align, folder);
  else
    mr_report_say(s, "o_direct", "refused by the file system of %s", folder);
}

void mr_report_io(cJSON *report, const char *folder) {
  cJSON *s = cJSON_AddObjectToObject(report, "io");
  char text[MR_URING_REFUSED_MAX];
  int refused = mr_uring_refused();
  if (refused)
    mr_report_say(s, "io_uring", "%s: records are read with pread in 32 threads",
                  mr_uring_refused_text(refused, text, sizeof text) + strlen("io_uring is "));
  else
    mr_report_ring(s);
  add_direct_io(s, folder);
  if (getenv("MILLRACE_IO")) mr_report_say(s, "MILLRACE_IO", "%s", getenv("MILLRACE_IO"));
}

void mr_report_gpu(cJSON *report) {
  char version[256];
  cJSON *s = cJSON_AddObjectToObject(report, "gpu");
  if (access("/proc/driver/nvidia/version", R_OK) != 0) {
    mr_report_say(s, "nvidia", "none: there is no driver");
    return;
  }
  file_value("/proc/driver/nvidia/version", "NVRM version", version, sizeof version);
  mr_report_say(s, "nvidia", "%s", access("/dev/nvidia0", R_OK) == 0 ? "yes" : "driver, no device");
  mr_report_say(s, "driver", "%s", version);
}

/* A line "opencl:0: NAME" becomes a row of that name; one without a colon keeps the backend's. */
typedef struct devices {
  cJSON *section;
  const char *backend;
} devices_t;

static void doctor_device(void *arg, const char *line) {
  const devices_t *d = arg;
  char name[40];
  const char *colon = strstr(line, ": ");
  size_t n = colon ? (size_t)(colon - line) : 0;
  bool named = n && n < sizeof name && !memchr(line, ' ', n);
  snprintf(name, sizeof name, "%.*s", named ? (int)n : (int)strlen(d->backend),
           named ? line : d->backend);
  mr_report_say(d->section, name, "%s", named ? colon + 2 : line);
}

void mr_report_devices(cJSON *report) {
  devices_t d = {cJSON_AddObjectToObject(report, "devices"), NULL};
  for (int i = 0; mr_backends[i]; i++) {
    d.backend = mr_backends[i]->name;
    mr_backends[i]->device->describe(doctor_device, &d);
  }
}

void mr_report_libraries(cJSON *report) {
  cJSON *s = cJSON_AddObjectToObject(report, "libraries");
  const dnnl_version_t *dnnl = dnnl_version();
  unsigned xxh = XXH_versionNumber();
  mr_report_say(s, "millrace", "%s", MR_VERSION);
  mr_report_say(s, "libc", "glibc %s", gnu_get_libc_version());
  mr_report_say(s, "oneDNN", "%d.%d.%d", dnnl->major, dnnl->minor, dnnl->patch);
  mr_report_say(s, "OpenMP", "%d threads", omp_get_max_threads());
  mr_report_say(s, "cJSON", "%s", cJSON_Version());
  mr_report_say(s, "xxHash", "%u.%u.%u", xxh / 10000, xxh / 100 % 100, xxh % 100);
  for (const mr_feature_t *f = mr_features; f->name; f++) {
    if (f->version)
      mr_report_say(s, f->library, "%s (built with)", f->version);
    else
      mr_report_say(s, f->library, "not built in (%s): install %s and build with -D%s=ON", f->gives,
                    f->packages, f->option);
  }
}
