/* A loop over several tensors (transforms/join.c) as one kernel: neighbouring work-items compute
   neighbouring elements of a tensor, and the tensors follow one another.

   The body is written once, for pointers that the items of each tensor set to its arguments before:
   the text grows by a few assignments for each tensor, and compiles as fast as a loop over one. */
#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

#include "model/backends/kernels/fused.h"
#include "model/ir/op.h"

typedef struct tensors {
  mr_kernel_text_t *t;
  const mr_fn_t *body;
  int n, eqns, outs; /* loops; equations and results of each */
  int reads;         /* operands of each */
  int *in;           /* [n * reads]: number of operand r of loop j at j * reads + r */
  int64_t *first;    /* [n + 1]: the first work-item of loop j; in [n] how many there are */
} tensors_t;

/* Sets in[] to the operands of loop j, in the order in which it reads them first, and returns how
   many there are. */
static int find_operands(const tensors_t *s, int j, int *in) {
  int n = 0;
  for (int i = j * s->eqns; i < (j + 1) * s->eqns; i++)
    for (int k = 0; k < s->body->eqn[i]->n_in; k++) {
      int of = mr__fused_input(s->body, s->body->eqn[i]->in[k]), at = 0;
      while (of >= 0 && at < n && in[at] != of) at++;
      if (of >= 0 && at == n) in[n++] = of;
    }
  return n;
}

static mr_err_t tensors_find(tensors_t *s, mr_diag_t *diag) {
  s->in = calloc((size_t)s->n * (size_t)s->body->n_in + 1, sizeof *s->in);
  s->first = calloc((size_t)s->n + 1, sizeof *s->first);
  if (!s->in || !s->first) return mr_no_memory(diag, "the kernel of %s", s->t->e->op->name);
  s->reads = find_operands(s, 0, s->in);
  for (int j = 0; j < s->n; j++) {
    int n = find_operands(s, j, s->in + j * s->reads);
    assert(n == s->reads); /* loops are alike (transforms/join.c) */
    (void)n;
    s->first[j + 1] = s->first[j] + mr_aval_elems(&s->body->out[j * s->outs]->aval);
  }
  return MR_OK;
}

static const char *read_type(const tensors_t *s, int r) {
  return mr__kernel_held(s->body->in[s->in[r]]->aval.dtype);
}

static const char *write_type(const tensors_t *s, int k) {
  return mr__kernel_held(s->body->out[k]->aval.dtype);
}

/* Declares pointers to the operands and results of an item's loop.  They are no arguments, because
   a loop may read the operands of the first one in other places: an argument that is set to another
   one would be lost to those that are set later. */
static void declare_pointers(FILE *f, const tensors_t *s) {
  for (int r = 0; r < s->reads; r++) fprintf(f, "  SPACE %s *p%d;", read_type(s, r), r);
  for (int k = 0; k < s->outs; k++) fprintf(f, "  SPACE %s *q%d;", write_type(s, k), k);
  fputc('\n', f);
}

/* Begins a block in which the names of the first loop's arguments are those pointers. */
static void begin_body(FILE *f, const tensors_t *s) {
  fputs("  {", f);
  for (int r = 0; r < s->reads; r++)
    fprintf(f, " SPACE %s *x%d = p%d;", read_type(s, r), s->in[r], r);
  for (int k = 0; k < s->outs; k++) fprintf(f, " SPACE %s *y%d = q%d;", write_type(s, k), k, k);
  fputc('\n', f);
}

/* Sets the pointers and the element's number to those of loop j. */
static void write_pointers(FILE *f, const tensors_t *s, int j) {
  for (int r = 0; r < s->reads; r++) fprintf(f, " p%d = x%d;", r, s->in[j * s->reads + r]);
  for (int k = 0; k < s->outs; k++) fprintf(f, " q%d = y%d;", k, j * s->outs + k);
  if (j) fprintf(f, " i -= %" PRId64 ";", s->first[j]);
}

/* Finds the loop of item i among [from,to), by halves. */
static void write_choice(FILE *f, const tensors_t *s, int from, int to) {
  int half = from + (to - from) / 2;
  if (to - from == 1) {
    write_pointers(f, s, from);
    return;
  }
  fprintf(f, "  if (i < %" PRId64 ") {", s->first[half]);
  write_choice(f, s, from, half);
  fputs(" } else {", f);
  write_choice(f, s, half, to);
  fputs(" }\n", f);
}

static mr_err_t tensors_write_body(FILE *f, const tensors_t *s, mr_diag_t *diag) {
  mr_fused_loop_t l = {.t = s->t, .body = s->body, .n = s->first[1]};
  char pointer[16], name[MR_KERNEL_NAME];
  for (int r = 0; r < s->reads; r++) {
    const mr_var_t *v = s->body->in[s->in[r]];
    mr__fused_load(f, &l, v, s->in[r], mr_aval_elems(&v->aval) == 1 ? "0" : "i");
  }
  for (int i = 0; i < s->eqns; i++) MR_TRY(mr__fused_member(f, &l, s->body->eqn[i], "i", diag));
  for (int k = 0; k < s->outs; k++) {
    snprintf(pointer, sizeof pointer, "y%d", k);
    mr__fused_name(s->body->out[k], name);
    mr__kernel_store(f, s->body->out[k]->aval.dtype, pointer, "i", name);
  }
  return MR_OK;
}

static mr_err_t tensors_write(const tensors_t *s, mr_diag_t *diag) {
  char form[MR_KERNEL_FORM];
  MR_TRY(mr__kernel_begin(s->t, s->first[s->n], diag));
  snprintf(form, sizeof form, "elementwise over %d tensors", s->n);
  mr__kernel_form(s->t, form);
  declare_pointers(s->t->f, s);
  write_choice(s->t->f, s, 0, s->n);
  begin_body(s->t->f, s);
  mr_err_t err = tensors_write_body(s->t->f, s, diag);
  fputs("  }\n", s->t->f);
  mr_err_t end = mr__kernel_end(s->t, diag);
  return err < 0 ? err : end;
}

mr_err_t mr__fused_tensors(mr_kernel_text_t *t, mr_diag_t *diag) {
  tensors_t s = {.t = t, .body = mr_attr_called(t->e, "jaxpr")};
  s.n = (int)mr_attr_get(t->e, "tensors")->i[0];
  s.eqns = s.body->n_eqn / s.n, s.outs = s.body->n_out / s.n;
  mr_err_t e = tensors_find(&s, diag);
  if (e >= 0) e = tensors_write(&s, diag);
  free(s.in), free(s.first);
  return e;
}
