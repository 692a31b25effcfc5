/* Links between real processes that are killed at random moments.  What the receiver has done is a
   file of the numbers it got; it is read again by the next life. */
/* clang-format off */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/links/ends.h"
#include "tests/port.h"

typedef struct setup {
  const char *address;
  int64_t width, total;
  int kills;
  bool receiver_binds, shared;
  char file[64];
} setup_t;

static void die(const char *who, const mr_diag_t *diag) {
  fprintf(stderr, "%s: %s\n", who, diag->text);
  _exit(3);
}

static void nap_us(long us) {
  nanosleep(&(struct timespec){us / 1000000, us % 1000000 * 1000}, NULL);
}

/* ---- the sending process: its stream can begin at any number ---- */

static mr_link_t *open_out(const setup_t *t, const mr_spec_t *spec, int64_t first) {
  mr_diag_t diag = {0};
  mr_link_cfg_t cfg = {.name = "edge", .address = t->address, .bind = !t->receiver_binds};
  mr_link_t *l = NULL;
  for (int i = 0; i < 500 && !l; i++) { /* the address may still be a dying process' */
    diag = (mr_diag_t){0};
    if (!(l = mr_link_open_out(&cfg, spec, first, &diag))) nap_us(10000);
  }
  if (!l) die("sender", &diag);
  return l;
}

static void send_all(const setup_t *t) {
  mr_spec_t spec = ends_spec(t->width);
  mr_pool_t *pool = t->shared ? mr_pool_create_shared(&spec, 12) : mr_pool_create(&spec, 12);
  mr_diag_t diag = {0};
  mr_link_point_t asked;
  int64_t next = 0;
  mr_link_t *l = open_out(t, &spec, 0);
  while (!mr_link_done(l)) {
    if (mr_link_pump(l, &diag) < 0) die("sender", &diag);
    if (mr_link_asked(l, &asked) == MR_END) {
      mr_link_close(l);
      next = asked.number;
      if (asked.position != next * ENDS_BATCH) _exit(4);
      l = open_out(t, &spec, next);
    }
    ends_send(l, pool, &spec, &next, t->total);
    if (mr_link_pump(l, &diag) < 0) die("sender", &diag);
    mr_link_wait(l, 20);
  }
  mr_link_close(l);
  mr_pool_destroy(pool);
}

/* ---- the receiving process ---- */

static void take_one(const setup_t *t, const mr_spec_t *spec, int fd, mr_buf_t *b, int64_t number) {
  if (!ends_is(b, spec, number)) _exit(5);
  if (number % 2 == 0) nap_us(700); /* a slow step now and then, with buffers in hand */
  if (write(fd, &number, sizeof number) != sizeof number) _exit(6);
}

static void receive_all(const setup_t *t) {
  mr_spec_t spec = ends_spec(t->width);
  mr_diag_t diag = {0};
  mr_buf_t *b[4];
  int fd = open(t->file, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  int64_t done = lseek(fd, 0, SEEK_END) / 8;
  mr_link_point_t point = {.number = done, .epoch = done / 1000, .position = done * ENDS_BATCH};
  mr_link_cfg_t cfg = {
      .name = "edge", .address = t->address, .bind = t->receiver_binds, .linger_ms = 300};
  mr_link_t *l = NULL;
  for (int i = 0; i < 500 && !l; i++) {
    diag = (mr_diag_t){0};
    if (!(l = mr_link_open_in(&cfg, &spec, &point, &diag))) nap_us(10000);
  }
  if (!l) die("receiver", &diag);
  while (!mr_link_over(l)) {
    if (mr_link_pump(l, &diag) < 0) die("receiver", &diag);
    size_t k = mr_link_take(l, b, 4);
    for (size_t i = 0; i < k; i++) take_one(t, &spec, fd, b[i], done++);
    for (size_t i = 0; i < k; i++) mr_buf_unref(b[i]);
    if (!k) mr_link_wait(l, 20);
  }
  mr_link_close(l);
}

/* ---- the parent ---- */

static pid_t start(const setup_t *t, void (*life)(const setup_t *)) {
  pid_t parent = getpid(), p = fork();
  if (p) return p;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(9);
  life(t);
  _exit(0);
}

static void check_file(const setup_t *t) {
  int fd = open(t->file, O_RDONLY);
  int64_t number, n = 0;
  while (read(fd, &number, sizeof number) == sizeof number)
    if (number != n++) fail_msg("number %lld stands at %lld", (long long)number, (long long)n - 1);
  assert_int_equal(n, t->total);
  close(fd);
}

static int count_left(const char *dir, const char *with) {
  int n = 0;
  DIR *d = opendir(dir);
  for (struct dirent *e; d && (e = readdir(d));) n += strstr(e->d_name, with) != NULL;
  if (d) closedir(d);
  return n;
}

/* Ends when both have ended by themselves; until then one of them is killed every few milliseconds.
 */
static void torment(setup_t *t, unsigned seed) {
  static void (*const life[2])(const setup_t *) = {send_all, receive_all};
  pid_t pid[2];
  int killed = 0, ended = 0;
  snprintf(t->file, sizeof t->file, "/tmp/mr-link-%d.got", (int)getpid());
  unlink(t->file);
  for (int i = 0; i < 2; i++) pid[i] = start(t, life[i]);
  while (ended < 2) {
    int status, victim = rand_r(&seed) % 2;
    if (killed < t->kills && pid[victim] && !ended) {
      nap_us(3000 + rand_r(&seed) % 50000);
      kill(pid[victim], SIGKILL);
      killed++;
    }
    pid_t p = waitpid(-1, &status, killed < t->kills && !ended ? WNOHANG : 0);
    if (p <= 0) continue;
    int who = p == pid[1];
    pid[who] = 0;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
      ended++;
    } else if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) {
      pid[who] = start(t, life[who]);
    } else {
      kill(pid[!who], SIGKILL);
      fail_msg("process %d ended with status %x", who, status);
    }
  }
  check_file(t);
  unlink(t->file);
  assert_true(killed > t->kills / 2);
  const char *own = strrchr(t->file, '/') + 1;
  assert_int_equal(count_left("/dev/shm", "millrace-pool") + count_left("/dev/shm", own), 0);
  assert_int_equal(count_left("/tmp", "millrace-pool") + count_left("/tmp", own), 0);
}

static int kills(void) {
  const char *text = getenv("MR_LINK_KILLS");
  return text ? atoi(text) : 25;
}

static char tcp[64], ipc[64];

static void tcp_loses_nothing(void **state) {
  setup_t t = {.address = tcp, .width = ENDS_WIDTH, .total = 4000, .kills = kills()};
  torment(&t, 1);
}

static void tcp_loses_nothing_when_the_receiver_binds(void **state) {
  setup_t t = {
      .address = tcp, .width = 100, .total = 4000, .kills = kills(), .receiver_binds = true};
  torment(&t, 2);
}

static void shared_memory_loses_nothing(void **state) {
  setup_t t = {
      .address = ipc, .width = ENDS_WIDTH, .total = 4000, .kills = kills(), .shared = true};
  torment(&t, 3);
}

int main(void) {
  snprintf(tcp, sizeof tcp, "tcp://127.0.0.1:%d", port_free());
  snprintf(ipc, sizeof ipc, "ipc://@mr-link-%d", (int)getpid());
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(tcp_loses_nothing),
      cmocka_unit_test(tcp_loses_nothing_when_the_receiver_binds),
      cmocka_unit_test(shared_memory_loses_nothing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
