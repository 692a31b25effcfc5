/* NVRTC where the loader does not look, as a Python package has it: a process that finds it by
   MILLRACE_CUDA_LIBRARIES alone compiles a kernel, and cuDNN finds it open.  Such a process is this
   program again, started by the loader without its cache. */
// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include <libgen.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "model/backends/cuda/find.h"
#include "model/backends/cuda/program.h"
#if __has_include(<cudnn_backend.h>)
#include "model/backends/cuda/cudnn.h"
#endif

static char folder[] = "/tmp/nvrtc-XXXXXX"; /* of links to NVRTC's files, or of one in its place */
static char self[PATH_MAX];

/* ---- the other process ---- */

static bool is_mapped(const char *name) {
  char line[PATH_MAX + 200];
  bool found = false;
  FILE *f = fopen("/proc/self/maps", "r");
  while (f && fgets(line, sizeof line, f)) found |= strstr(line, name) != NULL;
  if (f) fclose(f);
  return found;
}

static int child_compiles(void) {
  const mr_nvrtc_t *n;
  mr_diag_t diag = {0};
  mr_cuda_image_t image;
  if (mr__nvrtc(&n, &diag) < 0) return printf("%s\n", diag.text), 0;
  char *text = mr__cuda_program_text(
      (const char *[]){"KERNEL k(ARG(0)) { PTR(float, y0, 0); y0[ITEM] = 1; }"}, 1);
  mr_err_t e = mr__cuda_compile(n, text, "sm_90a", &image, NULL, &diag);
  printf("%s by %s: %s\n", e == MR_OK ? "compiled" : "refused", n->path, diag.text);
  free(text), free(image.data);
  return 0;
}

static int child_opens_cudnn(void) {
#if __has_include(<cudnn_backend.h>)
  const mr_cudnn_t *c;
  mr_diag_t diag = {0};
  if (mr__cudnn(&c, &diag) < 0) return printf("no cuDNN: %s\n", diag.text), 0;
  printf("cuDNN %zu, NVRTC %s, builtins %s\n", c->version, is_mapped("libnvrtc.so") ? "open" : "no",
         is_mapped("libnvrtc-builtins.so") ? "open" : "no");
#else
  printf("no cuDNN: a build without its headers\n");
#endif
  return 0;
}

/* ---- starting it ---- */

static char loader[PATH_MAX], folders[4096]; /* the loader's file, and where this process's are */

static int note_object(struct dl_phdr_info *info, size_t n, void *arg) {
  char path[PATH_MAX];
  const char *end = strrchr(info->dlpi_name, '/');
  if (!end) return 0;
  if (!strncmp(end, "/ld-", 4)) snprintf(loader, sizeof loader, "%s", info->dlpi_name);
  snprintf(path, sizeof path, "%.*s:", (int)(end - info->dlpi_name), info->dlpi_name);
  if (!strstr(path, "cuda") && !strstr(folders, path))
    strncat(folders, path, sizeof folders - strlen(folders) - 1);
  return 0;
}

/* What a process says that looks for CUDA's libraries in `where` alone. */
static const char *said_by(const char *child, const char *where) {
  static char text[3000];
  char command[5 * PATH_MAX];
  snprintf(command, sizeof command,
           "MILLRACE_CUDA_LIBRARIES='%s' '%s' --inhibit-cache --library-path '%s' '%s' %s 2>&1",
           where, loader, folders, self, child);
  FILE *p = popen(command, "r");
  assert_non_null(p);
  size_t n = fread(text, 1, sizeof text - 1, p);
  text[n] = 0;
  if (pclose(p)) fail_msg("%s: %s", command, text);
  return text;
}

static void assert_says(const char *text, const char *part) {
  if (!strstr(text, part)) fail_msg("\"%s\" is not in: %s", part, text);
}

static void empty_folder(void) {
  char command[200];
  snprintf(command, sizeof command, "rm -f %s/*", folder);
  assert_int_equal(system(command), 0);
}

static const mr_nvrtc_t *nvrtc; /* this process's */

/* In the folder, a link to `name` beside NVRTC's own file. */
static bool link_beside(const char *name) {
  char real[PATH_MAX], from[2 * PATH_MAX], to[PATH_MAX];
  if (!realpath(nvrtc->path, real)) return false;
  snprintf(from, sizeof from, "%s/%s", dirname(real), name);
  snprintf(to, sizeof to, "%s/%s", folder, name);
  return !access(from, R_OK) && !symlink(from, to);
}

static void link_nvrtc(void) {
  char name[64];
  snprintf(name, sizeof name, "libnvrtc.so.%d", nvrtc->major);
  if (!link_beside(name)) skip();
  snprintf(name, sizeof name, "libnvrtc-builtins.so.%d.%d", nvrtc->major, nvrtc->minor);
  if (!link_beside(name)) skip();
}

