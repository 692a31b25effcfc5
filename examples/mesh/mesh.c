/* Functions on a mesh of four ranks, threads of this process: one written for the parts that a rank
   has, with collectives over the axes by name; one written for whole arrays and cut; and an array
   that changes how it lies.

   cc mesh.c $(pkg-config --cflags --libs millrace) -pthread -o mesh && ./mesh */
#include <millrace.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { RANKS = 4, ROWS = 4, WIDE = 6 };

static mr_diag_t diag;
static mr_mesh_t mesh;

static void need(mr_err_t e) {
  if (e >= 0) return;
  fprintf(stderr, "mesh: %s\n", diag.text);
  exit(1);
}

static mr_placement_t placed(int ndim, const char *text) {
  mr_placement_t p;
  need(mr_placement_parse("placement", text, &mesh, ndim, &p, &diag));
  return p;
}

static void show(const char *name, const float *x, int rows, int wide) {
  printf("%s\n", name);
  for (int i = 0; i < rows * wide; i++) printf("%8.2f%s", (double)x[i], (i + 1) % wide ? "" : "\n");
}

/* For the parts: what a rank has, minus what its neighbour along "data" has, over the largest value
   along "model". */
static mr_fn_t *on_parts(void) {
  mr_fn_t *f = mr_fn_create();
  mr_var_t *x = mr_fn_input(f, mr_aval_of(MR_F32, ROWS / 2, WIDE / 2));
  mr_var_t *next = mr_lax_ppermute(f, x, "data", 2, (const int[][2]){{0, 1}, {1, 0}});
  mr_var_t *y = mr_lax_div(f, mr_lax_sub(f, x, next), mr_lax_pmax(f, x, "model"));
  if (mr_fn_return(f, 1, &y) < 0) diag = f->diag, need(diag.code);
  return f;
}

/* For whole arrays: the sums of the columns; mr_partition finds out that ranks must add. */
static mr_fn_t *on_whole_arrays(void) {
  mr_fn_t *f = mr_fn_create();
  mr_var_t *x = mr_fn_input(f, mr_aval_of(MR_F32, ROWS, WIDE));
  mr_var_t *y = mr_lax_reduce_sum(f, x, 1, (int[]){0});
  if (mr_fn_return(f, 1, &y) < 0) diag = f->diag, need(diag.code);
  return f;
}

static void run(const mr_fn_t *f, const mr_placement_t *in, const mr_placement_t *out,
                const float *x, float *y) {
  mr_shard_mapped_t *m = NULL;
  int rank;
  need(mr_shard_map(f, &mesh, in, out, NULL, &m, &diag));
  mr_shard_mapped_run(m, (const void *[]){x}, (void *[]){y});
  need(mr_shard_mapped_failed(m, &rank, &diag));
  mr_shard_mapped_destroy(m);
}

/* Each rank has a term of a sum, its own number, and wants a row of the sum. */
static void *reshard(void *arg) {
  int rank = *(int *)arg;
  const mr_placement_t terms = placed(2, "[P,P]"), rows = placed(2, "((data,model),None)");
  const mr_aval_t whole = mr_aval_of(MR_F32, ROWS, 2);
  float own[ROWS * 2], row[2];
  mr_mesh_comm_t *comm = NULL;
  mr_array_t *part, *out = NULL;
  for (int i = 0; i < ROWS * 2; i++) own[i] = (float)(rank * 10 + i);
  need(mr_mesh_comm_create(&mr_collect_threads, mr_device_default(), &mesh, "reshard", rank, 60,
                           &comm, &diag));
  if (!(part = mr_array_of(whole, own, &diag))) need(diag.code);
  need(mr_array_reshard(comm, &mesh, &whole, part, &terms, &rows, &out, &diag));
  need(mr_array_read(out, row, &diag));
  static float all[ROWS][2];
  all[rank][0] = row[0], all[rank][1] = row[1];
  mr_array_drop(part), mr_array_drop(out);
  mr_mesh_comm_destroy(comm);
  return all;
}

int main(void) {
  _Alignas(64) float x[ROWS * WIDE], y[ROWS * WIDE], sums[WIDE];
  for (int i = 0; i < ROWS * WIDE; i++) x[i] = (float)(i + 1);
  need(mr_mesh_parse("data=2,model=2", RANKS, &mesh, &diag));
  const mr_placement_t both = placed(2, "(data,model)"), columns = placed(1, "(model)");

  mr_fn_t *parts = on_parts(), *arrays = on_whole_arrays(), *local = NULL;
  run(parts, &both, &both, x, y);
  show("parts less their neighbour's", y, ROWS, WIDE);

  need(mr_partition(arrays, &mesh, &both, &columns, &local, &diag));
  run(local, &both, &columns, x, sums);
  show("sums of columns", sums, 1, WIDE);

  pthread_t thread[RANKS];
  int rank[RANKS];
  void *all = NULL;
  for (int r = 0; r < RANKS; r++) rank[r] = r, pthread_create(&thread[r], NULL, reshard, &rank[r]);
  for (int r = 0; r < RANKS; r++) pthread_join(thread[r], &all);
  show("terms of a sum, then a row of it a rank", all, ROWS, 2);

  mr_fn_destroy(parts), mr_fn_destroy(arrays), mr_fn_destroy(local);
  return 0;
}
