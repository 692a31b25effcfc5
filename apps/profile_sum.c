/* Sums over kernel calls, and the ideal time of a call under the roofline of the machine's
   limits. */
#include <ctype.h>
#include <string.h>

#include "apps/profile.h"

static double peak(const mr_profile_t *p, const mr_profile_op_t *c) {
  return c->narrow ? p->limit.bf16 : p->limit.f32;
}

/* GFLOP/s are operations per nanosecond, GB/s bytes per nanosecond. */
double mr_profile_ideal_ns(const mr_profile_t *p, const mr_profile_op_t *c) {
  double work = c->cost.flop / peak(p, c), traffic = c->cost.bytes / p->limit.copy;
  return work > traffic ? work : traffic;
}

mr_profile_kind_t mr_profile_kind(const mr_profile_t *p, const mr_profile_op_t *c) {
  if (c->cost.product) return MR_PROFILE_PRODUCT;
  bool memory = c->cost.bytes / p->limit.copy > c->cost.flop / peak(p, c);
  return memory && !c->serial ? MR_PROFILE_MEMORY : MR_PROFILE_OTHER;
}

const char *mr_profile_kind_name(mr_profile_kind_t kind) {
  static const char *const name[] = {"matrix products", "bandwidth-bound", "other"};
  return name[kind];
}

void mr_profile_add(const mr_profile_t *p, mr_profile_sum_t *sum, const mr_profile_op_t *c) {
  sum->calls++;
  sum->ns += (double)c->ns / p->runs;
  sum->flop += c->cost.flop;
  sum->bytes += c->cost.bytes;
  sum->ideal_ns += mr_profile_ideal_ns(p, c);
}

mr_profile_sum_t mr_profile_total(const mr_profile_t *p, int kind) {
  mr_profile_sum_t sum = {0};
  for (int i = 0; i < p->n; i++)
    if (kind < 0 || (int)mr_profile_kind(p, &p->call[i]) == kind)
      mr_profile_add(p, &sum, &p->call[i]);
  return sum;
}

size_t mr_profile_level(const char *scope, size_t *skip) {
  size_t n = strcspn(scope, "/.");
  while (scope[n] == '.' && isdigit((unsigned char)scope[n + 1]))
    n += 1 + strcspn(scope + n + 1, "/.");
  *skip = n + (scope[n] != 0);
  return n;
}
