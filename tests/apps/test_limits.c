/* Limits of the command line: what is at one works, and what is one above it is
   refused by a sentence, or nothing limits it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sys/stat.h>

#include "base/xio.h"
#include "pipeline/graph/graph.h"
#include "pipeline/stage.h"
#include "tests/apps/program.h"
#include "tests/graph_text.h"

static program_t p;
static char dir[64];

static int setup(void **state) {
  strcpy(dir, "/tmp/mr-limits-XXXXXX");
  return mkdtemp(dir) ? 0 : -1;
}

static int teardown(void **state) { return program_forget(dir); }

/* Without the library's calls, which wait for the disk. */
static void make_run(const char *path) {
  char file[160];
  snprintf(file, sizeof file, "%s/metrics.jsonl", path);
  mkdir(path, 0777); /* there already: fine */
  FILE *f = fopen(file, "w");
  assert_non_null(f);
  fputs("{\"kind\":\"step\",\"step\":1,\"loss\":0.75}\n", f);
  assert_int_equal(fclose(f), 0);
}

/* ---- the table of docs/limits.md ---- */

/* Shows the graph in text, from a file, since a word of the command line cannot be as long. */
static void show_graph(void) {
  char file[96];
  snprintf(file, sizeof file, "%s/g.mr", dir);
  assert_int_equal(mr_write_file(file, text, n_text, NULL), MR_OK);
  RUN(&p, "graph", file);
}

static void try_words(long n) {
  const char **words = calloc((size_t)n + 2, sizeof *words);
  char run[128];
  assert_non_null(words);
  snprintf(run, sizeof run, "%s/one", dir);
  make_run(run);
  words[0] = "runs";
  for (long i = 0; i < n; i++) words[1 + i] = run;
  program_run(&p, words);
  free(words);
}

/* A file of n bytes: line ends, but for what it says at its end. */
static void try_padded(const char *command, const char *name, const char *said, size_t n) {
  char file[96], *bytes = malloc(n);
  size_t len = strlen(said);
  assert_non_null(bytes);
  memset(bytes, '\n', n - len);
  memcpy(bytes + n - len, said, len);
  snprintf(file, sizeof file, "%s/%s", dir, name);
  assert_int_equal(mr_write_file(file, bytes, n, NULL), MR_OK);
  free(bytes);
  RUN(&p, command, file);
  unlink(file);
}

static void try_graph_bytes(long n) {
  try_padded("graph", "long.mr", "count n=1 bytes=8 ! null\n", (size_t)n);
}

static void try_jaxpr_bytes(long n) {
  try_padded("jaxpr", "long.jaxpr", "{ lambda ; a:f32[2]. let b:f32[2] = mul a a in (b,) }\n",
             (size_t)n);
}

static void try_word_characters(long n) {
  add_text("let v = ");
  for (long i = 0; i < n; i++) add_text("x");
  add_text("\ncount n=1 bytes=8 ! null\n");
  show_graph();
}

static void try_inputs(long n) {
  for (long i = 0; i < n; i++) add_text("range 10 ! m.\n");
  add_text("mix name=m ! batch 4 ! null\n");
  show_graph();
}

/* A stage of stages that join as many sources as they can. */
static void try_branches(long n) {
  long left = n - 1;
  for (int k = 0; left > 0; k++) {
    long these = left < MR_INPUTS_MAX ? left : MR_INPUTS_MAX;
    for (long i = 1; i < these; i++) add_text("range 10 ! c%d.\n", k);
    add_text("concatenate name=c%d ! c.\n", k);
    left -= these;
  }
  add_text("concatenate name=c ! batch 4 ! null\n");
  show_graph();
}

static void try_depth(long n) {
  add_text("range 10");
  for (long i = 1; i < n; i++) add_text(" ! repeat 1");
  add_text(" ! batch 4 ! null\n");
  show_graph();
}

/* Two numbers, sixteen slots, and one number of each input. */
static void try_state(long n) {
  for (long i = 0; i < n - 18; i++) add_text("range 10 ! m.\n");
  add_text("interleave 16 name=m ! batch 4 ! null\n");
  show_graph();
}

static void try_processes(long n) {
  add_text("process a { count n=4 bytes=8 name=c }\n");
  for (long i = 1; i + 1 < n; i++) add_text("process p%ld { identity name=i%ld }\n", i, i);
  add_text("process z { null name=end }\n");
  add_text("c. ! i1.\n");
  for (long i = 2; i + 1 < n; i++) add_text("i%ld. ! i%ld.\n", i - 1, i);
  add_text("i%ld. ! end.\n", n - 2);
  show_graph();
}

