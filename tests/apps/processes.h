/* Runs of several processes, for tests: their files, their processes, and kills. */
#ifndef MR_TESTS_APPS_PROCESSES_H
#define MR_TESTS_APPS_PROCESSES_H

#include <dirent.h>
#include <stdbool.h>

#include "base/xio.h"
#include "tests/apps/program.h"

enum { KILLS = 6, TEXT_MAX = 4096 };

static char dir[64]; /* of this program's files */

static inline int setup(void **state) {
  snprintf(dir, sizeof dir, "/tmp/mr-processes-XXXXXX");
  return mkdtemp(dir) ? 0 : -1;
}

static inline int teardown(void **state) { return program_forget(dir); }

/* The text of a graph whose files are DIR/NAME.*, written to DIR/NAME.mr; path has its name. */
static inline void write_graph(const char *name, const char *text, char *path) {
  char whole[TEXT_MAX];
  int n = snprintf(whole, sizeof whole, "let out = %s/%s\n%s", dir, name, text);
  snprintf(path, TEXT_MAX, "%s/%s.mr", dir, name);
  assert_int_equal(mr_write_file(path, whole, (size_t)n, NULL), MR_OK);
}

static inline char *file_of(const char *name, const char *end) {
  char path[TEXT_MAX];
  void *text;
  size_t n;
  snprintf(path, sizeof path, "%s/%s%s", dir, name, end);
  mr_diag_t why = {0};
  if (mr_read_file(path, 1 << 28, &text, &n, &why) < 0) fail_msg("%s", why.text);
  char *copy = realloc(text, n + 1);
  copy[n] = 0;
  return copy;
}

static inline pid_t parent_of(pid_t pid) {
  char path[64], line[256];
  int parent = -1;
  snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
  FILE *f = fopen(path, "r");
  while (f && fgets(line, sizeof line, f) && sscanf(line, "PPid: %d", &parent) != 1) continue;
  if (f) fclose(f);
  return parent;
}

/* Leaves out the processes that another one of the list has started.  Such a one has its command
   line: the leak sanitizer's, which looks at it when it ends, and for which it would wait for ever
   if a test killed it. */
static inline int without_children(pid_t *pid, int n) {
  pid_t parent[16];
  int left = 0;
  for (int i = 0; i < n; i++) parent[i] = parent_of(pid[i]);
  for (int i = 0; i < n; i++) {
    bool child = false;
    for (int k = 0; k < n; k++) child |= k != i && parent[i] == pid[k];
    if (child) parent[i] = -1;
  }
  for (int i = 0; i < n; i++)
    if (parent[i] >= 0) pid[left++] = pid[i];
  return left;
}

/* Processes whose command line holds both words, into pid[0,16); returns how many. */
static inline int find(const char *a, const char *b, pid_t *pid) {
  char path[300], text[TEXT_MAX];
  int n = 0;
  DIR *d = opendir("/proc");
  for (struct dirent *e; (e = readdir(d)) && n < 16;) {
    if (atoi(e->d_name) <= 0) continue;
    snprintf(path, sizeof path, "/proc/%s/cmdline", e->d_name);
    FILE *f = fopen(path, "r");
    if (!f) continue;
    size_t len = fread(text, 1, sizeof text - 1, f);
    fclose(f);
    text[len] = 0;
    for (size_t i = 0; i < len; i++)
      if (!text[i]) text[i] = ' ';
    if (strstr(text, a) && strstr(text, b)) pid[n++] = atoi(e->d_name);
  }
  closedir(d);
  return without_children(pid, n);
}

static inline void wait_until_gone(const char *path) {
  pid_t pid[16];
  while (find("--process=", path, pid)) usleep(10000);
}

/* The line "NAME: ... ledger HASH" of what a run said. */
static inline void ledger_line(const char *out, const char *name, char *line) {
  const char *at = strstr(out, name);
  at = at ? strstr(at, "ledger ") : NULL;
  if (!at) fail_msg("no ledger of %s in: %s", name, out);
  snprintf(line, 24, "%.23s", at);
}

typedef struct {
  program_t *p;
  FILE *out, *err;
  pid_t pid;
} running_t;

static inline running_t start(const char *const *words) {
  running_t r = {calloc(1, sizeof *r.p), tmpfile(), tmpfile(), -1};
  r.pid = program_start(words, r.out, r.err);
  return r;
}

static inline void finish(running_t *r) {
  r->p->status = program_wait(r->pid);
  program_read(r->out, r->p->out, sizeof r->p->out);
  program_read(r->err, r->p->err, sizeof r->p->err);
}

/* Whether a program that was started still runs. */
static inline bool runs(const running_t *r) {
  siginfo_t info = {0};
  return waitid(P_PID, (id_t)r->pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && !info.si_pid;
}

/* Kills the named processes in turn, the first as soon as it is there and then at moments of
   rand(), as long as the run lasts. */
static inline int disturb(const running_t *r, const char *path, const char *const *process) {
  int done = 0;
  unsigned seed = 7;
  for (int k = 0; runs(r); k += done > 0) {
    if (!process[k]) k = 0;
    pid_t pid[16];
    usleep(done ? 30000 + (unsigned)rand_r(&seed) % 120000 : 1000);
    if (done < KILLS && find(process[k], path, pid) && kill(pid[0], SIGKILL) == 0) done++;
  }
  return done;
}

#endif
