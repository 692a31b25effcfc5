/* What the hot kernels of the recipe's training step take on an H100: ptxas, the toolkit's
   assembler, finds no spilled register, and not many more registers than
   tests/model/cuda_registers.txt, since more of them mean fewer warps at a time.  MR_RECORD=1
   writes that table anew.  And what the images hold: code of sm_90a and PTX of compute_80, as
   cuobjdump says where it is. */
// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "model/backends/cuda/cubin.h"
#include "model/backends/cuda/program.h"
#include "model/ir/op.h"
#include "tests/model/cuda_texts.h"

#define TABLE MR_SOURCE_DIR "/tests/model/cuda_registers.txt"

enum { HOT = 1 << 15 /* work-items */, KERNELS = 256, SLACK = 8 };

/* A kernel, named after the first equation that starts it: "fused in encoder/block", and the number
   of those before of the same name. */
typedef struct hot {
  char name[160];
  size_t text; /* its number in `texts` */
  int registers, spilled;
} hot_t;

static mr_kernel_texts_t texts;
static hot_t hot[KERNELS];
static size_t n_hot;
static const mr_nvrtc_t *nvrtc;
static char folder[] = "/tmp/registers-XXXXXX";

static void add_hot(const mr_eqn_t *e, const mr_kernel_t *k) {
  size_t before = texts.n, index;
  int same = 0;
  bool attends = mr_kernels_attend(e, SIZE_MAX);
  if (!attends && (k->items < HOT || e->op->cost.product)) return;
  assert_true(mr_kernel_texts_add(&texts, k->text, &index));
  if (texts.n == before) return;
  assert_true(n_hot < KERNELS);
  hot_t *h = &hot[n_hot];
  char name[120];
  snprintf(name, sizeof name, "%s in %s", e->op->name, *e->scope ? e->scope : "the step");
  for (size_t i = 0; i < n_hot; i++)
    same += !strncmp(hot[i].name, name, strlen(name)) && strchr(" ", hot[i].name[strlen(name)]);
  snprintf(h->name, sizeof h->name, "%s #%d", name, same + 1);
  h->text = index, h->registers = h->spilled = -1;
  n_hot++;
}

static void collect_step(void) {
  vit_t v = vit_default();
  const mr_target_t *target = mr_backend_find("cuda")->compile->target(NULL);
  mr_train_config_t t = mr_train_default(128);
  mr_loss_t l = mr_vit_loss(&v.model);
  mr_params_t list = {0};
  mr_diag_t diag = {0};
  mr_fn_t *f = NULL, *own = NULL;
  t.compute = v.how;
  if (mr_train_step_fn(&l, &t, &list, &f, &diag) < 0 || mr_open_calls(f, target, &own, &diag) < 0 ||
      mr_passes_run(own, target, NULL, &diag) < 0)
    fail_msg("%s", diag.text);
  for (int i = 0; i < own->n_eqn; i++) {
    mr_kernels_t k = {0};
    mr_err_t e = mr_kernels_write(own->eqn[i], 64, &k, &diag);
    if (e < 0 && e != MR_ERR_NORULE) fail_msg("%s", diag.text);
    for (int j = 0; j < k.n; j++) add_hot(own->eqn[i], &k.kernel[j]);
    mr_kernels_fini(&k);
  }
  mr_fn_destroy(own), mr_fn_destroy(f);
  mr_params_fini(&list);
}

/* Compiles all hot kernels as one program, k0, k1, ..., for `arch`. */
static mr_cuda_image_t image_for(const char *arch) {
  const char *text[KERNELS];
  mr_cuda_image_t image;
  mr_diag_t diag = {0};
  for (size_t i = 0; i < n_hot; i++) text[i] = texts.kept[hot[i].text].text;
  char *program = mr__cuda_program_text(text, n_hot);
  if (mr__cuda_compile(nvrtc, program, arch, &image, NULL, &diag) < 0) fail_msg("%s", diag.text);
  free(program);
  return image;
}

static void write_image(const char *name, const mr_cuda_image_t *image, size_t bytes) {
  char path[100];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *f = fopen(path, "w");
  assert_true(f && fwrite(image->data, 1, bytes, f) == bytes);
  assert_int_equal(fclose(f), 0);
}

