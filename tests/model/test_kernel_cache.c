/* The kernel cache's folder and files, without a device.  Each case runs in a process of its own,
   since what a notice says is said once a process. */
// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/xio.h"
#include "model/backends/kernels/cache.h"
#include "model/backends/kernels/cache_file.h"

enum { BYTES = 1000, OTHER_USER = 65534 };

static char root[64], folder[128]; /* folder: not made yet, in a new root for each case */
static int notices;
static char last[1024];

static void hear(void *arg, const char *text) {
  notices++;
  snprintf(last, sizeof last, "%s", text);
}

/* In a forked child a failed assertion of cmocka would continue with the parent's tests. */
#define NEED(condition)                                                                          \
  do {                                                                                           \
    if (condition) break;                                                                        \
    fprintf(stderr, "line %d: %s; %d notices, last: %s\n", __LINE__, #condition, notices, last); \
    _exit(1);                                                                                    \
  } while (0)

static void apart(void (*run)(void)) {
  snprintf(root, sizeof root, "/tmp/mr-kernels-XXXXXX");
  assert_non_null(mkdtemp(root));
  snprintf(folder, sizeof folder, "%s/a/kernels", root);
  fflush(NULL);
  pid_t child = fork();
  if (child == 0) {
    setenv("MILLRACE_KERNELS", folder, 1);
    mr_notice_to(hear, NULL);
    run();
    _exit(0);
  }
  int status = -1;
  assert_int_equal(waitpid(child, &status, 0), child);
  char command[96];
  snprintf(command, sizeof command, "rm -rf %s", root);
  assert_int_equal(system(command), 0);
  assert_int_equal(status, 0);
}

static mr_kernel_entry_t entry_of(const char *text) {
  return mr_kernel_entry((const char *const[]){"flags", "version", text}, 3);
}

static const char *image_of(char fill) {
  static char image[BYTES];
  memset(image, fill, sizeof image);
  return image;
}

/* What get gives for text: the byte that its image is filled with; 0: nothing. */
static char kept(const char *text) {
  mr_kernel_entry_t e = entry_of(text);
  void *image = NULL;
  size_t bytes = 0;
  if (!mr_kernel_cache_get(&e, &image, &bytes)) return 0;
  NEED(bytes == BYTES);
  char fill = *(char *)image;
  NEED(!memcmp(image, image_of(fill), BYTES));
  free(image);
  return fill;
}

static void keep(const char *text, char fill) {
  mr_kernel_entry_t e = entry_of(text);
  mr_kernel_cache_put(&e, image_of(fill), BYTES);
}

/* As a backend does: gives back whether it compiled. */
static bool compiles(const char *text, char fill) {
  mr_kernel_entry_t e = entry_of(text);
  void *image = NULL;
  size_t bytes;
  if (mr_kernel_cache_get(&e, &image, &bytes)) return free(image), false;
  mr_kernel_cache_put(&e, image_of(fill), BYTES);
  return true;
}

/* The files of the folder; path[]: one of them. */
static int files(char path[512]) {
  int n = 0;
  DIR *d = opendir(folder);
  for (const struct dirent *f; d && (f = readdir(d));)
    if (f->d_name[0] != '.') n++, snprintf(path, 512, "%s/%s", folder, f->d_name);
  if (d) closedir(d);
  return n;
}

static void write_there(const char *path, const void *data, size_t n) {
  FILE *f = fopen(path, "wb");
  NEED(f && fwrite(data, 1, n, f) == n && !fclose(f));
}

static void keeps(void) {
  char path[512];
  struct stat st;
  NEED(!kept("a"));
  NEED(access(folder, F_OK) != 0); /* reading makes no folder */
  keep("a", 1), keep("b", 2);
  NEED(kept("a") == 1 && kept("b") == 2 && !kept("c"));
  NEED(files(path) == 2);
  NEED(stat(path, &st) == 0 && (st.st_mode & 07777) == 0600);
  NEED(stat(folder, &st) == 0 && (st.st_mode & 07777) == 0700);
  keep("a", 3);
  NEED(kept("a") == 3 && notices == 0);
}

static void is_off(void) {
  char path[512];
  bool named;
  setenv("MILLRACE_KERNELS", "off", 1);
  NEED(!mr_kernel_cache_folder(path, sizeof path, &named));
  keep("a", 1);
  NEED(!kept("a") && notices == 0 && access("off", F_OK) != 0);
  setenv("MILLRACE_KERNELS", "", 1), setenv("XDG_CACHE_HOME", root, 1);
  NEED(mr_kernel_cache_folder(path, sizeof path, &named) && !named &&
       strstr(path, "/millrace/kernels"));
  keep("a", 2);
  NEED(kept("a") == 2 && access(path, F_OK) == 0);
  unsetenv("XDG_CACHE_HOME"), setenv("HOME", "/h", 1);
  NEED(mr_kernel_cache_folder(path, sizeof path, &named));
  NEED(!strcmp(path, "/h/.cache/millrace/kernels"));
  unsetenv("HOME");
  NEED(!mr_kernel_cache_folder(path, sizeof path, &named) && !kept("a"));
}

static void tells_keys_apart(void) {
  const char *const parts[][3] = {
      {"ab", "c", ""}, {"a", "bc", ""}, {"abc", "", ""}, {"", "abc", ""}, {"c", "ab", ""}};
  for (size_t i = 0; i < 5; i++)
    for (size_t k = 0; k < 5; k++) {
      mr_kernel_entry_t a = mr_kernel_entry(parts[i], 3), b = mr_kernel_entry(parts[k], 3);
      NEED((i == k) == !memcmp(a.key, b.key, sizeof a.key));
    }
  mr_kernel_entry_t two = mr_kernel_entry(parts[0], 2), three = mr_kernel_entry(parts[0], 3);
  NEED(memcmp(two.key, three.key, sizeof two.key) != 0);
}

/* Every byte, changed in each bit, and every length. */
static void leaves_damage_aside(void) {
  char path[512], *data;
  void *there;
  size_t n, foreign = 0;
  keep("a", 1);
  NEED(files(path) == 1 && mr_read_file(path, 1 << 20, &there, &n, NULL) == MR_OK);
  NEED(n == BYTES + MR_KERNEL_HEADER);
  data = there;
  for (size_t i = 0; i < 8 * n; i++) {
    data[i / 8] ^= (char)(1 << i % 8);
    write_there(path, data, n);
    mr_kernel_entry_t e = entry_of("a");
    void *image;
    size_t bytes;
    NEED(!mr_kernel_cache_get(&e, &image, &bytes));
    foreign += e.left;
    data[i / 8] ^= (char)(1 << i % 8);
  }
  NEED(foreign == 12 * 8); /* magic and version */
  NEED(notices == 2);      /* one for each kind */
  for (size_t cut = 0; cut < n; cut++) {
    write_there(path, data, cut);
    NEED(!kept("a"));
  }
  NEED(notices == 2 && compiles("a", 5) && !compiles("a", 6) && kept("a") == 5);
}

static void says_damage_once(void) {
  char path[512];
  keep("a", 1);
  NEED(files(path) == 1);
  write_there(path, "mrkernel", 8);
  NEED(compiles("a", 2) && notices == 1 && strstr(last, path) && strstr(last, "replaced"));
  NEED(!compiles("a", 3) && kept("a") == 2);
  write_there(path, "mrkernel", 8);
  NEED(compiles("a", 4) && notices == 1);
}

static void leaves_other_versions_as_they_are(void) {
  static const uint32_t version = 2;
  char path[512], *data;
  void *there, *again;
  size_t n;
  keep("a", 1);
  NEED(files(path) == 1 && mr_read_file(path, 1 << 20, &there, &n, NULL) == MR_OK);
  data = there;
  memcpy(data + 8, &version, sizeof version);
  write_there(path, data, n);
  NEED(compiles("a", 2) && compiles("a", 3));
  NEED(notices == 1 && strstr(last, "another version") && strstr(last, "left as it is"));
  NEED(mr_read_file(path, 1 << 20, &again, &n, NULL) == MR_OK && !memcmp(data, again, n));
  NEED(unlink(path) == 0 && symlink("/dev/zero", path) == 0); /* read to its end, it has none */
  NEED(compiles("a", 4) && files(path) == 1);
  NEED(unlink(path) == 0 && mkfifo(path, 0600) == 0);
  NEED(compiles("a", 4));
  NEED(unlink(path) == 0 && compiles("a", 5) && !compiles("a", 6));
  NEED(chmod(path, 0666) == 0 && compiles("a", 7) && chmod(path, 0600) == 0 && kept("a") == 5);
  NEED(notices == 1);
}

static void replaces_what_a_driver_refuses(void) {
  mr_kernel_entry_t e = entry_of("a");
  keep("a", 1);
  NEED(kept("a") == 1);
  mr_kernel_cache_refused(&e, "error 7"), mr_kernel_cache_refused(&e, "error 7");
  NEED(notices == 1 && strstr(last, "error 7") && strstr(last, folder));
  keep("a", 2);
  NEED(kept("a") == 2);
}

static void uses_no_folder_of_others(void) {
  keep("a", 1);
  NEED(chmod(folder, 0777) == 0 && compiles("a", 2) && notices == 1);
  NEED(strstr(last, "other users may write") && chmod(folder, 0700) == 0 && kept("a") == 1);
  if (geteuid() == 0) {
    NEED(chown(folder, OTHER_USER, OTHER_USER) == 0 && compiles("a", 3));
    NEED(chown(folder, 0, 0) == 0 && kept("a") == 1);
  }
  NEED(notices == 1);
}

static void belongs_to_another(void) {
  if (geteuid() != 0) return;
  keep("a", 1);
  NEED(chown(folder, OTHER_USER, OTHER_USER) == 0 && compiles("a", 3) && notices == 1);
  NEED(strstr(last, "belongs to another user"));
}

static void is_no_folder(void) {
  setenv("MILLRACE_KERNELS", "/dev/null/kernels", 1);
  NEED(compiles("a", 1) && compiles("b", 2) && notices == 1 && strstr(last, "/dev/null/kernels"));
}

static void cannot_be_written(void) {
  keep("a", 1);
  NEED(chmod(folder, 0500) == 0);
  if (geteuid() == 0) { /* whom no mode stops */
    char path[512];
    NEED(files(path) == 1 && chown(path, OTHER_USER, OTHER_USER) == 0 && chmod(root, 0755) == 0);
    NEED(chown(folder, OTHER_USER, OTHER_USER) == 0 && setuid(OTHER_USER) == 0);
  }
  NEED(compiles("b", 2) && compiles("c", 3) && notices == 1 && strstr(last, "not kept"));
  NEED(kept("a") == 1); /* reading works */
}

static void is_full(void) {
  char path[512];
  const struct rlimit least = {BYTES / 2, BYTES / 2}; /* of a file */
  keep("a", 1);
  signal(SIGXFSZ, SIG_IGN);
  NEED(setrlimit(RLIMIT_FSIZE, &least) == 0);
  NEED(compiles("b", 2) && compiles("c", 3) && notices == 1 && strstr(last, "not kept"));
  NEED(kept("a") == 1 && files(path) == 1); /* the half of a file is removed */
}

/* Sparse files of 60 MiB: a fifth is too much. */
static void removes_the_oldest(void) {
  char path[512], kernels[5][512], other[256];
  keep("a", 1);
  snprintf(other, sizeof other, "%s/notes.txt", folder);
  write_there(other, "mine", 4);
  NEED(truncate(other, (off_t)1 << 30) == 0);
  for (int i = 0; i < 5; i++) {
    snprintf(path, sizeof path, "%s/%032d.kernel%s", folder, i, i == 2 ? "-0123456789abcdef" : "");
    snprintf(kernels[i], sizeof kernels[i], "%s", path);
    write_there(path, "", 0);
    const struct timespec old[2] = {{.tv_sec = 1000 - i}, {.tv_sec = 1000 - i}};
    NEED(truncate(path, 60 << 20) == 0 && utimensat(AT_FDCWD, path, old, 0) == 0);
  }
  keep("b", 2);
  for (int i = 0; i < 5; i++) NEED((access(kernels[i], F_OK) == 0) == (i < 4));
  NEED(kept("a") == 1 && kept("b") == 2 && access(other, F_OK) == 0);
  NEED(truncate(kernels[3], 0) == 0);
  const struct timespec old[2] = {{.tv_sec = 1}, {.tv_sec = 1}};
  DIR *d = opendir(folder);
  for (const struct dirent *f; (f = readdir(d));) /* a and b are older than all others, */
    if (strlen(f->d_name) == 39 && strncmp(f->d_name, "000000", 6) != 0)
      NEED(utimensat(dirfd(d), f->d_name, old, 0) == 0);
  closedir(d);
  NEED(kept("a") == 1); /* until a is read */
  NEED(truncate(kernels[3], 77 << 20) == 0);
  keep("c", 3);
  NEED(kept("a") == 1 && !kept("b") && kept("c") == 3 && notices == 0);
}

/* Every image that a process reads is one that a process wrote. */
static void is_shared_by_processes(void) {
  enum { PROCESSES = 4, TURNS = 300 };
  char path[512];
  pid_t child[PROCESSES];
  for (int i = 0; i < PROCESSES; i++)
    if ((child[i] = fork()) == 0) {
      int seen = 0;
      for (int k = 0; k < TURNS; k++) {
        keep(k % 2 ? "a" : "b", (char)(i + 1));
        seen += kept(k % 2 ? "b" : "a") != 0;
      }
      NEED(seen >= TURNS - 1 && notices == 0);
      _exit(0);
    }
  for (int i = 0; i < PROCESSES; i++) {
    int status = -1;
    NEED(waitpid(child[i], &status, 0) == child[i] && status == 0);
  }
  NEED(files(path) == 2 && kept("a") && kept("b"));
}

#define CASE(name, run) \
  static void name(void **state) { apart(run); }
CASE(a_second_process_finds_what_the_first_has_kept, keeps)
CASE(off_keeps_nothing_and_the_usual_folder_is_the_users_cache, is_off)
CASE(a_key_depends_on_every_part_and_its_place, tells_keys_apart)
CASE(any_damaged_bit_and_any_length_is_left_aside, leaves_damage_aside)
CASE(damage_is_said_once_and_replaced, says_damage_once)
CASE(another_versions_file_is_left_as_it_is, leaves_other_versions_as_they_are)
CASE(a_refused_image_is_said_once_and_replaced, replaces_what_a_driver_refuses)
CASE(a_folder_that_others_may_write_is_left_aside, uses_no_folder_of_others)
CASE(a_folder_of_another_user_is_left_aside, belongs_to_another)
CASE(a_folder_that_cannot_be_made_is_said_once, is_no_folder)
CASE(a_read_only_folder_is_read_and_said_once, cannot_be_written)
CASE(a_full_disk_is_said_once_and_leaves_no_half_file, is_full)
CASE(the_files_read_longest_ago_are_removed, removes_the_oldest)
CASE(processes_share_a_folder, is_shared_by_processes)

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_second_process_finds_what_the_first_has_kept),
      cmocka_unit_test(off_keeps_nothing_and_the_usual_folder_is_the_users_cache),
      cmocka_unit_test(a_key_depends_on_every_part_and_its_place),
      cmocka_unit_test(any_damaged_bit_and_any_length_is_left_aside),
      cmocka_unit_test(damage_is_said_once_and_replaced),
      cmocka_unit_test(another_versions_file_is_left_as_it_is),
      cmocka_unit_test(a_refused_image_is_said_once_and_replaced),
      cmocka_unit_test(a_folder_that_others_may_write_is_left_aside),
      cmocka_unit_test(a_folder_of_another_user_is_left_aside),
      cmocka_unit_test(a_folder_that_cannot_be_made_is_said_once),
      cmocka_unit_test(a_read_only_folder_is_read_and_said_once),
      cmocka_unit_test(a_full_disk_is_said_once_and_leaves_no_half_file),
      cmocka_unit_test(the_files_read_longest_ago_are_removed),
      cmocka_unit_test(processes_share_a_folder),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
