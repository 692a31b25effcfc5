/* Processes that share their caches: each block crosses the server's wire once, and a peer that is
   dead, lies or knows another token costs a request and no byte. */
#include <fcntl.h>
#include <signal.h>

#include "loaders/remote/remote_answer.h"
#include "loaders/remote/remote_cache.h"
#include "loaders/remote/remote_engine.h"
#include "loaders/remote/remote_peers.h"
#include "tests/loaders/cached.h"
#include "tests/loaders/origin.h"
#include "tests/loaders/shards.h"
#include "tests/port.h"

#include "tests/child.h" /* after cmocka.h */

enum { BYTES = 6000000, BLOCK = 16384, BLOCKS = (BYTES + BLOCK - 1) / BLOCK, PEERS = 3 };

#define TOKEN "0123456789abcdef"

static uint8_t content[BYTES];
static origin_t origin;
static char url[64];

static void fill_content(void) {
  round_t r = {.x = 5};
  for (int i = 0; i < BYTES; i++) content[i] = (uint8_t)draw(&r, 256);
}

static int start(void **state) {
  fill_content();
  origin_open(&origin, content, BYTES, 78);
  snprintf(url, sizeof url, "http://127.0.0.1:%d/x", origin.port);
  unsetenv("http_proxy"), unsetenv("HTTP_PROXY"), unsetenv("all_proxy"), unsetenv("ALL_PROXY");
  signal(SIGPIPE, SIG_IGN);
  return make_folder(state);
}

static int stop(void **state) {
  origin_close(&origin);
  return remove_folder(state);
}

static mr_remote_conf_t usual = {.connections = 8,
                                 .retries = 40,
                                 .backoff = 0.001,
                                 .timeout = 5,
                                 .ahead = 1 << 20,
                                 .cache_block = BLOCK,
                                 .cache_size = "10MB",
                                 .peer_token = TOKEN};

/* Ports for the processes, as "127.0.0.1:PORT", and the list of all. */
static char names[PEERS][32], list[PEERS * 40];

static void draw_names(void) {
  *list = 0;
  for (int i = 0; i < PEERS; i++) {
    int port = port_free();
    assert_true(port > 0);
    snprintf(names[i], sizeof names[i], "127.0.0.1:%d", port);
    snprintf(list + strlen(list), sizeof list - strlen(list), "%s%s", i ? "," : "", names[i]);
  }
}

static mr_remote_t *open_peer(const char *cache, const char *own, const char *peers,
                              const mr_object_t **o) {
  mr_remote_conf_t conf = usual;
  mr_remote_t *remote;
  mr_diag_t diag = {0};
  conf.cache = in_folder(cache), conf.peer = own, conf.peers = peers;
  if (mr_remote_open(&remote, &conf, &diag) < 0 || mr_remote_object(remote, url, o, &diag) < 0 ||
      mr_remote_start(remote, &diag) < 0) {
    fprintf(stderr, "%s\n", diag.text);
    return NULL;
  }
  return remote;
}

/* Reads every block, in an order drawn from the seed and announced; half of them with what follows.
   Writes a byte to `say`, if it is not -1, when a quarter is read.  False for a wrong byte. */
static bool read_all(mr_remote_t *remote, const mr_object_t *o, uint64_t seed, int say) {
  static uint8_t room[2 * BLOCK];
  int order[BLOCKS];
  round_t r = {.x = seed};
  mr_diag_t diag = {0};
  for (int i = 0; i < BLOCKS; i++) {
    int k = (int)draw(&r, (uint64_t)i + 1);
    order[i] = order[k], order[k] = i;
  }
  for (int pass = 0; pass < 2; pass++)
    for (int i = 0; i < BLOCKS; i++) {
      int64_t at = (int64_t)order[i] * BLOCK, size = i % 2 ? BLOCK : 2 * BLOCK;
      if (at + size > BYTES) size = BYTES - at;
      mr_remote_want_t want = {o, at, size, room};
      if (!pass) {
        mr_remote_tell(remote, &want, 1);
        continue;
      }
      memset(room, 0, sizeof room);
      if (mr_remote_read(remote, &want, 1, &diag) < 0)
        return fprintf(stderr, "%s\n", diag.text), false;
      if (memcmp(room, content + at, (size_t)size)) return false;
      if (i == BLOCKS / 4 && say >= 0 && write(say, "q", 1) != 1) return false;
    }
  return true;
}

