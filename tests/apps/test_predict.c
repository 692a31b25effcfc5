/* millrace predict and the stage of its name: what a run has learned, of records from anywhere. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <cjson/cJSON.h>
#include <dirent.h>
#include <math.h>
#include <sys/stat.h>

#include "base/npy.h"
#include "tests/apps/pictures.h"
#include "tests/apps/program.h"
#include "tests/npz.h"

static program_t p;
static char dir[] = "/tmp/mr-predict-XXXXXX", before[512];

static void must(void) {
  if (p.status) fail_msg("%s%s", p.err, p.out);
}

static void expect(int status, const char *sentence) {
  if (p.status != status || !strstr(p.err, sentence))
    fail_msg("status %d, expected %d and \"%s\": %s%s", p.status, status, sentence, p.err, p.out);
}

/* A run on pictures, and its checkpoint alone; a run from x to y. */
static int setup(void **state) {
  static float x[160], y[40];
  const int64_t rows[] = {40, 4};
  if (!mkdtemp(dir) || !getcwd(before, sizeof before) || chdir(dir) < 0) return -1;
  write_pictures("photos");
  RUN(&p, "train", "photos", "--run-dir", "r", "--steps", "8", "batch=8", "layers=1", "embed=32",
      "mlp=32", "heads=2", "ema=0.5", "threads=1");
  must();
  assert_int_equal(system("cp r/checkpoints/latest alone.safetensors"), 0);
  for (int i = 0; i < 40; i++) x[i * 4] = y[i] = (float)i;
  assert_int_equal(mr_make_folder("numbers", NULL), MR_OK);
  assert_int_equal(mr_npy_save("numbers/x.npy", MR_F32, 2, rows, x, NULL), MR_OK);
  assert_int_equal(mr_npy_save("numbers/y.npy", MR_F32, 1, rows, y, NULL), MR_OK);
  RUN(&p, "train", "numbers", "--run-dir", "n", "--steps", "2", "hidden=8", "threads=1");
  must();
  return 0;
}

static int teardown(void **state) {
  if (chdir(before) < 0) return -1;
  return program_forget(dir);
}

static char *read_text(const char *path) {
  void *bytes;
  size_t n;
  assert_int_equal(mr_read_file(path, 1 << 24, &bytes, &n, NULL), MR_OK);
  char *text = realloc(bytes, n + 1);
  assert_non_null(text);
  text[n] = 0;
  return text;
}

/* The number behind `"name":` in the first line of a file of this kind. */
static double judged(const char *file, const char *name) {
  char key[64], *text = read_text(file);
  snprintf(key, sizeof key, "\"%s\":", name);
  const char *at = strstr(text, "\"kind\":\"test\"");
  at = at ? strstr(at, key) : NULL;
  if (!at) fail_msg("%s has no %s", file, name);
  double v = strtod(at + strlen(key), NULL);
  free(text);
  return v;
}

static void classes_are_those_that_the_evaluation_counts(void **state) {
  int n = 0, right = 0;
  RUN(&p, "predict", "r", "photos", "--top", "2", "--out", "rows.jsonl");
  must();
  char *text = read_text("rows.jsonl"), *rest = NULL, last[256] = "";
  for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest), n++) {
    cJSON *o = cJSON_Parse(line);
    const char *file = cJSON_GetStringValue(cJSON_GetObjectItem(o, "file")),
               *class = cJSON_GetStringValue(cJSON_GetObjectItem(o, "class"));
    cJSON *scores = cJSON_GetObjectItem(o, "scores");
    assert_true(file && class && cJSON_GetArraySize(scores) == 2);
    double one = cJSON_GetArrayItem(scores, 0)->valuedouble,
           other = cJSON_GetArrayItem(scores, 1)->valuedouble;
    assert_true(one >= other && one + other > 0.99 && one + other < 1.01);
    assert_true(strcmp(file, last) > 0); /* the order of the records */
    snprintf(last, sizeof last, "%s", file);
    assert_int_equal(cJSON_GetObjectItem(o, "id")->valueint, n);
    char in[32];
    snprintf(in, sizeof in, "photos/%s/", class);
    right += !strncmp(file, in, strlen(in));
    cJSON_Delete(o);
  }
  free(text);
  RUN(&p, "eval", "r", "valid-data.split=all", "--jsonl", "eval.jsonl");
  must();
  assert_int_equal((int)judged("eval.jsonl", "records"), n);
  assert_true(fabs(judged("eval.jsonl", "accuracy") - (double)right / n) < 1e-6);
}

