#define ROWS mr__rows_avx2
#include "model/backends/cpu/rows_body.inc"