typedef struct child {
  pid_t pid;
  int said, go; /* what it says, one byte at a time; it continues when `go` is closed */
} child_t;

static bool one_folder; /* the processes name the same folder */
static bool loads;      /* they load the object as a whole first, in windows, as a scan does */

static bool load_all(mr_remote_t *remote, const mr_object_t *o) {
  enum { WINDOW = 700000 };
  static uint8_t room[WINDOW];
  mr_diag_t diag = {0};
  for (int64_t at = 0; at < BYTES; at += WINDOW) {
    int64_t n = BYTES - at < WINDOW ? BYTES - at : WINDOW;
    mr_remote_want_t want = {o, at, n, room};
    if (mr_remote_load(remote, &want, true, &diag) < 0)
      return fprintf(stderr, "%s\n", diag.text), false;
    if (memcmp(room, content + at, (size_t)n)) return false;
  }
  return true;
}

/* What a process of the test does: reads everything, says "q", then "y" or "n", and answers peers
   until it may end.  It exits by the number of its notices. */
static int be_child(char **arg) {
  const mr_object_t *o;
  char byte;
  int said = atoi(arg[0]), go = atoi(arg[1]), i = atoi(arg[2]);
  const char *cache = arg[3];
  snprintf(folder, sizeof folder, "%s", arg[4]), snprintf(url, sizeof url, "%s", arg[5]);
  snprintf(list, sizeof list, "%s", arg[6]), snprintf(names[i], sizeof names[i], "%s", arg[7]);
  loads = atoi(arg[8]), usual.timeout = atof(arg[9]);
  fill_content();
  signal(SIGPIPE, SIG_IGN);
  mr_notice_to(count_notice, NULL);
  mr_remote_t *remote = open_peer(cache, names[i], list, &o);
  bool good =
      remote && (!loads || load_all(remote, o)) && read_all(remote, o, (uint64_t)i + 1, said);
  if (write(said, good ? "y" : "n", 1) != 1 || read(go, &byte, 1) != 0) return 100;
  mr_remote_close(remote);
  return n_notices;
}

static child_t start_child(int i, const char *cache) {
  int said[2], go[2];
  char number[12], name[32], seconds[32];
  assert_int_equal(pipe2(said, O_CLOEXEC) | pipe2(go, O_CLOEXEC), 0);
  snprintf(number, sizeof number, "%d", i), snprintf(seconds, sizeof seconds, "%g", usual.timeout);
  snprintf(name, sizeof name, one_folder ? "%s" : "%s-%d", cache, i);
  pid_t pid = start_anew(said[1], go[0],
                         (const char *const[]){number, name, folder, url, list, names[i],
                                               loads ? "1" : "0", seconds, NULL});
  assert_true(pid > 0);
  close(said[1]), close(go[0]);
  return (child_t){pid, said[0], go[1]};
}

static char hear(const child_t *c) {
  char byte = 0;
  return read(c->said, &byte, 1) == 1 ? byte : 0;
}

/* Lets a child end; returns what waitpid says. */
static int end_child(const child_t *c) {
  int status;
  close(c->go), close(c->said);
  assert_int_equal(waitpid(c->pid, &status, 0), c->pid);
  return status;
}

static void start_children(child_t *child, const char *cache) {
  draw_names();
  for (int i = 0; i < PEERS; i++) child[i] = start_child(i, cache);
}

static void each_block_crosses_the_wire_once(void **state) {
  child_t child[PEERS];
  long long before = origin.sent;
  usual.timeout = 60; /* what is sent again on a slow machine crosses the wire twice */
  start_children(child, "once");
  usual.timeout = 5;
  for (int i = 0; i < PEERS; i++) {
    assert_int_equal(hear(&child[i]), 'q');
    assert_int_equal(hear(&child[i]), 'y');
  }
  assert_int_equal(origin.sent - before, BYTES + PEERS); /* and a byte that identifies the object */
  for (int i = PEERS - 1; i >= 0; i--) assert_int_equal(end_child(&child[i]), 0);
}

