/* The settings of a stage or a model: one row holds a setting's name, unit, default, range, help
   and offset. */
#ifndef MR_BASE_OPT_H
#define MR_BASE_OPT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/decls.h"
#include "base/hint.h"

MR_BEGIN_DECLS

typedef enum mr_opt_type {
  MR_OPT_END = 0,
  MR_OPT_INT,    /* int64_t */
  MR_OPT_F64,    /* double */
  MR_OPT_BOOL,   /* bool; the bare word means true */
  MR_OPT_STR,    /* const char *, owned by the graph; NULL when the default is NULL */
  MR_OPT_SECRET, /* as STR; its text is never shown (mr_shown) */
  MR_OPT_ENUM,   /* int: index into choices "hwc|chw" */
  MR_OPT_RANGE,  /* double[2] from "0.9:1.0"; lo <= hi */
  MR_OPT_VEC3,   /* double[3] from "0.49,0.48,0.44" */
  MR_OPT_VEC,    /* mr_vec_t: one to MR_VEC_MAX numbers, "0.5" or "0.49,0.48,0.44" */
} mr_opt_type_t;

enum { MR_VEC_MAX = 4 };

typedef struct mr_vec {
  int n; /* numbers given, in [1,MR_VEC_MAX] */
  double v[MR_VEC_MAX];
} mr_vec_t;

typedef struct mr_opt {
  const char *name;
  mr_opt_type_t type;
  size_t offset;       /* of the value in the state of the stage or model */
  const char *unit;    /* "records", "s", "" */
  const char *def;     /* default, as text; NULL: must be given (STR: NULL value) */
  double lo, hi;       /* range of INT, F64, RANGE, VEC3, VEC, both ends included; lo == hi: any.
                          The default of INT and F64 may lie outside, as -1 for "the usual value"
                          does: it is then taken too, and no other number outside */
  const char *choices; /* ENUM */
  const char *help;    /* one sentence, ends with a period */
  int positional;      /* 1: a bare value, as in `batch 128`, sets this one */
  bool together;       /* NAME=VALUE without a stage sets it in all stages that have it */
  bool length;         /* it only says how long a stream is: a resume may change it */
  const char *hint;    /* other frameworks' words for it, which take the same values: words of a
                          row as in base/hint.h; NULL: none */
  const mr_hint_t *values; /* ENUM: other frameworks' words for its choices; of a row whose `write`
                              is no choice of it only the `why` counts; NULL: none */
} mr_opt_t;

/* Returns whether the row's value lies inside a state of state_sz bytes; false for an unknown
   type. */
bool mr_opt_fits(const mr_opt_t *opt, size_t state_sz);

MR_END_DECLS

#endif
