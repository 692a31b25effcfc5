/* Records of any fields through graphs of several processes: every byte of every field is that of a
   run in one process, and what a plain evaluation of the graph gives for the record's key, also
   where each process is killed in between. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <sys/stat.h>

#include "tests/apps/plugins/fields.h"
#include "tests/apps/processes.h"
#include "tests/npz.h"
#include "tests/random.h"

/* ---- what a graph makes of a record ---- */

typedef struct column {
  char name[MR_FIELD_NAME];
  uint64_t set; /* it was field f of this set */
  int f, stirs; /* times that it went through stir */
} column_t;

typedef struct table {
  int n;
  column_t column[MR_FIELDS_MAX];
} table_t;

static void add_set(table_t *t, uint64_t set, const char *prefix) {
  mr_spec_t spec = fields_of(set);
  for (int f = 0; f < spec.n_fields; f++) {
    column_t *c = &t->column[t->n++];
    *c = (column_t){.set = set, .f = f};
    assert_true(snprintf(c->name, sizeof c->name, "%s%s", prefix, spec.field[f].name) <
                (int)sizeof c->name);
  }
}

/* Column c of the record of this key into out; returns its bytes, and its rows in *rows. */
static size_t value_of(const column_t *c, uint64_t key, char *out, int64_t *rows) {
  mr_spec_t spec = fields_of(c->set);
  const mr_field_t *field = &spec.field[c->f];
  char was[4096];
  assert_true(mr_field_bytes(field) <= sizeof was);
  *rows = fields_value(&spec, c->set, c->f, key, out);
  for (int i = 0; i < c->stirs; i++) {
    memcpy(was, out, sizeof was);
    *rows = fields_stir(field, key, was, *rows, out);
  }
  return field->ragged ? (size_t)*rows * mr_field_row(field) : mr_field_bytes(field);
}

/* ---- files of batches ---- */

static const char *take(const char **at, size_t n) {
  const char *part = *at;
  *at += n;
  return part;
}

static void is_column(const column_t *c, int64_t n, const uint64_t *key, const char **at,
                      const char *end) {
  char want[4096];
  fields_part_t part;
  memcpy(&part, take(at, sizeof part), sizeof part);
  assert_string_equal(part.name, c->name);
  const int64_t *offset = NULL;
  int64_t where[65537] = {0}, rows;
  if (part.ragged) {
    memcpy(where, take(at, (size_t)(n + 1) * 8), (size_t)(n + 1) * 8);
    offset = where;
    assert_int_equal(offset[0], 0);
  }
  const char *values = take(at, (size_t)part.bytes);
  assert_true(*at <= end);
  for (int64_t i = 0; i < n; i++) {
    size_t bytes = value_of(c, key[i], want, &rows);
    if (offset) assert_int_equal(offset[i + 1] - offset[i], rows);
    const char *from = values + (offset ? offset[i] : i) * part.each;
    assert_memory_equal(from, want, bytes);
  }
}

static char *batch_file(const char *name, int number, size_t *n) {
  char path[TEXT_MAX];
  void *bytes;
  snprintf(path, sizeof path, "%s/%s.d/%06d", dir, name, number);
  if (access(path, F_OK)) return NULL;
  mr_diag_t why = {0};
  if (mr_read_file(path, 1 << 28, &bytes, n, &why) < 0) fail_msg("%s", why.text);
  return bytes;
}

/* Every record of every batch of a run, against the table; returns how many records. */
static int64_t is_table(const char *name, const table_t *t) {
  int64_t records = 0;
  char *bytes;
  size_t n;
  for (int k = 0; (bytes = batch_file(name, k, &n)); k++) {
    fields_head_t head;
    const char *at = bytes;
    memcpy(&head, take(&at, sizeof head), sizeof head);
    assert_int_equal(head.n_fields, t->n);
    uint64_t *key = malloc((size_t)head.n * 8 + 1);
    memcpy(key, take(&at, (size_t)head.n * 8), (size_t)head.n * 8);
    take(&at, (size_t)head.n * 8); /* draws */
    for (int64_t i = 0; i < head.n; i++) assert_int_equal(*take(&at, 1), 0);
    for (int c = 0; c < t->n; c++) is_column(&t->column[c], head.n, key, &at, bytes + n);
    assert_true(at == bytes + n);
    records += head.n;
    free(key), free(bytes);
  }
  return records;
}

