/* Data and weights of one's own that are wrong: each is refused, or reported, in the words of what
   the user has. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>

#include "base/npy.h"
#include "base/safetensors.h"
#include "base/xio.h"
#include "tests/apps/pictures.h"
#include "tests/apps/program.h"

enum { ROWS = 40 };

static program_t p;
static char dir[] = "/tmp/mr-bad-XXXXXX", before[512];

#define SMALL "layers=1", "embed=32", "mlp=32", "heads=2", "threads=1", "--steps", "2"

static void expect(int status, const char *sentence) {
  if (p.status != status || !strstr(p.err, sentence))
    fail_msg("status %d, expected %d and \"%s\": %s%s", p.status, status, sentence, p.err, p.out);
}

static void must_shell(const char *command) {
  if (system(command) != 0) fail_msg("%s", command);
}

static int setup(void **state) {
  static float x[ROWS * 4], y[ROWS];
  const int64_t rows[] = {ROWS, 4};
  if (!mkdtemp(dir) || !getcwd(before, sizeof before) || chdir(dir) < 0) return -1;
  setenv("XDG_CACHE_HOME", dir, 1);
  write_pictures("photos");
  for (int i = 0; i < ROWS; i++) x[i * 4] = y[i] = (float)i;
  assert_int_equal(mr_make_folder("numbers", NULL), MR_OK);
  assert_int_equal(mr_npy_save("numbers/x.npy", MR_F32, 2, rows, x, NULL), MR_OK);
  assert_int_equal(mr_npy_save("numbers/y.npy", MR_F32, 1, rows, y, NULL), MR_OK);
  x[4 * 7 + 2] = NAN;
  assert_int_equal(mr_npy_save("nan.npy", MR_F32, 2, rows, x, NULL), MR_OK);
  assert_int_equal(mr_make_folder("nans", NULL), MR_OK);
  assert_int_equal(mr_npy_save("nans/x.npy", MR_F32, 2, rows, x, NULL), MR_OK);
  assert_int_equal(mr_npy_save("nans/y.npy", MR_F32, 1, rows, y, NULL), MR_OK);
  RUN(&p, "train", "photos", "--run-dir", "of-photos", SMALL);
  expect(0, "");
  RUN(&p, "train", "numbers", "--run-dir", "of-numbers", "--steps", "2", "hidden=8", "threads=1");
  expect(0, "");
  return 0;
}

static int teardown(void **state) {
  if (chdir(before) < 0) return -1;
  return program_forget(dir);
}

static void an_empty_class_is_refused_by_its_folder(void **state) {
  must_shell("cp -r photos empty && mkdir empty/cow");
  RUN(&p, "train", "empty", "--run-dir", "r", SMALL);
  expect(1,
         "empty/cow: holds no picture (*.jpg, *.png, *.webp, ..), want one in each class, or "
         "allow-empty=true");
  RUN(&p, "inspect", "empty");
  expect(1, "empty/cow: holds no picture");
  RUN(&p, "run", "folder empty allow-empty=true ! sequential epochs=1 ! batch 4 ! null");
  expect(0, "");
}

static void a_picture_in_none_of_the_classes_is_reported(void **state) {
  must_shell("cp -r photos stray && cp \"$(find photos -type f | head -n 1)\" stray/lost.png");
  RUN(&p, "train", "stray", "--run-dir", "r", SMALL);
  const char *said = "stray: a picture is in the folder of no class, and is not read: lost.png";
  expect(0, said);
  assert_null(strstr(strstr(p.err, said) + 1, said)); /* once, of two stages */
  must_shell("cp stray/lost.png stray/more.png");
  RUN(&p, "run", "folder stray ! sequential epochs=1 ! batch 4 ! null");
  expect(0, "stray: 2 pictures are in the folder of no class, and are not read: ");
}

static void two_files_of_one_name_in_an_archive_are_refused(void **state) {
  must_shell(
      "mkdir twice && printf a >twice/0.txt && printf 0 >twice/0.cls && "
      "cd twice && tar cf ../twice.tar 0.txt 0.txt 0.cls && tar rf ../twice.tar 0.txt");
  RUN(&p, "run", "tar twice.tar ! sequential epochs=1 ! batch 1 ! null");
  expect(1, "twice.tar: a second member 0.txt at byte ");
  assert_non_null(strstr(p.err, "want one of a name"));
}