/* Data of one class, whose pictures a model of two takes for the other: a link carries the
   predictions, which are of the model's classes. */
static void predictions_of_classes_that_the_data_lack_pass_a_link(void **state) {
  static const char make[] =
      "mkdir -p two/0 two/1 few/0 && cp photos/?/* two/1 && "
      "cp $(find photos -type f | sort | head -n 1) two/0 && "
      "cp $(find photos -type f | sort | tail -n 4) few/0";
  assert_int_equal(system(make), 0);
  RUN(&p, "train", "two", "--run-dir", "m", "--steps", "40", "batch=8", "layers=1", "embed=32",
      "mlp=32", "heads=2", "threads=1", "lr=1e-2");
  must();
  RUN(&p, "predict", "m", "few", "--out", "few.jsonl");
  must();
  char *text = read_text("few.jsonl");
  const char *found = strstr(text, "\"class\":\"");
  assert_true(found && found[strlen("\"class\":\"")] == '1'); /* else nothing is shown below */
  free(text);
  RUN(&p, "run",
      "process reader { folder few ! sequential epochs=1 ! decode ! resize 32x32 ! normalize "
      "preset=imagenet ! batch 4 name=pictures }\n"
      "process server { predict m/checkpoints/latest name=scores }\n"
      "process taker { ledger path=l name=end }\npictures. ! scores.\nscores. ! end.");
  must();
  assert_non_null(strstr(p.out, "end: up to step 1, 4 records"));
}

/* The evaluation's wrong guesses, each with the file of its record, are those of predict. */
static void mistakes_of_an_evaluation_have_ids_and_files(void **state) {
  int n = 0;
  RUN(&p, "eval", "r", "valid-data.split=all", "--jsonl", "judged.jsonl", "--mistakes",
      "wrong.jsonl");
  must();
  assert_non_null(strstr(p.err, " records that were guessed wrong"));
  RUN(&p, "predict", "r", "photos", "--out", "rows.jsonl");
  must();
  char *rows = read_text("rows.jsonl"), *text = read_text("wrong.jsonl"), *rest = NULL;
  for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest), n++) {
    cJSON *o = cJSON_Parse(line);
    const char *file = cJSON_GetStringValue(cJSON_GetObjectItem(o, "file")),
               *class = cJSON_GetStringValue(cJSON_GetObjectItem(o, "class")),
               *guess = cJSON_GetStringValue(cJSON_GetObjectItem(o, "guess"));
    char in[64], row[300];
    assert_true(file && class && guess && strcmp(class, guess));
    snprintf(in, sizeof in, "photos/%s/", class);
    assert_int_equal(strncmp(file, in, strlen(in)), 0);
    snprintf(row, sizeof row, "{\"id\":%d,\"file\":\"%s\",\"class\":\"%s\"",
             cJSON_GetObjectItem(o, "id")->valueint, file, guess);
    if (!strstr(rows, row)) fail_msg("predict has no %s", row);
    cJSON_Delete(o);
  }
  double records = judged("judged.jsonl", "records");
  assert_int_equal(n, (int)lround(records * (1 - judged("judged.jsonl", "accuracy"))));
  assert_true(n > 0);
  free(text), free(rows);
  RUN(&p, "eval", "r", "--mistakes", "/proc/no/wrong.jsonl");
  expect(1, "setting mistakes: /proc/no/wrong.jsonl: cannot make the file");
}

