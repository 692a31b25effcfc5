/* A fused loop that continues past sums of its rows: layer normalization, softmax, cross-entropy
   and their backward passes, each as one kernel.

   The loop runs in passes over a row.  Pass p computes what depends on sums of the passes before it
   alone, and folds what it computes for pass p + 1; the last one stores the results, so that every
   operand has been read when a result is written over it.  Between passes, values that a row has
   once are computed by every item of the row.

   A short row is computed by one item, which folds it element by element.  Else a work-group
   computes one row: item `lane` has the elements lane, lane + width, ...; it folds its own in this
   order, and the items' folds are then folded in blocks.  So the order depends on the length of a
   row and the number of folds alone.  An element that a later pass needs again is kept by its item,
   if there is room, and computed again if not.

   Sums of columns beside those of rows, as the gradients of a normalization's scale and bias are:
   a group computes several rows, some at a time, and an item adds what its elements have in all of
   them.  What a group's items have of a column is added and left as one part, and a second kernel
   folds the parts (parts.c).  The rows of a group depend on the number of rows alone. */
#include <inttypes.h>
#include <stdlib.h>

#include "model/backends/kernels/fused.h"
#include "model/ops/lax.h"

enum {
  ROWS_LONG = 2048,       /* elements of a long row */
  ROWS_FEW = 16,          /* rows that are too few for a group each, if they are long */
  SHORT = 32,             /* elements of a row that one item computes */
  EACH_MAX = 16,          /* elements of an item of a group that are kept at most, of one value */
  KEPT_MAX = 64,          /* elements of an item that are kept at most, of all values */
  UNROLL_MAX = 16,        /* elements of an item up to which its loop is unrolled */
  SLOTS_MAX = 24,         /* folds of one pass of a large group: 32 KiB of its memory hold them */
  COLUMN_GROUPS = 1024,   /* of a loop with sums of columns, about */
  SHARED_BYTES = 32 << 10 /* of a group */
};

/* One group would be slower than all groups together on a few sums in parts. */
bool mr_kernels_rows(int64_t n, int64_t each) { return each < ROWS_LONG || n >= ROWS_FEW; }

typedef struct rows {
  const mr_fused_loop_t *l;
  int width;         /* items of a row */
  int at_once;       /* rows that a group computes at a time */
  int64_t turns;     /* and how many times it does; more than 1 with sums of columns alone */
  int64_t each;      /* elements of an item, the last ones perhaps past the row's end */
  int passes;        /* pass [0,passes) */
  int slots;         /* folds of one pass at most */
  int draws;         /* dropouts whose draws the items of a row share */
  int *pass;         /* by var id: the first pass that can compute it */
  int *done;         /* by var id: the pass that has computed it, -1: none so far */
  bool *kept, *need; /* by var id: kept by its item from pass to pass; needed in the pass at hand */
  bool ahead;        /* an item has loaded all that the pass reads before it computes */
} rows_t;

static int64_t elems_of(const mr_var_t *v) { return mr_aval_elems(&v->aval); }

/* Whether the loop has a value of v for each element, and not for each row. */
static bool is_element(const rows_t *r, const mr_var_t *v) {
  return !v->literal && elems_of(v) == r->l->n;
}

static bool folds_columns_of(const mr_eqn_t *e) {
  return mr__fused_unit(e).kind == MR_UNIT_COLUMNS;
}

static bool folds_row(const mr_eqn_t *e) { return mr__fused_unit(e).kind == MR_UNIT_REDUCE; }

/* Broadcasts, reshapes and counters are computed wherever they are read. */
static bool is_free(const mr_var_t *v) {
  if (!v->def) return false;
  mr_unit_kind_t kind = mr__fused_unit(v->def).kind;
  return kind == MR_UNIT_REPEAT || kind == MR_UNIT_INDEX || kind == MR_UNIT_SAME;
}