static void files_loaded_at_the_start_cross_the_wire_once_too(void **state) {
  child_t child[PEERS];
  loads = true;
  long long before = origin.sent;
  usual.timeout = 60;
  start_children(child, "loaded");
  usual.timeout = 5;
  for (int i = 0; i < PEERS; i++) {
    assert_int_equal(hear(&child[i]), 'q');
    assert_int_equal(hear(&child[i]), 'y');
  }
  assert_int_equal(origin.sent - before, BYTES + PEERS);
  for (int i = PEERS - 1; i >= 0; i--) assert_int_equal(end_child(&child[i]), 0);
  loads = false;
}

/* The peers of one machine may name one folder: what each has kept is there for the next start of
   any of them, whichever starts first. */
static void peers_in_one_folder_keep_each_others_blocks(void **state) {
  child_t child[PEERS];
  long long before;
  one_folder = true;
  usual.timeout = 60;
  start_children(child, "one-folder");
  for (int i = 0; i < PEERS; i++) {
    assert_int_equal(hear(&child[i]), 'q');
    assert_int_equal(hear(&child[i]), 'y');
  }
  for (int i = PEERS - 1; i >= 0; i--) assert_int_equal(end_child(&child[i]), 0);
  assert_int_equal(count_cached("one-folder"), BLOCKS);
  for (int i = 0; i < PEERS; i++) { /* alone: each other peer does not answer */
    before = origin.sent;
    usual.timeout = 2;
    child_t alone = start_child(i, "one-folder");
    usual.timeout = 5;
    assert_int_equal(hear(&alone), 'q');
    assert_int_equal(hear(&alone), 'y');
    assert_true(WIFEXITED(end_child(&alone)));
    assert_int_equal(count_cached("one-folder"), BLOCKS);
    assert_int_equal(origin.sent - before, 1); /* the byte that identifies the object */
  }
  one_folder = false;
}

static void a_killed_peer_costs_no_byte(void **state) {
  child_t child[PEERS];
  start_children(child, "killed");
  assert_int_equal(hear(&child[0]), 'q');
  kill(child[2].pid, SIGKILL);
  for (int i = 0; i < 2; i++)
    for (char said = 0; said != 'y';) {
      said = hear(&child[i]);
      if (said != 'q' && said != 'y') fail_msg("process %d says %d", i, said);
    }
  assert_int_equal(WTERMSIG(end_child(&child[2])), SIGKILL);
  for (int i = 1; i >= 0; i--) {
    int status = end_child(&child[i]);
    assert_true(WIFEXITED(status) &&
                WEXITSTATUS(status) <= 2); /* and one more if both end together */
  }
}

static void a_peer_that_lies_costs_no_byte(void **state) {
  static const origin_way_t way[] = {ORIGIN_CORRUPT, ORIGIN_CUT,     ORIGIN_DROP,   ORIGIN_BUSY,
                                     ORIGIN_WHOLE,   ORIGIN_OTHER,   ORIGIN_SHORT,  ORIGIN_LONG,
                                     ORIGIN_PACKED,  ORIGIN_MISSING, ORIGIN_CHANGED};
  origin_t liar;
  char peers[100], cache[32];
  draw_names();
  origin_open(&liar, content, BYTES, 79);
  snprintf(peers, sizeof peers, "%s,127.0.0.1:%d", names[0], liar.port);
  liar.token = TOKEN;
  liar.peer = strchr(peers, ',') + 1;
  for (size_t i = 0; i < sizeof way / sizeof *way; i++) {
    const mr_object_t *o;
    mr_remote_counts_t counts;
    snprintf(cache, sizeof cache, "liar-%zu", i);
    liar.way = (int)way[i];
    int requests = liar.requests, notices = n_notices;
    mr_remote_t *remote = open_peer(cache, names[0], peers, &o);
    assert_non_null(remote);
    if (!read_all(remote, o, i + 1, -1)) fail_msg("way %d", (int)way[i]);
    mr_remote_count(remote, &counts);
    mr_remote_close(remote);
    if (liar.requests - requests < 1) fail_msg("way %d: it was not asked", (int)way[i]);
    if (n_notices != notices + 1) fail_msg("way %d: %d notices", (int)way[i], n_notices - notices);
  }
  liar.way = ORIGIN_WELL; /* the same peer when it tells the truth */
  const mr_object_t *o;
  mr_remote_counts_t counts;
  mr_remote_t *remote = open_peer("honest", names[0], peers, &o);
  long long before = origin.sent;
  assert_true(read_all(remote, o, 1, -1));
  mr_remote_count(remote, &counts);
  assert_true(counts.peer_bytes > BYTES / 10);
  assert_true(origin.sent - before < BYTES);
  mr_remote_close(remote);
  origin_close(&liar);
}

