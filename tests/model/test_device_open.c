/* Devices that open and close from several threads, on a driver that takes its time: others are
   kept, opened and closed meanwhile, and each is open once. */
// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "model/backends/cuda/api.h"
#include "model/exec/device.h"
#include "model/model.h"

enum { THREADS = 4, ROUNDS = 60, PATIENCE_S = 60 /* spent where the test fails */ };

/* ---- a driver with two devices ---- */

static cudaError_t version_13(int *v) { return *v = 13000, cudaSuccess; }
static cudaError_t two_devices(int *n) { return *n = 2, cudaSuccess; }
static cudaError_t set_device(int device) { return cudaSuccess; }
static cudaError_t stream_create(cudaStream_t *s, unsigned flags) {
  return *s = (cudaStream_t)(uintptr_t)0x5000, cudaSuccess;
}
static cudaError_t stream_done(cudaStream_t s) { return cudaSuccess; }
static cudaError_t event_create(cudaEvent_t *e, unsigned flags) {
  return *e = (cudaEvent_t)(uintptr_t)0x6000, cudaSuccess;
}
static cudaError_t event_record(cudaEvent_t e, cudaStream_t s) { return cudaSuccess; }
static cudaError_t event_destroy(cudaEvent_t e) { return cudaSuccess; }
static cudaError_t memory_unknown(size_t *free, size_t *all) { return cudaErrorUnknown; }
static const char *error_name(cudaError_t e) { return "cudaErrorRecorded"; }

static cudaError_t properties(struct cudaDeviceProp *p, int device) {
  *p = (struct cudaDeviceProp){.major = 9, .multiProcessorCount = 132};
  strcpy(p->name, "Recorded GPU");
  return cudaSuccess;
}

/* What it does when it is asked for the second one. */
static sem_t asked, go;
static bool is_slow, was_late;
static cudaError_t answer = cudaSuccess;
static _Atomic int asked_for[2]; /* relaxed: read once the threads have been joined */

static cudaError_t slow_properties(struct cudaDeviceProp *p, int device) {
  atomic_fetch_add_explicit(&asked_for[device], 1, memory_order_relaxed); /* with asks_of */
  if (!device || !is_slow) return properties(p, device);
  struct timespec end;
  sem_post(&asked);
  clock_gettime(CLOCK_REALTIME, &end);
  end.tv_sec += PATIENCE_S;
  int waited;
  while ((waited = sem_timedwait(&go, &end)) && errno == EINTR) continue;
  if (waited) was_late = true;
  cudaError_t now = answer;
  answer = cudaSuccess;
  return now == cudaSuccess ? properties(p, device) : now;
}

static int asks_of(int device) {
  return atomic_load_explicit(&asked_for[device], memory_order_relaxed); /* with slow_properties */
}

typedef struct opener {
  const char *name;
  const mr_device_t *device;
  mr_err_t code;
} opener_t;

static void *opener_main(void *arg) {
  opener_t *o = arg;
  mr_diag_t diag = {0};
  o->code = mr_device_open(o->name, &o->device, &diag);
  return NULL;
}

static const mr_device_t *open_here(const char *name) {
  const mr_device_t *d = NULL;
  mr_diag_t diag = {0};
  if (mr_device_open(name, &d, &diag) < 0) fail_msg("%s", diag.text);
  return d;
}

static void others_are_opened_and_closed_while_a_driver_is_slow(void **state) {
  const mr_device_t *first = open_here("cuda:0");
  opener_t one = {.name = "cuda:1"}, two = {.name = "cuda:1"};
  pthread_t a, b;
  int before = asks_of(1);
  is_slow = true;
  assert_int_equal(pthread_create(&a, NULL, opener_main, &one), 0);
  while (sem_wait(&asked)) continue;
  assert_int_equal(pthread_create(&b, NULL, opener_main, &two), 0);
  assert_ptr_equal(open_here("cuda:0"), first);
  assert_ptr_equal(mr_device_keep(first), first);
  mr_device_close(open_here("cpu:0/2"));
  mr_device_close(first), mr_device_close(first);
  sem_post(&go);
  pthread_join(a, NULL), pthread_join(b, NULL);
  is_slow = false;
  assert_false(was_late);
  assert_int_equal(one.code, MR_OK);
  assert_int_equal(two.code, MR_OK);
  assert_ptr_equal(one.device, two.device);
  assert_int_equal(asks_of(1) - before, 1);
  mr_device_close(one.device), mr_device_close(two.device), mr_device_close(first);
}