/* Whether a folder has files of temporary names. */
static bool has_parts(const char *folder) {
  bool any = false;
  DIR *d = opendir(folder);
  assert_non_null(d);
  for (const struct dirent *e; (e = readdir(d));) any |= strstr(e->d_name, ".part-") != NULL;
  closedir(d);
  return any;
}

static void expect_kept(const char *path, const char *want) {
  char *text = read_text(path);
  assert_string_equal(text, want);
  free(text);
  assert_false(has_parts("."));
}

static int count_lines(const char *path) {
  char *text = read_text(path);
  int n = 0;
  for (const char *at = text; (at = strchr(at, '\n')); at++) n++;
  free(text);
  return n;
}

#define EVAL                                                                          \
  " ! decode ! resize 32x32 ! normalize preset=cifar10 ! batch 8 ! eval-step name=e " \
  "alone.safetensors threads=1 mistakes=kept.jsonl"

/* The file of the mistakes is that of whole evaluations, or the older one. */
static void mistakes_take_their_name_when_an_evaluation_is_whole(void **state) {
  assert_int_equal(mr_write_file("kept.jsonl", "old\n", 4, NULL), MR_OK);
  assert_int_equal(system("rm -rf torn && cp -r photos torn"), 0);
  assert_int_equal(mr_write_file("torn/a/zz.jpg", "\xff\xd8\xff no more", 10, NULL), MR_OK);
  RUN(&p, "run", "folder torn ! sequential epochs=1" EVAL " ! null");
  assert_int_not_equal(p.status, 0);
  assert_non_null(strstr(p.err, "torn/a/zz.jpg"));
  expect_kept("kept.jsonl", "old\n");
  RUN(&p, "run", "folder photos ! sequential epochs=1" EVAL " device=opencl:99 ! null");
  assert_int_not_equal(p.status, 0);
  expect_kept("kept.jsonl", "old\n");
  RUN(&p, "run", "folder photos ! sequential epochs=1" EVAL " ! null");
  must();
  int each = count_lines("kept.jsonl");
  assert_true(each > 0);
  RUN(&p, "run", "folder photos ! sequential epochs=0" EVAL " evaluations=2 ! null");
  must();
  assert_int_equal(count_lines("kept.jsonl"), 2 * each);
  assert_false(has_parts("."));
}

/* A stream without end is stopped after an evaluation or within one. */
static void mistakes_of_a_stopped_stream_are_those_of_whole_evaluations(void **state) {
  RUN(&p, "run", "folder photos ! sequential epochs=1" EVAL " ! null");
  must();
  int each = count_lines("kept.jsonl");
  const char *words[] = {
      "run", "folder photos ! sequential epochs=0" EVAL " ! jsonl path=seen.jsonl", NULL};
  FILE *out = tmpfile(), *err = tmpfile();
  struct stat st;
  pid_t pid = program_start(words, out, err);
  while ((stat("seen.jsonl", &st) || !st.st_size) && waitpid(pid, NULL, WNOHANG) == 0) usleep(1000);
  kill(pid, SIGINT);
  p.status = program_wait(pid);
  program_read(out, p.out, sizeof p.out), program_read(err, p.err, sizeof p.err);
  if (p.status != 130) fail_msg("%d: %s%s", p.status, p.out, p.err);
  int n = count_lines("kept.jsonl");
  assert_true(n >= each && n % each == 0);
  assert_false(has_parts("."));
}