/* It answers as a peer does, with a checksum of its bytes, and finds no secret in what it is
   asked; one that knows the token of another job fares no better, nor does one of this job that
   answers for another peer. */
static void a_stranger_at_a_peers_port_gets_no_token_and_gives_no_byte(void **state) {
  static uint8_t forged[BYTES];
  static const struct {
    const char *token, *peer;
  } row[] = {{NULL, NULL}, {"another-token-of-16", NULL}, {TOKEN, "127.0.0.1:1"}};
  origin_t stranger;
  char peers[100], cache[32];
  draw_names();
  for (int i = 0; i < BYTES; i++) forged[i] = content[i] ^ 1;
  origin_open(&stranger, forged, BYTES, 79);
  snprintf(peers, sizeof peers, "%s,127.0.0.1:%d", names[0], stranger.port);
  stranger.secret = TOKEN;
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    const mr_object_t *o;
    snprintf(cache, sizeof cache, "stranger-%zu", i);
    stranger.token = row[i].token;
    stranger.peer = row[i].peer ? row[i].peer : strchr(peers, ',') + 1;
    int requests = stranger.requests, notices = n_notices;
    mr_remote_t *remote = open_peer(cache, names[0], peers, &o);
    assert_non_null(remote);
    if (!read_all(remote, o, i + 1, -1)) fail_msg("row %zu: forged bytes", i);
    mr_remote_close(remote);
    assert_true(stranger.requests > requests);
    assert_int_equal(n_notices, notices + 1);
  }
  assert_false(stranger.leaked);
  origin_close(&stranger);
}

/* A peer that stands still keeps the requests that are in flight, and no more of them wait for it.
 */
static void a_peer_that_stands_still_is_waited_for_once(void **state) {
  origin_t still;
  char peers[100];
  const mr_object_t *o;
  const mr_remote_conf_t before = usual;
  draw_names();
  origin_open(&still, content, BYTES, 80);
  snprintf(peers, sizeof peers, "%s,127.0.0.1:%d", names[0], still.port);
  usual.connections = 2, usual.timeout = 1, usual.ahead = 4 << 20;
  mr_remote_t *remote = open_peer("still", names[0], peers, &o);
  usual = before;
  assert_non_null(remote);
  still.way = ORIGIN_SILENT;
  int requests = still.requests;
  assert_true(read_all(remote, o, 1, -1));
  mr_remote_close(remote);
  /* Two for each time that it is asked again: after 5 s, and after twice as long each time, which
     makes 16 within the ten minutes that a test may take.  It owns hundreds of blocks. */
  assert_true(still.requests - requests <= 16);
  origin_close(&still);
}

static void a_peer_that_fails_rests_until_it_may_have_recovered(void **state) {
  const mr_object_t o = {.name = "http://h/x", .url = "http://h/x", .size = 1, .etag = "\"1\""};
  const mr_object_t *all = &o;
  const mr_remote_conf_t conf = {
      .cache = "x", .peer = "a:1", .peers = "a:1,b:2", .peer_token = TOKEN};
  mr__peers_t *p;
  mr_diag_t diag = {0};
  assert_int_equal(mr__peers_open(&p, &conf, &all, 1, &diag), MR_OK);
  assert_false(mr__peers_rests(p, 1));
  assert_non_null(mr__peers_object(p, 1, &o));
  mr__peers_failed(p, 1, "b");
  assert_true(mr__peers_rests(p, 1));
  assert_null(mr__peers_object(p, 1, &o));
  assert_false(mr__peers_rests(p, 0));
  mr__peers_close(p);
}

