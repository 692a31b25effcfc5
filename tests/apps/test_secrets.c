/* A run whose graph is full of secrets, through every face of it: what a command prints, what the
   page sends, and what lies in the run's folder hold none of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <ftw.h>
#include <glob.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/shown.h"
#include "base/xio.h"
#include "links/links.h"
#include "loaders/loaders.h"
#include "pipeline/registry.h"
#include "sinks/sinks.h"
#include "stages/stages.h"
#include "tests/apps/program.h"
#include "tests/loaders/origin.h"
#include "tests/port.h"

static const char *const secret[] = {"zebra", "heron", "otter", "wombat", "badger", "ferret"};
enum { SECRETS = sizeof secret / sizeof *secret };

static char dir[64], run[96], file[96];
static char records[512], url[128]; /* the source of that graph alone, and what it reads */
static origin_t origin;
static void *shard;
static program_t p;

static void has_none(const char *what, const char *text) {
  for (int i = 0; i < SECRETS; i++)
    if (strstr(text, secret[i])) fail_msg("%s shows %s: %s", what, secret[i], text);
}

static void program_has_none(const char *what) { has_none(what, p.out), has_none(what, p.err); }

/* Writes n numbers as numpy.save does. */
static int write_numbers(const char *path, const char *shape, int n) {
  FILE *f = fopen(path, "wb");
  char head[120];
  if (!f) return -1;
  fwrite("\x93NUMPY\1\0\x76\0", 1, 10, f); /* 118 bytes of header follow */
  int k =
      snprintf(head, sizeof head, "{'descr': '<f4', 'fortran_order': False, 'shape': %s, }", shape);
  fprintf(f, "%s%*s\n", head, 117 - k, "");
  for (int i = 0; i < n; i++) fwrite(&(float){(float)(i % 7) / 8}, sizeof(float), 1, f);
  return fclose(f);
}

/* Packs 64 records of a regression as one tar file. */
static int pack_numbers(void) {
  char x[96], y[96], fields[300], packed[96];
  snprintf(x, sizeof x, "%s/x.npy", dir), snprintf(y, sizeof y, "%s/y.npy", dir);
  snprintf(packed, sizeof packed, "%s/packed", dir);
  if (write_numbers(x, "(64, 4)", 256) || write_numbers(y, "(64,)", 64)) return -1;
  snprintf(fields, sizeof fields, "npy fields=x:%s,y:%s", x, y);
  RUN(&p, "pack", fields, "-o", packed, "--records", "64");
  if (p.status) fprintf(stderr, "%s", p.err);
  return p.status;
}

static int setup(void **state) {
  char text[2048], path[96];
  size_t n;
  strcpy(dir, "/tmp/mr-secrets-XXXXXX");
  if (!mkdtemp(dir)) return -1;
  for (const char *const *v = (const char *const[]){"http_proxy", "all_proxy", "ALL_PROXY", NULL};
       *v; v++)
    unsetenv(*v);
  snprintf(run, sizeof run, "%s/r", dir);
  snprintf(file, sizeof file, "%s/g.mr", dir);
  if (pack_numbers()) return -1;
  snprintf(path, sizeof path, "%s/packed/shard-00000.tar", dir);
  if (mr_read_file(path, (size_t)1 << 26, &shard, &n, NULL) < 0) return -1;
  origin_open(&origin, shard, n, 1);
  snprintf(url, sizeof url, "http://zebra:heron@127.0.0.1:%d/s.tar?X-Amz-Signature=otter",
           origin.port);
  snprintf(records, sizeof records, "tar %s fields=x.npy:x:npy,y.npy:y:npy peer-token=wombat-9",
           url);
  int length =
      snprintf(text, sizeof text,
               "let run = x\n"
               "let word = wombat\n"
               "let inner = a${word}b\n"
               "tar http://zebra:heron@127.0.0.1:%d/s.tar?X-Amz-Signature=otter name=data "
               "fields=x.npy:x:npy,y.npy:y:npy peer-token=$inner ! shuffle seed=1 epochs=0 "
               "! batch 16 drop-remainder "
               "! train-step name=train model=mlp hidden=8 threads=1 steps=1000000\n"
               "train.metrics ! telemetry every=0 name=t\n"
               "t. ! jsonl path=$run/metrics.jsonl\n"
               "t. ! csv path=$run/metrics.csv\n"
               "t. ! tensorboard dir=$run/tb\n"
               "t. ! web port=0\n"
               "t. ! alert command='true badger' webhook=http://127.0.0.1:1/ferret\n"
               "train.state ! checkpoint dir=$run/checkpoints\n",
               origin.port);
  return mr_write_file(file, text, (size_t)length, NULL) < 0 ? -1 : 0;
}

