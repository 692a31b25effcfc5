/* millrace train PATH and inspect PATH: data of every kind are recognised, and get a graph that
   trains on them; what they do not say is asked for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sys/stat.h>

#include "base/npy.h"
#include "base/npz.h"
#include "base/xio.h"
#include "tests/apps/pictures.h"
#include "tests/apps/program.h"

enum { ROWS = 40 };

static program_t p;
static char dir[] = "/tmp/mr-own-XXXXXX", before[512];

#define SMALL "layers=1", "embed=32", "mlp=32", "heads=2", "--steps", "1"

static void write_words(const char *path, const char *text) {
  assert_int_equal(mr_write_file(path, text, strlen(text), NULL), MR_OK);
}

/* Records of each kind that this program can write, in a folder each. */
static void write_kinds(void) {
  static uint8_t image[ROWS * 3072];
  static float x[ROWS * 4], y[ROWS];
  static int64_t label[ROWS];
  const int64_t images[] = {ROWS, 32, 32, 3}, rows[] = {ROWS, 4};
  for (int i = 0; i < ROWS; i++) label[i] = i % 3, x[i * 4] = y[i] = (float)i;
  assert_int_equal(mr_make_folder("arrays", NULL), MR_OK);
  assert_int_equal(mr_npy_save("arrays/images.npy", MR_U8, 4, images, image, NULL), MR_OK);
  assert_int_equal(mr_npy_save("arrays/labels.npy", MR_I64, 1, images, label, NULL), MR_OK);
  assert_int_equal(mr_make_folder("numbers", NULL), MR_OK);
  assert_int_equal(mr_npy_save("numbers/x.npy", MR_F32, 2, rows, x, NULL), MR_OK);
  assert_int_equal(mr_npy_save("numbers/y.npy", MR_F32, 1, rows, y, NULL), MR_OK);
  const mr_npz_array_t array[] = {
      {.name = "x", .dtype = MR_F32, .ndim = 2, .dim = {ROWS, 4}, .data = x},
      {.name = "y", .dtype = MR_F32, .ndim = 1, .dim = {ROWS}, .data = y}};
  assert_int_equal(mr_npz_save("both.npz", array, 2, NULL), MR_OK);
  static const char *const format[] = {"tar", "tfrecord", "mds"}, *const out[] = {"archives",
                                                                                  "examples",
                                                                                  "samples"};
  for (int i = 0; i < 3; i++) {
    RUN(&p, "pack", "folder photos/train ! sequential epochs=1", "--out", out[i], "--format",
        format[i], "--records", "4");
    if (p.status) fail_msg("%s", p.err);
  }
}

static int setup(void **state) {
  if (!mkdtemp(dir) || !getcwd(before, sizeof before) || chdir(dir) < 0) return -1;
  setenv("XDG_CACHE_HOME", dir, 1);
  write_pictures("photos/train"), write_pictures("photos/val");
  write_kinds();
  return 0;
}

static int teardown(void **state) {
  if (chdir(before) < 0) return -1;
  return program_forget(dir);
}

static void expect(int status, const char *sentence) {
  if (p.status != status || !strstr(p.err, sentence))
    fail_msg("status %d, expected %d and \"%s\": %s%s", p.status, status, sentence, p.err, p.out);
}

static void expect_said(const char *text) {
  if (p.status || !strstr(p.out, text)) fail_msg("no \"%s\": %s%s", text, p.err, p.out);
}

static void pictures_are_trained_on_and_their_run_is_evaluated(void **state) {
  size_t n;
  void *graph;
  RUN(&p, "train", "photos", "--run-dir", "r", "batch=4", SMALL);
  expect_said("path=$data/train");
  assert_int_equal(mr_read_file("r/graph.mr", 1 << 20, &graph, &n, NULL), MR_OK);
  expect_said(graph); /* printed, and kept */
  free(graph);
  RUN(&p, "eval", "r");
  expect_said("Held-back records, Loss: ");
  RUN(&p, "train", "--run-dir", "r", "--resume", "--steps", "2");
  expect_said("resumed at step 1");
}