static void rows_find_passes(rows_t *r) {
  const mr_fn_t *b = r->l->body;
  for (int i = 0; i < b->n_eqn; i++) {
    const mr_eqn_t *e = b->eqn[i];
    int p = 0;
    for (int k = 0; k < e->n_in; k++)
      if (!e->in[k]->literal && r->pass[e->in[k]->id] > p) p = r->pass[e->in[k]->id];
    r->pass[e->out[0]->id] = p + folds_row(e);
    if (p + folds_row(e) >= r->passes) r->passes = p + folds_row(e) + 1;
  }
}

/* The number of fold j among those of its pass: what a group folds in turn shares memory. */
static int slot_of(const rows_t *r, int j) {
  const mr_fused_loop_t *l = r->l;
  int slot = 0;
  for (int i = 0; i < j; i++)
    slot += r->pass[l->fold[i]->in[0]->id] == r->pass[l->fold[j]->in[0]->id];
  return slot;
}

/* ---- what a pass computes ---- */

/* Marks v and what it is computed from, up to values that an earlier pass has computed, which are
   kept from now on if `keep`. */
static void rows_mark(rows_t *r, const mr_var_t *v, int pass, bool keep) {
  if (!is_element(r, v) || r->need[v->id]) return;
  r->need[v->id] = true;
  if (keep && r->done[v->id] >= 0 && r->done[v->id] < pass && !is_free(v)) {
    r->kept[v->id] = true;
    return;
  }
  r->done[v->id] = pass;
  for (int k = 0; v->def && k < v->def->n_in; k++) rows_mark(r, v->def->in[k], pass, keep);
}

/* Marks what pass p needs; returns whether that is anything. */
static bool rows_need(rows_t *r, int p, bool keep) {
  const mr_fused_loop_t *l = r->l;
  bool any = false;
  for (int i = 0; i < l->body->n_var; i++) r->need[i] = false;
  for (int j = 0; j < l->n_fold; j++)
    if (r->pass[l->fold[j]->in[0]->id] == p) rows_mark(r, l->fold[j]->in[0], p, keep), any = true;
  if (p < r->passes - 1) return any;
  for (int k = 0; k < l->body->n_out; k++)
    if (is_element(r, l->body->out[k])) rows_mark(r, l->body->out[k], p, keep), any = true;
  for (int j = 0; j < l->n_column; j++) rows_mark(r, l->column[j]->in[0], p, keep), any = true;
  return any;
}

static void rows_forget(rows_t *r) {
  for (int i = 0; i < r->l->body->n_var; i++) r->done[i] = -1;
}

/* Decides what is kept: all that several passes need, or nothing where that is too much. */
static bool rows_choose_kept(rows_t *r) {
  int64_t n = 0;
  rows_forget(r);
  for (int p = 0; p < r->passes; p++) rows_need(r, p, true);
  for (int i = 0; i < r->l->body->n_var; i++) n += r->kept[i];
  bool fits = r->each <= (r->width > 1 ? EACH_MAX : SHORT) && n * r->each <= KEPT_MAX;
  for (int i = 0; i < r->l->body->n_var && !fits; i++) r->kept[i] = false;
  rows_forget(r);
  return fits;
}

/* ---- the text of one row ---- */

static void write_kept_arrays(FILE *f, const rows_t *r) {
  const mr_fn_t *b = r->l->body;
  for (int k = 0; k < b->n_in; k++)
    if (r->kept[b->in[k]->id])
      fprintf(f, "  %s w%d[%" PRId64 "];\n", mr__kernel_type(b->in[k]->aval.dtype), b->in[k]->id,
              r->each);
  for (int i = 0; i < b->n_eqn; i++) {
    const mr_var_t *v = b->eqn[i]->out[0];
    if (r->kept[v->id])
      fprintf(f, "  %s w%d[%" PRId64 "];\n", mr__kernel_type(v->aval.dtype), v->id, r->each);
  }
}

