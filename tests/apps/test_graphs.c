/* run, graph, inspect, summary and bench as a person meets them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <cjson/cJSON.h>
#include <math.h>
#include <stdbool.h>
#include <sys/stat.h>

#include "tests/apps/program.h"
#include "tests/vectors.h"

static program_t p;

static void ends(int status, const char *on_out, const char *on_err) {
  if (p.status != status) fail_msg("status %d, expected %d: %s%s", p.status, status, p.err, p.out);
  if (!strstr(p.out, on_out)) fail_msg("\"%s\" is not in: %s", on_out, p.out);
  if (!strstr(p.err, on_err)) fail_msg("\"%s\" is not in: %s", on_err, p.err);
}

/* One sentence, nothing else. */
static void refuses(int status, const char *sentence) {
  ends(status, "", sentence);
  char *end = strchr(p.err, '\n');
  assert_non_null(end);
  if (end[1]) fail_msg("more than one line: %s", p.err);
  assert_string_equal(p.out, "");
}

static void run_takes_a_graph_as_text(void **state) {
  RUN(&p, "run", "count 1000 ! identity ! null");
  ends(0, "1000 buffers", " limits: ");
}

static void run_takes_a_graph_as_a_file_with_overrides(void **state) {
  char path[] = "/tmp/mr-graph-XXXXXX.mr";
  int fd = mkstemps(path, 3);
  FILE *f = fdopen(fd, "w");
  fputs("let n = 10\ncount $n ! null\n", f);
  fclose(f);
  RUN(&p, "run", path, "n=77");
  ends(0, "77 buffers", "");
  RUN(&p, "run", path, "count.n=5");
  ends(0, "5 buffers", "");
  RUN(&p, "run", path, "m=77");
  refuses(2, "m");
  unlink(path);
  RUN(&p, "run", path);
  refuses(1, "No such file");
}

static void wrong_graphs_are_refused_with_their_place(void **state) {
  RUN(&p, "run", "count 5 ! nul");
  refuses(2, "graph:1:11: unknown stage \"nul\"; did you mean \"null\"?");
  RUN(&p, "run", "count nn=5 ! null");
  refuses(2, "nn");
  RUN(&p, "run", "count five ! null");
  refuses(2, "five");
  RUN(&p, "run", "count -1 ! null");
  refuses(2, "-1");
  RUN(&p, "run", "count 5 ! batch 2 ! null");
  refuses(2, "batch");
  RUN(&p, "run", "null");
  refuses(2, "null");
  RUN(&p, "run", "synthetic ! flip ! shuffle ! batch 2 ! null");
  refuses(2,
          "graph:1:13: flip: the records have no generator to draw from: put \"shuffle seed=N\"");
  RUN(&p, "run", "count", "5", "!", "null");
  refuses(2, "expected NAME=VALUE");
}

static void missing_data_is_one_sentence(void **state) {
  RUN(&p, "run", "cifar10 path=/nowhere ! sequential ! batch 10 ! null");
  refuses(1, "/nowhere");
}

static void graph_prints_dot_and_touches_no_file(void **state) {
  RUN(&p, "graph", "cifar10 path=/nowhere ! sequential ! batch 10 name=b ! null");
  ends(0, "digraph", "");
  assert_non_null(strstr(p.out, "u8[10,"));
  RUN(&p, "graph", "cifar10 ! nul");
  assert_int_equal(p.status, 2);
  assert_string_equal(p.out, "");
}

static void errors_in_a_graph_file_name_the_file_and_the_place(void **state) {
  static const char *const wrong[] = {"let x = 1\ncount ! nul\n", /* seen when it is read */
                                      "let x = 1\ncount ! batch 4 ! null"}; /* when specs settle */
  for (int i = 0; i < 2; i++) {
    char path[] = "/tmp/mr-wrong-XXXXXX", place[64];
    int fd = mkstemp(path);
    assert_int_equal(write(fd, wrong[i], strlen(wrong[i])), strlen(wrong[i]));
    close(fd);
    RUN(&p, "graph", path);
    snprintf(place, sizeof place, "millrace: %s:2:9: ", path);
    refuses(2, place);
    unlink(path);
  }
}

static void graph_draws_where_graphviz_is(void **state) {
  char path[] = "/tmp/mr-svg-XXXXXX";
  close(mkstemp(path));
  RUN(&p, "graph", "count ! null", "--svg", path);
  if (p.status == 1) {
    refuses(1, "install Graphviz");
  } else {
    ends(0, "", "");
    char head[6] = "";
    FILE *f = fopen(path, "r");
    assert_int_equal(fread(head, 1, 5, f), 5);
    fclose(f);
    assert_string_equal(head, "<?xml");
  }
  unlink(path);
}