static int teardown(void **state) {
  origin_close(&origin);
  free(shard);
  return program_forget(dir);
}

/* ---- a live run ---- */

static FILE *out, *err;
static pid_t pid;

/* The port and the token of the page, once the run has said them. */
static int page_of(char token[128]) {
  char said[8192];
  for (;; usleep(5000)) {
    int port;
    ssize_t k = pread(fileno(out), said, sizeof said - 1, 0);
    said[k > 0 ? k : 0] = 0;
    const char *at = strstr(said, "http://127.0.0.1:");
    if (at && strchr(at, '\n') &&
        sscanf(at, "http://127.0.0.1:%d/?token=%127[^\r\n]", &port, token) == 2)
      return port;
    if (waitpid(pid, NULL, WNOHANG) == pid) {
      program_read(err, p.err, sizeof p.err);
      fail_msg("the run has ended: %s%s", said, p.err);
    }
  }
}

/* The first bytes of what the page answers, at most most of them; all of them if it ends (heap). */
static char *answer_of(int port, const char *token, const char *path, size_t most) {
  char text[512], *answer = malloc(most + 1);
  size_t have = 0;
  struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
  a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  int n = snprintf(text, sizeof text, "GET /%s?token=%s HTTP/1.0\r\nHost: 127.0.0.1:%d\r\n\r\n",
                   path, token, port);
  if (connect(fd, (struct sockaddr *)&a, sizeof a) || send(fd, text, (size_t)n, MSG_NOSIGNAL) != n)
    fail_msg("nobody answers for %s", path);
  for (ssize_t k = 1; k > 0 && have<most; have += k> 0 ? (size_t)k : 0)
    k = recv(fd, answer + have, most - have, 0);
  close(fd);
  for (size_t i = 0; i < have; i++)
    if (!answer[i]) answer[i] = ' ';
  answer[have] = 0;
  return answer;
}

static void the_page_shows_no_secret(void **state) {
  static const char *const face[] = {"", "run.json", "events"};
  const char *words[] = {"train", "--graph", file, "--run-dir", run, "--threads", "1", NULL};
  char token[128];
  out = tmpfile(), err = tmpfile();
  pid = program_start(words, out, err);
  int port = page_of(token);
  for (size_t i = 0; i < sizeof face / sizeof *face; i++) {
    char *answer = answer_of(port, token, face[i], 1 << 16);
    if (!strstr(answer, " 200 ")) fail_msg("%s: %s", face[i], answer);
    if (!strcmp(face[i], "run.json")) assert_non_null(strstr(answer, "/s.tar"));
    has_none(face[i], answer);
    free(answer);
  }
  kill(pid, SIGTERM);
  program_wait(pid);
  program_read(out, p.out, sizeof p.out);
  program_read(err, p.err, sizeof p.err);
  program_has_none("train");
}

/* ---- files ---- */

static int n_files;

static bool bytes_hold(const char *data, size_t n, const char *word) {
  return memmem(data, n, word, strlen(word)) != NULL;
}