/* Declares v as what its item has kept; or keeps it, if this pass computes it. */
static bool write_from_kept(FILE *f, const rows_t *r, const mr_var_t *v, int p) {
  if (!r->kept[v->id] || r->done[v->id] == p) return false;
  fprintf(f, "  %s v%d = w%d[j];\n", mr__kernel_type(v->aval.dtype), v->id, v->id);
  return true;
}

static void write_keep(FILE *f, const rows_t *r, const mr_var_t *v) {
  if (r->kept[v->id]) fprintf(f, "  w%d[j] = v%d;\n", v->id, v->id);
}

/* Whether the items of a row share the draws of dropout e, of which each makes eight. */
static bool shares_draws(const rows_t *r, const mr_eqn_t *e) {
  return r->draws && is_element(r, e->out[0]) && mr__fused_draws(r->l, e);
}

static mr_err_t write_member(FILE *f, const rows_t *r, const mr_eqn_t *e, mr_diag_t *diag) {
  if (!shares_draws(r, e)) return mr__fused_member(f, r->l, e, "i", diag);
  char draw[96];
  snprintf(draw, sizeof draw, "(draw%d[first / %d * %" PRId64 " + k / 2] >> k %% 2 * 16 & 0xFFFFu)",
           e->out[0]->id, r->width, r->l->terms / 2);
  mr__fused_dropped(f, e, draw);
  return MR_OK;
}

/* Makes the draws of a row. */
static void write_draws(FILE *f, const rows_t *r) {
  const mr_fused_loop_t *l = r->l;
  char eight[64];
  if (!r->draws) return;
  if (r->turns > 1) fputs("  BARRIER;\n", f); /* the row before has read its own */
  for (int i = 0; i < l->body->n_eqn; i++) {
    const mr_eqn_t *e = l->body->eqn[i];
    if (!shares_draws(r, e)) continue;
    fprintf(f, "  for (int b = lane; b < %" PRId64 "; b += %d) {\n  u32 w[4];", l->terms / 8,
            r->width);
    snprintf(eight, sizeof eight, "row * %" PRId64 " + (u64)b", l->terms / 8);
    mr__fused_draw(f, e, "w", eight);
    fprintf(f,
            "  for (int q = 0; q < 4; q++) draw%d[first / %d * %" PRId64
            " + b * 4 + q] = w[q];\n"
            "  }\n",
            e->out[0]->id, r->width, l->terms / 2);
  }
  fputs("  BARRIER;\n", f);
}

/* Whether v is read from an operand of the kernel. */
static bool is_read_from_operand(const rows_t *r, const mr_var_t *v) {
  const mr_fn_t *b = r->l->body;
  if (!v->def) return mr__fused_input(b, v) >= 0;
  return mr__fused_unit(v->def).kind == MR_UNIT_REPEAT && mr__fused_input(b, v->def->in[0]) >= 0;
}

/* The next value that pass p loads, from number *at on, inputs first; NULL: no more. */
static const mr_var_t *next_load(const rows_t *r, int p, int *at) {
  const mr_fn_t *b = r->l->body;
  while (*at < b->n_in + b->n_eqn) {
    int i = (*at)++;
    const mr_var_t *v = i < b->n_in ? b->in[i] : b->eqn[i - b->n_in]->out[0];
    bool from_kept = r->kept[v->id] && r->done[v->id] != p;
    if (r->need[v->id] && is_read_from_operand(r, v) && !from_kept) return v;
  }
  return NULL;
}

/* Declares v as what its item has loaded before, if it has. */
static bool write_from_loaded(FILE *f, const rows_t *r, const mr_var_t *v) {
  if (!r->ahead || !is_read_from_operand(r, v)) return false;
  fprintf(f, "  %s v%d = l%d[j];\n", mr__kernel_type(v->aval.dtype), v->id, v->id);
  return true;
}

