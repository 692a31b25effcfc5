/* Runs the real program and keeps what it said. */
#ifndef MR_TESTS_APPS_PROGRAM_H
#define MR_TESTS_APPS_PROGRAM_H

#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

typedef struct program {
  int status; /* exit status; 128 + signal if killed */
  char out[1 << 20], err[1 << 16];
} program_t;

static inline void program_read(FILE *f, char *text, size_t n) {
  rewind(f);
  text[fread(text, 1, n - 1, f)] = 0;
  fclose(f);
}

/* Starts the program; out and err take what it says.  argv[0] is put in. */
static inline pid_t program_start(const char *const *words, FILE *out, FILE *err) {
  size_t n = 0;
  while (words[n]) n++;
  char **argv = calloc(n + 2, sizeof *argv);
  if (!argv) return -1;
  argv[0] = (char *)MR_PROGRAM;
  memcpy(argv + 1, words, n * sizeof *argv);
  posix_spawn_file_actions_t fa;
  posix_spawn_file_actions_init(&fa);
  posix_spawn_file_actions_addopen(&fa, 0, "/dev/null", 0, 0);
  posix_spawn_file_actions_adddup2(&fa, fileno(out), 1);
  posix_spawn_file_actions_adddup2(&fa, fileno(err), 2);
  pid_t pid = -1;
  if (posix_spawn(&pid, MR_PROGRAM, &fa, NULL, argv, environ)) pid = -1;
  posix_spawn_file_actions_destroy(&fa);
  free(argv);
  return pid;
}

static inline int program_wait(pid_t pid) {
  int status = -1;
  if (pid < 0 || waitpid(pid, &status, 0) < 0) return -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* Runs it with the words of a NULL-ended list. */
static inline void program_run(program_t *p, const char *const *words) {
  FILE *out = tmpfile(), *err = tmpfile();
  p->status = program_wait(program_start(words, out, err));
  program_read(out, p->out, sizeof p->out);
  program_read(err, p->err, sizeof p->err);
}

/* Waits until the process has a handler for a signal (there 1), or has none any more (there 0); -1
   if it has ended before. */
static inline int program_wait_for_handler(pid_t pid, int signo, int there) {
  char path[64], line[256];
  snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
  for (;; usleep(2000)) {
    unsigned long long caught = 0;
    siginfo_t ended = {0};
    FILE *f = fopen(path, "r");
    if (waitid(P_PID, (id_t)pid, &ended, WEXITED | WNOHANG | WNOWAIT) < 0 || ended.si_pid || !f) {
      if (f) fclose(f);
      return -1;
    }
    while (fgets(line, sizeof line, f) && sscanf(line, "SigCgt: %llx", &caught) != 1) continue;
    fclose(f);
    if ((int)(caught >> (signo - 1) & 1) == there) return 0;
  }
}

/* Removes a test's own folder with all that is in it; 0 if it is gone. */
static inline int program_forget(const char *folder) {
  char command[256];
  if (strncmp(folder, "/tmp/", 5)) return -1;
  snprintf(command, sizeof command, "rm -rf '%s'", folder);
  return system(command);
}

#define RUN(p, ...) program_run(p, (const char *const[]){__VA_ARGS__, NULL})

/* Runs doctor where the loader finds a junk file, in a folder whose name begins with
   "/tmp/mr-junk-", before the machine's library of that name. */
static inline void program_doctor_beside_junk(program_t *p, const char *library) {
  char folder[] = "/tmp/mr-junk-XXXXXX", file[64];
  assert_non_null(mkdtemp(folder));
  snprintf(file, sizeof file, "%s/%s", folder, library);
  FILE *f = fopen(file, "w");
  assert_non_null(f);
  fputs("junk\n", f);
  assert_int_equal(fclose(f), 0);
  setenv("LD_LIBRARY_PATH", folder, 1);
  RUN(p, "doctor");
  unsetenv("LD_LIBRARY_PATH");
  program_forget(folder);
}

#endif
