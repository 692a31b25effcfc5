/* Takes the best of a few runs: other programs can only make a run slower.  The first copy, which
   touches the memory for the first time, does not count. */
#include "model/backends/kernels/limits.h"
#include "base/clock.h"

enum { SUMS = 16, TURNS = 1 << 10, RUNS = 5 };

/* 16 sums at once hide the latency of one; the store keeps the compiler from dropping them. */
const char mr__kernel_fma_text[] =
    "KERNEL k(ARG(0)) {\n"
    "  PTR(float, y0, 0);\n"
    "  u64 i = ITEM;\n"
    "  float a = 1.0f + 1e-7f * (float)i, s[16]; int j, k;\n"
    "  for (j = 0; j < 16; j++) s[j] = (float)j;\n"
    "  for (k = 0; k < 1024; k++)\n"
    "    for (j = 0; j < 16; j++) s[j] = fma(s[j], a, 1e-3f);\n"
    "  for (j = 1; j < 16; j++) s[0] += s[j];\n"
    "  y0[i] = s[0];\n"
    "}\n";

double mr__kernel_fma(size_t items, bool (*run)(void *arg), void *arg) {
  double best = 0;
  for (int i = 0; i < RUNS; i++) {
    double from = mr_now_s();
    if (!run(arg)) return 0;
    double took = mr_now_s() - from;
    if (!best || took < best) best = took;
  }
  return best > 0 ? 2.0 * (double)items * SUMS * TURNS / best / 1e9 : 0;
}

double mr__kernel_bandwidth(const mr_backend_t *backend, size_t bytes) {
  void *from = backend->take(bytes), *to = backend->take(bytes);
  double best = 0;
  for (int i = 0; i < RUNS && from && to; i++) {
    double start = mr_now_s();
    backend->copy(to, from, bytes, MR_COPY_WITHIN);
    if (backend->reached(NULL, true, NULL) < 0) break;
    double took = mr_now_s() - start;
    if (i && (!best || took < best)) best = took; /* the first touches the memory */
  }
  backend->give(from, bytes), backend->give(to, bytes);
  return best > 0 ? 2.0 * (double)bytes / best / 1e9 : 0;
}