static mr_err_t write_needed(FILE *f, const rows_t *r, int p, mr_diag_t *diag) {
  const mr_fn_t *b = r->l->body;
  for (int k = 0; k < b->n_in; k++) {
    const mr_var_t *v = b->in[k];
    if (!r->need[v->id] || write_from_kept(f, r, v, p)) continue;
    if (!write_from_loaded(f, r, v)) mr__fused_load(f, r->l, v, k, "i");
    write_keep(f, r, v);
  }
  for (int i = 0; i < b->n_eqn; i++) {
    const mr_var_t *v = b->eqn[i]->out[0];
    if (!r->need[v->id] || write_from_kept(f, r, v, p)) continue;
    if (!write_from_loaded(f, r, v)) MR_TRY(write_member(f, r, b->eqn[i], diag));
    write_keep(f, r, v);
  }
  return MR_OK;
}

static void write_stores(FILE *f, const rows_t *r, bool whole, const char *at) {
  const mr_fn_t *b = r->l->body;
  char pointer[16], name[MR_KERNEL_NAME];
  for (int k = 0; k < b->n_out; k++) {
    if (is_element(r, b->out[k]) != whole) continue;
    if (b->out[k]->def && folds_columns_of(b->out[k]->def)) continue;
    snprintf(pointer, sizeof pointer, "y%d", k);
    mr__fused_name(b->out[k], name);
    mr__kernel_store(f, b->out[k]->aval.dtype, pointer, at, name);
  }
}

/* Adds the elements at hand to the sums of their columns. */
static void write_column_steps(FILE *f, const rows_t *r) {
  char name[MR_KERNEL_NAME], to[24];
  for (int j = 0; j < r->l->n_column; j++) {
    mr__fused_name(r->l->column[j]->in[0], name);
    snprintf(to, sizeof to, "c%d[j]", j);
    mr__fused_step(f, r->l->column[j], to, name);
  }
}

/* Begins a loop over the elements of an item. */
static void begin_elements(FILE *f, const rows_t *r) {
  if (r->each <= UNROLL_MAX) fputs("#pragma unroll\n", f);
  fprintf(f, "  for (int j = 0; j < %" PRId64 "; j++) {\n  i64 k = (i64)j", r->each);
  if (r->width > 1) fprintf(f, " * %d + lane", r->width);
  fputs(";\n", f);
  if (r->each * r->width != r->l->terms) fprintf(f, "  if (k < %" PRId64 ") {\n", r->l->terms);
  fprintf(f, "  u64 i = row * %" PRId64 " + (u64)k;\n", r->l->terms);
}

static void end_elements(FILE *f, const rows_t *r) {
  fputs(r->each * r->width != r->l->terms ? "  }}\n" : "  }\n", f);
}

/* Loads what the last pass reads for all elements of an item before it stores the first one: a
   compiler may not move a load over a store, which might be to the same address, and the loads
   would wait for one another. */
static mr_err_t write_loads(FILE *f, rows_t *r, int p, mr_diag_t *diag) {
  const mr_fn_t *b = r->l->body;
  int64_t n = 0;
  const mr_var_t *v;
  for (int at = 0; next_load(r, p, &at);) n++;
  r->ahead = n && r->each > 1 && r->each <= UNROLL_MAX && n * r->each <= KEPT_MAX;
  if (!r->ahead) return MR_OK;
  for (int at = 0; (v = next_load(r, p, &at));)
    fprintf(f, "  %s l%d[%" PRId64 "];\n", mr__kernel_type(v->aval.dtype), v->id, r->each);
  begin_elements(f, r);
  for (int at = 0; (v = next_load(r, p, &at));) {
    if (v->def)
      MR_TRY(mr__fused_member(f, r->l, v->def, "i", diag));
    else
      mr__fused_load(f, r->l, v, mr__fused_input(b, v), "i");
    fprintf(f, "  l%d[j] = v%d;\n", v->id, v->id);
  }
  end_elements(f, r);
  return MR_OK;
}