/* A process that takes connections and is silent keeps each question for two seconds. */
static void peers_are_waited_for_no_longer_than_the_timeout(void **state) {
  const mr_object_t o = {.name = "http://h/x", .url = "http://h/x", .size = 1, .etag = "\"1\""};
  const mr_object_t *all = &o;
  mr_remote_conf_t conf = usual;
  mr__peers_t *p;
  mr_diag_t diag = {0};
  char peers[200] = "a:1";
  int fd[PEERS], asked = 0, notices = n_notices;
  for (int i = 0; i < PEERS; i++) {
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof a;
    fd[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    assert_int_equal(bind(fd[i], (struct sockaddr *)&a, sizeof a) | listen(fd[i], 8), 0);
    getsockname(fd[i], (struct sockaddr *)&a, &len);
    snprintf(peers + strlen(peers), sizeof peers - strlen(peers), ",127.0.0.1:%d",
             ntohs(a.sin_port));
  }
  conf.cache = in_folder("waited"), conf.peer = "a:1", conf.peers = peers;
  assert_int_equal(mr__peers_open(&p, &conf, &all, 1, &diag), MR_OK);
  mr__peers_wait(p, 0.2);
  for (int i = 0; i < PEERS; i++) {
    int client = accept(fd[i], NULL, NULL);
    asked += client >= 0;
    if (client >= 0) close(client);
    close(fd[i]);
    assert_true(mr__peers_rests(p, i + 1));
  }
  assert_true(asked <= 1); /* no second one after the time is over */
  assert_int_equal(n_notices - notices, PEERS);
  mr__peers_close(p);
}

static void two_sources_of_a_process_need_two_ports(void **state) {
  const mr_object_t *o;
  mr_remote_conf_t conf = usual;
  mr_remote_t *remote;
  mr_diag_t diag = {0};
  draw_names();
  for (int i = 0; i < 2; i++) { /* once more when the first one has ended */
    mr_remote_t *first = open_peer("two", names[0], names[0], &o);
    assert_non_null(first);
    conf.cache = in_folder("two"), conf.peer = conf.peers = names[0];
    assert_int_equal(mr_remote_open(&remote, &conf, &diag), MR_OK);
    assert_int_equal(mr_remote_start(remote, &diag), MR_ERR_CONFIG);
    assert_non_null(strstr(diag.text, "another source of this process answers there"));
    mr_remote_close(remote);
    mr_remote_close(first);
  }
}

/* What a process answers to a request with these headers. */
static void want_answer(const char *path, const char *headers, const char *answer) {
  char at[200], text[64];
  mr_diag_t diag = {0};
  snprintf(at, sizeof at, "http://%s%s", names[0], path);
  mr_err_t e = mr__engine_plain("GET", at, headers, text, sizeof text, &diag);
  if (!answer) assert_int_equal(e, MR_OK);
  if (answer && !strstr(diag.text, answer))
    fail_msg("%s: want %s, got %s", path, answer, diag.text);
}

/* The same to a request for `path` that proves to know a token for `proven` of a peer. */
static void want_proof(const char *token, const char *peer, const char *proven, const char *path,
                       const char *answer) {
  mr_proof_about_t about = {token, peer, proven, 5, 10};
  char headers[60 + MR_PROOF_TEXT], proof[MR_PROOF_TEXT];
  assert_true(mr__proof_ask(&about, proof));
  snprintf(headers, sizeof headers, "Authorization: Millrace %s\r\nRange: bytes=5-14", proof);
  want_answer(path, headers, answer);
}

static void without_the_token_there_is_no_byte(void **state) {
  const mr_object_t *o;
  char path[MR_PEER_PATH] = "/";
  draw_names();
  mr_remote_t *remote = open_peer("token", names[0], names[0], &o);
  assert_non_null(remote);
  mr__cache_state(o, path + 1);
  want_answer("/", NULL, NULL);
  want_answer(path, NULL, "401");
  want_answer(path, "Authorization: Bearer " TOKEN, "401"); /* the token itself is no proof */
  want_proof("0123456789abcdeF", names[0], path, path, "401");
  want_proof("0123456789abcdef0", names[0], path, path, "401");
  want_proof(TOKEN, "127.0.0.1:1", path, path, "401"); /* asked of another peer */
  want_proof(TOKEN, names[0], "/0123", path, "401");   /* for another object */
  want_proof(TOKEN, names[0], "/0123", "/0123", "404");
  mr_remote_close(remote);
}

static void ranges_are_parsed(void **state) {
  static const struct {
    const char *text;
    int64_t first, n; /* n 0: refused */
  } row[] = {{"bytes=0-0", 0, 1},
             {"bytes=5-99", 5, 95},
             {"bytes=5-100", 0, 0},
             {"bytes=9-5", 0, 0},
             {"bytes=-5", 0, 0},
             {"bytes=5-", 0, 0},
             {"bytes=1-2,4-5", 0, 0},
             {"bytes= 1-2", 0, 0},
             {"bytes=1-2 ", 0, 0},
             {"bytes", 0, 0},
             {"", 0, 0},
             {"items=1-2", 0, 0},
             {"bytes=-1-2", 0, 0},
             {"bytes=99999999999999999999-2", 0, 0}};
  int64_t first, n;
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    bool good = mr__serve_range(row[i].text, 100, &first, &n);
    if (good != (row[i].n > 0)) fail_msg("%s", row[i].text);
    if (good) assert_true(first == row[i].first && n == row[i].n);
  }
  assert_false(mr__serve_range("bytes=0-8388608", INT64_C(1) << 40, &first, &n));
  assert_true(mr__serve_range("bytes=0-8388607", INT64_C(1) << 40, &first, &n));
}