static void a_checkpoint_of_another_task_says_which_field_is_missing(void **state) {
  RUN(&p, "predict", "of-numbers", "photos");
  expect(2, "takes the field x, and input in has image");
  RUN(&p, "predict", "of-photos", "numbers/x.npy");
  expect(2, "takes the field image f32[32,32,3] HWC: ");
  assert_non_null(strstr(p.err, "the records have x"));
  must_shell("cp of-photos/checkpoints/latest alone.safetensors");
  RUN(&p, "predict", "alone.safetensors", "numbers/x.npy");
  expect(2, "takes the field image");
}

static void weights_that_fit_nothing_name_the_three_nearest(void **state) {
  static const float one[4];
  const mr_st_tensor_t odd[] = {{"patch_embed.conv_proj.kernels", MR_F32, 1, {4}, one},
                                {"patch_embed.proj.kernel", MR_F32, 1, {4}, one},
                                {"patch_.conv_proj.ker", MR_F32, 1, {4}, one},
                                {"classifier", MR_F32, 1, {4}, one}};
  assert_int_equal(mr_safetensors_write("odd.safetensors", odd, 4, NULL, 0, NULL), MR_OK);
  RUN(&p, "train", "photos", "--run-dir", "r2", "from=odd.safetensors", SMALL);
  expect(1,
         "odd.safetensors: has no patch_embed.conv_proj.kernel for parameter "
         "patch_embed.conv_proj.kernel; nearest are patch_embed.conv_proj.kernels, "
         "patch_embed.proj.kernel, patch_.conv_proj.ker; want ");
}

static void weights_of_another_width_are_refused_with_both(void **state) {
  RUN(&p, "train", "photos", "--run-dir", "r3", "from=of-photos/checkpoints/latest", "layers=1",
      "embed=64", "mlp=32", "heads=2", "patch=8", "threads=1", "--steps", "2");
  expect(1,
         "params/patch_embed.conv_proj.kernel is f32[4,4,3,32], and parameter "
         "patch_embed.conv_proj.kernel is f32[8,8,3,64]: want a model of the same sizes (embed=, "
         "mlp=, heads=)");
}

static void a_score_that_is_nan_ends_predict_with_its_record(void **state) {
  RUN(&p, "predict", "of-numbers", "nan.npy", "--out", "rows.jsonl");
  expect(1, "record 7");
  assert_non_null(strstr(p.err,
                         "nan is not finite: the checkpoint's weights, or the record's "
                         "values, are not numbers that the model can compute with"));
}

static void a_loss_that_is_nan_is_said_by_eval_with_its_record(void **state) {
  RUN(&p, "run",
      "npy fields=x:nans/x.npy,y:nans/y.npy ! sequential epochs=1 ! batch 4 ! eval-step "
      "of-numbers/checkpoints/latest ! progress");
  expect(0, "eval-step: the loss of 1 of ");
  assert_non_null(strstr(p.err, "is not finite, first of record 7: the weights, or the records'"));
  RUN(&p, "eval", "of-numbers");
  assert_null(strstr(p.err, "not finite"));
}

static void weights_alone_are_no_checkpoint(void **state) {
  static const float one[4];
  const mr_st_tensor_t odd = {"head.weight", MR_F32, 1, {4}, one};
  assert_int_equal(mr_safetensors_write("alone.safetensors", &odd, 1, NULL, 0, NULL), MR_OK);
  static const char said[] =
      "alone.safetensors: not a checkpoint of train-step: metadata "
      "millrace.model is missing; weights of another library, or exported "
      "ones, begin a run: train from=alone.safetensors";
  RUN(&p, "predict", "alone.safetensors", "nan.npy");
  expect(1, said);
  RUN(&p, "eval", "alone.safetensors");
  expect(1, said);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(an_empty_class_is_refused_by_its_folder),
      cmocka_unit_test(a_picture_in_none_of_the_classes_is_reported),
      cmocka_unit_test(two_files_of_one_name_in_an_archive_are_refused),
      cmocka_unit_test(a_checkpoint_of_another_task_says_which_field_is_missing),
      cmocka_unit_test(weights_that_fit_nothing_name_the_three_nearest),
      cmocka_unit_test(weights_of_another_width_are_refused_with_both),
      cmocka_unit_test(a_score_that_is_nan_ends_predict_with_its_record),
      cmocka_unit_test(a_loss_that_is_nan_is_said_by_eval_with_its_record),
      cmocka_unit_test(weights_alone_are_no_checkpoint),
  };
  return cmocka_run_group_tests(tests, setup, teardown);
}
