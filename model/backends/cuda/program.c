/* Keeps the kernels of texts, by a hash of the text, until the device is closed: the same layer, or
   the next graph with the same shapes, compiles nothing.  New texts are compiled in programs of a
   few at once, by several threads, since NVRTC takes about as long to start as to compile a few
   kernels. Which texts make one program does not depend on the number of threads. */
#include "model/backends/cuda/program.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "model/backends/cuda/cubin.h"
#include "model/backends/kernels/texts.h"

/* ---- compiling ---- */

/* A program of up to MR_CUDA_TOGETHER texts. */
typedef struct part {
  size_t of[MR_CUDA_TOGETHER]; /* numbers of its texts */
  size_t n;
  mr_cuda_image_t image;
  mr_kernel_entry_t entry;
  bool kept; /* the image comes from the kernel cache */
  mr_err_t err;
  mr_diag_t diag;
} part_t;

typedef struct work {
  const mr_kernel_texts_t *texts; /* of the device */
  const mr_nvrtc_t *nvrtc;
  char arch[24];
  part_t *part;
  size_t n;
  atomic_size_t next; /* relaxed: each part is taken once */
} work_t;

static void part_compile(const work_t *w, part_t *p, const char *text) {
  p->kept = false;
  p->err = mr__cuda_compile(w->nvrtc, text, w->arch, &p->image, NULL, &p->diag);
  if (p->err >= 0) mr_kernel_cache_put(&p->entry, p->image.data, p->image.bytes);
}

/* Takes the part's image from the kernel cache, unless it was refused, or compiles it. */
static void part_get(const work_t *w, part_t *p, bool refused) {
  const char *text[MR_CUDA_TOGETHER];
  for (size_t i = 0; i < p->n; i++) text[i] = w->texts->kept[p->of[i]].text;
  char *all = mr__cuda_program_text(text, p->n);
  if (!all) {
    p->err = mr_no_memory(&p->diag, "a kernel of device cuda");
    return;
  }
  if (!refused) p->entry = mr__cuda_entry(w->nvrtc, all, w->arch);
  p->kept = !refused && mr_kernel_cache_get(&p->entry, &p->image.data, &p->image.bytes);
  if (!p->kept) part_compile(w, p, all);
  free(all);
}

static void *compile_some(void *arg) {
  work_t *w = arg;
  for (;;) {
    size_t i = atomic_fetch_add_explicit(&w->next, 1, memory_order_relaxed);
    if (i >= w->n) return NULL;
    part_get(w, &w->part[i], false);
  }
}

static void compile_all(work_t *w) {
  enum { THREADS = 16 };
  pthread_t thread[THREADS];
  long online = sysconf(_SC_NPROCESSORS_ONLN);
  size_t want = online < 1 ? 1 : online > THREADS ? THREADS : (size_t)online, n = 0;
  if (want > w->n) want = w->n;
  while (n + 1 < want && !pthread_create(&thread[n], NULL, compile_some, w)) n++;
  compile_some(w);
  while (n > 0) pthread_join(thread[--n], NULL);
}

/* The architecture that NVRTC compiles for: the device's own, with the instructions that only it
   has on 9.0; PTX of the newest that NVRTC knows if the device is newer still. */
static mr_err_t device_arch(const mr_nvrtc_t *nvrtc, mr_cuda_device_t *d, char arch[24],
                            mr_diag_t *diag) {
  int known[64], n = 0, own = 10 * d->major + d->minor, best = 0;
  if (nvrtc->nvrtcGetNumSupportedArchs(&n) != NVRTC_SUCCESS || n > 64 ||
      nvrtc->nvrtcGetSupportedArchs(known) != NVRTC_SUCCESS)
    n = 0;
  for (int i = 0; i < n; i++)
    if (known[i] <= own && known[i] > best) best = known[i];
  if (!best)
    return mr_fail(diag, MR_ERR_UNAVAILABLE,
                   "device cuda: NVRTC %d.%d compiles for no device like %s (compute capability "
                   "%d.%d); install the NVRTC of another CUDA version",
                   nvrtc->major, nvrtc->minor, d->name, d->major, d->minor);
  snprintf(arch, 24, "%s_%d%s", best == own ? "sm" : "compute", best,
           best == 90 && own == 90 ? "a" : "");
  return MR_OK;
}

/* ---- loading ---- */

/* Kernel `name` of a library.  Asking for its attributes loads it: the driver would otherwise load
   it at its first start, which may be in a branch that no run has taken, in a capture, where
   loading is refused. */