static void are_the_same(const char *a, const char *b) {
  size_t n, m;
  int k = 0;
  for (;; k++) {
    char *x = batch_file(a, k, &n), *y = batch_file(b, k, &m);
    if (!x != !y) fail_msg("batch %d is only in %s", k, x ? a : b);
    if (!x) break;
    if (n != m || memcmp(x, y, n)) fail_msg("batch %d of %s and %s", k, a, b);
    free(x), free(y);
  }
  assert_true(k > 0);
  char *x = file_of(a, ".txt"), *y = file_of(b, ".txt");
  assert_string_equal(x, y);
  free(x), free(y);
}

/* ---- runs ---- */

/* The graph of NAME, whose batches go to DIR/NAME.d and a ledger. */
static void write_run(const char *name, const char *text, char *path) {
  char folder[TEXT_MAX], whole[TEXT_MAX];
  snprintf(folder, sizeof folder, "%s/%s.d", dir, name);
  assert_int_equal(mkdir(folder, 0700), 0);
  snprintf(whole, sizeof whole, "plugin %s/fields.so\n%s", MR_PLUGINS, text);
  write_graph(name, whole, path);
}

static void end_well(running_t *r) {
  finish(r);
  if (r->p->status) fail_msg("%s", r->p->err);
  free(r->p);
}

static void run_to_the_end(const char *name, const char *text) {
  char path[TEXT_MAX];
  write_run(name, text, path);
  running_t r = start((const char *const[]){"run", path, NULL});
  end_well(&r);
}

#define FIVE                                                                                 \
  "fields n=3000 ! shuffle seed=1 ! mix.a\n"                                                 \
  "fields n=2400 base=5000 ! filter modulo=3 remainder=1:2 ! shuffle seed=2 ! mix.b\n"       \
  "mix name=mix ! filter 0,1,3 ! stir words ! stir box ! stir words ! rename image:picture " \
  "! select words,label,picture,weight,box ! batch 16 name=batches workers=%d\n"
#define KEPT "dump $out.d name=dump ! ledger path=$out.txt state=$out.json every=5 name=lines\n"

static const char many[] = "process reader restart=100 {\n" FIVE
                           "}\n"
                           "process between restart=100 { delay 5000 asleep name=delay }\n"
                           "process writer restart=100 { " KEPT
                           "}\n"
                           "batches. ! delay.   delay. ! dump.\n";

static void five_fields(table_t *t) {
  static const int from[] = {3, 4, 0, 1, 2};
  table_t all = {0};
  add_set(&all, 0, "");
  t->n = all.n;
  for (int i = 0; i < t->n; i++) t->column[i] = all.column[from[i]];
  t->column[0].stirs = 2, t->column[4].stirs = 1;
  strcpy(t->column[2].name, "picture");
}

static void alone(const char *name) {
  char text[TEXT_MAX];
  snprintf(text, sizeof text, FIVE "batches. ! dump.\n" KEPT, 1);
  run_to_the_end(name, text);
}

static void five_fields_of_which_one_is_ragged_survive_kills_of_each_process(void **state) {
  static const char *const all[] = {"--process=between", "--process=reader", "--process=writer",
                                    NULL};
  char text[TEXT_MAX], path[TEXT_MAX];
  table_t t;
  alone("calm");
  five_fields(&t);
  assert_true(is_table("calm", &t) > 1500);
  snprintf(text, sizeof text, many, 2);
  write_run("shaken", text, path);
  running_t r = start((const char *const[]){"run", path, NULL});
  assert_true(disturb(&r, path, all) > 0);
  end_well(&r);
  are_the_same("calm", "shaken");
}

