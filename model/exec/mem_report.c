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
    mem_report_add(r, x, seen, x->plan.of_kept[i], e, -1);
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

/* What painting needs on the host: an arena may take most of a machine's memory. */
enum { CHUNK = 1 << 20 };
typedef struct painting {
  unsigned char *chunk;    /* [CHUNK] */
  unsigned char *literals; /* which a run expects in place, one after the other */
} painting_t;

/* Copies the literals between the arena and p->literals; to the arena if `back`. */
static void mem_report_literals(mr_exec_t *x, const painting_t *p, bool back) {
  char *arena = x->arena;
  unsigned char *at = p->literals;
  for (int i = 0; i < x->plan.n_block; i++) {
    const mr_block_t *b = &x->plan.block[i];
    if (b->place != MR_BLOCK_ARENA || !b->pinned) continue;
    if (back)
      mr_device_copy(x->device, arena + b->offset, at, b->bytes, MR_COPY_IN);
    else
      mr_device_copy(x->device, at, arena + b->offset, b->bytes, MR_COPY_OUT);
    at += b->bytes;
  }
}

static size_t mem_report_literal_bytes(const mr_exec_t *x) {
  size_t n = 0;
  for (int i = 0; i < x->plan.n_block; i++) {
    const mr_block_t *b = &x->plan.block[i];
    if (b->place == MR_BLOCK_ARENA && b->pinned) n += b->bytes;
  }
  return n;
}

/* Fills the arena with color, except for the literals. */
static void mem_report_paint(mr_exec_t *x, unsigned char color, const painting_t *p) {
  char *arena = x->arena;
  memset(p->chunk, color, CHUNK);
  for (size_t at = 0; at < x->plan.bytes; at += CHUNK) {
    size_t n = x->plan.bytes - at < CHUNK ? x->plan.bytes - at : CHUNK;
    mr_device_copy(x->device, arena + at, p->chunk, n, MR_COPY_IN);
  }
  mem_report_literals(x, p, true);
}

/* The bytes up to the last one that is not of that color. */
static size_t touched_after(const mr_exec_t *x, unsigned char color, const painting_t *p) {
  const char *arena = x->arena;
  for (size_t end = x->plan.bytes; end;) {
    size_t from = (end - 1) / CHUNK * CHUNK, n = end - from;
    mr_device_copy(x->device, p->chunk, arena + from, n, MR_COPY_OUT);
    while (n && p->chunk[n - 1] == color) n--;
    if (n) return from + n;
    end = from;
  }
  return 0;
}

size_t mr_exec_touched(mr_exec_t *x, const void *const *in, void *const *out) {
  painting_t p = {malloc(CHUNK), malloc(mem_report_literal_bytes(x) + 1)};
  size_t most = 0;
  if (p.chunk && p.literals) {
    mem_report_literals(x, &p, false);
    for (int i = 0; i < 2; i++) {
      unsigned char color = i ? 0x5A : 0xA5;
      mem_report_paint(x, color, &p);
      mr_exec_run(x, in, out);
      size_t end = touched_after(x, color, &p);
      if (end > most) most = end;
    }
  }
  free(p.chunk);
  free(p.literals);
  return most;
}
