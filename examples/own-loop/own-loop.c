/* A loop of one's own over the batches of a graph: what they hold, and where to resume. */
#include <millrace.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
  const char *graph = argc > 1 ? argv[1] : "synthetic n=256 ! shuffle seed=1 ! batch 64";
  static mr_loader_settings_t settings; /* zeros: the usual ones */
  settings.state = argc > 2 ? argv[2] : NULL;
  mr_loader_t *loader;
  const mr_batch_t *batch;
  char *state = NULL;
  mr_diag_t why = {MR_OK, ""};
  mr_err_t e = mr_loader_open(graph, &settings, &loader, &why);
  while (e >= 0 && (e = mr_loader_next(loader, &batch, &why)) == MR_OK)
    printf("step %lld: %d records of %s and %d fields\n", (long long)batch->step, batch->n,
           batch->field[0].name, batch->n_fields);
  if (e == MR_END) e = mr_loader_state(loader, &state, &why);
  mr_loader_close(loader);
  if (e < 0) return fprintf(stderr, "own-loop: %s\n", why.text), 1;
  puts(state);
  free(state);
  return 0;
}