/* Ends the supervisor and all of its processes at once; returns the supervisor's status. */
static int kill_all(running_t *r, const char *path) {
  pid_t pid[16];
  kill(r->pid, SIGKILL);
  for (int n = find("--process=", path, pid); n; n = find("--process=", path, pid))
    for (int i = 0; i < n; i++) kill(pid[i], SIGKILL);
  finish(r);
  int status = r->p->status;
  free(r->p);
  return status;
}

static bool has_batch(const char *name, int number) {
  char path[TEXT_MAX];
  snprintf(path, sizeof path, "%s/%s.d/%06d", dir, name, number);
  return !access(path, F_OK);
}

/* Kills the run once it has made some batches; whether that was before its last ones. */
static bool is_killed_in_the_middle(const char *name, char *path) {
  char text[TEXT_MAX];
  snprintf(text, sizeof text, many, 2);
  write_run(name, text, path);
  running_t r = start((const char *const[]){"run", path, NULL});
  while (!has_batch(name, 17) && runs(&r)) usleep(1000);
  return kill_all(&r, path) == 128 + SIGKILL && !has_batch(name, 90);
}

static void a_run_that_is_killed_whole_is_resumed(void **state) {
  char path[TEXT_MAX], name[32];
  int k = 0;
  alone("quiet");
  do { /* a busy machine may let it come to its end before it is killed */
    assert_true(k < 50);
    snprintf(name, sizeof name, "killed%d", k++);
  } while (!is_killed_in_the_middle(name, path));
  running_t on = start((const char *const[]){"run", "--resume", path, NULL});
  end_well(&on);
  are_the_same("quiet", name);
}

/* ---- one batch, and its records ---- */

static program_t p;

static char *as_text(char *text, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(text, TEXT_MAX, fmt, ap);
  va_end(ap);
  return text;
}

/* Field by field the bytes of the run's own file of that batch. */
static void an_npz_holds_every_field_of_a_batch(void **state) {
  char graph[TEXT_MAX], plugin[TEXT_MAX], out[TEXT_MAX], name[64];
  size_t n, size;
  int has;
  alone("whole");
  as_text(graph, FIVE "batches. ! null", 2);
  as_text(plugin, "%s/fields.so", MR_PLUGINS);
  as_text(out, "%s/batch.npz", dir);
  RUN(&p, "batch", "--plugin", plugin, graph, "--step", "8", "--out", out);
  if (p.status) fail_msg("%s", p.err);
  char *npz = file_of("batch", ".npz"), *bytes = batch_file("whole", 7, &size);
  struct stat st;
  assert_int_equal(stat(out, &st), 0);
  n = (size_t)st.st_size;
  fields_head_t head;
  const char *at = bytes;
  memcpy(&head, take(&at, sizeof head), sizeof head);
  take(&at, (size_t)head.n * 17);
  for (int64_t f = 0; f < head.n_fields; f++) {
    fields_part_t part;
    mr_npy_t a;
    memcpy(&part, take(&at, sizeof part), sizeof part);
    if (part.ragged) {
      snprintf(name, sizeof name, "%s.offsets", part.name);
      assert_true(npz_find((uint8_t *)npz, n, name, &a, &has));
      assert_int_equal(a.dtype, MR_I64);
      assert_int_equal(a.count, head.n + 1);
      assert_memory_equal(a.data, take(&at, a.count * 8), a.count * 8);
    }
    assert_true(npz_find((uint8_t *)npz, n, part.name, &a, &has));
    assert_int_equal(a.dim[0], part.ragged ? part.bytes / part.each : head.n);
    assert_int_equal(a.count * mr_dtype_size(a.dtype), part.bytes);
    assert_memory_equal(a.data, take(&at, (size_t)part.bytes), (size_t)part.bytes);
  }
  assert_int_equal(has, 6);
  assert_true(at == bytes + size);
  free(npz), free(bytes);
  as_text(out, "%s/batch.npy", dir);
  RUN(&p, "batch", "--plugin", plugin, graph, "--step", "8", "--out", out);
  assert_int_not_equal(p.status, 0);
  assert_non_null(strstr(p.err, "holds one field"));
  assert_non_null(strstr(p.err, ".npz"));
  RUN(&p, "batch", "--plugin", plugin, "fields ! rename box:words.offsets ! batch 4 ! null",
      "--step", "1", "--out", as_text(out, "%s/clash.npz", dir));
  assert_int_not_equal(p.status, 0);
  assert_non_null(strstr(p.err, "offsets of words"));
  assert_int_not_equal(access(out, F_OK), 0);
}