/* A resume needs the graph and the settings as they were given; no other user may read them. */
static int look_into(const char *path, const struct stat *st, int type, struct FTW *at) {
  void *data;
  size_t n;
  const char *name = path + at->base;
  if (type != FTW_F || !strcmp(path, file) ||
      mr_read_file(path, (size_t)1 << 28, &data, &n, NULL) < 0)
    return 0;
  bool own =
      !strcmp(name, "graph.mr") || !strcmp(name, "settings.txt") || !strcmp(name, "history.jsonl");
  if (own && st->st_mode & 077) fail_msg("%s has mode %04o", path, (unsigned)st->st_mode & 07777u);
  for (int i = 0; i < SECRETS && !own; i++)
    if (bytes_hold(data, n, secret[i])) fail_msg("%s holds %s", path, secret[i]);
  free(data);
  n_files++;
  return 0;
}

static void no_file_that_others_can_read_holds_a_secret(void **state) {
  n_files = 0;
  assert_int_equal(nftw(run, look_into, 16, FTW_PHYS), 0);
  assert_in_range(n_files, 7, 1000);
  assert_int_equal(nftw(dir, look_into, 16, FTW_PHYS), 0); /* of all commands */
  assert_in_range(n_files, 40, 5000);
}

/* ---- commands ---- */

/* Whether every command of the help has a line. */
static void each_command_has_a_line(const char *const line[][12], int lines) {
  int n = 0;
  RUN(&p, "--help");
  for (const char *at = p.out; (at = strstr(at, "\n  ")) != NULL; at += 3) {
    char command[32];
    bool found = false;
    if (sscanf(at, "\n  %31[a-z]", command) != 1) continue;
    for (int i = 0; i < lines; i++) found |= !strcmp(line[i][0], command);
    if (!found) fail_msg("%s: add a line of it that is full of secrets", command);
    n++;
  }
  assert_in_range(n, 20, 100);
}

/* The step whose loss is no number, which depends on how sums are rounded. */
static void find_traced(const char *run_dir, char *path, size_t n) {
  char pattern[160];
  glob_t g;
  snprintf(pattern, sizeof pattern, "%s/nan-*.safetensors", run_dir);
  if (glob(pattern, 0, NULL, &g)) fail_msg("there is no %s", pattern);
  assert_true(strlen(g.gl_pathv[0]) < n);
  strcpy(path, g.gl_pathv[0]);
  globfree(&g);
}

