/* Checks a table of settings against the state that its rows point into.  A row whose value would
   end outside the state is a mistake of a stage's or model's author, a plug-in's perhaps;
   registration refuses it before a setting is written there. */
#include "base/opt.h"

#include <stdint.h>

static size_t value_bytes(mr_opt_type_t type) {
  switch (type) {
    case MR_OPT_END: break;
    case MR_OPT_INT: return sizeof(int64_t);
    case MR_OPT_F64: return sizeof(double);
    case MR_OPT_BOOL: return sizeof(bool);
    case MR_OPT_STR:
    case MR_OPT_SECRET: return sizeof(char *);
    case MR_OPT_ENUM: return sizeof(int);
    case MR_OPT_RANGE: return sizeof(double[2]);
    case MR_OPT_VEC3: return sizeof(double[3]);
    case MR_OPT_VEC: return sizeof(mr_vec_t);
  }
  return SIZE_MAX; /* fits nowhere */
}

bool mr_opt_fits(const mr_opt_t *opt, size_t state_sz) {
  size_t bytes = value_bytes(opt->type);
  return opt->offset <= state_sz && bytes <= state_sz - opt->offset;
}