/* Starts a tool of CUDA, of PATH or the toolkit, on a file of the folder.  NULL without it. */
static FILE *tool(const char *name, const char *words) {
  char command[400];
  snprintf(command, sizeof command, "PATH=$PATH:/usr/local/cuda/bin command -v %s >/dev/null",
           name);
  if (system(command)) return NULL;
  snprintf(command, sizeof command, "cd %s && PATH=$PATH:/usr/local/cuda/bin %s %s 2>&1", folder,
           name, words);
  return popen(command, "r");
}

/* ---- the table: registers, then the name, a line a kernel ---- */

static int recorded(const char *name) {
  FILE *f = fopen(TABLE, "r");
  char line[300];
  int found = -1;
  while (f && found < 0 && fgets(line, sizeof line, f)) {
    char *at = strchr(line, ' ');
    line[strcspn(line, "\n")] = 0;
    if (at && *line != '#' && !strcmp(at + 1, name)) found = atoi(line);
  }
  if (f) fclose(f);
  return found;
}

static void record(void) {
  FILE *f = fopen(TABLE, "w");
  assert_non_null(f);
  fprintf(f,
          "# Registers of the hot kernels of the recipe's step (batch 128, bf16) on sm_90a, as "
          "ptxas of "
          "CUDA %d.%d\n# counts them; MR_RECORD=1 test_model_cuda_registers writes this file.\n",
          nvrtc->major, nvrtc->minor);
  for (size_t i = 0; i < n_hot; i++) fprintf(f, "%d %s\n", hot[i].registers, hot[i].name);
  assert_int_equal(fclose(f), 0);
}

static void hot_kernels_keep_their_registers(void **state) {
  mr_cuda_image_t ptx = image_for("compute_90a");
  write_image("hot.ptx", &ptx, ptx.bytes - 1); /* without the 0 behind the text */
  free(ptx.data);
  FILE *p = tool("ptxas", "-arch=sm_90a -v -o hot.cubin hot.ptx");
  if (!p) {
    print_message("there is no ptxas, so that registers are not counted\n");
    skip();
  }
  char line[500], *at;
  hot_t *h = NULL;
  bool older = false;
  while (fgets(line, sizeof line, p)) {
    older |= strstr(line, "Unsupported .version") != NULL;
    if ((at = strstr(line, "entry function 'k"))) h = &hot[strtoul(at + 17, NULL, 10)];
    if (h && (at = strstr(line, " bytes spill stores"))) {
      while (at > line && at[-1] != ' ') at--;
      h->spilled = atoi(at);
    }
    if (h && (at = strstr(line, "Used "))) h->registers = atoi(at + 5);
  }
  int status = pclose(p);
  if (older) {
    print_message("ptxas is older than NVRTC, so that registers are not counted\n");
    skip();
  }
  assert_int_equal(status, 0);
  if (getenv("MR_RECORD")) record();
  for (size_t i = 0; i < n_hot; i++) {
    int was = recorded(hot[i].name);
    assert_true(hot[i].registers > 0);
    if (hot[i].spilled) fail_msg("%s spills %d bytes", hot[i].name, hot[i].spilled);
    if (was < 0) fail_msg("%s is not in %s; MR_RECORD=1 writes it anew", hot[i].name, TABLE);
    if (hot[i].registers > was + SLACK)
      fail_msg("%s takes %d registers, %d are recorded", hot[i].name, hot[i].registers, was);
  }
  print_message("%zu hot kernels\n", n_hot);
}