static void inspect_lists_stages_and_settings(void **state) {
  RUN(&p, "inspect");
  ends(0, "resized-crop", "");
  ends(0, "checkpoint", "");
  static const char *const step[] = {"train-step", "eval-step"};
  for (int i = 0; i < 2; i++) {
    RUN(&p, "inspect", step[i]);
    if (!strstr(p.out, "cpu, opencl[:N] or cuda[:N]")) fail_msg("%s", p.out);
  }
  RUN(&p, "inspect", "jsonl");
  ends(0, "resume-step", "");
  ends(0, "[-1, 1e+15]", "");
  RUN(&p, "inspect", "jsnl");
  refuses(2, "did you mean \"jsonl\"?");
}

static void inspect_says_what_each_setting_takes_in_80_columns(void **state) {
  RUN(&p, "inspect", "cifar10");
  ends(0, "\n  backend         auto|uring|direct|pread|mmap, default auto\n", "");
  ends(0, "\n  skip-records    text of ids\n", "");
  ends(0, "\n  holdout         whole number of records in [0, 1e+12], default 5000\n", "");
  ends(0, "\n                  Folder of data_batch_1.bin", "");
  ends(0, "\n                  Name of this stage in the graph.\n", "");
  static const char *const what[] = {"cifar10", "vit-step", "publish", "process"};
  for (size_t i = 0; i < sizeof what / sizeof *what; i++) {
    RUN(&p, "inspect", what[i]);
    for (const char *line = p.out; *line; line += strcspn(line, "\n") + 1)
      if (strcspn(line, "\n") > 80) fail_msg("%s: %.100s", what[i], line);
  }
}

static void inspect_reads_data_files(void **state) {
  RUN(&p, "inspect", MR_SOURCE_DIR "/tests/golden/pil_src.npy");
  ends(0, "pil_src.npy: .npy, u8[12,32,32,3], 36864 bytes from byte 128 on", "");
  RUN(&p, "inspect", MR_SOURCE_DIR "/tests/golden/philox.txt");
  refuses(1, "philox.txt: is not recognised by its name; it is text; want a folder");
  char dir[] = "/tmp/mr-inspect-XXXXXX", path[64];
  assert_non_null(mkdtemp(dir));
  RUN(&p, "inspect", dir);
  refuses(1, "holds no data that are recognised; want a folder of pictures for each class");
  snprintf(path, sizeof path, "%s/train.bin", dir);
  FILE *f = fopen(path, "wb");
  for (int i = 0; i < 200 * 3074; i++) fputc(i % 3074 == 0 ? i / 3074 % 20 : i / 3074 % 101, f);
  fclose(f);
  RUN(&p, "inspect", dir);
  ends(0, "train.bin: CIFAR-100, 200 records of 3074 bytes", "");
  ends(0, "coarse labels in [0,19]: 10 to 10 records each\n", "");
  ends(0, "fine labels in [0,99]: 1 to 2 records each, 1 OUT OF RANGE", "");
  assert_int_equal(truncate(path, 1000), 0);
  RUN(&p, "inspect", dir);
  refuses(1, "train.bin: 1000 bytes, want a multiple of 3074");
  unlink(path);
  rmdir(dir);
}

/* The folder is empty, which the sources then say of it. */
static void doctor_hands_data_to_the_sources(void **state) {
  static const char with[] = "let data = /nonexistent\ncifar10 path=$data ! batch 4 ! null";
  char dir[] = "/tmp/mr-doctor-XXXXXX", says[128];
  assert_non_null(mkdtemp(dir));
  snprintf(says, sizeof says, "cannot be read: cifar10: path=%s: holds no data_batch_1.bin", dir);
  RUN(&p, "doctor", with, "--data", dir);
  ends(0, says, "");
  RUN(&p, "doctor", "cifar10 ! batch 4 ! null", "--data", dir);
  ends(0, says, "");
  RUN(&p, "doctor", with, "data=/nowhere", "--data", dir);
  ends(0, "cannot be read: cifar10: path=/nowhere", "");
  rmdir(dir);
}

