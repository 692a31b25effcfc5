/* Which parameter lies how on a mesh: rules "PATTERN=PLACEMENT, PATTERN=PLACEMENT" by name, such as
   "*.linear1.kernel=(None,model), *.linear2.kernel=(model,None)". */
#ifndef MR_MODEL_MESH_PLACEMENT_RULES_H
#define MR_MODEL_MESH_PLACEMENT_RULES_H

#include "base/err.h"
#include "model/mesh/placement.h"

MR_BEGIN_DECLS

enum { MR_PLACEMENT_RULES = 256 };

typedef struct mr_placement_rules {
  int n;      /* rules, at most MR_PLACEMENT_RULES */
  char *text; /* heap; the rules point into it */
  struct mr_placement_rule {
    const char *pattern, *placement; /* '*' is any text, '?' any character */
  } rule[MR_PLACEMENT_RULES];
} mr_placement_rules_t;

/* Cuts text into rules at the commas outside of brackets; NULL and "" have no rules.  The
   placements are not parsed, since that needs the dimensions of a parameter.  The caller ends *r
   with mr_placement_rules_fini, also after a failure: MR_ERR_CONFIG names the rule that is not
   PATTERN=PLACEMENT, or whose brackets do not close; MR_ERR_NOMEM. */
mr_err_t mr_placement_rules_parse(const char *text, mr_placement_rules_t *r, mr_diag_t *diag);
void mr_placement_rules_fini(mr_placement_rules_t *r); /* zeroed is fine */

/* MR_OK if each pattern is of one of the n names at least.  Else MR_ERR_CONFIG: the pattern and the
   nearest names. */
mr_err_t mr_placement_rules_check(const mr_placement_rules_t *r, const char *const *name, int n,
                                  mr_diag_t *diag);

/* Sets *p to the placement of the first rule whose pattern is of this name, of an array with the
   sizes dim[ndim]; without one it is whole everywhere.  Failures of mr_placement_parse and
   mr_placement_fits, whose sentences begin with the name. */
mr_err_t mr_placement_rules_place(const mr_placement_rules_t *r, const mr_mesh_t *m,
                                  const char *name, int ndim, const int64_t *dim, mr_placement_t *p,
                                  mr_diag_t *diag);

MR_END_DECLS

#endif