static void mistakes_need_a_file_and_a_model_of_classes(void **state) {
  assert_int_equal(symlink("rows.jsonl", "link"), 0); /* as /dev/stdout is one */
  assert_int_equal(mkfifo("pipe", 0600), 0);
  static const char *const no_file[][2] = {
      {"link", "a link"}, {"pipe", "a pipe, socket or device"}, {"photos", "a folder"}};
  for (int i = 0; i < 3; i++) {
    char says[160];
    RUN(&p, "eval", "r", "--mistakes", no_file[i][0]);
    snprintf(says, sizeof says, "setting mistakes: %s: is %s, want the name of a file",
             no_file[i][0], no_file[i][1]);
    expect(2, says);
  }
  RUN(&p, "eval", "n", "--mistakes", "none.jsonl");
  expect(2, "predicts no class, so that no guess is wrong");
  assert_int_not_equal(access("none.jsonl", F_OK), 0);
  static const char graph[] =
      "let run = unset\n"
      "folder photos ! sequential epochs=1 ! m. folder photos ! sequential epochs=1 ! m.\n"
      "concatenate name=m ! decode ! resize 32x32 ! normalize preset=cifar10 ! batch 8 ! "
      "train-step\n"
      "  name=train layers=1 embed=16 mlp=16 heads=2 steps=1 threads=1\n"
      "train.state ! checkpoint dir=$run/checkpoints\n";
  assert_int_equal(mr_write_file("joined.mr", graph, sizeof graph - 1, NULL), MR_OK);
  RUN(&p, "train", "--graph", "joined.mr", "--run-dir", "s");
  must();
  RUN(&p, "eval", "s", "--mistakes", "s.jsonl");
  must();
  assert_non_null(strstr(p.err, "guessed wrong; they are of several sources"));
}

static void a_graph_whose_sources_have_no_names_predicts_too(void **state) {
  static const char graph[] =
      "let run = unset\n"
      "folder path=photos split=train holdout=4 ! sequential ! decode ! resize 32x32\n"
      "  ! normalize preset=cifar10 ! batch 8 ! train-step name=train layers=1 embed=32 mlp=32\n"
      "  heads=2 steps=1 threads=1\n"
      "folder path=photos split=valid holdout=4 ! sequential epochs=0 ! decode ! resize 32x32\n"
      "  ! normalize preset=cifar10 ! batch 4 ! train.valid\n"
      "train.state ! checkpoint dir=$run/checkpoints\n";
  assert_int_equal(mr_write_file("unnamed.mr", graph, sizeof graph - 1, NULL), MR_OK);
  RUN(&p, "train", "--graph", "unnamed.mr", "--run-dir", "u");
  must();
  RUN(&p, "predict", "u", "photos");
  must();
  assert_non_null(strstr(p.err, " records in "));
}

/* A run may evaluate few of its records; those that are given are predicted all, in their order. */
static void no_record_is_left_out_because_the_run_evaluated_few(void **state) {
  static const char graph[] =
      "let run = unset\n"
      "folder path=photos split=train holdout=8 ! sequential ! decode ! resize 32x32\n"
      "  ! normalize preset=cifar10 ! batch 8 ! train-step name=train layers=1 embed=32 mlp=32\n"
      "  heads=2 steps=1 threads=1\n"
      "folder path=photos split=valid holdout=8 ! slice 7:1:-1 ! sequential epochs=0 ! decode\n"
      "  ! resize 32x32 ! normalize preset=cifar10 ! batch 4 ! train.valid\n"
      "train.state ! checkpoint dir=$run/checkpoints\n";
  assert_int_equal(mr_write_file("few.mr", graph, sizeof graph - 1, NULL), MR_OK);
  RUN(&p, "train", "--graph", "few.mr", "--run-dir", "cut", "--limit-valid", "3");
  must();
  RUN(&p, "predict", "cut", "photos", "--out", "few.csv");
  must();
  RUN(&p, "predict", "r", "photos", "--out", "all.csv");
  must();
  assert_true(count_lines("few.csv") > 8);
  assert_int_equal(count_lines("few.csv"), count_lines("all.csv"));
  char *few = read_text("few.csv"), *all = read_text("all.csv");
  const char *a = few, *b = all;
  for (; (a = strchr(a, '\n')) && (b = strchr(b, '\n')) && a[1]; a++, b++)
    if (strcspn(a + 1, ",") != strcspn(b + 1, ",") || strncmp(a, b, 1 + strcspn(a + 1, ",")))
      fail_msg("the records are in another order: %.60s, %.60s", a, b);
  free(few), free(all);
}