/* Pass p over the elements of one item. */
static mr_err_t write_pass(FILE *f, rows_t *r, int p, bool keep, mr_diag_t *diag) {
  const mr_fused_loop_t *l = r->l;
  char name[MR_KERNEL_NAME], to[16];
  if (!rows_need(r, p, keep)) return MR_OK;
  for (int j = 0; j < l->n_fold; j++)
    if (r->pass[l->fold[j]->in[0]->id] == p)
      fprintf(f, "  float r%d = %s;\n", j, mr__fused_fold(l->fold[j]).start);
  r->ahead = false;
  if (p == r->passes - 1) MR_TRY(write_loads(f, r, p, diag));
  begin_elements(f, r);
  MR_TRY(write_needed(f, r, p, diag));
  for (int j = 0; j < l->n_fold; j++) {
    if (r->pass[l->fold[j]->in[0]->id] != p) continue;
    mr__fused_name(l->fold[j]->in[0], name);
    snprintf(to, sizeof to, "r%d", j);
    mr__fused_step(f, l->fold[j], to, name);
  }
  if (p == r->passes - 1) {
    if (r->l->n_column) fputs("  if (there) {\n", f);
    write_stores(f, r, true, "i");
    write_column_steps(f, r);
    if (r->l->n_column) fputs("  }\n", f);
  }
  end_elements(f, r);
  return MR_OK;
}

/* ---- folds of the items of a group ---- */

static int block_of(int width) { return width > 64 ? 16 : 8; }

/* The items' folds of pass p become all<j>, the same for every item: blocks of neighbours first.
   Memory that an earlier pass has used is free: each item has read it before the first barrier. */
static void write_group_folds(FILE *f, const rows_t *r, int p) {
  const mr_fused_loop_t *l = r->l;
  int block = block_of(r->width), blocks = r->width / block;
  for (int j = 0; j < l->n_fold; j++)
    if (r->pass[l->fold[j]->in[0]->id] == p)
      fprintf(f, "  part%d[LANE] = r%d;\n", slot_of(r, j), j);
  fprintf(f, "  BARRIER;\n  if (lane < %d) {\n", blocks);
  for (int j = 0; j < l->n_fold; j++) {
    if (r->pass[l->fold[j]->in[0]->id] != p) continue;
    fprintf(f,
            "  { float r = part%d[first + lane * %d]; for (int q = 1; q < %d; q++) { float v = "
            "part%d[first + lane * %d + q]; %s } fold%d[first / %d + lane] = r; }\n",
            slot_of(r, j), block, block, slot_of(r, j), block, mr__fused_fold(l->fold[j]).step,
            slot_of(r, j), block);
  }
  fputs("  }\n  BARRIER;\n", f);
  for (int j = 0; j < l->n_fold; j++) {
    if (r->pass[l->fold[j]->in[0]->id] != p) continue;
    fprintf(
        f,
        "  float all%d; { float r = fold%d[first / %d]; for (int q = 1; q < %d; q++) { float v = "
        "fold%d[first / %d + q]; %s } all%d = r; }\n",
        j, slot_of(r, j), block, blocks, slot_of(r, j), block, mr__fused_fold(l->fold[j]).step, j);
  }
}

/* What the folds of pass p give, rounded as an array would hold it. */
static void write_folded(FILE *f, const rows_t *r, int p) {
  const mr_fused_loop_t *l = r->l;
  if (r->width > 1) write_group_folds(f, r, p);
  for (int j = 0; j < l->n_fold; j++) {
    const mr_var_t *v = l->fold[j]->out[0];
    char name[MR_KERNEL_NAME];
    if (r->pass[l->fold[j]->in[0]->id] != p) continue;
    snprintf(name, sizeof name, "%s%d", r->width > 1 ? "all" : "r", j);
    fprintf(f, "  float v%d = ", v->id);
    mr__kernel_round(f, v->aval.dtype, name);
    fputs(";\n", f);
  }
}