static void doctor_tells_machine_and_sources(void **state) {
  RUN(&p, "doctor", "synthetic n=20 ! batch 4 ! null cifar10 path=/nonexistent ! batch 4 ! null");
  ends(0, "io_uring ", "");
  ends(0, "libraries\n", "");
  ends(0, "synthetic                made in memory", "");
  ends(0, "cifar10                  cannot be read: cifar10: path=/nonexistent", "");
  RUN(&p, "doctor", "--json", "npy " MR_SOURCE_DIR "/tests/golden/pil_src.npy labels=/none ! null");
  refuses(1, "/none: cannot open");
  RUN(&p, "doctor", "--json");
  ends(0, "", "");
  cJSON *report = cJSON_Parse(p.out);
  assert_non_null(report);
  const cJSON *processor = cJSON_GetObjectItem(report, "processor");
  assert_int_equal(cJSON_GetObjectItem(processor, "cores")->valueint,
                   sysconf(_SC_NPROCESSORS_ONLN));
  assert_non_null(cJSON_GetObjectItem(cJSON_GetObjectItem(report, "io"), "o_direct"));
  cJSON_Delete(report);
}

/* A line of standard output that begins so, without its runs of blanks. */
static void has_row(const char *row) {
  char line[256];
  for (const char *at = p.out; *at;) {
    size_t n = strcspn(at, "\n"), k = 0;
    for (size_t i = 0; i < n && k + 1 < sizeof line; i++)
      if (at[i] != ' ' || (k && line[k - 1] != ' ')) line[k++] = at[i];
    line[k] = 0;
    if (!strncmp(line, row, strlen(row))) return;
    at += n + (at[n] == '\n');
  }
  fail_msg("no row \"%s\" in: %s", row, p.out);
}

static void summary_counts_the_recipe(void **state) {
  RUN(&p, "summary", "--depth", "3");
  has_row("│ │ │ │ Total │ 10,695,562 (42.8 MB) │ 24 (144 B) │");
  has_row("│ patch_embed │ PatchEmbedding │ bfloat16[1,32,32,3] │ bfloat16[1,64,384] │ 18,816");
  has_row("│ encoder_blocks/5 │ EncoderBlock │ float32[1,65,384] │ float32[1,65,384] │ 1,774,464");
  assert_non_null(strstr(p.out, "encoder_blocks/5/attn "));
  assert_null(strstr(p.out, "encoder_blocks/5/attn/"));
  RUN(&p, "summary", "--layers", "2", "--param-dtype", "bf16");
  has_row("│ │ │ │ Total │ 3,597,706 (7.2 MB) │ 8 (48 B) │");
  has_row("│ │ │ │ │ kernel: bfloat16[4,4,3,384] │ │");
  RUN(&p, "summary", "--layers", "1", "--dtype", "f32");
  has_row("│ head │ Linear │ float32[1,384] │ float32[1,10] │ bias: float32[10] │ │");
  RUN(&p, "summary", "--layers", "1", "--variant", "timm");
  has_row("│ blocks/0/mlp │ Mlp │ bfloat16[1,65,384] │ bfloat16[1,65,384] │ 1,181,568 (4.7 MB) │");
  assert_null(strstr(p.out, "RngState")); /* torch's modules keep none */
  RUN(&p, "summary", "model=mlp", "layers=2");
  const char *first = strstr(p.out, "│ dropout/0 "), *next = strstr(p.out, "│ hidden/1 ");
  assert_true(first && next && first < next); /* in the order of their application */
  RUN(&p, "summary", "--layers", "1", "--mesh", "data=2,model=2");
  has_row("encoder_blocks.0.linear1.kernel 384x1536 384x768 294,912 (None,model)");
  has_row("encoder_blocks.0.attn.query.bias 8x48 4x48 192 (model,None)");
  has_row("head.kernel 384x10 384x10 3,840 (None,None)");
  RUN(&p, "summary", "--layers", "1", "--variant", "timm", "--mesh", "data=1,model=4");
  has_row("blocks.0.attn.qkv.weight 1152x384 288x384 110,592 (3*model,None)");
  RUN(&p, "summary", "--layers", "1", "--mesh", "data=2", "--zero", "1");
  has_row("encoder_blocks.0.linear1.kernel 384x1536 384x1536 589,824 1 (None,None)");
  has_row("encoder_blocks.0.attn.query.kernel 384x8x48 384x8x48 147,456 0 (None,None,None)");
  has_row("head.kernel 384x10 384x10 3,840 1 (None,None)");
  has_row("slots: a rank has those of at most 1,186,186 elements");
  RUN(&p, "summary", "--layers", "1", "--mesh", "data=2", "--zero", "3");
  has_row("values and slots: a rank has those of at most 1,186,186 elements");
  RUN(&p, "summary", "--layers", "1", "--mesh", "data=2,model=2", "--zero", "1");
  has_row("encoder_blocks.0.linear1.kernel 384x1536 384x768 294,912 192x768 (None,model)");
  has_row("encoder_blocks.0.linear1.bias 1536 768 768 768 (model)");
  RUN(&p, "summary", "--layers", "1", "--mesh", "data=2,model=2", "--zero", "3");
  has_row("encoder_blocks.0.linear1.kernel 384x1536 192x768 147,456 192x768 (data,model)");
  has_row("values and slots: a rank has those of at most 468,965 elements");
  has_row("encoder_blocks.0.linear1.bias 1536 768 768 768 (model)");
  RUN(&p, "summary", "--zero", "1");
  refuses(2, "summary: --zero: expected --mesh beside it");
  RUN(&p, "summary", "model=mlp", "--mesh", "data=2,model=2");
  has_row("hidden.1.kernel 512x512 256x512 131,072 (model,None)");
  RUN(&p, "summary", "--mesh", "data=2,model=3");
  refuses(2, "dimension 1 of 8 does not divide among the 3 ranks of model");
  RUN(&p, "summary", "--mesh", "data=2,model=2", "--partition", "haed.kernel=column");
  refuses(2, "did you mean \"head.kernel\"?");
  RUN(&p, "summary", "--heads", "7");
  refuses(2, "7");
  RUN(&p, "summary", "--variant", "vim");
  refuses(2, "expected flax or timm");
}