enum { TWELVE = 12 };

static void write_twelve(void) {
  static float x[TWELVE * 4], y[TWELVE];
  const int64_t rows[] = {TWELVE, 4};
  for (int i = 0; i < TWELVE; i++) x[i * 4] = y[i] = (float)i;
  assert_true(mr_make_folder("twelve", NULL) >= 0);
  assert_int_equal(mr_npy_save("twelve/x.npy", MR_F32, 2, rows, x, NULL), MR_OK);
  assert_int_equal(mr_npy_save("twelve/y.npy", MR_F32, 1, rows, y, NULL), MR_OK);
}

/* The graph of a run that evaluates arrays of twelve rows behind these orders. */
static void run_with_orders(const char *run, const char *orders) {
  char text[900];
  int n = snprintf(text, sizeof text,
                   "let run = unset\n"
                   "let data = twelve\n"
                   "npy name=data fields=x:$data/x.npy,y:$data/y.npy ! sequential ! batch 4\n"
                   "  ! train-step name=train model=mlp hidden=4 steps=1 threads=1\n"
                   "  leak-check=off\n"
                   "npy name=valid-data fields=x:$data/x.npy,y:$data/y.npy ! %s ! batch 5\n"
                   "  drop-remainder ! train.valid\n"
                   "train.state ! checkpoint dir=$run/checkpoints\n",
                   orders);
  assert_int_equal(mr_write_file("orders.mr", text, (size_t)n, NULL), MR_OK);
  RUN(&p, "train", "--graph", "orders.mr", "--run-dir", run);
  must();
}

/* Rows 0 to 11, each with the file and the place of its record. */
static void expect_twelve_rows(const char *path) {
  char *text = read_text(path), *rest = NULL;
  int n = 0;
  for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest), n++) {
    cJSON *o = cJSON_Parse(line);
    if (!o || cJSON_GetObjectItem(o, "bad") || cJSON_GetObjectItem(o, "id")->valueint != n)
      fail_msg("row %d: %s", n, line);
    assert_non_null(cJSON_GetStringValue(cJSON_GetObjectItem(o, "file")));
    cJSON_Delete(o);
  }
  free(text);
  assert_int_equal(n, TWELVE);
}

/* Orders, shards and ends of the run's line are those of its evaluation, not of what is given. */
static void each_record_has_its_row_whatever_the_evaluation_chooses(void **state) {
  static const char *const orders[] = {
      "shuffle seed=1 epochs=0",
      "shuffle first=7",
      "shuffle seed=3 shard=1/2",
      "sequential shard=0/2",
      "sequential epochs=3 ! limit 4",
      "sequential ! slice ::-2",
      "sequential ! repeat 2",
      "sequential ! repeat",
      "sequential ! filter key=2:5 invert",
      "sequential ! window-shuffle 4 seed=2",
      "sequential ! to-iter-dataset ! window-shuffle 4 seed=2 ! limit 8",
      "sequential ! mp-prefetch 2",
      "seed 3 ! shuffle ! random-map",
  };
  write_twelve();
  for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) {
    char run[16], name[16];
    snprintf(run, sizeof run, "o%zu", i), snprintf(name, sizeof name, "o%zu.jsonl", i);
    run_with_orders(run, orders[i]);
    RUN(&p, "predict", run, "twelve", "--out", name);
    if (p.status || strstr(p.err, "cannot be read") || strstr(p.err, "predict:"))
      fail_msg("%s: %s%s", orders[i], p.err, p.out);
    expect_twelve_rows(name);
  }
}

/* The command line may order and choose: rows are those of the records that come, and it is said.
 */
