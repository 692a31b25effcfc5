/* Takes the best of a few rows of commands: other programs can only make one slower.  The first
   copy, which touches the memory for the first time, does not count. */
#include "model/backends/kernels/limits.h"
#include "base/clock.h"

enum { SUMS = 16, TURNS = 1 << 10, RUNS = 3, COPIES = 2 };

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

/* The least time of one command, in seconds, of rows of n that give(arg) gives one by one; 0: one
   could not be given, or failed.  A row is timed by the device's clock, between the end of what was
   given before it and its own; without such a clock, by the host's, until the host knows of the
   end. */
static double least_time(const mr_device_t *d, int n, bool (*give)(void *arg), void *arg) {
  const mr_clock_ops_t *clock = d->backend->queue->clock;
  void *from = clock ? clock->create(d) : NULL, *to = clock ? clock->create(d) : NULL;
  double best = 0;
  for (int i = 0; i < RUNS; i++) {
    bool given = true;
    double began = mr_now_s();
    if (from && to) clock->record(d, from);
    for (int k = 0; k < n && given; k++) given = give(arg);
    if (from && to) clock->record(d, to);
    if (mr_device_reached(d, NULL, true, NULL) < 0 || !given) {
      best = 0;
      break;
    }
    double took = mr_now_s() - began;
    if (from && to) took = (double)clock->between(d, from, to) * 1e-9;
    if (took > 0 && (!best || took < best)) best = took;
  }
  if (clock) clock->destroy(d, from), clock->destroy(d, to);
  return best / n;
}

double mr__kernel_fma(const mr_device_t *d, size_t items, bool (*give)(void *arg), void *arg) {
  double best = least_time(d, 1, give, arg);
  return best > 0 ? 2.0 * (double)items * SUMS * TURNS / best / 1e9 : 0;
}

typedef struct copies {
  const mr_device_t *d;
  void *from, *to;
  size_t bytes;
} copies_t;

static bool give_copy(void *arg) {
  const copies_t *c = arg;
  mr_device_copy(c->d, c->to, c->from, c->bytes, MR_COPY_WITHIN);
  return true;
}

double mr__kernel_bandwidth(const mr_device_t *d, size_t bytes) {
  size_t most = mr_device_room(d) / 4;
  copies_t c = {.d = d, .bytes = bytes < most ? bytes : most / 256 * 256};
  double best = 0;
  if (!c.bytes) return 0;
  c.from = mr_device_take(d, c.bytes), c.to = mr_device_take(d, c.bytes);
  if (c.from && c.to) {
    give_copy(&c); /* touches the memory for the first time */
    best = least_time(d, COPIES, give_copy, &c);
  }
  mr_device_give(d, c.from, c.bytes), mr_device_give(d, c.to, c.bytes);
  return best > 0 ? 2.0 * (double)c.bytes / best / 1e9 : 0;
}