/* The real table of the recipe's model with two blocks, to the byte. */
static void summary_is_flax_s_table(void **state) {
  char line[1024];
  int seen = 0;
  RUN(&p, "summary", "--layers", "2");
  const char *at = p.out;
  FILE *f = vectors_open("vit/nnx_tabulate.txt");
  while (fgets(line, sizeof line, f)) {
    size_t n = strlen(line);
    if (strncmp(at, line, n)) fail_msg("want %s, got %.*s", line, (int)strcspn(at, "\n"), at);
    at += n, seen++;
  }
  fclose(f);
  assert_string_equal(at, "");
  vectors_met(seen, 126);
}

static void bench_prints_one_json_object_a_line(void **state) {
  RUN(&p, "bench", "stage", "loader", "--seconds", "1", "--json", "--batch", "16", "--workers",
      "2");
  ends(0, "", "");
  char *second = strchr(p.out, '\n');
  assert_non_null(second);
  cJSON *a = cJSON_ParseWithLength(p.out, (size_t)(second - p.out)), *b = cJSON_Parse(second + 1);
  assert_string_equal(cJSON_GetStringValue(cJSON_GetObjectItem(a, "bench")), "stage");
  assert_true(cJSON_GetNumberValue(cJSON_GetObjectItem(a, "ns_per_hop")) > 0);
  assert_string_equal(cJSON_GetStringValue(cJSON_GetObjectItem(b, "bench")), "loader");
  assert_true(cJSON_GetNumberValue(cJSON_GetObjectItem(b, "images_per_s")) > 0);
  assert_true(cJSON_GetNumberValue(cJSON_GetObjectItem(b, "peak_rss_mb")) > 0);
  cJSON_Delete(a);
  cJSON_Delete(b);
  RUN(&p, "bench", "lodaer");
  refuses(2, "did you mean \"loader\"?");
  RUN(&p, "bench", "loader", "--data", "/nowhere", "--seconds", "1");
  refuses(1, "/nowhere");
}

/* The records of a batch of the stage that `bench loader --graph` counts, by its two rates. */
static double counted_batch(const char *graph) {
  RUN(&p, "bench", "loader", "--json", "--seconds", "1", "--graph", graph);
  ends(0, "", "");
  cJSON *a = cJSON_Parse(p.out);
  double records = cJSON_GetNumberValue(cJSON_GetObjectItem(a, "images_per_s")),
         batches = cJSON_GetNumberValue(cJSON_GetObjectItem(a, "batches_per_s"));
  cJSON_Delete(a);
  assert_true(batches > 0);
  return round(records / batches);
}

static void bench_counts_the_last_batches_of_a_graph_or_those_of_stage_b(void **state) {
  assert_float_equal(counted_batch("range 64 ! shuffle seed=1 epochs=0 ! batch 4 ! null"), 4, 0);
  assert_float_equal(counted_batch("range 64 ! shuffle seed=1 epochs=0 ! batch 4 name=b ! null\n"
                                   "range 64 ! shuffle seed=1 epochs=0 ! batch 8 ! null"),
                     4, 0);
  assert_float_equal(counted_batch("range 64 ! shuffle seed=1 epochs=0 ! batch 4 ! null\n"
                                   "range 64 ! shuffle seed=1 epochs=0 name=b ! batch 8 ! null"),
                     8, 0);
  RUN(&p, "bench", "loader", "--graph", "count 0 ! null");
  refuses(2, "bench: --graph: want a stage batch in it");
}