static void rows_in_an_order_of_the_command_line_have_their_own_ids(void **state) {
  uint32_t seen = 0;
  write_twelve();
  run_with_orders("ordered", "shuffle seed=1 name=order");
  RUN(&p, "predict", "ordered", "twelve", "order.shuffle=true", "--out", "ordered.jsonl");
  must();
  assert_null(strstr(p.err, "cannot be read"));
  assert_non_null(strstr(p.err, "predict: order.shuffle may leave out, repeat or reorder records"));
  char *text = read_text("ordered.jsonl"), *rest = NULL;
  bool sorted = true;
  int n = 0;
  for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest), n++) {
    cJSON *o = cJSON_Parse(line);
    assert_non_null(o);
    assert_null(cJSON_GetObjectItem(o, "bad"));
    int id = cJSON_GetObjectItem(o, "id")->valueint;
    assert_true(id >= 0 && id < TWELVE);
    seen |= 1u << id, sorted &= id == n;
    cJSON_Delete(o);
  }
  free(text);
  assert_int_equal(seen, (1u << TWELVE) - 1);
  assert_false(sorted);
  RUN(&p, "predict", "ordered", "twelve", "first=3", "--out", "three.jsonl");
  must();
  assert_int_equal(count_lines("three.jsonl"), 3);
  assert_null(strstr(p.err, "predict:"));
}

static void a_checkpoint_alone_predicts_the_same(void **state) {
  RUN(&p, "predict", "r", "photos", "--out", "a.csv");
  must();
  RUN(&p, "predict", "alone.safetensors", "photos", "--out", "b.csv", "batches.size=7");
  must();
  char *a = read_text("a.csv"), *b = read_text("b.csv");
  assert_string_equal(a, b);
  assert_int_equal(strncmp(a, "id,file,offset,class1,score1\n0,\"photos/a/", 40), 0);
  free(a), free(b);
}

static void a_command_that_was_killed_continues_behind_its_whole_batches(void **state) {
  RUN(&p, "predict", "r", "photos", "--out", "whole.jsonl");
  must();
  char *whole = read_text("whole.jsonl");
  size_t n = strlen(whole);
  const size_t cut[] = {0, 1, n / 3, n - 1, n};
  for (size_t i = 0; i < sizeof cut / sizeof *cut; i++) {
    assert_int_equal(mr_write_file("part.jsonl", whole, cut[i], NULL), MR_OK);
    RUN(&p, "predict", "r", "photos", "--out", "part.jsonl", "--resume");
    must();
    char *part = read_text("part.jsonl");
    assert_string_equal(part, whole);
    free(part);
  }
  free(whole);
  RUN(&p, "predict", "r", "photos", "--resume", "--out", "x.npz");
  expect(2, "--resume: wants --out FILE.jsonl or FILE.csv");
}

static void a_record_that_cannot_be_read_has_its_row(void **state) {
  assert_int_equal(system("mkdir -p mixed && cp photos/a/* mixed/"), 0);
  assert_int_equal(mr_write_file("mixed/0.jpg", "\xff\xd8\xff nothing more", 16, NULL), MR_OK);
  RUN(&p, "predict", "r", "mixed/", "--out", "mixed.jsonl"); /* pictures without classes */
  must();
  assert_non_null(strstr(p.err, "mixed/0.jpg cannot be read"));
  assert_non_null(strstr(p.err, "; 1 cannot be read"));
  char *text = read_text("mixed.jsonl");
  assert_int_equal(strncmp(text, "{\"id\":0,\"file\":\"mixed/0.jpg\",\"bad\":true}\n", 41), 0);
  assert_null(strstr(strchr(text, '\n'), "bad"));
  free(text);
  RUN(&p, "predict", "r", "mixed/0.jpg");
  assert_int_not_equal(p.status, 0); /* nothing is left to predict */
}

