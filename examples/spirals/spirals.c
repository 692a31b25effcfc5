/* An MLP tells two spirals apart: a loss is traced, an optimizer put around it, the step compiled
   and run.  Writes spirals.svg: the points and, behind them, what the network makes of each place.

   cc spirals.c $(pkg-config --cflags --libs millrace) -o spirals && ./spirals */
#include <math.h>
#include <millrace.h>
#include <stdio.h>
#include <stdlib.h>

enum { N = 400, GRID = 96, STEPS = 1500 }; /* points, cells a side, steps */

/* x f32[n,2], labels i32[n], parameters... -> mean loss, logits f32[n,2] */
static mr_fn_t *mlp(int n, mr_params_t *params) {
  mr_fn_t *f = mr_fn_create();
  mr_var_t *x = mr_fn_input(f, mr_aval_of(MR_F32, n, 2));
  mr_var_t *labels = mr_fn_input(f, mr_aval_of(MR_I32, n));
  mr_nn_t nn = {.f = f, .params = params};
  mr_var_t *h = mr_lax_tanh(f, mr_nn_linear(&nn, "one", x, 32));
  h = mr_lax_tanh(f, mr_nn_linear(&nn, "two", h, 32));
  mr_var_t *logits = mr_nn_linear(&nn, "three", h, 2);
  mr_var_t *losses = mr_lax_softmax_cross_entropy(f, logits, labels, 0);
  mr_var_t *loss = mr_lax_scale(f, 1.0 / n, mr_lax_reduce_sum(f, losses, 1, (int[]){0}));
  mr_fn_return(f, 2, (mr_var_t *[]){loss, logits});
  return f;
}

static void fail(const mr_diag_t *diag) {
  fprintf(stderr, "spirals: %s\n", diag->text);
  exit(1);
}

static void draw(const float *x, const int *label, const float *logits) {
  FILE *out = fopen("spirals.svg", "w");
  if (!out) return perror("spirals.svg");
  fprintf(out, "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 %d %d'>\n", GRID, GRID);
  for (int i = 0; i < GRID * GRID; i++) {
    double p = 1 / (1 + exp(logits[2 * i] - logits[2 * i + 1])); /* of the second spiral */
    fprintf(out, "<rect x='%d' y='%d' width='1.1' height='1.1' fill='rgb(%.0f,%.0f,%.0f)'/>\n",
            i % GRID, i / GRID, 200 + 55 * p, 215.0, 255 - 55 * p);
  }
  for (int i = 0; i < N; i++)
    fprintf(out, "<circle cx='%.2f' cy='%.2f' r='.7' fill='%s'/>\n", (x[2 * i] + 1.2) * GRID / 2.4,
            (x[2 * i + 1] + 1.2) * GRID / 2.4, label[i] ? "#b35806" : "#2166ac");
  fputs("</svg>\n", out);
  fclose(out);
}

int main(void) {
  static _Alignas(64) float x[2 * N], logits[2 * N], cell[2 * GRID * GRID], seen[2 * GRID * GRID];
  static _Alignas(64) int label[N], none[GRID * GRID];
  for (int i = 0; i < N; i++) { /* two arms, half a turn apart */
    double r = .1 + .9 * (i / 2) / (N / 2), a = 9 * r + 3.14159265 * (i % 2);
    x[2 * i] = (float)(r * cos(a)), x[2 * i + 1] = (float)(r * sin(a)), label[i] = i % 2;
  }
  for (int i = 0; i < GRID * GRID; i++)
    cell[2 * i] = 2.4f * (i % GRID + .5f) / GRID - 1.2f,
             cell[2 * i + 1] = 2.4f * (i / GRID + .5f) / GRID - 1.2f;

  mr_diag_t diag = {0};
  mr_params_t params = {0}, same = {0};
  mr_optim_t adam = mr_optim_of("adam");
  mr_fn_t *loss_fn = mlp(N, &params), *look_fn = mlp(GRID * GRID, &same), *step_fn;
  mr_exec_t *step, *look;
  mr_optim_loss_t whole = {.n_data = 2, .parts = 1, .part = (const mr_fn_t *[]){loss_fn}};
  mr_compile_options_t in_place = {.in_place = 3 * 6}; /* parameters and both moments */
  if (mr_params_alloc(&params, &diag) < 0 || mr_optim_step_fn(&whole, &adam, &step_fn, &diag) < 0 ||
      mr_compile(step_fn, &in_place, &step, &diag) < 0 ||
      mr_compile(look_fn, NULL, &look, &diag) < 0 || mr_params_init(&params, 12, &diag) < 0)
    fail(&diag);

  float loss, norm, lr = 3e-3f, t;
  const void *in[4 + 3 * 6] = {x, label, &lr, &t}, *look_in[2 + 6] = {cell, none};
  void *out[3 + 3 * 6] = {&loss, logits, &norm};
  for (int i = 0; i < 3 * params.n; i++) {
    int slot = i / params.n - 1; /* -1: the values; then both moments */
    float *set =
        mr_params_f32(&params, slot < 0 ? MR_SET_VALUES : MR_SET_SLOT, slot < 0 ? 0 : slot);
    in[4 + i] = out[3 + i] = set + params.param[i % params.n].offset;
    if (i < params.n) look_in[2 + i] = in[4 + i];
  }
  for (int s = 1; s <= STEPS; s++) {
    t = (float)s;
    mr_exec_run(step, in, out);
    if (s % 250 == 0) printf("step %4d  loss %.4f\n", s, (double)loss);
  }
  mr_exec_run(look, look_in, (void *[]){&norm, seen});
  draw(x, label, seen);
  int right = 0;
  for (int i = 0; i < N; i++) right += (logits[2 * i + 1] > logits[2 * i]) == label[i];
  printf("%d of %d points right; see spirals.svg\n", right, N);
  return right < N * 95 / 100;
}