static void a_graph_is_printed_and_nothing_made(void **state) {
  RUN(&p, "train", "photos/train/", "--print-graph");
  expect_said("split=train holdout=");
  expect_said("split=valid holdout=");
  assert_int_equal(access("runs", F_OK), -1);
  write_words("copy.mr", p.out);
  RUN(&p, "train", "--graph", "copy.mr", "--run-dir", "copied", "batch=4", SMALL);
  assert_int_equal(p.status, 0);
  RUN(&p, "train", "photos/val", "--graph", "copy.mr", "--run-dir", "moved", "batch=4", SMALL);
  assert_int_equal(p.status, 0);
  RUN(&p, "train", "--print-graph");
  expect_said("A Vision Transformer on CIFAR-10");
  RUN(&p, "train", "--data", "no-such", "batch=4", "lr=1e-3", "--epochs", "3", "--print-graph");
  expect_said("let data   = \"no-such\"\n");
  expect_said("let epochs = \"3\"\nlet batch  = \"4\"\n");
  expect_said("command line of --graph FILE too: lr=1e-3\n");
}

/* Lines that graph text allows, and values that want quotes. */
static void a_printed_graph_has_the_values_of_the_command_line(void **state) {
  write_words("lines.mr",
              "  let where = nowhere\nlet\tseed=1 # a word\nlet rate = 1\n"
              "count 5 name=c ! sequential seed=$seed ! batch 2 ! null name=$where\n");
  RUN(&p, "train", "--graph", "lines.mr", "--print-graph", "where=a \"b\\", "seed=7", "lr=2");
  expect_said("let where  = \"a \\\"b\\\\\"\n");
  expect_said("let seed   = \"7\"\n");
  expect_said("let rate = 1\n");
  expect_said("command line of --graph FILE too: lr=2\n");
  RUN(&p, "train", "--graph", "lines.mr", "--print-graph", "where=a\nb");
  expect(2, "where=: want a value of one line");
}

static void each_kind_of_data_is_recognised(void **state) {
  static const struct {
    const char *path, *called, *line;
    bool trains;
  } kind[] = {
      {"photos", "pictures in a folder for each class", "folder name=data path=$data/train", true},
      {"archives", "tar archives", "tar name=data files=$data", true},
      {"examples", "TFRecord files", "tfrecord name=data files=$data", true},
      {"samples", "shards of MosaicML Streaming", "mds name=data files=$data", true},
      {"arrays", "images.npy: .npy", "npy name=data images=$data/images.npy", true},
      {"numbers", "x.npy: .npy", "npy name=data fields=x:$data/x.npy,y:$data/y.npy", true},
      {"both.npz", ".npz files", "npz name=data files=$data", true},
  };
  for (size_t i = 0; i < sizeof kind / sizeof *kind; i++) {
    RUN(&p, "inspect", kind[i].path);
    expect_said(kind[i].called);
    RUN(&p, "train", kind[i].path, "--print-graph");
    expect_said(kind[i].line);
    char run[16];
    snprintf(run, sizeof run, "kind%zu", i);
    RUN(&p, "train", kind[i].path, "--run-dir", run, "batch=4", "--steps", "1", "threads=1");
    if (p.status) fail_msg("%s: %s", kind[i].path, p.err);
  }
}

/* What a name says is read by that stage, which says what is wrong with it. */
static void a_name_decides_which_stage_reads_a_file(void **state) {
  static const char *const file[][2] = {{"a.beton", "beton: "},
                                        {"a.arrayrecord", "arrayrecord: "},
                                        {"a.safetensors", "safetensors: "},
                                        {"train-00000-of-00001", "tfrecord: "}};
  for (size_t i = 0; i < sizeof file / sizeof *file; i++) {
    write_words(file[i][0], "nothing of the kind, but long enough to be looked at as if it were");
    RUN(&p, "train", file[i][0]);
    expect(1, file[i][1]);
  }
  assert_int_equal(mr_make_folder("chunks", NULL), MR_OK);
  write_words("chunks/index.json", "{\"chunks\": [], \"config\": {}}");
  RUN(&p, "train", "chunks");
  expect(1, "litdata: ");
}