static cudaError_t library_kernel(const mr_cuda_api_t *cu, cudaLibrary_t library, const char *name,
                                  cudaKernel_t *out) {
  struct cudaFuncAttributes attributes;
  cudaError_t code = cu->cudaLibraryGetKernel(out, library, name);
  return code == cudaSuccess ? cu->cudaFuncGetAttributes(&attributes, (const void *)*out) : code;
}

/* Room for one more library; false without memory. */
static bool libraries_room(mr_cuda_device_t *d) {
  if (d->programs.n < d->programs.cap) return true;
  size_t cap = d->programs.cap ? 2 * d->programs.cap : 16;
  cudaLibrary_t *more = realloc(d->programs.library, cap * sizeof *more);
  if (!more) return false;
  d->programs.library = more, d->programs.cap = cap;
  return true;
}

static mr_err_t part_load(mr_cuda_device_t *d, const part_t *p, mr_diag_t *diag) {
  cudaLibrary_t library = NULL;
  char text[160], name[24];
  MR_TRY(p->err < 0 ? mr_diag_relay(diag, p->err, &p->diag) : MR_OK);
  if (!libraries_room(d)) return mr_no_memory(diag, "kernels of device cuda");
  cudaError_t code =
      d->cu->cudaLibraryLoadData(&library, p->image.data, NULL, NULL, 0, NULL, NULL, 0);
  if (code == cudaSuccess) d->programs.library[d->programs.n++] = library;
  for (size_t i = 0; i < p->n && code == cudaSuccess; i++) {
    snprintf(name, sizeof name, "k%zu", i);
    cudaKernel_t kernel = NULL;
    code = library_kernel(d->cu, library, name, &kernel);
    d->programs.texts.kept[p->of[i]].built = kernel;
  }
  if (code == cudaSuccess) return MR_OK;
  for (size_t i = 0; i < p->n; i++) d->programs.texts.kept[p->of[i]].built = NULL;
  return mr_fail(diag, MR_ERR_UNAVAILABLE, "device cuda: %s does not load compiled kernels: %s",
                 d->name, mr__cuda_error(code, text));
}

/* The texts of want[0,n), each once, in parts; without those that have a kernel, unless all. */
static size_t parts_of(const mr_kernel_texts_t *texts, const size_t *index, size_t n, bool all,
                       part_t *part) {
  size_t parts = 0;
  for (size_t i = 0; i < n; i++) {
    bool listed = !all && texts->kept[index[i]].built != NULL;
    for (size_t k = 0; k < parts && !listed; k++)
      for (size_t j = 0; j < part[k].n && !listed; j++) listed = part[k].of[j] == index[i];
    if (listed) continue;
    if (!parts || part[parts - 1].n == MR_CUDA_TOGETHER) part[parts++].n = 0;
    part_t *last = &part[parts - 1];
    last->of[last->n++] = index[i];
  }
  return parts;
}

/* Loads an image, and compiles it anew if the driver refuses the one of the kernel cache. */
static mr_err_t part_end(const work_t *w, mr_cuda_device_t *d, part_t *p, mr_diag_t *diag) {
  mr_diag_t refused = {0};
  mr_err_t err = part_load(d, p, p->kept ? &refused : diag);
  if (err < 0 && p->kept) {
    mr_kernel_cache_refused(&p->entry, refused.text);
    free(p->image.data), p->image.data = NULL;
    part_get(w, p, true);
    err = part_load(d, p, diag);
  }
  return err;
}

static mr_err_t parts_build(mr_cuda_device_t *d, part_t *part, size_t n, mr_diag_t *diag) {
  work_t w = {.texts = &d->programs.texts, .part = part, .n = n};
  mr_err_t err = MR_OK;
  if (!n) return MR_OK;
  MR_TRY(mr__nvrtc(&w.nvrtc, diag));
  MR_TRY(device_arch(w.nvrtc, d, w.arch, diag));
  compile_all(&w);
  for (size_t i = 0; i < n; i++) {
    if (err == MR_OK) err = part_end(&w, d, &part[i], diag);
    free(part[i].image.data); /* the driver has its own copy */
  }
  return err;
}

static mr_err_t cuda_kernels_get(mr_cuda_device_t *d, const mr_cuda_wanted_t *want, size_t n,
                                 size_t *index, part_t *part, mr_diag_t *diag) {
  for (size_t i = 0; i < n; i++)
    if (!mr_kernel_texts_add(&d->programs.texts, want[i].text, &index[i]))
      return mr_no_memory(diag, "a kernel's text");
  MR_TRY(parts_build(d, part, parts_of(&d->programs.texts, index, n, false, part), diag));
  for (size_t i = 0; i < n; i++) *want[i].out = d->programs.texts.kept[index[i]].built;
  return MR_OK;
}

