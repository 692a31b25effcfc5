/* Replaces NVIDIA's library where there is no GPU: the functions of its own header, so that a
   name or a parameter of theirs cannot differ, and one device whose numbers are known. */
#include <nvml.h>

static int begun;

nvmlReturn_t nvmlInit_v2(void) {
  begun++;
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlShutdown(void) { return begun-- > 0 ? NVML_SUCCESS : NVML_ERROR_UNINITIALIZED; }

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t *device) {
  if (begun < 1) return NVML_ERROR_UNINITIALIZED;
  if (index) return NVML_ERROR_INVALID_ARGUMENT;
  *device = (nvmlDevice_t)&begun;
  return NVML_SUCCESS;
}

static nvmlReturn_t known(nvmlDevice_t device) {
  return begun > 0 && device == (nvmlDevice_t)&begun ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT;
}

nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t *out) {
  *out = (nvmlUtilization_t){.gpu = 87, .memory = 13};
  return known(device);
}

nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *out) {
  *out = (nvmlMemory_t){.total = 80000000000, .free = 59000000000, .used = 21000000000};
  return known(device);
}

nvmlReturn_t nvmlDeviceGetPowerUsage(nvmlDevice_t device, unsigned *milliwatts) {
  *milliwatts = 312500;
  return known(device);
}

nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t device, nvmlTemperatureSensors_t sensor,
                                      unsigned *celsius) {
  *celsius = 61;
  return sensor == NVML_TEMPERATURE_GPU ? known(device) : NVML_ERROR_INVALID_ARGUMENT;
}
