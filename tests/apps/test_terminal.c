/* What the program prints on a terminal of 40 and of 80 columns: no line is broken by the terminal.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <sys/ioctl.h>

#include "base/xio.h"
#include "tests/apps/program.h"

static char dir[64], path[96];

static int setup(void **state) {
  strcpy(dir, "/tmp/mr-tty-XXXXXX");
  if (!mkdtemp(dir)) return -1;
  snprintf(path, sizeof path, "%s/r", dir);
  return 0;
}

static int teardown(void **state) { return program_forget(dir); }

/* Runs the program on a terminal of this many columns; what it wrote there (heap). */
static char *on_terminal(const char *const *words, int columns, int *status) {
  char name[64], *text = malloc(1);
  size_t n = 0;
  int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
  assert_true(master >= 0 && grantpt(master) == 0 && unlockpt(master) == 0);
  assert_int_equal(ptsname_r(master, name, sizeof name), 0);
  FILE *slave = fopen(name, "r+e");
  assert_non_null(slave);
  assert_int_equal(
      ioctl(master, TIOCSWINSZ, &(struct winsize){.ws_row = 24, .ws_col = (unsigned short)columns}),
      0);
  pid_t pid = program_start(words, slave, slave);
  fclose(slave); /* the program's end is then the end of what can be read */
  for (ssize_t k = 1; k > 0; n += (size_t)k) {
    text = realloc(text, n + 4097);
    k = read(master, text + n, 4096);
    if (k <= 0) break;
  }
  text[n] = 0;
  *status = program_wait(pid);
  close(master);
  return text;
}

/* Every line, and every state of the live line, has room on the terminal: one that fills a line may
   not stay without a newline. */
static void every_line_fits(const char *text, int columns) {
  int used = 0;
  for (const char *c = text; *c; c++) {
    if (*c == '\r' || *c == '\n') {
      used = 0;
    } else if (!strncmp(c, "\033[K", 3)) {
      c += 2;
    } else if (((unsigned char)*c & 0xC0) != 0x80 && ++used > columns) {
      fail_msg("more than %d columns: ...%.60s", columns, c - columns);
    }
  }
}

static char *fits(int columns, const char *const *words) {
  int status;
  char *text = on_terminal(words, columns, &status);
  if (status) fail_msg("%s ends with %d: %s", words[0], status, text);
  every_line_fits(text, columns);
  return text;
}

#define FITS(columns, ...) fits(columns, (const char *const[]){__VA_ARGS__, NULL})

static void tables_fit_the_width_of_the_terminal(void **state) {
  static const int columns[] = {40, 80};
  for (int i = 0; i < 2; i++) {
    free(FITS(columns[i], "inspect"));
    free(FITS(columns[i], "inspect", "vit-step"));
    free(FITS(columns[i], "inspect", "publish"));
    char *text = FITS(columns[i], "summary", "--depth", "2");
    assert_non_null(strstr(text, "10,695,562"));
    free(text);
    text = FITS(columns[i], "explain", "step", "--layers", "1", "--batch", "2", "--amp-rule",
                "attn=compute");
    assert_non_null(strstr(text, "amp-rule")); /* "attn=compute" may be on the next line */
    free(text);
    text = FITS(columns[i], "mem", "step", "--layers", "1", "--batch", "2", "--slot-dtype", "bf16");
    assert_non_null(strstr(text, "slot.1,"));
    free(text);
  }
}

static void help_fits_the_width_of_the_terminal(void **state) {
  static const char *const command[] = {"train", "run", "serve", "mem", "jaxpr", "who", "bench"};
  for (size_t i = 0; i < sizeof command / sizeof *command; i++) {
    char *text = FITS(80, command[i], "--help");
    assert_non_null(strstr(text, "usage: millrace "));
    free(text);
    free(FITS(60, command[i], "--help"));
  }
  free(FITS(80, "--help"));
}

static void a_run_fits(void **state) {
  char *text =
      FITS(40, "train", "--data", "synthetic", "--run-dir", path, "--steps", "21", "batch=16",
           "train.layers=1", "train.embed=16", "train.heads=2", "train.mlp=16", "train.threads=1");
  assert_non_null(strstr(text, "\r\033[K")); /* there was a live line */
  assert_non_null(strstr(text, "Step 20, Loss: "));
  assert_non_null(strstr(text, "diagonals"));
  assert_non_null(strstr(text, "ledger "));
  free(text);
  text = FITS(40, "top", path, "--once");
  assert_non_null(strstr(text, "step 21/21"));
  free(text);
}

/* A line of one would follow the live line of the other. */
static void two_progress_stages_share_the_terminal(void **state) {
  static const char graph[] =
      "synthetic n=160 ! shuffle seed=1 epochs=1 ! normalize ! batch 8 ! delay 100000 asleep\n"
      "  ! vit-step name=train layers=1 embed=16 mlp=16 heads=2 patch=8\n"
      "train.metrics ! progress 1 name=a\n"
      "train.metrics ! progress 1000 name=b\n";
  char file[128];
  snprintf(file, sizeof file, "%s/two.mr", dir);
  assert_int_equal(mr_write_file(file, graph, sizeof graph - 1, NULL), MR_OK);
  char *text = FITS(40, "train", "--graph", file, "--run-dir", path);
  int lines = 0;
  for (const char *at = text; (at = strstr(at, "Step ")); at++) lines++;
  assert_int_equal(lines, 20); /* of stage a alone */
  free(text);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(tables_fit_the_width_of_the_terminal, setup, teardown),
      cmocka_unit_test_setup_teardown(help_fits_the_width_of_the_terminal, setup, teardown),
      cmocka_unit_test_setup_teardown(a_run_fits, setup, teardown),
      cmocka_unit_test_setup_teardown(two_progress_stages_share_the_terminal, setup, teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