/* Streams of one field each, joined in two storeys. */
static void try_fields(long n) {
  long rest = n % 8;
  for (long k = 0; k < n / 8; k++) {
    for (int i = 0; i < 8; i++) add_text("range 10 ! select value ! j%ld.\n", k);
    add_text("zip prefix=a,b,c,d,e,f,g,h name=j%ld ! j.\n", k);
  }
  for (long i = 0; i < rest; i++) add_text("range 10 ! select value ! j.\n");
  add_text("zip name=j prefix=x");
  for (long i = 1; i < n / 8 + rest; i++) add_text(",y%ld", i);
  add_text(" ! batch 4 ! null\n");
  show_graph();
}

/* At the limit the file is what is missing. */
static void try_classes(long n) {
  add_text("tar files=%s/none.tar fields=jpg:image classes=%ld ! batch 4 ! null\n", dir, n);
  show_graph();
}

/* Twice as many rows as words: where nearly all differ, fewer are kept. */
static void try_column_words(long n) {
  char file[96];
  snprintf(file, sizeof file, "%s/words.csv", dir);
  FILE *f = fopen(file, "w");
  assert_non_null(f);
  fputs("x,label\n", f);
  for (long i = 0; i < 2 * n; i++) fprintf(f, "%ld,word %ld\n", i, i / 2);
  assert_int_equal(fclose(f), 0);
  add_text("table %s fields=x,label:label:class index=beside ! batch 4 ! null\n", file);
  show_graph();
}

static void try_files(long n) {
  add_text("tar files=%s/none-{1..%ld}.tar fields=jpg:image ! batch 4 ! null\n", dir, n);
  show_graph();
}

static void try_labels(long n) {
  add_text("synthetic n=8 ! filter label=");
  for (long i = 0; i < n; i++) add_text("%s%ld", i ? "," : "", i % 10);
  add_text(" ! batch 4 ! null\n");
  show_graph();
}

static void try_input_name(long n) {
  add_text(
      "synthetic n=8 ! normalize ! batch 4 ! vit-step name=t layers=1 embed=16 mlp=16 heads=2 "
      "patch=8\nt. ! null\nsynthetic n=8 ! normalize ! batch 4 ! t.valid.");
  for (long i = (long)strlen("valid."); i < n; i++) add_text("x");
  add_text("\n");
  show_graph();
}

typedef struct limit_case {
  const char *name;
  void (*try)(long n);   /* leaves what the program said in p; NULL: another test tries it */
  const char *otherwise; /* what is said at the limit, for want of files; NULL: it works */
} limit_case_t;

static const limit_case_t cases[] = {
    {"words", try_words, NULL},
    {"graph-bytes", try_graph_bytes, NULL},
    {"jaxpr-bytes", try_jaxpr_bytes, NULL},
    {"word-characters", try_word_characters, NULL},
    {"inputs", try_inputs, NULL},
    {"branches", try_branches, NULL},
    {"depth", try_depth, NULL},
    {"state", try_state, NULL},
    {"processes", try_processes, NULL},
    {"fields", try_fields, NULL},
    {"classes", try_classes, "none.tar"},
    {"column-words", try_column_words, NULL},
    {"link-classes", NULL, NULL}, /* tests/links/test_plain.c */
    {"labels", try_labels, NULL},
    {"files", try_files, "cannot be opened"}, /* whichever one a thread misses first */
    {"input-name", try_input_name, NULL},
    {"subscribers", NULL, NULL}, /* tests/sinks/test_subscribers.c */
};

static void try_row(const char *name, long most, const char *sentence) {
  const limit_case_t *c = NULL;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    if (!strcmp(cases[i].name, name)) c = &cases[i];
  if (!c) fail_msg("docs/limits.md: nothing tries the row %s", name);
  for (int over = 0; c->try && over <= 1; over++) {
    n_text = 0;
    c->try(most + over);
    bool said = strstr(p.err, sentence) != NULL;
    bool works = c->otherwise ? strstr(p.err, c->otherwise) != NULL : p.status == 0;
    if (said != over || works == over)
      fail_msg("%s = %ld: status %d: %.600s", name, most + over, p.status, p.err);
  }
}

/* Replaces the N of a sentence in the document by the number that it stands for. */
static void sentence_with(const char *sentence, const char *number, char *out, size_t n) {
  const char *at = strstr(sentence, " N ");
  if (at)
    snprintf(out, n, "%.*s %s %s", (int)(at - sentence), sentence, number, at + 3);
  else
    snprintf(out, n, "%s", sentence);
}