/* A command that is added, and has no line here, is noticed. */
static void no_command_shows_a_secret(void **state) {
  char other[96], latest[160], nan[96];
  snprintf(other, sizeof other, "%s/other", dir);
  snprintf(latest, sizeof latest, "%s/checkpoints/latest", run);
  RUN(&p, "train", "--graph", file, "--run-dir", other, "--threads", "1", "train.steps=2",
      "word=wombat-2", "alert.command=true badger");
  if (p.status) fail_msg("%s%s", p.out, p.err);
  program_has_none("a second run");
  snprintf(nan, sizeof nan, "%s/nan", dir);
  char profile[3][96], packed[96], table[96], trace[96], traced[128], batches[540];
  char weights[96], mistakes[96];
  snprintf(batches, sizeof batches, "%s ! batch 16", records);
  snprintf(profile[0], sizeof *profile, "--trace=%s/trace.json", dir);
  snprintf(profile[1], sizeof *profile, "--flame=%s/flame.svg", dir);
  snprintf(profile[2], sizeof *profile, "--json=%s/profile.json", dir);
  snprintf(packed, sizeof packed, "%s/again", dir), snprintf(table, sizeof table, "%s/p.csv", dir);
  snprintf(weights, sizeof weights, "%s/w.safetensors", dir);
  snprintf(mistakes, sizeof mistakes, "%s/mistakes.jsonl", dir);
  snprintf(trace, sizeof trace, "%s/trace", dir);
  const char *const line[][12] = {
      {"train", "--graph", file, "--run-dir", nan, "--threads", "1", "train.steps=300",
       "train.lr=100", "train.optimizer=sgd", "train.on-nan=skip"}, /* the alert tells of it */
      {"graph", file},
      {"graph", file, "data.peer-token=wombat-3"},
      {"runs", dir},
      {"runs", run, other},
      {"top", "--once", other},
      {"who", other, "--step", "1"},
      {"batch", other, "--step", "1"},
      {"inspect", run},
      {"inspect", latest},
      {"eval", latest},
      {"eval", latest, "--mistakes", mistakes},
      {"export", latest, "--format", "timm", "--out", weights},
      {"checkpoint", "verify", other},
      {"train", "--run-dir", other, "--resume", "--steps", "3", "word=wombat-4"},
      {"graph", file, "word=wombat-5", "word=wombat-6"},
      {"graph", file, "data.peer-token=wombat-5", "data.peer-token=wombat-6"},
      {"run", file, "alert.webhook=wombat-8://ferret", "run=/nowhere"},
      {"train", "--run-dir", other, "--resume", "data.peer-token=wombat\n-7"},
      {"profile", file, "--steps=1", profile[0], profile[1], profile[2]},
      {"doctor", file, "--json"},
      {"pack", records, "-o", packed, "--records=32"},
      {"pack", records, "-o", packed, "--records=16"}, /* of another pack */
      {"predict", latest, url, "--out", table},
      {"serve", batches, "--bind=tcp://256.0.0.1:1"},
      {"train", "--graph", file, "--run-dir", trace, "--threads", "1", "train.steps=300",
       "train.lr=100", "train.optimizer=sgd", "train.on-nan=trace"},
      {"replay", traced},
      {"bench", url},
      {"data", url},
      {"explain", url},
      {"index", url},
      {"jaxpr", url},
      {"keys", "/nowhere/http://zebra:heron@x"},
      {"mem", url},
      {"summary", url},
  };
  enum { LINES = sizeof line / sizeof *line };
  each_command_has_a_line(line, LINES);
  for (size_t i = 0; i < LINES; i++) {
    if (!strcmp(line[i][0], "replay")) find_traced(trace, traced, sizeof traced);
    program_run(&p, line[i]);
    char what[200];
    snprintf(what, sizeof what, "%s (line %zu)", line[i][0], i);
    program_has_none(what);
    if (!i && !strstr(p.err, "webhook")) fail_msg("no alert: %s%s", p.out, p.err);
    if (!strcmp(line[i][0], "replay") && p.status) fail_msg("replay: %s", p.err);
  }
  RUN(&p, "graph", file);
  if (p.status || !strstr(p.out, "(hidden)") || !strstr(p.out, "/s.tar"))
    fail_msg("%s%s", p.out, p.err);
  RUN(&p, "runs", run, other);
  if (p.status || !strstr(p.out, "train.steps")) fail_msg("%s%s", p.out, p.err);
}

/* ---- every setting that there is ---- */

static void each_setting_of_each_stage_is_shown_without_secrets(void **state) {
  static const char *const given[] = {
      "https://zebra:heron@host:8/a/b?sig=otter#ferret",
      "https://zebra:he/ron?@host/a?sig=otter",
      "http://host/a?sig=otter,http://zebra:heron@host/b",
      "s3://zebra:heron@bucket/key",
      "http://zebra:heron@host/{000..100}.tar",
      "a.tar,https://zebra:heron@host/x",
  };
  static mr_registry_t all;
  int secrets = 0;
  mr_registry_add(&all, mr_loaders_stages);
  mr_registry_add(&all, mr_stages_stages);
  mr_registry_add(&all, mr_links_stages);
  mr_registry_add(&all, mr_sinks_stages);
  for (int i = 0; i < all.n; i++)
    for (const mr_opt_t *o = all.def[i]->opts; o && o->type != MR_OPT_END; o++) {
      for (size_t k = 0; k < sizeof given / sizeof *given; k++) {
        char *shown = mr_shown(o, given[k]);
        assert_non_null(shown);
        has_none(o->name, shown);
        free(shown);
      }
      if (o->type != MR_OPT_SECRET) continue;
      char *shown = mr_shown(o, "badger");
      assert_string_equal(shown, "(hidden)");
      free(shown), secrets++;
    }
  assert_in_range(secrets, 3, 1000);
}