static void nvrtc_in_a_folder_of_its_own_compiles(void **state) {
  link_nvrtc();
  const char *text = said_by("compile", folder);
  assert_says(text, "compiled by /tmp/nvrtc-");
  empty_folder();
}

/* The rest of NVRTC lies beside the file that the link stands for. */
static void a_link_to_nvrtc_alone_compiles(void **state) {
  char name[64];
  snprintf(name, sizeof name, "libnvrtc.so.%d", nvrtc->major);
  if (!link_beside(name)) skip();
  assert_says(said_by("compile", folder), "compiled by /tmp/nvrtc-");
  empty_folder();
}

/* A sanitizer opens libraries in the caller's place, and the loader then does not look where cuDNN
   says that its parts are. */
static void cudnn_finds_nvrtc_open(void **state) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  skip();
#elif __has_include(<cudnn_backend.h>)
  const mr_cudnn_t *c;
  char real[PATH_MAX], where[2 * PATH_MAX];
  if (mr__cudnn(&c, NULL) < 0 || !realpath(c->path, real)) skip();
  link_nvrtc();
  snprintf(where, sizeof where, "%s:%s", folder, dirname(real));
  assert_says(said_by("cudnn", where), "NVRTC open, builtins open");
  empty_folder();
#else
  skip();
#endif
}

/* A library that says that it is NVRTC 12.99, of which no machine has the other part. */
static void nvrtc_without_its_builtins_is_refused_by_a_sentence(void **state) {
  char path[100], command[300];
  snprintf(path, sizeof path, "%s/nvrtc.c", folder);
  FILE *f = fopen(path, "w");
  assert_non_null(f);
#define CALL(name) \
  if (strcmp(#name, "nvrtcVersion")) fprintf(f, "int %s(void) { return 0; }\n", #name);
  MR_NVRTC_CALLS(CALL)
#undef CALL
  fprintf(f, "int nvrtcVersion(int *a, int *b) { *a = 12, *b = 99; return 0; }\n");
  assert_int_equal(fclose(f), 0);
  snprintf(command, sizeof command, "cc -shared -fPIC -o %s/libnvrtc.so.13 %s", folder, path);
  if (system(command)) skip(); /* no compiler */
  const char *text = said_by("compile", folder);
  assert_says(text, "compiles nothing without libnvrtc-builtins.so.12.99");
  assert_true(strchr(text, '\n') == text + strlen(text) - 1);
  empty_folder();
}

static void a_library_that_cannot_be_loaded_is_not_called_missing(void **state) {
  static const char *const junk[] = {"libmr-none.so.1", NULL}, *const other[] = {"libmr-none.so.1",
                                                                                 "libm.so.6", NULL};
  char file[100], path[300];
  setenv("MILLRACE_CUDA_LIBRARIES", folder, 1);
  assert_null(mr__cuda_find(junk, path, sizeof path));
  assert_string_equal(path, "");
  snprintf(file, sizeof file, "%s/%s", folder, junk[0]);
  FILE *f = fopen(file, "w");
  assert_non_null(f);
  fputs("junk\n", f);
  assert_int_equal(fclose(f), 0);
  assert_null(mr__cuda_find(junk, path, sizeof path));
  assert_int_equal(strncmp(path, file, strlen(file)), 0); /* the reason begins with the file */
  assert_non_null(mr__cuda_find(other, path, sizeof path));
  assert_non_null(strstr(path, "/libm.so.6"));
  unsetenv("MILLRACE_CUDA_LIBRARIES");
  empty_folder();
}

static int leave(void **state) {
  empty_folder();
  return rmdir(folder);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(nvrtc_in_a_folder_of_its_own_compiles),
      cmocka_unit_test(a_link_to_nvrtc_alone_compiles),
      cmocka_unit_test(cudnn_finds_nvrtc_open),
      cmocka_unit_test(nvrtc_without_its_builtins_is_refused_by_a_sentence),
      cmocka_unit_test(a_library_that_cannot_be_loaded_is_not_called_missing),
  };
  mr_diag_t diag = {0};
  if (argc > 1) return strcmp(argv[1], "cudnn") ? child_compiles() : child_opens_cudnn();
  if (mr__nvrtc(&nvrtc, &diag) < 0) {
    printf("%s\n[  SKIPPED ] cuda_library\n", diag.text);
    return 77;
  }
  ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
  dl_iterate_phdr(note_object, NULL);
  if (n <= 0 || !*loader || !mkdtemp(folder)) {
    printf("[  SKIPPED ] cuda_library: no loader to start by itself\n");
    return 77;
  }
  return cmocka_run_group_tests(tests, NULL, leave);
}
