/* A program of one's own that loads plug-ins (hardswish and cutout, named as arguments) and uses
   them: the op in a function that it reads, differentiates, maps and compiles, the stage in a
   graph. */
#include <math.h>
#include <millrace.h>
#include <stdio.h>

enum { N = 4, ROWS = 3 };

static const char energy[] =
    "{ lambda ; a:f32[4]. let b:f32[4] = hardswish a\n c:f32[4] = mul b b\n"
    " d:f32[] = reduce_sum[axes=(0,)] c in (d,) }";

static int fail(const char *what, const mr_diag_t *diag) {
  fprintf(stderr, "host: %s: %s\n", what, diag->text);
  return 1;
}

static double hardswish(double x) { return x <= -3 ? 0 : x >= 3 ? x : x * (x + 3) / 6; }
static double slope(double x) { return x <= -3 ? 0 : x >= 3 ? 1 : (2 * x + 3) / 6; }

/* The gradient of sum(hardswish(x)^2), for each row at once. */
static int op(void) {
  _Alignas(64) float x[ROWS * N] = {-4, -2, -1, 0, 1, 2, 2.5f, 4, .5f, -.5f, 5, -5};
  _Alignas(64) float value[ROWS], grad[ROWS * N];
  mr_diag_t diag = {0};
  mr_fn_t *f = NULL, *g = NULL, *rows = NULL;
  mr_exec_t *run = NULL;
  if (mr_fn_parse(energy, &f, &diag) < 0) return fail("parse", &diag);
  if (mr_value_and_grad(f, 1, (int[]){0}, &g, &diag) < 0) return fail("gradient", &diag);
  if (mr_vmap(g, ROWS, NULL, NULL, &rows, &diag) < 0) return fail("vmap", &diag);
  if (mr_compile(rows, NULL, &run, &diag) < 0) return fail("compile", &diag);
  mr_exec_run(run, (const void *[]){x}, (void *[]){value, grad});
  for (int i = 0; i < ROWS * N; i++) {
    double want = 2 * hardswish((double)x[i]) * slope((double)x[i]);
    if (fabs((double)grad[i] - want) <= 1e-5) continue;
    fprintf(stderr, "host: slope at %g: %g, want %g\n", (double)x[i], (double)grad[i], want);
    return 1;
  }
  mr_exec_destroy(run);
  mr_fn_destroy(rows), mr_fn_destroy(g), mr_fn_destroy(f);
  return 0;
}

static int stage(const mr_registry_t *reg) {
  mr_diag_t diag = {0};
  mr_graph_t *g = mr_graph_create(reg);
  if (mr_graph_parse(g, "synthetic n=64 ! shuffle seed=1 ! cutout 8 ! batch 16 ! null", NULL, 0,
                     &diag) < 0)
    return fail("graph", &diag);
  if (mr_graph_run(g, &diag) < 0) return fail("run", &diag);
  mr_graph_destroy(g);
  return 0;
}

int main(int argc, char **argv) {
  static mr_registry_t reg;
  mr_diag_t diag = {0};
  mr_registry_add(&reg, mr_loaders_stages);
  mr_registry_add(&reg, mr_stages_stages);
  mr_registry_add(&reg, mr_sinks_stages);
  for (int i = 1; i < argc; i++)
    if (mr_plugin_load(argv[i], &reg, &diag) < 0) return fail(argv[i], &diag);
  if (op() || stage(&reg)) return 1;
  printf("host: %d plug-ins loaded and run\n", mr_plugin_count());
  return 0;
}