/* ptxas, where it is of NVRTC's version, is the oracle: hot_kernels_keep_their_registers ran it. */
static void an_image_says_what_its_kernels_take(void **state) {
  mr_cuda_image_t code = image_for("sm_90a"), ptx = image_for("compute_80");
  char name[24];
  int registers, stack, seen = 0;
  for (size_t i = 0; i < n_hot; i++) {
    snprintf(name, sizeof name, "k%zu", i);
    assert_true(mr__cubin_usage(code.data, code.bytes, name, &registers, &stack));
    assert_true(registers >= 8 && registers <= 255 && stack >= 0);
    if (hot[i].registers < 0) continue;
    seen++;
    assert_int_equal(registers, hot[i].registers);
    if (!hot[i].spilled) assert_int_equal(stack, 0);
  }
  print_message("%d of %zu kernels counted by ptxas too\n", seen, n_hot);
  snprintf(name, sizeof name, "k%zu", n_hot);
  assert_false(mr__cubin_usage(code.data, code.bytes, name, &registers, &stack));
  assert_false(mr__cubin_usage(ptx.data, ptx.bytes, "k0", &registers, &stack));
  free(code.data), free(ptx.data);
}

/* Images come from a folder too: each is read in memory that ends where it ends. */
static void a_damaged_image_says_nothing_or_a_number(void **state) {
  mr_cuda_image_t code = image_for("sm_90a");
  uint32_t seed = 1;
  int registers, stack;
  for (int i = 0; i < 400; i++) {
    seed = seed * 1664525 + 1013904223;
    size_t n = i % 2 ? code.bytes : seed % (code.bytes + 1);
    char *own = malloc(n + !n);
    memcpy(own, code.data, n);
    for (int k = 0; i % 2 && k < 1 + i / 20; k++) {
      seed = seed * 1664525 + 1013904223;
      /* the head, the tables of sections and symbols, or anywhere */
      size_t at = k % 3 ? (seed >> 8) % (k % 3 == 1 ? 64 : 8192) : (seed >> 8) % n;
      if (at < n) own[at] = (char)(seed >> 3);
    }
    if (mr__cubin_usage(own, n, "k0", &registers, &stack))
      assert_true(registers >= 0 && stack >= 0);
    free(own);
  }
  free(code.data);
}

/* Whether a line of what the tool says of a file holds `part`. */
static bool tool_says(const char *words, const char *part) {
  FILE *p = tool("cuobjdump", words);
  char line[500];
  bool found = false;
  assert_non_null(p);
  while (fgets(line, sizeof line, p)) found |= strstr(line, part) != NULL;
  pclose(p);
  return found;
}

static void images_hold_code_of_hopper_and_ptx_of_ampere(void **state) {
  mr_cuda_image_t code = image_for("sm_90a"), ptx = image_for("compute_80");
  uint16_t machine;
  memcpy(&machine, (char *)code.data + 18, sizeof machine); /* e_machine of ELF: 190 is CUDA */
  assert_memory_equal(code.data, "\177ELF", 4);
  assert_int_equal(machine, 190);
  ((char *)ptx.data)[ptx.bytes - 1] = 0;
  assert_non_null(strstr(ptx.data, ".target sm_80\n"));
  write_image("code.cubin", &code, code.bytes);
  free(code.data), free(ptx.data);
  FILE *there = tool("cuobjdump", "--version");
  if (there) {
    pclose(there);
    assert_true(tool_says("--dump-elf code.cubin", "sm_90a") || tool_says("code.cubin", "sm_90a"));
    assert_true(tool_says("--dump-resource-usage code.cubin", "REG:"));
  } else {
    print_message("there is no cuobjdump, so that only heads of the images are read\n");
  }
}

static int leave(void **state) {
  char command[100];
  texts_fini(&texts);
  snprintf(command, sizeof command, "rm -r %s", folder);
  return system(command);
}

int main(void) {
  mr_diag_t diag = {0};
  if (mr__nvrtc(&nvrtc, &diag) < 0) {
    printf("%s\n[  SKIPPED ] cuda_registers_without_nvrtc\n", diag.text);
    return 77;
  }
  setenv("CUDA_VISIBLE_DEVICES", "-1", 1); /* without a device no library takes equations */
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(hot_kernels_keep_their_registers),
      cmocka_unit_test(an_image_says_what_its_kernels_take),
      cmocka_unit_test(a_damaged_image_says_nothing_or_a_number),
      cmocka_unit_test(images_hold_code_of_hopper_and_ptx_of_ampere),
  };
  if (!mkdtemp(folder)) return 1;
  collect_step();
  return cmocka_run_group_tests(tests, NULL, leave);
}