static void the_command_who_prints_fields_that_are_no_pictures(void **state) {
  char plugin[TEXT_MAX];
  as_text(plugin, "%s/fields.so", MR_PLUGINS);
  RUN(&p, "who", "--plugin", plugin, "fields ! batch 4 ! null", "--step", "1");
  if (p.status) fail_msg("%s", p.err);
  assert_non_null(strstr(p.out,
                         "4 records of image u8[9,8,3] HWC, weight f32[], box f16[2,2], "
                         "words u32[<=7,2], label i32[]"));
  assert_non_null(strstr(p.out, " rows\n"));
  RUN(&p, "who", "--plugin", plugin, "fields ! select words ! batch 4 ! null", "--step", "1",
      "--json");
  if (p.status) fail_msg("%s", p.err);
  assert_non_null(strstr(p.out, "\"fields\":[{\"name\":\"words\",\"dtype\":\"u32\",\"shape\":["));
  assert_null(strstr(p.out, "\"label\""));
}

/* ---- served ---- */

static void a_server_gives_every_field(void **state) {
  char graph[TEXT_MAX], plugin[TEXT_MAX], at[TEXT_MAX], text[TEXT_MAX];
  FILE *out = tmpfile();
  as_text(graph, FIVE, 2);
  as_text(plugin, "%s/fields.so", MR_PLUGINS);
  as_text(at, "ipc://@mr-fields-%ld", (long)getpid());
  alone("own");
  pid_t server = program_start(
      (const char *const[]){"serve", "--plugin", plugin, graph, "--bind", at, NULL}, out, out);
  run_to_the_end("served", as_text(text, "source link=%s wait=600 ! " KEPT, at));
  are_the_same("own", "served");
  kill(server, SIGINT);
  assert_int_equal(program_wait(server), 130);
  fclose(out);
}

/* ---- random graphs ---- */

typedef struct text {
  char at[TEXT_MAX];
  size_t n;
} text_t;

__attribute__((format(printf, 2, 3))) static void say(text_t *t, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  t->n += (size_t)vsnprintf(t->at + t->n, sizeof t->at - t->n, fmt, ap);
  va_end(ap);
  assert_true(t->n < sizeof t->at);
}

/* One source, or two that are joined, and an order over them. */
static void random_start(round_t *r, table_t *t, text_t *g) {
  uint64_t set = 1 + (uint64_t)draw(r, 1 << 20), other = 1 + (uint64_t)draw(r, 1 << 20);
  int n = 40 + draw(r, 200), kind = draw(r, 4);
  static const char *const join[] = {"", "mix", "concatenate", "zip prefix=l.,r."};
  bool zip = kind == 3;
  add_set(t, set, zip ? "l." : "");
  if (zip) add_set(t, other, "r.");
  say(g, "fields n=%d set=%llu ! ", n, (unsigned long long)set);
  if (kind)
    say(g, "j.a\nfields n=%d base=%d set=%llu ! j.b\n%s name=j ! ", zip ? n : 30 + draw(r, 200),
        zip ? 0 : 1000, (unsigned long long)(zip ? other : set), join[kind]);
  if (!one_in(r, 4)) say(g, "shuffle seed=%d epochs=%d ! ", draw(r, 100), 1 + draw(r, 2));
}