/* Values that a row has once, which depend on folds of the passes before p. */
static mr_err_t write_row_values(FILE *f, const rows_t *r, int p, mr_diag_t *diag) {
  const mr_fn_t *b = r->l->body;
  for (int i = 0; i < b->n_eqn; i++) {
    const mr_eqn_t *e = b->eqn[i];
    if (is_element(r, e->out[0]) || folds_row(e) || folds_columns_of(e)) continue;
    if (r->pass[e->out[0]->id] != p) continue;
    MR_TRY(mr__fused_member(f, r->l, e, "row", diag));
  }
  return MR_OK;
}

/* Whether v is read otherwise than by broadcasts, which read its memory. */
static bool is_read(const mr_fn_t *b, const mr_var_t *v) {
  for (int i = 0; i < b->n_eqn; i++)
    for (int k = 0; k < b->eqn[i]->n_in; k++)
      if (b->eqn[i]->in[k] == v && mr__fused_unit(b->eqn[i]).kind != MR_UNIT_REPEAT) return true;
  return false;
}

/* Operands that a row reads once: those of one element, and those of one for each row. */
static void write_row_operands(FILE *f, const rows_t *r) {
  const mr_fn_t *b = r->l->body;
  for (int k = 0; k < b->n_in; k++) {
    int64_t n = elems_of(b->in[k]);
    if (n == r->l->n || (n != 1 && n != r->l->outputs) || !is_read(b, b->in[k])) continue;
    mr__fused_load(f, r->l, b->in[k], k, n == 1 ? "0" : "row");
  }
}

static mr_err_t write_one_row(FILE *f, rows_t *r, bool keep, mr_diag_t *diag) {
  write_kept_arrays(f, r);
  write_row_operands(f, r);
  write_draws(f, r);
  for (int p = 0; p < r->passes; p++) {
    if (p) write_folded(f, r, p - 1);
    MR_TRY(write_row_values(f, r, p, diag));
    MR_TRY(write_pass(f, r, p, keep, diag));
  }
  const char *once = r->l->n_column ? "lane == 0 && there" : "lane == 0";
  if (r->width > 1 || r->l->n_column) fprintf(f, "  if (%s) {\n", once);
  write_stores(f, r, false, "row");
  if (r->width > 1 || r->l->n_column) fputs("  }\n", f);
  return MR_OK;
}

/* ---- sums of columns ---- */

/* The rows of a group, or of an item if one computes a row.  Past the last row it computes that one
   again, and leaves the results alone, since the items of a group meet at barriers. */
static mr_err_t write_row_turns(FILE *f, rows_t *r, const char *which, bool keep, mr_diag_t *diag) {
  const mr_fused_loop_t *l = r->l;
  for (int j = 0; j < l->n_column; j++)
    fprintf(f, "  float c%d[%" PRId64 "]; for (int j = 0; j < %" PRId64 "; j++) c%d[j] = %s;\n", j,
            r->each, r->each, j, mr__fused_fold(l->column[j]).start);
  fprintf(f, "  for (int turn = 0; turn < %" PRId64 "; turn++) {\n", r->turns);
  fprintf(f, "  u64 row = ((u64)%s * %" PRId64 " + (u64)turn) * %d", which, r->turns, r->at_once);
  if (r->at_once > 1) fprintf(f, " + (u64)(first / %d)", r->width);
  fprintf(f, ";\n  int there = row < %" PRId64 ";\n  if (!there) row = %" PRId64 ";\n", l->outputs,
          l->outputs - 1);
  MR_TRY(write_one_row(f, r, keep, diag));
  fputs("  }\n", f);
  return MR_OK;
}

