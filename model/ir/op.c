/* What ops have in common: the sentence of a shape rule that refuses an equation (scope, op, the
   avals of the operands, the reason, and the attributes with numbers), which all rules write
   through one function, so that a user reads the same form from every op; and which equations stay
   for other ranks. */
#include "model/ir/op.h"

bool mr_eqn_is_awaited(const mr_eqn_t *e) { return e->op->collective && mr_attr_find(e, MR_TURN); }

/* Writes " (axes=(1,))": sizes, axes and dimension numbers, which the operands' avals do not
   show. */
static void list_numbers(const mr_eqn_t *e, FILE *to) {
  int n = 0;
  for (int i = 0; i < e->n_attr; i++) {
    const mr_attr_t *a = &e->attr[i];
    bool says =
        a->kind == MR_ATTR_INT || a->kind == MR_ATTR_DOT || (a->kind == MR_ATTR_INTS && a->n);
    if (!says) continue;
    fputs(n++ ? " " : " (", to);
    mr_attr_print(a, to);
  }
  if (n) fputc(')', to);
}

mr_err_t mr_shape_fail(const mr_eqn_t *e, mr_diag_t *diag, const char *why) {
  char list[512] = "", numbers[256] = "", text[MR_AVAL_TEXT];
  size_t at = 0;
  for (int i = 0; i < e->n_in && at < sizeof list; i++)
    at += (size_t)snprintf(list + at, sizeof list - at, " %s", mr_aval_text(&e->in[i]->aval, text));
  FILE *to = fmemopen(numbers, sizeof numbers, "w");
  if (to) list_numbers(e, to), fclose(to);
  return mr_fail(diag, MR_ERR_SHAPE, "%s%s%s%s: %s%s", e->scope, *e->scope ? ": " : "", e->op->name,
                 list, why, numbers);
}
