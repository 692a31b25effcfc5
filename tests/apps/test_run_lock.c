/* One process at a time trains in a run folder: beside a live run, after one that was killed, and
   where the file system has no locks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "base/xio.h"
#include "tests/apps/program.h"

static const char graph[] =
    "let run = unset\n"
    "let data = synthetic\n"
    "synthetic n=64 ! shuffle seed=12 epochs=0 ! normalize ! batch 8 drop-remainder\n"
    "  ! vit-step name=train layers=1 embed=16 mlp=16 heads=2 patch=8 seed=12 checkpoint-every=1\n"
    "train.metrics ! jsonl path=$run/metrics.jsonl\n"
    "train.state ! checkpoint dir=$run/checkpoints\n";

static program_t p;
static char dir[64], file[96], run[96], lock[128];

static int setup(void **state) {
  strcpy(dir, "/tmp/mr-lock-XXXXXX");
  if (!mkdtemp(dir)) return -1;
  snprintf(file, sizeof file, "%s/g.mr", dir);
  snprintf(run, sizeof run, "%s/r", dir);
  snprintf(lock, sizeof lock, "%s/lock", run);
  return mr_write_file(file, graph, sizeof graph - 1, NULL);
}

static int teardown(void **state) { return program_forget(dir); }

static void expect(int status, const char *sentence) {
  if (p.status != status || !strstr(p.err, sentence))
    fail_msg("status %d, expected %d and \"%s\": %s%s", p.status, status, sentence, p.err, p.out);
}

static bool is_there(const char *name) {
  char path[192];
  struct stat st;
  snprintf(path, sizeof path, "%s/%s", run, name);
  return lstat(path, &st) == 0;
}

/* Starts the program with few system calls: locks of an open file description fail as on a file
   system that has none. */
static void without_locks(void) {
  struct sock_filter rule[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_fcntl, 0, 4),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[1])),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, F_OFD_SETLK, 1, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, F_OFD_GETLK, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOLCK),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  struct sock_fprog program = {sizeof rule / sizeof *rule, rule};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, 2, &program)) _exit(77);
}

static pid_t start(bool locks, const char *const *words, FILE *out, FILE *err) {
  if (locks) return program_start(words, out, err);
  fflush(NULL);
  pid_t pid = fork();
  if (pid) return pid;
  const char *argv[32] = {MR_PROGRAM};
  for (int i = 0; words[i]; i++) argv[i + 1] = words[i];
  dup2(fileno(out), 1), dup2(fileno(err), 2);
  without_locks();
  execv(MR_PROGRAM, (char **)argv);
  _exit(127);
}

static void run_to_its_end(bool locks, const char *const *words) {
  FILE *out = tmpfile(), *err = tmpfile();
  p.status = program_wait(start(locks, words, out, err));
  program_read(out, p.out, sizeof p.out);
  program_read(err, p.err, sizeof p.err);
  if (p.status == 77) skip();
}

static const char *const resume_words[] = {"train",   "--resume", "--run-dir", run,
                                           "--steps", "0",        NULL};
static const char *const new_words[] = {"train", "--graph", file, "--run-dir",
                                        run,     "--steps", "3",  NULL};

/* An endless run that has written a checkpoint. */
static pid_t start_endless(bool locks) {
  FILE *out = tmpfile(), *err = tmpfile();
  pid_t pid = start(locks, (const char *const[]){"train", "--graph", file, "--run-dir", run, NULL},
                    out, err);
  while (!is_there("checkpoints/latest")) {
    siginfo_t ended = {0};
    waitid(P_PID, (id_t)pid, &ended, WEXITED | WNOHANG | WNOWAIT);
    if (ended.si_pid) {
      program_read(err, p.err, sizeof p.err);
      fail_msg("the run has ended: %s", p.err);
    }
    usleep(2000);
  }
  fclose(out), fclose(err);
  return pid;
}

static void stop(pid_t pid) {
  kill(pid, SIGINT);
  assert_int_equal(program_wait(pid), 130);
}

