/* The bits of a short run, for each level of instructions and each type of the products: a change
   of the pictures, draws, order or arithmetic is noticed here.  Only optimised builds without
   sanitizers are compared; what a level's sums are is the compiler's and oneDNN's too. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "base/isa.h"
#include "tests/apps/program.h"

#define RECORDS                                                                          \
  "synthetic n=400 ! shuffle seed=12 ! flip ! resized-crop scale=0.9:1.0 ratio=0.9:1.1 " \
  "! normalize preset=cifar10 ! batch 16 "

static program_t p;

/* oneDNN multiplies bf16 by tiles (AMX) where the processor has them and by dot products of pairs
   elsewhere; the two add in other orders, so that this row has a ledger for each. */
static const struct {
  mr_isa_t isa;
  const char *dtype, *ledger;
  enum { ANY, PAIRS, TILES } products;
} pinned[] = {{MR_ISA_PLAIN, "f32", "67e171e12516bf7d", ANY},
              {MR_ISA_PLAIN, "bf16", "6c2dfd8db7a47e95", ANY},
              {MR_ISA_AVX2, "f32", "0fb18c5e4fca4978", ANY},
              {MR_ISA_AVX2, "bf16", "4ae1e7464f036166", ANY},
              {MR_ISA_AVX512, "f32", "d08bce54b604ad50", ANY},
              {MR_ISA_AVX512, "bf16", "6f74839cc23c74cf", ANY},
              {MR_ISA_AVX512_BF16, "f32", "d08bce54b604ad50", ANY},
              {MR_ISA_AVX512_BF16, "bf16", "cd7357c3ce06667b", PAIRS},
              {MR_ISA_AVX512_BF16, "bf16", "6cef05356fb22eb8", TILES}};

static bool multiplies_by(int products) {
#if defined(__x86_64__)
  unsigned eax, ebx, ecx, edx = 0;
  bool tiles = __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) && edx >> 22 & 1;  // AMX-BF16
  return products == ANY || (products == TILES) == tiles;
#else
  return products == ANY;
#endif
}

/* Whether the graph ends with this ledger; says so if not. */
static bool has_ledger(const char *what, const char *graph, const char *want) {
  char text[64];
  RUN(&p, "run", graph);
  if (p.status) fail_msg("%s: status %d: %s", what, p.status, p.err);
  snprintf(text, sizeof text, "ledger %s\n", want);
  const char *said = strstr(p.out, "ledger ");
  if (!said) fail_msg("%s: no ledger in: %s", what, p.out);
  if (strstr(p.out, text)) return true;
  print_error("%s: %.23s, pinned %s: bits changed: say so in CHANGELOG.md and renew this value\n",
              what, said, want);
  return false;
}

static bool compares_here(void) {
#if !defined(__OPTIMIZE__) || defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return false;
#else
  return true;
#endif
}

/* Records and draws alone: the same on every machine and in every build. */
static void the_stream_of_records_keeps_its_ledger(void **state) {
  assert_true(has_ledger("records", RECORDS "! null", "df5f5b1310a7a08f"));
}

static void a_short_training_run_keeps_its_ledger(void **state) {
  int changed = 0, compared = 0;
  if (!compares_here()) {
    print_message("not compared in this build, which is not optimised or has a sanitizer\n");
    skip();
  }
  for (size_t i = 0; i < sizeof pinned / sizeof *pinned; i++) {
    char graph[512], what[64];
    const char *isa = mr_isa_name(pinned[i].isa);
    if (!mr_isa_available(pinned[i].isa)) {
      print_message("%s: this machine lacks it\n", isa);
      continue;
    }
    if (!multiplies_by(pinned[i].products)) continue;
    snprintf(graph, sizeof graph,
             RECORDS "! vit-step embed=64 mlp=128 heads=2 layers=2 steps=6 dtype=%s ! progress",
             pinned[i].dtype);
    snprintf(what, sizeof what, "MILLRACE_ISA=%s, dtype=%s", isa, pinned[i].dtype);
    setenv("MILLRACE_ISA", isa, 1);
    changed += !has_ledger(what, graph, pinned[i].ledger);
    compared++;
  }
  if (!compared) skip();
  assert_int_equal(changed, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_stream_of_records_keeps_its_ledger),
      cmocka_unit_test(a_short_training_run_keeps_its_ledger),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