static void each_limit_of_the_document_works_and_one_more_gets_the_sentence(void **state) {
  char line[512], name[64], number[32], said[128], sentence[256];
  size_t rows = 0;
  FILE *f = fopen(MR_SOURCE_DIR "/docs/limits.md", "r");
  assert_non_null(f);
  while (fgets(line, sizeof line, f)) {
    if (sscanf(line, "| %63s | %*[^|]| %31[0-9] | %127[^|]|", name, number, said) != 3) continue;
    said[strlen(said) - 1] = 0; /* the blank before the next column */
    sentence_with(said, number, sentence, sizeof sentence);
    try_row(name, strtol(number, NULL, 10), sentence);
    rows++;
  }
  fclose(f);
  assert_int_equal(rows, sizeof cases / sizeof *cases);
}

static void all_runs_of_a_folder_are_listed(void **state) {
  enum { RUNS = 5000 };
  char folder[96], run[128];
  snprintf(folder, sizeof folder, "%s/many", dir);
  assert_int_equal(mkdir(folder, 0777), 0);
  for (int i = 0; i < RUNS; i++) {
    snprintf(run, sizeof run, "%s/%d", folder, i);
    make_run(run);
  }
  RUN(&p, "runs", folder);
  if (p.status) fail_msg("%s", p.err);
  int lines = 0;
  for (const char *at = p.out; (at = strchr(at, '\n')); at++) lines++;
  assert_int_equal(lines, 1 + RUNS);
}

/* A file of numpy's format 1.0 with these bytes, all zeros. */
static void make_npy(const char *name, const char *dtype, const char *shape, size_t bytes) {
  char file[96], head[128] = {0};
  snprintf(file, sizeof file, "%s/%s", dir, name);
  int n = snprintf(head, sizeof head,
                   "\x93NUMPY\x01%cv%c{'descr': '%s', 'fortran_order': False, 'shape': %s, }", 0, 0,
                   dtype, shape);
  memset(head + n, ' ', sizeof head - (size_t)n);
  head[sizeof head - 1] = '\n';
  FILE *f = fopen(file, "w");
  assert_non_null(f);
  fwrite(head, 1, sizeof head, f);
  for (size_t i = 0; i < bytes; i++) putc(0, f);
  assert_int_equal(fclose(f), 0);
}

static void as_many_names_of_classes_cross_a_link_as_a_source_may_have(void **state) {
  char file[96];
  snprintf(file, sizeof file, "%s/names.txt", dir);
  FILE *f = fopen(file, "w");
  assert_non_null(f);
  for (int i = 0; i < 100000; i++) fprintf(f, "class number %d\n", i);
  assert_int_equal(fclose(f), 0);
  make_npy("x.npy", "|u1", "(16, 2, 2, 3)", 192);
  make_npy("y.npy", "<i4", "(16,)", 64);
  snprintf(file, sizeof file, "%s/link.mr", dir);
  f = fopen(file, "w");
  assert_non_null(f);
  fprintf(f,
          "process a { npy images=%s/x.npy labels=%s/y.npy classes=100000 names=%s/names.txt ! "
          "batch 8 name=b }\nprocess z { null name=n }\nb. ! n.\n",
          dir, dir, dir);
  assert_int_equal(fclose(f), 0);
  RUN(&p, "run", file);
  if (strstr(p.err, "Not built in") || strstr(p.err, "built without")) skip();
  if (p.status || !strstr(p.out, "2 batches, 16 records"))
    fail_msg("%d %s%s", p.status, p.out, p.err);
}

static void a_model_has_as_many_layers_as_its_setting_says(void **state) {
  static const char *const said[] = {"layers=1024", "layers=1025"};
  for (int i = 0; i < 2; i++) {
    char graph[256];
    snprintf(graph, sizeof graph,
             "synthetic n=8 ! shuffle seed=1 ! normalize ! batch 4 ! vit-step %s embed=2 mlp=1 "
             "heads=1 patch=32",
             said[i]);
    RUN(&p, "graph", graph);
    if (i) {
      assert_true(p.status != 0);
      if (!strstr(p.err, "layers = \"1025\": want a whole number in [1,1024]"))
        fail_msg("%s", p.err);
    } else if (p.status) {
      fail_msg("%s", p.err);
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(each_limit_of_the_document_works_and_one_more_gets_the_sentence),
      cmocka_unit_test(all_runs_of_a_folder_are_listed),
      cmocka_unit_test(as_many_names_of_classes_cross_a_link_as_a_source_may_have),
      cmocka_unit_test(a_model_has_as_many_layers_as_its_setting_says),
  };
  int failed = cmocka_run_group_tests(tests, setup, teardown);
  free(text);
  return failed;
}
