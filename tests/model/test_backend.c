/* The executor asks the table of a backend alone.  The backend here computes as the CPU does, on
   memory that nothing may touch but its copies and its kernels: pages without access at any other
   time, aligned to 256. */
// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include <sys/mman.h>

#include "model/exec/backend.h"
#include "model/exec/explain.h"
#include "model/exec/mem_report.h"
#include "tests/model/grid.h"

enum { RANGES = 4096, PAGE = 4096 };

static struct {
  char *data;
  size_t bytes, asked;
} range[RANGES]; /* what is taken and not given back: data NULL is free */

static struct {
  int takes, gives, in, out, within, lowered, runs, begins, ends;
  int fail_take; /* the take of this number fails; 0: none does */
  size_t room;
  const char *refused; /* the op that it has no rule for, or NULL */
  const char *named;   /* what its sentence then begins with; NULL: nothing */
} seen;

static mr_backend_t twin; /* of the CPU's, in main */
static mr_device_t twin_device = {&twin, NULL, 0, "twin"};
static int unlocked; /* kernels and copies under way, one in the other */

static void protect(int how) {
  for (int i = 0; i < RANGES; i++)
    if (range[i].data && mprotect(range[i].data, range[i].bytes, how)) abort();
}

static void unlock(void) {
  if (!unlocked++) protect(PROT_READ | PROT_WRITE);
}

static void lock(void) {
  if (!--unlocked) protect(PROT_NONE);
}

static bool on_device(const void *p, size_t bytes) {
  const char *at = p;
  for (int i = 0; i < RANGES; i++)
    if (range[i].data && at >= range[i].data && at + bytes <= range[i].data + range[i].bytes)
      return true;
  return false;
}

