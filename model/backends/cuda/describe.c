/* What doctor says of CUDA.  The libraries are named also where there is no GPU, since a user who
   prepares a machine wants to know what is missing. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "model/backends/cuda/device.h"
#include "model/backends/cuda/find.h"
#include "model/backends/cuda/nvrtc.h"
#include "model/exec/device.h"

typedef struct describe {
  void (*say)(void *arg, const char *line);
  void *arg;
} describe_t;

static void describe_devices(const describe_t *s) {
  const mr_cuda_api_t *cu = mr__cuda_api();
  const mr_device_t *d = NULL;
  mr_diag_t why = {0};
  int n = 0;
  if (mr_device_open("cuda", &d, &why) < 0) s->say(s->arg, why.text);
  mr_device_close(d);
  if (cu->cudaGetDeviceCount(&n) != cudaSuccess) return;
  for (int i = 0; i < n; i++) {
    struct cudaDeviceProp p = {0};
    char line[400];
    if (cu->cudaGetDeviceProperties(&p, i) != cudaSuccess) continue;
    snprintf(line, sizeof line, "cuda:%d: %s, compute capability %d.%d, %zu MiB", i, p.name,
             p.major, p.minor, p.totalGlobalMem >> 20);
    s->say(s->arg, line);
  }
}

static void describe_versions(const describe_t *s) {
  const mr_cuda_api_t *cu = mr__cuda_api();
  int own = 0, driver = 0;
  char line[120];
  cu->cudaRuntimeGetVersion(&own);
  if (cu->cudaDriverGetVersion(&driver) != cudaSuccess || !driver) return;
  snprintf(line, sizeof line,
           "cuda-driver: for CUDA %d.%d; millrace has the run-time library of %d.%d", driver / 1000,
           driver % 1000 / 10, own / 1000, own % 1000 / 10);
  s->say(s->arg, line);
}

/* A library whose function `version` tells its number, as its makers count. */
static void describe_library(const describe_t *s, const char *name, const char *const *files,
                             const char *version, const char *gives) {
  char path[512], line[700];
  void *lib = mr__cuda_find(files, path, sizeof path), *at = lib ? dlsym(lib, version) : NULL;
  size_t (*number)(void) = NULL;
  memcpy(&number, &at, sizeof at);
  if (!lib && *path)
    snprintf(line, sizeof line, "%s: cannot be loaded (%s): %s", name, gives, path);
  else if (!lib)
    snprintf(line, sizeof line, "%s: not found (%s); MILLRACE_CUDA_LIBRARIES may name its folder",
             name, gives);
  else if (number)
    snprintf(line, sizeof line, "%s: %s, version %zu", name, path, number());
  else
    snprintf(line, sizeof line, "%s: %s, which does not tell its version", name, path);
  s->say(s->arg, line);
}

static void describe_nvrtc(const describe_t *s) {
  static const char device[] = "device cuda: "; /* which a row's name stands for */
  const mr_nvrtc_t *nvrtc;
  mr_diag_t why = {0};
  char line[sizeof why.text + 40];
  if (mr__nvrtc(&nvrtc, &why) >= 0)
    snprintf(line, sizeof line, "cuda-nvrtc: %s, version %d.%d", nvrtc->path, nvrtc->major,
             nvrtc->minor);
  else
    snprintf(line, sizeof line, "cuda-nvrtc: %s",
             why.text + (strncmp(why.text, device, strlen(device)) ? 0 : strlen(device)));
  s->say(s->arg, line);
}

void mr__cuda_describe(void (*say)(void *arg, const char *line), void *arg) {
  static const char *const blas[] = {"libcublasLt.so.13", "libcublasLt.so.12", NULL};
  static const char *const cudnn[] = {"libcudnn.so.9", NULL};
  const describe_t s = {say, arg};
  describe_devices(&s);
  describe_versions(&s);
  describe_nvrtc(&s);
  describe_library(&s, "cuda-cublaslt", blas, "cublasLtGetVersion", "products");
  describe_library(&s, "cuda-cudnn", cudnn, "cudnnGetVersion", "attention");
}
