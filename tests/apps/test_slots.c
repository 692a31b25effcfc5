/* The slots of an optimizer, where they are kept: a checkpoint holds those that it has, under its
   own names, `mem` counts as many bytes, and files in which every optimizer had Adam's two are
   still read. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <cjson/cJSON.h>

#include "base/safetensors.h"
#include "model/optim/optim.h"
#include "tests/apps/program.h"

static char dir[] = "/tmp/millrace-slots-XXXXXX";
static program_t p;

static int setup(void **state) { return mkdtemp(dir) ? 0 : -1; }

static int teardown(void **state) { return program_forget(dir); }

static const char *const optimizers[] = {"sgd", "momentum", "adam", "adamw", "lion", "lamb"};
enum { OPTIMIZERS = sizeof optimizers / sizeof *optimizers };

static void train(const char *name, const char *optimizer, const char *steps, const char *resume) {
  char folder[128], word[32];
  snprintf(folder, sizeof folder, "%s/%s", dir, name);
  snprintf(word, sizeof word, "optimizer=%s", optimizer);
  RUN(&p, "train", "--run-dir", folder, "--data", "synthetic", "model=mlp", "hidden=24", "batch=8",
      "schedule=constant", "watch-every=0", "train.threads=1", "--steps", steps, word, resume);
  if (p.status) fail_msg("%s: %s", optimizer, p.err);
}

static void latest(const char *name, char path[160]) {
  snprintf(path, 160, "%s/%s/checkpoints/latest", dir, name);
}

static mr_safetensors_t *checkpoint(const char *name) {
  mr_safetensors_t *f = NULL;
  mr_diag_t diag = {0};
  char path[160];
  latest(name, path);
  if (mr_safetensors_open(path, &f, &diag) < 0) fail_msg("%s", diag.text);
  return f;
}

/* The bytes of the tensors of a group, each in whole lines of 32 elements; *n: how many. */
static size_t bytes_of_group(const mr_safetensors_t *f, const char *group, int *n) {
  size_t bytes = 0, length = strlen(group);
  *n = 0;
  for (int i = 0; i < mr_safetensors_count(f); i++) {
    const mr_st_tensor_t *t = mr_safetensors_at(f, i);
    if (strncmp(t->name, group, length) != 0 || t->name[length] != '/') continue;
    size_t elems = 1;
    for (int d = 0; d < t->ndim; d++) elems *= (size_t)t->dim[d];
    bytes += (elems + 31) / 32 * 32 * sizeof(float);
    ++*n;
  }
  return bytes;
}

static void each_optimizer_saves_its_own_slots_and_mem_counts_them(void **state) {
  for (int i = 0; i < OPTIMIZERS; i++) {
    const mr_optim_def_t *def = mr_optim_of(optimizers[i]).def;
    int params, n, named = 0;
    char key[64];
    train(optimizers[i], optimizers[i], "2", NULL);
    mr_safetensors_t *f = checkpoint(optimizers[i]);
    size_t each = bytes_of_group(f, "params", &params);
    RUN(&p, "mem", "step", "model=mlp", "hidden=24", "--batch", "8", "--optimizer", optimizers[i],
        "--no-run", "--json");
    cJSON *all = cJSON_Parse(p.out), *held = cJSON_GetObjectItem(all, "held");
    assert_non_null(held);
    for (const cJSON *at = held->child; at; at = at->next) named += !!strstr(at->string, " slot.");
    assert_int_equal(named, def->n_slots);
    assert_true(cJSON_GetNumberValue(cJSON_GetObjectItem(held, "parameters, f32")) == (double)each);
    for (int k = 0; k < def->n_slots; k++) {
      assert_int_equal(bytes_of_group(f, def->slot[k], &n), each);
      assert_int_equal(n, params);
      snprintf(key, sizeof key, "%s slot.%d, f32", def->name, k);
      assert_true(cJSON_GetNumberValue(cJSON_GetObjectItem(held, key)) == (double)each);
    }
    (void)bytes_of_group(f, "stream", &n);
    assert_int_equal(mr_safetensors_count(f), (1 + def->n_slots) * params + n);
    cJSON_Delete(all);
    mr_safetensors_close(f);
  }
}

