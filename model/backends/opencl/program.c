/* Keeps the programs of texts until the device is closed.  A text's function is named by the text's
   hash, so that the same texts make the same program in every process: the kernel cache finds it
   (compile.c). */
#include "model/backends/opencl/program.h"

#include <assert.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/backends/kernels/texts.h"

/* The texts [from,n) that are not built, each with a function name of its own. */
static char *programs_join(const mr_kernel_texts_t *texts, size_t from, size_t *n) {
  char *all = NULL;
  size_t size = 0;
  FILE *f = open_memstream(&all, &size);
  *n = 0;
  if (!f) return NULL;
  for (size_t i = from; i < texts->n; i++) {
    const mr_kernel_kept_t *k = &texts->kept[i];
    if (k->built) continue;
    const char *name = strstr(k->text, " k("); /* behind KERNEL or KERNEL_OF */
    assert(name);
    fprintf(f, "%.*s k%016" PRIx64 "(%s", (int)(name - k->text), k->text, k->hash, name + 3);
    ++*n;
  }
  if (!fclose(f)) return all;
  free(all);
  return NULL;
}

/* Builds what is new since text `from` came.  After a failure the texts stay without a program, and
   the next call that wants one tries again. */
static mr_err_t programs_build(mr_opencl_device_t *d, size_t from, mr_diag_t *diag) {
  size_t kernels;
  cl_program p = NULL;
  char *all = programs_join(&d->programs.texts, from, &kernels);
  if (!all) return mr_no_memory(diag, "the kernels of a graph");
  mr_err_t e = kernels ? mr__opencl_compile(d, all, kernels, &p, diag) : MR_OK;
  free(all);
  for (size_t i = from; i < d->programs.texts.n && e >= 0; i++)
    if (!d->programs.texts.kept[i].built) d->programs.texts.kept[i].built = p;
  return e;
}

static mr_err_t kernels_get(mr_opencl_device_t *d, const mr_opencl_wanted_t *want, size_t n,
                            size_t *index, mr_diag_t *diag) {
  mr_kernel_texts_t *t = &d->programs.texts;
  size_t from = t->n;
  for (size_t i = 0; i < n; i++) {
    if (!mr_kernel_texts_add(t, want[i].text, &index[i]))
      return mr_no_memory(diag, "a kernel's text");
    if (!t->kept[index[i]].built && index[i] < from) from = index[i];
  }
  MR_TRY(programs_build(d, from, diag));
  for (size_t i = 0; i < n; i++) {
    char name[24];
    cl_int code;
    snprintf(name, sizeof name, "k%016" PRIx64, t->kept[index[i]].hash);
    cl_kernel made = d->cl->clCreateKernel(t->kept[index[i]].built, name, &code);
    if (code != CL_SUCCESS) return mr_no_memory(diag, "a kernel of device opencl");
    *want[i].out = made;
  }
  return MR_OK;
}

mr_err_t mr__opencl_kernels(mr_opencl_device_t *d, const mr_opencl_wanted_t *want, size_t n,
                            mr_diag_t *diag) {
  size_t *index = calloc(n + 1, sizeof *index);
  if (!index) return mr_no_memory(diag, "the kernels of a graph");
  pthread_mutex_lock(&d->programs.lock);
  mr_err_t e = kernels_get(d, want, n, index, diag);
  pthread_mutex_unlock(&d->programs.lock);
  free(index);
  return e;
}

/* Texts that were built together have one program, and lie beside each other. */
void mr__opencl_programs_fini(mr_opencl_device_t *d) {
  const mr_kernel_texts_t *t = &d->programs.texts;
  for (size_t i = 0; i < t->n; i++) {
    bool seen = false;
    for (size_t k = 0; k < i && !seen; k++) seen = t->kept[k].built == t->kept[i].built;
    if (t->kept[i].built && !seen) d->cl->clReleaseProgram(t->kept[i].built);
  }
  mr_kernel_texts_fini(&d->programs.texts);
}
