/* Reads load, memory, power and temperature of the first GPU through NVML.  The library is opened
   by dlopen and its calls are declared here, so that neither its headers nor a driver are needed to
   build, and a machine without them has no such numbers. */
#include "sinks/usage.h"

#include <dlfcn.h>
#include <stddef.h>

/* The few calls that are needed, as the library documents them; 0 is success. */
typedef struct {
  unsigned gpu, memory; /* per cent */
} utilization_t;
typedef struct {
  unsigned long long total, free, used;
} memory_t;
typedef int call_t(void);
typedef int by_index_t(unsigned index, void **device);
typedef int utilization_of_t(void *device, utilization_t *out);
typedef int memory_of_t(void *device, memory_t *out);
typedef int power_of_t(void *device, unsigned *milliwatts);
typedef int temperature_of_t(void *device, int sensor, unsigned *celsius);

#define FIND(g, type, name) ((type *)dlsym((g)->library, name))

bool mr_gpu_open(mr_gpu_t *g) {
  *g = (mr_gpu_t){.library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL)};
  if (!g->library) return false;
  call_t *init = FIND(g, call_t, "nvmlInit_v2");
  by_index_t *by_index = FIND(g, by_index_t, "nvmlDeviceGetHandleByIndex_v2");
  if (init && by_index && init() == 0 && by_index(0, &g->device) == 0 && g->device) return true;
  g->device = NULL;
  mr_gpu_close(g);
  return false;
}

bool mr_gpu_read(const mr_gpu_t *g, mr_gpu_now_t *out) {
  *out = (mr_gpu_now_t){-1, -1, -1, -1, -1};
  if (!g->device) return false;
  utilization_of_t *utilization = FIND(g, utilization_of_t, "nvmlDeviceGetUtilizationRates");
  memory_of_t *memory = FIND(g, memory_of_t, "nvmlDeviceGetMemoryInfo");
  power_of_t *power = FIND(g, power_of_t, "nvmlDeviceGetPowerUsage");
  temperature_of_t *temperature = FIND(g, temperature_of_t, "nvmlDeviceGetTemperature");
  utilization_t u;
  memory_t m;
  unsigned v;
  if (utilization && utilization(g->device, &u) == 0) out->busy = u.gpu / 100.0;
  if (memory && memory(g->device, &m) == 0)
    out->memory = (double)m.used, out->memory_total = (double)m.total;
  if (power && power(g->device, &v) == 0) out->watts = v / 1000.0;
  if (temperature && temperature(g->device, 0, &v) == 0) out->celsius = v;
  return true;
}

void mr_gpu_close(mr_gpu_t *g) {
  call_t *shutdown = g->library ? FIND(g, call_t, "nvmlShutdown") : NULL;
  if (shutdown) shutdown();
  if (g->library) dlclose(g->library);
  *g = (mr_gpu_t){0};
}