/* Writes a checkpoint anew as version 2 had it: two slots, adam.m and adam.v. */
static void make_older(const char *name) {
  enum { TENSORS = 64, META = 32 };
  static char names[TENSORS][128];
  static const float zeros[32 * 32 * 3 * 24];
  mr_st_tensor_t t[TENSORS];
  mr_st_meta_t meta[META];
  mr_diag_t diag = {0};
  char path[160], real[300];
  int n = 0, n_meta = 0;
  mr_safetensors_t *f = checkpoint(name);
  static const char *const keep[] = {
      "millrace.step",      "millrace.images",   "millrace.epoch",  "millrace.position",
      "millrace.seed",      "millrace.ledger",   "millrace.model",  "millrace.unvalidated",
      "millrace.optimizer", "millrace.computes", "millrace.inputs", "millrace.data"};
  for (int i = 0; i < mr_safetensors_count(f); i++) {
    const mr_st_tensor_t *from = mr_safetensors_at(f, i);
    const char *slash = strchr(from->name, '/');
    bool param = !strncmp(from->name, "params/", 7), stream = !strncmp(from->name, "stream/", 7);
    t[n] = *from;
    snprintf(names[n], sizeof names[n], "%s%s", param || stream ? "" : "adam.m",
             param || stream ? from->name : slash);
    t[n].name = names[n], n++;
    for (int k = 0; param && k < 2; k++) {
      char own[128];
      const mr_optim_def_t *def = mr_optim_of(mr_safetensors_meta(f, "millrace.optimizer")).def;
      snprintf(own, sizeof own, "%s%s", k < def->n_slots ? def->slot[k] : "none", slash);
      if (mr_safetensors_find(f, own)) continue;
      t[n] = *from, t[n].data = zeros;
      snprintf(names[n], sizeof names[n], "%s%s", k ? "adam.v" : "adam.m", slash);
      t[n].name = names[n], n++;
    }
  }
  for (size_t i = 0; i < sizeof keep / sizeof *keep; i++)
    meta[n_meta++] = (mr_st_meta_t){keep[i], mr_safetensors_meta(f, keep[i])};
  assert_string_equal(mr_safetensors_meta(f, "millrace.version"), "3");
  meta[n_meta++] = (mr_st_meta_t){"millrace.version", "2"};
  latest(name, path);
  assert_non_null(realpath(path, real));
  if (mr_safetensors_write(real, t, n, meta, n_meta, &diag) < 0) fail_msg("%s", diag.text);
  mr_safetensors_close(f);
}

static void files_in_which_every_optimizer_had_adams_slots_are_resumed(void **state) {
  static const char *const some[] = {"sgd", "momentum", "lion"};
  for (int i = 0; i < 3; i++) {
    char whole[32], parts[32], a[160], b[160], command[400];
    snprintf(whole, sizeof whole, "whole-%s", some[i]);
    snprintf(parts, sizeof parts, "parts-%s", some[i]);
    train(whole, some[i], "6", NULL);
    train(parts, some[i], "3", NULL);
    make_older(parts);
    latest(parts, a);
    RUN(&p, "eval", a, "--data", "synthetic");
    if (p.status) fail_msg("%s", p.err);
    train(parts, some[i], "6", "--resume");
    latest(whole, b);
    snprintf(command, sizeof command, "cmp %s %s", a, b);
    assert_int_equal(system(command), 0);
  }
}

static void a_resume_with_another_optimizer_names_both(void **state) {
  char folder[128];
  train("other", "lion", "2", NULL);
  snprintf(folder, sizeof folder, "%s/other", dir);
  RUN(&p, "train", "--run-dir", folder, "--resume", "--steps", "4", "optimizer=momentum");
  assert_int_not_equal(p.status, 0);
  assert_non_null(strstr(p.err, "optimizer = momentum"));
  assert_non_null(strstr(p.err, "made by lion"));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(each_optimizer_saves_its_own_slots_and_mem_counts_them),
      cmocka_unit_test(files_in_which_every_optimizer_had_adams_slots_are_resumed),
      cmocka_unit_test(a_resume_with_another_optimizer_names_both),
  };
  return cmocka_run_group_tests(tests, setup, teardown);
}
