/* How fast ranks compute and exchange: a table that `millrace bench ranks` measures, or that is
   written from published figures, by which the times of a mesh are predicted.  Text, a number a
   line:

       millrace ranks 1
       source  where the numbers are from, one line
       f32-gflops 67000      products of one rank, by the type of their operands
       copy-gbs 4800         its memory, reads and writes
       equation-us 0         of each equation beside that
       call-us 8.4           of each collective, and
       message-us 3.4        of each message of it that a rank waits for
       link-gbs 450          bytes that a rank receives
       beside yes            whether collectives run beside what does not read them */
#ifndef MR_MODEL_MESH_RATES_H
#define MR_MODEL_MESH_RATES_H

#include <stdbool.h>
#include <stddef.h>

#include "base/dtype.h"
#include "base/err.h"

MR_BEGIN_DECLS

enum { MR_RATES_SOURCE = 400 };

typedef struct mr_rates {
  char source[MR_RATES_SOURCE];
  double flop_s[MR_DTYPE_COUNT]; /* by dtype; 0: that of f32 */
  double copy_s;                 /* bytes */
  double equation_s, call_s, message_s;
  double link_s; /* bytes */
  bool beside;
} mr_rates_t;

/* Parses such a text of n bytes.  MR_OK; MR_ERR_DATA with the line: an unknown name, a number that
   is none or out of range, or a name that is missing; *out is then undefined. */
mr_err_t mr_rates_parse(const char *text, size_t n, mr_rates_t *out, mr_diag_t *diag);
/* Reads the table of a name, "threads", from the program's folder share/ranks, or of a file: one
   with a / or a dot.  MR_OK; MR_ERR_CONFIG for a name without a table, with those there are;
   MR_ERR_IO; or as mr_rates_parse. */
mr_err_t mr_rates_read(const char *name, mr_rates_t *out, mr_diag_t *diag);

/* Seconds of a collective in which a rank receives `bytes` in `messages` messages. */
double mr_rates_call(const mr_rates_t *r, int messages, double bytes);
/* Seconds of an equation with these operations, of products of dtype t or others, and bytes. */
double mr_rates_equation(const mr_rates_t *r, mr_dtype_t t, double flop, double bytes);

MR_END_DECLS

#endif