static void a_live_run_is_not_resumed_by_a_second_process(void **state) {
  for (int locks = 1; locks >= 0; locks--) {
    char who[64];
    pid_t pid = start_endless(locks);
    snprintf(who, sizeof who, "process %d on host ", (int)pid);
    run_to_its_end(locks, resume_words);
    expect(2, who);
    assert_non_null(strstr(p.err, "trains in this run folder"));
    run_to_its_end(locks, new_words);
    expect(2, who);
    stop(pid);
    assert_false(is_there("lock"));
    program_forget(run);
  }
}

static void readers_of_a_live_run_need_no_lock(void **state) {
  char latest[128];
  snprintf(latest, sizeof latest, "%s/checkpoints/latest", run);
  for (int locks = 1; locks >= 0; locks--) {
    pid_t pid = start_endless(locks);
    run_to_its_end(locks, (const char *const[]){"runs", run, NULL});
    expect(0, "");
    assert_non_null(strstr(p.out, " running "));
    run_to_its_end(locks, (const char *const[]){"eval", latest, "--data", "synthetic", NULL});
    expect(0, "");
    stop(pid);
    program_forget(run);
  }
}

/* Resumes without an end, and is stopped once it runs. */
static void resume_and_stop(bool locks) {
  FILE *out = tmpfile(), *err = tmpfile();
  pid_t pid = start(locks, resume_words, out, err);
  int began = program_wait_for_handler(pid, SIGINT, 1);
  if (!began) kill(pid, SIGINT);
  p.status = program_wait(pid);
  program_read(out, p.out, sizeof p.out);
  program_read(err, p.err, sizeof p.err);
  expect(130, "");
  assert_non_null(strstr(p.out, "resumed at step "));
}

static void a_killed_run_leaves_a_lock_that_does_not_hold(void **state) {
  for (int locks = 1; locks >= 0; locks--) {
    pid_t pid = start_endless(locks);
    kill(pid, SIGKILL);
    assert_int_equal(program_wait(pid), 128 + SIGKILL);
    assert_true(is_there("lock"));
    run_to_its_end(locks, (const char *const[]){"runs", run, NULL});
    assert_non_null(strstr(p.out, " broken off "));
    resume_and_stop(locks);
    assert_false(is_there("lock"));
    program_forget(run);
  }
}

static void write_lock(const char *text) {
  assert_int_equal(mr_write_file(lock, text, strlen(text), NULL), MR_OK);
}

/* Its number is this test's, which lives, but the process that began then is gone. */
static void a_number_that_a_later_process_has_does_not_hold(void **state) {
  char host[256], text[384];
  run_to_its_end(true, new_words);
  expect(0, "");
  gethostname(host, sizeof host);
  snprintf(text, sizeof text, "pid %d start 1 host %s\n", (int)getpid(), host);
  write_lock(text);
  resume_and_stop(false);
}

/* Where locks do not reach other hosts, the file alone speaks of them; the kernel's lock speaks for
   all hosts where it does. */
static void the_lock_of_another_host_is_recognised(void **state) {
  run_to_its_end(true, new_words);
  expect(0, "");
  write_lock("pid 17 start 5 host another-host.example\n");
  run_to_its_end(false, resume_words);
  expect(2,
         "process 17 on host another-host.example has locked this run folder, and whether it still "
         "runs cannot be determined from this host; when it has ended, remove ");
  assert_non_null(strstr(p.err, lock));
  assert_int_equal(unlink(lock), 0);
  resume_and_stop(false);
  write_lock("pid 17 start 5 host another-host.example\n");
  resume_and_stop(true);
  write_lock("");
  run_to_its_end(false, resume_words);
  expect(2, "if none is, remove ");
}

static void a_run_that_cannot_begin_leaves_no_lock(void **state) {
  RUN(&p, "train", "--graph", file, "--run-dir", run, "nosuch=1");
  assert_int_not_equal(p.status, 0);
  assert_int_equal(access(run, F_OK), -1);
  run_to_its_end(true, new_words);
  expect(0, "");
  run_to_its_end(true, new_words);
  expect(2, "holds an earlier run; resume it with --resume");
  assert_false(is_there("lock"));
}