/* Who waits for a device that then cannot be opened tries it itself. */
static void a_device_that_could_not_be_opened_is_tried_again(void **state) {
  opener_t one = {.name = "cuda:1"}, two = {.name = "cuda:1"};
  pthread_t a, b;
  int before = asks_of(1);
  is_slow = true, answer = cudaErrorUnknown;
  assert_int_equal(pthread_create(&a, NULL, opener_main, &one), 0);
  while (sem_wait(&asked)) continue;
  assert_int_equal(pthread_create(&b, NULL, opener_main, &two), 0);
  sem_post(&go), sem_post(&go);
  pthread_join(a, NULL), pthread_join(b, NULL);
  while (!sem_trywait(&asked)) continue;
  is_slow = false;
  assert_false(was_late);
  assert_int_equal(asks_of(1) - before, 2);
  assert_int_equal(one.code, MR_ERR_UNAVAILABLE);
  assert_int_equal(two.code, MR_OK);
  mr_device_close(two.device);
}

static void *open_and_close(void *arg) {
  static const char *const names[] = {"cuda:0", "cuda:1", "cpu:0/2", "cpu:1/2"};
  unsigned seed = *(const unsigned *)arg;
  for (int i = 0; i < ROUNDS; i++) {
    const mr_device_t *d[3] = {0};
    mr_diag_t diag = {0};
    for (int k = 0; k < 3; k++) {
      const char *name = names[rand_r(&seed) % 4];
      if (mr_device_open(name, &d[k], &diag) < 0 || strcmp(d[k]->name, name)) return "a name";
    }
    for (int k = 0; k < 3; k++) mr_device_close(d[k]);
  }
  return NULL;
}

static void threads_open_and_close_the_same_devices(void **state) {
  static const unsigned seed[THREADS] = {1, 2, 3, 4};
  pthread_t thread[THREADS];
  for (int i = 0; i < THREADS; i++)
    assert_int_equal(pthread_create(&thread[i], NULL, open_and_close, (void *)&seed[i]), 0);
  for (int i = 0; i < THREADS; i++) {
    void *failed;
    pthread_join(thread[i], &failed);
    assert_null(failed);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(others_are_opened_and_closed_while_a_driver_is_slow),
      cmocka_unit_test(a_device_that_could_not_be_opened_is_tried_again),
      cmocka_unit_test(threads_open_and_close_the_same_devices),
  };
  static const mr_cuda_api_t driver = {.cudaDriverGetVersion = version_13,
                                       .cudaRuntimeGetVersion = version_13,
                                       .cudaGetDeviceCount = two_devices,
                                       .cudaGetDeviceProperties = slow_properties,
                                       .cudaSetDevice = set_device,
                                       .cudaStreamCreateWithFlags = stream_create,
                                       .cudaStreamSynchronize = stream_done,
                                       .cudaStreamDestroy = stream_done,
                                       .cudaEventCreateWithFlags = event_create,
                                       .cudaEventRecord = event_record,
                                       .cudaEventDestroy = event_destroy,
                                       .cudaMemGetInfo = memory_unknown,
                                       .cudaGetErrorName = error_name,
                                       .cudaGetErrorString = error_name};
  sem_init(&asked, 0, 0), sem_init(&go, 0, 0);
  setenv("MILLRACE_CUDA_POOL", "off", 1);
  mr__cuda_api_put(&driver);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
