/* The OpenMP team: its size, pinning, and release. */
#include "model/backends/cpu/team.h"

#include <omp.h>
#include <pthread.h>
#include <sched.h>

static struct {
  pthread_once_t once;
  cpu_set_t allowed; /* as at the first call; a pinned thread's own set is smaller */
  int n;
} cpus = {.once = PTHREAD_ONCE_INIT};

static void team_look(void) {
  CPU_ZERO(&cpus.allowed);
  if (sched_getaffinity(0, sizeof cpus.allowed, &cpus.allowed) == 0)
    cpus.n = CPU_COUNT(&cpus.allowed);
}

int mr__team_set(int n) {
  int before = omp_get_max_threads();
  omp_set_num_threads(n);
  return before;
}

static void pin_to(int k) {
  cpu_set_t one;
  int cpu = 0;
  for (k %= cpus.n; !CPU_ISSET(cpu, &cpus.allowed) || k-- > 0;) cpu++;
  CPU_ZERO(&one);
  CPU_SET(cpu, &one);
  pthread_setaffinity_np(pthread_self(), sizeof one, &one);
}

int mr__team_processors(void) {
  pthread_once(&cpus.once, team_look);
  return cpus.n;
}

void mr__team_pin(void) {
  if (!mr__team_processors()) return;
#pragma omp parallel
  pin_to(omp_get_thread_num());
}

void mr__team_release(void) { omp_pause_resource_all(omp_pause_soft); }
