/* rows_body.inc compiled for plain C. */
#define ROWS mr__rows_plain
#include "model/backends/cpu/rows_body.inc"