static void data_that_could_mean_several_things_need_a_setting(void **state) {
  write_words("table.csv", "height,kind\n1,a\n2,b\n3,a\n");
  RUN(&p, "train", "table.csv");
  expect(2, "height, kind, which do not say what to learn from what; want fields=");
  RUN(&p, "train", "table.csv", "fields=height:x,kind:label:class");
  expect(2, "its field x is i64, want f32: where a member is read as another type");
  RUN(&p, "inspect", "table.csv", "fields=height:x:f32,kind:label:class");
  expect_said("records x f32[], label i32[]");
  RUN(&p, "inspect", "table.csv", "hight=1");
  expect(2, "inspect: hight=1: table has no such setting");
  RUN(&p, "inspect", "flip", "a", "b");
  expect(2, "\"b\" after a: expected nothing");
  write_words("words.bin", "0123456789abcdef");
  RUN(&p, "train", "words.bin", "length=2");
  expect(2, "want model=NAME of a plug-in");
  RUN(&p, "train", "words.bin", "source=tea");
  expect(2, "source=tea: not a kind of data; known: folder, ");
  assert_int_equal(mr_make_folder("mixed", NULL), MR_OK);
  write_words("mixed/a.csv", "x\n1\n"), write_words("mixed/b.tar", "");
  RUN(&p, "train", "mixed");
  expect(1, "holds CSV files and tar archives of WebDataset; want the name of a file, or source=");
  assert_int_equal(mr_make_folder("empty", NULL), MR_OK);
  RUN(&p, "train", "empty");
  expect(1, "empty: holds no data that are recognised; want a folder of pictures for each class");
  RUN(&p, "train", "photos/train/a");
  expect(1, "its pictures are in no folder of a class");
  RUN(&p, "train", "no/such");
  expect(1, "no/such: cannot be read");
  RUN(&p, "train", "photos", "--data", "photos");
  expect(2, "data are given twice");
  RUN(&p, "train", "photos", "data=archives");
  expect(2, "data is given twice, as photos and as data=");
  RUN(&p, "train", "photos", "photos");
  expect(2, "photos is a folder, expected NAME=VALUE: data are named once");
}

/* As TensorFlow Datasets names shards: the part and the format stand before the number. */
static void parts_and_kinds_are_read_from_names_of_shards(void **state) {
  assert_int_equal(mr_make_folder("tfds", NULL), MR_OK);
  assert_int_equal(
      symlink("../examples/shard-00000.tfrecord", "tfds/bees-train.tfrecord-00000-of-00001"), 0);
  assert_int_equal(
      symlink("../examples/shard-00001.tfrecord", "tfds/bees-test.tfrecord-00000-of-00001"), 0);
  RUN(&p, "inspect", "tfds");
  expect_said("data=tfds/bees-train.tfrecord-00000-of-00001");
  expect_said("for validation: tfds/bees-test.tfrecord-00000-of-00001");
  write_words("bees-train.array_record-00000-of-00001", "nothing of the kind, but long enough");
  RUN(&p, "train", "bees-train.array_record-00000-of-00001");
  expect(1, "arrayrecord: ");
}

/* Pictures in folders beside files of records: one of them is meant. */
static void pictures_beside_a_table_need_a_setting(void **state) {
  write_words("photos/train/list.csv", "file_name,label\na/0.jpg,a\n");
  RUN(&p, "train", "photos");
  expect(1, "holds CSV files and pictures in a folder for each class; want the name of a file");
  RUN(&p, "train", "photos", "source=folder", "--print-graph");
  expect_said("folder name=data path=$data/train");
  assert_int_equal(unlink("photos/train/list.csv"), 0);
}

/* The sizes of a graph are those of the data. */
static void classes_of_arrays_are_counted(void **state) {
  RUN(&p, "train", "arrays", "--print-graph");
  expect_said("labels=$data/labels.npy classes=3 split=train");
  RUN(&p, "train", "arrays/images.npy", "fields=x:numbers/x.npy,y:numbers/y.npy", "--print-graph");
  expect_said("npy name=data  fields=\"x:numbers/x.npy,y:numbers/y.npy\" split=train");
}

/* Settings of the source that the user gives reach every source of the graph. */
static void settings_of_the_source_are_in_the_graph(void **state) {
  RUN(&p, "train", "archives", "fields=jpg:image,cls:label", "classes=2", "--print-graph");
  expect_said("tar name=data files=$data fields=\"jpg:image,cls:label\" classes=\"2\" split=train");
  expect_said("name=valid-data files=$data fields=\"jpg:image,cls:label\" classes=\"2\" split=val");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(pictures_are_trained_on_and_their_run_is_evaluated),
      cmocka_unit_test(a_graph_is_printed_and_nothing_made),
      cmocka_unit_test(a_printed_graph_has_the_values_of_the_command_line),
      cmocka_unit_test(each_kind_of_data_is_recognised),
      cmocka_unit_test(a_name_decides_which_stage_reads_a_file),
      cmocka_unit_test(data_that_could_mean_several_things_need_a_setting),
      cmocka_unit_test(parts_and_kinds_are_read_from_names_of_shards),
      cmocka_unit_test(pictures_beside_a_table_need_a_setting),
      cmocka_unit_test(classes_of_arrays_are_counted),
      cmocka_unit_test(settings_of_the_source_are_in_the_graph),
  };
  return cmocka_run_group_tests(tests, setup, teardown);
}