/* Leaves sum j of each column as part `which`: those of the rows at once are added first. */
static void write_column_parts(FILE *f, const rows_t *r, const char *which, int64_t parts) {
  const mr_fused_loop_t *l = r->l;
  char to[24];
  for (int j = 0; j < l->n_column; j++) {
    if (r->at_once > 1) {
      fprintf(f,
              "  BARRIER;\n  for (int j = 0; j < %" PRId64 "; j++) sums[j * %d + LANE] = c%d[j];\n",
              r->each, r->width * r->at_once, j);
      fprintf(f, "  BARRIER;\n  if (first == 0)\n");
    }
    fprintf(f, "  for (int j = 0; j < %" PRId64 "; j++) {\n  i64 k = (i64)j * %d + lane;\n",
            r->each, r->width);
    fprintf(f, "  if (k < %" PRId64 ") {\n", l->terms);
    if (r->at_once > 1) {
      fprintf(f, "  for (int q = 1; q < %d; q++) {", r->at_once);
      snprintf(to, sizeof to, "c%d[j]", j);
      char from[64];
      snprintf(from, sizeof from, "sums[j * %d + q * %d + lane]", r->width * r->at_once, r->width);
      mr__fused_step(f, l->column[j], to, from);
      fputs("  }\n", f);
    }
    fprintf(f, "  s[(%s + %" PRId64 ") * %" PRId64 " + k] = c%d[j];\n  }}\n", which, j * parts,
            l->terms, j);
  }
}

static mr_err_t write_column_folds(const rows_t *r, int64_t parts, mr_diag_t *diag) {
  const mr_fused_loop_t *l = r->l;
  mr_kernel_part_t of[MR_FUSED_FOLDS];
  for (int j = 0; j < l->n_column; j++)
    of[j] = (mr_kernel_part_t){mr__fused_fold(l->column[j]),
                               mr__fused_result(l->body, l->column[j]->out[0])};
  return mr__kernel_fold_parts(l->t, l->terms, parts, of, l->n_column, diag);
}

/* Words that a row shares but for its sums of columns: two folds at most for each item and slot. */
static int64_t words_of_row(const rows_t *r) {
  return (int64_t)2 * r->slots * r->width + r->draws * r->l->terms / 2;
}

/* Draws are shared where eight elements of a row share them, and there is memory. */
static void count_draws(rows_t *r) {
  const mr_fused_loop_t *l = r->l;
  if (r->width == 1 || l->terms % 8) return;
  for (int i = 0; i < l->body->n_eqn; i++)
    r->draws += is_element(r, l->body->eqn[i]->out[0]) && mr__fused_draws(l, l->body->eqn[i]);
  if (words_of_row(r) * (int64_t)sizeof(float) > SHARED_BYTES) r->draws = 0;
}

/* How many rows a group has at a time, and how many turns; returns the number of groups. */
static int64_t share_rows(rows_t *r) {
  const mr_fused_loop_t *l = r->l;
  r->at_once = r->turns = 1;
  if (!l->n_column) return l->outputs;
  r->at_once = r->width > 1 ? MR_KERNEL_GROUP / r->width : 1;
  int64_t of_a_row = (r->each * r->width + words_of_row(r)) * (int64_t)sizeof(float);
  while (r->at_once > 1 && of_a_row * r->at_once > SHARED_BYTES) r->at_once /= 2;
  while (r->at_once > 1 && r->at_once > l->outputs) r->at_once /= 2;
  int64_t rows = (l->outputs + r->at_once - 1) / r->at_once;
  r->turns = (rows + COLUMN_GROUPS - 1) / COLUMN_GROUPS;
  return (rows + r->turns - 1) / r->turns;
}

/* ---- the kernel ---- */

/* Items of a group for a row: few for short rows, so that few are idle in its last elements. */
static int width_of(int64_t terms) {
  return terms <= SHORT ? 1 : terms <= 128 ? 32 : terms <= 512 ? 64 : terms <= 1024 ? 128 : 256;
}

