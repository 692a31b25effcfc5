/* What sinks/gpu.c assumes of NVML, against NVML's own header: a program that does not compile when
   one of them differs.  It then says what the library that is there makes of this machine. */
#include "sinks/gpu.c"

#include <nvml.h>
#include <stdio.h>

#define SAME_FIELD(a, b, field)                                          \
  _Static_assert(offsetof(a, field) == offsetof(b, field) &&             \
                     sizeof(((a *)0)->field) == sizeof(((b *)0)->field), \
                 #b "." #field)

_Static_assert(NVML_SUCCESS == 0, "0 is success");
_Static_assert(NVML_TEMPERATURE_GPU == 0, "the sensor asked for");
_Static_assert(sizeof(nvmlReturn_t) == sizeof(int), "what the calls return");
_Static_assert(sizeof(nvmlDevice_t) == sizeof(void *), "a device");
_Static_assert(sizeof(utilization_t) == sizeof(nvmlUtilization_t), "nvmlUtilization_t");
SAME_FIELD(utilization_t, nvmlUtilization_t, gpu);
SAME_FIELD(utilization_t, nvmlUtilization_t, memory);
_Static_assert(sizeof(memory_t) == sizeof(nvmlMemory_t), "nvmlMemory_t");
SAME_FIELD(memory_t, nvmlMemory_t, total);
SAME_FIELD(memory_t, nvmlMemory_t, free);
SAME_FIELD(memory_t, nvmlMemory_t, used);

/* The names that are looked for, with the parameters that the header gives them. */
nvmlReturn_t (*const init)(void) = nvmlInit_v2;
nvmlReturn_t (*const shutdown)(void) = nvmlShutdown;
nvmlReturn_t (*const by_index)(unsigned, nvmlDevice_t *) = nvmlDeviceGetHandleByIndex_v2;
nvmlReturn_t (*const utilization)(nvmlDevice_t,
                                  nvmlUtilization_t *) = nvmlDeviceGetUtilizationRates;
nvmlReturn_t (*const memory)(nvmlDevice_t, nvmlMemory_t *) = nvmlDeviceGetMemoryInfo;
nvmlReturn_t (*const power)(nvmlDevice_t, unsigned *) = nvmlDeviceGetPowerUsage;
nvmlReturn_t (*const temperature)(nvmlDevice_t, nvmlTemperatureSensors_t,
                                  unsigned *) = nvmlDeviceGetTemperature;

int main(void) {
  mr_gpu_t g;
  mr_gpu_now_t now;
  bool there = mr_gpu_open(&g), read = mr_gpu_read(&g, &now);
  printf("%s %g %g %g %g %g\n",
         there && read   ? "gpu"
         : there || read ? "half"
                         : "none",
         now.busy, now.memory, now.memory_total, now.watts, now.celsius);
  mr_gpu_close(&g);
  mr_gpu_close(&g);
  return 0;
}