static void random_select(round_t *r, table_t *t, text_t *g) {
  table_t kept = {0};
  for (int left = 1 + draw(r, t->n); left; left--) {
    int c = draw(r, t->n);
    say(g, "%s%s", kept.n ? "," : "select ", t->column[c].name);
    kept.column[kept.n++] = t->column[c];
    t->column[c] = t->column[--t->n];
  }
  say(g, " ! ");
  *t = kept;
}

static void random_stage(round_t *r, table_t *t, text_t *g, int number) {
  int c = draw(r, t->n);
  column_t *column = &t->column[c];
  switch (draw(r, 6)) {
    case 0: say(g, "filter modulo=5 remainder=1:%d ! ", 2 + draw(r, 3)); return;
    case 1: random_select(r, t, g); return;
    case 2:
      if (t->n < 2) return;
      say(g, "drop %s ! ", column->name);
      t->n--;
      memmove(column, column + 1, (size_t)(t->n - c) * sizeof *column);
      return;
    case 3:
      say(g, "rename %s:x%d ! ", column->name, number);
      snprintf(column->name, sizeof column->name, "x%d", number);
      return;
    default: say(g, "stir %s ! ", column->name), column->stirs++;
  }
}

static void random_graphs_are_what_their_table_says_in_one_process_and_in_several(void **state) {
  round_t r = round_first(16);
  while (round_next(&r)) {
    r = round_split(&r); /* else the draws of a seed are those of the one before, one later */
    table_t t = {0};
    text_t g = {.n = 0}, whole = {.n = 0}, cut = {.n = 0};
    char a[40], b[40];
    random_start(&r, &t, &g);
    for (int i = draw(&r, 7); i; i--) random_stage(&r, &t, &g, i);
    int batch = 1 + draw(&r, 40), again = one_in(&r, 3) ? 1 + draw(&r, 30) : 0;
    say(&g, "batch %d workers=%d %s", batch, 1 + draw(&r, 2),
        one_in(&r, 4) ? "drop-remainder" : "");
    if (again) say(&g, " ! rebatch %d", again);
    say(&whole, "%s ! " KEPT, g.at);
    int copies = !again && batch > 3 && one_in(&r, 2) ? 2 + draw(&r, 2)
                                                      : 0; /* of a reader, each of slices */
    if (copies)
      say(&cut, "process reader copies=%d { %s name=last }\n", copies, g.at);
    else
      say(&cut, "process reader { %s ! identity name=last }\n", g.at);
    if (copies || one_in(&r, 2))
      say(&cut, "process between { identity name=next }\nlast. ! next.\n");
    say(&cut, "process writer { " KEPT "}\n%s ! dump.\n",
        strstr(cut.at, "between") ? "next." : "last.");
    snprintf(a, sizeof a, "a%llu", (unsigned long long)r.seed);
    snprintf(b, sizeof b, "b%llu", (unsigned long long)r.seed);
    printf("seed %llu: %s\n", (unsigned long long)r.seed, cut.at);
    run_to_the_end(a, whole.at);
    assert_true(is_table(a, &t) > 0);
    run_to_the_end(b, cut.at);
    are_the_same(a, b);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(random_graphs_are_what_their_table_says_in_one_process_and_in_several),
      cmocka_unit_test(five_fields_of_which_one_is_ragged_survive_kills_of_each_process),
      cmocka_unit_test(a_run_that_is_killed_whole_is_resumed),
      cmocka_unit_test(an_npz_holds_every_field_of_a_batch),
      cmocka_unit_test(the_command_who_prints_fields_that_are_no_pictures),
      cmocka_unit_test(a_server_gives_every_field),
  };
  return cmocka_run_group_tests(tests, setup, teardown);
}