static void a_setting_that_is_no_secret_is_shown_as_it_is(void **state) {
  static const char *const row[][2] = {
      {"", ""},
      {"a@b?c", "a@b?c"},
      {"s3://bucket/a?b@c", "s3://bucket/a?b@c"},
      {"http://host/{0..9}.tar", "http://host/{0..9}.tar"},
      {"file:///a?b", "file:///a?b"},
      {"https://u:p@host:8/a/b?sig=1#x", "https://host:8/a/b"},
  };
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    char *shown = mr_shown(NULL, row[i][0]);
    assert_string_equal(shown, row[i][1]);
    free(shown);
  }
  assert_null(mr_shown(NULL, NULL));
}

/* Whatever a word of the command line is taken for. */
static void no_sentence_about_a_url_shows_a_secret(void **state) {
  static const char *const words[][4] = {
      {"run", "", NULL},           {"graph", "", NULL},  {"inspect", "", NULL},
      {"train", "", NULL},         {"doctor", "", NULL}, {"predict", "", "", NULL},
      {"data", "fetch", "", NULL}, {"eval", "", NULL},   {"who", "", "--step=1", NULL},
      {"top", "", "--once", NULL}, {"mem", "", NULL},    {"bench", "", NULL}};
  static const char *const form[] = {"http://zebra:heron@127.0.0.1:1/x?sig=otter",
                                     "hxtp://zebra:heron@127.0.0.1:1/x?sig=otter",
                                     "'http://zebra:he/ron@127.0.0.1:1/x#otter'"};
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    for (size_t k = 0; k < sizeof form / sizeof *form; k++) {
      const char *given[4] = {NULL};
      for (int w = 0; w < 4 && words[i][w]; w++) given[w] = *words[i][w] ? words[i][w] : form[k];
      program_run(&p, given);
      program_has_none(words[i][0]);
    }
}

static void a_sentence_keeps_all_but_what_gives_access(void **state) {
  static const char *const row[][2] = {
      {"no URL at all: a@b?c", "no URL at all: a@b?c"},
      {"://", "://"},
      {"http://u:p@h/a?s=1: cannot be opened", "http://h/a: cannot be opened"},
      {"want \"https://u:p@h/a#s\", or http://h/b?q, or c",
       "want \"https://h/a\", or http://h/b, or c"},
      {"s3://key:word@bucket/a?b@c: no", "s3://bucket/a?b@c: no"},
      {"tcp://127.0.0.1:5: in use; ipc://@name and file:///a?b", NULL},
      {"(http://u:p@h/x?y)", "(http://h/x)"},
  };
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    char text[128];
    snprintf(text, sizeof text, "%s", row[i][0]);
    mr_hide_access(text);
    assert_string_equal(text, row[i][1] ? row[i][1] : row[i][0]);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_page_shows_no_secret),
      cmocka_unit_test(no_command_shows_a_secret),
      cmocka_unit_test(no_file_that_others_can_read_holds_a_secret),
      cmocka_unit_test(each_setting_of_each_stage_is_shown_without_secrets),
      cmocka_unit_test(a_setting_that_is_no_secret_is_shown_as_it_is),
      cmocka_unit_test(no_sentence_about_a_url_shows_a_secret),
      cmocka_unit_test(a_sentence_keeps_all_but_what_gives_access),
  };
  return cmocka_run_group_tests(tests, setup, teardown);
}