static void *twin_take(const mr_device_t *d, size_t bytes) {
  int i = 0;
  if (++seen.takes == seen.fail_take) return NULL;
  while (i < RANGES && range[i].data) i++;
  assert_true(i < RANGES);
  size_t whole = (bytes / PAGE + 1) * PAGE;
  char *data = mmap(NULL, whole, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  assert_true(data != MAP_FAILED);
  range[i].data = data, range[i].bytes = whole, range[i].asked = bytes;
  return data;
}

static void twin_give(const mr_device_t *d, void *data, size_t bytes) {
  int i = 0;
  if (!data) return;
  while (i < RANGES && range[i].data != data) i++;
  assert_true(i < RANGES && range[i].asked == bytes);
  munmap(range[i].data, range[i].bytes);
  range[i].data = NULL;
  seen.gives++;
}

static size_t twin_room(const mr_device_t *d) { return seen.room; }

static void twin_copy(const mr_device_t *d, void *to, const void *from, size_t bytes,
                      mr_copy_way_t way) {
  if (bytes) assert_true(on_device(to, bytes) == (way != MR_COPY_OUT));
  if (bytes) assert_true(on_device(from, bytes) == (way != MR_COPY_IN));
  seen.in += way == MR_COPY_IN, seen.out += way == MR_COPY_OUT;
  seen.within += way == MR_COPY_WITHIN;
  unlock();
  if (bytes) memcpy(to, from, bytes);
  lock();
}

/* A call of the CPU's, and what it keeps. */
typedef struct kernel {
  void (*run)(const mr_call_t *c);
  void *state;
  void (*fini)(void *state);
} kernel_t;

/* Graphs inside are run by the host, which may not touch a device's memory. */
static void twin_run(const mr_call_t *c) {
  const kernel_t *k = c->state;
  mr_call_t own = *c;
  own.state = k->state;
  seen.runs++;
  if (c->scratch_bytes) assert_int_equal((uintptr_t)c->scratch % twin.align, 0);
  if (c->scratch_bytes) assert_true(on_device(c->scratch, c->scratch_bytes));
  if (!c->n_inner) unlock();
  k->run(&own);
  if (!c->n_inner) lock();
}

static void twin_fini(void *state) {
  kernel_t *k = state;
  if (k->fini) k->fini(k->state);
  free(k);
}

static mr_err_t twin_lower(mr_call_t *c, mr_diag_t *diag) {
  assert_ptr_equal(c->device, &twin_device);
  seen.lowered++;
  if (seen.refused && !strcmp(c->eqn->op->name, seen.refused))
    return mr_fail(diag, MR_ERR_NORULE, "%sthe twin has no kernel for it",
                   seen.named ? seen.named : "");
  MR_TRY(mr_device_default()->backend->compile->lower(c, diag));
  kernel_t *k = malloc(sizeof *k);
  assert_non_null(k);
  *k = (kernel_t){c->run, c->state, c->fini};
  c->run = twin_run, c->state = k, c->fini = twin_fini;
  return MR_OK;
}

static int twin_begin(const mr_device_t *d, int threads, bool pin) {
  seen.begins++;
  return mr_device_default()->backend->team->begin(mr_device_default(), threads, pin);
}

static void twin_end(const mr_device_t *d, int before) {
  seen.ends++;
  mr_device_default()->backend->team->end(mr_device_default(), before);
}

static int nothing_is_left(void **state) {
  for (int i = 0; i < RANGES; i++)
    if (range[i].data) fail_msg("%zu bytes are not given back", range[i].asked);
  assert_int_equal(unlocked, 0);
  return 0;
}

static int begin_anew(void **state) {
  memset(&seen, 0, sizeof seen);
  seen.room = (size_t)1 << 40;
  return 0;
}

/* ---- runs ---- */
static void *to_device(const void *host, size_t bytes) {
  void *p = twin_take(&twin_device, bytes);
  twin_copy(&twin_device, p, host, bytes, MR_COPY_IN);
  return p;
}

/* f on both backends: the same bits. */
static void same_on_both(const char *what, const mr_fn_t *f, void *const *in) {
  mr_diag_t diag = {0};
  mr_exec_t *x[2];
  void *device_in[MR_SAMPLE_IN], *out[2][GRID_MAX], *device_out[GRID_MAX];
  mr_compile_options_t o = {.device = &twin_device};
  if (mr_compile(f, NULL, &x[0], &diag) < 0) fail_msg("%s: %s", what, diag.text);
  if (mr_compile(f, &o, &x[1], &diag) < 0) fail_msg("%s: %s", what, diag.text);
  assert_ptr_equal(mr_exec_device(x[1]), &twin_device);
  for (int i = 0; i < f->n_in; i++) device_in[i] = to_device(in[i], mr_aval_bytes(&f->in[i]->aval));
  for (int i = 0; i < f->n_out; i++) {
    size_t n = mr_aval_bytes(&f->out[i]->aval);
    out[0][i] = grid_bytes(n), out[1][i] = grid_bytes(n);
    device_out[i] = twin_take(&twin_device, n);
  }
  for (int round = 0; round < 2; round++) { /* what is bound stays bound */
    mr_exec_run(x[0], (const void *const *)in, out[0]);
    mr_exec_run(x[1], (const void *const *)device_in, device_out);
  }
  for (int i = 0; i < f->n_out; i++) {
    size_t n = mr_aval_bytes(&f->out[i]->aval);
    twin_copy(&twin_device, out[1][i], device_out[i], n, MR_COPY_OUT);
    if (memcmp(out[0][i], out[1][i], n)) fail_msg("%s: output %d differs", what, i);
    twin_give(&twin_device, device_out[i], n);
    free(out[0][i]), free(out[1][i]);
  }
  for (int i = 0; i < f->n_in; i++)
    twin_give(&twin_device, device_in[i], mr_aval_bytes(&f->in[i]->aval));
  mr_exec_destroy(x[0]);
  mr_exec_destroy(x[1]);
}

static void every_op_gives_the_same_bits_on_a_device(void **state) {
  for (int i = 0; i < mr_n_ops; i++)
    for (int k = 0;; k++) {
      mr_sample_t s = {.f = mr_fn_create()};
      void *in[MR_SAMPLE_IN] = {0};
      bool there = mr_ops[i]->sample(mr_ops[i], &s, k);
      for (int j = 0; there && j < s.f->n_in; j++) {
        const mr_aval_t *a = &s.f->in[j]->aval;
        in[j] = grid_bytes(mr_aval_bytes(a));
        for (int64_t n = 0; n < mr_aval_elems(a); n++)
          mr_set_f64(a->dtype, in[j], n, random_in(s.lo[j], s.hi[j]));
      }
      if (there) same_on_both(mr_ops[i]->name, s.f, in);
      for (int j = 0; there && j < s.f->n_in; j++) free(in[j]);
      mr_fn_destroy(s.f);
      if (!there) break;
    }
  assert_true(seen.lowered && seen.runs && seen.within && seen.in && seen.out);
  assert_int_equal(seen.begins, seen.ends);
}

/* sum of tanh(x)^2 + 3 */
static mr_fn_t *some_function(void) {
  mr_fn_t *f = mr_fn_create();
  mr_var_t *x = mr_fn_input(f, mr_aval_of(MR_F32, 32, 32)), *y = mr_lax_tanh(f, x);
  y = mr_lax_dot(f, y, y);
  y = mr_lax_add(f, mr_lax_reduce_sum(f, y, 2, (int[]){0, 1}), mr_literal(f, MR_F32, 3));
  assert_int_equal(mr_fn_return(f, 1, &y), MR_OK);
  return f;
}

static void a_refusal_and_too_little_memory_are_reported(void **state) {
  mr_fn_t *f = some_function();
  mr_compile_options_t o = {.device = &twin_device, .skip = "fuse"};
  mr_exec_t *x = NULL;
  mr_diag_t diag[3] = {{0}};
  seen.refused = "tanh";
  assert_int_equal(mr_compile(f, &o, &x, &diag[0]), MR_ERR_NORULE);
  assert_string_equal(diag[0].text, "tanh: the twin has no kernel for it");
  seen.refused = NULL;
  seen.fail_take = seen.takes + 1;
  assert_int_equal(mr_compile(f, &o, &x, &diag[1]), MR_ERR_NOMEM);
  assert_non_null(strstr(diag[1].text, "the planned peak is"));
  seen.fail_take = 0;
  mr_fn_t *large = mr_fn_create();
  mr_var_t *v = mr_fn_input(large, mr_aval_of(MR_F32, 8192, 8192));
  v = mr_lax_rev(large, mr_lax_rev(large, v, 1, (int[]){0}), 1, (int[]){1});
  assert_int_equal(mr_fn_return(large, 1, &v), MR_OK);
  seen.room = (size_t)100 << 20;
  assert_int_equal(mr_compile(large, &o, &x, &diag[2]), MR_ERR_NOMEM);
  assert_non_null(strstr(diag[2].text, "this process may have 104857600"));
  mr_fn_destroy(large);
  mr_fn_destroy(f);
}

/* A rule may name scope and op, the op alone, or neither: both are said, once. */
static void a_refusal_names_scope_and_op_whatever_the_rule_says(void **state) {
  static const char *const named[] = {"block/mlp: tanh: ", "tanh: ", ""};
  mr_fn_t *f = mr_fn_create();
  mr_var_t *x = mr_fn_input(f, mr_aval_of(MR_F32, 4));
  const char *outer = mr_scope_enter(f, "block/mlp");
  mr_var_t *y = mr_lax_tanh(f, x);
  mr_scope_leave(f, outer);
  assert_int_equal(mr_fn_return(f, 1, &y), MR_OK);
  mr_compile_options_t o = {.device = &twin_device, .skip = "fuse"};
  seen.refused = "tanh";
  for (int i = 0; i < 3; i++) {
    mr_diag_t diag = {0};
    mr_exec_t *exec = NULL;
    seen.named = named[i];
    assert_int_equal(mr_compile(f, &o, &exec, &diag), MR_ERR_NORULE);
    assert_string_equal(diag.text, "block/mlp: tanh: the twin has no kernel for it");
  }
  seen.refused = seen.named = NULL;
  mr_fn_destroy(f);
}

static void a_nan_is_found_and_an_arena_measured_through_copies(void **state) {
  mr_fn_t *f = mr_fn_create();
  mr_var_t *x = mr_fn_input(f, mr_aval_of(MR_F32, 3000));
  mr_var_t *y = mr_lax_rev(f, mr_lax_log(f, x), 1, (int[]){0});
  assert_int_equal(mr_fn_return(f, 1, &y), MR_OK);
  mr_compile_options_t o = {.device = &twin_device, .skip = "fuse"};
  mr_exec_t *e = NULL;
  mr_diag_t diag = {0};
  float host[3000];
  for (int i = 0; i < 3000; i++) host[i] = 1 + (float)i;
  if (mr_compile(f, &o, &e, &diag) < 0) fail_msg("%s", diag.text);
  void *in = to_device(host, sizeof host), *out = twin_take(&twin_device, sizeof host);
  mr_exec_check_nans(e, true);
  mr_exec_run(e, (const void *[]){in}, (void *[]){out});
  assert_null(mr_exec_nan(e));
  assert_int_equal(mr_exec_touched(e, (const void *[]){in}, (void *[]){out}),
                   mr_exec_peak_bytes(e));
  host[2500] = -1;
  twin_copy(&twin_device, in, host, sizeof host, MR_COPY_IN);
  mr_exec_run(e, (const void *[]){in}, (void *[]){out});
  assert_string_equal(mr_exec_nan(e)->op->name, "log");
  twin_give(&twin_device, in, sizeof host);
  twin_give(&twin_device, out, sizeof host);
  mr_exec_destroy(e);
  mr_fn_destroy(f);
}

/* ---- arrays ---- */
static void the_host_reads_a_devices_array_through_a_copy_alone(void **state) {
  mr_diag_t diag = {0};
  float x[5] = {1, 2, 3, 4, 5}, y[5] = {0};
  mr_array_t *a = mr_array_on(&twin_device, mr_aval_of(MR_F32, 5), x, &diag), *b, *c, *d;
  const void *data = NULL;
  assert_non_null(a);
  assert_ptr_equal(mr_array_device(a), &twin_device);
  assert_int_equal(mr_array_data(a, &data, &diag), MR_ERR_CONFIG);
  assert_string_equal(diag.text,
                      "an array of f32[5] lies on device twin, which the host cannot "
                      "read in place; mr_array_read copies it");
  assert_int_equal(mr_array_read(a, y, &diag), MR_OK);
  assert_memory_equal(x, y, sizeof x);
  b = mr_array_to(a, NULL, &diag); /* the default */
  assert_int_equal(mr_array_data(b, &data, &diag), MR_OK);
  assert_memory_equal(data, x, sizeof x);
  c = mr_array_to(b, &twin_device, &diag);
  assert_true(c && c != a && mr_array_device(c) == &twin_device);
  d = mr_array_to(c, &twin_device, &diag);
  assert_ptr_equal(d, c); /* it is there already */
  mr_array_drop(a), mr_array_drop(b), mr_array_drop(c), mr_array_drop(d);
}

static mr_err_t shifted(mr_fn_t *f, void *arg) {
  mr_var_t *y = mr_lax_add(f, f->in[0], mr_literal(f, MR_F32, 2));
  return mr_fn_return(f, 1, &y);
}

static void a_jitted_function_runs_where_its_arrays_lie(void **state) {
  mr_diag_t diag = {0};
  mr_queue_t *q = NULL;
  mr_jitted_t *j = NULL;
  mr_jitted_options_t o = {.device = &twin_device};
  float x[3] = {1, 2, 3}, y[3] = {0};
  assert_int_equal(mr_queue_create(&q, &diag), MR_OK);
  assert_int_equal(mr_jitted_create(q, "shifted", shifted, NULL, &o, &j, &diag), MR_OK);
  mr_array_t *there = mr_array_on(&twin_device, mr_aval_of(MR_F32, 3), x, &diag), *out = NULL;
  mr_array_t *here = mr_array_of(mr_aval_of(MR_F32, 3), x, &diag);
  assert_int_equal(mr_jitted_call(j, 1, &here, 1, &out, &diag), MR_ERR_CONFIG);
  assert_string_equal(diag.text,
                      "jit of shifted: argument 0, f32[3], lies on device cpu, and it "
                      "runs on twin; mr_array_to copies");
  diag = (mr_diag_t){0};
  if (mr_jitted_call(j, 1, &there, 1, &out, &diag) < 0) fail_msg("%s", diag.text);
  assert_ptr_equal(mr_array_device(out), &twin_device);
  assert_int_equal(mr_array_read(out, y, &diag), MR_OK);
  for (int i = 0; i < 3; i++) assert_true(y[i] == x[i] + 2);
  mr_array_drop(there), mr_array_drop(here), mr_array_drop(out);
  mr_jitted_destroy(j);
  mr_queue_destroy(q);
}

static void released(void *arg) { ++*(int *)arg; }

static void an_array_over_other_memory_releases_it_once(void **state) {
  mr_diag_t diag = {0};
  int times = 0;
  _Alignas(64) float x[32] = {7};
  assert_null(mr_array_over(NULL, mr_aval_of(MR_F32, 4), x + 1, released, &times, &diag));
  assert_string_equal(diag.text,
                      "an array of f32[4] over other memory: device cpu wants it aligned to 64");
  mr_array_t *a = mr_array_over(NULL, mr_aval_of(MR_F32, 32), x, released, &times, &diag);
  const void *data = NULL;
  assert_int_equal(mr_array_data(a, &data, &diag), MR_OK);
  assert_ptr_equal(data, x); /* no copy */
  mr_array_t *b = mr_array_to(a, &twin_device, &diag);
  mr_array_drop(mr_array_keep(a));
  assert_int_equal(times, 0);
  mr_array_drop(a);
  assert_int_equal(times, 1);
  mr_array_drop(b);
  assert_int_equal(times, 1);
}

static void a_backend_is_found_by_name(void **state) {
  assert_ptr_equal(mr_backend_find("cpu"), mr_device_default()->backend);
  assert_null(mr_backend_find("tpu"));
  for (int i = 0; mr_backends[i]; i++) {
    size_t align = mr_backends[i]->align;
    assert_true(align >= 64 && !(align & (align - 1)));
  }
}

#define ANEW(test) cmocka_unit_test_setup_teardown(test, begin_anew, nothing_is_left)

int main(void) {
  twin = *mr_device_default()->backend;
  static mr_memory_ops_t memory;
  static mr_compile_ops_t compile;
  static mr_team_ops_t team;
  memory = *twin.memory, compile = *twin.compile, team = *twin.team;
  twin.name = "twin", twin.align = 256, twin.host = false;
  twin.memory = &memory, twin.compile = &compile, twin.team = &team;
  memory.take = twin_take, memory.give = twin_give, memory.room = twin_room;
  memory.copy = twin_copy, compile.lower = twin_lower;
  team.begin = twin_begin, team.end = twin_end;
  const struct CMUnitTest tests[] = {
      ANEW(a_refusal_and_too_little_memory_are_reported),
      ANEW(a_refusal_names_scope_and_op_whatever_the_rule_says),
      ANEW(every_op_gives_the_same_bits_on_a_device),
      ANEW(a_nan_is_found_and_an_arena_measured_through_copies),
      ANEW(the_host_reads_a_devices_array_through_a_copy_alone),
      ANEW(a_jitted_function_runs_where_its_arrays_lie),
      ANEW(an_array_over_other_memory_releases_it_once),
      ANEW(a_backend_is_found_by_name),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