static void arrays_of_numbers_and_features_are_written(void **state) {
  void *file;
  size_t n;
  mr_npy_t a;
  int arrays = 0;
  RUN(&p, "predict", "n", "numbers", "--out", "y.npz");
  must();
  assert_int_equal(mr_read_file("y.npz", 1 << 24, &file, &n, NULL), MR_OK);
  assert_true(npz_find(file, n, "values", &a, &arrays));
  assert_true(arrays == 2 && a.dtype == MR_F32 && a.ndim == 2 && a.dim[0] == 40 && a.dim[1] == 1);
  free(file);
  RUN(&p, "predict", "r", "photos", "--features", "--out", "f.npz");
  must();
  assert_int_equal(mr_read_file("f.npz", 1 << 24, &file, &n, NULL), MR_OK);
  assert_true(npz_find(file, n, "values", &a, &arrays));
  assert_true(a.ndim == 2 && a.dim[1] == 32); /* embed */
  free(file);
}

/* A graph's own preparation must be the checkpoint's. */
static void the_stage_refuses_records_that_are_prepared_otherwise(void **state) {
#define LINE "folder photos ! sequential epochs=1 ! decode ! resize 36 ! center-crop 32 ! "
#define END " ! batch 8 ! predict alone.safetensors ! null"
  RUN(&p, "run", LINE "normalize preset=imagenet" END);
  must();
  assert_non_null(strstr(p.out, "null: "));
  RUN(&p, "run", LINE "normalize mean=0.1 std=0.1" END);
  expect(2, "field image is normalised by mean=0.1,0.1,0.1");
  RUN(&p, "run", LINE "resize 16x16 ! normalize preset=imagenet" END);
  expect(2, "and the model of alone.safetensors was trained on image f32[32,32,3] HWC");
  RUN(&p, "run", "npy fields=x:numbers/x.npy ! sequential epochs=1" END);
  expect(2, "takes the field image, and input in has x");
  RUN(&p, "predict", "n", "photos");
  assert_int_equal(p.status, 2);
}

static void a_folder_without_a_run_and_missing_data_are_refused(void **state) {
  RUN(&p, "predict", "photos", "photos");
  expect(1, "photos is a folder that holds no run");
  RUN(&p, "predict", "r", "no-such");
  expect(1, "no-such: cannot be read");
  RUN(&p, "predict", "r", "photos", "--out", "rows.parquet");
  expect(2, "--out: rows.parquet: want a name that ends in .jsonl, .csv or .npz");
  RUN(&p, "predict", "r");
  assert_int_equal(p.status, 2);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(classes_are_those_that_the_evaluation_counts),
      cmocka_unit_test(mistakes_of_an_evaluation_have_ids_and_files),
      cmocka_unit_test(mistakes_take_their_name_when_an_evaluation_is_whole),
      cmocka_unit_test(mistakes_of_a_stopped_stream_are_those_of_whole_evaluations),
      cmocka_unit_test(mistakes_need_a_file_and_a_model_of_classes),
      cmocka_unit_test(a_graph_whose_sources_have_no_names_predicts_too),
      cmocka_unit_test(no_record_is_left_out_because_the_run_evaluated_few),
      cmocka_unit_test(each_record_has_its_row_whatever_the_evaluation_chooses),
      cmocka_unit_test(rows_in_an_order_of_the_command_line_have_their_own_ids),
      cmocka_unit_test(a_checkpoint_alone_predicts_the_same),
      cmocka_unit_test(a_command_that_was_killed_continues_behind_its_whole_batches),
      cmocka_unit_test(a_record_that_cannot_be_read_has_its_row),
      cmocka_unit_test(arrays_of_numbers_and_features_are_written),
      cmocka_unit_test(the_stage_refuses_records_that_are_prepared_otherwise),
      cmocka_unit_test(a_folder_without_a_run_and_missing_data_are_refused),
      cmocka_unit_test(predictions_of_classes_that_the_data_lack_pass_a_link),
  };
  return cmocka_run_group_tests(tests, setup, teardown);
}