/* A step is called four times as a jitted function and compiled once. */
static void bench_compile_tells_calls_from_the_cache(void **state) {
  RUN(&p, "bench", "compile", "--layers", "2", "--batch", "2", "--steps", "1", "--json");
  ends(0, "", "");
  cJSON *a = cJSON_Parse(p.out);
  assert_int_equal(cJSON_GetNumberValue(cJSON_GetObjectItem(a, "call_compiles")), 1);
  double first = cJSON_GetNumberValue(cJSON_GetObjectItem(a, "call_first_ms"));
  double cached = cJSON_GetNumberValue(cJSON_GetObjectItem(a, "call_cached_ms"));
  assert_true(first > 0 && cached > 0);
  print_message("first call %.3f ms, from the cache %.3f ms\n", first, cached);
  cJSON_Delete(a);
}

static void ctrl_c_ends_an_endless_graph_in_order(void **state) {
  FILE *out = tmpfile(), *err = tmpfile();
  pid_t pid = program_start((const char *const[]){"run", "count 0 ! null", NULL}, out, err);
  assert_int_equal(program_wait_for_handler(pid, SIGINT, 1), 0);
  kill(pid, SIGINT);
  p.status = program_wait(pid);
  program_read(out, p.out, sizeof p.out);
  program_read(err, p.err, sizeof p.err);
  ends(130, "buffers", "");
}

/* The text under "## title" of the golden file. */
static void golden_jaxpr(const char *title, char *text, size_t size) {
  char line[512];
  bool in = false;
  FILE *f = vectors_open("transforms/jaxprs.txt");
  for (text[0] = 0; fgets(line, sizeof line, f);) {
    if (in && (line[0] == '#' || line[0] == '\n')) break;
    if (in) snprintf(text + strlen(text), size - strlen(text), "%s", line);
    in |= !strncmp(line, "## ", 3) && !strncmp(line + 3, title, strlen(title));
  }
  fclose(f);
  assert_true(in);
}

static void jaxpr_prints_as_jax_does(void **state) {
  const char *pair[][2] = {{"poly", "3*x**2 + 2*x + 5, x f32"},
                           {"dot", "dot(x+1, y+1), x f32[3,4], y f32[4,1]"},
                           {"gelu", "gelu(tanh)"}};
  char want[4096];
  for (size_t i = 0; i < sizeof pair / sizeof *pair; i++) {
    RUN(&p, "jaxpr", pair[i][0]);
    golden_jaxpr(pair[i][1], want, sizeof want);
    assert_int_equal(p.status, 0);
    assert_string_equal(p.out, want);
  }
  RUN(&p, "jaxpr", "step", "--layers", "1", "--batch", "2", "--dtype", "f32");
  assert_int_equal(p.status, 0);
  assert_non_null(strstr(p.out, " = adamw["));
  RUN(&p, "jaxpr", "stpe");
  assert_int_equal(p.status, 2);
  assert_non_null(strstr(p.err, "did you mean \"step\"?"));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(run_takes_a_graph_as_text),
      cmocka_unit_test(run_takes_a_graph_as_a_file_with_overrides),
      cmocka_unit_test(wrong_graphs_are_refused_with_their_place),
      cmocka_unit_test(missing_data_is_one_sentence),
      cmocka_unit_test(graph_prints_dot_and_touches_no_file),
      cmocka_unit_test(errors_in_a_graph_file_name_the_file_and_the_place),
      cmocka_unit_test(graph_draws_where_graphviz_is),
      cmocka_unit_test(inspect_lists_stages_and_settings),
      cmocka_unit_test(inspect_says_what_each_setting_takes_in_80_columns),
      cmocka_unit_test(inspect_reads_data_files),
      cmocka_unit_test(doctor_tells_machine_and_sources),
      cmocka_unit_test(doctor_hands_data_to_the_sources),
      cmocka_unit_test(summary_counts_the_recipe),
      cmocka_unit_test(summary_is_flax_s_table),
      cmocka_unit_test(jaxpr_prints_as_jax_does),
      cmocka_unit_test(bench_prints_one_json_object_a_line),
      cmocka_unit_test(bench_counts_the_last_batches_of_a_graph_or_those_of_stage_b),
      cmocka_unit_test(bench_compile_tells_calls_from_the_cache),
      cmocka_unit_test(ctrl_c_ends_an_endless_graph_in_order),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
