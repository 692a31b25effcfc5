/* Preloaded into the program by tests (LD_PRELOAD), controlled by the environment:
   - FAULT_ALLOC=K: the K-th allocation fails, counted from main over those that the program itself,
     the C library and cJSON ask for (others, such as an OpenMP runtime or the constructors of a
     linked CUDA runtime, end the process by design);
   - FAULT_COUNT=FILE: the number of these allocations goes there when the process ends;
   - FAULT_SLOW=TEXT: a write to a file whose path holds TEXT takes FAULT_SLOW_MS longer;
   - FAULT_GONE=FILE: the file is removed when a folder has been listed by scandir;
   - FAULT_LATE=SIGNO: the signal waits when the first process sets its signal mask anew;
   - FAULT_CLOCK=SECONDS: each look at the monotonic clock finds it so much later than the last. */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { RANGES = 16 };

static atomic_long count;
static long fail_at;
static struct { uintptr_t begin, end; } code[RANGES];
static int n_ranges;
static atomic_bool ready;
static const char *slow;
static long slow_ms, clock_step;
static atomic_long looks; /* at the clock */
static int late;
static pid_t began;

static int note_code(struct dl_phdr_info *lib, size_t size, void *unused) {
  bool ours = !lib->dlpi_name[0] || strstr(lib->dlpi_name, "/libc.so") ||
              strstr(lib->dlpi_name, "/libcjson.so");
  for (int k = 0; ours && k < lib->dlpi_phnum && n_ranges < RANGES; k++) {
    const ElfW(Phdr) *p = &lib->dlpi_phdr[k];
    if (p->p_type != PT_LOAD || !(p->p_flags & PF_X)) continue;
    code[n_ranges].begin = lib->dlpi_addr + p->p_vaddr;
    code[n_ranges].end = code[n_ranges].begin + p->p_memsz;
    n_ranges++;
  }
  return 0;
}

static long number(const char *name) {
  const char *text = getenv(name);
  return text ? atol(text) : 0;
}

__attribute__((constructor)) static void begin(void) {
  fail_at = number("FAULT_ALLOC");
  late = (int)number("FAULT_LATE"), began = getpid();
  unsetenv("FAULT_LATE"); /* not of what is started */
  slow = getenv("FAULT_SLOW"), slow_ms = number("FAULT_SLOW_MS");
  clock_step = number("FAULT_CLOCK");
  dl_iterate_phdr(note_code, NULL);
}

typedef int main_t(int, char **, char **);

static main_t *program_main;

static int counted_main(int argc, char **argv, char **env) {
  ready = true;
  return program_main(argc, argv, env);
}

/* The C library's entry before main, so that what runs before main is not counted. */
int __libc_start_main(main_t *main, int argc, char **argv, void (*init)(void), void (*fini)(void),
                      void (*rtld_fini)(void), void *stack_end) {
  int (*next)(main_t *, int, char **, void (*)(void), void (*)(void), void (*)(void), void *);
  *(void **)&next = dlsym(RTLD_NEXT, "__libc_start_main");
  program_main = main;
  return next(counted_main, argc, argv, init, fini, rtld_fini, stack_end);
}

__attribute__((destructor)) static void end(void) {
  const char *file = getenv("FAULT_COUNT");
  ready = false;
  FILE *out = file ? fopen(file, "w") : NULL;
  if (!out) return;
  fprintf(out, "%ld\n", (long)count);
  fclose(out);
}

static bool fails(const void *caller) {
  uintptr_t at = (uintptr_t)caller;
  if (!ready) return false;
  for (int i = 0; i < n_ranges; i++)
    if (at >= code[i].begin && at < code[i].end) return ++count == fail_at;
  return false;
}

void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t each);
void *__libc_realloc(void *p, size_t n);
void *__libc_memalign(size_t align, size_t n);

#define FAIL_OR(call)                                                    \
  do {                                                                   \
    if (fails(__builtin_return_address(0))) return errno = ENOMEM, NULL; \
    return call;                                                         \
  } while (0)

void *malloc(size_t n) { FAIL_OR(__libc_malloc(n)); }
void *calloc(size_t n, size_t each) { FAIL_OR(__libc_calloc(n, each)); }
void *realloc(void *p, size_t n) { FAIL_OR(__libc_realloc(p, n)); }
void *aligned_alloc(size_t align, size_t n) { FAIL_OR(__libc_memalign(align, n)); }

int posix_memalign(void **p, size_t align, size_t n) {
  if (fails(__builtin_return_address(0))) return ENOMEM;
  void *got = __libc_memalign(align, n);
  if (got) *p = got;
  return got ? 0 : ENOMEM;
}

/* ---- slow writes ---- */

ssize_t write(int fd, const void *data, size_t n) {
  static ssize_t (*next)(int, const void *, size_t);
  char link[64], path[4096];
  if (!next) *(void **)&next = dlsym(RTLD_NEXT, "write");
  if (slow) {
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t k = readlink(link, path, sizeof path - 1);
    path[k > 0 ? k : 0] = 0;
    struct timespec t = {.tv_sec = slow_ms / 1000, .tv_nsec = slow_ms % 1000 * 1000000};
    if (strstr(path, slow)) nanosleep(&t, NULL);
  }
  return next(fd, data, n);
}

/* ---- a file that goes ---- */

int scandir(const char *folder, struct dirent ***entry, int (*wanted)(const struct dirent *),
            int (*order)(const struct dirent **, const struct dirent **)) {
  static int (*next)(const char *, struct dirent ***, int (*)(const struct dirent *),
                     int (*)(const struct dirent **, const struct dirent **));
  const char *gone = getenv("FAULT_GONE");
  if (!next) *(void **)&next = dlsym(RTLD_NEXT, "scandir");
  int n = next(folder, entry, wanted, order);
  if (gone) unlink(gone);
  return n;
}

/* ---- a signal that comes late ---- */

int sigprocmask(int how, const sigset_t *set, sigset_t *before) {
  static int (*next)(int, const sigset_t *, sigset_t *);
  if (!next) *(void **)&next = dlsym(RTLD_NEXT, "sigprocmask");
  if (late && how == SIG_SETMASK && getpid() == began) kill(began, late);
  return next(how, set, before);
}

/* ---- a clock that runs ahead ---- */

int clock_gettime(clockid_t clock, struct timespec *t) {
  static int (*next)(clockid_t, struct timespec *);
  if (!next) *(void **)&next = dlsym(RTLD_NEXT, "clock_gettime");
  int e = next(clock, t);
  if (clock == CLOCK_MONOTONIC)
    t->tv_sec += clock_step * (1 + atomic_fetch_add_explicit(&looks, 1, memory_order_relaxed));
  return e;
}
