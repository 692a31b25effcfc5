/* millrace checkpoint: whole checkpoints are said to be whole, and a damaged tensor is named with
   its file. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sys/stat.h>

#include "base/safetensors.h"
#include "tests/apps/small_run.h"

static const char graph[] =
    "let run = unset\n"
    "synthetic n=40 split=train ! shuffle seed=1 epochs=3 ! normalize preset=cifar10\n"
    "  ! batch 8 drop-remainder\n"
    "  ! train-step name=train model=vit layers=1 embed=16 mlp=16 heads=2 threads=1 steps=6\n"
    "      checkpoint-every=2\n"
    "train.metrics ! jsonl path=$run/metrics.jsonl\n"
    "train.state ! checkpoint dir=$run/checkpoints keep=0\n";

static int group_setup(void **state) { return small_run("checkpoints", graph); }

static const char *checkpoint_of(int step) {
  static char path[192];
  snprintf(path, sizeof path, "%s/checkpoints/step-%06d.safetensors", whole, step);
  return path;
}

/* Changes a byte of a tensor, and once more makes it as it was. */
static void damage(const char *path, const char *tensor) {
  mr_safetensors_t *f;
  void *bytes;
  size_t n;
  static long at;
  if (mr_safetensors_open(path, &f, NULL) >= 0) {
    const char *last = mr_safetensors_at(f, mr_safetensors_count(f) - 1)->data;
    size_t tail = mr_safetensors_bytes(mr_safetensors_at(f, mr_safetensors_count(f) - 1));
    at = (long)(last + tail - (const char *)mr_safetensors_find(f, tensor)->data);
    mr_safetensors_close(f);
  }
  assert_int_equal(mr_read_file(path, 1 << 24, &bytes, &n, NULL), MR_OK);
  ((char *)bytes)[n - (size_t)at] ^= 1;
  assert_int_equal(mr_write_file(path, bytes, n, NULL), MR_OK);
  free(bytes);
}

static void all_checkpoints_of_a_run_are_verified(void **state) {
  char folder[128];
  snprintf(folder, sizeof folder, "%s/checkpoints", whole);
  const char *const word[] = {whole, folder};
  for (int i = 0; i < 2; i++) {
    RUN(&p, "checkpoint", "verify", word[i]);
    if (p.status) fail_msg("%s%s", p.out, p.err);
    for (int step = 2; step <= 6; step += 2) {
      char want[256];
      snprintf(want, sizeof want, "%s: whole, step %d ", checkpoint_of(step), step);
      if (!strstr(p.out, want)) fail_msg("no \"%s\" in: %s", want, p.out);
    }
    assert_null(strstr(p.out, "latest"));
  }
  RUN(&p, "checkpoint", "verify", checkpoint_of(4));
  assert_int_equal(p.status, 0);
  assert_non_null(strstr(p.out, "each has its hash"));
  assert_null(strstr(p.out, checkpoint_of(2)));
}

static void a_damaged_tensor_is_named_with_its_file_by_every_command(void **state) {
  const char *tensor[] = {"params/head.kernel", "adam.v/head.bias"};
  for (int i = 0; i < 2; i++) {
    char path[192], want[512], latest[160];
    snprintf(path, sizeof path, "%s", checkpoint_of(6));
    snprintf(latest, sizeof latest, "%s/checkpoints/latest", whole);
    damage(path, tensor[i]);
    RUN(&p, "checkpoint", "verify", whole);
    assert_int_equal(p.status, 1);
    snprintf(want, sizeof want, "%s: tensor %s is damaged", path, tensor[i]);
    if (!strstr(p.err, want)) fail_msg("no \"%s\" in: %s", want, p.err);
    assert_non_null(strstr(p.out, checkpoint_of(2))); /* the others are read nevertheless */
    assert_non_null(strstr(p.out, checkpoint_of(4)));
    snprintf(want, sizeof want, "tensor %s is damaged", tensor[i]);
    RUN(&p, "eval", latest);
    if (!p.status || !strstr(p.err, want)) fail_msg("%s", p.err);
    RUN(&p, "train", "--run-dir", whole, "--resume", "train.steps=7");
    if (!p.status || !strstr(p.err, want)) fail_msg("%s", p.err);
    damage(path, tensor[i]);
  }
  RUN(&p, "checkpoint", "verify", whole);
  assert_int_equal(p.status, 0);
}

/* A link to a file of another folder is read; latest, which leads to one of the same, is not. */
static void linked_checkpoints_are_verified(void **state) {
  char link[192], away[96];
  snprintf(away, sizeof away, "%s/away.safetensors", dir);
  snprintf(link, sizeof link, "%s", checkpoint_of(4));
  assert_int_equal(rename(link, away), 0);
  assert_int_equal(symlink(away, link), 0);
  RUN(&p, "checkpoint", "verify", whole);
  assert_int_equal(p.status, 0);
  if (!strstr(p.out, link) || strstr(p.out, "latest")) fail_msg("%s", p.out);
  damage(away, "params/head.bias");
  RUN(&p, "checkpoint", "verify", whole);
  if (p.status != 1 || !strstr(p.err, link)) fail_msg("%d: %s", p.status, p.err);
  damage(away, "params/head.bias");
  assert_int_equal(rename(away, link), 0);
}

