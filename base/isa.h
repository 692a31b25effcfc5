/* Which instruction set the kernels use: the machine's best, or the one MILLRACE_ISA names
   (plain, avx2,
   avx512, avx512-bf16).  Decided at the first call; any thread. */
#ifndef MR_BASE_ISA_H
#define MR_BASE_ISA_H

#include <stdbool.h>

#include "base/decls.h"
#include "base/err.h"

MR_BEGIN_DECLS

/* Each holds the ones before it. */
typedef enum mr_isa {
  MR_ISA_PLAIN,
  MR_ISA_AVX2,
  MR_ISA_AVX512,      /* F, BW, DQ and VL */
  MR_ISA_AVX512_BF16, /* and dot products of bf16 pairs */
  MR_ISA_COUNT
} mr_isa_t;

/* What kernels are chosen by: what MILLRACE_ISA names, looked at once, else mr_isa_best. */
mr_isa_t mr_isa(void);
mr_isa_t mr_isa_best(void);            /* of those this build and machine have */
bool mr_isa_available(mr_isa_t isa);   /* in this build and on this machine */
const char *mr_isa_name(mr_isa_t isa); /* as MILLRACE_ISA says it: "plain", ... */

/* MILLRACE_ISA names nothing (MR_ERR_CONFIG) or what this build or machine lacks
   (MR_ERR_UNAVAILABLE): then mr_isa() is the best, and nobody who was told should go on. */
mr_err_t mr_isa_check(mr_diag_t *diag);

MR_END_DECLS

#endif