/* Begins the kernel: `lane` is the item's number in its row, `first` that of the row's first item
   in the group. */
static mr_err_t rows_begin(const rows_t *r, int64_t groups, mr_diag_t *diag) {
  const mr_fused_loop_t *l = r->l;
  mr_kernel_text_t *t = l->t;
  int items = r->width * r->at_once;
  char form[MR_KERNEL_FORM];
  if (r->width == 1) {
    snprintf(form, sizeof form, "row of %" PRId64 ": one item", l->terms);
    MR_TRY(mr__kernel_begin(t, groups, diag));
    if (l->n_column) fputs("  int lane = 0;\n", t->f);
  } else {
    snprintf(form, sizeof form, "row of %" PRId64 ": %d items", l->terms, r->width);
    MR_TRY(mr__kernel_begin_groups(t, groups, items, diag));
    for (int j = 0; j < r->slots; j++)
      fprintf(t->f, "  LOCAL(float, part%d, %d); LOCAL(float, fold%d, %d);\n", j, items, j,
              items / block_of(r->width));
    if (r->at_once > 1) fprintf(t->f, "  LOCAL(float, sums, %" PRId64 ");\n", r->each * items);
    for (int i = 0; i < l->body->n_eqn; i++)
      if (shares_draws(r, l->body->eqn[i]))
        fprintf(t->f, "  LOCAL(u32, draw%d, %" PRId64 ");\n", l->body->eqn[i]->out[0]->id,
                l->terms / 2 * r->at_once);
    fprintf(t->f, "  int lane = LANE %% %d, first = LANE - lane;\n", r->width);
  }
  mr__kernel_form(t, form);
  return MR_OK;
}

static mr_err_t rows_write(rows_t *r, mr_diag_t *diag) {
  const mr_fused_loop_t *l = r->l;
  mr_kernel_text_t *t = l->t;
  for (int j = 0; j < l->n_fold; j++)
    if (slot_of(r, j) >= r->slots) r->slots = slot_of(r, j) + 1;
  if (r->slots > SLOTS_MAX && r->width > 64) r->width = 64;
  r->each = (l->terms + r->width - 1) / r->width;
  bool keep = rows_choose_kept(r);
  count_draws(r);
  int64_t groups = share_rows(r);
  const char *which = r->width > 1 ? "(i64)GROUP" : "(i64)i";
  if (l->n_column) {
    t->scratch_t = MR_F32;
    t->out->scratch_bytes = (size_t)(groups * l->terms * l->n_column) * sizeof(float);
  }
  MR_TRY(rows_begin(r, groups, diag));
  mr_err_t err = MR_OK;
  if (l->n_column) {
    err = write_row_turns(t->f, r, which, keep, diag);
    write_column_parts(t->f, r, which, groups);
  } else {
    fprintf(t->f, "  u64 row = %s;\n", r->width > 1 ? "GROUP" : "i");
    err = write_one_row(t->f, r, keep, diag);
  }
  mr_err_t end = mr__kernel_end(t, diag);
  if (err < 0 || end < 0) return err < 0 ? err : end;
  return l->n_column ? write_column_folds(r, groups, diag) : MR_OK;
}

mr_err_t mr__fused_rows(const mr_fused_loop_t *l, mr_diag_t *diag) {
  size_t n = (size_t)l->body->n_var + 1;
  rows_t r = {.l = l, .width = width_of(l->terms), .passes = 1};
  r.pass = calloc(2 * n, sizeof *r.pass), r.kept = calloc(2 * n, sizeof *r.kept);
  r.done = r.pass + n, r.need = r.kept + n;
  mr_err_t e = MR_ERR_NOMEM;
  if (r.pass && r.kept) {
    rows_find_passes(&r);
    e = rows_write(&r, diag);
  } else {
    mr_no_memory(diag, "the kernel of %s", l->t->e->op->name);
  }
  free(r.pass), free(r.kept);
  return e;
}