#ifdef MR_FAULTS
/* As a run that is at work removes its older ones. */
static void a_checkpoint_that_goes_meanwhile_is_no_failure(void **state) {
  char only[128], path[2][192];
  void *bytes;
  size_t n;
  snprintf(only, sizeof only, "%s/going", dir);
  assert_int_equal(mkdir(only, 0700), 0);
  assert_int_equal(mr_read_file(checkpoint_of(2), 1 << 24, &bytes, &n, NULL), MR_OK);
  for (int i = 0; i < 2; i++) {
    snprintf(path[i], sizeof path[i], "%s/step-%06d.safetensors", only, i + 1);
    assert_int_equal(mr_write_file(path[i], bytes, n, NULL), MR_OK);
  }
  free(bytes);
  for (int i = 0; i < 2; i++) {
    setenv("LD_PRELOAD", MR_FAULTS, 1);
    setenv("FAULT_GONE", path[i], 1);
    RUN(&p, "checkpoint", "verify", only);
    unsetenv("LD_PRELOAD"), unsetenv("FAULT_GONE");
    if (p.status != i) fail_msg("%d: %s%s", p.status, p.out, p.err);
    assert_int_not_equal(access(path[i], F_OK), 0);
  }
  assert_non_null(strstr(p.err, "holds no checkpoint")); /* all are gone */
}
#endif

static void each_damaged_file_is_named(void **state) {
  damage(checkpoint_of(2), "params/head.bias");
  damage(checkpoint_of(4), "params/pos_embed");
  RUN(&p, "checkpoint", "verify", whole);
  assert_int_equal(p.status, 1);
  if (!strstr(p.err, "params/head.bias") || !strstr(p.err, "params/pos_embed"))
    fail_msg("%s", p.err);
}

/* Names of tensors that begin alike, further than any name of a parameter is long. */
static void tensors_with_overlong_names_are_refused(void **state) {
  enum { SAME = 504, PARAMS = 1000, ALL = PARAMS + 3 };
  static const char *const group[] = {"params", "adam.m", "adam.v"};
  static char name[ALL][SAME + 32];
  static mr_st_tensor_t t[ALL];
  static const mr_st_meta_t meta[] = {{"millrace.model", "forged"}};
  static const float value = 1;
  char path[96], out[96], same[SAME + 1];
  memset(same, 'A', SAME), same[SAME] = 0;
  for (int i = 0; i < ALL; i++) {
    snprintf(name[i], sizeof name[i], "%s/%s", i < PARAMS ? group[0] : group[i - PARAMS], same);
    if (i < PARAMS) snprintf(name[i] + strlen(name[i]), 16, "%d", i);
    t[i] = (mr_st_tensor_t){.name = name[i], .dtype = MR_F32, .ndim = 0, .data = &value};
  }
  snprintf(path, sizeof path, "%s/forged.safetensors", dir);
  snprintf(out, sizeof out, "%s/merged.safetensors", dir);
  assert_int_equal(mr_safetensors_write(path, t, ALL, meta, 1, NULL), MR_OK);
  RUN(&p, "checkpoint", "merge", path, "--out", out);
  if (p.status != 1 || !strstr(p.err, "tensors of no parameter"))
    fail_msg("%d: %s", p.status, p.err);
  assert_int_not_equal(access(out, F_OK), 0);
}

static void words_that_name_no_checkpoint_are_refused(void **state) {
  static const char *const said[] = {"holds no checkpoint", "cannot open", "unknown word"};
  char missing[160];
  snprintf(missing, sizeof missing, "%s/none.safetensors", dir);
  const char *const line[][3] = {{"checkpoint", "verify", dir},
                                 {"checkpoint", "verify", missing},
                                 {"checkpoint", "check", dir}};
  for (int i = 0; i < 3; i++) {
    RUN(&p, line[i][0], line[i][1], line[i][2]);
    if (!p.status || !strstr(p.err, said[i])) fail_msg("%d: %s", p.status, p.err);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(all_checkpoints_of_a_run_are_verified),
      cmocka_unit_test(a_damaged_tensor_is_named_with_its_file_by_every_command),
      cmocka_unit_test(linked_checkpoints_are_verified),
#ifdef MR_FAULTS
      cmocka_unit_test(a_checkpoint_that_goes_meanwhile_is_no_failure),
#endif
      cmocka_unit_test(each_damaged_file_is_named),
      cmocka_unit_test(tensors_with_overlong_names_are_refused),
      cmocka_unit_test(words_that_name_no_checkpoint_are_refused),
  };
  return cmocka_run_group_tests(tests, group_setup, small_run_forget);
}