static void want_peers_refused(const char *own, const char *peers, const char *token,
                               const char *cache, const char *piece) {
  mr_remote_conf_t conf = usual;
  mr_remote_t *remote;
  mr_diag_t diag = {0};
  conf.peer = own, conf.peers = peers, conf.peer_token = token, conf.cache = cache;
  assert_int_equal(mr_remote_open(&remote, &conf, NULL), MR_OK);
  assert_int_equal(mr_remote_start(remote, &diag), MR_ERR_CONFIG);
  if (!strstr(diag.text, piece)) fail_msg("want %s, got %s", piece, diag.text);
  mr_remote_close(remote);
}

static void wrong_settings_are_refused(void **state) {
  const char *c = in_folder("wrong");
  unsetenv("MILLRACE_PEER_TOKEN");
  want_peers_refused("a:1", "a:1,b:2", TOKEN, NULL, "cache=FOLDER");
  want_peers_refused(NULL, "a:1,b:2", TOKEN, c, "peer=HOST:PORT");
  want_peers_refused("c:1", "a:1,b:2", TOKEN, c, "one of those");
  want_peers_refused("a:1", "a:1,a:1", TOKEN, c, "named twice");
  want_peers_refused("a:1", "a:1,b", TOKEN, c, "HOST:PORT,HOST:PORT");
  want_peers_refused("a:1", "a:1,b@c:2", TOKEN, c, "HOST:PORT,HOST:PORT");
  want_peers_refused("a:1", "a:1,b/c:2", TOKEN, c, "HOST:PORT,HOST:PORT");
  want_peers_refused("a:1", "a:1,b:70000", TOKEN, c, "HOST:PORT,HOST:PORT");
  want_peers_refused("a:1", "a:1,b:2", "short", c, "want a token");
  want_peers_refused("a:1", "a:1,b:2", NULL, c, "want a token");
  usual.cache_block = MR_SERVE_MOST + 1;
  want_peers_refused("a:1", "a:1,b:2", TOKEN, c,
                     "cache-block = 8388609: with setting peers want at most 8388608 bytes");
  usual.cache_block = BLOCK;
}

int main(int argc, char **argv) {
  if (argc > 1) return be_child(argv + 1);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(each_block_crosses_the_wire_once),
      cmocka_unit_test(files_loaded_at_the_start_cross_the_wire_once_too),
      cmocka_unit_test(peers_in_one_folder_keep_each_others_blocks),
      cmocka_unit_test(a_killed_peer_costs_no_byte),
      cmocka_unit_test(a_peer_that_lies_costs_no_byte),
      cmocka_unit_test(a_stranger_at_a_peers_port_gets_no_token_and_gives_no_byte),
      cmocka_unit_test(a_peer_that_stands_still_is_waited_for_once),
      cmocka_unit_test(a_peer_that_fails_rests_until_it_may_have_recovered),
      cmocka_unit_test(peers_are_waited_for_no_longer_than_the_timeout),
      cmocka_unit_test(two_sources_of_a_process_need_two_ports),
      cmocka_unit_test(without_the_token_there_is_no_byte),
      cmocka_unit_test(ranges_are_parsed),
      cmocka_unit_test(wrong_settings_are_refused),
  };
  return cmocka_run_group_tests(tests, start, stop);
}