/* ---- what kernels take ---- */

/* Of the texts of a compiled part: to[i] is of text i. */
static mr_err_t part_usage(const part_t *p, mr_cuda_usage_t *to, mr_diag_t *diag) {
  char name[24];
  MR_TRY(p->err < 0 ? mr_diag_relay(diag, p->err, &p->diag) : MR_OK);
  for (size_t i = 0; i < p->n; i++) {
    mr_cuda_usage_t *u = &to[p->of[i]];
    snprintf(name, sizeof name, "k%zu", i);
    if (!mr__cubin_usage(p->image.data, p->image.bytes, name, &u->registers, &u->stack))
      *u = (mr_cuda_usage_t){-1, -1};
  }
  return MR_OK;
}

static mr_err_t cuda_usage_get(mr_cuda_device_t *d, const mr_cuda_wanted_t *want, size_t n,
                               size_t *index, part_t *part, mr_cuda_usage_t *usage,
                               mr_diag_t *diag) {
  work_t w = {.texts = &d->programs.texts, .part = part};
  MR_TRY(mr__nvrtc(&w.nvrtc, diag));
  MR_TRY(device_arch(w.nvrtc, d, w.arch, diag));
  for (size_t i = 0; i < n; i++)
    if (!mr_kernel_texts_add(&d->programs.texts, want[i].text, &index[i]))
      return mr_no_memory(diag, "a kernel's text");
  mr_cuda_usage_t *of = calloc(d->programs.texts.n + 1, sizeof *of);
  if (!of) return mr_no_memory(diag, "what kernels take");
  w.n = parts_of(&d->programs.texts, index, n, true, part);
  if (w.n) compile_all(&w);
  mr_err_t err = MR_OK;
  for (size_t i = 0; i < w.n; i++) {
    if (err == MR_OK) err = part_usage(&part[i], of, diag);
    free(part[i].image.data);
  }
  for (size_t i = 0; i < n; i++) usage[i] = of[index[i]];
  free(of);
  return err;
}

mr_err_t mr__cuda_kernels_usage(mr_cuda_device_t *d, const mr_cuda_wanted_t *want, size_t n,
                                mr_cuda_usage_t *usage, mr_diag_t *diag) {
  size_t *index = calloc(n + 1, sizeof *index);
  part_t *part = calloc(n / MR_CUDA_TOGETHER + 1, sizeof *part);
  mr_err_t e = MR_OK;
  if (!index || !part) {
    e = mr_no_memory(diag, "the kernels of a graph");
  } else {
    pthread_mutex_lock(&d->programs.lock);
    e = cuda_usage_get(d, want, n, index, part, usage, diag);
    pthread_mutex_unlock(&d->programs.lock);
  }
  free(index), free(part);
  return e;
}

mr_err_t mr__cuda_kernels(mr_cuda_device_t *d, const mr_cuda_wanted_t *want, size_t n,
                          mr_diag_t *diag) {
  size_t *index = calloc(n + 1, sizeof *index);
  part_t *part = calloc(n / MR_CUDA_TOGETHER + 1, sizeof *part);
  mr_err_t e = MR_OK;
  if (!index || !part) {
    e = mr_no_memory(diag, "the kernels of a graph");
  } else {
    pthread_mutex_lock(&d->programs.lock);
    e = cuda_kernels_get(d, want, n, index, part, diag);
    pthread_mutex_unlock(&d->programs.lock);
  }
  free(index), free(part);
  return e;
}

cudaError_t mr__cuda_launch(mr_cuda_device_t *d, cudaKernel_t kernel, int64_t items, int group,
                            void **arg, int n) {
  void *at[MR_CUDA_ARGUMENTS];
  assert(n <= MR_CUDA_ARGUMENTS && (!group || items % group == 0));
  for (int k = 0; k < n; k++) at[k] = &arg[k];
  unsigned size = group ? (unsigned)group : MR_CUDA_GROUP;
  uint64_t groups = ((uint64_t)items + size - 1) / size;
  if (groups > INT32_MAX) return cudaErrorInvalidConfiguration;
  return d->cu->cudaLaunchKernel((const void *)kernel, (dim3){(unsigned)groups, 1, 1},
                                 (dim3){size, 1, 1}, at, 0, mr__cuda_stream(d));
}

void mr__cuda_programs_fini(mr_cuda_device_t *d) {
  for (size_t i = 0; i < d->programs.n; i++) d->cu->cudaLibraryUnload(d->programs.library[i]);
  free(d->programs.library);
  mr_kernel_texts_fini(&d->programs.texts);
}