/* What a run says that may write no byte, in folder `in`. */
static void run_without_a_byte(const char *in, const char *words) {
  char command[900];
  snprintf(command, sizeof command,
           "cd '%s' && (ulimit -f 0; exec '%s' train --graph '%s' --steps 2 %s) 2>&1", in,
           MR_PROGRAM, file, words);
  FILE *f = popen(command, "r");
  assert_non_null(f);
  p.err[fread(p.err, 1, sizeof p.err - 1, f)] = 0;
  int status = pclose(f);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 1 || !strstr(p.err, "lock: ") ||
      !strstr(p.err, "File too large"))
    fail_msg("status %d: %s", status, p.err);
}

/* Of a lock that cannot be written no folder is left that was not there. */
static void a_lock_that_cannot_be_written_leaves_no_folder(void **state) {
  char deep[200], words[300];
  snprintf(deep, sizeof deep, "%s/one", dir);
  snprintf(words, sizeof words, "--run-dir '%s/two//three/'", deep);
  run_without_a_byte(dir, words);
  assert_int_equal(access(deep, F_OK), -1);
  assert_int_equal(mkdir(deep, 0755), 0);
  run_without_a_byte(dir, words);
  assert_int_equal(rmdir(deep), 0); /* which was there, is still there and empty */
  assert_int_equal(mkdir(deep, 0755), 0);
  run_without_a_byte(deep, "");
  assert_int_equal(rmdir(deep), 0); /* without runs/1 and runs */
  assert_int_equal(mkdir(deep, 0755), 0);
  run_without_a_byte(deep, "--run-dir here");
  assert_int_equal(rmdir(deep), 0);
}

/* Each finds a folder of its own, however close together they start. */
static void runs_that_start_together_get_folders_of_their_own(void **state) {
  enum { N = 4 };
  pid_t pid[N];
  FILE *out[N], *err[N];
  char before[512];
  assert_non_null(getcwd(before, sizeof before));
  assert_int_equal(chdir(dir), 0);
  for (int i = 0; i < N; i++)
    pid[i] = program_start((const char *const[]){"train", "--graph", "g.mr", "--steps", "2", NULL},
                           out[i] = tmpfile(), err[i] = tmpfile());
  for (int i = 0; i < N; i++) {
    int status = program_wait(pid[i]);
    program_read(out[i], p.out, sizeof p.out);
    program_read(err[i], p.err, sizeof p.err);
    if (status) fail_msg("run %d: status %d: %s", i, status, p.err);
  }
  for (int i = 1; i <= N; i++) {
    char path[64];
    snprintf(path, sizeof path, "runs/%d/checkpoints/step-000002.safetensors", i);
    if (access(path, F_OK)) fail_msg("%s is not there", path);
  }
  assert_int_equal(chdir(before), 0);
}

static void the_settings_of_a_run_are_readable_by_its_owner_alone(void **state) {
  static const char *const file_of[] = {"settings.txt", "graph.mr"};
  umask(022);
  run_to_its_end(true, new_words);
  expect(0, "");
  for (int i = 0; i < 2; i++) {
    char path[192];
    struct stat st;
    snprintf(path, sizeof path, "%s/%s", run, file_of[i]);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
  }
}

int main(void) {
#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
  const struct CMUnitTest tests[] = {
      CASE(a_live_run_is_not_resumed_by_a_second_process),
      CASE(readers_of_a_live_run_need_no_lock),
      CASE(a_killed_run_leaves_a_lock_that_does_not_hold),
      CASE(a_number_that_a_later_process_has_does_not_hold),
      CASE(the_lock_of_another_host_is_recognised),
      CASE(a_run_that_cannot_begin_leaves_no_lock),
      CASE(a_lock_that_cannot_be_written_leaves_no_folder),
      CASE(runs_that_start_together_get_folders_of_their_own),
      CASE(the_settings_of_a_run_are_readable_by_its_owner_alone),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
