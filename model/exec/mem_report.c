/* Blocks of the memory plan as rows, with the peak and the blocks alive there, and a measurement:
   the arena is painted before a run, and the last byte that changed shows how much of it the run
   really wrote. */
#include "model/exec/mem_report.h"

#include <stdlib.h>
#include <string.h>

#include "model/exec/exec_private.h"

static void mem_report_add(mr_mem_report_t *r, const mr_exec_t *x, bool *seen, int block,
                           const mr_eqn_t *e, int out) {
  const mr_block_t *b = block < 0 ? NULL : &x->plan.block[block];
  if (!b || seen[block] || b->place != MR_BLOCK_ARENA) return;
  seen[block] = true;
  r->row[r->n_row++] = (mr_mem_row_t){e, out, b->bytes, b->offset, b->first, b->last};
}

static void mem_report_collect(mr_mem_report_t *r, const mr_exec_t *x, bool *seen) {
  const mr_fn_t *f = x->fn;
  for (int i = 0; i < f->n_eqn; i++) {
    const mr_eqn_t *e = f->eqn[i];
    for (int k = 0; k < e->n_in; k++)
      if (e->in[k]->literal) mem_report_add(r, x, seen, x->plan.of_var[e->in[k]->id], NULL, 0);
    for (int k = 0; k < e->n_out; k++)
      mem_report_add(r, x, seen, x->plan.of_var[e->out[k]->id], e, k);
    mem_report_add(r, x, seen, x->plan.of_scratch[i], e, -1);
  }
  for (int i = 0; i < f->n_out; i++)
    if (f->out[i]->literal) mem_report_add(r, x, seen, x->plan.of_var[f->out[i]->id], NULL, 0);
}

static void mem_report_count(mr_mem_report_t *r) {
  r->peak = r->n_time ? 0 : -1;
  for (int i = 0; i < r->n_row; i++) {
    const mr_mem_row_t *w = &r->row[i];
    for (int k = w->first < 0 ? 0 : w->first; k <= w->last && k < r->n_time; k++)
      r->alive[k] += w->bytes;
  }
  for (int k = 1; k < r->n_time; k++)
    if (r->alive[k] > r->alive[r->peak]) r->peak = k;
}

mr_err_t mr_mem_report_init(mr_mem_report_t *r, const mr_exec_t *x, mr_diag_t *diag) {
  size_t n = (size_t)x->plan.n_block + 1;
  bool *seen = calloc(n, sizeof *seen);
  *r = (mr_mem_report_t){.n_time = x->fn->n_eqn,
                         .row = calloc(n, sizeof *r->row),
                         .alive = calloc((size_t)x->fn->n_eqn + 1, sizeof *r->alive)};
  mr_err_t e = MR_OK;
  if (seen && r->row && r->alive) {
    mem_report_collect(r, x, seen);
    mem_report_count(r);
  } else {
    e = mr_no_memory(diag, "a report of the arena");
  }
  free(seen);
  return e;
}

void mr_mem_report_fini(mr_mem_report_t *r) {
  free(r->row);
  free(r->alive);
  *r = (mr_mem_report_t){0};
}

/* Two copies of the arena on the host: as it was at first, and before or after the present run. */
typedef struct painting {
  unsigned char *before, *now; /* [plan.bytes] */
} painting_t;

/* Fills the arena with color, except for the literals, which a run expects in place. */
static void mem_report_paint(mr_exec_t *x, unsigned char color, const painting_t *p) {
  memset(p->now, color, x->plan.bytes);
  for (int i = 0; i < x->plan.n_block; i++) {
    const mr_block_t *b = &x->plan.block[i];
    if (b->place == MR_BLOCK_ARENA && b->pinned)
      memcpy(p->now + b->offset, p->before + b->offset, b->bytes);
  }
  x->backend->copy(x->arena, p->now, x->plan.bytes, MR_COPY_IN);
}

static size_t touched_after(const mr_exec_t *x, unsigned char color, const painting_t *p) {
  size_t end = x->plan.bytes;
  x->backend->copy(p->now, x->arena, end, MR_COPY_OUT);
  while (end && p->now[end - 1] == color) end--;
  return end;
}

size_t mr_exec_touched(mr_exec_t *x, const void *const *in, void *const *out) {
  painting_t p = {.before = malloc(x->plan.bytes + 1), .now = malloc(x->plan.bytes + 1)};
  size_t most = 0;
  if (p.before && p.now) {
    x->backend->copy(p.before, x->arena, x->plan.bytes, MR_COPY_OUT);
    for (int i = 0; i < 2; i++) {
      unsigned char color = i ? 0x5A : 0xA5;
      mem_report_paint(x, color, &p);
      mr_exec_run(x, in, out);
      size_t end = touched_after(x, color, &p);
      if (end > most) most = end;
    }
  }
  free(p.before);
  free(p.now);
  return most;
}
