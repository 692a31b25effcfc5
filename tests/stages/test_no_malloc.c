/* No allocation per batch: between the first batches and the last ones nothing in the loaders, the
   stages or the graph takes memory, however records are read. */
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

#include "loaders/loaders.h"
#include "pipeline/graph/graph.h"
#include "pipeline/stage_step.h"
#include "stages/stages.h"
#include "tests/vectors.h"

enum { RECORDS = 2000, FIRST = 40, LAST = 400 };

/* ---- the calls ---- */

static atomic_long taken; /* while the trap is set */
static atomic_bool trap;

static void note(void) {
  if (atomic_load(&trap)) atomic_fetch_add(&taken, 1);
}

void *__real_malloc(size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_malloc(size_t n) { return note(), __real_malloc(n); }
void *__real_calloc(size_t n, size_t each);
void *__wrap_calloc(size_t n, size_t each);
void *__wrap_calloc(size_t n, size_t each) { return note(), __real_calloc(n, each); }
void *__real_realloc(void *p, size_t n);
void *__wrap_realloc(void *p, size_t n);
void *__wrap_realloc(void *p, size_t n) { return note(), __real_realloc(p, n); }
void *__real_aligned_alloc(size_t to, size_t n);
void *__wrap_aligned_alloc(size_t to, size_t n);
void *__wrap_aligned_alloc(size_t to, size_t n) { return note(), __real_aligned_alloc(to, n); }
int __real_posix_memalign(void **p, size_t to, size_t n);
int __wrap_posix_memalign(void **p, size_t to, size_t n);
int __wrap_posix_memalign(void **p, size_t to, size_t n) {
  return note(), __real_posix_memalign(p, to, n);
}
char *__real_strdup(const char *s);
char *__wrap_strdup(const char *s);
char *__wrap_strdup(const char *s) { return note(), __real_strdup(s); }
void *__real_mmap(void *at, size_t n, int prot, int flags, int fd, off_t offset);
void *__wrap_mmap(void *at, size_t n, int prot, int flags, int fd, off_t offset);
void *__wrap_mmap(void *at, size_t n, int prot, int flags, int fd, off_t offset) {
  return note(), __real_mmap(at, n, prot, flags, fd, offset);
}

/* ---- a sink that sets the trap ---- */

typedef struct gate {
  int64_t seen, want;
} gate_t;

static mr_err_t gate_plan(mr_stage_t *s) { return MR_OK; }

static mr_err_t gate_step(mr_stage_t *s) {
  gate_t *t = s->state;
  mr_buf_t *b[MR_BURST];
  size_t k = mr_take(s, 0, b, MR_BURST);
  for (size_t i = 0; i < k; i++, t->seen++) {
    if (t->seen == FIRST) atomic_store(&trap, true);
    if (t->seen == LAST) atomic_store(&trap, false);
    mr_buf_unref(b[i]);
  }
  return k ? MR_OK : mr_idle(s);
}

static const mr_stage_def_t gate_def = {
    .name = "gate",
    .help = "Sets the trap.",
    .in = {{.name = "in", .flow = MR_FLOW_BATCHES}},
    .state_sz = sizeof(gate_t),
    .plan = gate_plan,
    .step = &(const mr_step_def_t){.run = gate_step},
};
static const mr_stage_def_t *const own[] = {&gate_def, NULL};
static mr_registry_t reg;
static char folder[] = "/tmp/millrace-malloc-XXXXXX";

static long allocations_in(const char *text) {
  mr_diag_t d = {0};
  mr_graph_t *g = mr_graph_create(&reg);
  atomic_store(&taken, 0);
  mr_err_t e = mr_graph_parse(g, text, NULL, 0, &d);
  if (e >= 0) e = mr_graph_run(g, &d);
  if (e == MR_ERR_UNAVAILABLE) { /* a container without io_uring, a file system without O_DIRECT */
    print_message("left out: %s\n", d.text);
    mr_graph_destroy(g);
    return 0;
  }
  if (e < 0) fail_msg("%s", d.text);
  const gate_t *t = mr_graph_stage_of(g, "gate")->state;
  assert_true(t->seen > LAST);
  mr_graph_destroy(g);
  return atomic_load(&taken);
}

static long allocations_of(const char *source) {
  char text[512];
  snprintf(
      text, sizeof text,
      "%s ! shuffle seed=3 epochs=30 ! flip ! resized-crop ! normalize ! batch 128 workers=2 ! "
      "gate",
      source);
  return allocations_in(text);
}

static void no_batch_costs_an_allocation(void **state) {
  static const char *const how[] = {"memory=-1", "memory=0 backend=uring",
                                    "memory=0 backend=direct", "memory=0 backend=pread",
                                    "memory=0 backend=mmap"};
  assert_int_equal(allocations_of("synthetic n=2000"), 0);
  for (size_t i = 0; i < sizeof how / sizeof *how; i++) {
    char source[200];
    snprintf(source, sizeof source, "cifar10 path=%s records=400 holdout=0 %s", folder, how[i]);
    long n = allocations_of(source);
    if (n) fail_msg("%s: %ld allocations in %d batches", how[i], n, LAST - FIRST);
  }
}

/* Streams with holes, walks, several inputs, and stages behind batch. */
static void no_batch_of_any_stream_costs_an_allocation(void **state) {
  static const char *const graph[] = {
      "synthetic n=2000 ! filter 0,1,2,3,4,5,6 ! shuffle seed=1 epochs=50 ! flip ! batch 128 "
      "across-epochs workers=2 ! gate",
      "synthetic n=2000 ! shuffle seed=1 epochs=50 ! mix.a synthetic n=1000 ! shuffle seed=2 "
      "epochs=50 ! mix.b mix weights=7,3 name=mix ! flip ! batch 128 workers=2 ! gate",
      "synthetic n=2000 ! shuffle seed=1 epochs=50 ! zip.a synthetic n=2000 ! shuffle seed=2 "
      "epochs=50 ! zip.b zip name=zip ! batch 128 workers=2 ! gate",
      "synthetic n=2000 ! shuffle seed=1 epochs=50 ! filter 1,2,3,4,5,6 ! to-iter-dataset ! "
      "random-map seed=3 ! flip ! mp-prefetch 3 ! batch 64 workers=2 ! gate",
      "synthetic n=60000 ! to-iter-dataset ! window-shuffle 300 seed=4 ! interleave.a synthetic "
      "n=60000 ! to-iter-dataset ! interleave.b interleave 2 name=interleave ! batch 128 workers=2 "
      "! gate",
      "synthetic n=2000 ! shuffle seed=1 epochs=50 ! batch 96 across-epochs workers=2 ! rebatch "
      "128 "
      "! tee ! identity ! gate",
      "synthetic n=2000 ! shuffle seed=1 epochs=50 ! batch 96 across-epochs workers=2 ! rebatch "
      "128 "
      "host=1/3 ! gate",
      "synthetic n=2000 ! shuffle seed=1 epochs=50 ! batch 128 order=grain-workers "
      "loader-workers=3 "
      "workers=2 ! gate",
  };
  for (size_t i = 0; i < sizeof graph / sizeof *graph; i++) {
    long n = allocations_in(graph[i]);
    if (n) fail_msg("%s: %ld allocations in %d batches", graph[i], n, LAST - FIRST);
  }
}

/* The trap itself works: what opens a graph does allocate. */
static void the_trap_sees_allocations(void **state) {
  atomic_store(&taken, 0), atomic_store(&trap, true);
  mr_graph_t *g = mr_graph_create(&reg);
  atomic_store(&trap, false);
  mr_graph_destroy(g);
  assert_true(atomic_load(&taken) > 0);
}

static int setup(void **state) {
  static uint8_t data[400 * 3073];
  char path[64];
  mr_registry_add(&reg, mr_loaders_stages);
  mr_registry_add(&reg, mr_stages_stages);
  mr_registry_add(&reg, own);
  if (!mkdtemp(folder)) return -1;
  for (size_t i = 0; i < sizeof data; i++) data[i] = (uint8_t)(i % 3073 ? i * 7 : i / 3073 % 10);
  for (int k = 1; k <= 5; k++) {
    snprintf(path, sizeof path, "%s/data_batch_%d.bin", folder, k);
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(data, sizeof data, 1, f) != 1 || fclose(f)) return -1;
  }
  return 0;
}

static int teardown(void **state) {
  char path[64];
  for (int k = 1; k <= 5; k++) {
    snprintf(path, sizeof path, "%s/data_batch_%d.bin", folder, k);
    unlink(path);
  }
  return rmdir(folder);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(the_trap_sees_allocations),
                                     cmocka_unit_test(no_batch_costs_an_allocation),
                                     cmocka_unit_test(no_batch_of_any_stream_costs_an_allocation)};
  return cmocka_run_group_tests(tests, setup, teardown);
}
