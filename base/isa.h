/* The instruction set that kernels use: the machine's fastest, or the one that the environment
   variable MILLRACE_ISA names (plain, avx2, avx512, avx512-bf16).  Decided at the first call; any
   thread. */
#ifndef MR_BASE_ISA_H
#define MR_BASE_ISA_H

#include <stdbool.h>

#include "base/decls.h"
#include "base/err.h"

MR_BEGIN_DECLS

/* Each includes the ones before it. */
typedef enum mr_isa {
  MR_ISA_PLAIN,
  MR_ISA_AVX2,
  MR_ISA_AVX512,      /* F, BW, DQ and VL */
  MR_ISA_AVX512_BF16, /* and dot products of bf16 pairs */
  MR_ISA_COUNT
} mr_isa_t;

/* Returns the set that kernels are chosen by: the one MILLRACE_ISA names, read once, or
   mr_isa_best() if it is unset, empty or wrong.  Cannot fail. */
mr_isa_t mr_isa(void);
/* Returns the fastest set that this build and machine have, at least MR_ISA_PLAIN: the last one
   that is available, except where dot products of pairs are slower than multiply-adds (isa.c). */
mr_isa_t mr_isa_best(void);
/* Returns whether this build and machine have the set. */
bool mr_isa_available(mr_isa_t isa);
/* Returns the set's name in MILLRACE_ISA, such as "plain"; static.  isa < MR_ISA_COUNT. */
const char *mr_isa_name(mr_isa_t isa);

/* Checks MILLRACE_ISA: MR_ERR_CONFIG if it names no set, MR_ERR_UNAVAILABLE if this build or
   machine lacks the set, else MR_OK.  After a failure mr_isa() is still the best set; a program
   should stop rather than run with a set that its user did not ask for. */
mr_err_t mr_isa_check(mr_diag_t *diag);

MR_END_DECLS

#endif
